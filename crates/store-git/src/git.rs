//! Running the `git` command: never interactive, never longer than a bound, always the same surroundings.
//!
//! Baton may run inside a hook, whose variables point git at another repository or index, and beside a user whose
//! configuration signs, prunes, collects garbage and runs hooks. None of that reaches these processes; credentials,
//! proxies and ssh settings do.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::time::timeout;

/// The longest that a git process may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How long the pipes of a finished process are waited for: a child that it left behind may hold them open.
const DRAIN: Duration = Duration::from_millis(500);
/// How long a process that is told to end may take to clean up.
const GRACE: Duration = Duration::from_secs(2);
/// The commands that hold the lock file of a ref, here or at a remote on this machine.
const MOVES_REFS: [&str; 2] = ["update-ref", "push"];
/// The most that is taken from a pipe. More is an error: half a list is not a list.
const MAX_OUTPUT_BYTES: u64 = 8 * 1024 * 1024;
/// The largest file that a fetch may write, in bytes: git has no bound of its own for what a remote sends.
const MAX_FETCHED_BYTES: u64 = 64 * 1024 * 1024;

/// Variables of git that the user means, and that no hook sets. All others whose names begin with `GIT_` are dropped.
const KEPT: [&str; 15] = [
    "GIT_ALLOW_PROTOCOL",
    "GIT_ASKPASS",
    "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_KEY_",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_VALUE_",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_EXEC_PATH",
    "GIT_HTTP_",
    "GIT_PROXY_",
    "GIT_SSH",
    "GIT_SSL_",
];

/// What is set whatever the user's configuration says.
const SETTINGS: [&str; 15] = [
    "color.ui=false",
    // A user's hooks are about the user's branches.
    "core.hooksPath=/dev/null",
    // A log of every renewal would grow for ever, and keep every replaced tip.
    "core.logAllRefUpdates=false",
    "credential.interactive=false",
    // A remote may send anything.
    "fetch.fsckObjects=true",
    "fetch.writeCommitGraph=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "pack.threads=1",
    "push.gpgSign=false",
    "push.negotiate=false",
    // An empty value clears the list.
    "push.pushOption=",
    "push.recurseSubmodules=no",
    "submodule.recurse=false",
    "transfer.fsckObjects=true",
];

/// How git is run for one store.
#[derive(Clone, Debug)]
pub(crate) struct Git {
    dir: PathBuf,
    ssh: Option<String>,
    settings: Vec<String>,
    limit: Duration,
    fetched: u64,
}

/// What a process that ended has said.
#[derive(Debug)]
pub(crate) struct Output {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    /// Its answer.
    pub(crate) stdout: Vec<u8>,
    /// Its talk.
    pub(crate) stderr: String,
}

impl Output {
    /// Whether it did what it was asked.
    pub(crate) fn ok(&self) -> bool {
        self.code == Some(0)
    }

    /// Its answer as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Why a process did not end by itself.
#[derive(Debug)]
pub(crate) enum GitFailure {
    /// There is no git here.
    Missing,
    /// It could not be started or talked to.
    Broken(io::Error),
    /// It took too long, and was killed.
    Silent(Duration),
}

impl Git {
    /// Git as it is run in a folder.
    pub(crate) fn at(dir: &Path) -> Git {
        Git {
            dir: dir.to_path_buf(),
            ssh: None,
            settings: Vec::new(),
            limit: LIMIT,
            fetched: MAX_FETCHED_BYTES,
        }
    }

    /// With one more setting.
    pub(crate) fn with(mut self, setting: String) -> Git {
        self.settings.push(setting);
        self
    }

    /// With an ssh that asks nothing, for users who have no ssh command of their own.
    pub(crate) fn with_silent_ssh(mut self) -> Git {
        self.ssh = Some("ssh -oBatchMode=yes -oConnectTimeout=15".to_string());
        self
    }

