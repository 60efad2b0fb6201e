//! Measures what Baton promises about speed, each figure beside a calibration of the machine in the same run.
//!
//! `scripts/bench` builds and runs it. A figure is the median of five runs unless it is a percentile over many events; nothing here
//! fails on a slow machine: the table says what was met.

mod calibrate;
mod command;
mod core;
mod figures;
mod handover;
mod takeover;

use std::path::PathBuf;

use figures::{Figure, table};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--stamp") => return takeover::stamp(),
        Some("--take-turns") => return handover::take_turns(&arguments[1..]),
        Some(_) | None => {}
    }
    let baton =
        PathBuf::from(std::env::var("BATON_BIN").unwrap_or_else(|_| "target/release/baton".to_string()));
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
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
        figures.push(handover::measure()?);
    }
    if wanted("takeover") {
        figures.push(takeover::after_run_is_killed(&baton)?);
        figures.push(takeover::after_both_are_killed(&baton)?);
    }
    figures::print(&table(&figures))
}
