//! What operators do, as it is kept: the log, a byte of it changed by hand, notes that would steer a terminal, two operators, votes, everything
//! at once; with real processes, on a folder and at a real server.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support;
use crate::support::server::Server;
use crate::support::{World, until};

/// A world on a folder, whatever else worlds are on.
fn folder() -> World {
    let world = World::folder();
    world.ok(&["init"]);
    world
}

/// A second operator, by the word of the first.
fn second(world: &World) {
    let key = world.call_elsewhere(&["operator", "key"]).expect(0).stdout.trim().to_string();
    world.ok(&["operator", "add", &key]);
}

/// The newest version of a record.
fn newest(folder: &Path) -> PathBuf {
    let number = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
    let entries = std::fs::read_dir(folder.join("versions")).unwrap().map(|entry| entry.unwrap().path());
    entries.max_by_key(number).unwrap()
}

fn acts(world: &World, of: &[&str]) -> Vec<(u64, String)> {
    let arguments = [&["audit"], of, &["--json"]].concat();
    let name = |entry: &Value| match &entry["ordered"] {
        Value::Object(ordered) => match ordered.iter().next() {
            Some((kind, signed)) if kind == "act" => {
                signed["order"]["act"]["act"].as_str().unwrap().to_string()
            }
            Some((kind, _)) => kind.clone(),
            None => panic!("{entry}"),
        },
        _ => panic!("{entry}"),
    };
    let all = world.ok(&arguments).jsons();
    all.iter().map(|entry| (entry["number"].as_u64().unwrap(), name(entry))).collect()
}

#[test]
fn every_act_is_kept_and_a_changed_byte_is_found() {
    let world = folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let set = world.ok(&["policy", "e", "--stall", "10m"]).stdout;
    assert_eq!(set, "the policy of e is set; a keeps the limits that it began to lead with\n");
    world.ok(&["depose", "e", "--reason", "goes in circles"]);
    world.ok(&["audit", "note", "e", "see ticket 12"]);
    let told: Vec<(u64, String)> =
        [(1, "set-policy"), (2, "depose"), (3, "note")].map(|(n, name)| (n, name.to_string())).to_vec();
    assert_eq!(acts(&world, &["e"]), told);
    let table = world.ok(&["audit"]).stdout;
    assert!(table.contains("goes in circles") && table.contains("@store"), "{table}");
    let whole = world.json(&["audit", "verify", "e"]);
    assert_eq!((&whole["acts"], &whole["whole"]), (&json!(3), &json!(true)));
    let head = whole["head"].as_str().unwrap().to_string();
    world.ok(&["audit", "note", "e", "later"]);
    world.ok(&["audit", "verify", "e", "--head", &head]);
    world.call(&["audit", "verify", "e", "--head", &"00".repeat(32)]).expect(1);
    // The same for the store, and for several books at once.
    let all = world.ok(&["audit", "verify", "--json"]).stdout;
    let books: Vec<serde_json::Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |book: &str| {
        let found = books.iter().find(|told| told["book"] == book);
        found.unwrap_or_else(|| panic!("no {book} in {all}"))["head"].as_str().unwrap().to_string()
    };
    world.ok(&["audit", "verify", "--head", &of("@store"), "--head", &of("e")]);
    world.call(&["audit", "verify", "--head", &of("@store"), "--head", &"00".repeat(32)]).expect(1);
    world.ok(&["audit", "verify"]);

    let file = newest(&world.store().join("e/history/0"));
    let before = std::fs::read(&file).unwrap();
    let place = before.windows(7).position(|bytes| bytes == b"circles").unwrap();
    let mut changed = before.clone();
    changed[place] ^= 1;
    std::fs::write(&file, &changed).unwrap();
    let broken = world.call(&["audit", "verify"]).expect(1);
    assert!(broken.stdout.contains("e: ") && broken.stdout.contains("NOT WHOLE"), "{broken:?}");
    assert!(broken.stdout.contains("history/0/versions/"), "it says where: {broken:?}");
    assert!(broken.stdout.contains("of acts before 4 nothing could be read"), "{broken:?}");
    assert!(!broken.stdout.contains("kept no log"), "nobody knows that: {broken:?}");
    assert!(broken.stderr.contains("not whole"), "{broken:?}");
    world.call(&["audit", "e"]).expect(7);
    std::fs::write(&file, &before).unwrap();
    world.ok(&["audit", "verify"]);
    // Gone is noticed, too.
    std::fs::remove_dir_all(world.store().join("e/history/0")).unwrap();
    let broken = world.call(&["audit", "verify", "e"]).expect(1);
    assert!(broken.stdout.contains("act 3: it is missing"), "{broken:?}");
}

