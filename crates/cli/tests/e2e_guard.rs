//! `baton guard`: leaders of `baton run` write to a slow upstream, one of them stopped past its lease.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;

use crate::support;
use crate::support::secure::{Certificate, create, text, with_token};
use crate::support::server::Server;
use crate::support::{HANG, World, exit_code, processes, until};

/// A line of what the upstream did: which token's request began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpstreamEvent {
    Begin(u64),
    End(u64),
}

/// An upstream that takes a moment for each request, and goes on with it whoever has hung up.
struct Upstream {
    address: SocketAddr,
    log: Arc<Mutex<Vec<UpstreamEvent>>>,
    /// The head of the last request.
    last: Arc<Mutex<String>>,
}

impl Upstream {
    fn start(takes: Duration) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let upstream = Upstream { address, log: Arc::default(), last: Arc::default() };
        let (log, last) = (Arc::clone(&upstream.log), Arc::clone(&upstream.last));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, last) = (Arc::clone(&log), Arc::clone(&last));
                std::thread::spawn(move || converse(stream.unwrap(), takes, &log, &last));
            }
        });
        upstream
    }

    fn log(&self) -> Vec<UpstreamEvent> {
        self.log.lock().unwrap().clone()
    }

    fn ended(&self, token: u64) -> usize {
        self.log().iter().filter(|did| **did == UpstreamEvent::End(token)).count()
    }
}

fn converse(mut stream: TcpStream, takes: Duration, log: &Mutex<Vec<UpstreamEvent>>, last: &Mutex<String>) {
    while let Some(head) = head(&mut stream) {
        last.lock().unwrap().clone_from(&head);
        let header = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_string())
        };
        let length: usize = header("content-length").map_or(0, |length| length.parse().unwrap());
        if stream.read_exact(&mut vec![0; length]).is_err() {
            return;
        }
        if let Some(token) = header("baton-token") {
            let token = token.parse().unwrap();
            log.lock().unwrap().push(UpstreamEvent::Begin(token));
            std::thread::sleep(takes);
            log.lock().unwrap().push(UpstreamEvent::End(token));
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    }
}

fn head(stream: &mut TcpStream) -> Option<String> {
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).ok()
}

/// A guard of a world.
struct Guard {
    child: Child,
    address: String,
}

impl Guard {
    fn start(world: &World, upstream: &Upstream, more: &[&str]) -> Guard {
        let url = format!("http://{}", upstream.address);
        let _ = std::fs::remove_file(world.file("guard"));
        let arguments = ["guard", "--listen", "127.0.0.1:0", "--upstream", &url, "--election", "e"];
        Guard::begin(world, world.command(&[&arguments, more].concat()))
    }

    fn begin(world: &World, mut command: Command) -> Guard {
        command.args(["--address-file"]).arg(world.file("guard")).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let mut address = String::new();
        until("the guard listens", || {
            address = std::fs::read_to_string(world.file("guard")).unwrap_or_default();
            address.ends_with('\n')
        });
        Guard { child, address: address.trim().to_string() }
    }

