//! What a member keeps on disk, and that only one process keeps it.
//!
//! The folder has a lock, `lock`; what was kept, `state`; its next version while it is written, `state.next`; and the socket of
//! the control. Assumes a local file system whose `fsync` and `rename` mean what they say. Guarantees that [`Folder::keep`]
//! returns only when what was kept survives a power cut, that after a failure nothing more is kept, that a file which
//! was changed, cut off or written for another member is refused and named, and that two processes never use one folder. Does
//! not guarantee anything against a folder that was put back from a backup: a member with an old memory can vote twice. Start
//! such a member with an empty folder, and it will ask the others.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use baton_peer::NodeId;
use baton_store::disk::Disk;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::codec;

/// What stands first in the file, with its version.
const HEAD: &[u8; 16] = b"baton peer v2\n\0\0";
/// The same in every version.
const HEAD_WORDS: &[u8] = b"baton peer v";
/// More is not ours: what members keep is a few numbers and a list of at most 127 members.
const MAX_BYTES: u64 = 1 << 20;
const SUM_BYTES: usize = 32;

/// Why nothing can be kept, or read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another process is this member.
    #[error("another process uses {}", .0.display())]
    InUse(PathBuf),
    /// The file is not as it was written. Nothing was changed.
    #[error("{} is damaged: {why}", file.display())]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another version of this program wrote the file. Nothing was changed.
    #[error("{} was written by another version of baton", .0.display())]
    OtherVersion(PathBuf),
    /// The file is another member's, or another algorithm's. Nothing was changed.
    #[error("{} belongs to {owner}", file.display())]
    Foreign {
        /// Which file.
        file: PathBuf,
        /// Whose it is.
        owner: String,
    },
    /// The system refuses. What was to be kept may or may not be there after the next start; the member must not speak.
    #[error("cannot {what} {}: {error}", file.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        file: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// Whose memory it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) algorithm: String,
    pub(crate) group: String,
    pub(crate) id: NodeId,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "member {} of group `{}` ({})", self.id, self.group, self.algorithm)
    }
}

/// The folder of a member, for this process alone.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    owner: Owner,
    disk: Disk,
    /// Held as long as this lives; the kernel lets go of it when the process dies.
    _lock: File,
    /// Something could not be kept: what is on disk is not known, and nothing must follow it.
    broken: bool,
}

impl Folder {
    /// Makes the folder if there is none, and takes it.
    pub(crate) fn take(path: &Path, owner: Owner) -> Result<Folder, StateError> {
        Folder::take_on(Disk::default(), path, owner)
    }

    fn take_on(disk: Disk, path: &Path, owner: Owner) -> Result<Folder, StateError> {
        let made = disk.make_folders(path, 0o700).map_err(failed("make", path))?;
        // Whoever made them: a process may have died between the making and the sync.
        for folder in path.ancestors().skip(1) {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let ours = made.iter().any(|made| made.parent() == Some(folder));
            match disk.sync_folder(folder) {
                // It may have been made for us below folders that we may not read.
                Err(_) if !ours => {}
                synced => synced.map_err(failed("sync", folder))?,
            }
        }
        let file = path.join("lock");
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&file)
            .map_err(failed("open", &file))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StateError::InUse(path.to_path_buf())),
            Err(TryLockError::Error(error)) => return Err(failed("lock", &file)(error)),
        }
        Ok(Folder { path: path.to_path_buf(), owner, disk, _lock: lock, broken: false })
    }

    /// What was kept, if anything.
    pub(crate) fn kept<S: DeserializeOwned>(&self) -> Result<Option<S>, StateError> {
        let file = self.path.join("state");
        let bytes = match read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &file)(error)),
        };
        let damaged = |why: &str| StateError::Damaged { file: file.clone(), why: why.to_string() };
        let rest = match bytes.strip_prefix(HEAD) {
            Some(rest) => rest,
            None if is_of_another_version(&bytes) => return Err(StateError::OtherVersion(file)),
            None => return Err(damaged("it does not begin as such a file does")),
        };
        let Some((content, sum)) = rest.split_last_chunk::<SUM_BYTES>() else {
            return Err(damaged("it is cut off"));
        };
        if Sha256::digest(content).as_slice() != sum {
            return Err(damaged("its checksum is wrong"));
        }
        let (owner, kept): (Owner, &[u8]) =
            postcard::take_from_bytes(content).map_err(|_| damaged("it cannot be understood"))?;
        if owner != self.owner {
            return Err(StateError::Foreign { file, owner: owner.to_string() });
        }
        let kept = codec::decode(kept).ok_or_else(|| damaged("it cannot be understood"))?;
        // A process that died between the renaming and the sync left what is read here, and what a power cut could still undo.
        File::open(&file).and_then(|file| file.sync_all()).map_err(failed("sync", &file))?;
        self.sync()?;
        Ok(Some(kept))
    }

    /// Keeps this in the place of what was kept before. It survives a power cut once this returns.
    pub(crate) fn keep<S: Serialize>(&mut self, kept: &S) -> Result<(), StateError> {
        let file = self.path.join("state.next");
        if self.broken {
            let error = io::Error::other("an earlier change could not be kept");
            return Err(failed("write", &file)(error));
        }
        self.broken = true;
        self.replace(kept, &file)?;
        self.broken = false;
        Ok(())
    }

    fn replace<S: Serialize>(&self, kept: &S, next: &Path) -> Result<(), StateError> {
        let encode = |_| failed("write", next)(io::Error::other("it cannot be put into bytes"));
        let mut content = codec::encode(&self.owner).map_err(encode)?;
        content.extend(codec::encode(kept).map_err(encode)?);
        let bytes = [&HEAD[..], &content, &Sha256::digest(&content)].concat();
        // What a process that died left there is nobody's.
        let left = self.disk.remove_file(next);
        left.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
            .map_err(failed("write", next))?;
        let file = self.disk.make_file(next, 0o600).map_err(failed("write", next))?;
        let written = self.disk.write(&file, next, &bytes).and_then(|()| self.disk.sync_file(&file, next));
        written.map_err(failed("write", next))?;
        let last = self.path.join("state");
        self.disk.rename(next, &last).map_err(failed("replace", &last))?;
        self.sync()
    }

    /// Makes the names in the folder survive a power cut.
    fn sync(&self) -> Result<(), StateError> {
        self.disk.sync_folder(&self.path).map_err(failed("sync", &self.path))
    }
}

