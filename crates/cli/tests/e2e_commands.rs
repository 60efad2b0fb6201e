//! The commands of agents that are not processes: what they print, what they exit with, what they keep.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{World, exit_code, finish, tree, until};

/// A world in which `a` leads `e` with token 1.
fn led() -> World {
    let world = World::new();
    let granted = world.json(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    assert_eq!(granted["token"], 1);
    world
}

fn renewals(world: &World) -> u64 {
    world.status("e")["leader"]["renewals"].as_u64().unwrap()
}

#[test]
fn a_leadership_from_acquire_to_release() {
    let world = World::new();
    let granted = world.json(&["acquire", "e", "--as", "a", "--ttl", "20s", "--task", "refactor"]);
    assert_eq!(granted["outcome"], "granted");
    assert_eq!(granted["election"], "e");
    assert_eq!(granted["agent"], "a");
    assert_eq!(granted["token"], 1);
    let left = granted["expires_in_ms"].as_u64().unwrap();
    assert!(left > 0 && left < 20_000, "{left}");

    let status = world.status("e");
    assert_eq!(status["election"], "e");
    assert_eq!(status["state"], "held");
    assert_eq!(status["token"], 1);
    assert_eq!(status["leader"]["agent"], "a");
    assert_eq!(status["leader"]["token"], 1);
    assert_eq!(status["task"], "refactor");

    let renewed = world.json(&["renew", "e", "--as", "a", "--spent", "17"]);
    assert_eq!((&renewed["outcome"], &renewed["token"]), (&json!("renewed"), &json!(1)));
    assert_eq!(world.status("e")["leader"]["spent_tokens"], 17);

    let released = world.json(&["release", "e", "--as", "a", "--reason", "done"]);
    assert_eq!(released["outcome"], "released");
    let status = world.status("e");
    assert_eq!((status["state"].as_str(), status["token"].as_u64()), (Some("vacant"), Some(1)));
    assert_eq!(status["leader"], Value::Null);
    // A released lease is gone for its holder too.
    world.call(&["renew", "e", "--as", "a"]).expect(4);

    assert_eq!(world.json(&["acquire", "e", "--as", "b"])["token"], 2);
    let history = world.ok(&["history", "e", "--json"]).jsons();
    let told: Vec<_> = history.iter().map(|t| (&t["epoch"], &t["to"], &t["cause"])).collect();
    assert_eq!(
        told,
        [(&json!(1), &json!("a"), &json!("first")), (&json!(2), &json!("b"), &json!("release"))]
    );
    assert!(history[1]["reason"].is_string(), "{history:?}");
}

#[test]
fn each_exit_code_means_what_it_says() {
    let world = led();
    world.call(&["status"]).expect(0);
    world.call(&["status", "unknown"]).expect(1);
    world.call(&["acquire", "e"]).expect(2);
    world.call(&["acquire"]).expect(2);
    world.call(&["no-such-command"]).expect(2);
    world.call(&["acquire", "e", "--as", "b"]).expect(3);
    world.call(&["renew", "e", "--as", "b"]).expect(4);
    world.call(&["check", "e", "--token", "0"]).expect(5);
    world.call(&["depose", "e"]).expect(6);
    std::fs::write(world.file("not-a-folder"), "").unwrap();
    world.call(&["status", "--store", "file:not-a-folder"]).expect(7);
}

#[test]
fn a_failure_has_a_code_a_message_and_a_hint_in_json_and_in_words() {
    let world = led();
    let call = world.call(&["acquire", "e", "--as", "b", "--json"]).expect(3);
    let told = call.json();
    assert_eq!(
        (&told["outcome"], &told["code"], &told["exit"]),
        (&json!("error"), &json!("held"), &json!(3))
    );
    assert!(told["message"].as_str().is_some_and(|text| text.contains("held by a")), "{told}");
    assert!(told["hint"].is_string(), "{told}");
    assert_eq!(call.stderr, "");

    let call = world.call(&["acquire", "e", "--as", "b"]).expect(3);
    assert_eq!(call.stdout, "");
    assert!(call.stderr.starts_with("error: held by a"), "{}", call.stderr);
    assert!(call.stderr.contains("\nhint: "), "{}", call.stderr);

    // Also where the arguments themselves are wrong.
    let told = world.call(&["acquire", "Wrong", "--as", "b", "--json"]).expect(2).json();
    assert_eq!((&told["code"], &told["exit"]), (&json!("usage"), &json!(2)));
    assert!(told["message"].as_str().unwrap().contains("`Wrong`"), "{told}");
}

#[test]
fn one_shot_commands_want_to_know_who_acts() {
    let world = World::new();
    for call in [
        &["acquire", "e"][..],
        &["renew", "e"],
        &["release", "e"],
        &["release", "e", "--to", "b"],
        &["checkpoint", "e", "--summary", "x"],
        &["handover", "e"],
        &["report", "e", "stall"],
        &["enlist", "e"],
        &["enlist", "e", "--withdraw"],
    ] {
        let refused = world.call(&[call, &["--json"]].concat()).expect(2).json();
        assert!(refused["hint"].as_str().unwrap().contains("BATON_AGENT"), "{call:?}: {refused}");
        let mut named = world.command(call);
        named.env("BATON_AGENT", "a");
        assert_ne!(finish(named, None).code, 2, "{call:?} takes the agent from the environment");
    }
}

#[test]
fn the_key_is_private_and_without_it_the_same_name_is_another() {
    let world = led();
    let other = world.call_elsewhere(&["acquire", "e", "--as", "a", "--json"]).expect(3).json();
    assert_eq!(other["code"], "held");
    world.call_elsewhere(&["renew", "e", "--as", "a"]).expect(4);
    world.call_elsewhere(&["release", "e", "--as", "a"]).expect(4);
    // With the key, asking again is answered as the first time.
    let again = world.json(&["acquire", "e", "--as", "a"]);
    assert_eq!((&again["token"], &again["repeated"]), (&json!(1), &json!(true)));

    let files = tree(&world.file("state"));
    assert!(!files.is_empty());
    for path in files.keys() {
        let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    let key = files.iter().find(|(path, _)| path.ends_with("leases/e/a.json")).unwrap();
    let key: Value = serde_json::from_slice(key.1).unwrap();
    let secret = key["credential"].to_string();
    let secret = secret.trim_matches('"').split(['.', ':', '-']).next_back().unwrap().to_string();
    assert!(secret.len() >= 16, "{secret}");
    for (path, text) in tree(&world.store()) {
        assert!(!String::from_utf8_lossy(&text).contains(&secret), "the key is in {}", path.display());
    }
}

#[test]
fn calls_of_one_agent_at_one_time_share_one_key() {
    let world = World::new();
    for round in 0..10 {
        let election = format!("e{round}");
        std::thread::scope(|scope| {
            let acquire = || world.json(&["acquire", &election, "--as", "a"]);
            let calls: Vec<_> = (0..4).map(|_| scope.spawn(acquire)).collect();
            for call in calls {
                assert_eq!(call.join().unwrap()["token"], 1);
            }
        });
        world.ok(&["renew", &election, "--as", "a"]);
    }
}

#[test]
fn a_key_that_was_spoilt_is_replaced_once_the_lease_is_over() {
    let world = World::new();
    // It is to be running still when it is asked for again, on a busy machine too.
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "15s"]);
    let files = tree(&world.file("state"));
    let key = files.keys().find(|path| path.ends_with("leases/e/a.json")).unwrap();
    std::fs::write(key, "nonsense").unwrap();
    world.call(&["acquire", "e", "--as", "a", "--ttl", "1h"]).expect(3);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h", "--wait", "50s"]);
    assert_eq!(world.json(&["acquire", "e", "--as", "a"])["repeated"], true);
}

