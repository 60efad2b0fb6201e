//! The store: versions are found, read, and linked one after another.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_election::Epoch;
use baton_election::time::{Moment, Span};
use baton_store::waiting::Waiters;
use baton_store::{
    Access, AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Key,
    Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, Swapped, Trace, Watching, boot,
};
use tokio::sync::oneshot;

use crate::chores::{Chore, Chores};
use crate::fault::failed;
use crate::machine::Machine;
use crate::mark::Mark;
use crate::shape::Layout;
use crate::spare::{self, Spares};
use crate::version::{Folder, Header, VersionFile};
use crate::{open, shape, watch};

/// How many versions of a record are kept.
const KEPT_VERSIONS: u64 = 1_000;

/// How often, in versions, what crashed writers left behind is looked for.
const TIDY_EVERY: u64 = 100;

/// How many epochs a mark goes ahead: one grant in so many waits for it to be synced, and a reboot skips about so many.
const RESERVED_EPOCHS: u64 = 16;

/// How often a view is written again that others overtook meanwhile.
const MAX_REPAIRS: usize = 16;

/// How many versions after a known one are surely still in the machine's memory.
const WARM: u64 = 8;

/// A store in a folder.
#[derive(Clone)]
pub struct FileStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) layout: Layout,
    access: Access,
    pub(crate) machine: Machine,
    /// The newest version seen of each record: where to look first.
    seen: Mutex<HashMap<Key, Arc<VersionFile>>>,
    pub(crate) chores: Chores,
    /// The elections whose view is being looked after, each with a version that was read meanwhile.
    views: Mutex<HashMap<Key, Option<Arc<VersionFile>>>>,
    spares: Spares,
    /// The marks that are known to be kept.
    marks: Mutex<HashMap<Key, Mark>>,
    /// Up to where epochs were claimed by others whose version was not seen: they died before it, or it was deleted.
    claimed: Mutex<HashMap<Key, Epoch>>,
}

impl FileStore {
    /// Opens the store in a folder. The folder is made by the first write.
    pub fn open(folder: &Path, access: Access) -> Result<FileStore, StoreError> {
        FileStore::open_on(Machine::current(), folder, access)
    }

    /// The same on another machine than this, or with another disk.
    pub fn open_on(machine: Machine, folder: &Path, access: Access) -> Result<FileStore, StoreError> {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
        open::refuse_unfit(&folder)?;
        let inner = Inner {
            layout: Layout::new(folder),
            access,
            machine,
            seen: Mutex::default(),
            chores: Chores::default(),
            views: Mutex::default(),
            spares: Spares::default(),
            marks: Mutex::default(),
            claimed: Mutex::default(),
        };
        Ok(FileStore { inner: Arc::new(inner) })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.inner.layout.root()
    }

    /// What crashed writers left behind: temporary files that nobody will link.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        shape::temporaries(self.inner.layout.root())
    }

    /// Reads at once, in this thread, what is surely in the machine's memory: a version that is known already, or that was
    /// written a moment ago next to one that is. A disk that hangs does not matter then.
    fn read_warm(&self, key: &Key) -> Option<Reading> {
        let known = self.inner.remembered(key)?;
        let folder = self.inner.layout.versions(key);
        let far = folder.join((known.header.version + WARM).to_string());
        if !known.is_young() || !known.is_in(&folder) || far.exists() {
            return None;
        }
        let (reading, latest) = self.inner.read(key).ok()?;
        let latest = latest?;
        if self.inner.begin_view(key, &latest) {
            let (key, chore) = (key.clone(), Chores::begin(&self.inner));
            tokio::task::spawn_blocking(move || chore.0.look_after_view(&key, latest));
        }
        Some(reading)
    }

    /// Work in a thread of its own, which may go on after its answer.
    pub(crate) async fn answered<T: Send + 'static>(
        &self,
        work: impl FnOnce(Chore, oneshot::Sender<Result<T, StoreError>>) + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let chore = Chores::begin(&self.inner);
        tokio::task::spawn_blocking(move || work(chore, answer));
        let ended = "the task that was at it ended".to_string();
        answered.await.unwrap_or_else(|_| Err(StoreError::Unknown { location: self.location(), why: ended }))
    }
}

