//! `baton run --on-outage`: the store does not answer, or run stands still. CMD ends before its lease, or goes on and knows
//! that it does not lead.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{World, exit_code, finish, processes, until};

/// Notes where its files are, and goes on until it is told to end.
const CMD: &str = r#"
trap 'exit 3' TERM
printf '%s\n' $$ "$BATON_MODE_FILE" "$BATON_TOKEN_FILE" "$BATON_KEY_FILE" "$BATON_CHECKPOINT_FILE" \
    > "$E2E_WORLD/$BATON_AGENT.new"
mv "$E2E_WORLD/$BATON_AGENT.new" "$E2E_WORLD/$BATON_AGENT.cmd"
while [ ! -e "$E2E_WORLD/end-$BATON_AGENT" ]; do sleep 0.05; done
exit 9
"#;

/// A grace that leaves a busy machine the time to tell CMD.
const LEASE: [&str; 4] = ["--ttl", "9s", "--grace", "3s"];
const READ_ONLY: [&str; 2] = ["--on-outage", "read-only"];
/// So many things that are wrong are told.
const ENOUGH: usize = 4;

/// A `baton run`.
struct Run<'a> {
    world: &'a World,
    agent: &'static str,
    child: Child,
}

/// A CMD that runs, and its files.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cmd {
    pid: u32,
    mode: PathBuf,
    token: PathBuf,
    key: PathBuf,
    checkpoint: PathBuf,
}

impl<'a> Run<'a> {
    fn start(world: &'a World, agent: &'static str, options: &[&str]) -> Run<'a> {
        Run::launch(world, world.command(&[]), agent, options)
    }

    /// One that comes to the store through the door.
    fn behind_the_door(world: &'a World, agent: &'static str, options: &[&str]) -> Run<'a> {
        let mut command = world.command(&[]);
        command.env("BATON_STORE", format!("file:{}", world.file("door").display()));
        Run::launch(world, command, agent, options)
    }

    fn launch(world: &'a World, mut command: Command, agent: &'static str, options: &[&str]) -> Run<'a> {
        command.args(["run", "e", "--as", agent]).args(LEASE).args(options).args(["--", "sh", "-c", CMD]);
        let talk = File::create(world.file(&format!("{agent}.err"))).unwrap();
        let child = command.stdout(Stdio::null()).stderr(talk).spawn().unwrap();
        Run { world, agent, child }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn said(&self) -> String {
        fs::read_to_string(self.world.file(&format!("{}.err", self.agent))).unwrap()
    }

    fn says(&self, words: &str) {
        until(&format!("{} says `{words}`", self.agent), || self.said().contains(words));
    }

    /// Its CMD, once it runs.
    fn cmd(&self) -> Cmd {
        Cmd::parse(&self.world.read_soon(&format!("{}.cmd", self.agent)))
    }

    fn end_cmd(&mut self) -> Option<i32> {
        fs::write(self.world.file(&format!("end-{}", self.agent)), "").unwrap();
        exit_code(&mut self.child)
    }

    fn signal(&mut self, kind: Signal) -> Option<i32> {
        processes::signal(self.pid(), kind);
        exit_code(&mut self.child)
    }
}

impl Cmd {
    fn parse(text: &str) -> Cmd {
        let lines: Vec<&str> = text.lines().collect();
        Cmd {
            pid: lines[0].parse().unwrap(),
            mode: lines[1].into(),
            token: lines[2].into(),
            key: lines[3].into(),
            checkpoint: lines[4].into(),
        }
    }

    fn mode(&self) -> String {
        fs::read_to_string(&self.mode).unwrap_or_default().trim().to_string()
    }

    fn token(&self) -> Option<u64> {
        fs::read_to_string(&self.token).unwrap_or_default().trim().parse().ok()
    }

    fn becomes_read_only(&self) {
        until("the mode is read-only, and token and key are taken away", || {
            let key = fs::read_to_string(&self.key).unwrap();
            self.mode() == "read-only" && self.token().is_none() && key.is_empty()
        });
    }

    /// Waits until it leads; gives the token.
    fn leads(&self) -> u64 {
        until("the mode is leading", || self.mode() == "leading");
        self.token().unwrap()
    }

    fn lives(&self) -> bool {
        let state = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }
}

/// A way to the store that can be shut for whoever uses it. It is never missing: that would be a store that was wiped.
fn make_door(world: &World) {
    fs::create_dir(world.store()).unwrap();
    open_door(world);
}