#[test]
fn what_the_holder_does_renews_and_what_others_do_does_not() {
    let world = led();
    world.ok(&["fence", "db", "--election", "e", "--token", "1"]);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "x"]);
    for call in [
        &["renew", "e", "--as", "a"][..],
        &["checkpoint", "e", "--as", "a", "--summary", "y"],
        &["check", "e", "--token", "1", "--as", "a"],
        &["fence", "db", "--token", "1", "--as", "a"],
        &["fence", "db", "--election", "e", "--token", "1", "--as", "a"],
        &["handover", "e", "--as", "a"],
        &["acquire", "e", "--as", "a"],
    ] {
        let before = renewals(&world);
        world.ok(call);
        assert!(renewals(&world) > before, "{call:?} of the holder renews");
    }
    for call in [
        &["check", "e", "--token", "1"][..],
        &["check", "e", "--token", "1", "--as", "b"],
        &["fence", "db", "--token", "1"],
        &["handover", "e", "--look"],
        &["status", "e"],
    ] {
        let before = renewals(&world);
        world.ok(call);
        assert_eq!(renewals(&world), before, "{call:?} of somebody else does not");
    }
}

#[test]
fn a_holder_that_looks_for_a_handover_where_there_is_none_renews_too() {
    let world = led();
    let before = renewals(&world);
    assert_eq!(world.json(&["handover", "e", "--as", "a"])["outcome"], "nothing");
    assert!(renewals(&world) > before);
}

