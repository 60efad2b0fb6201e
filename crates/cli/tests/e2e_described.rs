//! Agents that tell how they are, between real processes: who is shown as what, and who is out because something fails.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::processes::signal;
use crate::support::server::Server;
use crate::support::{World, exit_code, until};

fn describe(world: &World, file: &str, text: &str) {
    // In one piece: whoever looks finds the old or the new.
    let part = world.file(&format!("{file}.part"));
    std::fs::write(&part, text).unwrap();
    std::fs::rename(&part, world.file(file)).unwrap();
}

fn run(world: &World, agent: &str, more: &[&str]) -> Child {
    let file = format!("{agent}.json");
    // A lease that a machine which stands still for seconds does not cost.
    let run = ["run", "e", "--as", agent, "--ttl", "12s", "--describe", &file];
    let mut command = world.command(&[&run, more, &["--", "sleep", "600"]].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn shown(world: &World, agent: &str) -> Value {
    let call = world.call(&["agents", agent, "--json"]);
    if call.code == 0 { call.json() } else { Value::Null }
}

fn leader(world: &World) -> Value {
    world.status("e")["leader"]["agent"].clone()
}

#[test]
fn an_agent_is_shown_as_it_is() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    let world = World::on(&server.url());
    describe(
        &world,
        "a.json",
        r#"{"queue_depth": 3, "tasks": [{"name": "\u001b[31m<b>parser</b>", "percent": 40, "estimate_ms": 60000}],
            "dependencies": {"db": "ok"}}"#,
    );
    let mut child = run(&world, "a", &["--session", "--capability", "rust"]);
    let mut agent = Value::Null;
    // One that stood still for a while is suspected until it is heard again.
    until("it is described, and alive", || {
        agent = shown(&world, "a");
        agent["description"]["cpu_percent"].is_u64() && agent["state"] == "alive"
    });
    let description = &agent["description"];
    assert_eq!(agent["follows"][0], "e", "{agent}");
    assert!(agent["suspicion"].as_f64().unwrap() < 8.0, "{agent}");
    assert_eq!((&description["queue_depth"], &description["capabilities"][0]), (&3.into(), &"rust".into()));
    assert!(description["memory_bytes"].as_u64().unwrap() > 0, "{agent}");
    until("it leads", || shown(&world, "a")["leads"][0] == "e");

    describe(
        &world,
        "a.json",
        r#"{"dependencies": {"db": "failing"}, "tasks": [{"name": "\u001b[31m<b>parser</b>"}]}"#,
    );
    until("that is told", || shown(&world, "a")["description"]["dependencies"]["db"] == "failing");
    let table = world.ok(&["agents"]).stdout;
    assert!(table.contains("db failing") && table.contains("<b>parser</b>"), "{table}");
    assert!(!table.contains('\u{1b}'), "what an agent says does not steer the terminal");
    until("nobody is suspected", || {
        let (status, metrics) = server.ask("GET", "/metrics");
        assert_eq!(status, 200);
        metrics.contains("\nbaton_sessions_suspected 0\n")
    });
    // What is no description changes nothing of what is known.
    describe(&world, "a.json", "nonsense");
    assert_eq!(leader(&world), "a", "the policy does not need db");

    signal(child.id(), Signal::TERM);
    assert_eq!(exit_code(&mut child), Some(143));
    assert_eq!(shown(&world, "a"), Value::Null, "it ended its session in order");
    world.call(&["agents", "nobody"]).expect(1);
}

#[test]
fn without_a_server_those_are_known_who_lead_and_a_session_is_refused() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    let agent = shown(&world, "a");
    assert_eq!((&agent["state"], &agent["leads"][0]), (&"no-session".into(), &"e".into()), "{agent}");
    world.call(&["run", "f", "--as", "b", "--session", "--", "true"]).expect(2);
}

