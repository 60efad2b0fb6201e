//! What goes wrong under a server: its disk, its file, its clock; and what it then says.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stderr, reason = "the figures of the run, and that it did not run")]

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::support::server::Server;
use crate::support::{World, baton, clocks, finish, until};

/// Where the journal begins in the file, and the database behind it.
const JOURNAL_AT: usize = 4_096;
const DATABASE_AT: usize = JOURNAL_AT + (1 << 20);
/// The byte of the database's head whose second bit says that it was not closed.
const FLAGS_AT: usize = DATABASE_AT + 9;
const NOT_CLOSED: u8 = 2;

/// The same command, with a limit on files failing instead of killing: to the server, a full disk.
fn that_survives_a_full_disk(command: Command) -> Command {
    let mut survivor = Command::new("sh");
    survivor
        .args(["-c", r#"trap '' XFSZ; exec "$0" "$@""#])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => survivor.env(name, value),
            None => survivor.env_remove(name),
        };
    }
    survivor
}

/// No file of the process grows beyond this.
fn limit_files(pid: u32, bytes: Option<u64>) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap());
    prlimit(pid, Resource::Fsize, Rlimit { current: bytes, maximum: None }).unwrap();
}

fn large_state(world: &World) -> String {
    fs::write(world.file("state.json"), format!("\"{}\"", "x".repeat(60_000))).unwrap();
    format!("@{}", world.file("state.json").display())
}

#[test]
fn a_full_disk_stops_grants_and_nothing_else_and_is_got_over() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("server.redb");
    let mut server = Server::start_by(&database, that_survives_a_full_disk);
    let world = World::on(&server.url());
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    assert_eq!(server.ask("GET", "/readyz").0, 200);
    let state = large_state(&world);
    limit_files(server.pid(), Some(fs::metadata(&database).unwrap().len()));
    let mut acknowledged = vec![("e".to_string(), 1)];
    let failed = (1..200).find_map(|number| {
        let election = format!("e{number}");
        let granted = world.call(&["acquire", &election, "--as", "a", "--ttl", "1h", "--json"]);
        if granted.code != 0 {
            return Some(granted);
        }
        acknowledged.push((election.clone(), granted.json()["token"].as_u64().unwrap()));
        let written = world.call(&["checkpoint", &election, "--as", "a", "--state", &state, "--json"]);
        (written.code != 0).then_some(written)
    });
    let said = failed.expect("the disk is never full").expect(7).json();
    assert!(["unavailable", "unknown"].contains(&said["code"].as_str().unwrap()), "{said}");

    let refused = world.call(&["acquire", "new", "--as", "b", "--json"]).expect(7).json();
    assert_eq!(refused["code"], "unavailable", "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("disk"), "{refused}");
    let (status, body) = server.ask("GET", "/readyz");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["code"]), (503, &"unavailable".into()), "{body}");
    assert_eq!((server.ask("HEAD", "/readyz").0, server.ask("GET", "/healthz").0), (503, 200));
    // What needs no disk goes on.
    for _ in 0..3 {
        world.ok(&["renew", "e", "--as", "a"]);
    }
    assert_eq!(world.json(&["check", "e", "--token", "1"])["outcome"], "current");
    assert_eq!(server.ask("GET", "/v1/elections/e/leader").0, 200);

    limit_files(server.pid(), None);
    until("it grants again", || world.call(&["acquire", "later", "--as", "c"]).code == 0);
    until("it says so", || server.ask("GET", "/readyz").0 == 200);
    let all_there = |world: &World| {
        for (election, token) in &acknowledged {
            assert_eq!(world.status(election)["epoch"].as_u64(), Some(*token), "{election}");
        }
    };
    all_there(&world);
    server.stop();
    server = Server::start(&database);
    all_there(&World::on(&server.url()));
}

#[test]
fn who_asks_whether_it_is_ready_writes_nothing_while_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("server.redb");
    let server = Server::start(&database);
    World::on(&server.url()).ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let before = fs::read(&database).unwrap();
    for _ in 0..5 {
        assert_eq!(server.ask("GET", "/readyz").0, 200);
    }
    assert!(before == fs::read(&database).unwrap(), "the file has changed");
}