/// The whole record of an election is deleted: nobody names it any more, and its log is still there.
#[test]
fn a_record_that_is_gone_is_noticed_without_its_name_in_a_folder_and_over_http() {
    let world = folder();
    for election in ["e", "f"] {
        world.ok(&["acquire", election, "--as", "a"]);
        world.ok(&["audit", "note", election, "one"]);
        world.ok(&["audit", "note", election, "two"]);
    }
    world.ok(&["audit", "verify"]);
    for name in ["versions", "coordinator.json"] {
        let path = world.store().join("e").join(name);
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap()
        } else {
            std::fs::remove_file(path).unwrap()
        }
    }
    let listening = world.file("address");
    let file = listening.display().to_string();
    let url = world.url();
    let mut observe = world
        .command(&["observe", "--store", &url, "--listen", "127.0.0.1:0", "--address-file", &file])
        .spawn()
        .unwrap();
    let address = world.read_soon("address");
    for store in [url.clone(), format!("http://{}", address.trim())] {
        let broken = world.call(&["audit", "verify", "--store", &store]).expect(1);
        assert!(broken.stdout.contains("e: 1 act, NOT WHOLE"), "{store}: {broken:?}");
        assert!(broken.stdout.contains("record is gone"), "{store}: {broken:?}");
        assert!(broken.stdout.contains("f: 2 acts, whole"), "{store}: {broken:?}");
        // What can be shown is shown.
        let shown = world.ok(&["audit", "--store", &store]);
        assert!(shown.stdout.contains("note: two") && shown.stderr.contains("e is left out"), "{shown:?}");
    }
    observe.kill().unwrap();
    observe.wait().unwrap();
}

#[test]
fn what_others_wrote_does_not_steer_a_terminal() {
    let world = folder();
    world.ok(&["acquire", "e", "--as", "a"]);
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}<script>\n2026-01-01  e  9  root  depose";
    world.ok(&["audit", "note", "e", evil]);
    world.ok(&["pause", "e", "--reason", evil]);
    let shown = [
        world.ok(&["audit"]).stdout,
        world.ok(&["audit", "e"]).stdout,
        world.ok(&["audit", "note", "e", evil]).stdout,
    ];
    for text in &shown {
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}') && !text.contains('\u{202e}'),
            "{text:?}"
        );
        assert!(text.contains("<script>"), "what is left stays as it is: {text:?}");
    }
    let rows = shown[1].lines().count();
    assert_eq!(rows, 3, "no text passes for a line of its own: {}", shown[1]);
    let status = world.ok(&["status", "e"]).stdout;
    assert!(!status.contains('\u{1b}') && !status.contains('\u{202e}'), "{status:?}");
    // As data it is what it was.
    let entries = world.ok(&["audit", "e", "--json"]).jsons();
    assert_eq!(entries[0]["ordered"]["act"]["order"]["act"]["text"], evil);
    world.call(&["audit", "note", "e", &"x".repeat(1_025)]).expect(2);
    world.call(&["audit", "note", "e", ""]).expect(2);
}

