//! What went wrong with a file, in the store's words.

use std::io;
use std::path::Path;

use baton_store::StoreError;

pub(crate) fn refused(place: &Path, why: String, hint: &str) -> StoreError {
    StoreError::Refused { place: place.display().to_string(), why, hint: hint.to_string() }
}

/// What an error of the file system means: nothing was applied.
pub(crate) fn failed(path: &Path, error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => refused(
            path,
            "this user may not use it".to_string(),
            "let all agents run as one user, or share the folder DIR of the store among a group: chgrp -R GROUP DIR; \
             chmod -R g+rwX DIR; find DIR -type d -exec chmod g+s {} +",
        ),
        io::ErrorKind::ReadOnlyFilesystem => {
            refused(path, "the file system is read-only".to_string(), "use a folder that can be written")
        }
        io::ErrorKind::NotADirectory => {
            refused(path, "a part of the path is not a folder".to_string(), "name a folder: file:DIR")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Unavailable {
            location: path.display().to_string(),
            why: "the disk is full".to_string(),
            hint:
                "make room; nothing was lost or overwritten, and the running leases run out as if unreachable"
                    .to_string(),
        },
        _ => StoreError::Unavailable {
            location: path.display().to_string(),
            why: error.to_string(),
            hint: "see what the file system says".to_string(),
        },
    }
}
