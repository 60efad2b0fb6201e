//! Looking at a folder in which agents work, serving it, and giving it back: with a real leader under `baton run`.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{World, exit_code, tree, until};

/// A bound on a hang.
const HANG: Duration = Duration::from_secs(180);

/// A server of one kind or another, stopped when it is dropped.
struct ListeningServer {
    child: Child,
    address: String,
}

impl ListeningServer {
    fn start(world: &World, arguments: &[&str]) -> ListeningServer {
        let announced = world.file("listening.address");
        let _ = std::fs::remove_file(&announced);
        let file = announced.display().to_string();
        let more = ["--listen", "127.0.0.1:0", "--address-file", &file];
        let mut command = world.command(&[arguments, &more].concat());
        let log = std::fs::File::options().create(true).append(true).open(world.file("listening.log"));
        let mut child = command.stdout(Stdio::null()).stderr(log.unwrap()).spawn().unwrap();
        let mut address = String::new();
        until("it listens", || {
            let log = || std::fs::read_to_string(world.file("listening.log")).unwrap_or_default();
            assert!(child.try_wait().unwrap().is_none(), "it has ended: {}", log());
            address = std::fs::read_to_string(&announced).unwrap_or_default();
            address.ends_with('\n')
        });
        ListeningServer { child, address: address.trim().to_string() }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The status and what is answered within a moment: a stream is left.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(head.as_bytes()).unwrap();
        let (mut answer, mut piece) = (Vec::new(), [0; 4_096]);
        loop {
            let read = stream.read(&mut piece).unwrap();
            answer.extend_from_slice(&piece[..read]);
            let text = String::from_utf8_lossy(&answer).to_string();
            // By its head: a description of streams names both words too.
            let streams = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                head.to_lowercase().contains("content-type: text/event-stream") && body.contains("data:")
            });
            if read == 0 || streams {
                let (head, body) = text.split_once("\r\n\r\n").unwrap();
                return (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string());
            }
        }
    }

    /// Every route that is read, with this election for every name.
    fn get_everything(&self, election: &str) {
        let (status, text) = self.get("/openapi.json");
        assert_eq!(status, 200);
        let described: Value = serde_json::from_str(&text).unwrap();
        let paths = described["paths"].as_object().unwrap();
        let read: Vec<&String> =
            paths.iter().filter(|(_, of)| of.get("get").is_some()).map(|(path, _)| path).collect();
        assert!(read.len() > 30, "{read:?}");
        for path in read {
            let mut asked = path.clone();
            while let (Some(from), Some(to)) = (asked.find('{'), asked.find('}')) {
                asked.replace_range(from..=to, election);
            }
            let (status, body) = self.get(&asked);
            assert!(status < 500, "{asked}: {status} {body}");
        }
        for (path, of) in [("/", "<html"), ("/page/app.js", "import"), ("/v1/overview", election)] {
            let (status, body) = self.get(path);
            assert!(status == 200 && body.contains(of), "{path}: {status} {body}");
        }
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        until("it stops", || exit_code(&mut self.child).is_some());
    }
}

