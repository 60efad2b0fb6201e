//! The operator's commands.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support;
use crate::support::{World, exit_code, tree, until};

const ACTS: [&[&str]; 7] = [
    &["appoint", "e", "b"],
    &["depose", "e"],
    &["pause", "e"],
    &["resume", "e"],
    &["approve", "e"],
    &["reject", "e"],
    &["policy", "e", "--ttl", "1m"],
];

#[test]
fn nobody_is_an_operator_without_init() {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "a"]);
    let before = tree(&world.store());
    for act in ACTS {
        let refused = world.call(&[act, &["--json"]].concat()).expect(6).json();
        assert_eq!(refused["code"], "no-operator", "{act:?}");
        assert!(refused["hint"].as_str().unwrap().contains("baton init"), "{act:?}: {refused}");
    }
    assert_eq!(before, tree(&world.store()));
}

#[test]
fn nobody_is_an_operator_in_a_store_that_does_not_exist() {
    let world = World::new();
    for act in ACTS {
        world.call(act).expect(6);
        assert!(!world.store().exists(), "{act:?} made a store");
    }
}

#[test]
fn an_operator_of_elsewhere_is_none_here() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    let mut elsewhere = world.command(&["init", "--store", "file:other"]);
    elsewhere.env("BATON_CONFIG_DIR", world.file("config-of-another"));
    support::finish(elsewhere, None).expect(0);
    for act in ACTS {
        let refused = world.call_elsewhere(&[act, &["--json"]].concat());
        assert_eq!(refused.code, 6, "{act:?}: {refused:?}");
    }
    assert_eq!(world.status("e")["leader"]["agent"], "a");
}

#[test]
fn init_makes_a_private_key_once_and_says_where() {
    let world = World::new();
    let first = world.json(&["init"]);
    assert_eq!((&first["outcome"], &first["key_made"]), (&json!("initialised"), &json!(true)));
    let key = std::path::PathBuf::from(first["key_file"].as_str().unwrap());
    assert!(key.starts_with(world.file("config")));
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&key).unwrap();
    for (path, text) in tree(&world.store()) {
        assert!(!String::from_utf8_lossy(&text).contains(secret.trim()), "{}", path.display());
    }
    let second = world.json(&["init"]);
    assert_eq!((&second["key_made"], &second["operator"]), (&json!(false), &first["operator"]));
    assert_eq!(std::fs::read_to_string(&key).unwrap(), secret);

    // A key that others can read proves nothing.
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = world.call(&["pause", "e", "--json"]).expect(6).json();
    assert!(refused["hint"].as_str().unwrap().contains("chmod 600"), "{refused}");
}

#[test]
fn an_operator_enrols_only_by_an_operator_once_there_is_one() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    let refused = world.call_elsewhere(&["init", "--json"]);
    let acted = world.call_elsewhere(&["depose", "e", "--json"]);
    assert_eq!(acted.code, 6, "{refused:?} {acted:?}");
    assert_eq!(world.status("e")["leader"]["agent"], "a");
}

