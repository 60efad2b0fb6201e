//! Files and folders as they are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use baton_election::manifest::Print;
use baton_election::{ContentHash, ContentHasher};
use rustix::fs::OFlags;

use super::{MAX_BYTES, MAX_PATHS, MAX_TRACKED, ManifestError};

/// How often a file is read that is written meanwhile.
const TRIES: usize = 3;
/// What changes without being work: git's own folder, and that of a store.
const LEFT_OUT: [&str; 2] = [".git", ".baton"];

/// How much was looked at.
#[derive(Debug)]
pub(super) struct Meter {
    paths: u64,
    bytes: u64,
    most_paths: u64,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter { paths: 0, bytes: 0, most_paths: MAX_PATHS }
    }
}

impl Meter {
    /// For what a commit has: most of it is as it is there, and is not listed.
    pub(super) fn of_commit() -> Meter {
        Meter { most_paths: MAX_TRACKED, ..Meter::default() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn path(&mut self, path: &Path) -> Result<(), ManifestError> {
        self.paths += 1;
        self.check(path)
    }

    fn check(&self, path: &Path) -> Result<(), ManifestError> {
        if self.paths > self.most_paths || self.bytes > MAX_BYTES {
            return Err(ManifestError::TooMuch { path: path.display().to_string() });
        }
        Ok(())
    }
}

/// Everything below a folder by its path; of a file, itself under an empty one.
pub(super) fn all_below(root: &Path, meter: &mut Meter) -> Result<BTreeMap<String, Print>, ManifestError> {
    let mut entries = BTreeMap::new();
    // A link that took the place of a folder is not followed.
    if !std::fs::symlink_metadata(root).is_ok_and(|about| about.is_dir()) {
        entries.insert(String::new(), print_of(root, meter)?);
        return Ok(entries);
    }
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let Ok(inside) = std::fs::read_dir(root.join(&folder)) else {
            meter.path(root)?;
            entries.insert(text_of(&folder), Print::Unreadable);
            continue;
        };
        for entry in inside {
            let Ok(entry) = entry else {
                entries.insert(text_of(&folder), Print::Unreadable);
                break;
            };
            if is_left_out(&entry.file_name()) {
                continue;
            }
            let path = folder.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                // Folders count, too: a tree of nothing else ends all the same.
                meter.path(root)?;
                folders.push(path);
            } else {
                entries.insert(text_of(&path), print_of(&root.join(&path), meter)?);
            }
        }
    }
    Ok(entries)
}

pub(super) fn is_left_out(name: &OsStr) -> bool {
    LEFT_OUT.iter().any(|left_out| name == *left_out)
}

/// What is at a path below a place. Where a link took the place of a folder on the way there is nothing, as git sees it too; what leads out of the
/// place is not looked at.
pub(super) fn print_below(top: &Path, path: &Path, meter: &mut Meter) -> Result<Print, ManifestError> {
    if path.components().any(|part| !matches!(part, Component::Normal(_))) {
        meter.path(path)?;
        return Ok(Print::Unreadable);
    }
    let mut folder = top.to_path_buf();
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if std::fs::symlink_metadata(&folder).is_ok_and(|about| about.is_symlink()) {
            meter.path(path)?;
            return Ok(Print::Absent);
        }
    }
    print_of(&top.join(path), meter)
}

/// What is at a path.
pub(super) fn print_of(path: &Path, meter: &mut Meter) -> Result<Print, ManifestError> {
    meter.path(path)?;
    let about = match std::fs::symlink_metadata(path) {
        Ok(about) => about,
        Err(error) if is_absent(&error) => return Ok(Print::Absent),
        Err(_) => return Ok(Print::Unreadable),
    };
    if about.is_symlink() {
        return Ok(std::fs::read_link(path).map_or(Print::Unreadable, |target| Print::Link(text_of(&target))));
    }
    if !about.is_file() {
        return Ok(Print::Other);
    }
    for _ in 0..TRIES {
        match hash(path, meter) {
            Ok(Some((hash, true))) => return Ok(Print::Program(hash)),
            Ok(Some((hash, false))) => return Ok(Print::File(hash)),
            Ok(None) => {}
            Err(Stopped::Bound(error)) => return Err(error),
            Err(Stopped::Failed(error)) if is_absent(&error) => return Ok(Print::Absent),
            Err(Stopped::Failed(_)) => return Ok(Print::Unreadable),
        }
    }
    Ok(Print::Unsteady)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

enum Stopped {
    Bound(ManifestError),
    Failed(io::Error),
}

/// Opens a file. Whatever took its place neither leads elsewhere nor keeps anybody waiting.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).map_err(io::Error::other)?;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// What is in a file, if that is no more than `most` bytes.
pub(super) fn content_of(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut content = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(content)
}

/// The hash of a file, and whether it is a program; none if it was written meanwhile.
fn hash(path: &Path, meter: &mut Meter) -> Result<Option<(ContentHash, bool)>, Stopped> {
    let failed = Stopped::Failed;
    let mut file = open(path).map_err(failed)?;
    let before = file.metadata().map_err(failed)?;
    if !before.is_file() {
        return Ok(None);
    }
    if meter.bytes.saturating_add(before.len()) > MAX_BYTES {
        return Err(Stopped::Bound(ManifestError::TooMuch { path: path.display().to_string() }));
    }
    let (mut hasher, mut part, mut length) = (ContentHasher::default(), vec![0; 64 * 1024], 0_u64);
    loop {
        let read = file.read(&mut part).map_err(failed)?;
        if read == 0 {
            break;
        }
        hasher.update(&part[..read]);
        length += read as u64;
        meter.bytes += read as u64;
        meter.check(path).map_err(Stopped::Bound)?;
    }
    let after = file.metadata().map_err(failed)?;
    let steady = same(&before, &after) && length == after.len();
    Ok(steady.then(|| (hasher.finish(), after.mode() & 0o111 != 0)))
}

/// Whether nothing was written between two looks at a file.
fn same(before: &Metadata, after: &Metadata) -> bool {
    let marks = |about: &Metadata| {
        (about.len(), about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec())
    };
    marks(before) == marks(after)
}

/// A path as text, no two paths as the same one: what is no UTF-8 is written as `\xNN`, and a backslash as two.
pub(super) fn text_of(path: &Path) -> String {
    text_of_bytes(path.as_os_str().as_bytes())
}

pub(super) fn text_of_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// The path that such a text stands for.
pub(super) fn path_of(text: &str) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let byte = after.strip_prefix(b"x").and_then(|after| after.get(..2));
        let byte = byte.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match (first, byte) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            (b'\\', None) => {
                bytes.push(b'\\');
                rest = after.strip_prefix(b"\\").unwrap_or(after);
            }
            (first, _) => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_paths_have_the_same_text() {
        for bytes in
            [&b"plain/file"[..], b"back\\slash", b"\\x41", b"\xff\xfe/ok", b"\\\\", b"", "ü\\".as_bytes()]
        {
            let path = Path::new(OsStr::from_bytes(bytes));
            assert_eq!(path_of(&text_of(path)), path, "{bytes:?}");
        }
        assert_ne!(
            text_of(Path::new(OsStr::from_bytes(b"\x41\\x41"))),
            text_of(Path::new(OsStr::from_bytes(b"AA")))
        );
    }
}
