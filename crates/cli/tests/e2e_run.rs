//! `baton run`: CMD runs while leading, and only then.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::File;
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{World, exit_code, finish, processes, until};

/// Starts a run in the background; its talk goes to a file.
fn start(world: &World, agent: &str, options: &[&str], script: &str) -> Child {
    let arguments = [&["run", "e", "--as", agent], options, &["--", "sh", "-c", script]].concat();
    let talk = File::options().append(true).create(true).open(world.file(&format!("{agent}.err"))).unwrap();
    let mut command = world.command(&arguments);
    command.env("BATON", env!("CARGO_BIN_EXE_baton")).stdout(Stdio::null()).stderr(talk).spawn().unwrap()
}

fn end(child: &mut Child) -> Option<i32> {
    processes::signal(child.id(), Signal::TERM);
    exit_code(child)
}

fn history(world: &World) -> Vec<Value> {
    world.ok(&["history", "e", "--json"]).jsons()
}

/// How the last leadership ended, for the next one to know.
fn last_cause(world: &World) -> Value {
    world.ok(&["acquire", "e", "--as", "next", "--wait", "50s"]);
    history(world).last().unwrap()["cause"].clone()
}

#[test]
fn cmd_finds_its_leadership_in_the_environment_and_its_exit_code_is_passed_on() {
    let world = World::folder();
    let script = r#"
printf '%s|%s|%s|%s|%s\n' "$BATON_ELECTION" "$BATON_AGENT" "$BATON_TOKEN" "$(cat "$BATON_TOKEN_FILE")" "$BATON_STORE"
test -n "$BATON_KEY" && cat "$BATON_HANDOVER_FILE"
"$BATON" check e && "$BATON" fence db --note mine >&2 && "$BATON" checkpoint e --summary half >&2
exit 42
"#;
    let mut command = world.command(&["run", "e", "--as", "a", "--", "sh", "-c", script]);
    command.env("BATON", env!("CARGO_BIN_EXE_baton")).env("BATON_STORE", "file:./store");
    let done = finish(command, None).expect(42);
    let mut lines = done.stdout.lines();
    // The store is named so that it means the same in whatever folder CMD goes to.
    assert_eq!(lines.next(), Some(format!("e|a|1|1|{}", world.url()).as_str()), "{done:?}");
    assert_eq!(lines.next(), Some("{}"));
    assert_eq!(lines.next(), Some("token 1 of e is current, a's"));
    let log = world.ok(&["fence", "db", "--log", "--json"]).json();
    assert_eq!((&log["agent"], &log["note"], &log["token"]), (&json!("a"), &json!("mine"), &json!(1)));
    let status = world.status("e");
    assert_eq!((&status["state"], &status["checkpoint"]["summary"]), (&json!("vacant"), &json!("half")));
    assert_eq!(std::fs::read_dir(world.file("r/baton")).unwrap().count(), 0, "the folder of the run is gone");
}

#[test]
fn cmd_that_cannot_be_started_or_dies_has_the_codes_of_a_shell() {
    let world = World::new();
    world.call(&["run", "e", "--", "true"]).expect(0);
    world.call(&["run", "e", "--", "no-such-program"]).expect(127);
    world.call(&["run", "e", "--", "/"]).expect(126);
    world.call(&["run", "e", "--", "sh", "-c", "kill -9 $$"]).expect(137);
    assert_eq!(world.status("e")["state"], "vacant");
    world.call(&["run", "e"]).expect(2);
}

#[test]
fn work_that_ended_well_is_done_and_nobody_is_missed() {
    let world = World::folder();
    world.call(&["run", "e", "--as", "a", "--", "true"]).expect(0);
    let status = world.status("e");
    assert_eq!((&status["state"], &status["degraded"]), (&json!("done"), &Value::Null), "{status}");
    assert_eq!(status["departure"]["cause"], "finished", "{status}");
    let told = world.ok(&["status", "e"]).stdout;
    assert!(told.contains("e: done; nobody leads") && !told.contains("degraded"), "{told}");
    let top = world.ok(&["top", "--once"]).stdout;
    assert!(top.contains("done") && !top.contains("degraded"), "{top}");
    // A pause does not undo what was done.
    world.ok(&["init"]);
    world.ok(&["pause", "e", "--reason", "holidays"]);
    let status = world.status("e");
    assert_eq!((&status["state"], &status["degraded"]), (&json!("paused"), &Value::Null), "{status}");
    let told = world.ok(&["status", "e"]).stdout + &world.ok(&["top", "--once"]).stdout;
    assert!(told.contains("e: paused by an operator: holidays") && !told.contains("degraded"), "{told}");
    world.ok(&["resume", "e"]);
    assert_eq!(world.status("e")["state"], "done");
    // Work that failed is not done.
    world.call(&["run", "e", "--as", "a", "--", "false"]).expect(1);
    let status = world.status("e");
    assert_eq!(status["state"], "vacant", "{status}");
    assert!(status["degraded"].is_object(), "{status}");
    // An agent that is not a process says so itself, and the next one sees what it follows.
    world.ok(&["acquire", "e", "--as", "b"]);
    world.ok(&["release", "e", "--as", "b", "--done", "--reason", "all tests pass"]);
    assert_eq!(world.status("e")["state"], "done");
    assert_eq!(last_cause(&world), "finished");
}