#[test]
fn check_says_yes_or_stale() {
    let world = led();
    assert_eq!(world.json(&["check", "e", "--token", "1"])["outcome"], "current");
    world.call(&["check", "e", "--token", "2"]).expect(5);
    world.ok(&["release", "e", "--as", "a"]);
    world.call(&["check", "e", "--token", "1"]).expect(5);
    world.ok(&["acquire", "e", "--as", "b"]);
    world.call(&["check", "e", "--token", "1"]).expect(5);
    world.ok(&["check", "e", "--token", "2"]);
}

#[test]
fn a_lease_that_is_not_renewed_runs_out_and_is_not_revived() {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1s"]);
    until("it has run out", || world.status("e")["state"] == "expired");
    world.call(&["renew", "e", "--as", "a"]).expect(4);
    world.call(&["check", "e", "--token", "1"]).expect(5);
    // Its former holder campaigns like everybody else, and gets a new token.
    assert_eq!(world.json(&["acquire", "e", "--as", "a"])["token"], 2);
    let history = world.ok(&["history", "e", "--json"]).jsons();
    assert_eq!(history[1]["cause"], "failover");
}

#[test]
fn a_checkpoint_is_handed_over_and_acknowledged() {
    let world = led();
    world.call(&["checkpoint", "e", "--as", "a", "--state", "no json"]).expect(2);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "half", "--state", r#"{"done":["parser"]}"#]);
    let mut piped = world.command(&["checkpoint", "e", "--as", "a", "--state", "-", "--summary", "most"]);
    piped.arg("--json");
    let told = finish(piped, Some("[1,2]")).expect(0).json();
    assert_eq!((&told["outcome"], &told["seq"]), (&json!("checkpointed"), &json!(2)));
    world.ok(&["release", "e", "--as", "a"]);

    let granted = world.json(&["acquire", "e", "--as", "b"]);
    assert_eq!(granted["checkpoint"], 2);
    let seen = world.json(&["handover", "e", "--look"]);
    assert_eq!(seen["acknowledged"], false);
    // An agent that does not lead may look but not take it on.
    world.call(&["handover", "e", "--as", "a"]).expect(4);
    let taken = world.json(&["handover", "e", "--as", "b"]);
    assert_eq!((&taken["outcome"], &taken["acknowledged"]), (&json!("acknowledged"), &json!(true)));
    assert_eq!((&taken["checkpoint"]["state"], &taken["checkpoint"]["by"]), (&json!([1, 2]), &json!("a")));
    assert_eq!(world.status("e")["checkpoint"]["acknowledged_by"], "b");
}

