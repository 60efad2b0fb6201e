//! From a store's name to a store: which repository, which remote, whose ssh.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use baton_election::ContentHash;
use baton_store::{StoreError, StoreUrl, UrlError};

use crate::arbiter::{Arbiter, ArbiterLocation};
use crate::blame;
use crate::git::{Git, Output};

/// What the configuration says that matters here.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    remotes: BTreeMap<String, Remote>,
    ssh: bool,
}

#[derive(Debug, Default)]
struct Remote {
    urls: Vec<String>,
    push_urls: Vec<String>,
}

/// The arbiter of a store of this name, and what the memory of this clone about it is kept under.
pub(crate) fn open(url: &StoreUrl) -> Result<(Arbiter, String), StoreError> {
    let location = blame::without_secrets(&url.to_string());
    let misnamed =
        |error: UrlError| StoreError::Misnamed { place: location.clone(), why: error.why, hint: error.hint };
    if url.scheme != "git" {
        let hint = "write git:DIR or git:DIR?remote=R";
        return Err(misnamed(UrlError::new("it does not name a git repository", hint)));
    }
    url.only(&["remote"]).map_err(misnamed)?;
    let dir = folder(&location, if url.rest.is_empty() { "." } else { &url.rest })?;
    let git = Git::at(&dir);
    let wanted = ["config", "-z", "--get-regexp", r"^(remote\..*\.(url|pushurl)|core\.sshcommand)$"];
    let asked = |arguments: &[&str]| git.run_now(arguments).map_err(|fault| blame::fault(&location, &fault));
    let common = asked(&["rev-parse", "--git-common-dir"])?;
    if !common.ok() {
        return Err(blame::failure(&location, &common));
    }
    match url.parameters.get("remote") {
        None => {
            let common = dir.join(common.text().trim_end_matches('\n'));
            let git = git.with("core.fsync=reference".to_string());
            Ok((Arbiter { git, location, seat: ArbiterLocation::Here(common) }, "here".to_string()))
        }
        Some(remote) => {
            let (git, target, identity) =
                choose(git.clone(), &location, &dir, remote, &Settings::parse(&asked(&wanted)?))?;
            let space = ContentHash::of(identity.as_bytes()).to_string()[..16].to_string();
            Ok((Arbiter { git, location, seat: ArbiterLocation::Remote(target) }, space))
        }
    }
}

fn refuse(place: &str, why: impl Into<String>, hint: impl Into<String>) -> StoreError {
    StoreError::Refused { place: place.to_string(), why: why.into(), hint: hint.into() }
}

fn folder(location: &str, text: &str) -> Result<PathBuf, StoreError> {
    let hint = "name a folder inside a git repository: git:DIR";
    let dir = std::fs::canonicalize(text).map_err(|error| refuse(location, error.to_string(), hint))?;
    if !dir.is_dir() {
        return Err(refuse(location, "it is not a folder", hint));
    }
    Ok(dir)
}

/// How git is run for this remote, what it is called on git's command line, and what it is known by.
fn choose(
    git: Git,
    location: &str,
    dir: &Path,
    remote: &str,
    settings: &Settings,
) -> Result<(Git, String, String), StoreError> {
    if remote.is_empty() || remote.starts_with('-') {
        return Err(refuse(location, format!("`{remote}` is no remote"), "write ?remote=origin"));
    }
    let has_ssh = settings.ssh
        || ["GIT_SSH", "GIT_SSH_COMMAND"].into_iter().any(|name| std::env::var_os(name).is_some());
    let git = if has_ssh { git } else { git.with_silent_ssh() };
    if let Some(known) = settings.remotes.get(remote) {
        let targets = if known.push_urls.is_empty() { &known.urls } else { &known.push_urls };
        let [target] = targets.as_slice() else {
            return Err(refuse(
                location,
                format!("the remote `{remote}` pushes to {} places; only one can decide", targets.len()),
                "name one of them: ?remote=URL",
            ));
        };
        // Where the two differ, the place that is written decides, and so it is also the one to read.
        let name = if known.push_urls.is_empty() { remote } else { target };
        let git = git.with(format!("remote.{remote}.mirror=false"));
        return Ok((git, name.to_string(), target.clone()));
    }
    if remote.contains("://") || (remote.contains(':') && !remote.starts_with(['/', '.'])) {
        return Ok((git, remote.to_string(), remote.to_string()));
    }
    let path = dir.join(remote);
    if remote.contains('/') || path.is_dir() {
        let path = path.to_string_lossy().into_owned();
        return Ok((git, path.clone(), path));
    }
    let names = settings.remotes.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let has = if names.is_empty() { "it has none".to_string() } else { format!("it has: {names}") };
    Err(refuse(
        location,
        format!("the repository has no remote `{remote}`; {has}"),
        format!("add it: git remote add {remote} URL"),
    ))
}

impl Settings {
    /// Reads `git config -z`: a name, a newline, a value, a null byte.
    pub(crate) fn parse(output: &Output) -> Settings {
        let mut settings = Settings::default();
        let text = output.text();
        for (name, value) in text.split('\0').filter_map(|entry| entry.split_once('\n')) {
            if name == "core.sshcommand" {
                settings.ssh = true;
            }
            let Some((remote, kind)) = name.strip_prefix("remote.").and_then(|rest| rest.rsplit_once('.'))
            else {
                continue;
            };
            let remote = settings.remotes.entry(remote.to_string()).or_default();
            match kind {
                "url" => remote.urls.push(value.to_string()),
                "pushurl" => remote.push_urls.push(value.to_string()),
                _ => {}
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(config: &str, remote: &str) -> Result<(String, String), String> {
        let output = Output { code: Some(0), stdout: config.into(), stderr: String::new() };
        let settings = Settings::parse(&output);
        choose(Git::at(Path::new("/d")), "git:.", Path::new("/d"), remote, &settings)
            .map(|(_, target, identity)| (target, identity))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_remote_is_a_name_a_url_or_a_path() {
        let config = "remote.origin.url\nssh://h/r\0remote.a.b.url\n../r\0";
        let pair = |a: &str, b: &str| Ok((a.to_string(), b.to_string()));
        assert_eq!(chosen(config, "origin"), pair("origin", "ssh://h/r"));
        assert_eq!(chosen(config, "a.b"), pair("a.b", "../r"));
        assert_eq!(chosen(config, "https://h/r.git"), pair("https://h/r.git", "https://h/r.git"));
        assert_eq!(chosen(config, "git@h:r.git"), pair("git@h:r.git", "git@h:r.git"));
        assert_eq!(chosen(config, "../r.git"), pair("/d/../r.git", "/d/../r.git"));
        assert!(chosen(config, "upstream").unwrap_err().contains("it has: a.b, origin"));
        assert!(chosen(config, "--upload-pack=touch").is_err());
    }

    #[test]
    fn only_one_place_can_decide() {
        let fork = "remote.o.url\nhttps://up/r\0remote.o.pushurl\nssh://fork/r\0";
        assert_eq!(chosen(fork, "o"), Ok(("ssh://fork/r".to_string(), "ssh://fork/r".to_string())));
        let two = "remote.o.url\nssh://a/r\0remote.o.url\nssh://b/r\0";
        assert!(chosen(two, "o").unwrap_err().contains("2 places"));
    }
}