#[test]
fn words_that_are_not_text_are_refused_rather_than_changed() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let mut command = world.command(&["run", "e", "--json", "--", "touch"]);
    command.arg(std::ffi::OsStr::from_bytes(b"a\xffb"));
    let refused = finish(command, None).expect(2).json();
    assert!(refused["message"].as_str().unwrap().contains("is not UTF-8"), "{refused}");
    assert!(!world.store().exists());
}

#[test]
fn sigterm_drains_and_leaves_the_checkpoint_that_cmd_wrote() {
    let world = World::new();
    let script = r#"
trap 'printf "{\"summary\": \"drained\", \"state\": {\"n\": 7}}" > "$BATON_CHECKPOINT_FILE"; exit 3' TERM
echo ready > "$E2E_WORLD/ready"
while :; do sleep 0.05; done
"#;
    let mut run = start(&world, "a", &["--ttl", "60s"], script);
    world.read_soon("ready");
    assert_eq!(end(&mut run), Some(3));
    let status = world.status("e");
    assert_eq!(status["state"], "vacant");
    assert_eq!(
        (&status["checkpoint"]["summary"], &status["checkpoint"]["by"]),
        (&json!("drained"), &json!("a"))
    );
    // The next one finds it.
    let show = r#"cat "$BATON_HANDOVER_FILE""#;
    let done = world.ok(&["run", "e", "--as", "b", "--", "sh", "-c", show]);
    let handover: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(handover["summary"], "drained", "{handover}");
}

#[test]
fn a_checkpoint_is_published_while_cmd_runs() {
    let world = World::new();
    let script = r#"echo 'plain words' > "$BATON_CHECKPOINT_FILE"; while :; do sleep 0.05; done"#;
    let mut run = start(&world, "a", &[], script);
    let seen = || world.call(&["handover", "e", "--look", "--json"]);
    until("it is published", || seen().stdout.contains("plain words"));
    assert_eq!(seen().json()["checkpoint"]["summary"], "plain words");
    assert!(end(&mut run).is_some());
}

#[test]
fn two_runs_with_one_name_are_two_incarnations() {
    let world = World::new();
    let script = r#"echo "$BATON_TOKEN" >> "$E2E_WORLD/tokens"; while :; do sleep 0.05; done"#;
    let mut runs =
        [start(&world, "twin", &["--ttl", "60s"], script), start(&world, "twin", &["--ttl", "60s"], script)];
    world.read_soon("tokens");
    let leader = world.status("e")["leader"].clone();
    let said = || std::fs::read_to_string(world.file("twin.err")).unwrap();
    until("one leads and one waits", || {
        said().contains("twin leads e with token 1") && said().contains("twin waits to lead e: twin leads")
    });
    assert_eq!(std::fs::read_to_string(world.file("tokens")).unwrap(), "1\n", "one leads, not both");
    let leads = |run: &Child| processes::warden(run.id()).is_some_and(|warden| !children(warden).is_empty());
    let first = usize::from(!leads(&runs[0]));
    assert!(leads(&runs[first]));
    runs[first].kill().unwrap();
    runs[first].wait().unwrap();
    until("the twin leads", || std::fs::read_to_string(world.file("tokens")).unwrap() == "1\n2\n");
    let successor = world.status("e")["leader"].clone();
    assert_eq!((&leader["agent"], &successor["agent"]), (&json!("twin"), &json!("twin")));
    assert_ne!(leader["incarnation"], successor["incarnation"]);
    assert!(end(&mut runs[1 - first]).is_some());
}

