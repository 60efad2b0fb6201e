//! Sixteen candidates on every store; the holder and its warden are killed, again and again, half of the wall clocks are wrong,
//! and the record is deleted by hand.
#![cfg(feature = "all-stores")]
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run")]

use std::fs::File;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support;
use crate::support::test_stores::{self, TestStore, in_each_server};
use crate::support::watcher::Watcher;
use crate::support::{World, clocks, processes};

const ELECTION: &str = "fleet";
const CANDIDATES: usize = 16;
const KILLS: usize = 20;
/// In the middle of it, the record is deleted.
const DELETED_AFTER: usize = 10;

/// Longer where each step of a candidate is a process of its own, and where sixteen who ask at once are served one after the other:
/// the emulator aborts all transactions but one.
fn ttl(world: &World) -> &'static str {
    if ["git:", "spanner:"].iter().any(|scheme| world.url().starts_with(scheme)) { "4s" } else { "2s" }
}

/// How long after a kill somebody must lead. A bound on a hang: the store and sixteen candidates share two cores.
const SOON: Duration = Duration::from_secs(240);

/// CMD: says who leads, with which token, and what its wall clock shows.
const WORKER: &str = r#"
clock=$(date +%s) && printf '%s %s %s\n' "$BATON_TOKEN" "$BATON_AGENT" "$clock" >> "$E2E_WORLD/started"
while :; do sleep 0.05; done
"#;

/// One who wants to lead.
struct Candidate {
    child: Child,
    log: PathBuf,
    /// How long the log was before this life.
    said: usize,
}

impl Candidate {
    /// Whether it has looked at the election: it does so before it says that it waits, or leads.
    fn has_looked(&self) -> bool {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        ["waits to lead", "leads"].iter().any(|word| said[self.said..].contains(word))
    }
}

fn candidate(world: &World, number: usize) -> Candidate {
    let (agent, ttl) = (format!("agent-{number}"), ttl(world));
    let mut command =
        world.command(&["run", ELECTION, "--as", &agent, "--ttl", ttl, "--", "sh", "-c", WORKER]);
    command.envs(clocks::environment(number));
    let append = |kind: &str| {
        let path = world.file(&format!("{agent}.{kind}"));
        File::options().append(true).create(true).open(path).unwrap()
    };
    let log = world.file(&format!("{agent}.err"));
    let said = std::fs::read_to_string(&log).unwrap_or_default().len();
    let child = command.stdout(append("out")).stderr(append("err")).spawn().unwrap();
    Candidate { child, log, said }
}

