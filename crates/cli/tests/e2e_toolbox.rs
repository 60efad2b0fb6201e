//! The leader's toolbox between real processes: a board that outlives its leader, and work that is done once.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::server::Server;
use crate::support::{World, exit_code, processes, until};

/// A CMD for a task: says that it has begun, then that it is half done, and ends when it may.
const HALF_THEN_DONE: &str = r#"echo "$BATON_TASK_ID" >> begun; echo '50 half' > "$BATON_TASK_PROGRESS_FILE"
while [ ! -e go ]; do sleep 0.05; done
echo "$BATON_TASK_ID" >> done; echo "by $BATON_AGENT" > "$BATON_TASK_RESULT_FILE""#;

fn spawn(world: &World, arguments: &[&str]) -> Child {
    let mut command = world.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// How many processes of a CMD there are.
fn sleepers(world: &World) -> usize {
    let of_shell = |process: &processes::Process| {
        let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        line.starts_with(b"sh\0") || line.starts_with(b"sleep\0")
    };
    processes::of_world(world.mark()).iter().filter(|process| of_shell(process)).count()
}

fn lines(world: &World, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(world.file(name)).unwrap_or_default();
    text.lines().map(ToString::to_string).collect()
}

fn task(world: &World, id: &str) -> serde_json::Value {
    world.json(&["task", "show", "e", id])
}

/// A leader adds and assigns, a worker is half done, both are killed; the successor sees it and has it finished by another.
fn the_successor_finishes(world: &World) {
    let lead = r#"set -e
"$BATON_BIN" task add e 'first' --id one --needs rust
"$BATON_BIN" task add e 'second' --id two
"$BATON_BIN" task assign e one --among 'u:sql:9,w:rust:1'
"$BATON_BIN" task assign e two --to w
touch told; sleep 600"#;
    let mut first = world.command(&["run", "e", "--as", "a", "--ttl", "60s", "--", "sh", "-c", lead]);
    first.env("BATON_BIN", env!("CARGO_BIN_EXE_baton")).stdout(Stdio::null()).stderr(Stdio::null());
    let first = first.spawn().unwrap();
    until("the leader has told", || world.file("told").exists());
    let worker = spawn(world, &["task", "work", "e", "--as", "w", "--", "sh", "-c", HALF_THEN_DONE]);
    until("one is half done", || task(world, "one")["progress"]["percent"] == 50);
    for mut killed in [first, worker] {
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    until("their commands are ended by the wardens", || sleepers(world) == 0);

    // The warden gives the lease back: it is not waited for.
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m", "--wait", "50s"]);
    let board = world.json(&["task", "board", "e"]);
    assert_eq!(
        (&board["leader"], &board["working"], &board["assigned"]),
        (&"b".into(), &1.into(), &1.into())
    );
    let half = task(world, "one");
    assert_eq!(
        (half["progress"]["percent"].as_u64(), half["progress"]["note"].as_str()),
        (Some(50), Some("half"))
    );
    assert_eq!(half["attempts"][0]["agent"], "w");
    let told_before = half["attempts"][0]["epoch"].as_u64().unwrap();

    for id in ["one", "two"] {
        world.ok(&["task", "retry", "e", id, "--reason", "its worker is gone", "--as", "b"]);
        world.ok(&["task", "assign", "e", id, "--to", "x", "--as", "b"]);
    }
    std::fs::write(world.file("go"), "").unwrap();
    let drain = world.ok(&["task", "work", "e", "--as", "x", "--drain", "--", "sh", "-c", HALF_THEN_DONE]);
    assert!(drain.stderr.contains("task one done"), "{}", drain.stderr);
    let done = task(world, "one");
    assert_eq!((done["state"].as_str(), done["result"].as_str()), (Some("done"), Some("by x\n")));
    let attempts = done["attempts"].as_array().unwrap();
    assert_eq!(
        (attempts[0]["outcome"].as_str(), attempts[0]["percent"].as_u64()),
        (Some("withdrawn"), Some(50))
    );
    assert!(attempts[1]["epoch"].as_u64().unwrap() > told_before);
    assert_eq!(
        lines(world, "begun"),
        ["one", "one", "two"],
        "what the first worker had begun was begun anew"
    );
    assert_eq!(lines(world, "done"), ["one", "two"], "nothing is done twice");
    // A dead worker reports nothing any more, and a former leader assigns nothing.
    world.call(&["task", "complete", "e", "one", "--as", "w"]).expect(1);
    world.call(&["task", "add", "e", "third", "--as", "a"]).expect(1);
}

#[test]
fn the_successor_finds_the_board_in_a_folder() {
    the_successor_finishes(&World::folder());
}

#[test]
fn the_successor_finds_the_board_at_a_server() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    the_successor_finishes(&World::on(&server.url()));
}

#[test]
fn a_worker_goes_on_while_nobody_leads_and_stops_when_its_task_is_cancelled() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    for id in ["one", "two"] {
        world.ok(&["task", "add", "e", "a task", "--id", id, "--as", "a"]);
        world.ok(&["task", "assign", "e", id, "--to", "w", "--as", "a"]);
    }
    let mut worker = spawn(&world, &["task", "work", "e", "--as", "w", "--", "sh", "-c", HALF_THEN_DONE]);
    until("one is half done", || task(&world, "one")["progress"]["percent"] == 50);
    world.ok(&["release", "e", "--as", "a"]);
    world.call(&["task", "cancel", "e", "one", "--as", "a"]).expect(4);
    let board = world.json(&["task", "board", "e"]);
    assert_eq!((&board["degraded"], &board["working"]), (&true.into(), &1.into()));
    world.ok(&["task", "add", "e", "for later", "--id", "three", "--as", "w"]);
    std::fs::write(world.file("go"), "").unwrap();
    until("one is done", || task(&world, "one")["state"] == "done");
    until("two is done, told while somebody led", || task(&world, "two")["state"] == "done");
    std::fs::remove_file(world.file("go")).unwrap();

    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);
    world.ok(&["task", "assign", "e", "three", "--to", "w", "--as", "b"]);
    until("three is half done", || task(&world, "three")["progress"]["percent"] == 50);
    world.ok(&["task", "cancel", "e", "three", "--reason", "not needed", "--as", "b"]);
    until("its CMD is gone", || sleepers(&world) == 0);
    assert_eq!(task(&world, "three")["state"], "cancelled");
    assert_eq!(lines(&world, "done"), ["one", "two"]);
    worker.kill().unwrap();
    worker.wait().unwrap();
}