#[test]
fn an_operators_name_stands_beside_its_key() {
    let world = World::folder();
    let ada = world.json(&["init", "--name", "Ada"])["operator"].as_str().unwrap().to_string();
    let ben = world.call_elsewhere(&["operator", "key"]).expect(0).stdout.trim().to_string();
    world.ok(&["operator", "add", &ben, "--name", "Ben"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.call_elsewhere(&["depose", "e"]).expect(0);
    let audit = world.ok(&["audit"]).stdout;
    assert!(audit.contains(&format!("Ben ({})", &ben[..12])), "{audit}");
    let told = world.ok(&["audit", "e", "--json"]).jsons();
    assert_eq!((&told[0]["by"], &told[0]["by_name"]), (&json!(ben), &json!("Ben")));
    world.ok(&["pause", "--all", "--reason", "fire"]);
    let status = world.ok(&["status", "e"]).stdout;
    assert!(status.contains(&format!("everything is paused by Ada ({}) since ", &ada[..12])), "{status}");
    // Nobody passes for another, and what cannot be seen is no name.
    for name in ["ADA", "", "B\u{202e}en"] {
        assert_ne!(world.call(&["operator", "add", &ben, "--name", name]).code, 0, "{name:?}");
    }
    // Given again, it is another name; without one, the name stays.
    world.ok(&["operator", "add", &ben, "--name", "Benjamin"]);
    world.ok(&["operator", "add", &ben]);
    let listed = world.ok(&["operator", "list", "--json"]).jsons();
    let names: Vec<_> = listed.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, [&json!("Ada"), &json!("Benjamin")]);
    // An operator that was removed is still known by its name in what it did.
    world.ok(&["operator", "remove", &ben]);
    assert!(world.ok(&["audit", "e"]).stdout.contains("Benjamin ("));
}

#[test]
fn a_second_operator_is_added_by_the_first_and_may_remove_it() {
    let world = World::new();
    let first = world.json(&["init"])["operator"].as_str().unwrap().to_string();
    world.ok(&["acquire", "e", "--as", "a"]);
    // A second init makes a key, and says whose word makes it worth something.
    let refused = world.call_elsewhere(&["init", "--json"]).expect(6).json();
    let second = refused["operator"].as_str().unwrap().to_string();
    assert_eq!(refused["hint"], format!("let an operator run: baton operator add {second}"));
    assert_eq!(world.call_elsewhere(&["operator", "key"]).expect(0).stdout.trim(), second);
    let refused = world.call_elsewhere(&["pause", "e", "--json"]).expect(6).json();
    assert!(refused["hint"].as_str().unwrap().contains(&second), "{refused}");
    world.call_elsewhere(&["policy", "later", "--ttl", "1m"]).expect(6);

    let added = world.json(&["operator", "add", &second]);
    assert_eq!((&added["outcome"], &added["elections"]), (&json!("added"), &json!(1)));
    assert_eq!(world.json(&["operator", "add", &second])["elections"], 0, "a second time changes nothing");
    let listed = world.ok(&["operator", "list", "--json"]).jsons();
    let told: Vec<_> = listed.iter().map(|one| (&one["operator"], &one["you"], &one["elections"])).collect();
    let (yes, no, one) = (json!(true), json!(false), json!(1));
    assert_eq!(told, [(&json!(first), &yes, &one), (&json!(second), &no, &one)]);
    world.call_elsewhere(&["pause", "e"]).expect(0);
    world.call_elsewhere(&["policy", "later", "--ttl", "1m"]).expect(0);

    let removed = world.call_elsewhere(&["operator", "remove", &first, "--json"]).expect(0).json();
    assert_eq!((&removed["outcome"], &removed["elections"]), (&json!("removed"), &json!(2)));
    for act in [&["resume", "e"][..], &["policy", "later", "--ttl", "2m"], &["operator", "add", &first]] {
        world.call(act).expect(6);
    }
    let refused = world.call_elsewhere(&["operator", "remove", &second, "--json"]).expect(2).json();
    assert_eq!(refused["message"], "the last operator cannot be removed");
    world.call_elsewhere(&["resume", "e"]).expect(0);
    // By JSON as by words.
    let mut by_input = world.command(&["operator", "add", "--input", "-", "--json"]);
    by_input.env("BATON_CONFIG_DIR", world.file("config-of-another"));
    let input = json!({"key": first}).to_string();
    assert_eq!(support::finish(by_input, Some(&input)).expect(0).json()["outcome"], "added");
    world.ok(&["pause", "e"]);
}

#[test]
fn operators_that_are_none_are_told_so() {
    let world = World::folder();
    let nobody = "0".repeat(64);
    world.call(&["operator", "add", &nobody]).expect(6);
    world.ok(&["operator", "key"]);
    for call in [&["operator", "list"][..], &["operator", "remove", &nobody]] {
        let told = world.call(&[call, &["--json"]].concat()).expect(2).json();
        assert!(told["message"].as_str().unwrap().contains("not a store yet"), "{told}");
    }
    assert!(!world.store().exists());
    world.ok(&["acquire", "e", "--as", "a"]);
    let other = world.call_elsewhere(&["operator", "key"]).expect(0).stdout.trim().to_string();
    world.call(&["operator", "add", &other]).expect(6);
    world.ok(&["init"]);
    for wrong in ["4b98", "no key", &nobody] {
        world.call(&["operator", "add", wrong]).expect(2);
    }
    let told = world.call(&["operator", "remove", &other, "--json"]).expect(2).json();
    assert!(told["hint"].as_str().unwrap().contains("baton operator list"), "{told}");
    world.call(&["operator"]).expect(2);
}

#[test]
fn status_shows_who_stands_in_line_where_the_policy_compares() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--select", "priority"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    assert_eq!(world.status("e")["candidates"], json!([]));
    for (agent, priority) in [("b", "5"), ("c", "9")] {
        world.ok(&["enlist", "e", "--as", agent, "--priority", priority]);
    }
    for line in [world.status("e"), world.json(&["status"])].map(|status| status["candidates"].clone()) {
        let told: Vec<_> =
            line.as_array().unwrap().iter().map(|one| (&one["agent"], &one["place"])).collect();
        assert_eq!(told, [(&json!("c"), &json!(1)), (&json!("b"), &json!(2))]);
        assert_eq!(line[0]["priority"], 9);
    }
    let shown = world.ok(&["status", "e"]).stdout;
    assert!(shown.contains("in line     1. c: priority 9 among 2"), "{shown}");
    world.ok(&["policy", "e", "--select", "capable", "--need", "rust"]);
    world.ok(&["enlist", "e", "--as", "b", "--capability", "rust", "--score", "3"]);
    let line = world.status("e")["candidates"].clone();
    assert_eq!((&line[0]["agent"], &line[0]["score"]), (&json!("b"), &json!(3)));
    assert_eq!((&line[1]["agent"], &line[1]["place"]), (&json!("c"), &json!(null)), "it is ruled out");
}

