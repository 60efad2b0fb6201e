//! Power cuts, replayed: what a disk may have after one, by the steps that were made before it.
//!
//! A file system promises what was synced, and nothing else. Of all other changes any may have reached the disk: some sectors of a
//! file, and any of the names that were given or taken since a folder was last synced. A rename is all or nothing. What cannot be done
//! panics: this is for tests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::disk::{Step, Watcher};

/// How much of a file is written at once, or not at all.
const SECTOR: usize = 512;

/// Notes every step of a disk, and can stop it for good, as a process that dies does.
#[derive(Debug, Default)]
pub struct Recorder {
    recording: Mutex<Recording>,
}

#[derive(Debug, Default)]
struct Recording {
    steps: Vec<Step>,
    /// Before which step the process dies.
    dies_at: Option<usize>,
}

impl Recorder {
    fn recording(&self) -> std::sync::MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The steps so far.
    pub fn steps(&self) -> Vec<Step> {
        self.recording().steps.clone()
    }

    /// How many steps there are so far.
    pub fn len(&self) -> usize {
        self.recording().steps.len()
    }

    /// Whether nothing was done.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets every step from this one on fail; none lives again.
    pub fn die_at(&self, step: Option<usize>) {
        self.recording().dies_at = step;
    }
}

impl Watcher for Recorder {
    fn before(&self, _: &Step) -> io::Result<()> {
        let recording = self.recording();
        match recording.dies_at {
            Some(step) if recording.steps.len() >= step => Err(io::Error::other("this process died")),
            Some(_) | None => Ok(()),
        }
    }

    fn after(&self, step: &Step) {
        self.recording().steps.push(step.clone());
    }
}

/// What became of the changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// All are lost.
    Lost,
    /// All reached the disk.
    Kept,
    /// Some did, by this seed.
    Some(u64),
}

