//! `baton dashboard` and `baton top` from outside: a link that works once, and a screen.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::server::Server;
use crate::support::{World, finish, until};

/// A server, a world that uses it and whose user is its operator, and the one that its file is in.
fn served() -> (Server, World, World) {
    let place = World::folder();
    let server = Server::start(&place.file("server.redb"));
    let world = World::on(&server.url());
    world.ok(&["init"]);
    (server, world, place)
}

/// Posts to a server, by hand. The status and the body.
fn post(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let address = server.url().strip_prefix("http://").unwrap().to_string();
    let (mut stream, body) = (std::net::TcpStream::connect(&address).unwrap(), body.to_string());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

/// The code of a link.
fn code(link: &str) -> String {
    let secrets = link.split_once("/#sign-in=").unwrap().1;
    let (code, seed) = secrets.trim().split_once('.').unwrap();
    assert_eq!((code.len(), seed.len()), (64, 64), "{link}");
    code.to_string()
}

#[test]
fn a_link_signs_in_once() {
    let (server, world, _place) = served();
    let told = world.json(&["dashboard", "--lasts", "1h"]);
    let link = told["link"].as_str().unwrap();
    assert!(link.starts_with(&format!("{}/#sign-in=", server.url())), "{told}");
    let code = code(link);
    let (status, opened) = post(&server, "/v1/sign-ins/open", &json!({ "code": code }));
    assert_eq!(status, 200, "{opened}");
    assert!(opened["lasts_ms"].as_u64().unwrap() <= 3_600_000);
    assert_eq!(post(&server, "/v1/sign-ins/open", &json!({ "code": code })).0, 403);
    // The operator ends what it began.
    let draft = json!({ "key": opened["key"], "act": { "act": "pause", "reason": "r" } });
    world.ok(&["acquire", "e", "--as", "a"]);
    assert_eq!(post(&server, "/v1/elections/e/operate/draft", &draft).0, 200);
    world.ok(&["dashboard", "--sign-out"]);
    assert_eq!(post(&server, "/v1/elections/e/operate/draft", &draft).0, 403);
}

#[test]
fn a_restart_ends_every_sign_in() {
    let (mut server, world, _place) = served();
    let link = world.ok(&["dashboard", "--print"]).stdout;
    server.crash();
    until("the server is back", || server.ask("GET", "/readyz").0 == 200);
    let (status, said) = post(&server, "/v1/sign-ins/open", &json!({ "code": code(&link) }));
    assert_eq!((status, &said["code"]), (403, &json!("not-signed-in")));
}

#[test]
fn the_browser_is_sent_there_by_a_file_that_is_removed() {
    let (server, world, _place) = served();
    let (folder, seen) = (world.file("bin"), world.file("seen"));
    fs::create_dir(&folder).unwrap();
    let opener = folder.join("xdg-open");
    // What a browser would see, and what others see of it in the list of processes.
    let script = format!(
        "#!/bin/sh\nstat -c %a \"$1\" > {0}.mode\ncat \"$1\" > {0}\necho \"$*\" > {0}.args\n",
        seen.display()
    );
    fs::write(&opener, script).unwrap();
    fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = world.command(&["dashboard"]);
    command.env("DISPLAY", ":9").env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    let done = finish(command, None).expect(0);
    assert!(done.stdout.is_empty() && done.stderr.contains("opened http://"), "{done:?}");
    let page = fs::read_to_string(&seen).unwrap();
    assert!(page.contains(&format!("content=\"0;url={}/#sign-in=", server.url())), "{page}");
    assert_eq!(fs::read_to_string(world.file("seen.mode")).unwrap().trim(), "600");
    let arguments = fs::read_to_string(world.file("seen.args")).unwrap();
    assert!(!arguments.contains("sign-in="), "{arguments}");
    assert!(!std::path::Path::new(arguments.trim()).exists(), "{arguments}");
}

#[test]
fn who_cannot_sign_in_is_told_why() {
    let (server, _operator, _place) = served();
    let agent = World::on(&server.url());
    let refused = agent.call(&["dashboard", "--print"]).expect(6);
    assert!(refused.stderr.contains("this user is not an operator"), "{}", refused.stderr);
    // A key that nobody enrolled.
    agent.ok(&["operator", "key"]);
    let refused = agent.call(&["dashboard", "--print"]).expect(6);
    assert!(refused.stderr.contains("baton operator add"), "{}", refused.stderr);
    let alone = World::folder();
    alone.ok(&["init"]);
    let refused = alone.call(&["dashboard"]).expect(2);
    assert!(refused.stderr.contains("baton serve"), "{}", refused.stderr);
    let refused = alone.call(&["dashboard", "--lasts", "9h"]).expect(2);
    assert!(refused.stderr.contains("eight hours"), "{}", refused.stderr);
}

#[test]
fn top_prints_a_frame_and_wants_a_terminal_for_more() {
    let world = World::folder();
    world.ok(&["init"]);
    assert!(world.ok(&["top", "--once"]).stdout.contains("no elections"));
    world.ok(&["acquire", "e", "--as", "a", "--task", "\u{1b}[31mred"]);
    world.ok(&["pause", "nightly"]);
    let frame = world.ok(&["top", "--once"]).stdout;
    assert!(frame.contains("2 elections") && frame.contains("nightly   paused"), "{frame}");
    assert!(
        frame.contains("serving") && frame.contains("\u{fffd}[31mred") && !frame.contains('\u{1b}'),
        "{frame}"
    );
    assert_eq!(world.ok(&["top", "--json"]).jsons().len(), 2);
    let refused = world.call(&["top"]).expect(2);
    assert!(refused.stderr.contains("--once"), "{}", refused.stderr);
    world.call(&["top", "--every", "1ms"]).expect(2);
}

#[test]
fn top_leaves_the_terminal_as_it_was() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a"]);
    let inner = world.command(&["top"]);
    let line = format!("stty rows 20 cols 70; '{}' top; stty -a", inner.get_program().display());
    let mut command = Command::new("script");
    command.args(["-qefc", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env_clear().env("TERM", "xterm").env("PATH", "/usr/bin:/bin");
    for (name, value) in inner.get_envs() {
        value.map(|value| command.env(name, value));
    }
    if let Some(folder) = inner.get_current_dir() {
        command.current_dir(folder);
    }
    let mut child = command.spawn().unwrap();
    let mut keys = child.stdin.take().unwrap();
    // It moves, shows all of an election, goes back, shows agents, and ends.
    keys.write_all(b"\x1b[B\r\x7faeq").unwrap();
    drop(keys);
    let done = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    let (entered, left) = (text.find("\x1b[?1049h"), text.find("\x1b[?25h\x1b[?1049l"));
    assert!(entered.is_some() && entered < left, "{text:?}");
    assert!(
        text.contains("baton top  file:")
            && text.contains("1 agent")
            && text.contains("last change a (first)"),
        "{text:?}"
    );
    let after = &text[left.unwrap()..];
    assert!(after.contains(" icanon") && after.contains(" echo "), "{after:?}");
}
