//! What git's words mean for the caller: not applied, may have been applied, refused.
//!
//! Git tells most failures in prose only; the locale is fixed, and what is not known is taken for the worse: a push that
//! is not known to have failed may have been applied.

use baton_store::StoreError;

use crate::git::{GitFailure, Output};

/// The oldest git that knows all that is asked of it.
pub(crate) const OLDEST_GIT: &str = "2.30";
/// The exit code of a git that does not understand its arguments.
const USAGE: i32 = 129;
/// The longest quotation of git's words.
const MAX_QUOTE_CHARS: usize = 600;

/// Words with which git, or the other side, says that the same will not succeed, and what to do about it.
const REFUSALS: [(&str, &str); 16] = [
    ("not a git repository", "run `git init` there, or name a folder inside a repository"),
    (
        "dubious ownership",
        "the repository belongs to another user; if you trust it: git config --global --add safe.directory DIR",
    ),
    ("Permission denied (publickey", "give this user an ssh key that the remote knows"),
    ("Host key verification failed", "connect once by hand with ssh, and check the host's key"),
    ("Authentication failed", "configure a git credential helper; Baton never asks for a password"),
    ("could not read Username", "configure a git credential helper; Baton never asks for a password"),
    ("could not read Password", "configure a git credential helper; Baton never asks for a password"),
    ("returned error: 401", "configure a git credential helper; Baton never asks for a password"),
    ("returned error: 403", "this user may not do that there; ask the remote's owner"),
    ("Permission to ", "this user may not do that there; ask the remote's owner"),
    ("not allowed", "git's settings forbid this transport; see protocol.allow in `git help config`"),
    ("hash algorithm", "use a clone with the remote's object format: git init --object-format"),
    ("mismatched algorithms", "use a clone with the remote's object format: git init --object-format"),
    ("insufficient permission", "make the repository writable for this user"),
    ("Permission denied", "make the repository accessible for this user"),
    ("Read-only file system", "use a repository that can be written"),
];

/// Words that are said only before anything was sent.
const NOT_SENT: [&str; 17] = [
    "Could not read from remote repository",
    "does not appear to be a git repository",
    "hung up upon initial contact",
    "Could not resolve host",
    "Couldn't connect",
    "Connection refused",
    "Failed to connect",
    "No route to host",
    "Network is unreachable",
    "unable to access",
    "unable to find remote helper",
    "unknown option",
    "could not read Username",
    "could not read Password",
    "Authentication failed",
    "' not found",
    "does not support this repository's hash algorithm",
];

/// Lines that follow whatever was wrong.
const IDLE: [&str; 4] = [
    "Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
    "the remote end hung up unexpectedly",
];

/// Words with which a ref says that something else is there.
const CONFLICTS: [&str; 8] = [
    "but expected",
    "already exists",
    "incorrect old value",
    "unable to resolve reference",
    "reference is missing",
    "failed to update ref",
    "failed to lock",
    "cannot lock ref",
];

/// Words with which a ref says that somebody is changing it.
const BUSY: [&str; 2] = [".lock': File exists", "Another git process seems to be running"];

/// A process that did not end by itself, where it could change nothing that counts.
pub(crate) fn fault(location: &str, fault: &GitFailure) -> StoreError {
    let location = location.to_string();
    match fault {
        GitFailure::Missing => StoreError::Refused {
            place: location,
            why: "there is no `git` command here".to_string(),
            hint: format!("install git {OLDEST_GIT} or newer, or use another store"),
        },
        GitFailure::Broken(error) => StoreError::Unavailable {
            location,
            why: format!("git could not be used: {error}"),
            hint: "look with `git fsck`, and at the machine's free memory and processes".to_string(),
        },
        GitFailure::Silent(limit) => StoreError::Unavailable {
            location,
            why: format!("git did not finish within {} s", limit.as_secs()),
            hint: "look at the connection to the remote".to_string(),
        },
    }
}

/// A process that ended in failure, where it could change nothing that counts.
pub(crate) fn failure(location: &str, output: &Output) -> StoreError {
    let why = quote(&output.stderr);
    if output.code == Some(USAGE) {
        return StoreError::Refused {
            place: location.to_string(),
            why: format!("this git does not know what is asked of it: {why}"),
            hint: format!("install git {OLDEST_GIT} or newer"),
        };
    }
    if let Some((_, hint)) = REFUSALS.iter().find(|(words, _)| output.stderr.contains(words)) {
        return StoreError::Refused { place: location.to_string(), why, hint: (*hint).to_string() };
    }
    let hint = if output.stderr.contains("No space left on device") {
        "free some space"
    } else {
        "check that the repository is there, and that this user may see it: git remote -v, git ls-remote"
    };
    StoreError::Unavailable { location: location.to_string(), why, hint: hint.to_string() }
}

