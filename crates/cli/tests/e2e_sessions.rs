//! Sessions from outside: a server that is killed, a client that is stopped, followers that answer or do not.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use baton::election::{AgentName, ElectionName, Margins, Span};
use baton::store::boot;
use baton::{Bid, Campaign, Coordinator, SessionLeadership};
use rustix::process::Signal;

use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{MARK, World, exit_code, until};

/// The election of the client that is stopped.
const STOPPED: &str = "stopped";
/// Where that client finds the server, and where it writes what it believes.
const CLIENT: &str = "E2E_SESSION_CLIENT";

fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

fn bid(agent: &str, ttl: Span) -> Bid {
    Bid { ttl: Some(ttl), ..Bid::new(AgentName::new(agent).unwrap()) }
}

/// A server, a world that uses it, and the one that its file is in.
fn served() -> (Server, World, World) {
    let place = World::folder();
    let server = Server::start(&place.file("server.redb"));
    let world = World::on(&server.url());
    (server, world, place)
}

/// A `baton watch --acknowledge` that follows.
fn follower(world: &World, agent: &str) -> Child {
    let arguments = ["watch", "e", "--acknowledge", "--as", agent];
    let child = world.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    until("it follows", || {
        let sessions = world.ok(&["agents", "--sessions", "--json"]).jsons();
        sessions.iter().any(|session| session["agent"] == agent && session["follows"][0] == "e")
    });
    child
}

#[test]
fn a_release_says_who_knows_and_who_does_not() {
    let (_server, world, _place) = served();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1m"]);
    let (mut first, mut second) = (follower(&world, "one"), follower(&world, "two"));
    let told = world.json(&["release", "e", "--as", "a", "--notify-timeout", "30s"]);
    assert_eq!(told["notified"]["told"], 2, "{told}");
    assert_eq!(told["notified"]["silent"], serde_json::json!([]), "{told}");
    // One of them stands still: its session lives, and says nothing.
    signal(second.id(), Signal::STOP);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1m"]);
    // Enough for the other one, on a busy machine too.
    let done = world.ok(&["release", "e", "--as", "a", "--notify-timeout", "6s"]);
    assert!(done.stdout.contains("1 follower acknowledged; no answer within"), "{}", done.stdout);
    assert!(done.stdout.contains("from two"), "{}", done.stdout);
    // One that says that it goes is not waited for.
    signal(first.id(), Signal::TERM);
    assert_eq!(exit_code(&mut first), Some(143));
    let left = world.ok(&["agents", "--sessions", "--json"]).jsons();
    assert!(left.iter().all(|session| session["agent"] != "one"), "{left:?}");
    signal(second.id(), Signal::KILL);
    assert_eq!(exit_code(&mut second), None);
}

#[test]
fn a_run_says_who_knows() {
    let (_server, world, _place) = served();
    let mut one = follower(&world, "one");
    let run = ["run", "e", "--as", "a", "--ttl", "1m", "--notify-timeout", "30s", "--", "true"];
    let done = world.ok(&run);
    assert!(done.stderr.contains("1 follower acknowledged"), "{}", done.stderr);
    let passed = {
        world.ok(&["acquire", "e", "--as", "a", "--ttl", "1m"]);
        world.json(&["release", "e", "--to", "b", "--as", "a", "--notify-timeout", "30s"])
    };
    assert_eq!(passed["notified"]["told"], 1, "{passed}");
    signal(one.id(), Signal::KILL);
    assert_eq!(exit_code(&mut one), None);
}

#[test]
fn without_a_server_nobody_knows_who_follows_and_that_is_said() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1m"]);
    for call in [
        &["release", "e", "--as", "a", "--notify-timeout", "1s"][..],
        &["release", "e", "--to", "b", "--as", "a", "--notify-timeout", "1s"],
        &["run", "f", "--as", "a", "--notify-timeout", "1s", "--", "true"],
        &["watch", "e", "--acknowledge", "--as", "a"],
        &["agents", "--sessions"],
    ] {
        let done = world.call(call).expect(2);
        assert!(done.stderr.contains("baton serve"), "{}", done.stderr);
    }
    assert_eq!(world.status("e")["state"], "held", "nothing was released");
    world.call(&["release", "e", "--as", "a", "--notify-timeout", "2h"]).expect(2);
}