#[test]
fn two_operators_must_sign_and_one_may_break_the_glass() {
    let world = folder();
    second(&world);
    world.ok(&[
        "policy",
        "e",
        "--quorum",
        "2",
        "--quorum-act",
        "approve",
        "--quorum-act",
        "depose",
        "--approval",
        "checkpoints",
    ]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let reference = world.file("notes.md");
    std::fs::write(&reference, "the rest").unwrap();
    let left = ["--summary", "half", "--state", "{\"done\":1}", "--reference", reference.to_str().unwrap()];
    world.ok(&[&["checkpoint", "e", "--as", "a"][..], &left].concat());
    let hash = world.waiting("e");
    let signed = world.call(&["approve", "e", "--checkpoint", &hash, "--json"]).expect(6).json();
    assert_eq!(
        (&signed["outcome"], &signed["have"], &signed["need"]),
        (&json!("signed"), &json!(1), &json!(2))
    );
    assert!(world.ok(&["status", "e"]).stdout.contains("1 of 2 operators"), "it is shown");
    assert_eq!(world.status("e")["state"], "awaiting-approval");
    // Its own signature a second time is still one.
    world.call(&["cosign", "e", "--yes"]).expect(6);
    let shown = world.call_elsewhere(&["cosign", "e"]).expect(2).stderr;
    for part in ["half", "state: {\"done\":1}", "notes.md (sha256 ", &hash] {
        assert!(shown.contains(part), "{part} is not shown: {shown}");
    }
    world.call_elsewhere(&["approve", "e", "--checkpoint", &hash]).expect(0);
    assert_eq!(world.status("e")["state"], "held");
    world.call(&["depose", "e", "--reason", "loops"]).expect(6);
    // Neither notes nor an agent that comes and goes void what was signed; and nobody signs unasked.
    world.ok(&["audit", "note", "e", "a note"]);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let unasked = world.call_elsewhere(&["cosign", "e"]).expect(2).stderr;
    assert!(unasked.contains("to sign: depose") && unasked.contains("--yes"), "{unasked}");
    let done = world.call_elsewhere(&["cosign", "e", "--yes", "--json"]).expect(0).json();
    assert_eq!((&done["outcome"], &done["ended"]), (&json!("depose"), &json!("a")));
    world.call(&["cosign", "e", "--yes"]).expect(2);
    let told = world.ok(&["audit", "e"]).stdout;
    assert_eq!(told.matches(" +1 ").count(), 2, "two acts of two operators each: {told}");

    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "1h"]);
    world.call(&["depose", "e", "--break-glass", "--reason", "fire"]).expect(2);
    let allow = ["policy", "e", "--allow-break-glass", "yes"];
    world.call(&allow).expect(6);
    let shown = world.call_elsewhere(&["cosign", "e", "--yes"]).expect(0).stderr;
    assert!(
        shown.contains("operators.break_glass: false -> true"),
        "a policy is shown as what it changes: {shown}"
    );
    world.call(&["depose", "e", "--break-glass"]).expect(2);
    world.ok(&["depose", "e", "--break-glass", "--reason", "fire"]);
    assert!(world.ok(&["audit", "e"]).stdout.contains("BREAK-GLASS (fire)"));
    let history = world.ok(&["history", "e"]).stdout;
    assert!(history.contains("break-glass (fire)") && !history.contains("(fire): fire"), "{history}");
    world.ok(&["audit", "verify"]);
}

#[test]
fn operators_vote_on_the_candidates() {
    let world = folder();
    second(&world);
    world.ok(&["policy", "e", "--select", "vote", "--nomination", "1h"]);
    world.ok(&["enlist", "e", "--as", "a", "--priority", "9", "--ttl", "1h"]);
    world.ok(&["enlist", "e", "--as", "b", "--priority", "1", "--ttl", "1h"]);
    world.call(&["vote", "e", "nobody"]).expect(2);
    let voted = world.json(&["vote", "e", "b"]);
    assert_eq!((&voted["votes"], &voted["operators"]), (&json!(1), &json!(2)));
    assert_eq!(world.json(&["vote", "e", "a"])["votes"], 1, "it is changed");
    assert_eq!(world.json(&["vote", "e", "b"])["votes"], 1);
    assert_eq!(world.call_elsewhere(&["vote", "e", "b", "--json"]).expect(0).json()["votes"], 2);
    let first = &world.status("e")["candidates"][0];
    assert_eq!((&first["agent"], &first["reason"]), (&json!("b"), &json!("2 of 2 operators voted for it")));
    world.call(&["policy", "e", "--select", "vote", "--nomination", "0s"]).expect(0);
    world.ok(&["acquire", "e", "--as", "b", "--wait", "30s"]);
    let history = world.ok(&["history", "e"]).stdout;
    assert!(history.contains("2 of 2 operators voted for it"), "{history}");
    world.call(&["vote", "e", "a"]).expect(2);
}