impl Unsynced {
    fn survives(&mut self) -> bool {
        match self {
            Unsynced::Lost => false,
            Unsynced::Kept => true,
            Unsynced::Some(seed) => {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *seed >> 63 == 0
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Node {
    File(usize),
    Folder(PathBuf),
}

#[derive(Debug)]
enum Change {
    Add(OsString, Node),
    Remove(OsString),
    Move(OsString, OsString, Node),
}

#[derive(Debug, Default)]
struct Folder {
    synced: BTreeMap<OsString, Node>,
    pending: Vec<Change>,
}

impl Folder {
    fn settle(&mut self, mut survives: impl FnMut() -> bool) {
        for change in std::mem::take(&mut self.pending) {
            if !survives() {
                continue;
            }
            match change {
                Change::Add(name, node) => drop(self.synced.insert(name, node)),
                Change::Remove(name) => drop(self.synced.remove(&name)),
                Change::Move(from, to, node) => {
                    self.synced.remove(&from);
                    self.synced.insert(to, node);
                }
            }
        }
    }
}

#[derive(Debug, Default)]
struct File {
    synced: Vec<u8>,
    pending: Vec<Vec<u8>>,
}

impl File {
    fn settle(&mut self, mut survives: impl FnMut() -> bool) {
        for bytes in std::mem::take(&mut self.pending) {
            for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                if survives() {
                    let at = number * SECTOR;
                    self.synced.resize(self.synced.len().max(at + sector.len()), 0);
                    self.synced[at..at + sector.len()].copy_from_slice(sector);
                }
            }
        }
    }
}

/// A disk, by the steps that were made on it.
#[derive(Debug, Default)]
struct Replay {
    files: Vec<File>,
    /// Which file a name stands for at this step, also of those without a name.
    names: BTreeMap<PathBuf, usize>,
    folders: BTreeMap<PathBuf, Folder>,
}

impl Replay {
    fn make(&mut self, path: &Path) -> usize {
        self.files.push(File::default());
        self.names.insert(path.to_path_buf(), self.files.len() - 1);
        self.files.len() - 1
    }

    fn named(&self, path: &Path) -> usize {
        match self.names.get(path) {
            Some(file) => *file,
            None => panic!("{} was not made by a step", path.display()),
        }
    }

    fn change(&mut self, path: &Path, change: impl FnOnce(OsString) -> Change) {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return };
        self.folders.entry(folder.to_path_buf()).or_default().pending.push(change(name.to_os_string()));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::MakeFolder(path) => {
                self.folders.insert(path.clone(), Folder::default());
                self.change(path, |name| Change::Add(name, Node::Folder(path.clone())));
            }
            Step::MakeFile(path) => {
                let file = self.make(path);
                self.change(path, |name| Change::Add(name, Node::File(file)));
            }
            Step::MakeNameless(path) => drop(self.make(path)),
            Step::Write(path, bytes) => {
                let file = self.named(path);
                self.files[file].pending.push(bytes.clone());
            }
            Step::SyncFile(path) => {
                let file = self.named(path);
                self.files[file].settle(|| true);
            }
            Step::Link(from, to) => {
                let file = self.named(from);
                self.names.insert(to.clone(), file);
                self.change(to, |name| Change::Add(name, Node::File(file)));
            }
            Step::Rename(from, to) => {
                assert_eq!(from.parent(), to.parent(), "no file is moved to another folder");
                let file = self.named(from);
                self.names.remove(from);
                self.names.insert(to.clone(), file);
                let old = from.file_name().unwrap_or_default().to_os_string();
                self.change(to, |name| Change::Move(old, name, Node::File(file)));
            }
            Step::Remove(path) => {
                self.names.remove(path);
                self.change(path, Change::Remove);
            }
            Step::SyncFolder(path) => {
                if let Some(folder) = self.folders.get_mut(path) {
                    folder.settle(|| true);
                }
            }
        }
    }

    fn write(&self, folder: &Path, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        let Some(folder) = self.folders.get(folder) else { return Ok(()) };
        for (name, node) in &folder.synced {
            match node {
                Node::File(file) => fs::write(to.join(name), &self.files[*file].synced)?,
                Node::Folder(path) => self.write(path, &to.join(name))?,
            }
        }
        Ok(())
    }
}

/// Writes into the folder `to` what is in the folder `from` if the power goes after these steps.
pub fn cut(steps: &[Step], mut unsynced: Unsynced, from: &Path, to: &Path) -> io::Result<()> {
    let mut replay = Replay::default();
    for step in steps {
        replay.step(step);
    }
    let mut survives = || unsynced.survives();
    for file in &mut replay.files {
        file.settle(&mut survives);
    }
    for folder in replay.folders.values_mut() {
        folder.settle(&mut survives);
    }
    replay.write(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: &[Step], unsynced: Unsynced) -> BTreeMap<String, String> {
        let place = tempfile::tempdir().unwrap();
        cut(steps, unsynced, Path::new("/s"), place.path()).unwrap();
        let entries = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        entries.map(|path| (name(&path), fs::read_to_string(&path).unwrap())).collect()
    }

    #[test]
    fn what_was_synced_is_there_and_nothing_else_need_be() {
        let path = |name: &str| PathBuf::from("/s").join(name);
        let mut steps = vec![Step::MakeFile(path("a")), Step::Write(path("a"), b"text".to_vec())];
        assert!(after(&steps, Unsynced::Lost).is_empty());
        assert_eq!(after(&steps, Unsynced::Kept)["a"], "text");
        let some: Vec<_> = (0..64).map(|seed| after(&steps, Unsynced::Some(seed << 58))).collect();
        assert!(
            some.iter().any(|left| left.get("a").is_some_and(String::is_empty)),
            "a name without its bytes"
        );
        assert!(some.iter().any(BTreeMap::is_empty));
        steps.extend([Step::SyncFile(path("a")), Step::SyncFolder(PathBuf::from("/s"))]);
        assert_eq!(after(&steps, Unsynced::Lost)["a"], "text");
        steps.extend([Step::MakeFile(path("b")), Step::Rename(path("b"), path("a"))]);
        assert_eq!(after(&steps, Unsynced::Lost)["a"], "text", "a rename that is lost");
        assert_eq!(after(&steps, Unsynced::Kept)["a"], "");
    }
}
