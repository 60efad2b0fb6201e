//! Wall clocks that are an hour off.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const HOUR: i64 = 3_600;
const PLACES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
];

/// The library that moves the wall clock of a process; without it the clocks are right, said loudly, and under CI it fails.
fn libfaketime() -> Option<PathBuf> {
    let found = match std::env::var_os("BATON_FAKETIME_LIB") {
        Some(named) => Some(PathBuf::from(named)),
        None => PLACES.iter().map(PathBuf::from).find(|path| path.exists()),
    };
    if found.is_none() {
        super::skip("no libfaketime; hint: install it (Debian: apt-get install libfaketime)");
    }
    found
}

/// Whether clocks can be moved here.
pub(crate) fn can_be_moved() -> bool {
    libfaketime().is_some()
}

/// Those of these agents whose clock is an hour late, right and early.
pub(crate) fn kinds(agents: usize) -> [Vec<usize>; 3] {
    [-HOUR, 0, HOUR].map(|off| (1..=agents).filter(|number| offset(*number) == off).collect())
}

/// How far the clock of an agent of this number is off, in seconds: half of them are.
fn offset(number: usize) -> i64 {
    match number % 4 {
        1 => HOUR,
        2 => -HOUR,
        _ => 0,
    }
}

/// What an agent of this number is started with.
pub(crate) fn environment(number: usize) -> Vec<(String, String)> {
    let offset = offset(number);
    let Some(library) = libfaketime().filter(|_| offset != 0) else { return Vec::new() };
    let pair = |name: &str, value: String| (name.to_string(), value);
    vec![
        pair("LD_PRELOAD", library.display().to_string()),
        pair("FAKETIME", format!("{offset:+}")),
        pair("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_string()),
    ]
}

/// What a CMD wrote at its start: token, agent, seconds of its wall clock. One that is ended while it asks for the time writes nothing.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) token: u64,
    pub(crate) agent: String,
    clock: i64,
}

pub(crate) fn starts(log: &Path) -> Vec<Start> {
    let parse = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let (token, clock) = (words[0].parse().unwrap(), words[2].parse().unwrap());
        Start { token, agent: words[1].to_string(), clock }
    };
    // Before the first of them there is no log. The last line may be half of one, at a moment.
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(parse).collect()
}

/// Whether somebody with a clock of each kind has led, of so many agents.
pub(crate) fn each_kind_has_led(starts: &[Start], agents: usize) -> bool {
    let led = |number: &usize| starts.iter().any(|start| start.agent == format!("agent-{number}"));
    kinds(agents).iter().all(|kind| kind.iter().any(led))
}

/// Fails unless leaders had clocks an hour late, right and early, each as it was told.
pub(crate) fn assert_moved(starts: &[Start]) {
    if !can_be_moved() {
        return;
    }
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
    let mut moved = [0, 0, 0];
    for Start { agent, clock, .. } in starts {
        let number: usize = agent.trim_start_matches("agent-").parse().unwrap();
        let off = clock - now - offset(number);
        assert!(off.abs() < HOUR / 2, "the clock of {agent} is off by {} s", clock - now);
        moved[usize::try_from(offset(number) / HOUR + 1).unwrap()] += 1;
    }
    assert!(moved.iter().all(|count| *count > 0), "leaders with clocks late, right and early: {moved:?}");
}
