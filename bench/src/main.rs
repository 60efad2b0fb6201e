//! Measures what Baton promises about speed, each figure beside a calibration of the machine in the same run.
//!
//! `scripts/bench` builds and runs it. A figure is the median of five runs; where a run is many events, it is the percentile named.
//! Nothing here fails on a slow machine: the table says what was met.
//!
//! `etcd` and `kubernetes`, which need servers and minutes, are measured only if they are named: [`peer_etcd`],
//! [`peer_kubernetes`]; so are Baton's own [`server`], [`lab`], `peer`, which is the [`failover`] of a group without a store, and `peers`,
//! which is the server beside etcd and Redis and has a table of its own.

mod calibrate;
#[cfg(feature = "etcd")]
mod candidates;
mod command;
mod core;
mod crashes;
mod failover;
mod figures;
mod handover;
mod lab;
mod line;
mod load;
mod peer_etcd;
mod peer_kubernetes;
#[cfg(feature = "etcd")]
mod peers;
mod process;
mod raft_step;
mod rounds;
mod runs;
mod server;
mod takeover;
mod voices;

use std::path::PathBuf;

use figures::{Figure, table};

/// What is measured if nothing is named.
const ALWAYS: [&str; 6] = ["decide", "raft-step", "ensure", "status", "handover", "takeover"];
/// What is measured only if it is named.
const ON_REQUEST: [&str; 6] = ["etcd", "kubernetes", "server", "peer", "lab", "peers"];

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--stamp") => return runs::stamp(&arguments[1..]),
        Some("--take-turns") => return handover::take_turns(&arguments[1..]),
        #[cfg(feature = "etcd")]
        Some("--candidates") => return candidates::campaign(&arguments[1..]),
        Some(_) | None => {}
    }
    if arguments.first().is_some_and(|name| name.starts_with("peers")) {
        return beside_peers(&arguments);
    }
    let known = |name: &str| ALWAYS.contains(&name) || ON_REQUEST.contains(&name);
    if let Some(unknown) = arguments.iter().find(|name| !known(name)) {
        let names = [&ALWAYS[..], &ON_REQUEST].concat().join(" ");
        return Err(std::io::Error::other(format!(
            "no measurement is called `{unknown}`; there are: {names}"
        )));
    }
    figures::print(&format!("load averages before: {}\n", load::averages()))?;
    let figures = measure(&arguments)?;
    figures::print(&table(&figures))?;
    figures::print(&format!("load averages after: {}\n", load::averages()))?;
    if arguments.is_empty() {
        let names = ON_REQUEST.join(" ");
        figures::print(&format!("not measured, as it takes servers and minutes: scripts/bench {names}\n"))?;
    }
    Ok(())
}

/// `peers`, or parts of it: `peers:NAME`.
#[cfg(feature = "etcd")]
fn beside_peers(names: &[String]) -> std::io::Result<()> {
    let parts: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("peers:")).collect();
    let known = |name: &String| {
        name == "peers" || name.strip_prefix("peers:").is_some_and(|part| peers::PARTS.contains(&part))
    };
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let parts = peers::PARTS.map(|part| format!("peers:{part}")).join(" ");
        return Err(std::io::Error::other(format!("`{unknown}` is not measured beside: peers {parts}")));
    }
    peers::measure(&baton(), &parts)
}

#[cfg(not(feature = "etcd"))]
fn beside_peers(_: &[String]) -> std::io::Result<()> {
    Err(std::io::Error::other(
        "this was built without its feature `etcd`; scripts/bench builds what is needed",
    ))
}

fn baton() -> PathBuf {
    PathBuf::from(std::env::var("BATON_BIN").unwrap_or_else(|_| "target/release/baton".to_string()))
}

fn measure(names: &[String]) -> std::io::Result<Vec<Figure>> {
    let baton = baton();
    let named = |name: &str| names.iter().any(|wanted| wanted == name);
    let wanted = |name: &str| names.is_empty() || named(name);
    let mut figures: Vec<Figure> = Vec::new();
    let unit = calibrate::commit_unit()?;
    let start = calibrate::process_start()?;
    figures.push(Figure::calibration("write + fdatasync + link on this disk, p50", unit));
    figures.push(Figure::calibration("start of /bin/true, p50", start));
    figures.push(Figure::calibration("SHA-256 of 16 bytes", calibrate::hash()));
    if wanted("decide") {
        figures.push(core::decide());
    }
    if wanted("raft-step") {
        figures.push(raft_step::measure());
    }
    if wanted("ensure") {
        figures.push(core::ensure()?);
    }
    if wanted("status") {
        figures.push(command::status(&baton, start)?);
    }
    if wanted("handover") {
        figures.extend(handover::measure(unit)?);
    }
    if wanted("takeover") {
        figures.push(takeover::after_run_is_killed(&baton)?);
        figures.push(takeover::after_both_are_killed(&baton)?);
    }
    if named("etcd") {
        figures.extend(peer_etcd::measure(&baton)?);
    }
    if named("server") {
        figures.extend(server::measure(&baton)?);
    }
    if named("peer") {
        figures.extend(failover::measure(&baton)?);
    }
    if named("lab") {
        figures.extend(lab::measure(&baton)?);
    }
    if named("kubernetes") {
        figures.extend(peer_kubernetes::measure(&baton)?);
    }
    Ok(figures)
}
