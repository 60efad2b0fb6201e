//! What `baton peer` does when somebody or something beside it stands still or fails: whoever reads what it says, and its disk.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::support;
use crate::support::peers::{Peers, STEADY};
use crate::support::{World, until};

/// A pipe into which not a byte fits, and its other end, which nobody reads.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
    rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    for size in [4_096, 1] {
        while writer.write(&vec![b'.'; size]).is_ok() {}
    }
    rustix::fs::fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

#[test]
fn a_terminal_that_is_held_stops_neither_heartbeats_nor_the_command() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 1);
    peers.rhythm = STEADY;
    let (_unread, stuck) = full_pipe();
    let mut command = peers.command(1, &["sh", "-c", "echo $BATON_TOKEN >> began; exec sleep 100000"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stuck);
    let mut child = command.spawn().unwrap();
    until("it leads", || peers.status(1).is_some_and(|status| status["leads"] == true));
    until("CMD runs", || world.file("began").exists());
    // Leases later, it still does: the lease is renewed, and the warden was told so.
    let steps = |status: serde_json::Value| status["machine"]["steps"].as_u64().unwrap();
    let before = steps(peers.told(1));
    until("many heartbeats later", || peers.status(1).is_some_and(|status| steps(status) > before + 60));
    assert_eq!(peers.told(1)["machine"]["led"], 1);
    assert_eq!(fs::read_to_string(world.file("began")).unwrap().lines().count(), 1);
    // It leaves as it is asked to, although its last words cannot be written.
    support::processes::signal(child.id(), rustix::process::Signal::TERM);
    assert_eq!(support::exit_code(&mut child), Some(143));
}

#[test]
fn a_leader_that_cannot_keep_what_it_must_exits_with_seven_and_no_panic() {
    for algorithm in ["paxos", "raft"] {
        let world = World::folder();
        let mut peers = Peers::new(&world, algorithm, 1);
        peers.rhythm = STEADY;
        peers.start(1);
        let (_, token) = peers.leader_among(&[1], 0);
        // In the way of what is written next: with Paxos at the next heartbeat, with Raft when its list changes.
        // While the peer writes, a file of that name is there.
        let in_the_way = peers.data(1).join("state.next");
        until("a folder is in the way", || fs::create_dir(&in_the_way).is_ok());
        if algorithm == "raft" {
            let data = peers.data(1).display().to_string();
            let address = peers.address(1);
            let _ =
                world.call(&["peer", "members", "add", &format!("1={address},priority=9"), "--data", &data]);
        }
        assert_eq!(peers.ended(1), Some(7), "{}", peers.log(1));
        let log = peers.log(1);
        assert!(log.contains("state.next") && !log.contains("panicked"), "{log}");
        assert_eq!(peers.journal(), [(1, token)]);
        peers.check();
    }
}
