//! `baton demo` from its first line to the last, and cut short in every way: nothing is left behind.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A generous bound on a hang.
const BOUND: Duration = Duration::from_secs(180);
/// Leases that outlast the pauses of a busy machine.
const TTL: &str = "12s";

/// A running demo, and a place with nothing of the user's in it.
struct Demo {
    root: TempDir,
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
}

impl Demo {
    fn start(arguments: &[&str]) -> Demo {
        // Named by a short path, so that the demo takes place below it.
        let root = tempfile::Builder::new().prefix("d").rand_bytes(6).tempdir_in("/tmp").unwrap();
        for folder in ["t", "home", "runtime"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command.args(["demo", "--ttl", TTL]).args(arguments);
        for name in ["BATON_STATE_DIR", "BATON_CONFIG_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command
            .env("E2E_DEMO", root.path())
            .env("TMPDIR", root.path().join("t"))
            .env("HOME", root.path().join("home"))
            .env("XDG_RUNTIME_DIR", root.path().join("runtime"))
            // Of a surrounding `baton run`, which must not mix in.
            .env("BATON_STORE", "file:/nowhere")
            .env("BATON_AGENT", "somebody-else")
            .current_dir(root.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().map(BufReader::new);
        Demo { root, child, stdout }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// One that has come to these words, and the line that they are in.
    fn until(arguments: &[&str], words: &str) -> (Demo, String) {
        let mut demo = Demo::start(arguments);
        match demo.read_until(words) {
            Ok(line) => (demo, line),
            Err(seen) => panic!("the demo ends without `{words}`:\n{seen}{}", demo.complaints()),
        }
    }

    /// Reads lines until one has these words; returns it, or everything if none has.
    fn read_until(&mut self, words: &str) -> Result<String, String> {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            let read = self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
            if read == 0 {
                return Err(seen);
            }
            if line.contains(words) {
                return Ok(line);
            }
            seen.push_str(&line);
        }
    }

    fn complaints(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            stderr.read_to_string(&mut text).unwrap();
        }
        text
    }

    /// Waits for the end; returns the exit code and the rest of what was printed.
    fn end(&mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        if let Some(stdout) = &mut self.stdout {
            stdout.read_to_string(&mut rest).unwrap();
        }
        let give_up_at = Instant::now() + BOUND;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), rest);
            }
            assert!(Instant::now() < give_up_at, "the demo does not end");
            std::thread::yield_now();
        }
    }

    /// The processes that the demo started, and the demo.
    fn processes(&self) -> Vec<(i32, String)> {
        let mark = format!("E2E_DEMO={}\0", self.root.path().display());
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let marked = entries.filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let command = fs::read(entry.path().join("cmdline")).ok()?;
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            environment.windows(mark.len()).any(|part| part == mark.as_bytes()).then_some((pid, command))
        });
        marked.collect()
    }

    fn files(&self) -> Vec<PathBuf> {
        let folders = ["t", "home", "runtime"].map(|name| self.root.path().join(name));
        folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap().flatten()).map(|e| e.path()).collect()
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.processes(), [], "processes are left");
        assert_eq!(self.files(), Vec::<PathBuf>::new(), "files are left");
    }
}

