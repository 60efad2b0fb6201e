//! Hand-over between real processes: told apart, timed, acknowledged before it serves, and what was changed in between is seen.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support;
use crate::support::server::Server;
use crate::support::{World, until};

fn history(world: &World) -> Vec<Value> {
    world.ok(&["history", "e", "--json"]).jsons()
}

/// The fields of the entry of an epoch that tell how it came about.
fn kind(entry: &Value) -> (&str, &str) {
    (entry["kind"].as_str().unwrap(), entry["cause"].as_str().unwrap())
}

fn kinds_are_told_apart(world: &World) {
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);
    world.ok(&["release", "e", "--to", "c", "--as", "b"]);
    world.ok(&["acquire", "e", "--as", "c", "--ttl", "10m"]);
    world.ok(&["report", "e", "stall", "--as", "c"]);
    world.ok(&["release", "e", "--as", "c"]);
    world.ok(&["acquire", "e", "--as", "d", "--ttl", "10m"]);
    world.ok(&["depose", "e", "--force", "--reason", "astray"]);
    world.ok(&["acquire", "e", "--as", "f", "--ttl", "1s"]);
    world.ok(&["acquire", "e", "--as", "g", "--ttl", "10m", "--wait", "1m"]);
    let entries = history(world);
    assert_eq!(
        entries.iter().map(kind).collect::<Vec<_>>(),
        [
            ("first", "first"),
            ("voluntary", "release"),
            ("voluntary", "pass"),
            ("takeover", "stall"),
            ("human", "depose"),
            ("failover", "failover"),
        ]
    );
    let last = entries.last().unwrap();
    let (detection, election) = (&last["phases"]["detection_ms"], &last["phases"]["election_ms"]);
    assert!(detection.is_u64() && last["took_ms"].as_u64() >= detection.as_u64(), "{last} {election}");
    let status = world.status("e");
    assert_eq!((&status["last_transition"]["kind"], &status["degraded"]), (&"failover".into(), &Value::Null));
    let told = world.ok(&["history", "e", "--phases"]).stdout;
    assert!(told.contains("SYNCHRONISATION") && told.lines().count() == 7, "{told}");
    assert!(world.ok(&["status", "e"]).stdout.contains("  took        "), "where the time went");
}

#[test]
fn the_kinds_of_hand_over_are_told_apart_in_a_folder() {
    kinds_are_told_apart(&World::folder());
}

#[test]
fn the_kinds_of_hand_over_are_told_apart_at_a_server() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    kinds_are_told_apart(&World::on(&server.url()));
}

fn serves_once_acknowledged(world: &World) {
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["check", "e", "--token", "1", "--serving"]);
    world.ok(&["checkpoint", "e", "--summary", "half", "--as", "a"]);
    world.ok(&["renew", "e", "--phase", "draining", "--as", "a"]);
    world.call(&["check", "e", "--token", "1", "--serving"]).expect(1);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);
    // The rule is open: that it is synchronising is shown, and hinders nothing.
    assert_eq!(world.status("e")["leader"]["phase"], "synchronising");
    world.ok(&["check", "e", "--token", "2"]);
    world.call(&["check", "e", "--token", "2", "--serving"]).expect(1);
    world.ok(&["renew", "e", "--phase", "serving", "--as", "b"]);
    assert_eq!(world.status("e")["leader"]["phase"], "synchronising", "to say so is not enough");
    world.ok(&["policy", "e", "--handover", "acknowledge"]);
    let refused = world.call(&["check", "e", "--token", "2", "--json"]).expect(1).json();
    assert_eq!(refused["code"], "out-of-turn", "{refused}");
    world.call(&["fence", "r", "--election", "e", "--token", "2"]).expect(1);
    world.call(&["task", "add", "e", "t", "--id", "t", "--as", "b"]).expect(1);
    world.call(&["checkpoint", "e", "--summary", "over it", "--as", "b"]).expect(1);
    world.call(&["check", "e", "--token", "1"]).expect(5);
    world.ok(&["handover", "e", "--as", "b"]);
    assert_eq!(world.status("e")["leader"]["phase"], "serving");
    world.ok(&["check", "e", "--token", "2", "--serving"]);
    world.ok(&["fence", "r", "--election", "e", "--token", "2"]);
    world.ok(&["task", "add", "e", "t", "--id", "t", "--as", "b"]);
    let last = history(world).pop().unwrap();
    assert!(last["phases"]["synchronisation_ms"].is_u64(), "{last}");
}

#[test]
fn a_successor_serves_once_it_has_acknowledged_in_a_folder() {
    serves_once_acknowledged(&World::folder());
}