#[test]
fn load_balancers_are_told_by_the_status_alone() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("server.redb"));
    let world = World::on(&server.url());
    for method in ["GET", "HEAD"] {
        assert_eq!(server.ask(method, "/v1/elections/e/leader").0, 404);
    }
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let (status, body) = server.ask("GET", "/v1/elections/e/leader");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["agent"], &body["token"]), (200, &"a".into(), &1.into()));
    assert_eq!(server.ask("HEAD", "/v1/elections/e/leader"), (200, String::new()));
    world.ok(&["release", "e", "--as", "a"]);
    assert_eq!(server.ask("HEAD", "/v1/elections/e/leader"), (404, String::new()));
    for path in ["/healthz", "/readyz"] {
        assert_eq!((server.ask("GET", path).0, server.ask("HEAD", path)), (200, (200, String::new())));
    }
}

/// What is left when a server has ended: whether its file was closed.
fn was_closed(database: &Path) -> bool {
    fs::read(database).unwrap()[FLAGS_AT] & NOT_CLOSED == 0
}

#[test]
fn the_file_is_closed_when_the_server_has_stopped_however_much_it_had_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("server.redb");
    for round in 0..5 {
        let mut server = Server::start_with(&database, &["--snapshot-every", "50ms"]);
        let world = World::on(&server.url());
        let state = large_state(&world);
        let election = format!("e{round}");
        world.ok(&["acquire", &election, "--as", "a", "--ttl", "1h"]);
        let mut busy: Vec<_> = (0..4)
            .map(|agent| {
                let agent = format!("b{agent}");
                let waiting = ["acquire", &election, "--as", &agent, "--wait", "60s"];
                world
                    .command(&waiting)
                    .stdout(std::process::Stdio::null())
                    .stderr(std::process::Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        world.ok(&["checkpoint", &election, "--as", "a", "--state", &state]);
        assert!(!was_closed(&database), "round {round}: the flag says nothing");
        server.stop();
        assert!(was_closed(&database), "round {round}");
        for waiting in &mut busy {
            let _ = waiting.kill();
            let _ = waiting.wait();
        }
    }
}

#[test]
fn a_second_server_on_the_same_file_refuses_to_start() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("server.redb");
    let server = Server::start(&database);
    let store = format!("embedded:{}", database.display());
    let mut second = baton();
    second.args(["serve", "--listen", "127.0.0.1:0", "--json", "--store", &store]);
    let refused = finish(second, None).expect(7).json();
    assert_eq!(refused["code"], "refused");
    assert!(refused["message"].as_str().unwrap().contains("server.redb"), "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("another process has it open"), "{refused}");
    assert_eq!(server.ask("GET", "/readyz").0, 200, "the first goes on");
}

/// What is done to the bytes of a file.
type Damage = fn(&mut Vec<u8>);

#[test]
fn a_damaged_file_is_refused_by_name_with_the_way_back_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("server.redb");
    let mut server = Server::start(&database);
    let world = World::on(&server.url());
    let state = large_state(&world);
    for number in 1..=4 {
        let election = format!("e{number}");
        world.ok(&["acquire", &election, "--as", "a"]);
        world.ok(&["checkpoint", &election, "--as", "a", "--state", &state]);
    }
    // What a killed server leaves, and what one that was stopped does.
    let unclosed = fs::read(&database).unwrap();
    server.stop();
    let whole = fs::read(&database).unwrap();
    let damages: [(&str, &Vec<u8>, Damage); 6] = [
        ("a page", &whole, |bytes| {
            bytes.iter_mut().skip(DATABASE_AT + 4_096).take(200_000).for_each(|byte| *byte ^= 0x55);
        }),
        ("a change in the journal", &unclosed, |bytes| bytes[JOURNAL_AT + 60] ^= 1),
        ("the head", &whole, |bytes| bytes[..64].fill(0)),
        ("the database's head", &whole, |bytes| bytes[DATABASE_AT..DATABASE_AT + 64].fill(0)),
        ("its end", &whole, |bytes| bytes.truncate(bytes.len() / 3)),
        ("everything", &whole, Vec::clear),
    ];
    for (what, before, damage) in damages {
        let mut damaged = before.clone();
        damage(&mut damaged);
        let mut file = fs::File::options().write(true).open(&database).unwrap();
        file.set_len(0).unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&damaged).unwrap();
        drop(file);
        let mut refused = baton();
        refused.args(["serve", "--listen", "127.0.0.1:0", "--json", "--store"]);
        refused.arg(format!("embedded:{}", database.display()));
        let refused = finish(refused, None).expect(7).json();
        assert_eq!(refused["code"], "corrupt", "{what}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains("server.redb"), "{what}: {refused}");
        assert!(refused["hint"].as_str().unwrap().contains("baton restore"), "{what}: {refused}");
        // A database that was not closed is put in order as soon as it is opened; its journal is not touched by that.
        let kept = if before == &unclosed { DATABASE_AT } else { damaged.len() };
        assert!(fs::read(&database).unwrap()[..kept] == damaged[..kept], "{what}: nothing was overwritten");
    }
}

#[test]
fn a_clock_that_was_set_back_changes_nothing_but_what_people_read() {
    if !clocks::can_be_moved() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("server.redb");
    // Agents of the kinds 0, 1 and 2 have a clock that is right, an hour early and an hour late.
    let at = |kind: usize| {
        Server::start_by(&database, |mut command| {
            command.envs(clocks::environment(kind));
            command
        })
    };
    let mut server = at(1);
    let world = World::on(&server.url());
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let mut tokens = vec![1];
    for kind in [0, 2, 1, 2] {
        server.stop();
        server = at(kind);
        let world = World::on(&server.url());
        let held = world.call(&["acquire", "e", "--as", "b", "--json"]).expect(3).json();
        let left = held["remaining_ms"].as_u64().unwrap();
        assert!((3_500_000..=3_600_000).contains(&left), "the lease has its full length: {left}");
        let token = world.json(&["acquire", "f", "--as", "c", "--ttl", "1s", "--wait", "30s"])["token"]
            .as_u64()
            .unwrap();
        tokens.push(token + 1);
    }
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
    let world = World::on(&server.url());
    let history = world.ok(&["history", "f", "--json"]).jsons();
    let times: Vec<&str> = history.iter().map(|entry| entry["at"].as_str().unwrap()).collect();
    assert!(!times.is_sorted(), "the clock was moved: {times:?}");
    server.stop();
}

#[test]
fn webhooks_that_make_no_sense_are_refused_before_anything_is_made() {
    let world = World::new();
    for (name, text, mode) in [
        ("short", "secret\n", 0o600),
        ("secret", "0123456789abcdef\n", 0o600),
        ("shared", "0123456789abcdef\n", 0o644),
    ] {
        fs::write(world.file(name), text).unwrap();
        fs::set_permissions(world.file(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for (arguments, said) in [
        (&["--webhook", "https://a/"][..], "--webhook-secret-file"),
        (&["--webhook-secret-file", "secret"], "--webhook"),
        (&["--webhook", "ftp://a/", "--webhook-secret-file", "secret"], "number 1"),
        (&["--webhook", "http://u:hidden@a/", "--webhook-secret-file", "secret"], "password"),
        (&["--webhook", "http://a/", "--webhook-secret-file", "short"], "shorter"),
        (&["--webhook", "http://a/", "--webhook-secret-file", "none"], "cannot be read"),
        (&["--webhook", "http://a/", "--webhook-secret-file", "shared"], "chmod 600 shared"),
    ] {
        let base = ["serve", "--listen", "127.0.0.1:0", "--store", "embedded:made.redb"];
        let refused = world.call(&[&base, arguments].concat()).expect(2);
        assert!(refused.stderr.contains(said) && !refused.stderr.contains("hidden"), "{}", refused.stderr);
        assert!(!world.file("made.redb").exists());
    }
}

#[test]
fn a_candidacy_lasts_as_long_as_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(&folder.path().join("server.redb"));
    let world = World::on(&server.url());
    let enlist = ["enlist", "e", "--as", "a", "--ttl", "1h"];
    assert_eq!(world.json(&enlist)["expires_in_ms"], 300_000, "a server keeps candidates in memory");
    let said = world.ok(&enlist).stdout;
    assert!(said.contains("for 5m") && !said.contains("1h"), "{said}");
}