    /// With another bound on every process.
    pub(crate) fn limited_to(mut self, limit: Duration) -> Git {
        self.limit = limit;
        self
    }

    /// The bound on every process.
    pub(crate) fn limit(&self) -> Duration {
        self.limit
    }

    /// Runs one command to its end.
    pub(crate) async fn run(&self, arguments: &[&str], input: &[u8]) -> Result<Output, GitFailure> {
        let mut running = self.start(arguments)?;
        let ended = timeout(self.limit, running.finish(input)).await;
        match ended {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(error)) => Err(GitFailure::Broken(error)),
            Err(_) => {
                running.end().await;
                Err(GitFailure::Silent(self.limit))
            }
        }
    }

    /// Starts a command whose pipes the caller uses.
    pub(crate) fn start(&self, arguments: &[&str]) -> Result<GitProcess, GitFailure> {
        let spawned = tokio::process::Command::from(self.command(arguments)).spawn();
        let moves_refs = arguments.first().is_some_and(|first| MOVES_REFS.contains(first));
        spawned.map(|child| GitProcess { child, moves_refs }).map_err(|error| self.not_started(error))
    }

    /// Runs one command to its end while this thread waits: for what asks nothing of a network.
    pub(crate) fn run_now(&self, arguments: &[&str]) -> Result<Output, GitFailure> {
        let child = self.command(arguments).stdin(Stdio::null()).spawn();
        let child = child.map_err(|error| self.not_started(error))?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (done, ended) = mpsc::channel();
        let waiter = std::thread::spawn(move || done.send(child.wait_with_output()));
        let output = ended.recv_timeout(self.limit);
        if output.is_err() {
            // The process has not been waited for, so the id is still its own. It only reads.
            let _gone_already = group.map(|group| kill_process_group(group, Signal::KILL));
        }
        let _ = waiter.join();
        match output {
            Err(_) => Err(GitFailure::Silent(self.limit)),
            Ok(Err(error)) => Err(GitFailure::Broken(error)),
            Ok(Ok(output)) => Ok(Output {
                code: output.status.code(),
                stdout: output.stdout,
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            }),
        }
    }

