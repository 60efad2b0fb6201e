//! Working trees of git: a commit, and what differs from it.
//!
//! The `git` command is asked, without locks, hooks of its file watcher, pagers or programs that a repository names for showing differences.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use super::CoversError;
use super::scan::{is_left_out, path_of, text_of_bytes};

/// The most that is read of what git says.
const MAX_SAID: u64 = 16 << 20;

/// The commit of a folder that is the top of a working tree; none if it is not, or nothing was committed.
pub(super) fn commit_of(folder: &Path) -> Result<Option<String>, CoversError> {
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
    let is_hash = !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    Ok(is_hash.then_some(commit))
}

/// The paths that differ from a commit, and whether it has them.
pub(super) fn differing(folder: &Path, commit: &str) -> Result<BTreeMap<String, bool>, CoversError> {
    if commit.is_empty() || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(failed(folder, "that is no commit"));
    }
    let differ =
        ["diff", "--name-status", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", commit, "--"];
    let said = ask(folder, &differ)?;
    let mut paths = BTreeMap::new();
    let mut words = said.split(|byte| *byte == 0);
    while let (Some(status), Some(path)) = (words.next(), words.next()) {
        put(&mut paths, path, !status.starts_with(b"A"));
    }
    let untracked = ask(folder, &["ls-files", "--others", "--exclude-standard", "-z"])?;
    untracked.split(|byte| *byte == 0).for_each(|path| put(&mut paths, path, false));
    Ok(paths)
}

fn put(paths: &mut BTreeMap<String, bool>, path: &[u8], in_commit: bool) {
    let text = text_of_bytes(path);
    let left_out = path_of(&text).components().any(|part| is_left_out(part.as_os_str()));
    if !text.is_empty() && !left_out {
        // What was taken out of the index and is still there is named twice.
        *paths.entry(text).or_default() |= in_commit;
    }
}

/// What git says.
fn ask(folder: &Path, arguments: &[&str]) -> Result<Vec<u8>, CoversError> {
    let settings = ["-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "--no-pager"];
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(settings).args(arguments);
    command.env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
    for other in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(other);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| failed(folder, &error.to_string()))?;
    let mut said = Vec::new();
    let read = match child.stdout.take() {
        Some(stdout) => stdout.take(MAX_SAID + 1).read_to_end(&mut said),
        None => Ok(0),
    };
    let too_much = said.len() as u64 > MAX_SAID;
    if too_much || read.is_err() {
        let _ = child.kill();
    }
    let ended = child.wait().map_err(|error| failed(folder, &error.to_string()))?;
    match (too_much, read, ended.success()) {
        (true, ..) => Err(CoversError::TooMuch { path: folder.display().to_string() }),
        (false, Err(error), _) => Err(failed(folder, &error.to_string())),
        (false, Ok(_), false) => {
            let what = arguments.first().copied().unwrap_or_default();
            Err(failed(folder, &format!("`git {what}` ended with {ended}")))
        }
        (false, Ok(_), true) => Ok(said),
    }
}

fn failed(folder: &Path, why: &str) -> CoversError {
    CoversError::Git { path: folder.display().to_string(), why: why.to_string() }
}