/// What became of a push of one ref, by `git push --porcelain`.
pub(crate) fn push(location: &str, output: &Output) -> Result<(), StoreError> {
    let answer = output.text();
    let line = answer.lines().find_map(|line| {
        let mut fields = line.split('\t');
        let (flag, _refs, summary) = (fields.next()?, fields.next()?, fields.next()?);
        (flag.len() == 1).then_some((flag, summary))
    });
    match line {
        Some(("!", summary)) => Err(rejection(location, summary, &output.stderr)),
        Some((_, _)) if output.ok() => Ok(()),
        None if output.code == Some(USAGE) => Err(failure(location, output)),
        None if NOT_SENT.iter().any(|words| output.stderr.contains(words)) => Err(failure(location, output)),
        Some(_) | None => {
            Err(StoreError::Unknown { location: location.to_string(), why: quote(&output.stderr) })
        }
    }
}

/// A ref that the client or the remote did not take.
fn rejection(location: &str, summary: &str, stderr: &str) -> StoreError {
    let reason = summary.split_once('(').map_or(summary, |(_, reason)| reason.trim_end_matches(')'));
    // The client's own rejections are all about what is there.
    if summary.starts_with("[rejected]") {
        return StoreError::Conflict;
    }
    if summary.starts_with("[remote failure]") {
        return StoreError::Unknown { location: location.to_string(), why: reason.to_string() };
    }
    // Only there does the rest of what the remote says come from git, and not from somebody's hook.
    let words =
        if reason == "failed to update ref" { format!("{reason}\n{stderr}") } else { reason.to_string() };
    if let Some(error) = contention(location, &words) {
        return error;
    }
    let said = quote(stderr);
    let why = if said.is_empty() { reason.to_string() } else { format!("{reason}; {said}") };
    if reason.contains("unpacker error") || reason.contains("unpack-objects") {
        let hint = "the remote could not take the objects: look at its disk and permissions".to_string();
        return StoreError::Unavailable { location: location.to_string(), why, hint };
    }
    let hint = if reason.contains("non-fast-forward") {
        "a renewal replaces the tip: the remote must allow forced pushes to refs/baton/*; ask its owner"
    } else {
        "the remote must let this user create and replace refs/baton/*; ask its owner"
    };
    StoreError::Refused { place: location.to_string(), why, hint: hint.to_string() }
}

/// That a ref could not be changed because of what is there, or because somebody is changing it.
pub(crate) fn contention(location: &str, words: &str) -> Option<StoreError> {
    if words.contains("Permission denied") || words.contains("reference broken") {
        return None;
    }
    if BUSY.iter().any(|busy| words.contains(busy)) {
        return Some(StoreError::Unavailable {
            location: location.to_string(),
            why: quote(words.lines().find(|line| line.contains("File exists")).unwrap_or(words)),
            hint: "another update is under way; if this stays so, a killed git left the .lock file behind: `baton doctor` says how to remove it"
                .to_string(),
        });
    }
    CONFLICTS.iter().any(|conflict| words.contains(conflict)).then_some(StoreError::Conflict)
}

/// Git's words, as far as they say something, without secrets.
pub(crate) fn quote(stderr: &str) -> String {
    let said = |is_idle: &dyn Fn(&str) -> bool| {
        let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty() && !is_idle(line));
        lines.map(|line| line.strip_prefix("fatal: ").unwrap_or(line)).collect::<Vec<_>>().join("; ")
    };
    let talk = |line: &str| line.starts_with("hint:") || line.starts_with("warning:");
    let told = said(&|line| talk(line) || IDLE.iter().any(|idle| line.ends_with(idle)));
    let told = if told.is_empty() { said(&talk) } else { told };
    let told = if told.is_empty() { "git did not say why".to_string() } else { told };
    without_secrets(&told).chars().take(MAX_QUOTE_CHARS).collect()
}