/// A worker that was killed takes its task up again; while it is at it, another run of the same agent does not.
#[test]
fn a_worker_that_was_killed_goes_on_with_its_task() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["task", "add", "e", "a task", "--id", "one", "--as", "a"]);
    world.ok(&["task", "assign", "e", "one", "--to", "w", "--as", "a"]);
    let half = ["task", "work", "e", "--as", "w", "--", "sh", "-c", HALF_THEN_DONE];
    let mut killed = spawn(&world, &half);
    until("one is half done", || task(&world, "one")["progress"]["percent"] == 50);
    // Nor does one who accepts it once more get another key.
    let beside =
        world.ok(&["task", "work", "e", "--as", "w", "--drain", "--", "sh", "-c", "echo other >> begun"]);
    assert!(!beside.stderr.contains("one"), "{}", beside.stderr);
    killed.kill().unwrap();
    killed.wait().unwrap();
    // Else its CMD might be done before the warden ends it.
    until("its command is ended by the warden", || sleepers(&world) == 0);
    std::fs::write(world.file("go"), "").unwrap();
    let mut next = spawn(&world, &half);
    until("it is done", || task(&world, "one")["state"] == "done");
    let done = task(&world, "one");
    assert_eq!(done["attempts"].as_array().map(Vec::len), Some(1), "in the same attempt: {done}");
    assert_eq!(lines(&world, "begun"), ["one", "one"]);
    assert_eq!(lines(&world, "done"), ["one"]);
    next.kill().unwrap();
    next.wait().unwrap();
}