fn children(of: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap_or_default();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn once_exits_with_4_after_a_loss_and_otherwise_it_campaigns_again() {
    let world = World::new();
    world.ok(&["init"]);
    let script = r#"echo "$BATON_TOKEN" >> "$E2E_WORLD/$BATON_AGENT"; while :; do sleep 0.05; done"#;
    let mut once = start(&world, "once", &["--once"], script);
    world.read_soon("once");
    world.ok(&["depose", "e"]);
    assert_eq!(exit_code(&mut once), Some(4));
    let said = std::fs::read_to_string(world.file("once.err")).unwrap();
    assert_eq!(said.matches("lost the leadership").count(), 1, "it is said once: {said}");
    // How long others go first after a depose is the policy's lease.
    world.ok(&["policy", "e", "--ttl", "2s"]);
    let mut again = start(&world, "again", &["--ttl", "60s"], script);
    world.read_soon("again");
    world.ok(&["depose", "e"]);
    let tokens = || std::fs::read_to_string(world.file("again")).unwrap();
    until("it leads again", || tokens().lines().count() >= 2);
    let tokens: Vec<u64> = tokens().lines().map(|token| token.parse().unwrap()).collect();
    assert!(tokens[1] > tokens[0], "{tokens:?}");
    assert!(end(&mut again).is_some());
}

#[test]
fn a_wait_that_is_over_exits_with_3_and_a_signal_ends_it() {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "holder", "--ttl", "1h"]);
    let waited = world.call(&["run", "e", "--as", "a", "--wait", "300ms", "--json", "--", "true"]).expect(3);
    assert_eq!(waited.json()["code"], "waited");
    let mut waiting = start(&world, "b", &[], "true");
    until("it waits", || std::fs::read_to_string(world.file("b.err")).unwrap().contains("waits"));
    assert!(end(&mut waiting).is_some());
    until("its warden is gone too", || processes::of_world(world.mark()).is_empty());
    assert_eq!(world.status("e")["leader"]["agent"], "holder");
    assert_eq!(std::fs::read_dir(world.file("r/baton")).unwrap().count(), 0, "no folder of a run is left");
}

#[test]
fn a_run_that_is_killed_while_it_waits_leaves_nothing() {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "holder", "--ttl", "1h"]);
    let mut waiting = start(&world, "b", &[], "true");
    until("it waits", || std::fs::read_to_string(world.file("b.err")).unwrap().contains("waits"));
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    until("its warden is gone too", || processes::of_world(world.mark()).is_empty());
    assert_eq!(std::fs::read_dir(world.file("r/baton")).unwrap().count(), 0, "no folder of a run is left");
}

#[test]
fn the_token_file_follows_when_an_approval_raises_the_token() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--approval", "checkpoints"]);
    let script = r#"
"$BATON" checkpoint e --summary plan >/dev/null
while [ "$(cat "$BATON_TOKEN_FILE")" = "$BATON_TOKEN" ]; do sleep 0.05; done
cp "$BATON_TOKEN_FILE" "$E2E_WORLD/risen"
"$BATON" fence db && echo accepted > "$E2E_WORLD/accepted"
while :; do sleep 0.05; done
"#;
    let mut run = start(&world, "a", &["--ttl", "60s"], script);
    until("it waits for approval", || {
        world.call(&["status", "e", "--json"]).stdout.contains("awaiting-approval")
    });
    world.call(&["fence", "db", "--election", "e", "--token", "1"]).expect(6);
    world.ok(&["approve", "e", "--checkpoint", &world.waiting("e")]);
    let risen: u64 = world.read_soon("risen").trim().parse().unwrap();
    assert_eq!(world.status("e")["token"], risen);
    assert_eq!(world.read_soon("accepted"), "accepted\n");
    assert!(end(&mut run).is_some());
}

#[test]
fn budgets_and_stalls_end_it_each_with_its_cause() {
    // Each waits for renewals: beside each other.
    std::thread::scope(|scope| {
        for (options, cause) in [
            (["--budget-time", "1s"], "budget"),
            (["--budget-renewals", "2"], "budget"),
            (["--stall", "1s"], "stall"),
        ] {
            scope.spawn(move || ends_with_its_cause(&options, cause));
        }
    });
}

fn ends_with_its_cause(options: &[&str], cause: &str) {
    let world = World::new();
    let forever = "while :; do sleep 0.05; done";
    // A lease that a machine which stands still for seconds does not cost.
    let mut run = start(&world, "a", &[options, &["--ttl", "12s", "--once"]].concat(), forever);
    assert_eq!(exit_code(&mut run), Some(4), "{options:?}");
    assert_eq!(last_cause(&world), cause, "{options:?}");
}

#[test]
fn tokens_that_are_told_count_against_the_budget() {
    let world = World::new();
    let script = r#""$BATON" renew e --spent 100 >/dev/null; while :; do sleep 0.05; done"#;
    let mut run = start(&world, "a", &["--budget-tokens", "100", "--once"], script);
    assert_eq!(exit_code(&mut run), Some(4));
    assert_eq!(last_cause(&world), "budget");
}