/// The thread that writes. A thread of its own, since those that all tasks share may be busy with names that nobody resolves.
#[derive(Debug)]
pub(crate) struct Keeper<S> {
    jobs: mpsc::Sender<(S, oneshot::Sender<Result<(), StateError>>)>,
    path: PathBuf,
}

impl<S: Serialize + Send + 'static> Keeper<S> {
    pub(crate) fn start(mut folder: Folder) -> Result<Keeper<S>, StateError> {
        let path = folder.path.clone();
        let (jobs, work) = mpsc::channel::<(S, oneshot::Sender<_>)>();
        let write = move || {
            for (kept, done) in work {
                let _ = done.send(folder.keep(&kept));
            }
        };
        let started = std::thread::Builder::new().name("keeper".to_string()).spawn(write);
        started.map_err(failed("start a thread for", &path))?;
        Ok(Keeper { jobs, path })
    }

    /// As [`Folder::keep`]. While the disk hangs, only who waits here does.
    pub(crate) async fn keep(&self, kept: S) -> Result<(), StateError> {
        let (done, kept_now) = oneshot::channel();
        let lost = || failed("write", &self.path)(io::Error::other("the writer was lost"));
        self.jobs.send((kept, done)).map_err(|_| lost())?;
        kept_now.await.map_err(|_| lost())?
    }
}

