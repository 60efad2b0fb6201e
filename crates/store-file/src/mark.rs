//! What outlives an election's folder, and a power cut: up to which epoch tokens may have been given, and for how long at a time.
//!
//! A mark is the *name* of an empty file, `EPOCH-TTL`, in a folder of its own beside the elections. The highest epoch counts, and the
//! longest lease beside it. Names are only ever added, and lower ones removed: whoever comes late adds a lower one, which
//! changes nothing. A mark is durable before any token that it covers is given. Whoever deletes the whole store deletes its
//! marks: that is a new store, with a new id.
//!
//! A *claim* lies beside the marks: an empty file whose name is an epoch. A writer makes it before its version gives that epoch.
//! Its name can be made once, so no second version gives the same epoch, whatever was deleted between the two. Claims are not synced: a
//! reboot begins above the mark. Only the highest one counts, and only lower ones are removed.

use std::io;
use std::path::Path;

use baton_election::Epoch;
use baton_election::time::Span;
use baton_store::disk::Disk;
use baton_store::{StoreError, Trace};

use crate::fault::failed;
use crate::{open, shape};

/// What is kept of an election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// No epoch above this was given.
    pub(crate) epoch: Epoch,
    /// No lease longer than this was given since the mark is where it is.
    pub(crate) ttl: Span,
}

impl Mark {
    fn parse(name: &str) -> Option<Mark> {
        let (epoch, ttl) = name.split_once('-')?;
        Some(Mark { epoch: Epoch(epoch.parse().ok()?), ttl: Span::millis(ttl.parse().ok()?) })
    }

    pub(crate) fn name(self) -> String {
        format!("{}-{}", self.epoch, self.ttl.as_millis())
    }

    /// Whether this covers a token of that epoch with a lease of that length.
    pub(crate) fn covers(self, epoch: Epoch, ttl: Span) -> bool {
        self.epoch >= epoch && self.ttl >= ttl
    }

    /// What is kept in this folder: of the highest epoch, the longest lease. Only a folder that is not there says that nothing is.
    pub(crate) fn read(folder: &Path) -> Result<Option<Mark>, StoreError> {
        let failed = |error: &io::Error| failed(folder, error);
        let mut highest = None;
        for entry in shape::entries(folder).map_err(|error| failed(&error))? {
            let name = entry.map_err(|error| failed(&error))?.file_name();
            highest = highest.max(name.to_str().and_then(Mark::parse));
        }
        Ok(highest)
    }

    /// Keeps it, so that it survives a power cut, and removes what is lower. `relied_on` says whether another is kept there already.
    pub(crate) fn keep(
        self,
        disk: &Disk,
        root: &Path,
        folder: &Path,
        relied_on: bool,
    ) -> Result<(), StoreError> {
        open::create(disk, root, folder, relied_on)?;
        let path = folder.join(self.name());
        match disk.make_file(&path, 0o666) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&path, &error)),
        }
        disk.sync_folder(folder).map_err(|error| failed(folder, &error))?;
        for entry in shape::entries(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if name.to_str().and_then(Mark::parse).is_some_and(|other| other.epoch < self.epoch) {
                let _ = disk.remove_file(&entry.path());
            }
        }
        Ok(())
    }

    /// Claims an epoch for one version. If it is not above all that were claimed before, says up to where they go.
    pub(crate) fn claim(disk: &Disk, folder: &Path, epoch: Epoch) -> Result<Result<(), Epoch>, StoreError> {
        let path = folder.join(epoch.to_string());
        let made = match disk.make_file(&path, 0o666) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk.make_folders(folder, 0o777).and_then(|_| disk.make_file(&path, 0o666))
            }
            made => made,
        };
        let taken = match made {
            Ok(_) => false,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => true,
            Err(error) => return Err(failed(&path, &error)),
        };
        // Only now: whoever removed a lower claim had made a higher one before.
        let failed = |error: &io::Error| failed(folder, error);
        let (mut highest, mut lower) = (epoch, Vec::new());
        for entry in shape::entries(folder).map_err(|error| failed(&error))? {
            let entry = entry.map_err(|error| failed(&error))?;
            match entry.file_name().to_str().and_then(|name| name.parse().ok()).map(Epoch) {
                Some(other) if other < epoch => lower.push(entry.path()),
                Some(other) => highest = highest.max(other),
                None => {}
            }
        }
        if taken || highest > epoch {
            return Ok(Err(highest));
        }
        for path in lower {
            let _ = disk.remove_file(&path);
        }
        Ok(Ok(()))
    }

    /// What is told of an election whose folder is gone.
    pub(crate) fn trace(self) -> Trace {
        Trace { epoch: self.epoch, lease: self.ttl }
    }
}