impl Inner {
    fn remembered(&self, key: &Key) -> Option<Arc<VersionFile>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn remember(&self, key: &Key, version: &Arc<VersionFile>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let newer = seen.get(key).is_none_or(|known| known.header.version <= version.header.version);
        if newer {
            seen.insert(key.clone(), Arc::clone(version));
        }
    }

    /// The newest version. Versions are numbered without gaps, so the first missing number ends the search.
    fn latest(&self, key: &Key) -> Result<Option<Arc<VersionFile>>, StoreError> {
        let folder = self.layout.versions(key);
        for _ in 0..16 {
            let known = self.remembered(key).filter(|known| known.is_in(&folder));
            if known.is_none() {
                // Never seen, pruned, or of a store that was wiped: its number says nothing.
                self.forget(key);
            }
            let start = match &known {
                Some(known) => known.header.version,
                None => match shape::highest(&folder).map_err(|error| failed(&folder, &error))? {
                    Some(number) => number,
                    None => return Ok(None),
                },
            };
            let number = (start..).take_while(|n| *n == start || folder.join(n.to_string()).exists()).last();
            let number = number.unwrap_or(start);
            if let Some(known) = known.filter(|known| known.header.version == number) {
                return Ok(Some(known));
            }
            let path = folder.join(number.to_string());
            match VersionFile::read(key, &path, number, &self.machine.here)? {
                Some(version) => {
                    self.machine.refuse_other_run(self.layout.root(), &path, &version)?;
                    let version = Arc::new(version);
                    self.remember(key, &version);
                    return Ok(Some(version));
                }
                // It was pruned between the look and the reading: a thousand newer ones exist.
                None => self.forget(key),
            }
        }
        Err(StoreError::Unavailable {
            location: folder.display().to_string(),
            why: "it changes faster than it can be read".to_string(),
            hint: "try again".to_string(),
        })
    }

    fn forget(&self, key: &Key) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn read(&self, key: &Key) -> Result<(Reading, Option<Arc<VersionFile>>), StoreError> {
        let asked_at = boot::now();
        let latest = self.latest(key)?;
        let reading = Reading {
            age: latest.as_ref().map(|version| version.header.age(key, &self.machine.here, asked_at)),
            trace: self.trace(key, latest.as_deref())?,
            found: latest.as_ref().map(|version| (version.record.clone(), version.token())),
            asked_at,
            received_at: boot::now(),
        };
        Ok((reading, latest))
    }

    /// Whether the caller must look after the view, as only writers do. If another task is at it, that one takes this version
    /// too: however often an election is read, one task at a time looks after its view.
    fn begin_view(&self, key: &Key, version: &Arc<VersionFile>) -> bool {
        if self.access != Access::Write || !matches!(key, Key::Election(_)) {
            return false;
        }
        let mut views = self.views();
        let free = !views.contains_key(key);
        views.insert(key.clone(), (!free).then(|| Arc::clone(version)));
        free
    }

    /// A writer's look also brings the view up to date, unless whoever wrote the version is probably at it.
    fn look_after_view(&self, key: &Key, mut version: Arc<VersionFile>) {
        loop {
            let file = self.layout.versions(key).join(version.header.version.to_string());
            if !shape::is_under_way(&file, &self.layout.view(key)) {
                self.repair_view(key, &version);
            }
            let mut views = self.views();
            match views.get_mut(key).and_then(Option::take) {
                Some(next) => version = next,
                None => return drop(views.remove(key)),
            }
        }
    }