#[test]
fn a_large_state_is_a_reference_with_its_hash() {
    let world = led();
    std::fs::write(world.file("big.json"), format!("\"{}\"", "x".repeat(70_000))).unwrap();
    world.call(&["checkpoint", "e", "--as", "a", "--state", "@big.json"]).expect(2);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "s", "--reference", "big.json"]);
    let left = world.json(&["handover", "e", "--look"]);
    let reference = &left["checkpoint"]["reference"];
    assert!(reference["location"].as_str().unwrap().ends_with("/big.json"), "{left}");
    assert_eq!(reference["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn pass_keeps_the_election_for_the_successor() {
    let world = led();
    let passed = world.json(&["release", "e", "--to", "b", "--as", "a", "--reason", "out of context"]);
    assert_eq!((&passed["outcome"], &passed["to"]), (&json!("passed"), &json!("b")));
    world.call(&["acquire", "e", "--as", "c"]).expect(3);
    let granted = world.json(&["acquire", "e", "--as", "b"]);
    assert_eq!(granted["cause"], "pass");
}

#[test]
fn candidates_enlist_and_the_policy_compares_them() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--select", "priority"]);
    assert_eq!(world.json(&["enlist", "e", "--as", "high", "--priority", "9"])["outcome"], "enlisted");
    world.ok(&["enlist", "e", "--as", "low", "--priority", "-1"]);
    let granted = world.json(&["acquire", "e", "--as", "high", "--priority", "9"]);
    assert_eq!(granted["agent"], "high");
    let history = world.ok(&["history", "e", "--json"]).jsons();
    assert!(history[0]["reason"].as_str().unwrap().contains("priority"), "{history:?}");
    assert_eq!(world.json(&["enlist", "e", "--as", "low", "--withdraw"])["outcome"], "withdrawn");
    assert_eq!(world.json(&["enlist", "e", "--as", "low", "--withdraw"])["outcome"], "not-standing");
}

#[test]
fn the_leader_or_a_named_watcher_may_report() {
    let world = led();
    let refused = world.call(&["report", "e", "stall", "--as", "stranger", "--json"]).expect(3).json();
    assert_eq!(refused["code"], "not-eligible");
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--watcher", "reviewer"]);
    let told = world.json(&["report", "e", "validation", "--as", "reviewer", "--detail", "tests fail"]);
    assert_eq!((&told["outcome"], &told["ended"]), (&json!("reported"), &json!("a")));
    world.call(&["check", "e", "--token", "1"]).expect(5);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b"]);
    let history = world.ok(&["history", "e", "--json"]).jsons();
    assert_eq!(history.last().unwrap()["cause"], "validation");
    world.ok(&["report", "e", "stall", "--as", "b"]);
    world.call(&["renew", "e", "--as", "b"]).expect(4);
}

#[test]
fn arguments_come_as_json_too() {
    let world = World::new();
    let input = r#"{"election": "e", "as": "a", "ttl": "1m", "capability": ["rust", "go"]}"#;
    let told = finish(world.command(&["acquire", "--input", "-", "--json"]), Some(input)).expect(0).json();
    assert_eq!((&told["agent"], &told["ttl_ms"]), (&json!("a"), &json!(60_000)));

    // One object is one call; the first that fails ends it.
    let input =
        r#"{"election": "e", "token": 1} {"election": "e", "token": 0} {"election": "e", "token": 1}"#;
    let told = finish(world.command(&["check", "--input=-", "--json"]), Some(input)).expect(5).jsons();
    assert_eq!(told.len(), 2);
    assert_eq!((&told[0]["outcome"], &told[1]["code"]), (&json!("current"), &json!("stale")));

    std::fs::write(world.file("call.json"), r#"{"resource":"db","election":"e","token":1,"json":true}"#)
        .unwrap();
    assert_eq!(world.ok(&["fence", "--input", "call.json"]).json()["outcome"], "accepted");

    let fence = r#"{"resource": "db", "token": 1, "command": ["sh", "-c", "exit 7"]}"#;
    finish(world.command(&["fence", "--input", "-"]), Some(fence)).expect(7);

    for wrong in ["", "[1]", "{\"election\": \"e\", \"nonsense\": 1}", "{\"election\": ", "7"] {
        finish(world.command(&["check", "--input", "-"]), Some(wrong)).expect(2);
    }
    world.call(&["check", "e", "--token", "1", "--input"]).expect(2);
    world.call(&["check", "--input", "missing.json"]).expect(2);
}

#[test]
fn text_of_others_cannot_steer_a_terminal() {
    let world = World::new();
    let task = "\u{1b}[31mred\u{7}";
    world.ok(&["acquire", "e", "--as", "a", "--task", task]);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", task]);
    world.ok(&["fence", "db", "--election", "e", "--token", "1", "--note", task]);
    for call in [
        &["status"][..],
        &["status", "e"],
        &["handover", "e", "--look"],
        &["fence", "db", "--log"],
        &["history", "e"],
    ] {
        let shown = world.ok(call);
        assert!(!(shown.stdout + &shown.stderr).contains('\u{1b}'), "{call:?}");
    }
    // Programs get it as it is.
    assert_eq!(world.status("e")["task"], task);
}

#[test]
fn completions_and_versions_are_printed() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(world.ok(&["completions", shell]).stdout.contains("baton"), "{shell}");
    }
    assert!(world.ok(&["--version"]).stdout.starts_with("baton "));
    assert!(!world.store().exists());
}

