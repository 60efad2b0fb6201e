//! Which file is where.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton_store::disk::Disk;
use baton_store::{ItemKind as Kind, Key, Prefix, boot};

use crate::version::Folder;

/// The folder of the versions of a record.
const VERSIONS: &str = "versions";
/// The view of an election, for people.
const VIEW: &str = "coordinator.json";
/// The folder of the marks. No key's folder at the top begins with an `@` but the store's own two.
const MARKS: &str = "@marks";
/// How temporary files begin.
const TEMPORARY: &str = ".tmp-";
/// How long a temporary file may lie about before it counts as left behind.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(3_600);

/// The folder of a store.
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    pub(crate) fn new(root: PathBuf) -> Layout {
        Layout { root }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn folder(&self, key: &Key) -> PathBuf {
        key.to_string().split('/').map(encode).fold(self.root.clone(), |path, segment| path.join(segment))
    }

    pub(crate) fn versions(&self, key: &Key) -> PathBuf {
        self.folder(key).join(VERSIONS)
    }

    pub(crate) fn view(&self, key: &Key) -> PathBuf {
        self.folder(key).join(VIEW)
    }

    /// The folder of an election's mark, which outlives its own. A `/` in its name is an `@` here, which no name has.
    pub(crate) fn marks(&self, key: &Key) -> PathBuf {
        self.root.join(MARKS).join(key.to_string().replace('/', "@"))
    }

    /// The keys under a prefix that have a version, in order.
    pub(crate) fn list(&self, prefix: &Prefix) -> io::Result<Vec<Key>> {
        let start = match prefix {
            Prefix::Elections | Prefix::Audits => self.root.clone(),
            Prefix::Candidates(election) => self.folder(&Key::Election(election.clone())).join("candidates"),
            Prefix::Fences => self.root.join("fences"),
            Prefix::Items(election, kind) => {
                self.folder(&Key::Election(election.clone())).join(format!("@{}", kind.plural()))
            }
        };
        let mut keys = Vec::new();
        let mut folders = vec![start];
        while let Some(folder) = folders.pop() {
            for entry in entries(&folder)? {
                let entry = entry?;
                if !entry.file_type()?.is_dir() {
                    continue;
                }
                if entry.file_name() != VERSIONS {
                    // No election and no log is below the items of another, and there may be many of them.
                    if !(matches!(prefix, Prefix::Elections | Prefix::Audits)
                        && is_of_items(&entry.file_name()))
                    {
                        folders.push(entry.path());
                    }
                    continue;
                }
                // A writer that failed before its first version leaves an empty folder.
                let key = self.key_of(&folder).filter(|key| prefix.covers(key));
                if key.is_some() && highest(&entry.path())?.is_some() {
                    keys.extend(key);
                }
            }
        }
        keys.sort();
        Ok(keys)
    }

    fn key_of(&self, folder: &Path) -> Option<Key> {
        let relative = folder.strip_prefix(&self.root).ok()?;
        let segments: Option<Vec<&str>> = relative.iter().map(|segment| decode(segment.to_str()?)).collect();
        Key::parse(&segments?.join("/"))
    }
}

/// A segment as a file name; the names that the layout uses itself are marked, with a sign that no segment has.
fn encode(segment: &str) -> String {
    if [VERSIONS, VIEW].contains(&segment) { format!("@{segment}") } else { segment.to_string() }
}

fn decode(name: &str) -> Option<&str> {
    match name.strip_prefix('@') {
        Some("store" | "tokens") => Some(name),
        Some(kind) if Kind::of_plural(kind).is_some() => Some(name),
        Some(marked) if [VERSIONS, VIEW].contains(&marked) => Some(marked),
        Some(_) => None,
        None => Some(name),
    }
}

/// Whether a folder holds the items of one kind.
fn is_of_items(name: &std::ffi::OsStr) -> bool {
    name.to_str().and_then(|name| Kind::of_plural(name.strip_prefix('@')?)).is_some()
}

/// The entries of a folder; none if it does not exist.
pub(crate) fn entries(folder: &Path) -> io::Result<Box<dyn Iterator<Item = io::Result<fs::DirEntry>>>> {
    match fs::read_dir(folder) {
        Ok(entries) => Ok(Box::new(entries)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Box::new(std::iter::empty())),
        Err(error) => Err(error),
    }
}

