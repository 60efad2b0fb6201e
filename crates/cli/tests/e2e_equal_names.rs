//! Two callers with one agent name, as real processes: only calls of one session share a lease.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::screen::Screen;
use crate::support::{Done, World, exit_code, finish, until};

/// What names a session, beside `BATON_SESSION`.
const HARNESSES: [&str; 3] = ["CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "GEMINI_SESSION_ID"];

fn in_session(world: &World, session: &str, arguments: &[&str]) -> Command {
    let mut command = world.command(arguments);
    command.env("BATON_SESSION", session);
    command
}

fn call(world: &World, session: &str, arguments: &[&str]) -> Done {
    finish(in_session(world, session, arguments), None)
}

/// A call as a script of CI makes it: no session by name, no terminal.
fn without_session(world: &World, arguments: &[&str]) -> Done {
    let inner = world.command(arguments);
    let mut command = Command::new("setsid");
    command.arg("--wait").arg(inner.get_program()).args(inner.get_args()).current_dir(world.path());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    for name in HARNESSES.iter().chain(&["BATON_SESSION"]) {
        command.env_remove(name);
    }
    finish(command, None)
}

const ACQUIRE: [&str; 3] = ["acquire", "deploy", "--as=claude"];

#[test]
fn of_two_terminals_with_one_name_one_leads_and_the_other_is_told() {
    let world = World::new();
    let start = |session| {
        let mut command = in_session(&world, session, &ACQUIRE);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let [mut one, mut two] = ["one", "two"].map(start);
    let mut codes = [exit_code(&mut one), exit_code(&mut two)];
    let (leads, other) = if codes[0] == Some(0) { ("one", "two") } else { ("two", "one") };
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(3)]);

    let told = call(&world, other, &ACQUIRE).expect(3);
    let sentence = format!(
        "error: claude already leads deploy with token 1, from another session (BATON_SESSION={leads})\n"
    );
    assert!(told.stderr.starts_with(&sentence), "{}", told.stderr);
    assert!(
        told.stderr.contains("hint: if that is another agent, choose another name with --as"),
        "{}",
        told.stderr
    );
    let facts = call(&world, other, &[&ACQUIRE[..], &["--json"]].concat()).expect(3).json();
    assert_eq!(
        (&facts["code"], &facts["by"], &facts["token"]),
        (&json!("held"), &json!("claude"), &json!(1))
    );
    assert_eq!(facts["session"], json!({"kind": "named", "id": leads}));

    let again = call(&world, leads, &[&ACQUIRE[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&again["token"], &again["repeated"]), (&json!(1), &json!(true)));
    assert_eq!(again["session"], json!({"kind": "named", "id": leads}));
    let repeat = call(&world, other, &[&ACQUIRE[..], &["--repeat", "--json"]].concat()).expect(0).json();
    assert_eq!((&repeat["token"], &repeat["repeated"]), (&json!(1), &json!(true)));
}

/// Two shells at terminals of their own, and nothing in their environment names a session.
#[test]
fn a_terminal_is_a_session_of_its_own() {
    let world = World::new();
    let shell = |screen: &Screen| {
        let plain = world.command(&[]);
        let mut shell = Command::new("sh");
        shell.current_dir(world.path()).env("BATON", plain.get_program());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        for name in HARNESSES.iter().chain(&["BATON_SESSION"]) {
            shell.env_remove(name);
        }
        screen.start(&shell)
    };
    let (one, two) = (Screen::new(), Screen::new());
    let mut shells = [shell(&one), shell(&two)];
    let acquire = "\"$BATON\" acquire deploy --as claude; echo exit-$?-\n";
    one.type_in(acquire);
    one.shows("exit-0-", 1);
    two.type_in(acquire);
    two.shows("exit-3-", 1);
    two.shows("claude already leads deploy with token 1, from another session", 1);
    one.type_in(acquire);
    one.shows("exit-0-", 2);
    // What is done under the lease works from both.
    two.type_in("\"$BATON\" release deploy --as claude; echo released-$?-\n");
    two.shows("released-0-", 1);
    two.type_in(acquire);
    two.shows("exit-0-", 1);
    for (screen, shell) in [one, two].iter().zip(&mut shells) {
        screen.type_in("exit\n");
        exit_code(shell);
    }
}

#[test]
fn whatever_is_done_under_the_lease_works_from_any_shell_of_the_user() {
    let world = World::new();
    call(&world, "one", &ACQUIRE).expect(0);
    call(&world, "two", &["renew", "deploy", "--as", "claude"]).expect(0);
    call(&world, "two", &["checkpoint", "deploy", "--as", "claude", "--summary", "half"]).expect(0);
    without_session(&world, &["check", "deploy", "--token", "1"]).expect(0);
    // A renewal by another shell leaves the lease with the session that acquired it.
    call(&world, "two", &ACQUIRE).expect(3);
    call(&world, "one", &ACQUIRE).expect(0);
    without_session(&world, &["release", "deploy", "--as", "claude"]).expect(0);
    let next = call(&world, "two", &[&ACQUIRE[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&next["token"], &next["repeated"]), (&json!(2), &json!(false)));
}

#[test]
fn without_a_terminal_only_repeat_gets_the_lease_again() {
    let world = World::new();
    without_session(&world, &ACQUIRE).expect(0);
    let told = without_session(&world, &ACQUIRE).expect(3);
    assert!(told.stderr.contains("claude already leads deploy with token 1, from a call without a session"));
    assert!(told.stderr.contains("add --repeat, or set BATON_SESSION"), "{}", told.stderr);
    let again = without_session(&world, &[&ACQUIRE[..], &["--repeat", "--json"]].concat()).expect(0).json();
    assert_eq!(
        (&again["token"], &again["repeated"], &again["session"]),
        (&json!(1), &json!(true), &json!(null))
    );
}

#[test]
fn a_harness_names_the_session_of_its_agents() {
    let world = World::new();
    let harness = |name: &str, id: &str| {
        let mut command = world.command(&[&ACQUIRE[..], &["--json"]].concat());
        for name in HARNESSES.iter().chain(&["BATON_SESSION"]) {
            command.env_remove(name);
        }
        command.env(name, id);
        finish(command, None)
    };
    let first = harness("CLAUDE_CODE_SESSION_ID", "7").expect(0).json();
    assert_eq!(first["session"], json!({"kind": "claude-code", "id": "7"}));
    assert_eq!(harness("CLAUDE_CODE_SESSION_ID", "7").expect(0).json()["repeated"], true);
    harness("CLAUDE_CODE_SESSION_ID", "8").expect(3);
    harness("CODEX_SESSION_ID", "7").expect(3);
    harness("GEMINI_SESSION_ID", "7").expect(3);
    let wrong = call(&world, "two\nlines", &ACQUIRE).expect(2);
    assert!(wrong.stderr.contains("BATON_SESSION is not the id of a session"), "{}", wrong.stderr);
}

#[test]
fn runs_with_one_name_exclude_each_other_also_in_one_session() {
    let world = World::new();
    let (begun, go) = (world.file("begun"), world.file("go"));
    let script = format!(
        "echo $BATON_TOKEN > {}; while [ ! -e {} ]; do sleep 0.05; done",
        begun.display(),
        go.display()
    );
    let run = ["run", "deploy", "--as", "claude", "--once"];
    let mut first = in_session(&world, "one", &[&run[..], &["--", "sh", "-c", &script]].concat());
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(world.read_soon("begun").trim(), "1");
    call(&world, "one", &[&run[..], &["--wait", "300ms", "--", "true"]].concat()).expect(3);
    // The lease of a run is its own: no call gets it again.
    for repeat in [&[][..], &["--repeat"]] {
        let told = call(&world, "one", &[&ACQUIRE[..], repeat].concat()).expect(3);
        assert!(told.stderr.contains("claude already leads deploy with token 1, from another process"));
    }
    fs::write(&go, "").unwrap();
    assert_eq!(exit_code(&mut first), Some(0));
    until("it is free", || call(&world, "one", &ACQUIRE).code == 0);
}
