//! What a tree of processes takes of the machine, read from `/proc`.
//!
//! Assumes that `/proc` is mounted. Guarantees to look at a bounded number of processes. Does not guarantee a consistent picture: processes fork and
//! die while it is read; what one had used that died unwaited-for is not counted.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, getpid};

use crate::process_tree::ProcessTree;

/// The kernel counts time in hundredths of a second for whoever reads `/proc` (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// What some processes take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a core since they began, that of children that were waited for included.
    pub cpu: Duration,
    /// Memory that they have.
    pub memory_bytes: u64,
    /// How many there are.
    pub processes: usize,
}

/// What all descendants of this process take.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn of_descendants() -> io::Result<Usage> {
    let mut usage = Usage::default();
    for pid in ProcessTree::look()?.descendants(getpid()) {
        let Some(ticks) = ticks(pid) else { continue };
        usage.cpu += Duration::from_millis(ticks.saturating_mul(1_000 / TICKS_PER_SECOND));
        usage.memory_bytes = usage.memory_bytes.saturating_add(resident(pid).unwrap_or(0));
        usage.processes += 1;
    }
    Ok(usage)
}

/// Time on a core, in the kernel's ticks; none if there is no such process.
fn ticks(pid: Pid) -> Option<u64> {
    let bytes = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    parse_ticks(&String::from_utf8_lossy(&bytes))
}

/// Fields 14 to 17 of proc(5): its own, in user and in system mode, and those of its children. The name may hold spaces and parentheses.
fn parse_ticks(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once(") ")?;
    let counts = rest.split(' ').skip(11).take(4).map(str::parse::<u64>);
    counts
        .collect::<Result<Vec<u64>, _>>()
        .ok()
        .filter(|counts| counts.len() == 4)
        .map(|counts| counts.iter().sum())
}

fn resident(pid: Pid) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        let text = "42 (a) S 1 9 9) S 7 42 42 0 -1 4194560 1 0 0 0 5 6 7 8 20 0 1 0 98765 0 0";
        assert_eq!(parse_ticks(text), Some(26));
        assert_eq!(parse_ticks("42 (a) S 7 42"), None);
    }

    #[test]
    fn a_child_takes_something() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let usage = of_descendants();
        child.kill().unwrap();
        child.wait().unwrap();
        let usage = usage.unwrap();
        assert!(usage.processes >= 1 && usage.memory_bytes > 0, "{usage:?}");
    }
}
