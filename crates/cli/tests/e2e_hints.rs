//! What a stranger is told who errs, or who does not know what goes on: what is wrong, with what, and what to do.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{World, exit_code, finish, processes, until};

/// The failure of a call: its message and its hint.
fn failure(world: &World, arguments: &[&str], code: i32) -> (String, String) {
    let told = world.call(&[arguments, &["--json"]].concat()).expect(code).json();
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_string();
    (text("message"), text("hint"))
}

#[test]
fn a_url_of_a_server_that_names_none_is_wrong_usage() {
    let world = World::folder();
    for (url, message, hint) in [
        ("localhost:7420", "names no kind of store", "http://localhost:7420"),
        ("127.0.0.1:7420", "names no kind of store", "http://127.0.0.1:7420"),
        ("http://127.0.0.1:99999", "port", "http://HOST:PORT"),
        ("https://127.0.0.1:7420/foo", "no path", "https://HOST:PORT"),
        ("http://127.0.0.1:1,https://127.0.0.1:2", "one scheme", "http://HOST:PORT"),
    ] {
        let told = failure(&world, &["status", "--store", url], 2);
        assert!(told.0.contains(message) && told.1.contains(hint), "{url}: {told:?}");
    }
}

#[test]
fn servers_that_all_refuse_are_told_of_at_once() {
    let world = World::folder();
    // Nobody listens at these; the scheme may stand before each.
    let told = failure(&world, &["status", "--store", "http://127.0.0.1:1,http://127.0.0.1:2"], 7);
    assert!(told.0.contains("refused") && !told.0.contains("within"), "{told:?}");
}

#[test]
fn a_name_with_capitals_is_answered_with_a_hint() {
    let world = World::folder();
    let told = world.call(&["acquire", "Refactor-Auth", "--as", "a"]).expect(2);
    let hint = "hint: write it in lower case: refactor-auth (names look like";
    assert!(told.stderr.contains("'R'") && told.stderr.contains(hint), "{}", told.stderr);
    for (arguments, lower) in [
        (&["acquire", "PROJ-123", "--as", "a"][..], "proj-123"),
        (&["acquire", "Fleet/EU", "--as", "a"], "fleet/eu"),
        (&["acquire", "e", "--as", "Agent_A"], "agent_a"),
        (&["fence", "DB/Orders", "--election", "e", "--token", "1"], "db/orders"),
    ] {
        let (_, hint) = failure(&world, arguments, 2);
        assert!(hint.starts_with(&format!("write it in lower case: {lower} (")), "{hint}");
    }
    // What is no name in lower case either is not suggested.
    for name in ["caf\u{e9}", "Caf\u{e9}", "A B", "HISTORY"] {
        let (_, hint) = failure(&world, &["acquire", name, "--as", "a"], 2);
        assert!(hint.starts_with("names look like"), "{name}: {hint}");
    }
    for arguments in
        [["acquire", "E", "--as", "a"], ["acquire", "e", "--as", "Alice"], ["acquire", "e", "--as", "t/a"]]
    {
        let (_, hint) = failure(&world, &arguments, 2);
        assert!(hint.contains("those of elections and resources also like fleet/eu"), "{hint}");
    }
    assert!(world.ok(&["help", "--help"]).stdout.contains("Usage"));
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let world = World::folder();
    let (file, folder) = ("embedded:server.redb", format!("file:{}", world.store().display()));
    for (store, option, value) in [
        (folder.as_str(), "--snapshot-every", "5s"),
        (file, "--server-ttl", "10s"),
        (file, "--advertise", "http://a:1"),
        (file, "--snapshot-every", "1ms"),
    ] {
        let told = failure(&world, &["serve", "--listen", "127.0.0.1:0", "--store", store, option, value], 2);
        assert!(!told.1.is_empty(), "{option}: {told:?}");
    }
    assert!(!world.file("server.redb").exists() && !world.store().exists(), "nothing was made");
}

#[test]
fn an_address_file_that_cannot_be_written_is_named() {
    let world = World::folder();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "embedded:server.redb"];
    let guard = ["guard", "--listen", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1", "--election", "e"];
    for call in [&serve[..], &guard[..]] {
        let told = failure(&world, &[call, &["--address-file", "nowhere/x"]].concat(), 2);
        assert!(told.0.contains("nowhere/x") && told.1.contains("--address-file"), "{told:?}");
    }
}

