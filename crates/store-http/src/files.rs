//! Files with secrets, which others replace while a program runs.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// How a file stands, which may be a link.
    pub(crate) fn of(file: &Path) -> io::Result<Stamp> {
        Ok(Stamp::from(&std::fs::metadata(file)?))
    }
}

impl From<&Metadata> for Stamp {
    fn from(file: &Metadata) -> Stamp {
        Stamp {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

/// Whether others than its owner can read a secret. One that this user was given to read, such as a token that is root's, may be open to a group.
pub(crate) fn is_shared(file: &Metadata) -> bool {
    let own = file.uid() == rustix::process::geteuid().as_raw();
    file.mode() & if own { 0o077 } else { 0o007 } != 0
}