fn open_door(world: &World) {
    symlink(world.store(), world.file("door.new")).unwrap();
    fs::rename(world.file("door.new"), world.file("door")).unwrap();
}

/// A name that leads to itself cannot be opened.
fn shut_door(world: &World) {
    symlink(world.file("door"), world.file("door.new")).unwrap();
    fs::rename(world.file("door.new"), world.file("door")).unwrap();
}

/// Samples the files of two CMDs: never do both say that they lead, and who leads has a token.
struct Sampler {
    stop: Arc<AtomicBool>,
    samples: Arc<Mutex<Samples>>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Samples {
    /// How often each of the two was seen leading.
    leading: [u64; 2],
    wrong: Vec<String>,
}

impl Sampler {
    fn start(world: &World, agents: [&'static str; 2]) -> Sampler {
        let (stop, samples) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Samples::default())));
        let notes = agents.map(|agent| world.file(&format!("{agent}.cmd")));
        let (ended, shared) = (Arc::clone(&stop), Arc::clone(&samples));
        let thread = std::thread::spawn(move || {
            while !ended.load(Ordering::Acquire) {
                let cmds = notes.each_ref().map(|note| fs::read_to_string(note).ok());
                if let [Some(one), Some(other)] = &cmds {
                    shared.lock().unwrap().look(&[Cmd::parse(one), Cmd::parse(other)]);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Sampler { stop, samples, thread }
    }

    /// Once both were seen leading, one beside the other: fails if it was at the same time.
    fn finish(self) {
        until("both were seen leading", || {
            self.samples.lock().unwrap().leading.iter().all(|times| *times > 0)
        });
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap();
        let samples = self.samples.lock().unwrap();
        assert!(samples.wrong.is_empty(), "{:#?}", samples.wrong);
    }
}

impl Samples {
    fn look(&mut self, cmds: &[Cmd; 2]) {
        for (one, other) in [(0, 1), (1, 0)] {
            // The same file before and after: whatever was read in between was there at the same time.
            let before = stamp(&cmds[one].mode);
            let (beside, token) = (cmds[other].mode(), cmds[one].token());
            let after = stamp(&cmds[one].mode);
            let Some((_, mode)) = before.as_ref().filter(|before| Some(*before) == after.as_ref()) else {
                continue;
            };
            if mode != "leading\n" {
                continue;
            }
            self.leading[one] += 1;
            if (beside == "leading" || token.is_none()) && self.wrong.len() < ENOUGH {
                self.wrong.push(format!("{:?} leads with {token:?} beside `{beside}`", cmds[one]));
            }
        }
    }
}

/// What tells a file from the one that replaces it, and what is in it.
fn stamp(path: &Path) -> Option<((u64, i64, i64), String)> {
    let mut file = File::open(path).ok()?;
    let found = file.metadata().ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(((found.ino(), found.mtime(), found.mtime_nsec()), text))
}

#[test]
fn with_read_only_cmd_outlives_an_outage_and_leads_again_after_its_successor() {
    let world = World::new();
    make_door(&world);
    let mut first = Run::behind_the_door(&world, "first", &READ_ONLY);
    let cmd = first.cmd();
    assert_eq!(cmd.leads(), 1);
    let sampler = Sampler::start(&world, ["first", "second"]);
    let mut second = Run::start(&world, "second", &[]);
    second.says("waits to lead");
    shut_door(&world);
    cmd.becomes_read_only();
    first.says("CMD goes on read-only");
    let token = second.cmd().leads();
    assert!(token > 1);
    // What is left to do with the old token is refused where a fence is asked.
    world.call(&["fence", "db", "--election", "e", "--token", "1"]).expect(5);
    assert!(cmd.lives() && cmd.mode() == "read-only");
    open_door(&world);
    assert_eq!(second.signal(Signal::TERM), Some(3));
    let again = cmd.leads();
    assert!(again > token, "{again} after {token}");
    first.says(&format!("first leads e again with token {again}"));
    assert_eq!((first.cmd(), cmd.lives()), (cmd.clone(), true), "CMD was not started anew");
    assert_eq!(world.status("e")["leader"]["token"], again);
    // The key in the environment of CMD is of the past; that in the file is not.
    let mut check = world.command(&["check", "e", "--as", "first"]);
    check.env("BATON_KEY", fs::read_to_string(&cmd.key).unwrap().trim()).env("BATON_ELECTION", "e");
    check.env("BATON_AGENT", "first").env("BATON_TOKEN_FILE", &cmd.token);
    finish(check, None).expect(0);
    sampler.finish();
    assert_eq!(first.end_cmd(), Some(9));
    assert_eq!(world.status("e")["state"], "vacant");
}

#[test]
fn with_read_only_cmd_knows_that_it_does_not_lead_while_run_is_stopped() {
    let world = World::new();
    let mut first = Run::start(&world, "first", &READ_ONLY);
    let cmd = first.cmd();
    let sampler = Sampler::start(&world, ["first", "second"]);
    let mut second = Run::start(&world, "second", &[]);
    second.says("waits to lead");
    processes::signal(first.pid(), Signal::STOP);
    until("it is stopped", || processes::is_stopped(first.pid()));
    let token = second.cmd().leads();
    assert!(token > 1);
    assert!(processes::is_stopped(first.pid()) && cmd.lives());
    cmd.becomes_read_only();
    processes::signal(first.pid(), Signal::CONT);
    first.says("CMD goes on read-only");
    until("the second renews", || {
        world.status("e")["leader"]["renewals"].as_u64().is_some_and(|renewals| renewals >= 2)
    });
    assert_eq!(world.status("e")["leader"]["agent"], "second");
    assert_eq!((cmd.mode().as_str(), cmd.lives()), ("read-only", true));
    second.child.kill().unwrap();
    second.child.wait().unwrap();
    assert!(cmd.leads() > token);
    sampler.finish();
    assert_eq!(first.signal(Signal::TERM), Some(3));
}

#[test]
fn with_read_only_a_store_that_nobody_reaches_is_waited_for() {
    let world = World::new();
    make_door(&world);
    let mut run = Run::behind_the_door(&world, "first", &[&READ_ONLY[..], &["--json"]].concat());
    let cmd = run.cmd();
    // A file in its place, in one step: nobody can make a new store there.
    fs::write(world.file("nothing"), "").unwrap();
    fs::rename(world.file("nothing"), world.file("door")).unwrap();
    cmd.becomes_read_only();
    fs::write(&cmd.checkpoint, "of one who does not lead").unwrap();
    run.says("still waiting");
    assert!(cmd.lives());
    open_door(&world);
    assert_eq!(cmd.leads(), 2);
    fs::write(&cmd.checkpoint, "of the leader").unwrap();
    let published = || world.status("e")["checkpoint"].clone();
    until("it is published", || !published().is_null());
    assert_eq!((&published()["seq"], &published()["summary"]), (&json!(1), &json!("of the leader")));
    assert_eq!(run.end_cmd(), Some(9));
    let events = run.said();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told = |name: &str| events.iter().position(|event| event["event"] == name).unwrap();
    assert!(told("leading") < told("read-only") && told("read-only") < told("store"), "{events:#?}");
    assert_eq!(events[told("read-only")]["token"], 1);
    let leading: Vec<&Value> = events.iter().filter(|event| event["event"] == "leading").collect();
    assert_eq!((leading.len(), &leading[1]["token"]), (2, &json!(2)), "{events:#?}");
    assert_eq!(events.last().unwrap()["event"], "released");
}

#[test]
fn with_stop_cmd_ends_and_its_mode_is_leading_to_the_end() {
    let world = World::new();
    make_door(&world);
    for options in [&["--once"][..], &["--once", "--on-outage", "stop"]] {
        open_door(&world);
        let mut run = Run::behind_the_door(&world, "first", options);
        let cmd = run.cmd();
        assert_eq!(cmd.mode(), "leading");
        shut_door(&world);
        until("CMD ends", || {
            assert!(cmd.mode() == "leading" || !cmd.lives(), "it lives, and is `{}`", cmd.mode());
            !cmd.lives()
        });
        assert_eq!(exit_code(&mut run.child), Some(4));
        fs::remove_file(world.file("first.cmd")).unwrap();
    }
}

#[test]
fn whatever_else_ends_a_leadership_ends_cmd_also_with_read_only() {
    let world = World::new();
    world.ok(&["init"]);
    let once = [&READ_ONLY[..], &["--once"]].concat();
    let mut run = Run::start(&world, "deposed", &once);
    let cmd = run.cmd();
    world.ok(&["depose", "e"]);
    assert_eq!(exit_code(&mut run.child), Some(4));
    assert!(!cmd.lives());
    assert!(!run.said().contains("read-only"), "{}", run.said());
    let mut run = Run::start(&world, "spent", &[&once[..], &["--budget-renewals", "1"]].concat());
    let cmd = run.cmd();
    assert_eq!(exit_code(&mut run.child), Some(4));
    assert!(!cmd.lives());
    assert!(!run.said().contains("read-only"), "{}", run.said());
}

/// A run whose CMD has become read-only, since the door is shut.
fn cut_off<'a>(world: &'a World, options: &[&str]) -> (Run<'a>, Cmd) {
    make_door(world);
    let run = Run::behind_the_door(world, "first", &[&READ_ONLY[..], options].concat());
    let cmd = run.cmd();
    shut_door(world);
    cmd.becomes_read_only();
    (run, cmd)
}

#[test]
fn cmd_that_ends_read_only_passes_its_code_on_and_with_once_the_loss_is_told() {
    for (options, code) in [(&[][..], 9), (&["--once"][..], 4)] {
        let world = World::new();
        let (mut run, _) = cut_off(&world, options);
        assert_eq!(run.end_cmd(), Some(code), "{}", run.said());
        assert!(!run.said().contains("released"), "{}", run.said());
        assert_eq!(fs::read_dir(world.file("r/baton")).unwrap().count(), 0, "the folder of the run is gone");
    }
}

#[test]
fn a_signal_drains_cmd_that_is_read_only() {
    let world = World::new();
    let (mut run, cmd) = cut_off(&world, &[]);
    assert_eq!(run.signal(Signal::TERM), Some(3));
    assert!(!cmd.lives());
}

#[test]
fn the_death_of_run_or_warden_ends_cmd_that_is_read_only() {
    let world = World::new();
    let (mut run, cmd) = cut_off(&world, &[]);
    run.child.kill().unwrap();
    run.child.wait().unwrap();
    until("CMD dies with run", || !cmd.lives());
    let world = World::new();
    let (run, cmd) = cut_off(&world, &[]);
    processes::signal(processes::warden(run.pid()).unwrap(), Signal::KILL);
    until("CMD dies with the warden", || !cmd.lives());
    run.says("lost the leadership: the warden was killed or stopped");
    open_door(&world);
    until("another CMD is started", || run.cmd() != cmd && run.cmd().mode() == "leading");
}

#[test]
fn a_watcher_goes_on_with_what_it_knew_marked_stale() {
    let world = World::new();
    make_door(&world);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    let mut command = world.command(&["watch", "e", "--json", "--changes", "1"]);
    command.env("BATON_STORE", format!("file:{}", world.file("door").display()));
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let seen = |line: &Value| (line["leader"]["agent"].clone(), line["stale"].clone());
    assert_eq!(seen(&next()), (json!("a"), json!(false)));
    shut_door(&world);
    assert_eq!(seen(&next()), (json!("a"), json!(true)));
    open_door(&world);
    assert_eq!(seen(&next()), (json!("a"), json!(false)), "it says that it sees again");
    world.ok(&["release", "e", "--as", "a"]);
    assert_eq!(seen(&next()), (json!(null), json!(false)));
    assert_eq!(exit_code(&mut watch), Some(0), "one change: what could not be seen is none");
}

#[test]
fn what_a_watcher_knew_grows_old() {
    let world = World::new();
    make_door(&world);
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "12s"]);
    let mut command = world.command(&["watch", "e", "--json"]);
    command.env("BATON_STORE", format!("file:{}", world.file("door").display()));
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let seen = next();
    assert_eq!((&seen["stale"], &seen["stale_since"]), (&json!(false), &json!(null)));
    shut_door(&world);
    let left = |line: &Value| line["leader"]["remaining_ms"].as_u64().unwrap();
    let stale = next();
    assert_eq!(stale["stale"], true);
    assert!(
        stale["stale_since"].is_string() && stale["stale_since"].as_str() < stale["at"].as_str(),
        "{stale}"
    );
    assert!(left(&stale) < left(&seen), "{} is not less than {}", left(&stale), left(&seen));
    let over = if stale["state"] == "expired" { stale } else { next() };
    assert_eq!((&over["state"], &over["stale"], left(&over)), (&json!("expired"), &json!(true), 0));
    watch.kill().unwrap();
    watch.wait().unwrap();
}