    fn views(&self) -> MutexGuard<'_, HashMap<Key, Option<Arc<VersionFile>>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn swap(
        &self,
        key: &Key,
        expect: &Expect,
        next: &Record,
        clock: AgeStamp,
        persistence: Persistence,
    ) -> Result<Arc<VersionFile>, StoreError> {
        let stamp = boot::now();
        self.refuse_reader()?;
        let previous = match (self.expected(key, expect)?, expect) {
            (Some(previous), _) => Some(previous),
            (None, Expect::Absent) => None,
            (None, Expect::Version(_)) => return Err(StoreError::Conflict),
        };
        let folder = self.layout.versions(key);
        open::create(&self.machine.disk, self.layout.root(), &folder, previous.is_some())?;
        // From here on only this folder counts: one that is deleted and made anew under its name must not get a version of ours.
        let open = Folder::open(&folder)?;
        if previous.as_ref().is_some_and(|previous| !previous.is_in_open(&open)) {
            return Err(StoreError::Conflict);
        }
        let header = self.header(previous.as_deref(), next, stamp, clock);
        let mut version = VersionFile::new(header, next.clone());
        let first = previous.is_none() && Mark::read(&self.layout.marks(key))?.is_none();
        if !first {
            self.keep_mark(key, next)?;
        }
        // A plain renewal has time. Somebody may wait for anything else.
        let hurried = previous.is_some() && persistence > Persistence::Volatile;
        let spare = hurried.then(|| self.spares.take(key)).flatten();
        version.commit(&self.machine.disk, &open, spare, || self.claim(key, previous.as_deref(), next))?;
        self.still_in_line(key, &folder, previous.as_deref())?;
        // A reboot ends all leases, so that only a durable change must survive it. An epoch that is lost is not given again: the
        // mark has gone ahead of it.
        if persistence == Persistence::Durable {
            self.machine.disk.sync_folder(&folder).map_err(|error| StoreError::Unknown {
                location: folder.display().to_string(),
                why: format!("the change is visible but may not survive a power cut: {error}"),
            })?;
        }
        if first {
            // After the first version, not before it: a mark without a record tells of one that was deleted.
            self.keep_mark(key, next).map_err(|error| StoreError::Unknown {
                location: folder.display().to_string(),
                why: format!("the change is visible, but its mark could not be written: {error}"),
            })?;
            // Whoever deleted it before the mark was there left no trace of it, and the next leader does not wait for this lease.
            if !version.is_in(&folder) {
                return Err(StoreError::Unknown {
                    location: folder.display().to_string(),
                    why: "somebody deleted the election while it was begun".to_string(),
                });
            }
        }
        let version = Arc::new(version);
        self.remember(key, &version);
        Ok(version)
    }

    fn refuse_reader(&self) -> Result<(), StoreError> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(StoreError::Refused {
                place: self.layout.root().display().to_string(),
                why: "it was opened for reading only".to_string(),
                hint: "this is a fault in the program that opened it".to_string(),
            }),
        }
    }

    /// Tries what a swap does, but for the name of the version: a file of its size beside the versions, and the right to the folders.
    fn try_to_write(&self, key: &Key) -> Result<(), StoreError> {
        self.refuse_reader()?;
        if !self.layout.root().is_dir() {
            return Ok(());
        }
        let (versions, marks) = (self.layout.versions(key), self.layout.marks(key));
        for folder in [&versions, &marks] {
            open::refuse_unwritable(folder)?;
        }
        let election = versions.parent().unwrap_or(&versions);
        let beside = if election.is_dir() { election } else { self.layout.root() };
        let temporary = shape::temporary(beside);
        let disk = &self.machine.disk;
        let tried = disk
            .make_file(&temporary, 0o666)
            .and_then(|file| disk.write(&file, &temporary, &[b'\n'; spare::LENGTH]));
        let _ = disk.remove_file(&temporary);
        tried.map_err(|error| failed(beside, &error))
    }

    /// What a swap leaves to be done when it has been answered.
    fn keep_house(&self, key: &Key, version: &Arc<VersionFile>) {
        if let Key::Election(_) = key {
            self.repair_view(key, version);
        }
        self.prune(key, version);
    }

    /// Prepares for a version that will be wanted in a hurry.
    fn lay_ready(&self, key: &Key) {
        if let (Access::Write, Key::Election(_), Some(folder)) =
            (self.access, key, self.layout.versions(key).parent())
        {
            self.spares.lay_ready(&self.machine.disk, key, folder);
        }
    }

    /// What is known of an election beside its document: of one that is not there, and after a reboot, when epochs may have been
    /// given that the power cut took along.
    fn trace(&self, key: &Key, latest: Option<&VersionFile>) -> Result<Option<Trace>, StoreError> {
        let Key::Election(_) = key else { return Ok(None) };
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied();
        let given = latest.map_or(Epoch(0), VersionFile::epoch);
        let mark = match latest {
            Some(version) if version.header.epoch_boot == self.machine.here.boot => None,
            Some(_) => Mark::read(&self.layout.marks(key))?.map(|mark| Mark { ttl: Span::ZERO, ..mark }),
            None => Some(Mark::read(&self.layout.marks(key))?.unwrap_or_default()),
        };
        let trace = mark.map(Mark::trace).into_iter();
        let claimed =
            claimed.filter(|claimed| *claimed > given).map(|epoch| Trace { epoch, lease: Span::ZERO });
        Ok(trace
            .chain(claimed)
            .reduce(|a, b| Trace { epoch: a.epoch.max(b.epoch), lease: a.lease.max(b.lease) }))
    }

    /// Makes sure, before a version gives an epoch, that no other version does: not even after somebody deleted the one that did.
    fn claim(&self, key: &Key, previous: Option<&VersionFile>, next: &Record) -> Result<(), StoreError> {
        let (Key::Election(_), Record::Election(next)) = (key, next) else { return Ok(()) };
        if next.epoch <= previous.map_or(Epoch(0), VersionFile::epoch) {
            return Ok(());
        }
        match Mark::claim(&self.machine.disk, &self.layout.marks(key), next.epoch)? {
            Ok(()) => Ok(()),
            Err(highest) => {
                self.claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), highest);
                Err(StoreError::Conflict)
            }
        }
    }

    /// The run of the machine in which the epoch of this record begins.
    fn epoch_boot(&self, previous: Option<&VersionFile>, next: &Record) -> String {
        let Record::Election(next) = next else { return String::new() };
        match previous.map(|previous| (&previous.record, &previous.header)) {
            Some((Record::Election(old), header)) if old.epoch == next.epoch => header.epoch_boot.clone(),
            Some(_) | None => self.machine.here.boot.clone(),
        }
    }

    /// Makes sure, before a token is given, that it cannot be given again: not after a power cut, not after somebody deleted the
    /// election's folder.
    fn keep_mark(&self, key: &Key, next: &Record) -> Result<(), StoreError> {
        let (Key::Election(_), Record::Election(document)) = (key, next) else { return Ok(()) };
        let ttl = document.lease_holder().map_or(Span::ZERO, |holder| holder.ttl);
        let covered = |mark: &Mark| mark.covers(document.epoch, ttl);
        let known = self.marks.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied();
        if known.is_some_and(|known| covered(&known))
            && self.layout.marks(key).join(known.unwrap_or_default().name()).exists()
        {
            return Ok(());
        }
        let folder = self.layout.marks(key);
        let found = Mark::read(&folder)?;
        let kept = found.unwrap_or_default();
        let mark = if covered(&kept) {
            kept
        } else {
            let beyond = Epoch(document.epoch.0.saturating_add(RESERVED_EPOCHS));
            let mark = if kept.epoch >= document.epoch {
                Mark { epoch: kept.epoch, ttl: kept.ttl.max(ttl) }
            } else {
                Mark { epoch: beyond, ttl }
            };
            mark.keep(&self.machine.disk, self.layout.root(), &folder, found.is_some())?;
            mark
        };
        self.marks.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), mark);
        Ok(())
    }

    /// The version that is expected, if it is the newest as far as can be seen; none if there is nothing yet.
    fn expected(&self, key: &Key, expect: &Expect) -> Result<Option<Arc<VersionFile>>, StoreError> {
        match (self.latest(key)?, expect) {
            (None, Expect::Absent | Expect::Version(_)) => Ok(None),
            (Some(latest), Expect::Version(wanted)) if latest.token() == *wanted => Ok(Some(latest)),
            (Some(_), Expect::Absent | Expect::Version(_)) => Err(StoreError::Conflict),
        }
    }

    fn header(
        &self,
        previous: Option<&VersionFile>,
        next: &Record,
        stamp: Moment,
        clock: AgeStamp,
    ) -> Header {
        let kept = previous.filter(|_| clock == AgeStamp::Preserve).map(|previous| &previous.header);
        Header {
            version: previous.map_or(1, |previous| previous.header.version + 1),
            machine: self.machine.here.machine.clone(),
            time_namespace: self.machine.here.time_namespace.clone(),
            boot: self.machine.here.boot.clone(),
            beat_boot: kept.map_or_else(|| self.machine.here.boot.clone(), |kept| kept.beat_boot.clone()),
            beat_ns: kept.map_or(stamp.as_nanos(), |kept| kept.beat_ns),
            epoch_boot: self.epoch_boot(previous, next),
        }
    }

    /// A writer that slept while a thousand versions went by finds its number free again, since old ones are pruned.
    /// Every version is pruned before its successor, so that the predecessor is still there, unchanged, shows that nobody
    /// pruned past it.
    fn still_in_line(
        &self,
        key: &Key,
        folder: &Path,
        previous: Option<&VersionFile>,
    ) -> Result<(), StoreError> {
        let in_line = match previous {
            Some(previous) => {
                let number = previous.header.version;
                previous.is_in(folder)
                    || VersionFile::read(key, &folder.join(number.to_string()), number, &self.machine.here)
                        .is_ok_and(|found| found.is_some_and(|found| found.token() == previous.token()))
            }
            None => shape::highest(folder)
                .is_ok_and(|highest| highest.is_some_and(|highest| highest < KEPT_VERSIONS)),
        };
        if in_line {
            return Ok(());
        }
        self.forget(key);
        Err(StoreError::Unknown {
            location: folder.display().to_string(),
            why: "the version before it is gone or changed; perhaps this process slept while a thousand changes went by"
                .to_string(),
        })
    }

    /// Brings `coordinator.json`, which is for people, up to date. Best effort: the versions are the truth.
    fn repair_view(&self, key: &Key, version: &Arc<VersionFile>) {
        let view = self.layout.view(key);
        let mut version = Arc::clone(version);
        for _ in 0..MAX_REPAIRS {
            let text = version.record.to_json() + "\n";
            if fs::read_to_string(&view).is_ok_and(|found| found == text) {
                return;
            }
            let newer = self.layout.versions(key).join((version.header.version + 1).to_string());
            // Whoever comes next brings it up to date; but if that was done just before ours, ours must not stay.
            if newer.exists() || self.replace_view(&view, &text).is_err() || !newer.exists() {
                return;
            }
            match self.latest(key) {
                Ok(Some(latest)) if latest.header.version > version.header.version => version = latest,
                Ok(_) | Err(_) => return,
            }
        }
    }

    fn replace_view(&self, view: &Path, text: &str) -> io::Result<()> {
        let temporary = shape::temporary(view.parent().unwrap_or(Path::new(".")));
        self.machine.disk.replace(view, &temporary, text.as_bytes())
    }

    /// Removes what is older than all that are kept, in the folder that holds this version: one that was deleted and made anew
    /// under its name has versions of its own.
    fn prune(&self, key: &Key, newest: &VersionFile) {
        let Ok(folder) = Folder::open(&self.layout.versions(key)) else { return };
        if !newest.is_in_open(&folder) {
            return;
        }
        let number = newest.header.version;
        let floor = number.saturating_sub(KEPT_VERSIONS);
        shape::prune(&self.machine.disk, &folder, floor);
        if number.is_multiple_of(TIDY_EVERY) {
            shape::tidy(&self.machine.disk, &folder, floor);
        }
    }
}

