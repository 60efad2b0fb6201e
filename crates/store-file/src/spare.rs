//! A file that lies ready for the next version: without a name, its blocks already on the disk.
//!
//! To sync a new file the file system must write where its blocks are, which costs as much again as the blocks. Who will soon be in a
//! hurry, because it waits for its turn or leads and will hand over, prepares a file beforehand. It has no name, so that
//! nothing is left behind however its process ends. Where the file system knows no such files there is none, and a version
//! takes the longer way.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use baton_store::Key;
use baton_store::disk::Disk;
use rustix::fs::AtFlags;

use crate::shape;
use crate::version::Folder;

/// The length of a spare: enough for most documents.
pub(crate) const LENGTH: usize = 4_096;
/// File systems that make the data of a nameless file survive, whatever name it gets later: ext4, xfs, tmpfs. Others, such as btrfs,
/// may log the name without the data.
const FIT: [i128; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];
/// How many records spares are kept for.
const MOST: usize = 16;

/// A file without a name.
pub(crate) struct Spare {
    file: File,
    /// What it is called among the steps of the disk.
    name: PathBuf,
}

impl Spare {
    /// Makes one on the file system of this folder; none where that cannot be.
    fn prepare(disk: &Disk, folder: &Path) -> Option<Spare> {
        let kind = rustix::fs::statfs(folder).ok()?.f_type;
        if !FIT.contains(&(i128::from(kind) & 0xFFFF_FFFF)) {
            return None;
        }
        let name = shape::temporary(folder);
        let file = disk.make_nameless(folder, &name, 0o666).ok()?;
        disk.write(&file, &name, &[0; LENGTH]).ok()?;
        disk.sync_file(&file, &name).ok()?;
        Some(Spare { file, name })
    }

    /// Writes a text, with newlines up to the length, and makes it survive a power cut. False if it does not fit.
    pub(crate) fn fill(&self, disk: &Disk, text: &str) -> io::Result<bool> {
        if text.len() > LENGTH {
            return Ok(false);
        }
        let mut block = text.as_bytes().to_vec();
        block.resize(LENGTH, b'\n');
        disk.write(&self.file, &self.name, &block)?;
        disk.sync_file(&self.file, &self.name)?;
        Ok(true)
    }

    /// Gives it a name in this folder, unless that is taken.
    pub(crate) fn link(&self, disk: &Disk, folder: &Folder, name: &str) -> io::Result<()> {
        let own = format!("/proc/self/fd/{}", self.file.as_fd().as_raw_fd());
        folder.link(disk, (&self.name, Path::new(&own), AtFlags::SYMLINK_FOLLOW), name)
    }

    pub(crate) fn metadata(&self) -> io::Result<std::fs::Metadata> {
        self.file.metadata()
    }
}

/// The spares of a store, by the record that they are for.
#[derive(Default)]
pub(crate) struct Spares {
    ready: Mutex<HashMap<Key, Spare>>,
}

impl Spares {
    pub(crate) fn take(&self, key: &Key) -> Option<Spare> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    /// Lays one ready for the next version of a record, if there is none.
    pub(crate) fn lay_ready(&self, disk: &Disk, key: &Key, folder: &Path) {
        let missing = || {
            let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            ready.len() < MOST && !ready.contains_key(key)
        };
        if missing()
            && let Some(spare) = Spare::prepare(disk, folder)
        {
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), spare);
        }
    }
}
