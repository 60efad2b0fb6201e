//! What outlives an election's folder: up to which epoch its tokens may have been given, and for how long.
//!
//! It lies in a folder of its own, so that whoever deletes the election's leaves it, and is written before a version that goes beyond
//! it. Whoever deletes the whole store deletes it too: that is a new store, with a new id.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use baton_election::time::{Span, as_millis};
use baton_election::{Document, Epoch};
use serde::{Deserialize, Serialize};

use super::layout;
use crate::store::Trace;

/// What is kept of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// No epoch above this was given.
    epoch: Epoch,
    /// No lease longer than this was given.
    #[serde(rename = "ttl_ms", with = "as_millis")]
    ttl: Span,
}

impl Mark {
    /// What must be kept before this document is written, if it goes beyond what is kept.
    pub(super) fn raised(kept: Option<Mark>, document: &Document, reserved: u64) -> Option<Mark> {
        let ttl = document.lease_holder().map_or(Span::ZERO, |holder| holder.ttl);
        let (epoch, longest) = kept.map_or((Epoch(0), Span::ZERO), |kept| (kept.epoch, kept.ttl));
        let next = Mark { epoch: epoch.max(Epoch(reserved)), ttl: longest.max(ttl) };
        (Some(next) != kept).then_some(next)
    }

    /// What is kept; none if nothing is, or if it cannot be read.
    pub(super) fn read(path: &Path) -> Option<Mark> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }

    /// Keeps it, so that it survives a power cut.
    pub(super) fn write(self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let temporary = layout::temporary(folder);
        let text = serde_json::to_string(&self)? + "\n";
        let written = File::create_new(&temporary).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            fs::rename(&temporary, path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        super::place::sync_folder(folder)
    }

    /// What is told of an election whose folder is gone.
    pub(super) fn trace(self) -> Trace {
        Trace { epoch: self.epoch, lease: self.ttl }
    }
}
