//! The processes of the agents: to stop them, to see that they are gone, and to end what is left of them.

use std::fs;
use std::time::{Duration, Instant};

use baton_warden::descendants;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

/// How often `/proc` is read: neither a stop nor the death of another's child is reported.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Bounds on a hang.
const STOP_MAX: Duration = Duration::from_secs(2);
const ASKED_MAX: Duration = Duration::from_secs(3);
const SWEEP_MAX: Duration = Duration::from_secs(5);

/// Best effort: a process that it does not reach is gone.
pub(super) fn send(signal: Signal, pids: &[Pid]) {
    for pid in pids {
        let _ = kill_process(*pid, signal);
    }
}

/// Stops processes, in this order. If this returns true, none of them does anything.
pub(super) async fn stop(pids: &[Pid]) -> bool {
    send(Signal::STOP, pids);
    let start = Instant::now();
    while !pids.iter().all(|pid| matches!(state(*pid), None | Some('T' | 'Z'))) {
        if start.elapsed() > STOP_MAX {
            return false;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    true
}

/// Whether a process does not run any more. A zombie does not.
pub(super) fn is_gone(pid: Pid) -> bool {
    matches!(state(pid), None | Some('Z'))
}

/// What follows the program's name, which may itself hold spaces and brackets.
fn state(pid: Pid) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// Ends all descendants of this process, which is their subreaper, when it is dropped: by SIGTERM first. Blocks.
pub(super) struct Sweeper;

impl Drop for Sweeper {
    fn drop(&mut self) {
        send_all(Signal::CONT);
        send_all(Signal::TERM);
        let start = Instant::now();
        while !descendants(getpid()).is_empty() && start.elapsed() < ASKED_MAX + SWEEP_MAX {
            if start.elapsed() > ASKED_MAX {
                send_all(Signal::KILL);
            }
            for pid in descendants(getpid()) {
                // Fails for those that are not our children yet.
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

fn send_all(signal: Signal) {
    send(signal, &descendants(getpid()));
}
