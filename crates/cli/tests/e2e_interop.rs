//! Beside what people already run: client-go on one Lease, `etcdctl elect` on one prefix.
#![cfg(feature = "all-stores")]
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use baton::store::boot;
use rustix::process::Signal;

use crate::support::World;
use crate::support::test_stores::{self, at};
use crate::support::{journal, processes};

/// A bound on a hang.
const HANG: Duration = Duration::from_secs(400);

/// Leads for a moment, again and again, as one `baton run` after the other.
fn take_turns(world: &World, log: &Path, pause: Duration, enough: &AtomicBool) {
    while !enough.load(Ordering::Acquire) {
        let mut command = world.command(&["run", "e", "--as", "baton", "--ttl", "15s", "--wait", "60s"]);
        command.args(["--", "sh", "-c", journal::CMD]).env("JOURNAL", log).env("HOLD", "0.1");
        let done = command.output().unwrap();
        // Whoever waited in vain at the end is no failure.
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() || enough.load(Ordering::Acquire), "{said}");
        std::thread::sleep(pause);
    }
}

/// Waits until the leadership has gone from one to the other so often, and fails if two ever led at once.
fn hand_overs(log: &Path, wanted: usize) -> usize {
    let begun = Instant::now();
    loop {
        let count = journal::check(&journal::terms(log));
        if count >= wanted || begun.elapsed() > HANG {
            return count;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn client_go_and_baton_on_one_lease_never_lead_at_once() {
    let Some(place) = test_stores::kubernetes() else { return };
    let Some(elector) = at("BATON_TEST_CLIENT_GO_ELECTOR") else { return };
    let kubeconfig = at("BATON_TEST_KUBECONFIG").unwrap();
    let namespace = place.url.trim_start_matches("k8s://").split('?').next().unwrap().to_string();
    let world = World::on(&place.url);
    let log = world.file("journal");
    let mut peer = Command::new(elector);
    peer.args([
        "--kubeconfig",
        &kubeconfig,
        "--namespace",
        &namespace,
        "--lease",
        "e",
        "--identity",
        "client-go",
    ]);
    // All of them release: their leases only have to outlast a machine that stands still. client-go, which has no warden, would write
    // down too late that it has stopped.
    peer.args(["--lease-duration", "15s", "--renew-deadline", "10s", "--retry-period", "100ms"]);
    peer.args(["--hold", "100ms", "--rest", "100ms", "--loop", "--log"]).arg(&log);
    let mut peer: Child = peer.stderr(Stdio::null()).spawn().unwrap();
    let enough = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        scope.spawn(|| take_turns(&world, &log, Duration::from_millis(300), &enough));
        let count = hand_overs(&log, 100);
        enough.store(true, Ordering::Release);
        count
    });
    processes::signal(peer.id(), Signal::TERM);
    peer.wait().unwrap();
    let terms = journal::terms(&log);
    journal::check(&terms);
    let ours = terms.iter().filter(|term| term.who == "baton").count();
    eprintln!(
        "{count} hand-overs between client-go and Baton, {ours} of {} leaderships Baton's",
        terms.len()
    );
    assert!(count >= 100, "{count} hand-overs");
    assert!(ours >= 20 && terms.len() - ours >= 20);
}

/// One leadership of `etcdctl elect`: written down when it says that it leads, and before it is asked to resign.
fn elect(etcdctl: &str, endpoints: &str, election: &str, log: &Path) {
    let mut command = Command::new(etcdctl);
    command.args(["--endpoints", endpoints, "elect", election, "etcdctl"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The key, then the value; or neither, if etcd was too slow for it.
    if !matches!(lines.next(), Some(Ok(_))) {
        child.wait().unwrap();
        return;
    }
    write(log, &format!("start etcdctl {}", boot::now().as_nanos()));
    std::thread::sleep(Duration::from_millis(100));
    write(log, &format!("stop etcdctl {}", boot::now().as_nanos()));
    processes::signal(child.id(), Signal::INT);
    child.wait().unwrap();
}

fn write(log: &Path, line: &str) {
    use std::io::Write;
    let mut file = std::fs::File::options().append(true).create(true).open(log).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

#[test]
fn etcdctl_elect_and_baton_on_one_prefix_never_lead_at_once() {
    let (Some(endpoints), Some(etcdctl)) = (at("BATON_TEST_ETCD"), at("BATON_TEST_ETCDCTL")) else { return };
    let prefix = test_stores::unique("n");
    let world = World::on(&format!("etcd://{endpoints}/{prefix}?election=etcd"));
    let log = world.file("journal");
    let enough = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        scope.spawn(|| take_turns(&world, &log, Duration::ZERO, &enough));
        scope.spawn(|| {
            while !enough.load(Ordering::Acquire) {
                elect(&etcdctl, &endpoints, &format!("{prefix}/e"), &log);
            }
        });
        let count = hand_overs(&log, 50);
        enough.store(true, Ordering::Release);
        count
    });
    let terms = journal::terms(&log);
    journal::check(&terms);
    eprintln!("{count} hand-overs between etcdctl elect and Baton, {} leaderships", terms.len());
    assert!(count >= 50, "{count} hand-overs");
}
