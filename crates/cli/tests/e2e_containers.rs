//! In a pid namespace, as in a container: the leader of the session is outside, so that the session and the process group are 0, and a program
//! may be the first of its namespace.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "what was skipped is said")]

use std::fs;
use std::process::Command;

use crate::support::peers::Peers;
use crate::support::test_stores::tool;
use crate::support::{World, finish, processes, until};

/// The session stays that of the test, which is outside.
const ENTER: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];

/// None where this user may not make namespaces; in continuous integration nothing is skipped.
fn can_enter() -> bool {
    let done = Command::new(ENTER[0]).args(&ENTER[1..]).arg("true").output();
    let can = done.as_ref().is_ok_and(|output| output.status.success());
    assert!(can || std::env::var("CI").as_deref() != Ok("true"), "{done:?}");
    if !can {
        eprintln!("SKIPPED: in a pid namespace; none can be made here (needs root)");
    }
    can
}

/// The call of the world's command, in a namespace of its own: as its first process, or as the child of a shell.
fn inside(world: &World, first: bool, arguments: &[&str]) -> Command {
    let call = world.command(arguments);
    let mut command = Command::new(ENTER[0]);
    command.args(&ENTER[1..]);
    if !first {
        command.args(["sh", "-c", r#""$@"; exit $?"#, "sh"]);
    }
    command.arg(call.get_program()).args(call.get_args()).current_dir(call.get_current_dir().unwrap());
    for (name, value) in call.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// It tells its session and leaves a process behind that has one of its own.
const CMD: &str = r#"
cut -d' ' -f6 /proc/self/stat > "$E2E_WORLD/session"
setsid sleep 600 &
echo "$BATON_TOKEN" >> "$E2E_WORLD/tokens"
exit 5
"#;

fn leads(world: &World) {
    for first in [true, false] {
        let run = ["run", "e", "--as", "a", "--ttl", "30s", "--once", "--", "sh", "-c", CMD];
        let done = finish(inside(world, first, &run), None).expect(5);
        assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
        let session: u32 = fs::read_to_string(world.file("session")).unwrap().trim().parse().unwrap();
        assert!(session > 0, "CMD has a session of its own");
        until("nothing is left", || processes::of_world(world.mark()).is_empty());
        world.status("e");
    }
    let tokens = fs::read_to_string(world.file("tokens")).unwrap();
    assert_eq!(tokens, "1\n2\n");
}

#[test]
fn who_runs_in_a_pid_namespace_leads_in_a_folder() {
    if can_enter() {
        leads(&World::folder());
    }
}

/// The store's own `git` shares the session with the outside.
#[test]
fn who_runs_in_a_pid_namespace_leads_in_a_repository() {
    if !can_enter() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    tool("git", &["init", "--quiet", &place.path().display().to_string()]);
    leads(&World::on(&format!("git:{}", place.path().display())));
}

#[test]
fn members_in_pid_namespaces_elect() {
    if !can_enter() {
        return;
    }
    let world = World::folder();
    let mut peers = Peers::new(&world, "raft", 3);
    for id in 1..=3 {
        peers.member(id).prefix = ENTER.map(str::to_string).to_vec();
    }
    peers.start_all();
    let (_, token) = peers.leader_among(&[1, 2, 3], 0);
    assert!(token > 0);
    peers.check();
}

/// One-off calls tell their callers apart by the session, and there is none to tell here.
#[test]
fn a_call_from_a_pid_namespace_is_answered() {
    if !can_enter() {
        return;
    }
    let world = World::folder();
    for arguments in [["acquire", "e"], ["renew", "e"], ["release", "e"]] {
        let mut call = inside(&world, false, &[&arguments[..], &["--as", "a"]].concat());
        call.env_remove("BATON_SESSION");
        finish(call, None).expect(0);
    }
}