    fn not_started(&self, error: io::Error) -> GitFailure {
        // A folder that is not there is told by the same error.
        if error.kind() == io::ErrorKind::NotFound && self.dir.is_dir() {
            GitFailure::Missing
        } else {
            GitFailure::Broken(error)
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command =
            if arguments.contains(&"fetch") { bounded_git(self.fetched) } else { Command::new("git") };
        command.current_dir(&self.dir);
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_dropped(name)) {
            command.env_remove(name);
        }
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GCM_INTERACTIVE", "never")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("LC_ALL", "C");
        if let Some(ssh) = &self.ssh {
            command.env("GIT_SSH_COMMAND", ssh);
        }
        for setting in SETTINGS.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.arg("-c").arg(setting);
        }
        command.args(arguments);
        // A group of its own: a Ctrl-C for Baton does not end a push half-way, and a kill reaches git's own children.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A git that cannot write a larger file, nor can its children. The shell sets the bound and becomes git.
fn bounded_git(bytes: u64) -> Command {
    let mut command = Command::new("sh");
    // In blocks of 512 bytes.
    command.args(["-c", r#"ulimit -f "$0" && exec git "$@""#, &bytes.div_ceil(512).to_string()]);
    command
}

fn is_dropped(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    name.starts_with("GIT_") && !KEPT.iter().any(|kept| name.starts_with(kept))
}

/// A git process. It and its children are told to end with this value.
pub(crate) struct GitProcess {
    pub(crate) child: Child,
    /// It may hold the lock file of a ref.
    moves_refs: bool,
}

impl GitProcess {
    async fn finish(&mut self, input: &[u8]) -> io::Result<Output> {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (stdin, answer, talk) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let status = {
            let pumps = async {
                tokio::join!(feed(stdin, input), drain(answer, &mut stdout), drain(talk, &mut stderr));
            };
            tokio::pin!(pumps);
            let mut pumped = false;
            let status = loop {
                tokio::select! {
                    status = self.child.wait() => break status?,
                    () = &mut pumps, if !pumped => pumped = true,
                }
            };
            if !pumped {
                let _held_open = timeout(DRAIN, &mut pumps).await;
            }
            status
        };
        if stdout.len() as u64 > MAX_OUTPUT_BYTES {
            return Err(io::Error::other(format!("git's answer has more than {MAX_OUTPUT_BYTES} bytes")));
        }
        Ok(Output { code: status.code(), stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
    }
}

impl GitProcess {
    /// Ends it: gently, so that it takes its lock files away, and then in any case. One that moves refs is never killed outright: it would leave its
    /// lock behind, and nobody could change the ref any more. It ends by itself as soon as the disk lets it.
    async fn end(&mut self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
        if timeout(GRACE, self.child.wait()).await.is_err() && !self.moves_refs {
            self.signal(Signal::KILL);
            let _ = self.child.wait().await;
        }
    }

    fn signal(&self, signal: Signal) {
        // The id is there until the process has been waited for; later it may be another's.
        let id = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = id {
            let _gone_already = kill_process_group(group, signal);
        }
    }
}

impl Drop for GitProcess {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }
}

async fn feed(pipe: Option<tokio::process::ChildStdin>, input: &[u8]) {
    let Some(mut pipe) = pipe else { return };
    // Whoever stops listening says why in its own words.
    let _ = pipe.write_all(input).await;
    let _ = pipe.shutdown().await;
}

async fn drain(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(pipe) = pipe else { return };
    let mut pipe = pipe.take(MAX_OUTPUT_BYTES + 1);
    while let Ok(1..) = pipe.read_buf(into).await {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hook_sets_is_dropped_and_what_a_user_sets_is_kept() {
        for name in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_QUARANTINE_PATH", "GIT_TRACE"] {
            assert!(is_dropped(OsStr::new(name)), "{name}");
        }
        for name in ["GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_CONFIG_KEY_0", "GIT_SSL_CAINFO", "PATH", "HOME"] {
            assert!(!is_dropped(OsStr::new(name)), "{name}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_process_that_takes_too_long_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::at(folder.path()).limited_to(Duration::from_millis(50));
        let git = git.with("alias.wait=!sleep 60 & sleep 60".to_string());
        assert!(matches!(git.run(&["wait"], b"").await, Err(GitFailure::Silent(_))));
    }

    /// Here git is a script that cannot be asked to end, as one that waits for a disk.
    #[tokio::test(flavor = "current_thread")]
    async fn a_process_that_moves_refs_is_asked_to_end_and_never_killed() {
        let folder = tempfile::tempdir().unwrap();
        let pid = |name: &str| -> Option<Pid> {
            let text = std::fs::read_to_string(folder.path().join(name)).ok()?;
            Pid::from_raw(text.trim().parse().ok()?)
        };
        for (name, moves_refs) in [("reads", false), ("moves", true)] {
            let script = format!("trap '' TERM; echo $$ > {name}; while :; do sleep 0.05; done");
            let mut command = Command::new("sh");
            command.args(["-c", &script]).current_dir(folder.path()).process_group(0);
            let child = tokio::process::Command::from(command).spawn().unwrap();
            let mut running = GitProcess { child, moves_refs };
            while pid(name).is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            running.end().await;
            let lives = rustix::process::test_kill_process(pid(name).unwrap()).is_ok();
            assert_eq!(lives, moves_refs, "{name}");
            if lives {
                let _ = kill_process_group(pid(name).unwrap(), Signal::KILL);
            }
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_child_left_behind_with_the_pipes_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let git = Git::at(folder.path()).limited_to(Duration::from_secs(20));
        let git = git.with("alias.leave=!sleep 5 & echo done".to_string());
        let output = git.run(&["leave"], b"").await.unwrap();
        assert_eq!(output.text(), "done\n");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn an_answer_that_is_too_long_is_an_error_and_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let lines = |bytes: u64| format!("alias.say=!yes refs/baton/e | head -c {bytes}");
        let git = Git::at(folder.path()).with(lines(MAX_OUTPUT_BYTES));
        assert_eq!(git.run(&["say"], b"").await.unwrap().stdout.len() as u64, MAX_OUTPUT_BYTES);
        let git = Git::at(folder.path()).with(lines(MAX_OUTPUT_BYTES + 1));
        match git.run(&["say"], b"").await {
            Err(GitFailure::Broken(error)) => assert!(error.to_string().contains("more than"), "{error}"),
            other => panic!("{other:?}"),
        }
    }

    /// A repository whose branch `big` has one file of 4 MiB that cannot be compressed.
    async fn hostile_remote(folder: &Path) {
        let git = Git::at(folder);
        let run = async |arguments: &[&str], input: &[u8]| {
            let done = git.run(arguments, input).await.unwrap();
            assert!(done.ok(), "{arguments:?}: {}", done.stderr);
            done.text().trim().to_string()
        };
        run(&["init", "-q"], b"").await;
        let mut noise = vec![0; 4 << 20];
        getrandom::fill(&mut noise).unwrap();
        let blob = run(&["hash-object", "-w", "--stdin"], &noise).await;
        let tree = run(&["mktree"], format!("100644 blob {blob}\tbig\n").as_bytes()).await;
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
        let commit = run(&[&identity[..], &["commit-tree", &tree, "-m", "x"]].concat(), b"").await;
        run(&["update-ref", "refs/heads/big", &commit], b"").await;
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_fetch_writes_no_more_than_it_may() {
        let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        hostile_remote(theirs.path()).await;
        let mut git = Git::at(ours.path());
        assert!(git.run(&["init", "-q"], b"").await.unwrap().ok());
        let fetch = ["fetch", "-q", theirs.path().to_str().unwrap(), "refs/heads/big"];
        git.fetched = 1 << 20;
        let refused = git.run(&fetch, b"").await.unwrap();
        assert!(!refused.ok(), "it is cut off");
        assert!(!git.run(&["cat-file", "-e", "FETCH_HEAD"], b"").await.unwrap().ok(), "nothing was taken");
        git.fetched = MAX_FETCHED_BYTES;
        let done = git.run(&fetch, b"").await.unwrap();
        assert!(done.ok(), "{}", done.stderr);
        assert!(git.run(&["cat-file", "-e", "FETCH_HEAD"], b"").await.unwrap().ok());
    }

    /// A commit without an author, as no git writes one.
    #[tokio::test(flavor = "current_thread")]
    async fn a_malformed_object_is_not_fetched() {
        let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let remote = Git::at(theirs.path());
        assert!(remote.run(&["init", "-q"], b"").await.unwrap().ok());
        let tree = remote.run(&["mktree"], b"").await.unwrap().text();
        let commit = format!("tree {}\n\nx\n", tree.trim());
        let write = ["hash-object", "-t", "commit", "-w", "--stdin", "--literally"];
        let commit = remote.run(&write, commit.as_bytes()).await.unwrap();
        assert!(commit.ok(), "{}", commit.stderr);
        let name = commit.text().trim().to_string();
        std::fs::create_dir_all(theirs.path().join(".git/refs/heads")).unwrap();
        std::fs::write(theirs.path().join(".git/refs/heads/bad"), format!("{name}\n")).unwrap();
        let git = Git::at(ours.path());
        assert!(git.run(&["init", "-q"], b"").await.unwrap().ok());
        let fetch = ["fetch", "-q", theirs.path().to_str().unwrap(), "refs/heads/bad"];
        let done = git.run(&fetch, b"").await.unwrap();
        assert!(!done.ok() && done.stderr.contains("fsck"), "{}", done.stderr);
    }
}
