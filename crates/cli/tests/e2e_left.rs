//! What CMD wrote for its successor just before everything went wrong: it is published, or kept aside and said, and never published in part.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::process::{Child, Stdio};

use crate::support::{World, exit_code, until};

/// Applies the migrations that are not done yet, and writes each down. After the one that is named in `stop-after` it stands still.
const MIGRATE: &str = r#"
done=$(sed -n 's/.*"done": \([0-9]*\).*/\1/p' "$BATON_HANDOVER_FILE" | head -n 1)
for number in 1 2 3 4 5 6; do
    [ "$number" -gt "${done:-0}" ] || continue
    echo "$number" >> "$E2E_WORLD/applied"
    printf '{"summary": "%s applied", "state": {"done": %s}}' "$number" "$number" > "$BATON_CHECKPOINT_FILE.new"
    mv "$BATON_CHECKPOINT_FILE.new" "$BATON_CHECKPOINT_FILE"
    if [ "$(cat "$E2E_WORLD/stop-after")" = "$number" ]; then echo "$number" > "$E2E_WORLD/stands"; sleep 600; fi
done
"#;

fn start(world: &World, agent: &str, options: &[&str], script: &str) -> Child {
    let mut command = world.command(&["run", "e", "--as", agent, "--ttl", "30s"]);
    let talk = File::create(world.file(&format!("{agent}.err"))).unwrap();
    command.args(options).args(["--", "sh", "-c", script]).stdout(Stdio::null()).stderr(talk).spawn().unwrap()
}

fn said(world: &World, agent: &str) -> String {
    fs::read_to_string(world.file(&format!("{agent}.err"))).unwrap()
}

fn kill(run: &mut Child) {
    run.kill().unwrap();
    run.wait().unwrap();
}

/// Each of five leaders is killed right after it wrote down what it did.
#[test]
fn migrations_run_once_each_although_run_is_killed_right_after_each_write() {
    let world = World::new();
    for number in 1..=5 {
        fs::write(world.file("stop-after"), format!("{number}\n")).unwrap();
        let mut run = start(&world, &format!("agent-{number}"), &[], MIGRATE);
        until("it stands still", || {
            fs::read_to_string(world.file("stands")).unwrap_or_default().trim() == number.to_string()
        });
        kill(&mut run);
    }
    fs::write(world.file("stop-after"), "none\n").unwrap();
    let mut last = start(&world, "agent-6", &[], MIGRATE);
    assert_eq!(exit_code(&mut last), Some(0), "{}", said(&world, "agent-6"));
    let applied = fs::read_to_string(world.file("applied")).unwrap();
    assert_eq!(applied.split_whitespace().collect::<Vec<_>>(), ["1", "2", "3", "4", "5", "6"]);
    let left = world.json(&["handover", "e", "--look"]);
    assert_eq!(left["checkpoint"]["state"]["done"], 6, "what CMD left at its end stands too");
}

/// A file that was cut off is no checkpoint: the last whole one stands, and the other is kept.
#[test]
fn a_file_that_was_cut_off_is_kept_aside_and_the_last_whole_one_stands() {
    let world = World::new();
    let whole = r#"printf '{"summary": "whole", "state": 1}' > "$BATON_CHECKPOINT_FILE""#;
    let torn = r#"printf '{"summary": "torn", "st' > "$BATON_CHECKPOINT_FILE""#;
    let mut first = start(&world, "a", &[], whole);
    assert_eq!(exit_code(&mut first), Some(0));
    // CMD ends by itself, and run is killed: the same.
    let mut second = start(&world, "b", &[], torn);
    assert_eq!(exit_code(&mut second), Some(0));
    let mut third = start(&world, "c", &[], &format!(r#"{torn}; echo > "$E2E_WORLD/written"; sleep 600"#));
    world.read_soon("written");
    kill(&mut third);
    until("the lease is released", || world.status("e")["state"] == "vacant");
    assert_eq!(world.json(&["handover", "e", "--look"])["checkpoint"]["summary"], "whole");
    for agent in ["b", "c"] {
        let said = said(&world, agent);
        let kept = said.split("it is kept in ").nth(1).unwrap_or_else(|| panic!("{said}"));
        let kept = kept.split_whitespace().next().unwrap();
        assert_eq!(fs::read_to_string(kept).unwrap(), r#"{"summary": "torn", "st"#, "{agent}");
    }
}

/// What a validator has not judged is not published by a warden that has no time for it.
#[test]
fn what_was_not_judged_is_kept_aside() {
    let world = World::new();
    let script = r#"echo x > "$BATON_CHECKPOINT_FILE"; echo > "$E2E_WORLD/written"; sleep 600"#;
    let mut run = start(&world, "a", &["--validate", "sleep 600"], script);
    world.read_soon("written");
    kill(&mut run);
    until("the lease is released", || world.status("e")["state"] == "vacant");
    assert!(world.json(&["handover", "e", "--look"])["checkpoint"].is_null());
    assert!(
        said(&world, "a").contains("its validator has not judged it; it is kept in "),
        "{}",
        said(&world, "a")
    );
}

/// What run has published, and what was written after it by hand, is not published over again.
#[test]
fn what_was_published_is_not_published_again_over_something_newer() {
    let world = World::new();
    let script = r#"echo file > "$BATON_CHECKPOINT_FILE"
until "$BATON" handover e --look --json | grep -q file; do sleep 0.1; done
sleep 1.5
"$BATON" checkpoint e --summary newer --state 1 >&2
echo > "$E2E_WORLD/written"; sleep 600"#;
    let mut command = world.command(&["run", "e", "--as", "a", "--ttl", "30s", "--", "sh", "-c", script]);
    command.env("BATON", env!("CARGO_BIN_EXE_baton"));
    let talk = File::create(world.file("a.err")).unwrap();
    let mut run = command.stdout(Stdio::null()).stderr(talk).spawn().unwrap();
    world.read_soon("written");
    kill(&mut run);
    until("the lease is released", || world.status("e")["state"] == "vacant");
    assert_eq!(
        world.json(&["handover", "e", "--look"])["checkpoint"]["summary"],
        "newer",
        "{}",
        said(&world, "a")
    );
}

/// A file that is far too large costs neither the leadership nor memory: it is refused, with what to do instead.
#[test]
fn a_file_that_is_too_large_is_refused_and_costs_nothing_else() {
    let world = World::new();
    let script = r#"truncate -s 1G "$BATON_CHECKPOINT_FILE"
while [ ! -e "$E2E_WORLD/end" ]; do sleep 0.05; done"#;
    let mut run = start(&world, "a", &["--once"], script);
    until("it is refused", || said(&world, "a").contains("the checkpoint is not published"));
    assert!(said(&world, "a").contains("--reference FILE"), "{}", said(&world, "a"));
    fs::write(world.file("end"), "").unwrap();
    assert_eq!(exit_code(&mut run), Some(0), "{}", said(&world, "a"));
}