/// Pauses everything while agents lead, and lets it go on.
fn pause_all(world: &World) {
    world.ok(&["acquire", "one", "--as", "a", "--ttl", "1h"]);
    world.ok(&["acquire", "two", "--as", "b", "--ttl", "1h"]);
    world.ok(&["pause", "two", "--reason", "by itself"]);
    let paused = world.json(&["pause", "--all", "--reason", "fire"]);
    assert_eq!((&paused["all"], &paused["elections"]), (&json!(true), &json!(1)));
    assert_eq!(world.status("one")["state"], "paused");
    world.call(&["check", "one", "--token", "1"]).expect(5);
    for election in ["one", "two", "new"] {
        world.call(&["acquire", election, "--as", "c"]).expect(6);
    }
    assert!(world.ok(&["status"]).stderr.contains("everything is paused"), "it is shown");
    world.call_elsewhere(&["operator", "key"]).expect(0);
    world.call_elsewhere(&["resume", "--all"]).expect(6);
    world.ok(&["release", "one", "--as", "a"]);
    assert_eq!(world.json(&["resume", "--all"])["elections"], 1);
    world.ok(&["acquire", "one", "--as", "c"]);
    world.ok(&["acquire", "new", "--as", "c"]);
    world.call(&["acquire", "two", "--as", "c"]).expect(6);
    world.call(&["pause", "one", "--all"]).expect(2);
    world.call(&["pause"]).expect(2);
    world.ok(&["audit", "verify"]);
}

#[test]
fn what_takes_two_operators_is_not_told_as_paused_by_one() {
    let world = folder();
    second(&world);
    for election in ["one", "two"] {
        world.ok(&["acquire", election, "--as", "a", "--ttl", "1h"]);
    }
    world.ok(&["policy", "two", "--quorum", "2"]);
    world.call(&["depose", "two"]).expect(6);
    let paused = world.call(&["pause", "--all", "--reason", "fire"]).expect(6);
    assert!(paused.stdout.contains("but not `two`; 1 election changed"), "{}", paused.stdout);
    assert!(paused.stderr.contains("withdrew your signature under the depose of two"), "{}", paused.stderr);
    let status = world.ok(&["status"]).stderr;
    assert!(status.contains("but not `two`: fire"), "{status}");
    world.ok(&["check", "two", "--token", "1"]);

    world.call(&["pause", "--all", "--break-glass"]).expect(2);
    let alone = world.call(&["pause", "--all", "--break-glass", "--reason", "fire"]).expect(6);
    assert!(alone.stderr.contains("its policy lets nobody act alone"), "{}", alone.stderr);
    world.call_elsewhere(&["cosign", "two", "--yes"]).expect(0);
    assert_eq!(world.status("two")["state"], "paused");
    let status = world.ok(&["status"]).stderr;
    assert!(status.contains("everything is paused") && !status.contains("but not"), "{status}");

    world.call(&["policy", "two", "--allow-break-glass", "yes"]).expect(6);
    world.call_elsewhere(&["cosign", "two", "--yes"]).expect(0);
    world.ok(&["resume", "--all", "--break-glass", "--reason", "it is out"]);
    world.ok(&["release", "two", "--as", "a"]);
    world.ok(&["acquire", "two", "--as", "b", "--ttl", "1h"]);
    world.ok(&["pause", "--all", "--break-glass", "--reason", "fire"]);
    assert_eq!(world.status("two")["state"], "paused");
    let told = world.ok(&["audit", "two"]).stdout;
    assert_eq!(told.matches("BREAK-GLASS").count(), 2, "{told}");
    assert!(!world.ok(&["audit", "one"]).stdout.contains("BREAK-GLASS"), "it takes one there anyway");
}

