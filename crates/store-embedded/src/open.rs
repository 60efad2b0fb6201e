//! From a path to a database that is whole.

use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use baton_election::{Epoch, Span};
use baton_store::StoreError;
use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, Error, ReadableDatabase, StorageBackend};

use crate::fault::{StorePath, said};
use crate::fresh::Fresh;
use crate::journal::{Damaged, Journal};
use crate::layout::{self, DatabaseArea, Front, Salt};
use crate::peek::Overlay;
use crate::pending::{Pending, Unreadable};
use crate::shape::{
    FORMAT, META, META_FLOOR, META_FORMAT, META_JOURNAL, META_LEASE, META_SNAPSHOT, META_VERSIONS,
};

/// What the database keeps in this process's memory; the machine's own cache keeps the rest.
pub(crate) const CACHE_BYTES: usize = 4 << 20;

/// How the file is opened: as it is, or in tests through something that fails.
pub(crate) type Connect = Arc<dyn Fn(&Path) -> Result<Arc<dyn StorageBackend>, DatabaseError> + Send + Sync>;

/// A store that was found to be whole, with nothing in its journal that is not in the database.
pub(crate) struct Opened {
    pub(crate) database: Database,
    pub(crate) journal: Journal,
    pub(crate) meta: Meta,
}

/// The numbers about the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// No version above this was given.
    pub(crate) versions: u64,
    /// After a restore: no epoch above this was given for an election that is not there.
    pub(crate) floor: Epoch,
    /// After a restore: how long leases may last that the snapshot did not know of.
    pub(crate) lease: Span,
    /// That it is a copy, to be restored and not to be used.
    pub(crate) snapshot: bool,
    /// The generation of the journal whose frames are not in the database.
    journal: u64,
}

/// As it is opened when nothing is to fail.
pub(crate) fn connect() -> Connect {
    Arc::new(|path| {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Arc::new(FileBackend::new(file)?))
    })
}

/// Makes the database if it is not there.
pub(crate) fn make(place: &StorePath) -> Result<(), StoreError> {
    match fs::symlink_metadata(&place.path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // If it exists by then, somebody else made it.
            let named = Fresh::make(place, |_| Ok(()))?.name(&place.path);
            named.map(drop).map_err(|error| place.io(&error))
        }
        Err(error) => Err(place.io(&error)),
    }
}

/// Opens a database to write to it, once it was read from the disk and found to be whole.
pub(crate) fn open(place: &StorePath, connect: &Connect) -> Result<Opened, StoreError> {
    to_write(place, || connect(&place.path))
}

/// The same, after it failed, by the handle that has kept everybody else out since.
pub(crate) fn reopen(place: &StorePath, file: Arc<dyn StorageBackend>) -> Result<Opened, StoreError> {
    to_write(place, || Ok(file))
}

fn to_write(
    place: &StorePath,
    open: impl FnOnce() -> Result<Arc<dyn StorageBackend>, DatabaseError>,
) -> Result<Opened, StoreError> {
    let file = examine(place)?;
    forget_cached(&file);
    drop(file);
    let opened = whole(place, Strictness::Refuse, open)?;
    if opened.meta.snapshot {
        let hint = "use the store itself, or put the snapshot back with `baton restore`";
        return Err(place.refused("it is a snapshot: it would give epochs a second time", hint));
    }
    Ok(opened)
}

/// Opens a database to look at it. Nothing is written, not even to repair it.
pub(crate) fn peek(place: &StorePath) -> Result<Opened, StoreError> {
    peek_with(place, Strictness::Refuse)
}

/// The same for what is about to be replaced: of a damaged journal what comes before the damage is better than nothing.
pub(crate) fn peek_at_remains(place: &StorePath) -> Result<Opened, StoreError> {
    peek_with(place, Strictness::TakeWhatIsWhole)
}

fn peek_with(place: &StorePath, journal: Strictness) -> Result<Opened, StoreError> {
    let file = examine(place)?;
    whole(place, journal, || Ok(Arc::new(Overlay::new(FileBackend::new(file)?)?)))
}

/// What is done about a journal that is damaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Refuse,
    TakeWhatIsWhole,
}

/// A file that may be a database: an empty one would be taken for one that is yet to be made.
fn examine(place: &StorePath) -> Result<File, StoreError> {
    let file = File::open(&place.path).map_err(|error| place.io(&error))?;
    let found = file.metadata().map_err(|error| place.io(&error))?;
    if !found.is_file() {
        return Err(place.refused("it is not a file", "name a file: embedded:FILE"));
    }
    if found.len() == 0 {
        return Err(place.corrupt("it is empty"));
    }
    Ok(file)
}

