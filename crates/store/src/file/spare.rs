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
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags};

use super::version::Folder;
use crate::key::Key;

/// The length of a spare: enough for most documents.
const LENGTH: usize = 4_096;
/// File systems that make the data of a nameless file survive, whatever name it gets later: ext4, xfs, tmpfs. Others, such as btrfs,
/// may log the name without the data.
const FIT: [i128; 3] = [0xEF53, 0x5846_5342, 0x0102_1994];
/// How many records spares are kept for.
const MOST: usize = 16;

/// A file without a name.
pub(super) struct Spare(File);

impl Spare {
    /// Makes one on the file system of this folder; none where that cannot be.
    fn prepare(folder: &Path) -> Option<Spare> {
        let kind = rustix::fs::statfs(folder).ok()?.f_type;
        if !FIT.contains(&(i128::from(kind) & 0xFFFF_FFFF)) {
            return None;
        }
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok()?);
        file.write_all_at(&[0; LENGTH], 0).ok()?;
        file.sync_all().ok()?;
        Some(Spare(file))
    }

    /// Writes a text, with newlines up to the length, and makes it survive a power cut. False if it does not fit.
    pub(super) fn fill(&self, text: &str) -> io::Result<bool> {
        if text.len() > LENGTH {
            return Ok(false);
        }
        let mut block = text.as_bytes().to_vec();
        block.resize(LENGTH, b'\n');
        self.0.write_all_at(&block, 0)?;
        self.0.sync_data()?;
        Ok(true)
    }

    /// Gives it a name in this folder, unless that is taken.
    pub(super) fn link(&self, folder: &Folder, name: &str) -> io::Result<()> {
        let own = format!("/proc/self/fd/{}", self.0.as_fd().as_raw_fd());
        folder.link(Path::new(&own), name, AtFlags::SYMLINK_FOLLOW)
    }

    pub(super) fn metadata(&self) -> io::Result<std::fs::Metadata> {
        self.0.metadata()
    }
}

/// The spares of a store, by the record that they are for.
#[derive(Default)]
pub(super) struct Spares {
    ready: Mutex<HashMap<Key, Spare>>,
}

impl Spares {
    pub(super) fn take(&self, key: &Key) -> Option<Spare> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    /// Lays one ready for the next version of a record, if there is none.
    pub(super) fn lay_ready(&self, key: &Key, folder: &Path) {
        let missing = || {
            let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            ready.len() < MOST && !ready.contains_key(key)
        };
        if missing()
            && let Some(spare) = Spare::prepare(folder)
        {
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), spare);
        }
    }
}
