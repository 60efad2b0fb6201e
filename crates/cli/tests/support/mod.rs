//! Drives the `baton` binary from outside: a world of temporary folders, calls with a bound on hangs, processes.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a helper of tests")]
#![allow(clippy::print_stderr, reason = "what a failed test needs to be understood")]

pub(crate) mod book;
pub(crate) mod clocks;
pub(crate) mod cluster;
pub(crate) mod faults;
pub(crate) mod fleet;
pub(crate) mod issuers;
pub(crate) mod journal;
pub(crate) mod nets;
pub(crate) mod peers;
pub(crate) mod processes;
pub(crate) mod random;
pub(crate) mod receiver;
pub(crate) mod screen;
pub(crate) mod secure;
pub(crate) mod server;
pub(crate) mod server_group;
pub(crate) mod stubborn;
pub(crate) mod test_stores;
pub(crate) mod watcher;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A bound on a hang, not an expectation.
pub(crate) const HANG: Duration = Duration::from_secs(180);

/// The variable by which the processes of a world are told from all others.
pub(crate) const MARK: &str = "E2E_WORLD";

/// Whether the long runs were asked for.
pub(crate) fn campaign() -> bool {
    std::env::var_os("BATON_CAMPAIGN").is_some()
}

/// The command as it was built.
pub(crate) fn baton() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
    for (name, _) in std::env::vars_os() {
        let ours = name.to_str().is_some_and(|name| name.starts_with("BATON_") && name != "BATON_TEST_RUN");
        if ours || name == "NO_COLOR" {
            command.env_remove(name);
        }
    }
    // As if all calls came from one terminal, whatever the tests are run from.
    command.env("BATON_SESSION", "tests");
    command
}

/// A store and the private folders of a user. When it is dropped, all its processes are ended.
pub(crate) struct World {
    folder: TempDir,
    mark: String,
    /// The store, if it is not the folder of this world.
    elsewhere: Option<String>,
    /// The server of this world, if it has one.
    server: Option<server::Server>,
}

/// Where the servers of these tests keep the codes for their first operators, by their URLs.
pub(crate) fn codes() -> std::sync::MutexGuard<'static, std::collections::HashMap<String, PathBuf>> {
    static CODES: std::sync::LazyLock<std::sync::Mutex<std::collections::HashMap<String, PathBuf>>> =
        std::sync::LazyLock::new(Default::default);
    CODES.lock().unwrap()
}

impl World {
    pub(crate) fn new() -> World {
        World::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> World {
        let private = fs::Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix("e").permissions(private).tempdir_in(parent).unwrap();
        fs::create_dir(folder.path().join("r")).unwrap();
        fs::set_permissions(folder.path().join("r"), fs::Permissions::from_mode(0o700)).unwrap();
        let mark = folder.path().display().to_string();
        let server = server::of_world(&folder.path().join("server.redb"));
        let elsewhere = server.as_ref().map(server::Server::url);
        World { folder, mark, elsewhere, server }
    }

    /// A world whose store is a folder, whatever others have.
    pub(crate) fn folder() -> World {
        World::folder_below(&std::env::temp_dir())
    }

    pub(crate) fn folder_below(parent: &Path) -> World {
        let mut world = World::below(parent);
        (world.elsewhere, world.server) = (None, None);
        world
    }

    /// A world whose store is elsewhere.
    pub(crate) fn on(url: &str) -> World {
        let mut world = World::new();
        (world.elsewhere, world.server) = (Some(url.to_string()), None);
        world
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// What the processes of this world carry in their environment.
    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.file("store")
    }

    pub(crate) fn url(&self) -> String {
        self.elsewhere.clone().unwrap_or_else(|| format!("file:{}", self.store().display()))
    }

    /// A call of the command, not yet made.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = baton();
        // Whoever started the server can read its code.
        if let Some(file) = codes().get(&self.url()) {
            command.env("BATON_OPERATOR_CODE_FILE", file);
        }
        command
            .args(arguments)
            .current_dir(self.path())
            .env("BATON_STORE", self.url())
            .env("BATON_STATE_DIR", self.file("state"))
            .env("BATON_CONFIG_DIR", self.file("config"))
            .env("XDG_RUNTIME_DIR", self.file("r"))
            .env(MARK, &self.mark)
            .stdin(Stdio::null());
        command
    }

    /// A call of the command.
    pub(crate) fn call(&self, arguments: &[&str]) -> Done {
        finish(self.command(arguments), None)
    }

