//! Sixteen clones race for an election over one bare git remote. A gate in front of the remote holds each round's pushes until all sixteen
//! clones have read that nobody leads: each round is a race, however the machine schedules the clones.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::support::{Done, World, finish};

const CLONES: usize = 16;
const ROUNDS: u64 = 50;
const ELECTION: &str = "race";

/// `gate CLONE HUB`, in the place of `git receive-pack HUB`: notes that the clone wants to push in this round, and waits for the other
/// clones. It waits for less than Baton waits for a push.
const GATE: &str = r#"#!/bin/sh
gate=$(dirname "$0") clone=$1 hub=$2
round=$gate/$(cat "$gate/round")
: > "$round/$clone"
tries=0
while set -- "$round"/*; [ $# -lt 16 ] && [ $tries -lt 200 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
if [ $# -ge 16 ]; then : > "$round.full"; fi
exec git receive-pack "$hub"
"#;

fn git(folder: &Path, arguments: &[&str]) -> String {
    let done = Command::new("git").args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// A clone of the remote, with the private folders of its own user.
struct Clone {
    folder: PathBuf,
    agent: String,
}

impl Clone {
    fn make(world: &World, number: usize) -> Clone {
        let agent = format!("agent-{number}");
        git(world.path(), &["clone", "-q", "hub.git", &agent]);
        let folder = world.file(&agent);
        let gate = format!("{} {agent}", world.file("gate/gate").display());
        git(&folder, &["config", "remote.origin.receivepack", &gate]);
        Clone { folder, agent }
    }

    fn call(&self, world: &World, arguments: &[&str]) -> Done {
        let mut command = world.command(&[arguments, &["--as", &self.agent, "--json"]].concat());
        command
            .current_dir(&self.folder)
            .env("BATON_STORE", format!("git:{}?remote=origin", self.folder.display()))
            .env("BATON_STATE_DIR", self.folder.join(".git/state"))
            .env("GIT_AUTHOR_NAME", &self.agent)
            .env("GIT_AUTHOR_EMAIL", "agent@example.invalid")
            .env("GIT_COMMITTER_NAME", &self.agent)
            .env("GIT_COMMITTER_EMAIL", "agent@example.invalid");
        finish(command, None)
    }
}

#[test]
fn sixteen_clones_race_for_fifty_rounds_and_each_has_one_winner() {
    let world = World::new();
    let began = Instant::now();
    git(world.path(), &["init", "-q", "--bare", "hub.git"]);
    let gate = world.file("gate");
    fs::create_dir(&gate).unwrap();
    fs::write(gate.join("gate"), GATE).unwrap();
    fs::set_permissions(gate.join("gate"), fs::Permissions::from_mode(0o755)).unwrap();
    let clones: Vec<Clone> = (1..=CLONES).map(|number| Clone::make(&world, number)).collect();
    let mut winners = std::collections::BTreeSet::new();
    for round in 1..=ROUNDS {
        fs::create_dir(gate.join(round.to_string())).unwrap();
        fs::write(gate.join("round"), round.to_string()).unwrap();
        let race = |clone: &Clone| clone.call(&world, &["acquire", ELECTION, "--ttl", "1h"]);
        let calls: Vec<Done> = std::thread::scope(|scope| {
            let racing: Vec<_> = clones.iter().map(|clone| scope.spawn(move || race(clone))).collect();
            racing.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let won: Vec<usize> = (0..CLONES).filter(|place| calls[*place].code == 0).collect();
        assert_eq!(won.len(), 1, "round {round}: {calls:#?}");
        for call in calls.iter().filter(|call| call.code != 0) {
            assert_eq!(call.code, 3, "round {round}: {call:?}");
        }
        assert_eq!(calls[won[0]].json()["token"], round, "epochs rise by one");
        winners.insert(won[0]);
        let winner = &clones[won[0]];
        winner.call(&world, &["renew", ELECTION]).expect(0);
        winner.call(&world, &["release", ELECTION]).expect(0);
    }
    let races = (1..=ROUNDS).filter(|round| gate.join(format!("{round}.full")).exists()).count();
    eprintln!(
        "{ROUNDS} rounds in {:?}, {races} of them races of all, {} winners",
        began.elapsed(),
        winners.len()
    );
    assert!(races as u64 * 2 > ROUNDS, "only {races} races of all");

    // Fifty transitions; neither renewals nor releases are entries of their own.
    let log =
        git(&world.file("hub.git"), &["log", "--reverse", "--format=%s", &format!("refs/baton/{ELECTION}")]);
    assert_eq!(log.lines().count() as u64, ROUNDS, "{log}");
    for (line, round) in log.lines().zip(1..=ROUNDS) {
        assert!(line.starts_with(&format!("epoch {round}: agent-")), "{log}");
    }
    for clone in &clones {
        assert_eq!(git(&clone.folder, &["status", "--porcelain"]), "", "the work tree is not touched");
    }
}