#[test]
fn a_successor_serves_once_it_has_acknowledged_at_a_server() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    serves_once_acknowledged(&World::on(&server.url()));
}

/// Orders about all that goes on are not passed over in silence.
#[test]
fn who_may_give_no_orders_yet_is_told_so() {
    let world = World::folder();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--handover", "acknowledge"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["task", "add", "e", "t", "--id", "one", "--as", "a"]);
    world.ok(&["task", "assign", "e", "one", "--to", "w", "--as", "a"]);
    world.ok(&["checkpoint", "e", "--summary", "s", "--as", "a"]);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);
    for early in [
        &["task", "adopt", "e", "--all"][..],
        &["task", "assign", "e", "--inherited"],
        &["checkpoint", "e", "--summary", "over it"],
        &["check", "e", "--token", "2"],
    ] {
        let refused = world.call(&[early, &["--as", "b", "--json"]].concat()).expect(1).json();
        assert_eq!(refused["code"], "out-of-turn", "{early:?}: {refused}");
        assert!(refused["hint"].as_str().unwrap().contains("baton handover e"), "{early:?}: {refused}");
    }
    world.ok(&["handover", "e", "--as", "b"]);
    let again = world.ok(&["task", "assign", "e", "--inherited", "--as", "b"]).stdout;
    assert_eq!(again, "1 task is assigned again (token 2)\n");
    let worked = world.ok(&["task", "work", "e", "--as", "w", "--once", "--", "true"]).stderr;
    assert!(worked.starts_with("baton: w waits for tasks of e\n"), "{worked}");
}

#[test]
fn a_successor_sees_what_was_changed_after_the_checkpoint() {
    let world = World::new();
    fs::create_dir(world.file("src")).unwrap();
    for name in ["src/parser", "src/lexer", "notes"] {
        fs::write(world.file(name), name).unwrap();
    }
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    let said = world.ok(&["checkpoint", "e", "--verify"]).stdout;
    assert!(said.contains("covers anything"), "{said}");
    world.call(&["checkpoint", "e", "--covers", "missing", "--as", "a"]).expect(1);
    let covers =
        ["checkpoint", "e", "--summary", "parser done", "--covers", "src", "--covers", "notes", "--as", "a"];
    assert_eq!(world.json(&covers)["covers"]["paths"], 3);
    assert_eq!(world.json(&["checkpoint", "e", "--verify"])["outcome"], "unchanged");
    // What the leader does after its checkpoint and before it is killed.
    fs::write(world.file("src/lexer"), "half a lexer").unwrap();
    fs::write(world.file("src/\u{1b}[31mred"), "x").unwrap();
    fs::remove_file(world.file("notes")).unwrap();
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);

    let since = world.call(&["checkpoint", "e", "--verify", "--json"]).expect(1).json()["since"].clone();
    assert!(since["changed"][0].as_str().unwrap().ends_with("/src/lexer"), "{since}");
    assert!(since["removed"][0].as_str().unwrap().ends_with("/notes"), "{since}");
    assert_eq!(since["paths"], 3, "{since}");
    let careful = world.call(&["handover", "e", "--unless-changed", "--as", "b"]).expect(1);
    assert!(careful.stdout.contains("1 changed, 1 added, 1 removed"), "{}", careful.stdout);
    assert!(!careful.stdout.contains('\u{1b}'), "a name is text");
    assert_eq!(world.status("e")["leader"]["phase"], "synchronising");
    let taken = world.json(&["handover", "e", "--compare", "--as", "b"]);
    assert_eq!((&taken["outcome"], &taken["since"]["paths"]), (&"acknowledged".into(), &3.into()));
    assert_eq!(world.status("e")["leader"]["phase"], "serving");
}

#[test]
fn what_others_left_does_not_steer_the_terminal_of_who_looks() {
    let world = World::new();
    let odd = "a\u{1b}]0;x\u{7}\u{7f}\u{9b}31m\u{61c}\u{200d}\u{2028}\u{202e}\u{e0041}z";
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["checkpoint", "e", "--as", "a", "--state", &serde_json::json!(odd).to_string()]);
    world.ok(&["state", "put", "e", "plan", odd, "--as", "a"]);
    let at_terminal = |words: &[&str]| {
        assert_eq!(support::exit_code(&mut world.at_terminal(words, "screen")), Some(0));
        fs::read_to_string(world.file("screen")).unwrap()
    };
    let steers = |c: char| odd.contains(c) && !c.is_ascii_graphic();
    for words in [&["handover", "e", "--look"][..], &["state", "get", "e", "plan"]] {
        let shown = at_terminal(words);
        assert!(shown.contains('a') && !shown.contains(steers), "{words:?}: {shown:?}");
        let shown = at_terminal(&[words, &["--json"]].concat());
        assert!(!shown.contains(steers), "{words:?}: {shown:?}");
        let data: serde_json::Value = serde_json::from_str(shown.trim()).unwrap();
        let (state, value) = (&data["checkpoint"]["state"], &data["value"]);
        assert!(state == odd || value == odd, "it means the same: {data}");
    }
    assert_eq!(
        world.ok(&["state", "get", "e", "plan"]).stdout,
        format!("{odd}\n"),
        "a program gets it as it is"
    );
}