/// The text with the user's part of every URL in it taken out.
pub(crate) fn without_secrets(text: &str) -> String {
    let mut parts = text.split("://");
    let mut clean = parts.next().unwrap_or_default().to_string();
    for part in parts {
        clean.push_str("://");
        let end = part.find(['/', ' ', '\'', '"']).unwrap_or(part.len());
        let start = part[..end].rfind('@').map_or(0, |at| at + 1);
        clean.push_str(&part[start..]);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(stdout: &str, stderr: &str, code: i32) -> &'static str {
        let output = Output { code: Some(code), stdout: stdout.into(), stderr: stderr.into() };
        push("git:.", &output).map_or_else(|error| error.code(), |()| "applied")
    }

    fn line(flag: &str, summary: &str) -> String {
        format!("To ../r.git\n{flag}\tabc:refs/baton/x\t{summary}\nDone\n")
    }

    #[test]
    fn the_outcome_of_a_push_is_told_by_its_ref() {
        assert_eq!(pushed(&line("*", "[new reference]"), "", 0), "applied");
        assert_eq!(pushed(&line("+", "abc...def (forced update)"), "", 0), "applied");
        assert_eq!(pushed(&line(" ", "abc..def"), "", 0), "applied");
        assert_eq!(pushed(&line("=", "[up to date]"), "", 0), "applied");
        for conflict in [
            "[rejected] (stale info)",
            "[rejected] (fetch first)",
            "[remote rejected] (cannot lock ref 'refs/baton/x': is at 1 but expected 2)",
            "[remote rejected] (cannot lock ref 'refs/baton/x': reference already exists)",
            "[remote rejected] (reference already exists)",
            "[remote rejected] (incorrect old value provided)",
            "[remote rejected] (failed to update ref)",
        ] {
            assert_eq!(pushed(&line("!", conflict), "", 1), "conflict", "{conflict}");
        }
        for refused in [
            "[remote rejected] (pre-receive hook declined)",
            "[remote rejected] (hook declined)",
            "[remote rejected] (protected branch hook declined)",
            "[remote rejected] (non-fast-forward)",
            "[remote rejected] (deny updating a hidden ref)",
            "[remote rejected] (cannot lock ref 'refs/baton/x': Unable to create 'x.lock': Permission denied)",
        ] {
            assert_eq!(pushed(&line("!", refused), "", 1), "refused", "{refused}");
        }
        let hook = line("!", "[remote rejected] (hook declined)");
        assert_eq!(pushed(&hook, "remote: it already exists", 1), "refused", "a hook's words are not git's");
        let denied = "remote: error: cannot lock ref 'x': Unable to create 'x.lock': Permission denied";
        assert_eq!(pushed(&line("!", "[remote rejected] (failed to update ref)"), denied, 1), "refused");
        let busy =
            "[remote rejected] (cannot lock ref 'refs/baton/x': Unable to create 'r/x.lock': File exists.)";
        assert_eq!(pushed(&line("!", busy), "", 1), "unavailable");
        let full = line("!", "[remote rejected] (unpacker error)");
        assert_eq!(pushed(&full, "error: remote unpack failed", 1), "unavailable");
    }

    #[test]
    fn a_push_that_is_not_known_to_have_failed_may_have_been_applied() {
        assert_eq!(pushed(&line("!", "[remote failure] (remote failed to report status)"), "", 1), "unknown");
        assert_eq!(pushed("", "fatal: the remote end hung up unexpectedly", 128), "unknown");
        assert_eq!(pushed("", "error: RPC failed; HTTP 502 curl 22", 1), "unknown");
        assert_eq!(pushed("", "", 128), "unknown");
        let gone = "fatal: '/r.git' does not appear to be a git repository\n\
                    fatal: Could not read from remote repository.";
        assert_eq!(pushed("", gone, 128), "unavailable");
        let denied = "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository.";
        assert_eq!(pushed("", denied, 128), "refused");
        let denied = "fatal: unable to access 'https://h/r/': The requested URL returned error: 403";
        assert_eq!(pushed("", denied, 128), "refused");
        let asked = "fatal: could not read Username for 'https://h': terminal prompts disabled";
        assert_eq!(pushed("", asked, 128), "refused");
        assert_eq!(pushed("", "fatal: repository 'https://h/r/' not found", 128), "unavailable");
        assert_eq!(pushed("", "error: unknown option `porcelain'", 129), "refused");
    }

    #[test]
    fn secrets_are_not_repeated() {
        let said = "fatal: unable to access 'https://me:secret@host/r.git/': gone from ssh://git@h/x";
        assert_eq!(quote(said), "unable to access 'https://host/r.git/': gone from ssh://h/x");
        assert_eq!(quote("hint: x\n\n"), "git did not say why");
        assert_eq!(quote("x\nfatal: Could not read from remote repository.\n"), "x");
        assert_eq!(
            quote("fatal: the remote end hung up unexpectedly"),
            "the remote end hung up unexpectedly"
        );
    }
}