impl Drop for Demo {
    /// A test that failed leaves nothing either.
    fn drop(&mut self) {
        for (pid, _) in self.processes() {
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

#[test]
fn all_acts_are_played_and_the_verdict_is_good() {
    let mut demo = Demo::start(&[]);
    let (code, text) = demo.end();
    let complaints = demo.complaints();
    demo.assert_nothing_left();
    assert_eq!(code, Some(0), "{text}{complaints}");
    let mut rest = text.as_str();
    let in_order = [
        "1. Three agents stand, one leads",
        "leads with token 1",
        "2. The leader is killed",
        "kill -9",
        "dies with its warden",
        "past the end of that lease",
        "3. The leader falls asleep, and wakes up too late",
        "refused the write of agent-",
        "is stale (current token ",
        "4. The leader is asked to go, and hands over",
        "inherits from agent-",
        "has acknowledged it and goes on with step ",
        "5. An operator deposes the leader",
        "that leadership ended (depose)",
        "The leaders, and why each leadership ended",
        "What the fence of main-branch accepted",
        "guarded writes, ",
        "stale writes refused, never two at once",
    ];
    for words in in_order {
        let at = rest.find(words).unwrap_or_else(|| panic!("`{words}` is missing in its place:\n{text}"));
        rest = &rest[at + words.len()..];
    }
    assert!(!text.contains('\x1b'), "plain lines in a pipe");
}

#[test]
fn an_interrupt_while_an_agent_is_stopped_leaves_nothing() {
    let (mut demo, line) = Demo::until(&["--json"], r#""event":"stopped""#);
    let stopped: Value = serde_json::from_str(&line).unwrap();
    assert!(stopped["agent"].as_str().unwrap().starts_with("agent-"), "{stopped}");
    demo.signal(Signal::INT);
    let (code, rest) = demo.end();
    assert_eq!(code, Some(130), "{rest}");
    assert!(rest.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{rest}");
    demo.assert_nothing_left();
}

#[test]
fn a_termination_at_the_first_line_leaves_nothing() {
    let (mut demo, _) = Demo::until(&[], "baton demo");
    demo.signal(Signal::TERM);
    assert_eq!(demo.end().0, Some(143));
    demo.assert_nothing_left();
}

#[test]
fn a_reader_that_leaves_ends_the_demo_in_peace() {
    let (mut demo, _) = Demo::until(&[], "2. The leader is killed");
    demo.stdout = None;
    assert_eq!(demo.end().0, Some(0), "{}", demo.complaints());
    demo.assert_nothing_left();
}

#[test]
fn an_agent_that_falls_fails_the_demo_and_leaves_nothing() {
    let (mut demo, line) = Demo::until(&[], "leads with token 1");
    // Somebody who waits: the leader is about to be killed by the demo itself.
    let waits = line.split("; ").nth(1).unwrap().split(' ').next().unwrap().to_string();
    let command = format!("run refactor-auth --json --ttl {TTL} --as {waits} ");
    let runs: Vec<_> = demo.processes().into_iter().filter(|(_, line)| line.contains(&command)).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    kill_process(Pid::from_raw(runs[0].0).unwrap(), Signal::KILL).unwrap();
    let (code, text) = demo.end();
    let complaints = demo.complaints();
    assert_eq!(code, Some(1), "{text}{complaints}");
    assert!(complaints.contains(&format!("the `baton run` of {waits} ended by itself")), "{complaints}");
    demo.assert_nothing_left();
}

#[test]
fn a_demo_that_is_killed_takes_its_agents_along_and_the_doctor_tidies_up() {
    let (mut demo, _) = Demo::until(&[], "leads with token 1");
    demo.signal(Signal::KILL);
    assert_eq!(demo.end().0, None);
    let give_up_at = Instant::now() + BOUND;
    while !demo.processes().is_empty() {
        assert!(Instant::now() < give_up_at, "still there: {:?}", demo.processes());
        std::thread::yield_now();
    }
    assert_eq!(demo.files().len(), 1, "{:?}", demo.files());
    let doctor = Command::new(env!("CARGO_BIN_EXE_baton"))
        .args(["doctor", "--fix", "--store", "file:t/none"])
        .env("TMPDIR", demo.root.path().join("t"))
        .env("HOME", demo.root.path().join("home"))
        .env("XDG_RUNTIME_DIR", demo.root.path().join("runtime"))
        .current_dir(demo.root.path())
        .output()
        .unwrap();
    assert!(doctor.status.success(), "{}", String::from_utf8_lossy(&doctor.stdout));
    demo.assert_nothing_left();
}