#[test]
fn to_look_at_a_handover_neither_runs_nor_reads_what_its_writer_chose() {
    let world = World::new();
    let (tree, ran) = (world.file("tree"), world.file("ran"));
    fs::create_dir(&tree).unwrap();
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command
            .arg("-C")
            .arg(&tree)
            .args(["-c", "user.name=n", "-c", "user.email=e@example.org"])
            .args(words);
        assert!(command.output().unwrap().status.success(), "git {words:?}");
    };
    git(&["init", "-q"]);
    fs::write(tree.join("a"), "1\n").unwrap();
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["checkpoint", "e", "--summary", "s", "--covers", "tree", "--as", "a"]);
    // The agent may write the working tree of the one who looks.
    git(&["config", "filter.x.clean", &format!("sh -c 'id -un >> {}; cat'", ran.display())]);
    fs::write(tree.join(".gitattributes"), "* filter=x\n").unwrap();
    fs::write(tree.join("a"), "2\n").unwrap();
    let looked = world.ok(&["handover", "e", "--look"]).stdout;
    assert!(looked.contains("covers 0 paths; not compared"), "{looked}");
    assert_eq!(world.json(&["handover", "e", "--look"])["since"], serde_json::Value::Null);
    let compared = world.ok(&["handover", "e", "--look", "--compare"]).stdout;
    assert!(compared.contains("1 changed, 1 added, 0 removed, 0 not to be compared"), "{compared}");
    // Elsewhere nothing of it is looked at, unless it is named.
    let elsewhere = |words: &[&str]| {
        let mut command = world.command(words);
        command.current_dir("/");
        support::finish(command, None)
    };
    fs::create_dir(world.file("mine")).unwrap();
    let mine = format!("--compare={}", world.file("mine").display());
    let told = elsewhere(&["handover", "e", "--look", "--json", &mine]).expect(0).json();
    assert_eq!(told["since"]["elsewhere"][0].as_str(), tree.to_str(), "{told}");
    assert_eq!(told["since"]["paths"], 0, "{told}");
    let named = format!("--verify={}", tree.display());
    elsewhere(&["checkpoint", "e", &named]).expect(1);
    assert!(!ran.exists(), "it ran as {}", fs::read_to_string(&ran).unwrap_or_default());
}

#[test]
fn what_cmd_says_that_its_checkpoint_covers_is_covered() {
    let world = World::new();
    let lead = r#"echo one > work
printf '{"summary": "s", "state": {}, "covers": ["work"]}' > "$BATON_CHECKPOINT_FILE"; sleep 600"#;
    let mut run = world.command(&["run", "e", "--as", "a", "--ttl", "30s", "--", "sh", "-c", lead]);
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it is published", || {
        let status = world.call(&["handover", "e", "--look", "--json"]);
        status.code == 0 && status.json()["checkpoint"]["covers"]["paths"] == 1
    });
    run.kill().unwrap();
    run.wait().unwrap();
    fs::write(world.file("work"), "two").unwrap();
    let since = world.call(&["checkpoint", "e", "--verify", "--json"]).expect(1).json();
    assert_eq!(since["since"]["changed"].as_array().map(Vec::len), Some(1), "{since}");
}