/// A server that does not answer has not said that nothing is assigned.
#[test]
fn a_worker_that_drains_does_not_take_silence_for_an_empty_board() {
    let place = World::folder();
    let mut server = Server::start(&place.file("baton.redb"));
    let world = World::on(&server.url());
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["task", "add", "e", "a task", "--id", "one", "--as", "a"]);
    world.ok(&["task", "assign", "e", "one", "--to", "w", "--as", "a"]);
    server.stop();
    let mut worker = spawn(&world, &["task", "work", "e", "--as", "w", "--drain", "--", "true"]);
    // Longer than a single request is tried for.
    server.crash_for(Duration::from_secs(8));
    assert_eq!(exit_code(&mut worker), Some(0));
    assert_eq!(task(&world, "one")["state"], "done");
}

/// What was cancelled can be queued anew, by one who has seen that it was.
#[test]
fn the_last_word_on_a_task_stands() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["task", "add", "e", "a task", "--id", "one", "--as", "a"]);
    world.ok(&["task", "cancel", "e", "one", "--as", "a"]);
    assert_eq!(world.json(&["task", "cancel", "e", "one", "--as", "a"])["outcome"], "cancelled");
    world.ok(&["task", "retry", "e", "one", "--as", "a"]);
    assert_eq!(
        (&task(&world, "one")["state"], &task(&world, "one")["orders"]),
        (&"queued".into(), &2.into())
    );
}

#[test]
fn nobody_reports_on_another_s_task_and_nobody_draws_more_than_its_share() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["task", "add", "e", "\u{1b}[31mred\u{1b}[0m <b>bold</b>", "--id", "t", "--as", "a"]);
    world.ok(&["task", "assign", "e", "t", "--to", "w", "--as", "a"]);
    assert_eq!(
        world.call(&["task", "progress", "e", "t", "10", "--as", "w", "--json"]).expect(4).json()["code"],
        "no-key"
    );
    assert_eq!(
        world.call(&["task", "accept", "e", "t", "--as", "v", "--json"]).expect(1).json()["code"],
        "out-of-turn"
    );
    world.ok(&["task", "accept", "e", "t", "--as", "w"]);
    world.ok(&["task", "accept", "e", "t", "--as", "w"]);
    let show = ["task", "show", "e", "t"];
    assert!(world.ok(&show).stdout.contains("w has reported nothing since it accepted"));
    world.ok(&["task", "progress", "e", "t", "10", "--as", "w", "--left", "5m"]);
    assert!(world.ok(&show).stdout.contains("w last reported at 20"));
    let listed = world.ok(&["task", "list", "e"]).stdout;
    assert!(listed.contains("<b>bold</b>") && !listed.contains('\u{1b}'), "{listed}");
    assert_eq!(world.call(&["task", "show", "e", "u", "--json"]).expect(1).json()["code"], "no-such-item");
    let set = ["quota", "set", "e", "api", "--amount", "10", "--per", "10m", "--as", "a", "--share"];
    world.call(&[&set[..], &["w=8,v=3"]].concat()).expect(2);
    let unshared = world.ok(&set[..set.len() - 1]).stderr;
    assert!(unshared.contains("nobody can draw from it yet"), "{unshared}");
    world.ok(&[&set[..], &["w=7,v=3"]].concat());
    world.ok(&["quota", "draw", "e", "api", "5", "--as", "w"]);
    let refused = world.call(&["quota", "draw", "e", "api", "5", "--as", "w", "--json"]).expect(3).json();
    assert!(refused["code"] == "exhausted" && refused["retry_in_ms"].as_u64().is_some(), "{refused}");
    world.call(&["quota", "draw", "e", "api", "1", "--as", "z"]).expect(3);
    world.call(&["quota", "draw", "e", "api", "0", "--as", "w"]).expect(2);
    world.ok(&["state", "put", "e", "plan", "step 1", "--expect", "0", "--as", "a"]);
    world.call(&["state", "put", "e", "plan", "step 2", "--expect", "0", "--as", "a"]).expect(1);
    assert_eq!(world.ok(&["state", "get", "e", "plan"]).stdout.trim(), "step 1");
    world.ok(&["proposal", "make", "e", "otherwise", "--id", "p", "--as", "w"]);
    world.ok(&["proposal", "reject", "e", "p", "--reason", "no", "--as", "a"]);
    world.call(&["proposal", "accept", "e", "p", "--as", "a"]).expect(1);
    world.ok(&["doctor"]);
}

