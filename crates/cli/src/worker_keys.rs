//! The keys that this user's agents got when they accepted tasks, one for each attempt.
//!
//! Guarantees that the key of an attempt is minted once, whoever of this user is at it at the same time, and that dropping one drops no other. Who runs a command
//! for an attempt holds a lock on its key, so that nobody else of this user runs another for the same; a lock ends with its process.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton::WorkerKey;
use baton::election::{AgentName, ElectionName, ItemName};
use baton::store::boot::Boot;
use serde::{Deserialize, Serialize};

use crate::output::Failure;
use crate::state_folder::{StateFolder, cannot, read_json, write_durably};

/// Where the key of one attempt is.
#[derive(Clone, Debug)]
pub(crate) struct KeyFile {
    path: PathBuf,
}

/// A key, and what is done with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeyRecord {
    pub(crate) key: WorkerKey,
    /// `baton task work` is at it; otherwise somebody accepted it by hand.
    #[serde(default)]
    works: bool,
    /// The folder of the run of CMD, which is removed once nothing of CMD is left.
    #[serde(default)]
    run: Option<PathBuf>,
    /// The run of the machine.
    #[serde(default)]
    boot: String,
}

impl KeyRecord {
    /// A key that somebody accepts a task with by hand.
    pub(crate) fn by_hand(key: WorkerKey) -> KeyRecord {
        KeyRecord { key, works: false, run: None, boot: Boot::current().boot }
    }

    /// A key that `baton task work` accepts a task with; in this folder CMD runs, if it does yet.
    pub(crate) fn working(key: WorkerKey, run: Option<&Path>) -> KeyRecord {
        KeyRecord { key, works: true, run: run.map(Path::to_path_buf), boot: Boot::current().boot }
    }

    /// Whether it was at work and nothing of its CMD is left.
    pub(crate) fn is_left_behind(&self) -> bool {
        let ended = |run: &PathBuf| self.boot != Boot::current().boot || !run.exists();
        self.works && self.run.as_ref().is_none_or(ended)
    }
}

impl StateFolder {
    fn worker_folder(&self, election: &ElectionName, agent: &AgentName, task: &ItemName) -> PathBuf {
        let of = election.as_str().replace('/', "+");
        self.path().join("tasks").join(of).join(agent.as_str()).join(task.as_str())
    }

    /// Where the key of an attempt is: the first one has the number 1.
    pub(crate) fn worker_place(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        task: &ItemName,
        attempt: usize,
    ) -> KeyFile {
        KeyFile { path: self.worker_folder(election, agent, task).join(format!("{attempt}.json")) }
    }

    /// Where the key of an agent's last attempt at a task is, if it has one.
    pub(crate) fn last_worker_place(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        task: &ItemName,
    ) -> Option<KeyFile> {
        let folder = self.worker_folder(election, agent, task);
        let numbers = fs::read_dir(&folder).ok()?.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            name.to_str()?.strip_suffix(".json")?.parse::<usize>().ok()
        });
        Some(KeyFile { path: folder.join(format!("{}.json", numbers.max()?)) })
    }
}

impl KeyFile {
    /// What is kept there.
    pub(crate) fn read(&self) -> Option<KeyRecord> {
        read_json(&self.path)
    }

    /// Keeps a key unless there is one. Returns what is there then.
    pub(crate) fn reserve(&self, kept: &KeyRecord) -> Result<KeyRecord, Failure> {
        let draft = self.path.with_extension(format!("draft-{}", std::process::id()));
        write_durably(&draft, &serde_json::to_vec(kept).unwrap_or_default())?;
        let linked = fs::hard_link(&draft, &self.path);
        let _ = fs::remove_file(&draft);
        match linked {
            Ok(()) => Ok(kept.clone()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match self.read() {
                Some(there) => Ok(there),
                // It is none, or was dropped at this very moment.
                None => self.replace(kept).map(|()| kept.clone()),
            },
            Err(error) => Err(cannot(&self.path, &error)),
        }
    }

    /// Keeps this in the place of what is there.
    pub(crate) fn replace(&self, kept: &KeyRecord) -> Result<(), Failure> {
        write_durably(&self.path, &serde_json::to_vec(kept).unwrap_or_default())
    }

    /// Takes the lock, for as long as what is returned lives. None if another process has it.
    pub(crate) fn lock(&self) -> Result<Option<File>, Failure> {
        // Not the file itself, which is replaced.
        let path = self.path.with_extension("lock");
        let fail = |error: io::Error| cannot(&path, &error);
        if let Some(folder) = path.parent() {
            crate::state_folder::make_private_folder(folder)?;
        }
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(fail)?;
        match file.try_lock() {
            // The former holder may have removed the file with the key: then others lock another one.
            Ok(()) if is_at(&file, &path) => Ok(Some(file)),
            Ok(()) => Ok(None),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(fail(error)),
        }
    }

    /// Drops a key, unless another has taken its place.
    pub(crate) fn drop_key(&self, key: &WorkerKey) {
        if self.read().is_some_and(|kept| kept.key == *key) {
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_file(self.path.with_extension("lock"));
            if let Some(folder) = self.path.parent() {
                // If nothing else is in it.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

/// Whether this very file is still there.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(opened), Ok(there)) => (opened.dev(), opened.ino()) == (there.dev(), there.ino()),
        (_, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_whose_file_was_taken_away_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.lock");
        let opened = File::create(&path).unwrap();
        assert!(is_at(&opened, &path));
        // The holder of the lock drops its key, and another process starts over.
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&opened, &path));
        let other = File::create(&path).unwrap();
        assert!(is_at(&other, &path) && !is_at(&opened, &path));
    }

    #[test]
    fn only_one_has_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let place = KeyFile { path: folder.path().join("1.json") };
        let lock = place.lock().unwrap();
        assert!(lock.is_some() && place.lock().unwrap().is_none());
        drop(lock);
        assert!(place.lock().unwrap().is_some());
    }
}