impl Drop for FileStore {
    /// A process that ends right after a swap leaves the view as it should be.
    fn drop(&mut self) {
        self.inner.chores.finish();
    }
}

impl Store for FileStore {
    fn location(&self) -> String {
        format!("file:{}", self.folder().display())
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        if let Some(reading) = self.read_warm(key) {
            return Box::pin(std::future::ready(Ok(reading)));
        }
        let key = key.clone();
        Box::pin(self.answered(move |chore, answer| match chore.0.read(&key) {
            Ok((reading, latest)) => {
                let _ = answer.send(Ok(reading));
                if let Some(latest) = latest.filter(|latest| chore.0.begin_view(&key, latest)) {
                    chore.0.look_after_view(&key, latest);
                }
            }
            Err(error) => drop(answer.send(Err(error))),
        }))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        let (key, next) = (key.clone(), next.clone());
        Box::pin(self.answered(move |chore, answer| {
            match chore.0.swap(&key, &expect, &next, clock, persistence) {
                Ok(version) => {
                    let _ = answer.send(Ok(Swapped { version: version.token() }));
                    chore.0.keep_house(&key, &version);
                    let leads =
                        matches!(&version.record, Record::Election(document) if document.leader.is_some());
                    let inner = chore.end();
                    if leads {
                        // Whoever leads will hand over.
                        inner.lay_ready(&key);
                    }
                }
                Err(error) => drop(answer.send(Err(error))),
            }
        }))
    }