/// The highest version in a folder.
pub(crate) fn highest(folder: &Path) -> io::Result<Option<u64>> {
    let mut highest = None;
    for entry in entries(folder)? {
        highest = highest.max(entry?.file_name().to_str().and_then(number));
    }
    Ok(highest)
}

/// The version that a file name stands for, if it is one's.
fn number(name: &str) -> Option<u64> {
    let number: u64 = name.parse().ok()?;
    (number.to_string() == name && number < u64::MAX).then_some(number)
}

/// A name for a temporary file that nobody else in the world uses.
pub(crate) fn temporary(folder: &Path) -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let start = boot::now().as_nanos();
    folder.join(format!("{TEMPORARY}{}-{start:x}-{count}", std::process::id()))
}

/// Removes the versions up to `floor` that are left, the lowest first: none goes before all below it are gone, whoever
/// else prunes or died at it.
pub(crate) fn prune(disk: &Disk, folder: &Folder, floor: u64) {
    let left = (1..=floor).rev().take_while(|number| folder.has(&number.to_string())).last();
    if let Some(lowest) = left {
        remove_in_order(disk, folder, lowest..=floor);
    }
}

fn remove_in_order(disk: &Disk, folder: &Folder, versions: impl IntoIterator<Item = u64>) {
    for version in versions {
        match folder.remove(disk, &version.to_string()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return,
        }
    }
}

/// Removes versions up to `floor`, the lowest first, and temporary files that were left behind beside the folder.
pub(crate) fn tidy(disk: &Disk, folder: &Folder, floor: u64) {
    let mut old: Vec<u64> = folder.names().iter().filter_map(|name| number(name)).collect();
    old.retain(|number| *number <= floor);
    old.sort_unstable();
    remove_in_order(disk, folder, old);
    // Their names are used once, so that it does not matter whose folder bears the name by now.
    let beside = folder.path().parent().unwrap_or(folder.path());
    for entry in entries(beside).into_iter().flatten().flatten() {
        let temporary = entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY));
        if temporary && left_behind(&entry) {
            let _ = disk.remove_file(&entry.path());
        }
    }
}

/// Judged by the wall clock, which is good enough: a writer whose temporary file is gone is told so and tries again.
fn left_behind(entry: &fs::DirEntry) -> bool {
    let modified = entry.metadata().and_then(|data| data.modified()).ok();
    modified.and_then(|time| time.elapsed().ok()).is_some_and(|age| age > LEFT_BEHIND_AFTER)
}

/// Whether the writer of this version is probably about to bring the view up to date: the version is young, and the view older.
/// Judged by the wall clock, which is good enough for a view.
pub(crate) fn is_under_way(version: &Path, view: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    match (modified(version), modified(view)) {
        (Some(version), Some(view)) => {
            view <= version && version.elapsed().is_ok_and(|age| age < Duration::from_secs(1))
        }
        (_, _) => false,
    }
}

/// All temporary files below a folder.
pub(crate) fn temporaries(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = entries(&folder) else { continue };
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            } else if entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMPORARY))
                && left_behind(&entry)
            {
                found.push(entry.path());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_election::{AgentName, ElectionName, ItemName, ResourceName};

    #[test]
    fn different_keys_have_different_folders_and_are_found_again() {
        let election = |text| ElectionName::new(text).unwrap();
        let layout = Layout::new(PathBuf::from("/s"));
        let keys = [
            Key::Store,
            Key::Tokens,
            Key::Election(election("a")),
            Key::Election(election("a/versions")),
            Key::Election(election("a/coordinator.json")),
            Key::Election(election("store")),
            Key::Candidate(election("a"), AgentName::new("versions").unwrap()),
            Key::History(election("a")),
            Key::Fence(ResourceName::new("versions").unwrap()),
            Key::Item(election("a"), Kind::Task, ItemName::new("versions").unwrap()),
            Key::Item(election("a"), Kind::Value, ItemName::new("coordinator.json").unwrap()),
            Key::Item(election("a/versions"), Kind::Task, ItemName::new("t").unwrap()),
        ];
        let mut folders: Vec<PathBuf> = keys.iter().map(|key| layout.versions(key)).collect();
        for key in &keys {
            assert_eq!(layout.key_of(&layout.folder(key)).as_ref(), Some(key));
        }
        folders.sort();
        folders.dedup();
        assert_eq!(folders.len(), keys.len());
    }
}
