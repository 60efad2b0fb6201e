//! Working trees of git: what a commit has, and what lies beside it.
//!
//! Whoever wrote the repository's settings is not trusted. Assumes a `git` whose plumbing only reads. Guarantees that nothing which the repository names is run (no
//! filter, attribute, hook, watcher of files, program that shows differences, transport of missing objects), and that git is ended after [`MAX_TIME`]. Only lists and objects
//! are asked for; files are read and hashed by [`super::files`].

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use baton_election::{ContentHash, ContentHasher};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::files::{is_left_out, path_of, text_of_bytes};
use super::{MAX_BYTES, ManifestError};

/// The most that is read of a list.
const MAX_SAID: u64 = 64 << 20;
/// How long one git may take.
const MAX_TIME: Duration = Duration::from_secs(120);
/// The longest target of a link.
const MAX_LINK: u64 = 64 << 10;

/// What a commit has at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tracked {
    File {
        object: String,
        size: u64,
        program: bool,
    },
    Link {
        object: String,
        size: u64,
    },
    /// Another repository, by one of its commits: it is not looked into.
    Repository,
}

/// The commit of a folder that is the top of a working tree; none if it is not, or nothing was committed.
pub(super) fn commit_of(folder: &Path) -> Result<Option<String>, ManifestError> {
    if !folder.join(".git").exists() {
        return Ok(None);
    }
    let Ok(said) = ask(folder, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]) else {
        // Without a commit, or without git, it is a folder like any other.
        return Ok(None);
    };
    // A folder within another's working tree, whose own is broken, is none.
    if !ask(folder, &["rev-parse", "--show-prefix"])?.trim_ascii().is_empty() {
        return Ok(None);
    }
    let commit = String::from_utf8_lossy(&said).trim().to_string();
    Ok(is_object(&commit).then_some(commit))
}

/// What a commit has, by path.
pub(super) fn tree_of(folder: &Path, commit: &str) -> Result<BTreeMap<String, Tracked>, ManifestError> {
    if !is_object(commit) {
        return Err(failed(folder, "that is no commit"));
    }
    let said = ask(folder, &["ls-tree", "-r", "-l", "-z", "--full-tree", commit])?;
    let mut tree = BTreeMap::new();
    for line in said.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let (path, tracked) = entry(line).ok_or_else(|| failed(folder, "its list cannot be read"))?;
        if let Some(path) = counted(path) {
            tree.insert(path, tracked);
        }
    }
    Ok(tree)
}

/// `MODE TYPE OBJECT SIZE<tab>PATH`
fn entry(line: &[u8]) -> Option<(&[u8], Tracked)> {
    let tab = line.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(&line[..tab]).ok()?.split_ascii_whitespace();
    let (mode, _, object, size) = (words.next()?, words.next()?, words.next()?.to_string(), words.next()?);
    let size = || size.parse().ok();
    let tracked = match mode {
        "100755" => Tracked::File { object, size: size()?, program: true },
        "120000" => Tracked::Link { object, size: size()? },
        "160000" => Tracked::Repository,
        mode if mode.starts_with("100") => Tracked::File { object, size: size()?, program: false },
        _ => return None,
    };
    Some((&line[tab + 1..], tracked))
}

/// The paths in the index, and those that git neither tracks nor ignores.
pub(super) fn present(folder: &Path) -> Result<BTreeSet<String>, ManifestError> {
    // The settings may name another working tree than the folder that was asked about.
    let said =
        ask(folder, &["--work-tree=.", "ls-files", "--cached", "--others", "--exclude-standard", "-z"])?;
    Ok(said.split(|byte| *byte == 0).filter_map(counted).collect())
}

/// A path as text, unless it is left out.
fn counted(path: &[u8]) -> Option<String> {
    let text = text_of_bytes(path);
    let left_out = path_of(&text).components().any(|part| is_left_out(part.as_os_str()));
    (!text.is_empty() && !left_out).then_some(text)
}

fn is_object(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The objects of a repository, read one after another from one `git cat-file --batch`.
pub(super) struct Objects<'a> {
    folder: &'a Path,
    process: GitProcess,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    bytes: u64,
}