impl Drop for ListeningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent that leads `job` in the folder of this world until a file is there.
fn leader(world: &World) -> Child {
    let work = "echo led > led; until test -e enough; do sleep 0.1; done; echo whole > whole";
    // So long that nothing is renewed meanwhile, and each write is somebody else's.
    let run = ["run", "job", "--once", "--as", "alice", "--ttl", "1h", "--", "sh", "-c", work];
    let child = world.command(&run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    world.read_soon("led");
    let entered = world.store().join("job/history/versions/1");
    until("its leadership stands in the history", || entered.exists());
    child
}

fn finish_work(world: &World, mut leader: Child) {
    assert!(leader.try_wait().unwrap().is_none(), "the leader's work has ended");
    std::fs::write(world.file("enough"), "").unwrap();
    until("the leader ends", || exit_code(&mut leader).is_some());
    assert_eq!(exit_code(&mut leader), Some(0));
    assert_eq!(world.read_soon("whole"), "whole\n");
}

/// The folder, but for the servers' own election.
fn without_servers(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let servers = |path: &PathBuf| path.display().to_string().contains("_baton");
    tree(&world.store()).into_iter().filter(|(path, _)| !servers(path)).collect()
}

#[test]
fn who_observes_sees_the_leader_and_leaves_the_folder_as_it_is() {
    let world = World::folder();
    let leader = leader(&world);
    let before = tree(&world.store());
    let observer = ListeningServer::start(&world, &["observe"]);
    observer.get_everything("job");
    let (_, overview) = observer.get("/v1/overview");
    assert!(overview.contains("\"alice\""), "{overview}");
    let seen = World::on(&observer.url());
    assert_eq!(seen.status("job")["leader"]["agent"], "alice");
    for refused in [
        seen.call(&["acquire", "job", "--as", "bob"]),
        seen.call(&["acquire", "other", "--as", "bob"]),
        seen.call(&["init"]),
        seen.call(&["state", "put", "job", "k", "v", "--as", "bob"]),
    ] {
        assert_ne!(refused.code, 0, "{}", refused.stdout);
    }
    assert!(tree(&world.store()) == before, "to look has changed the folder");
    // What agents do in the folder is shown.
    world.ok(&["acquire", "another", "--as", "carol"]);
    until("a new election is shown", || observer.get("/v1/overview").1.contains("carol"));
    finish_work(&world, leader);
    observer.stop();
}

#[test]
fn a_folder_is_served_only_when_told_to_and_given_back() {
    let world = World::folder();
    let leader = leader(&world);
    let store = world.url();
    let before = tree(&world.store());
    let refused = world.call(&["serve", "--store", &store, "--listen", "127.0.0.1:0"]).expect(2);
    assert!(
        refused.stderr.contains("--take-over") && refused.stderr.contains("baton observe"),
        "{}",
        refused.stderr
    );
    assert!(tree(&world.store()) == before, "a server that did not start has changed the folder");

    let server =
        ListeningServer::start(&world, &["serve", "--take-over", "--server-ttl", "10s", "--store", &store]);
    let before = without_servers(&world);
    let at_server = World::on(&server.url());
    until("the server is active", || server.get("/v1/overview").0 == 200);
    server.get_everything("job");
    assert_eq!(at_server.status("job")["leader"]["agent"], "alice");
    at_server.call(&["acquire", "job", "--as", "bob"]).expect(3);
    assert!(without_servers(&world) == before, "to look has changed the folder");
    finish_work(&world, leader);

    // A command that changes it takes it over, and clients of the folder are refused with the way back.
    at_server.ok(&["acquire", "job", "--as", "bob", "--ttl", "1s"]);
    let refused = world.call(&["acquire", "job", "--as", "alice"]).expect(7);
    assert!(refused.stderr.contains("serve --store … --release"), "{}", refused.stderr);
    let refused = world.call(&["serve", "--release", "--store", &store]).expect(3);
    assert!(refused.stderr.contains(&server.url()), "{}", refused.stderr);
    server.stop();
    let given = world.ok(&["serve", "--release", "--store", &store, "--json"]).json();
    assert_eq!(given["elections"], serde_json::json!(["job"]));
    let led = world.json(&["acquire", "job", "--as", "alice", "--wait", "60s"]);
    assert_eq!(led["token"], 3);
}

#[test]
fn a_server_whose_file_is_gone_says_that_there_are_snapshots() {
    let world = World::folder();
    let store = format!("embedded:{}", world.file("s.redb").display());
    let snapshots = world.file("s.redb.snapshots");
    std::fs::create_dir(&snapshots).unwrap();
    for name in ["2026-01-01T00-00-00.redb", "2026-01-02T00-00-00.redb"] {
        std::fs::write(snapshots.join(name), "").unwrap();
    }
    let server = ListeningServer::start(&world, &["serve", "--store", &store]);
    let says = format!("baton restore {}", snapshots.join("2026-01-02T00-00-00.redb").display());
    until("the server speaks of the newest snapshot", || {
        std::fs::read_to_string(world.file("listening.log")).unwrap().contains(&says)
    });
    server.stop();
}

#[test]
fn a_server_without_a_store_says_which_folder_it_does_not_serve() {
    let world = World::folder();
    let folder = world.file(".baton");
    world.ok(&["acquire", "job", "--as", "alice", "--store", &format!("file:{}", folder.display())]);
    let server = ListeningServer::start(&world, &["serve"]);
    let mut log = String::new();
    until("the server speaks of the folder", || {
        log = std::fs::read_to_string(world.file("listening.log")).unwrap();
        log.contains("--take-over")
    });
    assert!(log.contains("has 1 election\n") && log.contains("baton observe --store file:"), "{log}");
    server.stop();
}
