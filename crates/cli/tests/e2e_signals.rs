//! SIGTERM as a fault: in every state of `baton run` and `baton peer` it ends the process, and CMD never starts after it.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::support::peers::{Peers, STEADY};
use crate::support::server::Server;
use crate::support::{World, exit_code, processes, until};

/// Notes each start, and each request to end, which it does not follow.
const CMD: &str = r#"
trap 'echo "$BATON_TOKEN" >> "$E2E_WORLD/asked"' TERM
echo "$BATON_TOKEN" >> "$E2E_WORLD/starts-$BATON_AGENT"
while [ ! -e "$E2E_WORLD/end" ]; do sleep 0.05; done
exit 7
"#;

/// A grace in which a busy machine gets to send the signal.
const LEASE: [&str; 4] = ["--ttl", "30s", "--grace", "9s"];

struct Run<'a> {
    world: &'a World,
    agent: &'static str,
    child: Child,
}

impl<'a> Run<'a> {
    fn start(world: &'a World, agent: &'static str, options: &[&str]) -> Run<'a> {
        Run::launch(world, world.command(&[]), agent, options)
    }

    fn launch(world: &'a World, mut command: Command, agent: &'static str, options: &[&str]) -> Run<'a> {
        command.args(["run", "e", "--as", agent]).args(LEASE).args(options).args(["--", "sh", "-c", CMD]);
        let talk = File::create(world.file(&format!("{agent}.err"))).unwrap();
        let child = command.stdout(Stdio::null()).stderr(talk).spawn().unwrap();
        Run { world, agent, child }
    }

    fn says(&self, words: &str) {
        let said = || fs::read_to_string(self.world.file(&format!("{}.err", self.agent))).unwrap();
        until(&format!("{} says `{words}`", self.agent), || said().contains(words));
    }

    /// Waits until its CMD runs.
    fn leads(&self) {
        self.world.read_soon(&format!("starts-{}", self.agent));
    }

    fn starts(&self) -> usize {
        let text = fs::read_to_string(self.world.file(&format!("starts-{}", self.agent)));
        text.unwrap_or_default().lines().count()
    }

    /// Sends SIGTERM once, and fails unless the process ends, without another start of CMD. Gives the exit code.
    fn ends_when_asked(&mut self, starts: usize) -> Option<i32> {
        processes::signal(self.child.id(), Signal::TERM);
        let code = exit_code(&mut self.child);
        assert_eq!(self.starts(), starts, "CMD was started after the signal");
        let left = processes::of_commands(self.world.mark());
        assert!(left.is_empty(), "{left:?}");
        code
    }
}

#[test]
fn a_run_that_waits_ends() {
    let world = World::new();
    world.ok(&["acquire", "e", "--as", "other", "--ttl", "10m"]);
    let mut run = Run::start(&world, "a", &[]);
    run.says("waits to lead");
    assert_eq!(run.ends_when_asked(0), Some(143));
}

#[test]
fn a_run_that_leads_ends_after_the_grace_and_frees_the_election() {
    let world = World::new();
    let mut run = Run::start(&world, "a", &[]);
    run.leads();
    assert_eq!(run.ends_when_asked(1), Some(137), "CMD's own end");
    assert_eq!(world.status("e")["state"], "vacant");
}

#[test]
fn a_run_whose_cmd_is_being_ended_for_a_loss_ends_and_does_not_run_it_again() {
    let world = World::new();
    world.ok(&["init"]);
    let mut run = Run::start(&world, "a", &[]);
    run.leads();
    world.ok(&["depose", "e"]);
    world.read_soon("asked");
    assert_eq!(run.ends_when_asked(1), Some(143));
    run.says("asked to stop");
}

#[test]
fn with_once_a_loss_is_told_as_a_loss_although_a_signal_came_too() {
    let world = World::new();
    world.ok(&["init"]);
    let mut run = Run::start(&world, "a", &["--once"]);
    run.leads();
    world.ok(&["depose", "e"]);
    world.read_soon("asked");
    assert_eq!(run.ends_when_asked(1), Some(4));
}

#[test]
fn a_run_whose_cmd_goes_on_read_only_ends() {
    let world = World::folder();
    let (store, door) = (world.store(), world.file("door"));
    fs::create_dir(&store).unwrap();
    symlink(&store, &door).unwrap();
    let mut command = world.command(&[]);
    command.env("BATON_STORE", format!("file:{}", door.display()));
    let mut run = Run::launch(&world, command, "a", &["--on-outage", "read-only"]);
    run.leads();
    // A name that leads to itself cannot be opened.
    symlink(&door, world.file("shut")).unwrap();
    fs::rename(world.file("shut"), &door).unwrap();
    run.says("CMD goes on read-only");
    assert_eq!(run.ends_when_asked(1), Some(137), "CMD's own end");
}

