//! What else the machine does meanwhile, and chance.

use std::fs;
use std::time::Duration;

/// From which share of its cores the machine counts as busy. Waiting for a lease to end takes next to nothing.
pub(crate) const BUSY: f64 = 0.3;

/// A span below the bound, each as likely as the other.
pub(crate) fn random(bound: Duration) -> Duration {
    let mut bytes = [0; 4];
    let drawn =
        getrandom::fill(&mut bytes).map_or(0.5, |()| f64::from(u32::from_le_bytes(bytes)) / 2f64.powi(32));
    bound.mul_f64(drawn)
}

/// The load averages over the last 1, 5 and 15 minutes, and what they are to be compared with.
pub(crate) fn averages() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages = text.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{averages} on {cores} cores")
}

/// How many of some rounds were measured while the machine was busy.
#[derive(Default)]
pub(crate) struct Busy {
    rounds: usize,
    busy: usize,
}

impl Busy {
    /// Carries out a round, and notes how busy the cores were, with whatever.
    pub(crate) fn during<T>(&mut self, round: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
        let before = ticks();
        let done = round()?;
        let after = ticks();
        let share = (after.0 - before.0) / (after.1 - before.1).max(1.0);
        self.rounds += 1;
        self.busy += usize::from(share > BUSY);
        Ok(done)
    }

    /// Such as `3 of 80`.
    pub(crate) fn count(&self) -> String {
        format!("{} of {}", self.busy, self.rounds)
    }
}

/// The clock ticks of all cores since boot: those at work, and all.
pub(crate) fn ticks() -> (f64, f64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    // The guests that follow are part of the first two.
    let numbers: Vec<f64> = numbers.take(8).filter_map(|number| number.parse().ok()).collect();
    let all: f64 = numbers.iter().sum();
    let idle: f64 = numbers.iter().skip(3).take(2).sum();
    (all - idle, all)
}
