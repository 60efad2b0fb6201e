//! Useful or out, between real processes: a leader over its budget loses the leadership and its writes, and the successor finishes what it
//! had begun.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::server::Server;
use crate::support::{World, exit_code, until};

/// Does a task. The one that is called `half` is never finished by the agent `a`.
const STEP: &str = r#"echo "$BATON_TASK_ID $BATON_AGENT" >> begun
if [ "$BATON_TASK_ID $BATON_AGENT" = 'half a' ]; then echo '50 half' > "$BATON_TASK_PROGRESS_FILE"; exec sleep 600; fi
echo "$BATON_TASK_ID $BATON_AGENT" >> done"#;

/// Fills the board, does some of it, leaves a checkpoint, and then uses more model tokens than it was given.
const OVER_BUDGET: &str = r#"set -e
echo "$BATON_TOKEN" > token-of-a
"$BATON_BIN" fence db/orders --election e --token "$BATON_TOKEN" -- sh -c 'echo a >> written'
"$BATON_BIN" task add e 'the first' --id first
"$BATON_BIN" task add e 'the second' --id half
"$BATON_BIN" task assign e first --to a
"$BATON_BIN" task assign e half --to a
echo '{"summary": "first is done", "state": {"next": "half"}}' > "$BATON_CHECKPOINT_FILE"
"$BATON_BIN" task work e --as a -- sh -c "$STEP" &
while [ ! -e spend ]; do sleep 0.05; done
"$BATON_BIN" renew e --spent 2000 || true
wait"#;

/// Takes on what was left, and finishes what is not done.
const SUCCESSOR: &str = r#"set -e
cp "$BATON_HANDOVER_FILE" inherited
"$BATON_BIN" handover e > /dev/null
"$BATON_BIN" task list e --json > board
"$BATON_BIN" task retry e half --reason 'its worker is gone'
"$BATON_BIN" task assign e half --to b
"$BATON_BIN" task retry e first --reason 'not needed' && exit 9
"$BATON_BIN" fence db/orders --election e --token "$BATON_TOKEN" -- sh -c 'echo b >> written'
exec "$BATON_BIN" task work e --as b --drain -- sh -c "$STEP""#;

fn lead(world: &World, agent: &str, more: &[&str], script: &str) -> Child {
    // A lease that a machine which stands still for seconds does not cost.
    let run = ["run", "e", "--as", agent, "--ttl", "12s", "--once"];
    let mut command = world.command(&[&run, more, &["--", "sh", "-c", script]].concat());
    command.env("BATON_BIN", env!("CARGO_BIN_EXE_baton")).env("STEP", STEP);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn lines(world: &World, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(world.file(name)).unwrap_or_default();
    text.lines().map(ToString::to_string).collect()
}

fn percent(world: &World, id: &str) -> Option<u64> {
    let shown = world.call(&["task", "show", "e", id, "--json"]);
    if shown.code != 0 {
        return None;
    }
    shown.json()["progress"]["percent"].as_u64()
}

/// An agent over its token budget loses the leadership; its next guarded write is refused; the successor reads checkpoint and board, sees
/// the half-done task and finishes it; nothing is done twice.
fn over_budget_and_out(world: &World) {
    let mut first = lead(world, "a", &["--budget-tokens", "1000"], OVER_BUDGET);
    until("one task is done and the other half done", || percent(world, "half") == Some(50));
    until("the checkpoint stands", || !world.status("e")["checkpoint"].is_null());
    let token = world.read_soon("token-of-a").trim().to_string();
    assert_eq!((lines(world, "done"), lines(world, "written")), (vec!["first a".into()], vec!["a".into()]));
    let mut second = lead(world, "b", &[], SUCCESSOR);

    std::fs::write(world.file("spend"), "").unwrap();
    until("its token is refused", || world.call(&["check", "e", "--token", &token]).code == 5);
    let write = ["fence", "db/orders", "--election", "e", "--token", &token, "--"];
    world.call(&[&write[..], &["sh", "-c", "echo late >> written"]].concat()).expect(5);
    assert_eq!(exit_code(&mut first), Some(4), "over its budget, it has lost the leadership");

    assert_eq!(exit_code(&mut second), Some(0), "the successor did what was left");
    let inherited: Value = serde_json::from_str(&world.read_soon("inherited")).unwrap();
    assert_eq!(
        (&inherited["summary"], &inherited["state"]["next"]),
        (&"first is done".into(), &"half".into())
    );
    let board = lines(world, "board");
    let found = |id: &str| {
        let tasks = board.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        tasks.into_iter().find(|task| task["id"] == id).unwrap()
    };
    assert_eq!(found("first")["state"], "done");
    assert_eq!(
        (&found("half")["progress"]["percent"], &found("half")["attempts"][0]["agent"]),
        (&50.into(), &"a".into())
    );
    assert_ne!(found("half")["state"], "done");
    let half = world.json(&["task", "show", "e", "half"]);
    assert_eq!(
        (&half["state"], &half["attempts"][0]["percent"], &half["attempts"][1]["agent"]),
        (&"done".into(), &50.into(), &"b".into())
    );
    assert_eq!(lines(world, "begun"), ["first a", "half a", "half b"]);
    assert_eq!(lines(world, "done"), ["first a", "half b"], "nothing is done twice");
    assert_eq!(lines(world, "written"), ["a", "b"], "the late write did not happen");
    let history = world.ok(&["history", "e", "--json"]).jsons();
    let causes: Vec<&Value> = history.iter().map(|entry| &entry["cause"]).collect();
    assert_eq!(causes, ["first", "budget"]);
}

#[test]
fn over_its_budget_an_agent_is_out_and_its_successor_finishes_in_a_folder() {
    over_budget_and_out(&World::folder());
}

#[test]
fn over_its_budget_an_agent_is_out_and_its_successor_finishes_at_a_server() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    over_budget_and_out(&World::on(&server.url()));
}