#[test]
fn who_cannot_work_does_not_lead() {
    let world = World::folder();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--depends", "db"]);
    let (works, fails) =
        (r#"{"dependencies": {"db": "ok"}}"#, r#"{"dependencies": {"db": "failing", "x": "ok"}}"#);
    describe(&world, "a.json", works);
    describe(&world, "b.json", works);
    let mut first = run(&world, "a", &[]);
    until("a leads", || leader(&world) == "a");
    let mut second = run(&world, "b", &[]);
    describe(&world, "a.json", fails);
    until("b leads", || leader(&world) == "b");
    assert_eq!(world.status("e")["last_transition"]["cause"], "dependency");
    // Who says that it cannot work is barred.
    signal(second.id(), Signal::TERM);
    exit_code(&mut second);
    let refused = world.call(&["acquire", "e", "--as", "c", "--failing", "db", "--json"]).expect(3).json();
    assert_eq!(
        (&refused["code"], &refused["why"]),
        (&"not-eligible".into(), &"its dependency `db` is failing".into())
    );
    describe(&world, "a.json", works);
    until("a leads again", || leader(&world) == "a");
    signal(first.id(), Signal::TERM);
    exit_code(&mut first);
}

#[test]
fn bad_verdicts_end_a_leadership_as_the_policy_says() {
    let world = World::folder();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--watcher", "reviewer", "--performance", "2/3", "--cool-off", "1h"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    let judge = |script: &str| {
        world.ok(&["judge", "e", "--as", "reviewer", "--verdicts", "1", "--", "sh", "-c", script])
    };
    let checkpoint = |step: &str| world.ok(&["checkpoint", "e", "--as", "a", "--summary", step]);
    checkpoint("one");
    let good = judge(r#"grep -q '"summary": "one"' && test "$BATON_LEADER" = a"#);
    assert!(good.stderr.contains("reviewer judges what the leader of e leaves"), "{}", good.stderr);
    assert!(good.stderr.contains("checkpoint 1 of a: good"), "{}", good.stderr);
    checkpoint("two");
    let bad = judge("echo 'one test fails'; exit 1");
    assert!(bad.stderr.contains("bad: one test fails"), "{}", bad.stderr);
    let told = world.ok(&["status", "e"]).stdout;
    assert!(told.contains("verdicts    1 of the last 2 bad; 2 of 3 end the leadership"), "{told}");
    assert!(told.contains("watched by reviewer, performance 2/3 (cool-off 1h)"), "{told}");
    world.ok(&["check", "e", "--token", "1"]);
    // Started anew, it does not judge again what it has judged.
    let anew = [
        "judge",
        "e",
        "--as",
        "reviewer",
        "--verdicts",
        "1",
        "--",
        "sh",
        "-c",
        "echo 'two tests fail' >&2; exit 1",
    ];
    let said = std::fs::File::create(world.file("said")).unwrap();
    let mut anew = world.command(&anew).stderr(said).spawn().unwrap();
    let said = || std::fs::read_to_string(world.file("said")).unwrap();
    until("it judges", || said().contains("reviewer judges"));
    checkpoint("three");
    assert_eq!(exit_code(&mut anew), Some(0));
    assert!(!said().contains("checkpoint 2") && said().contains("checkpoint 3 of a: bad"), "{}", said());
    assert!(said().contains("the leadership of a has ended"), "{}", said());
    world.call(&["check", "e", "--token", "1"]).expect(5);
    world.ok(&["release", "e", "--as", "a"]);
    let barred = world.call(&["acquire", "e", "--as", "a", "--json"]).expect(3).json();
    assert_eq!(barred["code"], "not-eligible", "{barred}");
    assert!(barred["retry_in_ms"].as_u64().unwrap() > 3_000_000, "{barred}");
    // Its successor keeps the leadership through the cool-off, whatever the judge thinks.
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);
    for _ in 0..3 {
        world.ok(&["report", "e", "validation", "--as", "reviewer"]);
    }
    assert_eq!(leader(&world), "b");
    world.call(&["report", "e", "validation", "--as", "somebody"]).expect(3);
}

#[test]
fn a_report_without_words_stands_in_the_history_as_one() {
    let world = World::folder();
    world.ok(&["init"]);
    world.ok(&["policy", "e", "--watcher", "reviewer"]);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["report", "e", "stall", "--as", "reviewer"]);
    assert_eq!(world.status("e")["departure"]["reason"], "reviewer reports it");
}