    /// Asks, and gives the status and what was said.
    fn ask(&self, method: &str, token: Option<u64>) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let token = token.map(|token| format!("Baton-Token: {token}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} /x HTTP/1.1\r\nHost: g\r\n{token}Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }

    fn stop(&mut self) {
        processes::signal(self.child.id(), Signal::TERM);
        assert_eq!(exit_code(&mut self.child), Some(0));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CMD writes again and again with the token that it was started with, and notes each answer.
const WRITER: &str = r#"
while :; do
    status=$(curl -s -o /dev/null -w '%{http_code}' --max-time 30 -X PUT -d x \
        -H "Baton-Token: $BATON_TOKEN" "http://$GUARD/x")
    echo "$status" >> "$E2E_WORLD/answers-$BATON_TOKEN"
    [ "$status" = 200 ] || sleep 0.1
done
"#;

/// A `baton run` whose CMD writes through the guard.
fn writer(world: &World, guard: &Guard, agent: &str) -> Child {
    let mut command = world.command(&["run", "e", "--as", agent, "--ttl", "12s", "--", "sh", "-c", WRITER]);
    command.env("GUARD", &guard.address).stderr(Stdio::null()).spawn().unwrap()
}

fn answers(world: &World, token: u64) -> Vec<String> {
    let text = std::fs::read_to_string(world.file(&format!("answers-{token}"))).unwrap_or_default();
    text.lines().map(ToString::to_string).collect()
}

#[test]
fn a_leader_that_was_stopped_past_its_lease_never_writes_beside_the_next() {
    let world = World::new();
    let upstream = Upstream::start(Duration::from_millis(300));
    world.ok(&["acquire", "e", "--as", "z", "--ttl", "1h"]);
    world.ok(&["release", "e", "--as", "z"]);
    let mut guard = Guard::start(&world, &upstream, &[]);
    let mut first = writer(&world, &guard, "a");
    until("the first writes", || upstream.ended(2) >= 2);

    // All of it, in the middle of a request: run, its warden, and CMD with what it started.
    let mine = || {
        let commands = processes::of_commands(world.mark());
        commands.into_iter().filter(|process| process.command.as_ref().is_some_and(|tree| tree.token == 2))
    };
    let warden = processes::warden(first.id()).unwrap();
    for pid in [first.id(), warden].into_iter().chain(mine().map(|process| process.pid)) {
        processes::signal(pid, Signal::STOP);
    }
    let mut second = writer(&world, &guard, "b");
    until("the second writes", || upstream.ended(3) >= 2);
    let before = answers(&world, 2).len();
    // CMD alone wakes: whatever would have ended it is still stopped.
    for process in mine() {
        process.signal(Signal::CONT);
    }
    until("it is told so", || answers(&world, 2).iter().filter(|status| *status == "409").count() >= 3);
    let last = answers(&world, 2);
    assert!(last[before..].iter().skip(1).all(|status| status == "409"), "{last:?}");

    for pid in [warden, first.id()] {
        processes::signal(pid, Signal::CONT);
    }
    until("its CMD is ended", || mine().next().is_none());
    for run in [&mut first, &mut second] {
        processes::signal(run.id(), Signal::TERM);
        exit_code(run);
    }
    guard.stop();
    let log = upstream.log();
    let tokens: Vec<u64> = log
        .iter()
        .map(|did| match did {
            UpstreamEvent::Begin(token) | UpstreamEvent::End(token) => *token,
        })
        .collect();
    assert!(tokens.is_sorted(), "writes of one leader among those of another: {log:?}");
}

#[test]
fn a_guard_that_was_killed_comes_back_and_lets_no_lower_token_in() {
    let world = World::new();
    let upstream = Upstream::start(Duration::ZERO);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let mut guard = Guard::start(&world, &upstream, &["--resource", "db/orders", "--drain", "30s"]);
    assert_eq!(guard.ask("GET", None).0, 200);
    assert_eq!(guard.ask("PUT", Some(1)).0, 200);
    assert_eq!(guard.ask("PUT", None).0, 428);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "1h"]);
    assert_eq!(guard.ask("PUT", Some(2)).0, 200);
    guard.child.kill().unwrap();
    guard.child.wait().unwrap();
    // What the fence of the same name lets in, it knows, too.
    world.call(&["fence", "db/orders", "--token", "1"]).expect(5);
    let guard = Guard::start(&world, &upstream, &["--resource", "db/orders", "--drain", "30s"]);
    let (status, said) = guard.ask("PUT", Some(1));
    assert_eq!(status, 409);
    assert!(said.contains(r#""code":"stale""#) && said.contains(r#""current":2"#), "{said}");
    assert_eq!(guard.ask("PUT", Some(2)).0, 200, "once the hold of the former run has ended");
    let log = world.ok(&["fence", "db/orders", "--log", "--json"]).jsons();
    assert!(log.iter().all(|entry| entry["note"] == "baton guard"), "{log:?}");
}

/// Asks over TLS, and gives the status.
fn ask_securely(guard: &Guard, certificate: &Certificate, method: &str, token: Option<u64>) -> String {
    let url = format!("https://{}/x", guard.address);
    let mut curl = Command::new("curl");
    curl.args([
        "-s",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code}",
        "--max-time",
        "60",
        "-X",
        method,
        &url,
        "--cacert",
    ]);
    curl.arg(&certificate.certificate);
    if let Some(token) = token {
        curl.args(["-d", "x", "-H", &format!("Baton-Token: {token}")]);
    }
    support::finish(curl, None).stdout
}

#[test]
fn a_guard_with_a_certificate_asks_a_server_with_tokens() {
    let world = World::folder();
    let upstream = Upstream::start(Duration::ZERO);
    let file = world.file("server.redb");
    let store = format!("embedded:{}", file.display());
    let certificate = Certificate::write(world.path());
    world.ok(&["init", "--store", &store]);
    let operator = text(&create(&world, &store, &["--role", "operator"]), "token");
    let made = create(&world, &store, &["--role", "agent", "--elections", "e"]);
    let (own, id) = (text(&made, "token"), text(&made, "id"));
    let server = Server::start_with(&file, &certificate.arguments());
    let url = certificate.checked(&server.url());
    with_token(&world, &operator, &["acquire", "e", "--as", "a", "--ttl", "1h", "--store", &url]).expect(0);
    let behind = format!("http://{}", upstream.address);
    let arguments =
        ["guard", "--listen", "127.0.0.1:0", "--upstream", &behind, "--election", "e", "--store", &url];
    let folder = world.file("guarded");
    std::fs::create_dir(&folder).unwrap();
    let shown = Certificate::write(&folder);
    let mut command = world.command(&[&arguments[..], &shown.arguments()].concat());
    command.env("BATON_HTTP_TOKEN", &own);
    let mut guard = Guard::begin(&world, command);
    let ask = |method, token| ask_securely(&guard, &shown, method, token);
    assert_eq!(ask("GET", None), "200");
    assert!(upstream.last.lock().unwrap().contains("x-forwarded-proto: https"));
    assert_eq!(ask("PUT", Some(1)), "200");
    assert!(!upstream.last.lock().unwrap().contains(&own), "its own token is not passed on");
    assert_eq!(ask("PUT", None), "428");
    with_token(&world, &operator, &["release", "e", "--as", "a", "--store", &url]).expect(0);
    with_token(&world, &operator, &["acquire", "e", "--as", "b", "--ttl", "1h", "--store", &url]).expect(0);
    assert_eq!(ask("PUT", Some(2)), "200");
    assert_eq!(ask("PUT", Some(1)), "409");
    // Another certificate comes into use while it runs.
    Certificate::write(&folder);
    assert_eq!(ask("GET", None), "000", "it is not shown yet");
    processes::signal(guard.child.id(), Signal::HUP);
    until("the new certificate is shown", || ask("GET", None) == "200");
    // A guard that is let in no longer cannot tell whose token is current, and lets no write through.
    with_token(&world, &operator, &["token", "revoke", &id, "--store", &url]).expect(0);
    until("its hold has ended", || ask("PUT", Some(2)) == "503");
    assert_eq!(ask("GET", None), "200");
    guard.stop();
}

#[test]
fn what_makes_no_sense_is_refused_with_a_hint() {
    let world = World::new();
    let base = ["guard", "--listen", "127.0.0.1:0", "--election", "e"];
    for (more, code) in [
        (&["--upstream", "ftp://a"][..], 2),
        (&["--upstream", "http://a", "--drain", "0s"], 2),
        (&["--upstream", "http://a", "--election", "E"], 2),
        (&["--upstream", "https://a", "--upstream-ca", "/does/not/exist"], 2),
        (&["--upstream", "http://a", "--tls-cert", "x"], 2),
        (&["--upstream", "http://a", "--tls-cert", "/does/not/exist", "--tls-key", "x"], 2),
        (&["--upstream", "http://a", "--store", "mem:"], 2),
        (&[], 2),
    ] {
        let refused = world.call(&[&base, more].concat()).expect(code);
        assert!(refused.stderr.contains("hint:") || refused.stderr.contains("Usage"), "{}", refused.stderr);
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused =
        world.call(&["guard", "--listen", &address, "--upstream", "http://a", "--election", "e"]).expect(1);
    assert!(refused.stderr.contains("cannot listen"), "{}", refused.stderr);
}