#[test]
fn a_server_that_is_killed_loses_no_lease_that_rides_and_doubles_none() {
    let (mut server, world, _place) = served();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let url = world.url();
    let (session, riding) = runtime.block_on(async {
        let coordinator = Coordinator::connect(&url).await.unwrap();
        let session = coordinator.announce(&AgentName::new("a").unwrap()).await.unwrap();
        let mut riding: Vec<SessionLeadership> = Vec::new();
        for number in 0..200 {
            let name = election(&format!("e-{number}"));
            riding.push(session.acquire(&name, &bid("a", Span::secs(12))).await.unwrap());
        }
        (session, riding)
    });
    let tokens: Vec<u64> = riding.iter().map(|riding| riding.token().0).collect();
    for _ in 0..3 {
        let crashed = boot::now();
        server.crash();
        // By a heartbeat that was sent, and answered, since: counted from before it the lease would end sooner.
        until("all are renewed", || {
            assert!(riding.iter().all(|riding| riding.ensure(Duration::ZERO)));
            let renewed = Margins::STANDARD.deadline(crashed, Span::secs(12));
            riding.iter().all(|riding| riding.deadline() > renewed)
        });
    }
    for (riding, token) in riding.iter().zip(tokens).step_by(20) {
        let shown = world.status(riding.election().as_str());
        assert_eq!((shown["leader"]["agent"].as_str(), shown["token"].as_u64()), (Some("a"), Some(token)));
        assert_eq!(riding.token().0, token);
    }
    let ended = runtime.block_on(session.end(true)).unwrap();
    assert_eq!((ended.released, ended.failed.len()), (200, 0));
}

/// What the test below runs as, in a process of its own: writes when it believed to lead, on the boot-time clock.
fn be_the_client(place: &str) {
    let (url, file) = place.split_once(' ').unwrap();
    let mut file = std::fs::File::create(file).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (_session, riding) = runtime.block_on(async {
        let coordinator = Coordinator::connect(url).await.unwrap();
        let session = coordinator.announce(&AgentName::new("a").unwrap()).await.unwrap();
        let riding = session.acquire(&election(STOPPED), &bid("a", Span::secs(4))).await.unwrap();
        (session, riding)
    });
    for _ in 0..20_000 {
        // The clock is read first: what is believed later than that is not written down as earlier.
        let (at, leads) = (boot::now().as_nanos(), riding.ensure(Duration::ZERO));
        writeln!(file, "{at} {leads}").unwrap();
        std::thread::sleep(Duration::from_millis(3));
    }
}

#[test]
fn a_client_that_was_stopped_knows_that_it_has_lost_before_another_leads() {
    if let Ok(place) = std::env::var(CLIENT) {
        return be_the_client(&place);
    }
    let (_server, world, _place) = served();
    let file = world.file("believed");
    let mut client = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "e2e_sessions::a_client_that_was_stopped_knows_that_it_has_lost_before_another_leads",
        ])
        .env(CLIENT, format!("{} {}", world.url(), file.display()))
        .env(MARK, world.mark())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let believed = || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let line = |line: &str| {
            let (at, leads) = line.split_once(' ')?;
            Some((at.parse::<u64>().ok()?, leads == "true"))
        };
        text.lines().filter_map(line).collect::<Vec<_>>()
    };
    until("it leads", || believed().iter().any(|(_, leads)| *leads));
    signal(client.id(), Signal::STOP);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let granted = runtime.block_on(async {
        let coordinator = Coordinator::connect(&world.url()).await.unwrap();
        let campaign = Campaign::new(bid("b", Span::secs(60)));
        let lead = coordinator.campaign(&election(STOPPED), campaign).await.unwrap();
        (lead.grant().asked_at().as_nanos(), lead)
    });
    let before = believed().len();
    signal(client.id(), Signal::CONT);
    until("it goes on", || believed().len() > before + 20);
    signal(client.id(), Signal::KILL);
    assert_eq!(exit_code(&mut client), None);
    let late: Vec<_> = believed().into_iter().filter(|(at, leads)| *leads && *at >= granted.0).collect();
    assert!(late.is_empty(), "it believed to lead while another did: {late:?}");
    assert!(believed().last().is_some_and(|(_, leads)| !leads));
}
