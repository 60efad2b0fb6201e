//! The table, on the screen and in `docs/reference/performance.md`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use baton_store::boot;

use super::quiet::Quiet;
use super::redis;
use crate::crashes::told;
use crate::figures::short;
use crate::rounds::Rate;

/// Where it is written.
const PAGE: &str = "docs/reference/performance.md";
/// What stands below this line is kept: people write it.
const BY_HAND: &str = "<!-- What stands below is written by hand. -->";
const COLUMNS: [&str; 7] = ["work", "bar", "Baton", "beside it", "ratio", "server CPU each", "met"];

/// One line of the table.
pub(crate) struct Row([String; 7]);

impl Row {
    fn new(work: &str, bar: String, met: Option<bool>, figures: [String; 4]) -> Row {
        let [ours, peer, ratio, cpu] = figures;
        let met = match met {
            Some(true) => "yes",
            Some(false) => "**NO**",
            None => "",
        };
        Row([work.to_string(), bar, ours, peer, ratio, cpu, met.to_string()])
    }

    /// A rate that is to be so many times a peer's.
    pub(crate) fn times(work: &str, ours: Rate, peer: (&str, Rate), bar: Option<f64>) -> Row {
        let (name, theirs) = peer;
        let ratio = ours.per_second / theirs.per_second;
        let cpu = format!("{} · {name} {}", short(ours.cpu), short(theirs.cpu));
        let figures = [rate(ours), format!("{name} {}", rate(theirs)), format!("{ratio:.2} ×"), cpu];
        let words = bar.map_or(String::new(), |bar| format!("≥ {bar} × {name}"));
        Row::new(work, words, bar.map(|bar| ratio >= bar), figures)
    }

    /// A rate that has a bar of its own.
    pub(crate) fn at_least(work: &str, ours: Rate, bar: f64) -> Row {
        let words = format!("≥ {}/s", thousands(bar));
        let figures = [rate(ours), String::new(), String::new(), short(ours.cpu)];
        Row::new(work, words, Some(ours.per_second >= bar), figures)
    }

    /// A duration that has a bar of its own.
    pub(crate) fn at_most(work: &str, ours: Duration, peer: Duration, bar: Duration) -> Row {
        let figures = [short(ours), format!("etcd {}", short(peer)), quotient(ours, peer), String::new()];
        Row::new(work, format!("≤ {}", short(bar)), Some(ours <= bar), figures)
    }

    /// A duration that is to be a part of etcd's.
    pub(crate) fn part_of(work: &str, ours: Duration, peer: Duration, bar: f64) -> Row {
        let figures = [short(ours), format!("etcd {}", short(peer)), quotient(ours, peer), String::new()];
        Row::new(work, format!("≤ {bar} × etcd"), Some(ours <= peer.mul_f64(bar)), figures)
    }

    /// Memory, in bytes.
    pub(crate) fn memory(work: &str, ours: u64, peer: Option<u64>, bar: u64) -> Row {
        let megabytes = |bytes: u64| format!("{:.0} MB", bytes as f64 / 1e6);
        let beside = peer.map_or(String::new(), |bytes| format!("etcd {}", megabytes(bytes)));
        let ratio = peer.map_or(String::new(), |bytes| format!("{:.2} ×", ours as f64 / bytes as f64));
        let figures = [megabytes(ours), beside, ratio, String::new()];
        Row::new(work, format!("≤ {}", megabytes(bar)), Some(ours <= bar), figures)
    }

    /// Something that must not happen.
    pub(crate) fn never(work: &str, times: usize) -> Row {
        let figures = [times.to_string(), String::new(), String::new(), String::new()];
        Row::new(work, "0".to_string(), Some(times == 0), figures)
    }
}

fn rate(rate: Rate) -> String {
    format!("{}/s", thousands(rate.per_second))
}

fn quotient(ours: Duration, peer: Duration) -> String {
    format!("{:.3} ×", ours.as_secs_f64() / peer.as_secs_f64().max(1e-9))
}

/// A whole number with commas.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The table, in columns.
pub(crate) fn table(rows: &[Row]) -> String {
    let all: Vec<[String; 7]> =
        std::iter::once(COLUMNS.map(str::to_string)).chain(rows.iter().map(|row| row.0.clone())).collect();
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, row) in all.iter().enumerate() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!(" {cell:<width$} "));
        text.push_str(&format!("|{}|\n", cells.collect::<Vec<_>>().join("|")));
        if number == 0 {
            let lines = widths.map(|width| "-".repeat(width + 2));
            text.push_str(&format!("|{}|\n", lines.join("|")));
        }
    }
    text
}

/// What the figures were measured on, and how.
pub(crate) fn account(baton: &Path, quiet: &Quiet) -> std::io::Result<String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("", |it| it.1);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes =
        memory.lines().next().and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    let etcd = version(Command::new(told("BATON_TEST_ETCD_SERVER")?).arg("--version"), "etcd Version: ")?;
    let redis = version(redis::program()?.arg("--version"), "Redis server v=")?;
    let own = version(Command::new(baton).arg("--version"), "baton ")?;
    Ok(format!(
        "Measured at {}, on {cores} cores ({model}), {:.0} GB of memory,\nLinux {}. Baton {own}, etcd {etcd}, \
         Redis {redis}.\n{}\n",
        boot::wall(),
        kilobytes.unwrap_or(0.0) / 1e6,
        kernel.trim(),
        quiet.account(),
    ))
}

fn version(command: &mut Command, before: &str) -> std::io::Result<String> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).to_string();
    let at = text.find(before).map_or(0, |at| at + before.len());
    Ok(text[at..].split_whitespace().next().unwrap_or("?").to_string())
}

/// Writes the page, and keeps what people have written below it.
pub(crate) fn write(table: &str, account: &str) -> std::io::Result<()> {
    let before = fs::read_to_string(PAGE).unwrap_or_default();
    let kept = before.split_once(BY_HAND).map_or("\n", |(_, kept)| kept);
    let how = include_str!("how.md");
    fs::write(
        PAGE,
        format!(
            "# Speed, beside the peers\n\n`scripts/bench peers` measures this and writes this page.\n\n{account}\n{table}\n{how}\n{BY_HAND}{kept}"
        ),
    )
}