#[test]
fn progress_is_a_touch_of_the_file_or_output() {
    let touch = r#"while [ ! -e "$E2E_WORLD/end" ]; do touch "$BATON_PROGRESS_FILE"; sleep 0.1; done"#;
    let output = r#"while [ ! -e "$E2E_WORLD/end" ]; do echo still here; sleep 0.1; done"#;
    std::thread::scope(|scope| {
        for script in [touch, output] {
            scope.spawn(move || goes_on_past_the_limit(script));
        }
    });
}

/// Renewed every four seconds, whoever makes progress is still there after more than twice the limit. The limit is longer than a
/// busy machine stands still.
fn goes_on_past_the_limit(script: &str) {
    let world = World::new();
    let mut run = start(&world, "a", &["--stall", "9s", "--ttl", "12s", "--once"], script);
    until("it renews, or has ended", || {
        let status = world.call(&["status", "e", "--json"]);
        let seen = status.jsons().first().cloned().unwrap_or_default();
        let ended = seen["state"].is_string() && seen["leader"].is_null();
        seen["leader"]["renewals"].as_u64().is_some_and(|renewals| renewals >= 5) || ended
    });
    assert_eq!(world.status("e")["state"], "held", "{script}");
    std::fs::write(world.file("end"), "").unwrap();
    assert_eq!(exit_code(&mut run), Some(0), "{script}");
}

#[test]
fn a_validator_judges_checkpoints_and_the_end() {
    let world = World::new();
    let validate = r#"echo "tests fail" >&2; test ! -e "$E2E_WORLD/bad""#;
    let good = ["run", "e", "--as", "a", "--once", "--validate", validate, "--", "true"];
    world.call(&good).expect(0);
    std::fs::write(world.file("bad"), "").unwrap();
    world.call(&good).expect(4);
    assert_eq!(last_cause(&world), "validation");
    assert!(history(&world).last().unwrap()["reason"].is_string());
    world.ok(&["release", "e", "--as", "next"]);
    let script = r#"echo x > "$BATON_CHECKPOINT_FILE"; while :; do sleep 0.05; done"#;
    let mut run = start(&world, "b", &["--once", "--validate", validate], script);
    assert_eq!(exit_code(&mut run), Some(4));
}

#[test]
fn a_checkpoint_that_the_validator_refuses_does_not_replace_the_good_one() {
    let world = World::new();
    // It is asked about what was written, also if CMD goes on writing meanwhile.
    let validate = r#"
cp "$BATON_CHECKPOINT_FILE" "$E2E_WORLD/asked"
while grep -q good "$E2E_WORLD/asked" && [ ! -e "$E2E_WORLD/overwritten" ]; do sleep 0.05; done
grep -q good "$BATON_CHECKPOINT_FILE"
"#;
    let script = r#"
echo good > "$BATON_CHECKPOINT_FILE"
while [ ! -e "$E2E_WORLD/asked" ]; do sleep 0.05; done
echo bad > "$BATON_CHECKPOINT_FILE"
echo > "$E2E_WORLD/overwritten"
while :; do sleep 0.05; done
"#;
    let mut run = start(&world, "a", &["--once", "--validate", validate], script);
    assert_eq!(exit_code(&mut run), Some(4));
    let said = std::fs::read_to_string(world.file("a.err")).unwrap();
    assert!(said.contains("this checkpoint is not published"), "{said}");
    let left = world.json(&["handover", "e", "--look"]);
    assert_eq!((&left["checkpoint"]["seq"], &left["checkpoint"]["summary"]), (&json!(1), &json!("good")));
    // Nor does what CMD leaves at its end.
    let script = r#"echo worse > "$BATON_CHECKPOINT_FILE""#;
    let run = ["run", "e", "--as", "b", "--once", "--validate", validate, "--", "sh", "-c", script];
    world.call(&run).expect(4);
    assert_eq!(world.json(&["handover", "e", "--look"])["checkpoint"]["summary"], "good");
}

#[test]
fn a_slow_validator_does_not_cost_the_lease() {
    let world = World::new();
    let validate = r#"sleep 16; echo done > "$E2E_WORLD/validated""#;
    let script = r#"
echo x > "$BATON_CHECKPOINT_FILE"
while [ ! -e "$E2E_WORLD/validated" ]; do sleep 0.05; done
exit 9
"#;
    let mut run = start(&world, "a", &["--once", "--ttl", "12s", "--validate", validate], script);
    let code = exit_code(&mut run);
    let said = std::fs::read_to_string(world.file("a.err")).unwrap();
    assert_eq!(code, Some(9), "{said}");
}