    fn writable<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<(), StoreError>> {
        let key = key.clone();
        Box::pin(self.answered(move |chore, answer| drop(answer.send(chore.0.try_to_write(&key)))))
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        let prefix = prefix.clone();
        Box::pin(self.answered(move |chore, answer| {
            let layout = &chore.0.layout;
            let listed = layout.list(&prefix).map_err(|error| failed(layout.root(), &error));
            let _ = answer.send(listed);
        }))
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        let folder = self.inner.layout.versions(key);
        // Whoever waits will want to be quick. Aside: nobody waits for it.
        let (key, inner) = (key.clone(), Arc::clone(&self.inner));
        tokio::task::spawn_blocking(move || inner.lay_ready(&key));
        Box::pin(async move { Ok(watch::changes(folder)) })
    }

    fn waiters(&self) -> Option<&dyn Waiters> {
        Some(self)
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "this machine's boot-time clock",
            stamped: true,
            watch: Watching::Pushed,
            durability: Durability::Synced,
            deletion: Deletion::Survives,
            history: HistoryKept::Beside,
            partition: "cannot happen: one machine",
            cost: Cost { per_renewal: 1, looks_per_hour: 0 },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use baton_election::{Document, ElectionName, StoreId};
    use tokio::runtime;

    use super::*;

    /// However often a record is read, one task at a time looks after its view: reads leave room for swaps.
    #[test]
    fn many_reads_queue_one_look_at_the_view() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let store = FileStore::open(folder.path(), Access::Write).unwrap();
            let election = ElectionName::new("e").unwrap();
            let key = Key::Election(election.clone());
            let record = Record::Election(Box::new(Document::new(election, StoreId([7; 8]), Epoch(1), &[])));
            let swapped = store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable);
            swapped.await.unwrap();
            store.read(&key).await.unwrap();
            // The only thread is busy, so that whatever the reads ask for stays queued.
            let (free, busy) = std::sync::mpsc::channel::<()>();
            let held = tokio::task::spawn_blocking(move || busy.recv().is_err());
            for _ in 0..1_000 {
                store.read(&key).await.unwrap();
            }
            assert!(
                store.inner.chores.under_way() <= 1,
                "{} looks are queued",
                store.inner.chores.under_way()
            );
            drop(free);
            assert!(held.await.unwrap());
        });
    }
}