#[test]
fn a_folder_of_keys_that_cannot_be_written_is_named_with_its_variable() {
    let world = World::folder();
    for (variable, arguments) in
        [("BATON_CONFIG_DIR", &["init"][..]), ("BATON_STATE_DIR", &["acquire", "e", "--as", "a"])]
    {
        let mut command = world.command(&[arguments, &["--json"]].concat());
        command.env(variable, "/proc/baton");
        let told = finish(command, None).expect(1).json();
        assert!(told["message"].as_str().unwrap().contains("/proc/baton"), "{told}");
        assert!(told["hint"].as_str().unwrap().contains(variable), "{told}");
    }
}

#[test]
fn an_empty_checkpoint_is_none_and_what_was_left_is_told_as_it_can_be_typed() {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "a"]);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "half"]);
    let told = failure(&world, &["checkpoint", "e", "--as", "a"], 2);
    assert!(told.0.contains("nothing to leave"), "{told:?}");
    assert_eq!(world.status("e")["checkpoint"]["summary"], "half");
    world.ok(&["release", "e", "--as", "a"]);
    let told = world.ok(&["acquire", "e", "--as", "b"]).stderr;
    let typed = told.lines().find_map(|line| line.split_once(": baton ")).unwrap().1;
    assert!(world.ok(&typed.split(' ').collect::<Vec<_>>()).stdout.contains("half"));
}

#[test]
fn after_an_approval_the_leader_is_told_of_its_token_and_not_to_campaign() {
    let world = World::new();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--approval", "checkpoints"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let token = world.status("e")["leader"]["token"].as_u64().unwrap();
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "half"]);
    let approved = world.ok(&["approve", "e", "--checkpoint", &world.waiting("e")]).stdout;
    assert!(approved.contains(&format!("may continue with token {}", token + 1)), "{approved}");
    let told = failure(&world, &["check", "e", "--token", &token.to_string()], 5);
    assert!(told.0.contains(&format!("goes on with token {}", token + 1)), "{told:?}");
    assert!(told.1.contains("baton renew") && !told.1.contains("campaign"), "{told:?}");
    assert_eq!(world.json(&["renew", "e", "--as", "a"])["token"], token + 1);
    // An earlier leadership of the same agent is over all the same.
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let told = failure(&world, &["check", "e", "--token", &token.to_string()], 5);
    assert!(told.1.contains("campaign"), "{told:?}");
}

#[test]
fn a_run_that_lets_others_go_first_says_so_and_that_cmd_had_run() {
    let world = World::new();
    let mut command = world.command(&["run", "e", "--as", "a", "--validate", "false", "--", "true"]);
    let talk = fs::File::create(world.file("talk")).unwrap();
    let mut run = command.stdout(Stdio::null()).stderr(talk).spawn().unwrap();
    let said = || fs::read_to_string(world.file("talk")).unwrap();
    until("it says for how long it waits", || said().contains("others go first for"));
    processes::signal(run.id(), rustix::process::Signal::TERM);
    exit_code(&mut run);
    assert!(said().contains("CMD was not run again after token 1"), "{}", said());
}

#[test]
fn nothing_to_show_is_said() {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "a"]);
    let done = world.ok(&["fence", "nosuch", "--log"]);
    assert!(done.stdout.is_empty() && done.stderr.contains("nosuch"), "{done:?}");
}

#[test]
fn a_place_that_is_no_store_is_not_an_empty_one() {
    let world = World::folder();
    for command in ["status", "tree"] {
        let nowhere = world.ok(&[command]).stderr;
        assert!(nowhere.contains("is not a store yet"), "{nowhere}");
    }
    world.ok(&["init"]);
    let empty = world.ok(&["status"]).stderr;
    assert!(empty.contains("no elections in file:"), "{empty}");
}

#[test]
fn no_agent_leads_what_the_servers_are_elected_in() {
    let world = World::folder();
    for command in [&["acquire", "_baton/servers"][..], &["enlist", "_baton/servers"]] {
        let refused = world.call(&[command, &["--as", "a"]].concat()).expect(2).stderr;
        assert!(refused.contains("the servers themselves are elected"), "{refused}");
    }
    world.call(&["run", "_baton/servers", "--as", "a", "--", "true"]).expect(2);
}