#[test]
fn who_waits_for_an_ended_lease_is_not_told_that_another_leads() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.ok(&["depose", "e"]);
    let refused = world.call(&["acquire", "e", "--as", "b", "--wait", "100ms", "--json"]).expect(3).json();
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("ended") && message.contains("its lease may still be running"), "{message}");
}

#[test]
fn nothing_shorter_than_its_whole_hash_names_a_checkpoint() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--approval", "checkpoints"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    let told = world.json(&["checkpoint", "e", "--as", "a", "--summary", "plan"]);
    let hash = told["hash"].as_str().unwrap();
    let printed = world.ok(&["status", "e"]).stdout;
    assert!(printed.contains(&format!("baton approve e --checkpoint {hash}\n")), "{printed}");
    for wrong in [&hash[..6], &hash[..12], &hash[..63], "PLAN00"] {
        let refused = world.call(&["approve", "e", "--checkpoint", wrong]).expect(2).stderr;
        assert!(refused.contains("all 64 hexadecimal digits"), "{refused}");
    }
    assert_eq!(world.status("e")["state"], "awaiting-approval");
    world.ok(&["approve", "e", "--checkpoint", hash]);
    assert_eq!(world.status("e")["state"], "held");
}

#[test]
fn pause_stops_everybody_until_resume() {
    let world = World::new();
    world.ok(&["init"]);
    let told = world.json(&["pause", "e", "--reason", "release freeze"]);
    assert_eq!(told["outcome"], "pause");
    let refused = world.call(&["acquire", "e", "--as", "a", "--json"]).expect(6).json();
    assert_eq!(refused["code"], "paused");
    assert_eq!(world.status("e")["paused"]["reason"], "release freeze");
    world.ok(&["resume", "e"]);
    world.ok(&["acquire", "e", "--as", "a"]);
}

#[test]
fn an_appointed_agent_goes_first() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    world.ok(&["appoint", "e", "b", "--reason", "knows the code"]);
    world.ok(&["release", "e", "--as", "a"]);
    world.call(&["acquire", "e", "--as", "a"]).expect(3);
    assert_eq!(world.json(&["acquire", "e", "--as", "b"])["cause"], "appoint");
}