/// After a failed sync the machine may show pages that never reached the disk, as if they were there, for as long as it
/// remembers them. It is made to forget, so that what is read is what is there. Best effort.
fn forget_cached(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

fn whole(
    place: &StorePath,
    strictness: Strictness,
    open: impl FnOnce() -> Result<Arc<dyn StorageBackend>, DatabaseError>,
) -> Result<Opened, StoreError> {
    let opened = catch_unwind(AssertUnwindSafe(|| -> Result<_, StoreError> {
        let file = open().map_err(|error| place.opening(error))?;
        let salt = front(place, &*file)?;
        let repaired = Arc::new(AtomicBool::new(false));
        let mut builder = Builder::new();
        let note = Arc::clone(&repaired);
        builder.set_cache_size(CACHE_BYTES).set_repair_callback(move |_| note.store(true, Ordering::Relaxed));
        let area = DatabaseArea(Arc::clone(&file));
        let mut database = builder.create_with_backend(area).map_err(|error| place.opening(error))?;
        // A repair has looked at everything already. Without one the database would trust its pages.
        if !repaired.load(Ordering::Relaxed) {
            database.check_integrity().map_err(|error| place.opening(error))?;
        }
        let mut meta = meta(place, &database)?;
        let mut journal = Journal::new(file, salt, meta.journal);
        if let Some(versions) = take_in(place, &database, &journal, strictness)? {
            meta.versions = meta.versions.max(versions);
            journal.turn();
        }
        Ok(Opened { database, journal, meta })
    }));
    opened.unwrap_or_else(|panic| Err(place.corrupt(said(&*panic))))
}

/// What the first page says of the file.
fn front(place: &StorePath, file: &dyn StorageBackend) -> Result<Salt, StoreError> {
    match layout::examine(file).map_err(|error| place.io(&error))? {
        Front::Store(salt) => Ok(salt),
        Front::Newer(form) => Err(newer(place, u64::from(form))),
        Front::Bare => Err(place.refused(
            "it is a database, but not one of Baton's, or one of a Baton from before the journal",
            "name another file: embedded:FILE",
        )),
        Front::Foreign => Err(place.corrupt("it does not begin with a store's magic number, or is cut off")),
    }
}

/// Writes what stands in the journal into the database. Returns what versions it knows of, if there was anything.
fn take_in(
    place: &StorePath,
    database: &Database,
    journal: &Journal,
    strictness: Strictness,
) -> Result<Option<u64>, StoreError> {
    let frames = match journal.read().map_err(|error| place.io(&error))? {
        Ok(frames) => frames,
        Err(Damaged { before }) if strictness == Strictness::TakeWhatIsWhole => before,
        Err(Damaged { .. }) => return Err(place.corrupt("its journal is damaged: a change is missing")),
    };
    let mut pending = Pending::none(0);
    for frame in &frames {
        let read = Pending::decode(frame);
        pending.extend(read.map_err(|Unreadable| place.corrupt("its journal has a change that is none"))?);
    }
    if frames.is_empty() {
        return Ok(None);
    }
    let versions = pending.versions();
    let write = || -> Result<(), Error> {
        let mut transaction = database.begin_write()?;
        transaction.set_two_phase_commit(true);
        pending.write(&transaction)?;
        transaction.open_table(META)?.insert(META_JOURNAL, journal.generation() + 1)?;
        transaction.commit()?;
        Ok(())
    };
    write().map_err(|error| place.unavailable(error))?;
    Ok(Some(versions))
}

fn newer(place: &StorePath, format: u64) -> StoreError {
    let number = |format: u64| u32::try_from(format).unwrap_or(u32::MAX);
    StoreError::Newer {
        place: place.path.display().to_string(),
        format: number(format),
        reads: number(FORMAT),
    }
}

fn meta(place: &StorePath, database: &Database) -> Result<Meta, StoreError> {
    let read = || -> Result<(Option<u64>, Meta), Error> {
        let table = database.begin_read()?.open_table(META)?;
        let number = |name: &str| table.get(name).map(|found| found.map(|found| found.value()));
        let meta = Meta {
            versions: number(META_VERSIONS)?.unwrap_or(0),
            floor: Epoch(number(META_FLOOR)?.unwrap_or(0)),
            lease: Span::millis(number(META_LEASE)?.unwrap_or(0)),
            snapshot: number(META_SNAPSHOT)?.is_some(),
            journal: number(META_JOURNAL)?.unwrap_or(0),
        };
        Ok((number(META_FORMAT)?, meta))
    };
    match read().map_err(|error| place.reading(error))? {
        (Some(FORMAT), meta) => Ok(meta),
        (Some(format), _) => Err(newer(place, format)),
        (None, _) => {
            Err(place.refused("it is a database, but not one of Baton's", "name another file: embedded:FILE"))
        }
    }
}
