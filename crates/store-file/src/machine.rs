//! The machine that a store is on, and records that another machine wrote.

use std::path::Path;

use baton_store::StoreError;
use baton_store::boot::{self, Boot};
use baton_store::disk::Disk;

use crate::version::VersionFile;

/// By how much a record of an earlier run may seem younger than this run, in seconds: between the two somebody may have corrected
/// the clock.
const SLACK: u64 = 5;

/// What a store is on: a run of a machine, and its disk. A test has others than the program's own.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Which machine, and which of its runs.
    pub here: Boot,
    /// When that run began, in seconds since 1970; asked of the system where it is none.
    pub began: Option<u64>,
    /// Its disk.
    pub disk: Disk,
}

impl Machine {
    /// This machine.
    pub fn current() -> Machine {
        Machine { here: Boot::current(), began: None, disk: Disk::default() }
    }

    /// Refuses a record that another run of this machine cannot have left: it was written after this run began.
    ///
    /// A machine runs once at a time. So there is a second one with the same id, and its leases may be running. The wall clock decides
    /// nothing here but a refusal: a clock that was wrong can hold a record back, and cannot free a lease.
    pub(crate) fn refuse_other_run(
        &self,
        root: &Path,
        path: &Path,
        version: &VersionFile,
    ) -> Result<(), StoreError> {
        if version.header.boot == self.here.boot {
            return Ok(());
        }
        let began = self.began.or_else(boot::began);
        let (Some(began), Some(written)) = (began, version.written()) else { return Ok(()) };
        if written <= began.saturating_add(SLACK) {
            return Ok(());
        }
        Err(StoreError::Refused {
            place: path.display().to_string(),
            why: format!(
                "another run of a machine with this id wrote it, {} seconds after this run began: two machines \
                 share the id and the folder, or a clock was wrong",
                written - began
            ),
            hint: format!(
                "give every machine its own /etc/machine-id, and elect among machines with git:DIR?remote=R. If this \
                 machine alone uses the folder, say so: find '{}' -type f -exec touch -d @0 {{}} +",
                root.display()
            ),
        })
    }
}
