//! What befalls a leader, on any store: its CMD is gone before the next leader's starts.

use std::fs;

use rustix::process::Signal;

use super::stubborn::{ELECTION, StubbornRun, VALIDATOR, tree_of};
use super::watcher::Watcher;
use super::{World, exit_code, processes, until};

/// Longer than a busy machine stands still: 12 s were not. All the faults wait for its end side by side.
const LEASE: [&str; 3] = ["--ttl", "30s", "--once"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    KillRun,
    KillWarden,
    StopRun,
    StopWarden,
    /// SIGTERM to run.
    AskRun,
    /// While the validator is at work.
    KillRunThatJudges,
}

/// All of them.
pub(crate) const FAULTS: [Fault; 6] = [
    Fault::KillRun,
    Fault::KillWarden,
    Fault::StopRun,
    Fault::StopWarden,
    Fault::AskRun,
    Fault::KillRunThatJudges,
];

/// Each of the faults, at the same time, in a world of its own. What a world stands on lives as long as its play.
pub(crate) fn suffer_each<T>(
    faults: &[Fault],
    place: impl Fn() -> T + Sync,
    world: impl Fn(&T) -> World + Sync,
) {
    std::thread::scope(|scope| {
        for fault in faults {
            scope.spawn(|| {
                let place = place();
                suffer(&world(&place), *fault);
            });
        }
    });
}

/// The first leads, suffers, and the second leads after it, alone.
fn suffer(world: &World, fault: Fault) {
    let watcher = Watcher::start(world, ELECTION);
    let mut first = begin(world, fault);
    let token = first.started_alone(world);
    if fault == Fault::KillRunThatJudges {
        world.read_soon("validating");
    }
    let second = StubbornRun::start(world, "second", &LEASE);
    until("the second waits", || {
        fs::read_to_string(world.file("second.err")).unwrap_or_default().contains("waits to lead")
    });
    match fault {
        Fault::KillRun | Fault::KillRunThatJudges => {
            first.child.kill().unwrap();
            first.child.wait().unwrap();
        }
        Fault::KillWarden => processes::signal(first.warden(), Signal::KILL),
        Fault::StopRun => processes::signal(first.pid(), Signal::STOP),
        Fault::StopWarden => processes::signal(first.warden(), Signal::STOP),
        Fault::AskRun => {
            processes::signal(first.pid(), Signal::TERM);
            assert!(exit_code(&mut first.child).is_some());
            assert!(tree_of(world, token).is_empty(), "run has ended before CMD");
        }
    }
    let next = second.started_alone(world);
    assert!(next > token, "{next} after {token} ({fault:?})");
    assert!(tree_of(world, token).is_empty(), "{fault:?}");
    if fault == Fault::StopRun {
        processes::signal(first.pid(), Signal::CONT);
    }
    watcher.finish();
}

fn begin(world: &World, fault: Fault) -> StubbornRun {
    if fault != Fault::KillRunThatJudges {
        return StubbornRun::start(world, "first", &LEASE);
    }
    let options = [&LEASE[..], &["--validate", VALIDATOR]].concat();
    let end = r#"echo x > "$BATON_CHECKPOINT_FILE"; while :; do sleep 1; done"#;
    StubbornRun::launch(world, world.command(&[]), "first", &options, end)
}