/// The validator neither answers nor obeys. Nothing is waited for but the grace, once for CMD and once for the validator.
#[test]
fn a_run_whose_validator_is_at_work_ends() {
    let world = World::new();
    let validate = r#"trap '' TERM; echo > "$E2E_WORLD/validating"; while :; do sleep 1; done"#;
    for end in [false, true] {
        let _ = fs::remove_file(world.file("validating"));
        let agent = if end { "b" } else { "a" };
        let mut run = Run::start(&world, agent, &["--validate", validate]);
        run.leads();
        let checkpoint = processes::of_commands(world.mark()).iter().find_map(|process| {
            let environment = fs::read(format!("/proc/{}/environ", process.pid)).ok()?;
            let text = String::from_utf8_lossy(&environment).into_owned();
            text.split('\0')
                .find_map(|entry| entry.strip_prefix("BATON_CHECKPOINT_FILE=").map(str::to_string))
        });
        fs::write(checkpoint.unwrap(), "x").unwrap();
        world.read_soon("validating");
        if end {
            // CMD ends, and the judgement goes on.
            fs::write(world.file("end"), "").unwrap();
            until("only the validator is left", || {
                let left = processes::of_commands(world.mark());
                !left.is_empty() && left.iter().all(|process| is_below_keeper(process.pid))
            });
        }
        assert!(run.ends_when_asked(1).is_some());
        run.says("the checkpoint is not published");
        assert_eq!(world.status("e")["state"], "vacant");
    }
}

/// Whether a process is the keeper of a validator, or descends from one.
fn is_below_keeper(pid: u32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    if line.split(|byte| *byte == 0).nth(1) == Some(b"__validate") {
        return true;
    }
    processes::parent(pid).is_some_and(|parent| parent > 1 && is_below_keeper(parent))
}

#[test]
fn a_run_that_cannot_release_ends_all_the_same() {
    let place = World::folder();
    let server = Server::start(&place.file("baton.redb"));
    let world = World::on(&server.url());
    let mut run = Run::start(&world, "a", &[]);
    run.leads();
    processes::signal(server.pid(), Signal::STOP);
    fs::write(world.file("end"), "").unwrap();
    until("nothing of CMD is left", || processes::of_commands(world.mark()).is_empty());
    assert_eq!(run.ends_when_asked(1), Some(7), "CMD's own end");
    processes::signal(server.pid(), Signal::CONT);
}

/// A member of a pair under Bully, where the second outranks the first.
fn member(world: &World, peers: &Peers<'_>, id: u16) -> Child {
    let log = File::create(world.file(&format!("log-{id}"))).unwrap();
    let mut command = peers.command(id, &["sh", "-c", CMD]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

fn starts_of_peer(world: &World, id: u16) -> usize {
    fs::read_to_string(world.file(&format!("starts-peer-{id}"))).unwrap_or_default().lines().count()
}

#[test]
fn a_peer_ends_whether_it_waits_or_leads_or_its_cmd_is_being_ended_for_a_loss() {
    let world = World::folder();
    let mut peers = Peers::new(&world, "bully", 2);
    peers.rhythm = STEADY;
    let mut first = member(&world, &peers, 1);
    world.read_soon("starts-peer-1");
    let mut second = member(&world, &peers, 2);
    // The second outranks it.
    world.read_soon("asked");
    processes::signal(first.id(), Signal::TERM);
    assert_eq!(exit_code(&mut first), Some(143), "{}", peers.logs());
    assert_eq!(starts_of_peer(&world, 1), 1, "CMD was started after the signal; {}", peers.logs());
    world.read_soon("starts-peer-2");
    let mut third = member(&world, &peers, 1);
    until("the first is back, and waits", || peers.log(1).contains("member 2 leads"));
    processes::signal(third.id(), Signal::TERM);
    assert_eq!(exit_code(&mut third), Some(143), "{}", peers.logs());
    processes::signal(second.id(), Signal::TERM);
    assert_eq!(exit_code(&mut second), Some(137), "CMD's own end; {}", peers.logs());
    assert_eq!((starts_of_peer(&world, 1), starts_of_peer(&world, 2)), (1, 1), "{}", peers.logs());
    assert!(processes::of_commands(world.mark()).is_empty());
}
