//! Groups of `baton peer` processes: kills, stops, restarts, hand-over, witnesses.
#![allow(clippy::unwrap_used, reason = "a test")]

use rustix::process::Signal;

use crate::support;
use crate::support::peers::Peers;
use crate::support::{World, processes, until};

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
    peers.belongs(second);

    // The warden is stopped: the member ends CMD itself, and gives the leadership up.
    let mut warden = None;
    until("it has a warden", || {
        warden = processes::warden(peers.pid(third));
        warden.is_some()
    });
    processes::signal(warden.unwrap(), Signal::STOP);
    let (_, token) = peers.leader_among(&all, token);

    // Asked to go: it hands over and leaves with the exit code of a CMD that was killed.
    let (fourth, token) = asked_to_go(&mut peers, &all, token - 1);
    let (fifth, token) = peers.leader_among(&all, token);
    assert_ne!(fourth, fifth);

    // Handed over by an order.
    let (fifth, token) = peers.ordered("transfer", &all, token - 1);
    let (sixth, _) = peers.leader_among(&all, token);
    assert_ne!(fifth, sixth);
    peers.check();
}

/// Asks whoever leads to go. One whose lease a busy machine has just cost it has no CMD: it leaves as one that waits does, and comes back.
fn asked_to_go(peers: &mut Peers<'_>, ids: &[u16], above: u64) -> (u16, u64) {
    for _ in 0..5 {
        let (leader, token) = peers.leader_among(ids, above);
        match peers.terminate(leader) {
            Some(137) => return (leader, token),
            code => assert_eq!(code, Some(143), "{}", peers.log(leader)),
        }
        peers.start(leader);
    }
    panic!("nobody leads for long enough to be asked to go: {}", peers.logs());
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
        peers.belongs(leader);
        (leader, token) = peers.leader_among(&[1, 2], token - 1);
    }
    let witness = peers.told(3);
    assert_eq!(witness["machine"]["led"], 0, "{witness}");
    assert!(peers.journal().iter().all(|(id, _)| *id != 3));
    assert!(witness["members"][2]["witness"].as_bool().unwrap(), "{witness}");

    // Without the witness and the other, nobody leads: the old leader says that it is read-only.
    peers.kill(3);
    peers.kill(3 - leader);
    until("it is read-only", || {
        peers.status(leader).is_some_and(|status| status["leads"] == false && status["read_only"] == true)
    });
    let runs = peers.journal().len();
    let data = peers.data(leader).display().to_string();
    assert!(world.ok(&["peer", "status", "--data", &data]).stdout.contains("read-only"));
    peers.start(3);
    let (again, _) = peers.leader_among(&[leader], token);
    assert_eq!(again, leader);
    assert!(peers.journal().len() > runs);
    until("it is not read-only any more", || {
        peers.status(leader).is_some_and(|status| status["read_only"] == false)
    });
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
    peers.belongs(others[0]);
    assert_eq!(peers.told(others[0])["start"], "restarted");
    peers.kill(others[1]);
    std::fs::remove_dir_all(peers.data(others[1])).unwrap();
    peers.start(others[1]);
    peers.belongs(others[1]);
    assert_eq!(peers.told(others[1])["start"], "forgotten");
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
        assert_eq!(peers.told(2)["terms_are_tokens"], false);
    }
}