#[test]
fn what_a_worker_tells_twice_is_so_already() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    for id in ["good", "bad"] {
        world.ok(&["task", "add", "e", id, "--id", id, "--as", "a"]);
        world.ok(&["task", "assign", "e", id, "--to", "w", "--as", "a"]);
        world.ok(&["task", "accept", "e", id, "--as", "w"]);
    }
    let done = ["task", "complete", "e", "good", "--result", "4f2c", "--as", "w"];
    assert_eq!(world.json(&done), world.json(&done));
    assert!(world.ok(&done).stdout.contains("w has told so already; task good is done"));
    let failed = ["task", "fail", "e", "bad", "--reason", "no", "--as", "w"];
    assert_eq!(world.json(&failed), world.json(&failed));
    // What was not told stays untold.
    let other = ["task", "complete", "e", "good", "--result", "another", "--as", "w", "--json"];
    assert_eq!(world.call(&other).expect(1).json()["code"], "out-of-turn");
    for other in [["complete", "bad", "w"], ["fail", "good", "w"], ["complete", "good", "v"]] {
        let [what, id, agent] = other;
        world.call(&["task", what, "e", id, "--as", agent]).expect(4);
    }
}

#[test]
fn what_a_worker_may_not_accept_is_told_once_and_to_the_worker() {
    let world = World::folder();
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "10m"]);
    world.ok(&["task", "add", "e", "old", "--id", "old", "--as", "a"]);
    world.ok(&["task", "assign", "e", "old", "--to", "w", "--as", "a"]);
    world.ok(&["release", "e", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "10m"]);
    world.ok(&["task", "add", "e", "new", "--id", "new", "--as", "b"]);
    world.ok(&["task", "assign", "e", "new", "--to", "w", "--as", "b"]);
    let stale = world.call(&["task", "accept", "e", "old", "--as", "w"]).expect(5).stderr;
    assert!(stale.contains("wait until the leader") && !stale.contains("campaign"), "{stale}");
    // The first look finds both, does one, and looks again.
    let worked = world.ok(&["task", "work", "e", "--as", "w", "--drain", "--", "true"]).stderr;
    assert!(worked.contains("task new done"), "{worked}");
    assert_eq!(worked.matches("not-accepted").count(), 1, "{worked}");
}

/// A hundred tasks that may not be accepted, since a former leader assigned them, come before one that may.
#[test]
fn what_a_worker_may_not_accept_does_not_hide_what_comes_after_it() {
    let world = World::folder();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let coordinator = baton::Coordinator::connect(&world.url()).await.unwrap();
        let election = "e".parse().unwrap();
        let tools = coordinator.toolbox(&election);
        let new = |key: String| baton::toolbox::NewTask {
            key: Some(key),
            title: "t".into(),
            size: 1,
            ..Default::default()
        };
        let assign = async |leader: &str, tasks: Vec<baton::toolbox::NewTask>| {
            let bid =
                baton::Bid { ttl: Some("10m".parse().unwrap()), ..baton::Bid::new(leader.parse().unwrap()) };
            let lead = coordinator.campaign(&election, baton::Campaign::new(bid)).await.unwrap();
            let mandate = baton::Mandate { token: lead.token(), credential: lead.credential() };
            for added in tools.add(Some(mandate), None, &tasks).await.unwrap() {
                tools.assign(&added.id, mandate, Some("w".parse().unwrap())).await.unwrap();
            }
            lead
        };
        let former = assign("a", (0..150).map(|n| new(format!("{n}"))).collect()).await;
        former.release("done").await.unwrap();
        // Its names come in any order: some of these stand after all of those.
        assign("b", (0..20).map(|n| new(format!("later {n}"))).collect())
            .await
            .release("done")
            .await
            .unwrap();
    });
    let worked = world.ok(&["task", "work", "e", "--as", "w", "--drain", "--", "true"]).stderr;
    assert_eq!(worked.matches(" done").count(), 20, "{worked}");
    assert_eq!(worked.matches("not-accepted").count(), 150, "{worked}");
}