#[test]
fn a_checkpoint_waits_for_approval_and_the_token_rises_with_it() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--approval", "checkpoints"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    let told = world.json(&["checkpoint", "e", "--as", "a", "--summary", "plan"]);
    assert_eq!(told["awaiting_approval"], true);
    assert_eq!(world.status("e")["state"], "awaiting-approval");
    world.call(&["renew", "e", "--as", "a"]).expect(6);
    let refused = world.call(&["check", "e", "--token", "1", "--json"]);
    assert!([5, 6].contains(&refused.code), "{refused:?}");
    let wrong = "0".repeat(64);
    assert_ne!(world.call(&["approve", "e", "--checkpoint", &wrong]).code, 0);
    world.ok(&["approve", "e", "--checkpoint", told["hash"].as_str().unwrap()]);
    let renewed = world.json(&["renew", "e", "--as", "a"]);
    assert!(renewed["token"].as_u64().unwrap() > 1, "{renewed}");
    world.call(&["check", "e", "--token", "1"]).expect(5);
    world.ok(&["check", "e", "--token", &renewed["token"].to_string(), "--as", "a"]);
}

#[test]
fn a_policy_is_shown_set_and_kept() {
    let world = World::new();
    assert_eq!(world.json(&["policy", "e"])["policy"]["select"], "first");
    assert!(!world.store().exists());
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--select", "designated", "--designated", "boss", "--budget-tokens", "9"]);
    world.ok(&["policy", "e", "--ttl", "10s"]);
    let policy = world.json(&["policy", "e"])["policy"].clone();
    assert_eq!((&policy["select"], &policy["ttl"]), (&json!("designated"), &json!("10s")));
    assert_eq!(policy["designated"], "boss");
    world.call(&["acquire", "e", "--as", "a"]).expect(3);
    assert_eq!(world.json(&["acquire", "e", "--as", "boss"])["ttl_ms"], 10_000);
    world.call(&["renew", "e", "--as", "boss", "--spent", "9"]).expect(4);
    world.ok(&["policy", "e", "--budget-tokens", "none"]);
    assert_eq!(world.json(&["policy", "e"])["policy"]["limits"], json!({}));
    for wrong in [["--ttl", "500ms"], ["--ttl", "8d"], ["--select", "loudest"], ["--approval", "often"]] {
        world.call(&["policy", "e", wrong[0], wrong[1]]).expect(2);
    }
}

#[test]
fn watch_tells_of_every_change() {
    let world = World::new();
    world.ok(&["init"]);
    let log = std::fs::File::create(world.file("watched")).unwrap();
    let mut command = world.command(&["watch", "e", "--json", "--changes", "4"]);
    let mut watch = command.stdout(log).spawn().unwrap();
    let told = || std::fs::read_to_string(world.file("watched")).unwrap();
    let wait_for = |lines: usize| until("it is told", || told().lines().count() >= lines);
    wait_for(1);
    world.ok(&["acquire", "e", "--as", "a"]);
    wait_for(2);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "x"]);
    wait_for(3);
    world.ok(&["depose", "e"]);
    wait_for(4);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b"]);
    assert_eq!(support::exit_code(&mut watch), Some(0));
    let parse = |line: &str| -> serde_json::Value { serde_json::from_str(line).unwrap() };
    let states: Vec<String> =
        told().lines().map(|line| parse(line)["state"].as_str().unwrap().to_string()).collect();
    assert_eq!(states[..4], ["absent", "held", "held", "vacant"], "{states:?}");
}

#[test]
fn who_led_before_a_pause_is_told_of_its_own_lease() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.ok(&["pause", "e"]);
    world.ok(&["resume", "e"]);
    let refused = world.call(&["acquire", "e", "--as", "a", "--json"]).expect(4).json();
    let told = |field: &str| refused[field].as_str().unwrap();
    assert_eq!(told("code"), "stale");
    assert!(
        told("message").starts_with("the leadership of a was ended (pause); its lease may last "),
        "{refused}"
    );
    assert!(told("hint").contains("baton release e --as a"), "{refused}");
    world.ok(&["release", "e", "--as", "a"]);
    assert_eq!(world.json(&["acquire", "e", "--as", "a"])["token"], 3);
}