#[test]
fn a_signature_that_comes_after_everything_went_on_pauses_nothing() {
    let world = folder();
    second(&world);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.ok(&["policy", "e", "--quorum", "2"]);
    world.call(&["pause", "--all", "--reason", "fire"]).expect(6);
    world.ok(&["resume", "--all"]);
    let late = world.call_elsewhere(&["cosign", "e", "--yes"]).expect(2).stderr;
    assert!(late.contains("part of a pause of everything, which is over"), "{late}");
    world.ok(&["check", "e", "--token", "1"]);
    // The next pause is another one, also with the same reason: who signed the first has not signed it.
    let next = world.call_elsewhere(&["pause", "--all", "--reason", "fire", "--json"]).expect(6).json();
    assert_eq!(next["waiting"], json!(["e"]), "{next}");
    world.ok(&["check", "e", "--token", "1"]);
    world.call(&["cosign", "e", "--yes"]).expect(0);
    assert_eq!(world.status("e")["state"], "paused");
}

#[test]
fn everything_is_paused_in_a_folder() {
    pause_all(&folder());
}

/// One election is resumed while everything is paused: the command says what still holds, and a standby leads when that is over. A standby that was not
/// told would look again after ten seconds, so that so many rounds would take longer than the bound.
fn resume_one_of_all(world: &World) {
    const ROUNDS: u64 = 20;
    let wait = ["run", "build", "--as", "b", "--", "sleep", "600"];
    let mut run = world.command(&wait).stderr(std::process::Stdio::null()).spawn().unwrap();
    let leads = || world.status("build")["leader"]["live"] == true;
    until("it leads", || world.call(&["status", "build"]).code == 0 && leads());
    let began = std::time::Instant::now();
    for round in 0..ROUNDS {
        world.ok(&["pause", "--all", "--reason", "fire"]);
        if round == 0 {
            check_what_still_holds(world);
            assert!(!leads(), "everything is paused");
        }
        world.ok(&["resume", "--all"]);
        until("it leads again", leads);
    }
    assert!(began.elapsed() < support::HANG, "{ROUNDS} rounds took {:?}", began.elapsed());
    assert_eq!(world.status("build")["everything_paused"], json!(null));
    run.kill().unwrap();
    run.wait().unwrap();
}

fn check_what_still_holds(world: &World) {
    let resumed = world.call(&["resume", "build"]).expect(6).stdout;
    assert_eq!(resumed, "build itself is no longer paused, but everything is: baton resume --all\n");
    let status = world.ok(&["status", "build"]).stdout;
    let key = world.ok(&["operator", "key"]).stdout;
    let by = format!("everything is paused by {} since ", &key[..12]);
    assert!(status.contains(&by), "{status}");
    assert_eq!(world.status("build")["everything_paused"]["reason"], "fire");
    let again = world.call(&["resume", "build", "--json"]).expect(6).json();
    assert_eq!(again["code"], "paused", "{again}");
}

#[test]
fn who_waits_is_told_when_everything_goes_on_in_a_folder() {
    resume_one_of_all(&folder());
}

#[test]
fn who_waits_is_told_when_everything_goes_on_at_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("server.redb"));
    let world = World::on(&server.url());
    world.ok(&["init"]);
    resume_one_of_all(&world);
}

#[test]
fn everything_is_paused_and_kept_at_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("server.redb");
    let mut server = Server::start(&database);
    let world = World::on(&server.url());
    world.ok(&["init"]);
    pause_all(&world);
    let before = acts(&world, &[]);
    assert!(before.iter().any(|(_, act)| act == "store"), "{before:?}");
    server.crash();
    until("the server answers", || world.call(&["status"]).code == 0);
    assert_eq!(acts(&world, &[]), before, "kill -9 takes nothing of it away");
    world.ok(&["audit", "verify"]);
}

/// A line of the log says which rules were set, not only that some were.
#[test]
fn the_rules_that_were_set_are_in_the_line_of_their_act() {
    let world = World::folder();
    world.ok(&["init"]);
    world.ok(&[
        "policy",
        "e",
        "--breaker",
        "3/5m",
        "--depends",
        "db",
        "--budget-time",
        "4h",
        "--regions",
        "yes",
    ]);
    world.ok(&["breaker", "reset", "e"]);
    let log = world.ok(&["audit", "e"]).stdout;
    let rules = "led from its regions only, leads for at most 4h, depends on db, breakers 3/5m";
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(rules)).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(!lines[0].contains("resets") && lines[1].contains("breakers 3/5m (resets: 1)"), "{log}");
}