/// Nobody leads: reads and work under way go on, what is new waits, and no more of it than so much.
fn degraded_not_dead(world: &World, flood: bool) {
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["task", "add", "e", "t", "--id", "one", "--as", "a"]);
    world.ok(&["task", "assign", "e", "one", "--to", "w", "--as", "a"]);
    world.ok(&["task", "accept", "e", "one", "--as", "w"]);
    world.ok(&["state", "put", "e", "plan", "step 1", "--as", "a"]);
    assert_eq!(world.status("e")["degraded"], Value::Null);
    world.ok(&["release", "e", "--as", "a"]);

    assert_eq!(world.ok(&["state", "get", "e", "plan"]).stdout.trim(), "step 1");
    world.ok(&["task", "progress", "e", "one", "50", "--as", "w"]);
    world.ok(&["task", "add", "e", "later", "--id", "two", "--as", "w"]);
    let degraded = world.status("e")["degraded"].clone();
    assert!(degraded["since"].is_string(), "{degraded}");
    assert_eq!((&degraded["queued"], &degraded["under_way"]), (&1.into(), &1.into()));
    let most = degraded["most_queued"].as_u64().unwrap();
    let told = world.ok(&["status", "e"]).stdout;
    assert!(told.contains("degraded    nobody leads since"), "{told}");
    assert!(told.contains(&format!("1 task is under way, 1 of at most {most} new ones waits")), "{told}");
    assert!(world.ok(&["top", "--once"]).stdout.contains("1 of these degraded"));

    if flood {
        // What waits is bounded, and what was there before goes on all the same.
        let many = (0..most).map(|n| format!("{{\"id\": \"q{n}\", \"title\": \"t\"}}"));
        fs::write(world.file("many"), many.collect::<Vec<_>>().join("\n")).unwrap();
        let refused = world.call(&["task", "add", "e", "--from", "many", "--as", "w", "--json"]).expect(3);
        assert_eq!(refused.json()["code"], "exhausted", "{refused:?}");
        let queued = world.status("e")["degraded"]["queued"].as_u64();
        assert!(queued > Some(1) && queued <= Some(most), "{queued:?} of {most}");
    }
    world.ok(&["task", "complete", "e", "one", "--as", "w"]);

    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);
    assert_eq!(world.status("e")["degraded"], Value::Null);
    let board = world.json(&["task", "board", "e"]);
    assert_eq!((&board["done"], &board["degraded"]), (&1.into(), &false.into()), "{board}");
    assert!(board["queued"].as_u64() >= Some(1), "what waited is the new leader's: {board}");
}

#[test]
fn without_a_leader_a_folder_is_degraded_and_not_dead() {
    degraded_not_dead(&World::folder(), false);
}

#[test]
fn without_a_leader_a_server_is_degraded_and_not_dead() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    degraded_not_dead(&World::on(&server.url()), true);
}

/// A worker that is at a task goes on under the next leader, and its CMD learns the new epoch once it is adopted.
fn adopted_workers_go_on(world: &World) {
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["task", "add", "e", "t", "--id", "one", "--as", "a"]);
    world.ok(&["task", "assign", "e", "one", "--to", "w", "--as", "a"]);
    let work = r#"touch began; until grep -qx 2 "$BATON_TASK_EPOCH_FILE"; do sleep 0.05; done; echo "$BATON_TASK_EPOCH" > first"#;
    let mut worker = world.command(&["task", "work", "e", "--as", "w", "--once", "--", "sh", "-c", work]);
    let mut worker = worker.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the worker is at it", || world.file("began").exists());
    world.ok(&["task", "add", "e", "t", "--id", "two", "--as", "a"]);
    world.ok(&["task", "assign", "e", "two", "--to", "v", "--as", "a"]);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);

    assert_eq!(world.json(&["task", "board", "e"])["inherited"], 2);
    let look = world.ok(&["task", "adopt", "e", "--look", "--json"]).jsons();
    assert_eq!(look.len(), 2, "{look:?}");
    world.call(&["task", "accept", "e", "two", "--as", "v"]).expect(5);
    world.call(&["task", "adopt", "e", "one", "--as", "a"]).expect(4);
    let adopted = world.json(&["task", "adopt", "e", "--all", "--as", "b"]);
    assert_eq!((adopted["tasks"].as_array().map(Vec::len), &adopted["token"]), (Some(2), &2.into()));
    assert_eq!(world.json(&["task", "board", "e"])["inherited"], 0);
    world.ok(&["task", "accept", "e", "two", "--as", "v"]);
    assert_eq!(support::exit_code(&mut worker), Some(0));
    let one = world.json(&["task", "show", "e", "one"]);
    assert_eq!((&one["state"], one["attempts"].as_array().map(Vec::len)), (&"done".into(), Some(1)), "{one}");
    assert_eq!((&one["attempts"][0]["epoch"], &one["attempts"][0]["agent"]), (&2.into(), &"w".into()));
    assert_eq!(world.read_soon("first").trim(), "1", "it was told in the first epoch");
}

#[test]
fn a_worker_that_is_adopted_goes_on_in_a_folder() {
    adopted_workers_go_on(&World::folder());
}

#[test]
fn a_worker_that_is_adopted_goes_on_at_a_server() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    adopted_workers_go_on(&World::on(&server.url()));
}
