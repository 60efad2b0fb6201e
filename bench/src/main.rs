//! Measures what Baton promises about speed, each figure beside a calibration of the machine in the same run.
//!
//! `scripts/bench` builds and runs it. A figure is the median of five runs; where a run is many events, it is the percentile named.
//! Nothing here fails on a slow machine: the table says what was met.
//!
//! `etcd` and `kubernetes`, which need servers and minutes, are measured only if they are named: [`peer_etcd`],
//! [`peer_kubernetes`]; so is Baton's own [`server`].

mod calibrate;
mod command;
mod core;
mod crashes;
mod figures;
mod handover;
mod load;
mod peer_etcd;
mod peer_kubernetes;
mod runs;
mod server;
mod takeover;
mod voices;

use std::path::PathBuf;

use figures::{Figure, table};

/// What is measured if nothing is named.
const ALWAYS: [&str; 5] = ["decide", "ensure", "status", "handover", "takeover"];
/// What is measured only if it is named.
const ON_REQUEST: [&str; 3] = ["etcd", "kubernetes", "server"];

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--stamp") => return runs::stamp(&arguments[1..]),
        Some("--take-turns") => return handover::take_turns(&arguments[1..]),
        Some(_) | None => {}
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

fn measure(names: &[String]) -> std::io::Result<Vec<Figure>> {
    let baton =
        PathBuf::from(std::env::var("BATON_BIN").unwrap_or_else(|_| "target/release/baton".to_string()));
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
    if named("kubernetes") {
        figures.extend(peer_kubernetes::measure(&baton)?);
    }
    Ok(figures)
}
