//! Scenarios: text files that show what every command does in every state, and the stories that they make.
//!
//! Each file in `scenarios/` holds commands, a line `----`, and the trace that they leave. `UPDATE_EXPECT=1` rewrites
//! the traces; read the difference before you commit it, since the trace is the specification.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;

use crate::interpreter::World;
use crate::interpreter::agents::COMMANDS;
use crate::interpreter::file::{Part, parse, render};
use crate::interpreter::states::{Coverage, STATES};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder of scenarios")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    files
}

/// Runs a file in a world of its own, and returns it with the traces that came out.
fn play(text: &str, coverage: &mut Coverage) -> String {
    let mut world = World::default();
    let parts: Vec<Part> = parse(text)
        .into_iter()
        .map(|part| match part {
            Part::Prose(line) => Part::Prose(line),
            Part::Block { commands, .. } => {
                let trace =
                    commands.iter().map(|line| step(&mut world, line, commands.len(), coverage)).collect();
                Part::Block { commands, trace }
            }
        })
        .collect();
    render(&parts)
}

/// One command of a block; where there are several, each trace is headed by its command.
fn step(world: &mut World, line: &str, of: usize, coverage: &mut Coverage) -> String {
    let trace = world.run(line, coverage);
    if of > 1 { format!("> {line}\n{trace}") } else { trace }
}

#[test]
fn every_scenario_leaves_its_trace() {
    let files = files();
    assert!(files.len() >= 20, "scenarios are missing");
    for path in files {
        let text = fs::read_to_string(&path).expect("a scenario");
        let played = play(&text, &mut Coverage::default());
        expect_file![path].assert_eq(&played);
    }
}

#[test]
fn every_command_is_tried_in_every_state() {
    let mut coverage = Coverage::default();
    for path in files() {
        let _ = play(&fs::read_to_string(&path).expect("a scenario"), &mut coverage);
    }
    let missing = coverage.missing();
    assert!(missing.is_empty(), "no scenario tries {}", missing.join(", "));
    assert_eq!(coverage.pairs(), COMMANDS.len() * STATES.len());
}

#[test]
fn every_recipe_leads_to_its_state() {
    let mut coverage = Coverage::default();
    for (state, _) in STATES {
        let mut world = World::default();
        let _ = world.run(&format!("state {state}"), &mut coverage);
        let _ = world.run("renew a", &mut coverage);
    }
    for (state, _) in STATES {
        assert!(!coverage.missing().contains(&format!("`renew` in the state `{state}`")), "{state}");
    }
}
