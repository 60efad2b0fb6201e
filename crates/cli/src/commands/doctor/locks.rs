//! Lock files that a killed git left behind: nobody can change their refs.
//!
//! They are named and never removed, also with `--fix`: a git that is only stopped would wake up and rename another's lock file into place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use baton::store::StoreUrl;

use super::{CheckReport, count};
use crate::output::Failure;

/// Twice the longest that Baton lets a git work: an older lock is nobody's, or that of a git which is stopped.
const OLD: Duration = Duration::from_secs(60);
/// Where locks of Baton's refs are, below a repository.
const PLACES: [&str; 3] = ["refs/baton", "refs/baton-seen", "reftable"];

/// Looks in the repository of a git store, and in its remote if that is a folder of this machine.
pub(super) fn check(chart: &mut CheckReport, url: &StoreUrl) -> Result<(), Failure> {
    let dir = Path::new(if url.rest.is_empty() { "." } else { &url.rest });
    let mut repositories: Vec<PathBuf> = common_dir(dir).into_iter().collect();
    if let Some(remote) = url.parameters.get("remote") {
        let address = git(dir, &["remote", "get-url", remote]).unwrap_or_else(|| remote.clone());
        let path = address.strip_prefix("file://").unwrap_or(&address);
        repositories.extend(common_dir(&dir.join(path)));
    }
    let mut locks: Vec<PathBuf> = repositories.iter().flat_map(|repository| old_locks(repository)).collect();
    locks.sort();
    let Some(first) = locks.first() else {
        return chart.ok("locks", "no lock file is left behind in the repository");
    };
    let many = count(locks.len(), "lock file is", "lock files are");
    let detail = format!("{many} left behind, such as {}: nobody can change that ref", first.display());
    let hint = format!("if no git is at work there (pgrep -a git): rm {}", first.display());
    chart.fail_store("locks", detail, hint)
}

/// The folder that has the refs of the repository at this place.
fn common_dir(dir: &Path) -> Option<PathBuf> {
    let found = git(dir, &["rev-parse", "--git-common-dir"])?;
    Some(dir.join(found))
}

/// The first line of what git says, if it is content.
fn git(dir: &Path, arguments: &[&str]) -> Option<String> {
    let done = Command::new("git").arg("-C").arg(dir).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&done.stdout).trim_end().to_string();
    (done.status.success() && !text.is_empty()).then_some(text)
}

/// The old lock files of Baton's refs. Bound: the files below those folders.
fn old_locks(repository: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = PLACES.iter().map(|place| repository.join(place)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, Ok(data)) = (entry.path(), entry.metadata()) else { continue };
            let age = data.modified().ok().and_then(|at| at.elapsed().ok());
            let lock = path.extension().is_some_and(|extension| extension == "lock");
            if data.is_dir() {
                folders.push(path);
            } else if lock && age.is_some_and(|age| age >= OLD) {
                found.push(path);
            }
        }
    }
    found
}
