//! Groups of `baton peer` processes: kills, stops, restarts, hand-over, witnesses.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use rustix::process::Signal;
use support::peers::Peers;
use support::{World, processes, until};

/// Five members; whoever leads is killed, stopped, or asked to go. CMD ignores SIGTERM, and never runs twice at a time.
fn five(algorithm: &str) {
    let world = World::folder();
    let mut peers = Peers::new(&world, algorithm, 5);
    peers.start_all();
    let all = [1, 2, 3, 4, 5];
    let (first, token) = peers.leader_among(&all, 0);

    // Killed: its warden ends CMD, the others elect. It comes back with its memory.
    peers.kill(first);
    let (second, token) = peers.leader_among(&all, token);
    assert_ne!(first, second);
    peers.start(first);

    // Stopped: its warden ends CMD before the lease does. When it goes on, it knows better.
    peers.signal(second, Signal::STOP);
    until("it is stopped", || processes::is_stopped(peers.pid(second)));
    let others: Vec<u16> = all.into_iter().filter(|id| *id != second).collect();
    let (third, token) = peers.leader_among(&others, token);
    peers.signal(second, Signal::CONT);
    until("it follows", || {
        peers.status(second).is_some_and(|status| status["leads"] == false && status["leader"] != second)
    });

    // The warden is stopped: the member ends CMD itself, and gives the leadership up.
    let warden = processes::warden(peers.pid(third)).unwrap();
    processes::signal(warden, Signal::STOP);
    let (fourth, token) = peers.leader_among(&all, token);

    // Asked to go: it hands over and leaves with the exit code of a CMD that was killed.
    assert_eq!(peers.terminate(fourth), Some(137), "{}", peers.log(fourth));
    let (fifth, token) = peers.leader_among(&all, token);
    assert_ne!(fourth, fifth);

    // Handed over by an order.
    let data = peers.data(fifth).display().to_string();
    world.ok(&["peer", "transfer", "--data", &data]);
    let (sixth, _) = peers.leader_among(&all, token);
    assert_ne!(fifth, sixth);
    peers.check();
}

#[test]
fn five_members_by_raft_never_run_two_commands_whoever_is_killed_or_stopped() {
    five("raft");
}

#[test]
fn five_members_by_paxos_never_run_two_commands_whoever_is_killed_or_stopped() {
    five("paxos");
}

/// Two members and a witness: either may die, and the witness never leads.
fn two_and_a_witness(algorithm: &str) {
    let world = World::folder();
    let mut peers = Peers::new(&world, algorithm, 3);
    peers.member(3).witness = true;
    peers.start_all();
    let (mut leader, mut token) = peers.leader_among(&[1, 2], 0);
    for _ in 0..2 {
        peers.kill(leader);
        let survivor = 3 - leader;
        (_, token) = peers.leader_among(&[survivor], token);
        peers.start(leader);
        until("it is back", || peers.status(leader).is_some_and(|status| status["leader"] == survivor));
        leader = survivor;
    }
    let witness = peers.status(3).unwrap();
    assert_eq!(witness["machine"]["led"], 0, "{witness}");
    assert!(peers.journal().iter().all(|(id, _)| *id != 3));
    assert!(witness["members"][2]["witness"].as_bool().unwrap(), "{witness}");

    // Without the witness and the other, nobody leads: the old leader says that it is read-only.
    peers.kill(3);
    peers.kill(3 - leader);
    until("it is read-only", || {
        let status = peers.status(leader).unwrap();
        status["leads"] == false && status["read_only"] == true
    });
    let runs = peers.journal().len();
    let data = peers.data(leader).display().to_string();
    assert!(world.ok(&["peer", "status", "--data", &data]).stdout.contains("read-only"));
    peers.start(3);
    let (again, _) = peers.leader_among(&[leader], token);
    assert_eq!(again, leader);
    assert!(peers.journal().len() > runs);
    until("it is not read-only any more", || peers.status(leader).unwrap()["read_only"] == false);
    peers.check();
}

#[test]
fn two_members_and_a_witness_by_raft_outlive_either_and_the_witness_never_leads() {
    two_and_a_witness("raft");
}

#[test]
fn two_members_and_a_witness_by_paxos_outlive_either_and_the_witness_never_leads() {
    two_and_a_witness("paxos");
}

#[test]
fn who_loses_its_memory_asks_before_it_votes_and_who_keeps_it_does_not() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 3);
    peers.start_all();
    let (leader, token) = peers.leader_among(&[1, 2, 3], 0);
    let others: Vec<u16> = [1, 2, 3].into_iter().filter(|id| *id != leader).collect();
    peers.kill(others[0]);
    peers.start(others[0]);
    until("it is back", || peers.status(others[0]).is_some_and(|status| status["leader"] == leader));
    assert_eq!(peers.status(others[0]).unwrap()["start"], "restarted");
    peers.kill(others[1]);
    std::fs::remove_dir_all(peers.data(others[1])).unwrap();
    peers.start(others[1]);
    until("it is back", || peers.status(others[1]).is_some_and(|status| status["leader"] == leader));
    assert_eq!(peers.status(others[1]).unwrap()["start"], "forgotten");
    // It counts again: the first may go.
    peers.kill(leader);
    peers.leader_among(&others, token);
    peers.check();
}

#[test]
fn a_member_ends_with_its_command_and_with_its_exit_code() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 1);
    peers.member(1).extra = vec!["--found".to_string()];
    let done = support::finish(peers.command(1, &["sh", "-c", "echo \"token $BATON_TOKEN $(cat $BATON_TOKEN_FILE) $(cat $BATON_MODE_FILE) $BATON_AGENT $BATON_ELECTION\"; exit 7"]), None).expect(7);
    assert_eq!(done.stdout, "token 1 1 leading peer-1 peers\n");
    assert!(done.stderr.contains("left the group (CMD ended with exit code 7)"), "{}", done.stderr);
    // The next run has another token.
    let done = support::finish(peers.command(1, &["sh", "-c", "echo $BATON_TOKEN"]), None).expect(0);
    assert_eq!(done.stdout, "2\n");
}

#[test]
fn with_bully_and_ring_there_is_no_token_and_a_warning() {
    for algorithm in ["bully", "ring"] {
        let world = World::folder();
        let peers = Peers::new(&world, algorithm, 1);
        let mut command = peers.command(1, &["sh", "-c", "env | grep -c BATON_TOKEN; echo $BATON_AGENT"]);
        // Of a run around it.
        command.env("BATON_TOKEN", "77").env("BATON_TOKEN_FILE", "/nowhere");
        let done = support::finish(command, None).expect(0);
        assert_eq!(done.stdout, "0\npeer-1\n", "{algorithm}");
        assert!(
            done.stderr.contains("WARNING: with") && done.stderr.contains("two members may lead at once")
        );
        assert!(done.stderr.contains("without a token"), "{}", done.stderr);
    }
}

#[test]
fn bully_and_ring_elect_the_highest_and_the_next_after_it() {
    for algorithm in ["bully", "ring"] {
        let world = World::folder();
        let mut peers = Peers::new(&world, algorithm, 3);
        peers.start_all();
        until("the highest leads", || peers.status(3).is_some_and(|status| status["leads"] == true));
        let runs = peers.journal().len();
        peers.kill(3);
        until("the next one leads", || {
            peers.status(2).is_some_and(|status| status["leads"] == true) && peers.journal().len() > runs
        });
        assert_eq!(peers.status(2).unwrap()["terms_are_tokens"], false);
    }
}