impl<'a> Objects<'a> {
    pub(super) fn open(folder: &'a Path) -> Result<Objects<'a>, ManifestError> {
        let mut command = git(folder, &["cat-file", "--batch"]);
        command.stdin(Stdio::piped());
        let mut process = GitProcess::start(command).map_err(|error| failed(folder, &error.to_string()))?;
        let piped = |_| failed(folder, "its pipes are gone");
        let stdin = process.child.stdin.take().ok_or(()).map_err(piped)?;
        let stdout = process.child.stdout.take().ok_or(()).map_err(piped)?;
        Ok(Objects { folder, process, stdin, stdout: BufReader::new(stdout), bytes: 0 })
    }

    /// The hash of what is in an object.
    pub(super) fn hash(&mut self, object: &str) -> Result<ContentHash, ManifestError> {
        let mut hasher = ContentHasher::default();
        self.read(object, |part| hasher.update(part))?;
        Ok(hasher.finish())
    }

    /// Where a link leads; none if that is too long for one.
    pub(super) fn link(&mut self, object: &str, size: u64) -> Result<Option<String>, ManifestError> {
        if size > MAX_LINK {
            return Ok(None);
        }
        let mut target = Vec::new();
        self.read(object, |part| target.extend_from_slice(part))?;
        Ok(Some(text_of_bytes(&target)))
    }

    fn read(&mut self, object: &str, take: impl FnMut(&[u8])) -> Result<(), ManifestError> {
        match self.try_read(object, take) {
            Ok(true) => Ok(()),
            Ok(false) => Err(ManifestError::TooMuch { path: self.folder.display().to_string() }),
            Err(error) => Err(failed(self.folder, &self.process.reason(&error))),
        }
    }

    /// Says whether the bound on bytes allowed it.
    fn try_read(&mut self, object: &str, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        let odd = |what: &str| io::Error::other(format!("`git cat-file` said {what:?}"));
        writeln!(self.stdin, "{object}")?;
        self.stdin.flush()?;
        let mut head = String::new();
        // An object's name, its type and a size.
        (&mut self.stdout).take(256).read_line(&mut head)?;
        let size = head.strip_prefix(object).and_then(|rest| rest.trim().strip_prefix("blob "));
        let mut left: u64 = size.and_then(|size| size.parse().ok()).ok_or_else(|| odd(&head))?;
        self.bytes = self.bytes.saturating_add(left);
        if self.bytes > MAX_BYTES {
            return Ok(false);
        }
        let mut part = vec![0; 64 * 1024];
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(part.len());
            self.stdout.read_exact(&mut part[..most])?;
            take(&part[..most]);
            left -= most as u64;
        }
        let mut end = [0];
        self.stdout.read_exact(&mut end)?;
        if end == *b"\n" { Ok(true) } else { Err(odd(&String::from_utf8_lossy(&end))) }
    }
}

/// What git says.
fn ask(folder: &Path, arguments: &[&str]) -> Result<Vec<u8>, ManifestError> {
    let mut command = git(folder, arguments);
    command.stdin(Stdio::null());
    let mut process = GitProcess::start(command).map_err(|error| failed(folder, &error.to_string()))?;
    let mut said = Vec::new();
    let read = match process.child.stdout.take() {
        Some(stdout) => stdout.take(MAX_SAID + 1).read_to_end(&mut said),
        None => Ok(0),
    };
    if said.len() as u64 > MAX_SAID {
        return Err(ManifestError::TooMuch { path: folder.display().to_string() });
    }
    read.map_err(|error| failed(folder, &process.reason(&error)))?;
    let ended = process.end().map_err(|error| failed(folder, &error.to_string()))?;
    if ended.success() {
        return Ok(said);
    }
    let what = arguments.iter().find(|word| !word.starts_with('-')).copied().unwrap_or_default();
    Err(failed(folder, &process.reason(&format!("`git {what}` ended with {ended}"))))
}

/// A git that runs nothing which the repository names, and asks nobody for what it lacks.
fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["--no-pager", "--no-replace-objects", "--literal-pathspecs"]);
    for setting in ["fsmonitor=false", "hooksPath=/dev/null", "attributesFile=/dev/null", "quotePath=false"] {
        command.arg("-c").arg(format!("core.{setting}"));
    }
    command.args(arguments).env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_ATTR_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    // Missing objects of a partial clone are not fetched: older versions know no more than that no transport is allowed.
    command.env("GIT_NO_LAZY_FETCH", "1").env("GIT_ALLOW_PROTOCOL", "none");
    if let Some(parent) = folder.parent() {
        command.env("GIT_CEILING_DIRECTORIES", parent);
    }
    for other in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"] {
        command.env_remove(other);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// A git that is ended when its time is over, or with its owner.
struct GitProcess {
    child: Child,
    pid: Option<Pid>,
    /// Ends the watch.
    done: Option<mpsc::Sender<()>>,
    /// Says whether the time was over.
    watch: Option<JoinHandle<bool>>,
    overdue: bool,
}

impl GitProcess {
    fn start(mut command: Command) -> io::Result<GitProcess> {
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let (done, ended) = mpsc::channel();
        let watch = std::thread::spawn(move || {
            let overdue = ended.recv_timeout(MAX_TIME) == Err(mpsc::RecvTimeoutError::Timeout);
            if let Some(pid) = pid.filter(|_| overdue) {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            overdue
        });
        Ok(GitProcess { child, pid, done: Some(done), watch: Some(watch), overdue: false })
    }

    /// Waits until it has ended.
    fn end(&mut self) -> io::Result<std::process::ExitStatus> {
        self.child.stdin.take();
        self.child.stdout.take();
        if let Some(pid) = self.pid {
            // Without taking its number away: until the watch has ended, that must be nobody else's.
            rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        }
        drop(self.done.take());
        if let Some(watch) = self.watch.take() {
            self.overdue |= watch.join().unwrap_or(false);
        }
        self.child.wait()
    }

    /// Why it failed, as far as is known.
    fn reason(&mut self, otherwise: &dyn std::fmt::Display) -> String {
        self.stop();
        if self.overdue {
            format!("it took more than {} s", MAX_TIME.as_secs())
        } else {
            otherwise.to_string()
        }
    }

    fn stop(&mut self) {
        if self.watch.is_some() {
            let _ = self.child.kill();
            let _ = self.end();
        }
    }
}

impl Drop for GitProcess {
    fn drop(&mut self) {
        self.stop();
    }
}

fn failed(folder: &Path, why: &str) -> ManifestError {
    ManifestError::Git { path: folder.display().to_string(), why: why.to_string() }
}