fn play(place: Option<TestStore>) {
    let Some(place) = place else { return };
    let world = World::on(&place.url);
    world.ok(&["init"]);
    let findings = world.ok(&["doctor", "--write", "--json"]).jsons();
    assert!(
        findings.iter().any(|finding| finding["check"] == "write" && finding["verdict"] == "ok"),
        "{findings:?}"
    );
    let watcher = Watcher::start(&world, ELECTION);
    let mut candidates: Vec<Candidate> = (1..=CANDIDATES).map(|number| candidate(&world, number)).collect();
    let mut longest = Duration::ZERO;
    let mut led: Vec<u64> = Vec::new();
    for kill in 0..=KILLS {
        let (begun, mut leader) = (Instant::now(), None);
        let led_again = support::happens(SOON, || {
            let findings = watcher.findings();
            leader =
                findings.leader().filter(|tree| led.last().is_none_or(|last| tree.token > *last)).cloned();
            leader.is_some()
        });
        assert!(led_again, "nobody leads after {kill} kills on {}: {}", world.url(), logs(&world));
        longest = longest.max(if kill == 0 { Duration::ZERO } else { begun.elapsed() });
        let leader = leader.unwrap();
        led.push(leader.token);
        if kill == KILLS {
            break;
        }
        let deleted = place.delete.as_ref().filter(|_| kill == DELETED_AFTER);
        if let Some(delete) = deleted {
            // The promise holds for a candidate that saw the lease.
            let all_look = || candidates.iter().all(Candidate::has_looked);
            assert!(support::happens(SOON, all_look), "somebody does not look: {}", logs(&world));
            delete(ELECTION);
        }
        let number: usize = leader.agent.trim_start_matches("agent-").parse().unwrap();
        // Not even the warden is left to release: the lease must run out.
        processes::kill_with_warden(&mut candidates[number - 1].child);
        if deleted.is_some() {
            // On etcd and Kubernetes who comes anew finds no trace of the lease and takes the lead at once, and a kill ends the CMD,
            // not what it has just started. Nor does the deletion end at once who took over a moment before it.
            let told = || world.call(&["status", ELECTION]).code == 0;
            let gone = || processes::of_commands(world.mark()).is_empty() || told();
            assert!(support::happens(SOON, gone), "what {leader:?} ran outlives it");
        }
        candidates[number - 1] = candidate(&world, number);
    }
    led.extend(let_every_clock_lead(&world, &watcher, &mut candidates));
    // Whoever led last may have been seen before it had written, and been the first of its kind all the same.
    led.dedup();
    assert!(led.is_sorted_by(|a, b| a < b), "{led:?}");
    for candidate in &candidates {
        processes::signal(candidate.child.id(), Signal::TERM);
    }
    for candidate in &mut candidates {
        support::exit_code(&mut candidate.child);
    }
    let findings = watcher.finish();
    let starts = clocks::starts(&test_stores::log(&world));
    clocks::assert_moved(&starts);
    let tokens: Vec<u64> = starts.iter().map(|start| start.token).collect();
    assert!(tokens.is_sorted_by(|a, b| a < b), "tokens rise strictly: {tokens:?}");
    eprintln!(
        "{}: {KILLS} kills of holder and warden, {} leaderships, tokens {} to {}, longest without a leader {longest:?}, {} looks",
        world.url().split(":").next().unwrap_or_default(),
        findings.trees.len(),
        tokens[0],
        tokens[tokens.len() - 1],
        findings.looks,
    );
}

/// By chance nobody with a clock of some kind may have led yet: then only such are left. Returns the tokens.
fn let_every_clock_lead(world: &World, watcher: &Watcher, candidates: &mut [Candidate]) -> Vec<u64> {
    let mut led = Vec::new();
    for kind in clocks::kinds(CANDIDATES) {
        let of_kind = |agent: &str| kind.iter().any(|number| agent == format!("agent-{number}"));
        // A CMD that runs has not yet said so: what it wrote is what counts.
        let has_led = || clocks::starts(&test_stores::log(world)).iter().any(|start| of_kind(&start.agent));
        if has_led() {
            continue;
        }
        for (number, one) in (1..).zip(&mut *candidates) {
            if !kind.contains(&number) {
                processes::signal(one.child.id(), Signal::TERM);
                support::exit_code(&mut one.child);
            } else if one.child.try_wait().unwrap().is_some() {
                *one = candidate(world, number);
            }
        }
        let leads = || watcher.findings().leader().filter(|tree| of_kind(&tree.agent)).map(|tree| tree.token);
        assert!(
            support::happens(SOON, || leads().is_some() && has_led()),
            "none of {kind:?} leads: {}",
            logs(world)
        );
        led.extend(leads());
    }
    led
}

/// The last lines of everybody, for whoever must understand a failure.
fn logs(world: &World) -> String {
    let tail = |number: usize| {
        let text = std::fs::read_to_string(world.file(&format!("agent-{number}.err"))).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        format!("agent-{number}: {lines:?}\n")
    };
    (1..=CANDIDATES).map(tail).collect()
}

#[test]
fn on_a_folder() {
    play(test_stores::file());
}

#[test]
fn on_git() {
    play(test_stores::git());
}

#[test]
fn on_etcd_of_three() {
    play(test_stores::etcd_of_three());
}

fn play_at(place: impl Fn() -> Option<TestStore>) {
    play(place());
}

in_each_server!(play_at);
