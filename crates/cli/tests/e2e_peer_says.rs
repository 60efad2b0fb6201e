//! What `baton peer` says when something is not as it should be: nobody can be elected, somebody does not answer, a hand-over is in vain.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::peers::{Peers, net};
use crate::support::{World, until};

/// The members' folders are where they are by default, so that all are found.
fn by_default(world: &World, peers: &Peers<'_>, ids: &[u16]) {
    let group = world.file("state").join("peers/peers");
    fs::create_dir_all(&group).unwrap();
    for id in ids {
        std::os::unix::fs::symlink(peers.data(*id), group.join(id.to_string())).unwrap();
    }
}

#[test]
fn who_is_stopped_is_named_and_keeps_nobody_waiting() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 3);
    by_default(&world, &peers, &[1, 2, 3]);
    peers.start_all();
    let (leader, _) = peers.leader_among(&[1, 2, 3], 0);
    let others: Vec<u16> = [1, 2, 3].into_iter().filter(|id| *id != leader).collect();
    let (stopped, awake) = (others[0], others[1]);
    peers.signal(stopped, Signal::STOP);
    let mut seen = None;
    // It once took ten seconds.
    until("it is named soon", || {
        let begun = Instant::now();
        seen = Some(world.call(&["peer", "status"]).expect(0));
        begun.elapsed() < Duration::from_secs(8)
    });
    let seen = seen.unwrap().stdout;
    assert!(seen.contains(&format!("member {stopped} in ")), "{seen}");
    assert!(seen.contains("does not answer: it is stopped"), "{seen}");
    assert_eq!(seen.matches(" of group peers (raft)").count(), 2, "{seen}");
    let data = world.call(&["peer", "--json", "status"]).expect(0);
    let silent = data.stdout.lines().last().unwrap();
    assert!(
        silent.contains(r#""answers":false"#) && silent.contains(&format!(r#""id":{stopped}"#)),
        "{silent}"
    );
    // Whoever leads sees that it is silent, and does not hand over to it.
    until("its silence is noticed", || {
        let seen = world.call(&["peer", "status"]).expect(0).stdout;
        seen.contains("connected, silent for") || seen.contains("out of reach")
    });
    until("it is not handed over to", || {
        let refused = world.call(&["peer", "transfer", "--to", &stopped.to_string()]);
        refused.code == 3 && refused.stderr.contains(&format!("member {stopped} "))
    });
    until("the other one leads", || {
        let leads = peers.status(awake).is_some_and(|status| status["leads"] == true);
        if !leads {
            world.call(&["peer", "transfer", "--to", &awake.to_string()]);
        }
        leads
    });
    peers.leader_among(&[awake], 0);
    peers.signal(stopped, Signal::CONT);
    peers.check();
}

#[test]
fn a_group_that_cannot_elect_says_who_is_missing() {
    let world = World::folder();
    let net = net();
    let list: Vec<String> = (1..=3).map(|id| format!("{id}={net}.{id}:7001")).collect();
    let start = |id: usize| {
        let mut words = vec!["peer", "--algorithm", "raft", "--lan", "--data"];
        let (number, data, log) = (id.to_string(), format!("data-{id}"), world.file(&format!("log-{id}")));
        words.extend([data.as_str(), "--id", number.as_str()]);
        words.extend(list.iter().flat_map(|peer| ["--peer", peer.as_str()]));
        words.extend(["--", "sleep", "100000"]);
        world.command(&words).stderr(fs::File::create(log).unwrap()).spawn().unwrap()
    };
    let mut running = [start(1), start(2)];
    let says =
        |id: usize, text: &str| fs::read_to_string(world.file(&format!("log-{id}"))).unwrap().contains(text);
    for id in [1, 2] {
        until("it says who is missing", || {
            says(id, "no leader is known: it waits to hear from all members") && says(id, "missing: 3")
        });
        assert!(says(id, "(raft, new, or without its memory)"));
        let data = format!("data-{id}");
        let seen = world.call(&["peer", "status", "--data", &data]).expect(0).stdout;
        assert!(seen.contains("waits and does not vote") && seen.contains("missing: 3"), "{seen}");
    }
    for child in &mut running {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_restart_with_another_list_and_a_witness_with_a_command_are_told_of() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 1);
    peers.start(1);
    peers.leader_among(&[1], 0);
    peers.kill(1);
    let net = net();
    peers.know(2, &format!("{net}.2:7001"));
    peers.start(1);
    until("it says which list counts", || peers.log(1).contains("the members are 1, as this one remembers"));
    assert!(peers.log(1).contains("member 1 of 1 of group peers"), "{}", peers.log(1));
    let list = [format!("1={net}.3:7001,witness"), format!("2={net}.2:7001")];
    let words = [
        "peer",
        "--algorithm",
        "raft",
        "--id",
        "1",
        "--peer",
        &list[0],
        "--peer",
        &list[1],
        "--witness",
        "--data",
        "w",
    ];
    let log = world.file("log-w");
    let mut witness = world
        .command(&[&words[..], &["--", "true"]].concat())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    until("it says that CMD is not run", || fs::read_to_string(&log).unwrap().contains("CMD is never run"));
    witness.kill().unwrap();
    witness.wait().unwrap();
}

#[test]
fn who_asks_the_wrong_one_or_in_the_wrong_way_is_told_the_right_one() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 1);
    fs::write(world.file("members"), format!("1={}\n", peers.address(1))).unwrap();
    peers.file = Some(world.file("members"));
    peers.start(1);
    peers.leader_among(&[1], 0);
    let address = peers.address(1);
    let other = world.call(&["peer", "status", "--connect", &format!("2={address}")]).expect(1);
    assert!(other.stderr.contains("it is member 1"), "{}", other.stderr);
    assert!(other.stderr.contains(&format!("hint: name it so: --connect 1={address}")), "{}", other.stderr);
    let data = peers.data(1).display().to_string();
    let filed = world.call(&["peer", "members", "remove", "1", "--data", &data]).expect(3);
    assert!(filed.stderr.contains("hint: change ") && filed.stderr.contains("/members"), "{}", filed.stderr);
    for (words, why) in [
        (&["peer", "--group", "eu", "status"][..], "`--group` stands before `status`"),
        (&["peer", "--algorithm", "raft", "--id", "1", "status"], "`--algorithm` stands before `status`"),
        (&["peer", "--store", "file:x", "status"], "baton peer uses no store"),
        (
            &["lab", "tune", "--rtt", "1ms", "--loss", "1%", "--failover", "9s", "--store", "x"],
            "baton lab uses no store",
        ),
    ] {
        let done = world.call(words).expect(2);
        assert!(done.stderr.contains(why), "{words:?}: {}", done.stderr);
    }
}
