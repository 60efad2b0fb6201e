//! Scenarios: text files that show what a group does, event by event.
//!
//! Each file in `scenarios/` whose name begins with `raft-` holds commands, a line `----`, and the trace that they leave: the time in milliseconds, who, and
//! what. `UPDATE_EXPECT=1` rewrites the traces; read the difference before you commit it.
#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../election/tests/interpreter/file.rs"]
mod file;

use std::fs;
use std::path::{Path, PathBuf};

use baton_election::Span;
use baton_peer::{Input, Member, Start};
use expect_test::expect_file;
use file::{Part, parse, render};

use crate::raft_world::{Net, group, id};

/// `3`, `3w` for a witness, `2p9` for priority 9.
fn member(word: &str) -> Member {
    let (word, priority) = word.split_once('p').map_or((word, 0), |(word, p)| (word, p.parse().unwrap()));
    let (number, witness) = word.strip_suffix('w').map_or((word, false), |number| (number, true));
    Member { id: id(number.parse().unwrap()), witness, priority }
}

struct Play {
    net: Net,
    shown: usize,
}

impl Play {
    fn run(&mut self, line: &str) -> String {
        let mut words = line.split_whitespace();
        let command = words.next().unwrap();
        let rest: Vec<&str> = words.collect();
        let number = |at: usize| rest[at].parse::<u16>().unwrap();
        let members = || rest.iter().map(|word| member(word)).collect::<Vec<_>>();
        match command {
            "found" => self.begin(members(), &Start::Founded),
            "begin-forgotten" => self.begin(members(), &Start::Forgotten),
            "join" => {
                let list = group(rest[1..].iter().map(|word| member(word)).collect());
                self.net.add(id(number(0)), list, Start::Forgotten);
            }
            "run" => self.net.run_for(rest[0].parse::<Span>().unwrap()),
            "chatty" => self.net.is_chatty = rest[0] == "on",
            "crash" => self.net.crash(number(0)),
            "restart" => self.net.restart(number(0)),
            "lose-disk" => self.net.restart_forgotten(number(0)),
            "pause" => self.net.node(number(0)).is_paused = true,
            "wake" => self.net.node(number(0)).is_paused = false,
            "cut" => self.net.cut(number(0), number(1)),
            "part" => {
                let others: Vec<u16> = (1..rest.len()).map(number).collect();
                self.net.part(number(0), &others);
            }
            "heal" => self.net.heal(),
            "transfer" => {
                let to = (rest.len() > 1).then(|| id(number(1)));
                self.net.step(number(0), Input::Transfer { to });
            }
            "members" => {
                let members = rest[1..].iter().map(|word| member(word)).collect();
                self.net.step(number(0), Input::Reconfigure { members });
            }
            "show" => return self.show(),
            other => panic!("no command is called `{other}`"),
        }
        let told: String = self.net.log[self.shown..].iter().map(|line| format!("{line}\n")).collect();
        self.shown = self.net.log.len();
        told
    }

    fn begin(&mut self, members: Vec<Member>, start: &Start<baton_peer::raft::Saved>) {
        let group = group(members);
        for member in group.members() {
            self.net.add(member.id, group.clone(), start.clone());
        }
    }

    fn show(&self) -> String {
        let numbers: Vec<u16> = self.net.nodes.keys().map(|id| id.number()).collect();
        let line = |number: u16| match self.net.view(number) {
            None => format!("  {number} is down\n"),
            Some(view) => {
                let leader = view.leader.map_or("nobody".to_string(), |leader| leader.to_string());
                let reads = if view.read_only { ", may be read" } else { "" };
                let role = format!("{:?}", view.role).to_lowercase();
                format!("  {number} {role}, term {}, leader {leader}{reads}\n", view.term)
            }
        };
        numbers.into_iter().map(line).collect()
    }
}

fn play(text: &str) -> String {
    let mut play = Play { net: Net::empty(1), shown: 0 };
    let parts: Vec<Part> = parse(text)
        .into_iter()
        .map(|part| match part {
            Part::Prose(line) => Part::Prose(line),
            Part::Block { commands, .. } => {
                let trace = commands.iter().map(|line| play.run(line)).collect();
                Part::Block { commands, trace }
            }
        })
        .collect();
    render(&parts)
}

#[test]
fn every_scenario_leaves_its_trace() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("raft-"))
        .collect();
    files.sort();
    assert!(files.len() >= 8, "scenarios are missing");
    for path in files {
        let played = play(&fs::read_to_string(&path).unwrap());
        expect_file![path].assert_eq(&played);
    }
}
