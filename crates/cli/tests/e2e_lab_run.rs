//! `baton lab run` and `baton lab replay`, as a person and as a program see them.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support::World;

#[test]
fn many_seeds_are_played_and_told_in_numbers() {
    let world = World::new();
    let told = world.json(&["lab", "run", "--algorithm", "raft", "--seeds", "40"]);
    assert_eq!((told["outcome"].as_str(), told["seeds"].as_u64()), (Some("clean"), Some(40)));
    assert_eq!(told["two_leaders_ms"], 0);
    assert!(told["speed_up"].as_f64().unwrap() > 1.0, "{told}");
    let again = world.json(&["lab", "run", "--algorithm", "raft", "--seeds", "40", "--threads", "1"]);
    // No more are started than there is work for.
    world.ok(&["lab", "run", "--algorithm", "raft", "--seeds", "2", "--threads", "1000000"]);
    for field in ["simulated_ms", "messages", "leaderships", "writes_refused"] {
        assert_eq!(told[field], again[field], "{field} does not depend on the threads");
    }
    assert!(!world.store().exists(), "the laboratory touches no store");
}

#[test]
fn the_split_brain_of_the_textbooks_is_shown() {
    let world = World::new();
    let arguments = ["lab", "run", "--algorithm", "bully", "--scenario", "partition", "--seeds", "40"];
    let shown = world.ok(&arguments).stdout;
    assert!(shown.contains("does not promise one leader"), "{shown}");
    let told = world.json(&arguments);
    assert!(told["two_leaders_ms"].as_u64().unwrap() > 0, "{told}");
}

#[test]
fn a_run_is_replayed_the_same_every_time_and_drawn() {
    let world = World::new();
    let picture = world.file("run.svg");
    let replay = ["lab", "replay", "--algorithm", "paxos", "--seed", "5", "--svg", picture.to_str().unwrap()];
    let (first, second) = (world.ok(&replay).stdout, world.ok(&replay).stdout);
    assert_eq!(first, second);
    assert!(first.contains("LEADS in term") && first.contains("HEALED"), "{first}");
    let svg = std::fs::read_to_string(picture).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    let events =
        world.ok(&["lab", "replay", "--algorithm", "lease", "--seed", "5", "--quiet", "--json"]).jsons();
    assert!(events.iter().any(|event| event["event"] == "leads"), "{events:?}");
    assert_eq!(events.last().unwrap()["outcome"], "clean");
}

#[test]
fn wrong_wishes_are_told_of() {
    let world = World::new();
    let run = |more: &[&str]| world.call(&[&["lab", "run"], more].concat()).expect(2).stderr;
    assert!(
        run(&["--algorithm", "zab"]).contains("there are raft, paxos, bully, ring, lease, lease-observed")
    );
    assert!(run(&["--algorithm", "raft", "--scenario", "rain"]).contains("there are partition"));
    assert!(run(&["--algorithm", "raft", "--nodes", "0"]).contains("--nodes"));
    assert!(run(&["--algorithm", "raft", "--seeds", "0"]).contains("--seeds"));
    let last = u64::MAX.to_string();
    assert!(run(&["--algorithm", "raft", "--from", &last, "--seeds", "2"]).contains("the last seed is"));
    let replay = |file: &str| {
        world.call(&["lab", "replay", "--algorithm", "ring", "--seed", "1", "--quiet", "--svg", file])
    };
    let nowhere = replay("/nowhere/x.svg").expect(2).stderr;
    assert!(
        nowhere.contains("there is no folder /nowhere") && nowhere.contains("mkdir -p /nowhere"),
        "{nowhere}"
    );
    // Nothing is computed for a file that cannot be written.
    let never = ["lab", "compare", "--seeds", "100000", "--html", "/proc/x.html"];
    for failed in [replay("/proc/x.svg"), world.call(&never)] {
        let failed = failed.expect(1).stderr;
        assert!(failed.contains("cannot write /proc/x.") && failed.contains("hint:"), "{failed}");
    }
}