#[test]
fn a_file_that_only_one_may_open_has_acts_too() {
    let world = World::new();
    let store = ["--store", "embedded:team.redb"];
    let of = |words: &[&'static str]| [words, &store].concat();
    world.ok(&of(&["init"]));
    world.ok(&of(&["policy", "e", "--approval", "checkpoints", "--breaker", "3/5m"]));
    world.ok(&of(&["acquire", "e", "--as", "a"]));
    world.ok(&of(&["checkpoint", "e", "--as", "a", "--summary", "s"]));
    let status = world.ok(&of(&["status", "e", "--json"])).json();
    let hash = status["question"]["hash"].as_str().unwrap();
    world.ok(&[&["approve", "e", "--checkpoint", hash][..], &store].concat());
    world.ok(&of(&["breaker", "reset", "e"]));
    let status = world.ok(&of(&["status", "e", "--json"])).json();
    assert_eq!(status["state"], "held");
    assert_eq!(status["policy"]["breakers"]["generation"], 1);
}

#[test]
fn who_approves_sees_what_it_is() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--approval", "checkpoints"]);
    world.ok(&["acquire", "e", "--as", "a"]);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "harmless", "--state", "[\"parser\"]"]);
    let status = world.ok(&["status", "e"]).stdout;
    let looked_at = status.split("--checkpoint ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let looked_at = looked_at.unwrap().to_string();
    // The leader may write another while it waits: that is not what was looked at.
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "harmless", "--state", "\"drop all\""]);
    world.call(&["approve", "e", "--checkpoint", &looked_at]).expect(2);
    // Nobody is there to be asked: it is shown, and nothing is signed.
    let unasked = world.call(&["approve", "e"]).expect(2).stderr;
    assert!(unasked.contains("state: \"drop all\"") && unasked.contains(&world.waiting("e")), "{unasked}");
    assert_eq!(world.status("e")["state"], "awaiting-approval");
}

#[test]
fn a_checkpoint_that_takes_the_place_of_the_shown_one_is_not_approved_by_a_yes() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--approval", "checkpoints"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "tests are green", "--state", "[\"parser\"]"]);
    let screen = |name: &str| std::fs::read_to_string(world.file(name)).unwrap();
    let ask = |name: &str| {
        let asked = world.at_terminal(&["approve", "e"], name);
        until("it asks", || screen(name).contains("approve it? [y/N]"));
        asked
    };
    let yes = |mut asked: std::process::Child| {
        asked.stdin.take().unwrap().write_all(b"y\n").unwrap();
        exit_code(&mut asked)
    };
    let asked = ask("first");
    let shown = screen("first");
    for part in ["tests are green", "state: [\"parser\"]", &world.waiting("e")] {
        assert!(shown.contains(part), "{part} is not shown: {shown}");
    }
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "drop the production database"]);
    assert_eq!(yes(asked), Some(2), "{}", screen("first"));
    assert!(screen("first").contains("answers another question"), "{}", screen("first"));
    assert_eq!(world.status("e")["state"], "awaiting-approval");
    assert_eq!(yes(ask("second")), Some(0), "{}", screen("second"));
    assert_eq!(world.status("e")["state"], "held");
}