/// Whether it begins as such a file does, but for the number. A flipped bit makes no version.
fn is_of_another_version(bytes: &[u8]) -> bool {
    let number = bytes.get(..HEAD.len()).and_then(|head| head.strip_prefix(HEAD_WORDS));
    number.is_some_and(|number| match number.iter().position(|byte| *byte == b'\n') {
        Some(end) => {
            let (number, rest) = number.split_at(end);
            !number.is_empty()
                && number.iter().all(u8::is_ascii_digit)
                && rest.iter().skip(1).all(|byte| *byte == 0)
        }
        None => false,
    })
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn failed(what: &'static str, file: &Path) -> impl FnOnce(io::Error) -> StateError {
    let file = file.to_path_buf();
    move |error| StateError::Io { what, file, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_store::conformance::power::{Recorder, Unsynced, cut};
    use std::fs;
    use std::sync::Arc;

    fn owner(id: u16) -> Owner {
        Owner { algorithm: "toy".into(), group: "test".into(), id: NodeId::new(id).unwrap() }
    }

    type Saved = (u64, Option<String>);

    #[test]
    fn what_is_kept_is_there_at_the_next_start() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder::take(&place.path().join("a/b"), owner(1)).unwrap();
        assert_eq!(folder.kept::<Saved>().unwrap(), None);
        for kept in [(1, None), (2, Some("x".to_string()))] {
            folder.keep(&kept).unwrap();
            assert_eq!(folder.kept::<Saved>().unwrap(), Some(kept));
        }
        drop(folder);
        let folder = Folder::take(&place.path().join("a/b"), owner(1)).unwrap();
        assert_eq!(folder.kept::<Saved>().unwrap(), Some((2, Some("x".to_string()))));
    }

    /// What a member finds in its folder after the power went at this step. The folder may be gone, with all that was in it.
    fn after_a_cut(
        place: &Path,
        steps: &[baton_store::disk::Step],
        unsynced: Unsynced,
    ) -> Result<Option<u64>, StateError> {
        let after = tempfile::tempdir().unwrap();
        cut(steps, unsynced, place, after.path()).unwrap();
        let folder = Folder::take(&after.path().join("a/b"), owner(1))?;
        folder.kept::<u64>()
    }

    #[test]
    fn what_was_kept_is_not_lost_by_a_power_cut_at_any_step() {
        let place = tempfile::tempdir().unwrap();
        let recorder = Arc::new(Recorder::default());
        let disk = Disk::watched(recorder.clone());
        let mut folder = Folder::take_on(disk, &place.path().join("a/b"), owner(1)).unwrap();
        let mut kept = vec![(0, 0)];
        for vote in 1..=4_u64 {
            folder.keep(&vote).unwrap();
            kept.push((recorder.len(), vote));
        }
        let steps = recorder.steps();
        for at in 0..=steps.len() {
            let (_, least) = *kept.iter().rev().find(|(steps, _)| *steps <= at).unwrap();
            let seeds =
                (0..8).map(|seed: u64| Unsynced::Some((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            for unsynced in [Unsynced::Lost, Unsynced::Kept].into_iter().chain(seeds) {
                let what = format!("after {at} steps, the last {:?}, {unsynced:?}", steps[..at].last());
                let found = after_a_cut(place.path(), &steps[..at], unsynced);
                let found = found.unwrap_or_else(|error| panic!("{what}: {error}")).unwrap_or(0);
                assert!(found >= least, "{what}: {found} is kept, {least} was");
                assert!(found <= 4, "{what}: {found}");
            }
        }
    }

    /// A process dies at any step of its start; the next one keeps a vote; then the power goes.
    #[test]
    fn a_folder_that_a_dead_process_made_does_not_take_a_vote_along() {
        for dies_at in 0..20 {
            let place = tempfile::tempdir().unwrap();
            let recorder = Arc::new(Recorder::default());
            let path = place.path().join("a/b");
            let take = || Folder::take_on(Disk::watched(recorder.clone()), &path, owner(1));
            recorder.die_at(Some(dies_at));
            let died = take().and_then(|mut folder| folder.keep(&1_u64)).is_err();
            recorder.die_at(None);
            take().unwrap().keep(&2_u64).unwrap();
            let found = after_a_cut(place.path(), &recorder.steps(), Unsynced::Lost).unwrap();
            assert_eq!(found, Some(2), "died at step {dies_at}");
            if !died {
                return assert!(dies_at > 5, "{dies_at} steps");
            }
        }
        panic!("it never comes through");
    }

    #[test]
    fn a_folder_is_used_by_one_process() {
        let place = tempfile::tempdir().unwrap();
        let first = Folder::take(place.path(), owner(1)).unwrap();
        assert!(
            matches!(Folder::take(place.path(), owner(1)), Err(StateError::InUse(path)) if path == place.path())
        );
        drop(first);
        assert!(Folder::take(place.path(), owner(1)).is_ok());
    }

    #[test]
    fn a_folder_of_another_member_is_refused() {
        let place = tempfile::tempdir().unwrap();
        Folder::take(place.path(), owner(1)).unwrap().keep(&(1_u64, None::<String>)).unwrap();
        let folder = Folder::take(place.path(), owner(2)).unwrap();
        let error = folder.kept::<Saved>().unwrap_err();
        assert!(error.to_string().contains("belongs to member 1 of group `test` (toy)"), "{error}");
    }

    #[test]
    fn every_flipped_bit_and_every_missing_byte_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder::take(place.path(), owner(1)).unwrap();
        folder.keep(&(7_u64, Some("abc".to_string()))).unwrap();
        let file = place.path().join("state");
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&file, &bytes).unwrap();
            let error = folder.kept::<Saved>().unwrap_err();
            assert!(error.to_string().contains(&file.display().to_string()), "{error}");
            // In the number of the version a flipped bit makes another number.
            let of_version = matches!(error, StateError::OtherVersion(_));
            assert_eq!(of_version, at == HEAD_WORDS.len(), "a bit of byte {at}: {error}");
            fs::write(&file, &whole[..at]).unwrap();
            assert!(matches!(folder.kept::<Saved>(), Err(StateError::Damaged { .. })), "cut off at {at}");
        }
        fs::write(&file, [whole.as_slice(), &[0]].concat()).unwrap();
        assert!(matches!(folder.kept::<Saved>(), Err(StateError::Damaged { .. })), "a byte too many");
    }

    #[test]
    fn after_a_failure_nothing_more_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let mut folder = Folder::take(place.path(), owner(1)).unwrap();
        folder.keep(&(1_u64, None::<String>)).unwrap();
        fs::create_dir(place.path().join("state.next")).unwrap();
        assert!(folder.keep(&(2_u64, None::<String>)).is_err());
        fs::remove_dir(place.path().join("state.next")).unwrap();
        assert!(folder.keep(&(3_u64, None::<String>)).is_err(), "what is on disk is not known");
        assert_eq!(folder.kept::<Saved>().unwrap(), Some((1, None)));
    }
}
