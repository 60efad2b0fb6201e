//! One version of a record: a line about the file itself, then the record.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_election::time::{Moment, Span};
use baton_election::{ContentHash, Epoch};
use baton_store::boot::{self, Boot};
use baton_store::disk::Disk;
use baton_store::{Key, Record, StoreError, Version};
use rustix::fs::{AtFlags, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::fault::failed;
use crate::shape;
use crate::spare::Spare;

/// The largest version file that is read: a document with a full checkpoint, several times over.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;
/// How long what was read or written stays in the machine's memory, surely enough: leases are renewed more often.
const YOUNG: Span = Span::secs(30);

/// What a version says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Its number.
    pub(crate) version: u64,
    /// The machine that wrote it.
    pub(crate) machine: String,
    /// The namespace whose boot-time clock stamped it.
    pub(crate) time_namespace: String,
    /// The run of that machine in which it was written.
    pub(crate) boot: String,
    /// The run of that machine in which the record's clock was restarted.
    pub(crate) beat_boot: String,
    /// When, on that run's boot-time clock.
    pub(crate) beat_ns: u64,
    /// The run of that machine in which the election's epoch began: after a reboot later ones may have been given and lost.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) epoch_boot: String,
}

impl Header {
    /// How long ago the record's clock was restarted, at least. A reboot ends every lease that came before it, with the processes that held them; the window
    /// of a quota goes on, and has lasted at least as long as the machine runs.
    pub(crate) fn age(&self, key: &Key, here: &Boot, now: Moment) -> Span {
        match (self.beat_boot == here.boot, key) {
            (true, _) => now.since(Moment::from_nanos(self.beat_ns)),
            (false, Key::Item(..)) => now.since(Moment::from_nanos(0)),
            (
                false,
                Key::Store
                | Key::Tokens
                | Key::Election(_)
                | Key::Candidate(..)
                | Key::History(_)
                | Key::Fence(_)
                | Key::FenceLog(..)
                | Key::Audit(..),
            ) => Span::MAX,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct FirstLine {
    #[serde(flatten)]
    header: Header,
    /// Over the header and the rest of the file.
    sha256: ContentHash,
}

/// What tells a version's file from another that bears its name: of a store that was wiped and made anew, or changed by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Print {
    inode: u64,
    modified: (i64, i64),
    length: u64,
}

impl Print {
    fn of(data: &fs::Metadata) -> Print {
        Print { inode: data.ino(), modified: (data.mtime(), data.mtime_nsec()), length: data.len() }
    }
}

/// A folder of versions, held open: what is linked into it never lands in another that bears its name.
pub(crate) struct Folder {
    path: PathBuf,
    open: fs::File,
}

impl Folder {
    /// Opens it. A conflict if it is gone already.
    pub(crate) fn open(path: &Path) -> Result<Folder, StoreError> {
        match fs::File::open(path) {
            Ok(open) => Ok(Folder { path: path.to_path_buf(), open }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Conflict),
            Err(error) => Err(failed(path, &error)),
        }
    }

    /// Gives a file a name here, unless that is taken. A folder that was deleted takes nothing.
    pub(crate) fn link(&self, disk: &Disk, file: (&Path, &Path, AtFlags), name: &str) -> io::Result<()> {
        disk.link(file, (&self.open, &self.path), name)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is a file of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.open, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// The names in it; those that can be read.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = rustix::fs::Dir::read_from(&self.open).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_string)).collect()
    }

    /// Removes a file from this very folder, whatever bears its name by now.
    pub(crate) fn remove(&self, disk: &Disk, name: &str) -> io::Result<()> {
        disk.remove_in((&self.open, &self.path), name)
    }

    fn metadata(&self, name: &str) -> io::Result<fs::Metadata> {
        let found = rustix::fs::openat(&self.open, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        fs::File::from(found).metadata()
    }
}

/// A version, read or about to be written.
pub(crate) struct VersionFile {
    pub(crate) header: Header,
    pub(crate) record: Record,
    pub(crate) checksum: ContentHash,
    text: String,
    /// None until it is written.
    print: Option<Print>,
    /// When this process read or made it.
    known_since: Moment,
}

impl VersionFile {
    /// What a swap names it by.
    pub(crate) fn token(&self) -> Version {
        Version::new(&format!("{}:{}", self.header.version, self.checksum))
    }

    pub(crate) fn new(header: Header, record: Record) -> VersionFile {
        let body = record.to_json() + "\n";
        let checksum = checksum(&header, &body);
        let line = FirstLine { header, sha256: checksum };
        let Ok(first) = serde_json::to_string(&line) else { unreachable!("a header is always expressible") };
        VersionFile {
            header: line.header,
            record,
            checksum,
            text: format!("{first}\n{body}"),
            print: None,
            known_since: boot::now(),
        }
    }

    /// Reads a version; none if there is no such file.
    pub(crate) fn read(
        key: &Key,
        path: &Path,
        number: u64,
        here: &Boot,
    ) -> Result<Option<VersionFile>, StoreError> {
        let (text, print) = match read_bounded(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(corrupt(path, "it is not a version file of Baton"));
            }
            Err(error) => return Err(failed(path, &error)),
        };
        let Some((first, body)) = text.split_once('\n') else {
            return Err(corrupt(path, "it is cut short"));
        };
        // Newlines at the end only fill the block.
        let body = &body[..(body.trim_end_matches('\n').len() + 1).min(body.len())];
        let Ok(FirstLine { header, sha256 }) = serde_json::from_str(first) else {
            return Err(corrupt(path, "its first line is not a version's"));
        };
        if checksum(&header, body) != sha256 {
            return Err(corrupt(path, "its checksum does not fit: it was cut short or changed by hand"));
        }
        if header.version != number {
            return Err(corrupt(path, &format!("it says that it is version {}", header.version)));
        }
        refuse_foreign(path, &header, here)?;
        let record = Record::from_json(key, body).map_err(|error| error.at(path.display().to_string()))?;
        Ok(Some(VersionFile {
            header,
            record,
            checksum: sha256,
            text,
            print: Some(print),
            known_since: boot::now(),
        }))
    }

    /// The epoch that it gives; zero if it is not of an election.
    pub(crate) fn epoch(&self) -> Epoch {
        self.record.as_election().map_or(Epoch(0), |document| document.epoch)
    }

    /// Whether it was written or read a moment ago, so that it and its neighbours are in the machine's memory.
    pub(crate) fn is_young(&self) -> bool {
        boot::now().since(self.known_since) < YOUNG
    }

    /// When its file was written, by the wall clock, in seconds since 1970.
    pub(crate) fn written(&self) -> Option<u64> {
        u64::try_from(self.print?.modified.0).ok()
    }

    /// Whether the file of this version is still the one that was read or written.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        let found = fs::metadata(folder.join(self.header.version.to_string()));
        found.is_ok_and(|data| self.print == Some(Print::of(&data)))
    }

    /// The same, whatever became of the folder's name since it was opened.
    pub(crate) fn is_in_open(&self, folder: &Folder) -> bool {
        let found = folder.metadata(&self.header.version.to_string());
        found.is_ok_and(|data| self.print == Some(Print::of(&data)))
    }

    /// Makes this the next version, or finds that somebody else was first. By a spare it is quicker. `claim` is called once, when all
    /// that is missing is the name.
    pub(crate) fn commit(
        &mut self,
        disk: &Disk,
        folder: &Folder,
        spare: Option<Spare>,
        claim: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let name = self.header.version.to_string();
        let mut claim = Some(claim);
        let mut claimed = || claim.take().map_or(Ok(()), |claim| claim());
        if let Some(spare) = spare
            && let Ok(true) = spare.fill(disk, &self.text)
            && let Ok(data) = spare.metadata()
        {
            claimed()?;
            match spare.link(disk, folder, &name) {
                Ok(()) => {
                    self.print = Some(Print::of(&data));
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(StoreError::Conflict);
                }
                // Not by this way, then.
                Err(_) => {}
            }
        }
        // Beside the folder, not in it: who waits for a version is not woken for less.
        let temporary = shape::temporary(folder.path.parent().unwrap_or(&folder.path));
        let written = disk.make_file(&temporary, 0o666).and_then(|file| {
            disk.write(&file, &temporary, self.text.as_bytes())?;
            disk.sync_file(&file, &temporary)?;
            file.metadata()
        });
        self.print = written.as_ref().ok().map(Print::of);
        let outcome = match written {
            // The folder was deleted meanwhile, with all that was beside it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::Conflict),
            Err(error) => Err(failed(&temporary, &error)),
            Ok(_) => claimed().and_then(|()| {
                match folder.link(disk, (&temporary, &temporary, AtFlags::empty()), &name) {
                    Ok(()) => Ok(()),
                    // Taken, or the folder was deleted meanwhile, or the temporary file with all that was beside it.
                    Err(error)
                        if [io::ErrorKind::AlreadyExists, io::ErrorKind::NotFound]
                            .contains(&error.kind()) =>
                    {
                        Err(StoreError::Conflict)
                    }
                    Err(error) => Err(failed(&folder.path, &error)),
                }
            }),
        };
        let _ = disk.remove_file(&temporary);
        outcome
    }
}

fn checksum(header: &Header, body: &str) -> ContentHash {
    let Ok(header) = serde_json::to_string(header) else { unreachable!("a header is always expressible") };
    ContentHash::of(format!("{header}\n{body}").as_bytes())
}

fn read_bounded(path: &Path) -> io::Result<(String, Print)> {
    use std::io::Read;
    let file = fs::File::open(path)?;
    let print = Print::of(&file.metadata()?);
    let mut text = String::with_capacity(usize::try_from(print.length.min(MAX_FILE_BYTES)).unwrap_or(0) + 1);
    file.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok((text, print))
}

fn corrupt(path: &Path, why: &str) -> StoreError {
    StoreError::Corrupt {
        place: path.display().to_string(),
        why: why.to_string(),
        hint: "nothing was changed. Restore the file from a backup; or move it away, knowing that an epoch may then be \
               given a second time, and delete the fences of this election's resources"
            .to_string(),
    }
}

/// Stamps of another machine or time namespace cannot be compared with ours.
fn refuse_foreign(path: &Path, header: &Header, here: &Boot) -> Result<(), StoreError> {
    let refused = |why: &str, hint: &str| StoreError::Refused {
        place: path.display().to_string(),
        why: why.to_string(),
        hint: hint.to_string(),
    };
    if header.machine != here.machine {
        return Err(refused(
            "it was written on another machine, whose clock cannot be compared with this one's",
            "to elect among several machines use git:DIR?remote=R; if the folder was moved here, start with a new one",
        ));
    }
    if header.time_namespace != here.time_namespace && header.boot == here.boot {
        return Err(refused(
            "it was written in another time namespace (a container with a clock of its own)",
            "let all agents run in the same time namespace",
        ));
    }
    Ok(())
}