#[test]
fn text_of_others_passes_for_nothing_else() {
    let world = World::new();
    world.ok(&["init"]);
    let task = "line\nFAKE  held  boss  9\u{1b}[2J\u{200b}";
    world.ok(&["acquire", "e", "--as", "a", "--task", task]);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "s\nthe leader of e may go on"]);
    world.ok(&["task", "add", "e", "title", "--body", "text\nFAKE", "--id", "t", "--as", "a"]);
    for words in
        [vec!["status"], vec!["status", "e"], vec!["task", "show", "e", "t"], vec!["task", "list", "e"]]
    {
        let text = world.ok(&words).stdout;
        assert!(
            !text.lines().any(|line| line.starts_with("FAKE") || line.starts_with("the leader")),
            "{text}"
        );
        assert!(!text.contains(['\u{1b}', '\u{200b}']), "{text}");
    }
    assert!(world.ok(&["status", "e"]).stdout.contains("line ⏎ FAKE"));
    world.ok(&["release", "e", "--as", "a", "--reason", "done\nFAKE  appoint"]);
    world.ok(&["acquire", "e", "--as", "b"]);
    let history = world.ok(&["history", "e"]).stdout;
    assert!(!history.lines().any(|line| line.starts_with("FAKE")), "{history}");
}

/// Waits for what becomes of a checkpoint, while it is decided on.
fn wait_for_approval(world: &World, agent: &str, limit: &str, decide: impl FnOnce()) -> support::Done {
    let words = ["checkpoint", "e", "--as", agent, "--summary", "plan", "--wait-approval", limit, "--json"];
    let seq = || world.status("e")["checkpoint"]["seq"].clone();
    let before = seq();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| world.call(&words));
        until("it waits", || seq() != before || waits.is_finished());
        decide();
        waits.join().unwrap()
    })
}

/// The script of CMD shows the token of the file to a fence right after the approval, which gave a new one.
#[test]
fn under_run_the_token_file_is_current_once_the_approval_is_told() {
    const SCRIPT: &str = r#"
for round in 1 2 3 4 5; do
    "$BATON" checkpoint e --summary "plan $round" --wait-approval 10m || exit 41
    "$BATON" fence db --election e --token "$(cat "$BATON_TOKEN_FILE")" || exit 42
done"#;
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--approval", "checkpoints"]);
    let mut run = world.command(&["run", "e", "--as", "a", "--once", "--", "sh", "-c", SCRIPT]);
    let mut run = run.env("BATON", env!("CARGO_BIN_EXE_baton")).spawn().unwrap();
    for round in 1..=5 {
        let asked = || world.call(&["status", "e", "--json"]).json();
        until("it waits for an approval", || {
            let status = asked();
            status["state"] == "awaiting-approval" && status["checkpoint"]["seq"] == round
        });
        world.ok(&["approve", "e", "--checkpoint", &world.waiting("e")]);
    }
    assert_eq!(support::exit_code(&mut run), Some(0));
}

#[test]
fn who_waits_for_an_approval_learns_what_was_decided() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--approval", "checkpoints"]);
    // A lease that would run out while it waits: it is renewed.
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "15s"]);
    let approved = wait_for_approval(&world, "a", "10m", || {
        let renewals = || world.status("e")["leader"]["renewals"].as_u64().unwrap();
        let before = renewals();
        until("it is renewed", || renewals() > before);
        world.ok(&["approve", "e", "--checkpoint", &world.waiting("e")]);
    });
    let approved = approved.expect(0).json();
    assert_eq!(approved["outcome"], "approved", "{approved}");
    // The token that it learned is the one that counts.
    world.ok(&["check", "e", "--token", &approved["token"].to_string(), "--as", "a"]);
    let rejected = wait_for_approval(&world, "a", "10m", || {
        world.ok(&["reject", "e", "--reason", "no tests"]);
    });
    let rejected = rejected.expect(5).json();
    assert_eq!(rejected["code"], "rejected", "{rejected}");
    assert!(rejected["message"].as_str().unwrap().ends_with("was rejected: no tests"), "{rejected}");

    world.ok(&["acquire", "e", "--as", "b", "--wait", "1m", "--ttl", "1h"]);
    let undecided = wait_for_approval(&world, "b", "100ms", || ()).expect(6).json();
    assert_eq!(undecided["code"], "awaiting-approval", "{undecided}");
    let lost = wait_for_approval(&world, "b", "10m", || {
        world.ok(&["depose", "e", "--force", "--reason", "goes in circles"]);
    });
    assert_eq!(lost.expect(4).json()["code"], "lost");
}
