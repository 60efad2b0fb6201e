//! What a failure of the file or of the database means, in the store's words.

use std::any::Any;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use baton_store::{Key, NotARecord, StoreError};
use redb::{DatabaseError, Error, StorageError};

/// Where the store is; every failure names it.
#[derive(Clone, Debug)]
pub(crate) struct StorePath {
    pub(crate) path: PathBuf,
}

impl StorePath {
    pub(crate) fn new(path: &Path) -> StorePath {
        StorePath { path: std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()) }
    }

    pub(crate) fn location(&self) -> String {
        format!("embedded:{}", self.path.display())
    }

    pub(crate) fn refused(&self, why: impl Display, hint: &str) -> StoreError {
        StoreError::Refused {
            place: self.path.display().to_string(),
            why: why.to_string(),
            hint: hint.to_string(),
        }
    }

    pub(crate) fn corrupt(&self, why: impl Display) -> StoreError {
        StoreError::Corrupt {
            place: self.path.display().to_string(),
            why: why.to_string(),
            hint: "put it aside and put back a snapshot with `baton restore`; nothing was overwritten"
                .to_string(),
        }
    }

    /// A record that is not one.
    pub(crate) fn not_a_record(&self, key: &Key, not: NotARecord) -> StoreError {
        not.at(format!("`{key}` in {}", self.path.display()))
    }

    /// Not applied, and the same may succeed later.
    pub(crate) fn unavailable(&self, why: impl Display) -> StoreError {
        StoreError::Unavailable {
            location: self.location(),
            why: why.to_string(),
            hint: "see that the disk is well and not full; the store tries again by itself every second"
                .to_string(),
        }
    }

    /// May have been applied.
    pub(crate) fn unknown(&self, why: impl Display) -> StoreError {
        StoreError::Unknown { location: self.location(), why: why.to_string() }
    }

    /// The file system's word on a file: nothing was applied.
    pub(crate) fn io(&self, error: &io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::PermissionDenied => {
                self.refused("this user may not use it", "run as the user whose file it is")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                self.refused("the file system is read-only", "use a file that can be written")
            }
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                self.refused("there is no such folder", &self.make_folder())
            }
            _ => self.unavailable(error),
        }
    }

    fn make_folder(&self) -> String {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        format!("make it first: mkdir -p {}", folder.unwrap_or(std::path::Path::new(".")).display())
    }

    /// What keeps a database from being opened.
    pub(crate) fn opening(&self, error: DatabaseError) -> StoreError {
        match error {
            DatabaseError::DatabaseAlreadyOpen => self.refused(
                "another process has it open, and only one can",
                &format!(
                    "a Baton server has {} open; use --store http://HOST:PORT, which it printed at its start, or stop it",
                    self.path.display()
                ),
            ),
            DatabaseError::UpgradeRequired(_) | DatabaseError::RepairAborted => self.corrupt(error),
            DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
                    self.corrupt(error)
                }
                _ => self.io(&error),
            },
            other => self.reading(Error::from(other)),
        }
    }

    /// What keeps a database from being read: nothing was applied.
    pub(crate) fn reading(&self, error: Error) -> StoreError {
        match error {
            Error::Corrupted(why) => self.corrupt(why),
            Error::TableDoesNotExist(_)
            | Error::TableTypeMismatch { .. }
            | Error::TableIsMultimap(_)
            | Error::TypeDefinitionChanged { .. } => {
                self.refused("it is a database, but not one of Baton's", "name another file: embedded:FILE")
            }
            other => self.unavailable(other),
        }
    }
}

/// What a panic said: the database's own code asserts where it finds what cannot be.
pub(crate) fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it is not intact".to_string())
}