#[test]
fn a_server_has_a_snapshot_soon_after_its_start_and_it_is_put_back_with_a_word() {
    let world = World::folder();
    let mut server = Server::start(&world.file("server.redb"));
    world.ok(&["acquire", "e", "--as", "a", "--store", &server.url()]);
    server.stop();
    let folder = world.file("server.redb.snapshots");
    let snapshots = || -> Vec<_> {
        let entries = fs::read_dir(&folder).into_iter().flatten();
        let of_database = |path: &std::path::PathBuf| path.extension().is_some_and(|name| name == "redb");
        let mut all: Vec<_> = entries.map(|entry| entry.unwrap().path()).filter(of_database).collect();
        all.sort_unstable();
        all
    };
    // One that is an hour old, as after a long time without a server.
    snapshots().iter().for_each(|early| fs::remove_file(early).unwrap());
    fs::create_dir_all(&folder).unwrap();
    let old = folder.join("2026-01-01T00-00-00-000.redb");
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7_200);
    fs::File::create(&old).unwrap().set_modified(hours_ago).unwrap();
    let mut server = Server::start(&world.file("server.redb"));
    until("a snapshot is there", || snapshots().len() == 2);
    server.stop();
    let snapshot = snapshots().pop().unwrap().display().to_string();
    fs::write(&old, "not a database").unwrap();
    let (_, hint) = failure(&world, &["restore", old.to_str().unwrap(), "--store", "embedded:new.redb"], 7);
    assert!(hint.contains("earlier snapshot"), "{hint}");
    let told = world.ok(&["restore", &snapshot, "--store", "embedded:new.redb"]).stdout;
    let place = world.file("new.redb").display().to_string();
    assert!(told.contains(&format!("restored 1 election into {place};")), "{told}");
    assert!(told.contains("there was no store at that place"), "{told}");
    let again: Value = world.json(&["restore", &snapshot, "--store", "embedded:new.redb"]);
    assert_eq!(again["store"], json!(format!("embedded:{place}")));
    assert!(again["kept"].as_str().unwrap().starts_with(&place), "{again}");
}

#[test]
fn what_a_newcomer_types_first_is_answered_with_what_was_meant() {
    let world = World::folder();
    for (arguments, hint) in [
        (&["run", "job", "sleep", "1"][..], "put `--` before CMD: -- sleep"),
        (&["acquire", "e", "--as", "a", "--ttl", "30"], "did you mean 30s?"),
        (&["resume"], "use --all for all of them"),
        (&["pause"], "use --all for all of them"),
        (&["history"], "such as: baton history refactor-auth"),
    ] {
        let (_, told) = failure(&world, arguments, 2);
        assert!(told.contains(hint), "{arguments:?}: {told}");
        let shown = world.call(arguments).expect(2).stderr;
        assert!(shown.contains(&format!("hint: {told}")), "{shown}");
    }
    for (word, tips) in [
        ("aquire", &["'acquire'"][..]),
        ("statsu", &["'status'", "'state'"]),
        ("lead", &["'run'", "'acquire'"]),
        ("leave", &["'release'"]),
        ("pass", &["'release'"]),
        ("sessions", &["'agents'"]),
        ("elect", &["'run'", "'acquire'"]),
        ("leader", &["'status'"]),
    ] {
        let shown = world.call(&[word, "e"]).expect(2).stderr;
        let tip = shown.lines().find(|line| line.contains("tip:")).unwrap_or_default();
        assert!(tips.iter().all(|tip_of| tip.contains(tip_of)), "{word}: {shown}");
        assert_eq!(tip.matches('\'').count(), 2 * tips.len(), "{word}: {tip}");
    }
    // Nothing is like it.
    let shown = world.call(&["frobnicate"]).expect(2).stderr;
    assert!(!shown.contains("tip:"), "{shown}");
}

#[test]
fn a_server_without_tls_and_a_name_that_does_not_resolve_are_told_of() {
    let (folder, world) = (tempfile::tempdir().unwrap(), World::folder());
    let server = Server::start(&folder.path().join("baton.redb"));
    let https = server.url().replace("http://", "https://");
    let told = failure(&world, &["status", "--store", &https], 7);
    assert!(told.0.contains("speaks http, not https") && told.1.contains("http://HOST:PORT"), "{told:?}");
    let told = failure(&world, &["status", "--store", "http://no-such-host.invalid:7420"], 7);
    assert!(told.0.contains("does not resolve") && told.1.contains("name of the host"), "{told:?}");
}