    /// A call of the command as another user would make it: with other private folders.
    pub(crate) fn call_elsewhere(&self, arguments: &[&str]) -> Done {
        let mut command = self.command(arguments);
        command.env("BATON_STATE_DIR", self.file("state-of-another"));
        command.env("BATON_CONFIG_DIR", self.file("config-of-another"));
        finish(command, None)
    }

    /// A call that must succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> Done {
        self.call(arguments).expect(0)
    }

    /// The one object that a call with `--json` prints.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.ok(&[arguments, &["--json"]].concat()).json()
    }

    pub(crate) fn status(&self, election: &str) -> Value {
        self.json(&["status", election])
    }

    /// The whole hash of the checkpoint that waits for approval.
    #[track_caller]
    pub(crate) fn waiting(&self, election: &str) -> String {
        let status = self.status(election);
        status["question"]["hash"].as_str().unwrap_or_else(|| panic!("nothing waits: {status}")).to_string()
    }

    /// A call at a terminal of its own: what it prints goes to `typescript`, what is written to the child is typed in. It exits as the call does.
    pub(crate) fn at_terminal(&self, arguments: &[&str], typescript: &str) -> Child {
        let call = self.command(arguments);
        let words = std::iter::once(call.get_program()).chain(call.get_args());
        let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
        let line: Vec<String> = words.map(|word| quoted(word.to_str().unwrap())).collect();
        let mut terminal = Command::new("script");
        terminal.args(["--quiet", "--return", "--flush", "--command", &line.join(" "), "/dev/null"]);
        for (name, value) in call.get_envs() {
            match value {
                Some(value) => terminal.env(name, value),
                None => terminal.env_remove(name),
            };
        }
        terminal.current_dir(self.path()).stdin(Stdio::piped());
        terminal.stdout(fs::File::create(self.file(typescript)).unwrap());
        terminal.spawn().unwrap()
    }

    /// The file, once it is there and not empty.
    pub(crate) fn read_soon(&self, name: &str) -> String {
        let path = self.file(name);
        let mut text = String::new();
        until(&format!("{} is written", path.display()), || {
            text = fs::read_to_string(&path).unwrap_or_default();
            !text.is_empty()
        });
        text
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Also where an assertion failed: nothing of this world stays. It ends before its folders go.
        for _ in 0..200 {
            let left = processes::of_world(&self.mark);
            if left.is_empty() {
                break;
            }
            for process in left {
                process.signal(rustix::process::Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    call: String,
}

impl Done {
    /// Fails unless it ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Done {
        assert_eq!(self.code, code, "{}\nstdout: {}\nstderr: {}", self.call, self.stdout, self.stderr);
        self
    }

    /// Its only line, as an object.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let all = self.jsons();
        assert_eq!(all.len(), 1, "{}\nstdout: {}\nstderr: {}", self.call, self.stdout, self.stderr);
        all.into_iter().next().unwrap()
    }

    /// Its lines, as objects.
    #[track_caller]
    pub(crate) fn jsons(&self) -> Vec<Value> {
        let parse = |line: &str| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", self.call))
        };
        self.stdout.lines().map(parse).collect()
    }
}

/// Makes a call, with a bound on a hang.
pub(crate) fn finish(mut command: Command, input: Option<&str>) -> Done {
    let call = format!("{command:?}");
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        // A call that refuses before it reads is not a failure of the test.
        let _ = pipe.write_all(input.as_bytes());
    }
    let pid = child.id();
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(HANG) else {
        processes::signal(pid, rustix::process::Signal::KILL);
        panic!("does not end: {call}");
    };
    let output = output.unwrap();
    Done {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        call,
    }
}

/// Waits for a process of the test to exit; gives its code, or none if a signal ended it.
pub(crate) fn exit_code(child: &mut Child) -> Option<i32> {
    let mut status = None;
    until("the process exits", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap().code()
}

/// Says loudly that a test cannot run here. CI skips nothing: there it fails.
#[track_caller]
pub(crate) fn skip(why: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "CI skips nothing: {why}");
    eprintln!("SKIPPED: {why}");
}

/// Waits for a condition, with a bound on a hang.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    assert!(happens(HANG, holds), "never happened: {what}");
}

/// Whether a condition comes true within a bound.
pub(crate) fn happens(bound: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if began.elapsed() >= bound {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The files below a folder with their contents, for comparing: what a reader must not change.
pub(crate) fn tree(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut found = std::collections::BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.insert(path.clone(), Vec::new());
                folders.push(path);
            } else {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}
