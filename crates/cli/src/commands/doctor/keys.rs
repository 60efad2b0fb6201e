//! The keys: the operator's, and those of leases. They prove something only as long as nobody else can read them.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton::Decides;

use super::store::OpenStore;
use super::{CheckReport, count};
use crate::keys;
use crate::output::Failure;
use crate::state_folder::state_root;

/// The most files of the state folder that are looked at.
const MAX_FILES: usize = 100_000;

pub(super) async fn check(chart: &mut CheckReport, opened: Option<&OpenStore>) -> Result<(), Failure> {
    operator(chart, opened).await?;
    state(chart)
}

async fn operator(chart: &mut CheckReport, opened: Option<&OpenStore>) -> Result<(), Failure> {
    if let Some(opened) = opened
        && opened.coordinator.decides() == Decides::Server
        && opened.coordinator.info().await.is_ok_and(|info| info.operator_keys.is_empty())
    {
        let hint = "baton init --code CODE, with the code that the server printed at its start";
        return chart.warn("operator", "nobody is the operator of this server's store", hint);
    }
    let path = keys::path()?;
    if !path.exists() {
        return chart.ok("operator", "this user is not an operator: there is no key, and agents need none");
    }
    let key = match keys::load() {
        Ok(key) => key,
        Err(failure) => return chart.fail("operator", failure.message, failure.hint.unwrap_or_default()),
    };
    let detail = format!("the key {:.12}… at {}", key.public(), path.display());
    let Some(opened) = opened else { return chart.ok("operator", detail) };
    match opened.coordinator.info().await {
        Ok(info) if info.operator_keys.contains(&key.public()) => {
            chart.ok("operator", format!("{detail} is enrolled in this store"))
        }
        Ok(_) => {
            let hint = format!(
                "where there is no operator yet, `baton init` enrols it; otherwise one of them must: baton operator add {}",
                key.public()
            );
            chart.warn("operator", format!("{detail} is not enrolled in this store"), hint)
        }
        // The store's own trouble has been told.
        Err(_) => chart.ok("operator", detail),
    }
}

fn state(chart: &mut CheckReport) -> Result<(), Failure> {
    let root = state_root()?;
    let Ok(data) = fs::metadata(&root) else {
        return chart.ok("state", format!("nothing is kept at {} yet", root.display()));
    };
    let open = |path: &Path| fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o077 != 0);
    let mut files = Vec::new();
    if let Err(error) = walk(&root, &mut files) {
        let detail = format!("{} cannot be looked at: {error}", root.display());
        return chart.fail("state", detail, "it must belong to this user");
    }
    let mode = data.permissions().mode() & 0o7777;
    let exposed: Vec<&PathBuf> = files.iter().filter(|path| is_key(path) && open(path)).collect();
    match exposed.first() {
        // A file that others could read is still out of reach in a folder that they cannot enter.
        Some(first) if mode & 0o077 != 0 => chart.fail(
            "state",
            format!(
                "others can read {}: {}",
                count(exposed.len(), "lease key", "lease keys"),
                first.display()
            ),
            format!(
                "chmod -R go= {}; whoever read a key can act as that leader until it releases",
                root.display()
            ),
        ),
        Some(first) => chart.fail(
            "state",
            format!(
                "{} not private: {}",
                count(exposed.len(), "lease key is", "lease keys are"),
                first.display()
            ),
            format!("chmod 600 {}", first.display()),
        ),
        None if mode & 0o077 != 0 => chart.warn(
            "state",
            format!("others can enter {} (mode {mode:04o})", root.display()),
            format!("chmod 700 {}", root.display()),
        ),
        None => chart.ok("state", format!("{} is private (mode {mode:04o})", root.display())),
    }
}

fn is_key(path: &Path) -> bool {
    let below = |name: &str| path.components().any(|part| part.as_os_str() == name);
    below("leases") || below("candidacies")
}

/// All files below a folder.
fn walk(root: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if files.len() < MAX_FILES {
                files.push(entry.path());
            }
        }
    }
    Ok(())
}