#[test]
fn shells_learn_the_names_of_elections() {
    let world = World::new();
    assert_eq!(world.ok(&["complete-elections"]).stdout, "", "there is no store");
    world.ok(&["acquire", "fleet/eu", "--as", "a"]);
    world.ok(&["acquire", "refactor-auth", "--as", "a"]);
    assert_eq!(world.ok(&["complete-elections"]).stdout, "fleet/eu\nrefactor-auth\n");
    // As bash does when Tab is pressed.
    std::fs::write(world.file("baton.bash"), world.ok(&["completions", "bash"]).stdout).unwrap();
    let program = world.command(&[]).get_program().to_os_string();
    let complete = |words: &str| {
        let script = format!(
            "source baton.bash; baton() {{ '{}' \"$@\"; }}; COMP_WORDS=({words} ''); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); \
             _baton_with_elections baton '' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            program.display()
        );
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &script]).current_dir(world.path());
        for (name, value) in world.command(&[]).get_envs() {
            value.map(|value| bash.env(name, value));
        }
        finish(bash, None).stdout
    };
    assert_eq!(complete("baton status"), "fleet/eu\nrefactor-auth\n");
    assert_eq!(complete("baton task add"), "fleet/eu\nrefactor-auth\n");
    assert!(!complete("baton completions").contains("fleet/eu"));
}

#[test]
fn all_elections_are_watched_and_each_change_has_its_reason() {
    let world = World::new();
    world.ok(&["acquire", "one", "--as", "a"]);
    let talk = std::fs::File::create(world.file("watched")).unwrap();
    let mut command = world.command(&["watch", "--changes", "2"]);
    let mut watch = command.stdout(talk).stderr(std::process::Stdio::null()).spawn().unwrap();
    let said = || std::fs::read_to_string(world.file("watched")).unwrap();
    until("it shows how things stand", || said().contains("one: a leads with token 1"));
    world.ok(&["release", "one", "--as", "a", "--reason", "out of context"]);
    until("it tells of the end, and why", || said().contains("a ended (voluntary: release: out of context)"));
    // An election that begins later is watched too, and its beginning is a change.
    world.ok(&["acquire", "two", "--as", "b"]);
    assert_eq!(exit_code(&mut watch), Some(0));
    assert!(
        said().contains("two: b leads with token 1") && said().contains("first: first to ask"),
        "{}",
        said()
    );
    world.call(&["watch", "--acknowledge", "--as", "a"]).expect(2);
}

#[test]
fn whoever_makes_a_store_is_told_where() {
    for call in [
        &["acquire", "e", "--as", "a"][..],
        &["run", "e", "--as", "a", "--", "true"],
        &["enlist", "e", "--as", "a"],
        &["init"],
    ] {
        let world = World::folder();
        let line = format!("made a new store: {}\n", world.url());
        let first = world.ok(call);
        assert_eq!(first.stderr.matches(&line).count(), 1, "{call:?}: {}", first.stderr);
        assert!(!world.ok(call).stderr.contains("made a new store"), "{call:?}");
        let elsewhere = world.file("elsewhere");
        let options = ["--json", "--store", elsewhere.to_str().unwrap()];
        let (command, rest) = call.split_first().unwrap();
        let told = world.ok(&[&[*command], &options[..], rest].concat());
        assert!(!told.stdout.contains("made a new store"), "{call:?}: {}", told.stdout);
        assert!(told.stderr.contains(&format!("made a new store: file:{}", elsewhere.display())), "{told:?}");
    }
    let world = World::new();
    for call in [&["status"][..], &["renew", "e", "--as", "a"], &["history", "e"]] {
        assert!(!world.call(call).stderr.contains("made"), "{call:?}");
        assert!(!world.store().exists(), "{call:?}");
    }
}