#[test]
fn a_slow_validator_at_the_end_keeps_the_lease() {
    let world = World::new();
    let validate = r#"
echo > "$E2E_WORLD/validating"; sleep 16
"$BATON" status e --json > "$E2E_WORLD/then.new"; mv "$E2E_WORLD/then.new" "$E2E_WORLD/then""#;
    let mut run = start(&world, "a", &["--once", "--ttl", "12s", "--validate", validate], "true");
    world.read_soon("validating");
    let then: Value = serde_json::from_str(&world.read_soon("then")).unwrap();
    assert_eq!((&then["state"], &then["leader"]["agent"]), (&json!("held"), &json!("a")));
    assert_eq!(exit_code(&mut run), Some(0));
}

#[test]
fn a_grace_over_a_third_of_the_lease_is_refused_before_anything_is_held() {
    let world = World::new();
    world.call(&["run", "e", "--ttl", "3s", "--grace", "2s", "--", "true"]).expect(2);
    let refused = world.call(&["run", "e", "--grace", "11s", "--json", "--", "true"]).expect(2).json();
    assert!(refused["hint"].as_str().unwrap().contains("10s"), "{refused}");
    // Nobody waits for the lease of a run that never ran.
    world.ok(&["run", "e", "--", "true"]);
}

#[test]
fn the_events_of_a_run_are_json_on_stderr() {
    let world = World::folder();
    let done = world.ok(&["run", "e", "--as", "a", "--json", "--", "echo", "out"]);
    assert_eq!(done.stdout, "out\n", "stdout is CMD's");
    let events: Vec<Value> = done.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["store-made", "leading", "released"], "who leads at once did not wait");
    assert_eq!(events[0]["store"], world.url());
    assert_eq!((&events[1]["agent"], &events[1]["token"]), (&json!("a"), &json!(1)));
}

#[test]
fn a_run_that_is_killed_is_a_fail_over_in_the_history() {
    let world = World::new();
    let mut run = start(&world, "a", &[], r#"echo in > "$E2E_WORLD/in"; sleep 600"#);
    world.read_soon("in");
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(last_cause(&world), "failover");
    let last = history(&world).pop().unwrap();
    assert!(last["reason"].as_str().unwrap().contains("the warden ended CMD"), "{last}");
    assert_eq!(history(&world).len(), 2);
}

#[test]
fn the_commands_of_cmd_do_not_mistake_another_election_for_its_own() {
    let world = World::new();
    world.ok(&["acquire", "other", "--as", "z"]);
    world.ok(&["fence", "theirs", "--election", "other", "--token", "1"]);
    // Both elections are in epoch 1: a token is worth nothing beyond its own.
    for foreign in [
        r#""$BATON" fence theirs"#,
        r#""$BATON" fence theirs --token "$BATON_TOKEN" -- true"#,
        r#""$BATON" fence fresh --election other"#,
        r#""$BATON" check other"#,
        r#""$BATON" renew other"#,
        r#""$BATON" release other"#,
    ] {
        let mut command = world.command(&["run", "e", "--as", "a", "--", "sh", "-c", foreign]);
        command.env("BATON", env!("CARGO_BIN_EXE_baton"));
        let done = finish(command, None);
        assert_ne!(done.code, 0, "{foreign}: {done:?}");
        world.ok(&["release", "other", "--as", "z"]);
        world.ok(&["init"]);
        let mine = world.json(&["acquire", "other", "--as", "z"])["token"].as_u64().unwrap();
        let own = world.json(&["acquire", "e", "--as", "z"])["token"].as_u64().unwrap();
        assert_eq!(mine + 1, own + 1, "the next run has the token of the other election");
        world.ok(&["release", "e", "--as", "z"]);
        world.ok(&["release", "other", "--as", "z"]);
        assert_eq!(world.json(&["acquire", "other", "--as", "z"])["token"], mine + 1);
    }
}

#[test]
fn cmd_cannot_give_the_lease_away_while_it_runs() {
    let world = World::new();
    for act in ["release e", "pass e b"] {
        let script = format!(r#""$BATON" {act}; echo $? > "$E2E_WORLD/code"; "$BATON" check e"#);
        let mut command = world.command(&["run", "e", "--as", "a", "--once", "--", "sh", "-c", &script]);
        command.env("BATON", env!("CARGO_BIN_EXE_baton"));
        let done = finish(command, None);
        let code = world.read_soon("code");
        assert_ne!(code.trim(), "0", "`{act}` was accepted while CMD ran: {done:?}");
        assert_eq!(done.code, 0, "{done:?}");
    }
}
