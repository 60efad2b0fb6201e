//! Scenarios: text files that show what a group does, step by step.
//!
//! Each file in `scenarios/paxos` holds commands, a line `----`, and the trace that they leave. `UPDATE_EXPECT=1` rewrites the
//! traces; read the difference before you commit it, since the trace is the specification. Tokens and ballots are written as
//! round and owner: `3.2` is the third round's ballot of member 2.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use baton_election::Span;
use baton_peer::paxos::ballot;
use baton_peer::{Input, Member, NodeId, Notice, Start, Term};
use expect_test::expect_file;

use crate::paxos_world::{MS, World, id};

fn member(word: &str) -> Member {
    let (word, priority) = word.split_once(':').unwrap_or((word, "0"));
    let number = word.trim_end_matches('w');
    Member {
        witness: word.ends_with('w'),
        priority: priority.parse().unwrap(),
        ..Member::plain(number.parse().unwrap())
    }
}

fn number(word: &str) -> u16 {
    word.parse::<NodeId>().unwrap().number()
}

fn token(term: Term) -> String {
    let owner = ballot::owner(term).map_or(0, NodeId::number);
    format!("{}.{owner}", ballot::round(term))
}

fn notice(what: &Notice) -> String {
    match what {
        Notice::Leads { term, until } => {
            let until = until.map_or(0, |until| until.as_nanos() / MS);
            format!("leads with token {} until {until} ms", token(*term))
        }
        Notice::Extended { until, .. } => format!("has its lease until {} ms", until.as_nanos() / MS),
        Notice::Stop { term } => format!("shall stop its work under {}", token(*term)),
        Notice::Lost { term, why } => format!("has lost {}: {why:?}", token(*term)),
        Notice::Follows { leader, term } => format!("follows {leader} with {}", token(*term)),
        Notice::Leaderless { .. } => "knows no leader".to_string(),
        Notice::Members(group) => {
            let ids: Vec<String> = group.members().iter().map(|member| member.id.to_string()).collect();
            format!("has the members {}", ids.join(" "))
        }
        Notice::Refused(why) => format!("refuses: {why}"),
    }
}

/// What was told since the mark; of renewals one after the other only the last.
fn told(world: &World, mark: usize) -> String {
    let mut text = String::new();
    let mut last: BTreeMap<u16, usize> = BTreeMap::new();
    for (at, (_, by, what)) in world.told.iter().enumerate().skip(mark) {
        if matches!(what, Notice::Extended { .. }) {
            last.insert(*by, at);
        }
    }
    for (at, (when, by, what)) in world.told.iter().enumerate().skip(mark) {
        if !matches!(what, Notice::Extended { .. }) || last.get(by) == Some(&at) {
            writeln!(text, "{:>5} ms: {by} {}", when / MS, notice(what)).unwrap();
        }
    }
    text
}

fn sent(world: &World, mark: usize) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, _, _) in &world.sent[mark..] {
        *counts.entry(kind).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if counts.is_empty() { String::new() } else { format!("messages: {}\n", counts.join(", ")) }
}

fn views(world: &World) -> String {
    let mut text = String::new();
    for number in world.numbers() {
        let Some(view) = world.view(number) else {
            writeln!(text, "{number}: down").unwrap();
            continue;
        };
        let leader = view.leader.map_or("nobody".to_string(), |leader| leader.to_string());
        let read_only = if view.read_only { ", read-only" } else { "" };
        let term = token(view.term);
        writeln!(text, "{number}: {:?}, ballot {term}, leader {leader}{read_only}", view.role).unwrap();
    }
    text
}

fn disks(world: &World) -> String {
    let mut text = String::new();
    for (number, node) in &world.nodes {
        let Some(saved) = &node.saved else {
            writeln!(text, "{number}: empty").unwrap();
            continue;
        };
        let vote = saved.vote.map_or("no vote".to_string(), |vote| {
            let (ballot, value) = (token(vote.ballot), token(vote.value));
            format!("accepted {value} in instance {} under {ballot}", vote.instance)
        });
        writeln!(text, "{number}: promised {}, {vote}", token(saved.promised)).unwrap();
    }
    text
}

/// Carries out one command; what it tells is collected by the caller.
fn command(world: &mut World, words: &[&str]) -> String {
    match *words {
        ["start", "forgotten", ref who @ ..] => {
            for word in who {
                if !world.nodes.contains_key(&number(word)) {
                    world.add(number(word));
                }
                world.start(number(word), Start::Forgotten);
            }
        }
        ["start", ref who @ ..] => who.iter().for_each(|word| world.start(number(word), Start::Founded)),
        ["run", span] => world.run(span.parse::<Span>().unwrap().as_nanos()),
        ["crash", who] => world.crash(number(who)),
        ["restart", who] => world.restart(number(who)),
        ["forget", who] => world.forget(number(who)),
        ["cut", a, ">", b] => drop(world.net.cut.insert((number(a), number(b)))),
        ["cut", a, b] => world.cut(number(a), number(b)),
        ["isolate", who] => world.isolate(number(who)),
        ["heal"] => world.net.cut.clear(),
        ["transfer", who] => world.step(number(who), Input::Transfer { to: None }),
        ["transfer", who, to] => world.step(number(who), Input::Transfer { to: Some(id(number(to))) }),
        ["stopped", who] => world.step(number(who), Input::Stopped),
        ["members", who, ref list @ ..] => {
            let members = list.iter().map(|word| member(word)).collect();
            world.step(number(who), Input::Reconfigure { members });
        }
        ["view"] => return views(world),
        ["disks"] => return disks(world),
        ref other => panic!("not a command: {other:?}"),
    }
    String::new()
}

fn play(text: &str) -> String {
    let mut world: Option<World> = None;
    let mut played = String::new();
    let mut trace = String::new();
    let mut in_trace = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (in_trace, words.as_slice()) {
            (true, []) => in_trace = false,
            (true, _) => continue,
            (false, ["----"]) => {
                writeln!(played, "----\n{}", trace.trim_end()).unwrap();
                trace.clear();
                in_trace = true;
                continue;
            }
            (false, [] | ["#", ..]) => {}
            (false, ["group", list @ ..]) => {
                world = Some(World::of(list.iter().map(|word| member(word)).collect(), 1));
            }
            (false, words) => {
                let world = world.as_mut().expect("a file begins with its group");
                let (mark, messages) = (world.told.len(), world.sent.len());
                let shown = command(world, words);
                trace += &shown;
                trace += &told(world, mark);
                trace += &sent(world, messages);
            }
        }
        writeln!(played, "{line}").unwrap();
    }
    played
}

#[test]
fn every_scenario_leaves_its_trace() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/paxos");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 6, "scenarios are missing");
    for path in files {
        let played = play(&fs::read_to_string(&path).unwrap());
        expect_file![path].assert_eq(&played);
    }
}
