//! The one thread that writes: all swaps that wait, in one frame of the journal, with one sync.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use baton_election::{Moment, Span};
use baton_store::{AgeStamp, Expect, Key, NotARecord, Record, StoreError, boot};
use redb::{Database, Error, ReadOnlyTable, ReadableDatabase, ReadableTable};
use tokio::sync::{mpsc, oneshot};

use crate::fault::{StorePath, said};
use crate::history;
use crate::journal::Journal;
use crate::open::{self, Meta, Opened};
use crate::pending::Pending;
use crate::reader::{Disk, Shared};
use crate::shape::{self, META, META_JOURNAL, META_LEASE, META_VERSIONS, RECORDS};

/// The most requests that wait; more wait to wait.
pub(crate) const QUEUE: usize = 4_096;
/// The most requests of one frame.
const BATCH: usize = 1_024;
/// How often a database that failed is opened anew.
const AGAIN: Span = Span::secs(1);

/// How many versions are reserved at once: the number that must outlive this process is then seldom written.
const RESERVED: u64 = 1 << 20;

/// Changes that are made together or not at all. Without any, it asks whether the database can be written.
pub(crate) struct Job {
    pub(crate) changes: Vec<Prepared>,
    pub(crate) answer: oneshot::Sender<Result<Vec<u64>, StoreError>>,
}

/// One change, as far as it could be prepared by whoever asks for it.
pub(crate) struct Prepared {
    key: Key,
    bytes: Vec<u8>,
    expect: Expected,
    clock: AgeStamp,
    value: Vec<u8>,
    transition: Option<history::Entry>,
}

enum Expected {
    Absent,
    Version(u64),
    /// What no record of this store ever had.
    Never,
}

impl Prepared {
    pub(crate) fn new(key: &Key, expect: &Expect, next: &Record, clock: AgeStamp) -> Prepared {
        Prepared {
            bytes: shape::key(key),
            key: key.clone(),
            expect: match expect {
                Expect::Absent => Expected::Absent,
                Expect::Version(version) => {
                    version.as_str().parse().map_or(Expected::Never, Expected::Version)
                }
            },
            clock,
            value: shape::value(&next.to_compact_json()),
            transition: next.as_election().and_then(history::Entry::of),
        }
    }

    /// Gives it its version and puts it with the others. Whoever asked needs of it no more than its key and its clock.
    fn put(&mut self, version: u64, into: &mut Pending) {
        shape::number(&mut self.value, version);
        into.put_record(self.bytes.clone(), std::mem::take(&mut self.value));
        if let Some(transition) = self.transition.take() {
            into.put_transition(transition);
        }
    }
}

/// Why nothing came of a batch.
enum Failed {
    /// Surely not applied.
    Before(Error),
    /// Perhaps applied.
    Committing(Error),
}

/// What comes of a batch once it is on the disk.
struct Staged {
    /// What becomes of each job.
    outcomes: Vec<Result<Vec<u64>, StoreError>>,
    /// What changes.
    pending: Pending,
    /// What the writer's numbers are after it.
    versions: u64,
    reserved: u64,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    queue: mpsc::Receiver<Job>,
    journal: Journal,
    /// The records as the database has them, until it is written again.
    records: Option<ReadOnlyTable<&'static [u8], &'static [u8]>>,
    /// The last version given.
    versions: u64,
    /// The last version that may be given before more are reserved.
    reserved: u64,
    /// Several shared the last frame.
    crowded: bool,
    /// A record and the version of it that was last answered for.
    answered: Option<(Vec<u8>, u64)>,
    /// That a restored database still says that leases may run of which it does not know.
    aftermath: bool,
    /// When the database failed, or was last opened in vain.
    failed_at: Moment,
}

impl Writer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        queue: mpsc::Receiver<Job>,
        journal: Journal,
        meta: &Meta,
    ) -> Writer {
        Writer {
            shared,
            queue,
            journal,
            records: None,
            versions: meta.versions,
            reserved: meta.versions,
            crowded: false,
            answered: None,
            aftermath: meta.lease > Span::ZERO,
            failed_at: boot::now(),
        }
    }

    /// Goes on until nobody can ask any more, and closes the database.
    pub(crate) fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let jobs = self.gather(first);
            match self.ready() {
                Ok(()) => {
                    self.commit(jobs);
                    if self.journal.is_rather_full() && self.queue.is_empty() {
                        self.tidy_up();
                    }
                }
                Err(why) => {
                    for job in jobs {
                        let _ = job.answer.send(Err(self.shared.place.unavailable(&why)));
                    }
                }
            }
        }
        // What is closed has an empty journal. If that fails, the next to open it takes the journal in.
        self.tidy_up();
        self.records = None;
        self.shared.put(Disk::Broken("it was closed".to_string()));
    }

    /// All who wait. Where several shared the last frame, their next requests are most likely being decided at this moment: those
    /// who are at it go first, for as long as more come, so that one sync does for many. Where one was alone, the next waits for nobody.
    fn gather(&mut self, first: Job) -> Vec<Job> {
        let mut jobs = vec![first];
        let mut more_come = self.crowded;
        loop {
            if more_come {
                std::thread::yield_now();
            }
            let before = jobs.len();
            while jobs.len() < BATCH
                && let Ok(next) = self.queue.try_recv()
            {
                jobs.push(next);
            }
            more_come = jobs.len() > before && jobs.len() < BATCH;
            if !more_come {
                self.crowded = jobs.len() > 1;
                return jobs;
            }
        }
    }

    /// Empties the journal while nobody waits for it.
    fn tidy_up(&mut self) {
        if self.journal.is_empty() {
            return;
        }
        if let Err(error) = self.at_the_database(|writer, database| writer.fold(database, Pending::default()))
        {
            self.fail(Vec::new(), &error, |place, why| place.unavailable(why));
        }
    }

    /// Does something with the database, if it is open; says what failed or panicked.
    fn at_the_database(
        &mut self,
        act: impl FnOnce(&mut Writer, &Database) -> Result<(), Error>,
    ) -> Result<(), String> {
        let shared = Arc::clone(&self.shared);
        let disk = shared.disk();
        let Disk::Open(database) = &*disk else { return Ok(()) };
        match catch_unwind(AssertUnwindSafe(|| act(self, database))) {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(panic) => Err(said(&*panic)),
        }
    }

    /// Sees that the database can be written; opens it anew if it failed.
    fn ready(&mut self) -> Result<(), String> {
        let why = match &*self.shared.disk() {
            Disk::Broken(why) => why.clone(),
            Disk::Open(_) | Disk::Absent => return Ok(()),
        };
        if boot::now().since(self.failed_at) < AGAIN {
            return Err(why);
        }
        self.failed_at = boot::now();
        match self.reopen() {
            Ok(database) => {
                self.shared.put(Disk::Open(database));
                Ok(())
            }
            Err(error) => {
                let why = format!("{error} (it failed before: {})", first_cause(&why));
                self.shared.put(Disk::Broken(why.clone()));
                Err(why)
            }
        }
    }

    /// Reads the database and its journal from the disk, and writes to it to see that it can be.
    fn reopen(&mut self) -> Result<Database, StoreError> {
        let Opened { database, mut journal, meta } = open::reopen(&self.shared.place, self.journal.file())?;
        let place = &self.shared.place;
        self.versions = self.versions.max(meta.versions);
        let written = catch_unwind(AssertUnwindSafe(|| -> Result<bool, Error> {
            let mut transaction = database.begin_write()?;
            transaction.set_two_phase_commit(true);
            let kept = match &self.answered {
                None => true,
                Some((key, version)) => {
                    let records = transaction.open_table(RECORDS)?;
                    let found = records.get(key.as_slice())?;
                    found.is_some_and(|found| {
                        shape::parts(found.value()).is_ok_and(|found| found.0 >= *version)
                    })
                }
            };
            if !kept {
                transaction.abort()?;
                return Ok(false);
            }
            {
                let mut table = transaction.open_table(META)?;
                table.insert(META_VERSIONS, self.versions)?;
                // A frame of which nobody knows whether it was written shall not count if it still comes to be.
                table.insert(META_JOURNAL, journal.generation() + 1)?;
            }
            transaction.commit()?;
            Ok(true)
        }));
        self.reserved = self.versions;
        match written {
            Ok(Ok(true)) => {
                // What was pending is in the database, or never was.
                *self.shared.pending_mut() = Pending::none(self.versions);
                journal.turn();
                self.journal = journal;
                Ok(database)
            }
            Ok(Ok(false)) => Err(place.corrupt("it is older than it was: what was answered is not there")),
            Ok(Err(error)) => Err(place.unavailable(error)),
            Err(panic) => Err(place.unavailable(said(&*panic))),
        }
    }

    fn commit(&mut self, mut jobs: Vec<Job>) {
        let applied = {
            let shared = Arc::clone(&self.shared);
            let disk = shared.disk();
            let Disk::Open(database) = &*disk else {
                unreachable!("only this thread changes what is open, and it has just looked")
            };
            catch_unwind(AssertUnwindSafe(|| self.apply(database, &mut jobs)))
        };
        let outcomes = match applied {
            Ok(Ok(outcomes)) => outcomes,
            Ok(Err(Failed::Before(error))) => {
                return self.fail(jobs, &error.to_string(), |place, why| place.unavailable(why));
            }
            Ok(Err(Failed::Committing(error))) => {
                return self.fail(jobs, &error.to_string(), |place, why| place.unknown(why));
            }
            Err(panic) => return self.fail(jobs, &said(&*panic), |place, why| place.unknown(why)),
        };
        let mut last = jobs.iter().zip(&outcomes).filter_map(|(job, outcome)| {
            Some((job.changes.last()?.bytes.clone(), *outcome.as_ref().ok()?.last()?))
        });
        self.answered = last.next_back().or(self.answered.take());
        let changed = jobs.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
        self.shared
            .watchers
            .changed(changed.flat_map(|(job, _)| job.changes.iter().map(|change| &change.key)));
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            // Whoever does not listen any more knows as little as after an unknown outcome.
            let _ = job.answer.send(outcome);
        }
    }

    /// Closes the database and answers everybody alike.
    fn fail(&mut self, jobs: Vec<Job>, why: &str, error: impl Fn(&StorePath, &str) -> StoreError) {
        // What was not committed may have been: its versions are not given again.
        self.versions += jobs.iter().map(|job| job.changes.len() as u64).sum::<u64>();
        self.failed_at = boot::now();
        self.records = None;
        self.shared.put(Disk::Broken(why.to_string()));
        for job in jobs {
            let _ = job.answer.send(Err(error(&self.shared.place, why)));
        }
    }

    /// One frame of the journal, or, if that could not hold it, one transaction.
    fn apply(
        &mut self,
        database: &Database,
        jobs: &mut [Job],
    ) -> Result<Vec<Result<Vec<u64>, StoreError>>, Failed> {
        let Staged { outcomes, pending, versions, reserved } =
            self.stage(database, jobs).map_err(Failed::Before)?;
        if versions == self.versions {
            return Ok(outcomes);
        }
        let applied = jobs.iter().zip(&outcomes).filter(|(_, outcome)| outcome.is_ok());
        let restarted = applied.flat_map(|(job, _)| &job.changes);
        let restarted = restarted.filter(|change| change.clock == AgeStamp::Reset);
        self.shared.stamps.restart(restarted.map(|change| change.bytes.as_slice()), boot::now());
        let frame = pending.encode();
        // The mark of a restore goes with the first change after it has no meaning any more.
        let direct = !Journal::could_hold(frame.len()) || (self.aftermath && self.shared.aftermath_is_over());
        if !direct {
            if !self.journal.has_room_for(frame.len()) {
                self.fold(database, Pending::default()).map_err(Failed::Before)?;
            }
            self.journal.append(&frame).map_err(|error| Failed::Committing(error.into()))?;
            self.shared.pending_mut().extend(pending);
        } else {
            self.fold(database, pending).map_err(Failed::Committing)?;
        }
        (self.versions, self.reserved) = (versions, reserved);
        Ok(outcomes)
    }

    /// Writes what is pending, and more, into the database, and begins the journal anew.
    fn fold(&mut self, database: &Database, more: Pending) -> Result<(), Error> {
        let mut pending = self.shared.pending().clone();
        pending.extend(more);
        let versions = pending.versions();
        let mut transaction = database.begin_write()?;
        // Frames count no more once this is done: it must not be taken for one that was never finished.
        transaction.set_two_phase_commit(true);
        pending.write(&transaction)?;
        let over = self.aftermath && self.shared.aftermath_is_over();
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert(META_JOURNAL, self.journal.generation() + 1)?;
            if over {
                meta.remove(META_LEASE)?;
            }
        }
        self.records = None;
        transaction.commit()?;
        self.journal.turn();
        self.aftermath &= !over;
        *self.shared.pending_mut() = Pending::none(versions);
        Ok(())
    }

    /// All that comes before anything is written.
    fn stage(&mut self, database: &Database, jobs: &mut [Job]) -> Result<Staged, Error> {
        let records = match self.records.take() {
            Some(records) => records,
            None => database.begin_read()?.open_table(RECORDS)?,
        };
        let (mut versions, mut reserved) = (self.versions, self.reserved);
        let mut outcomes = Vec::with_capacity(jobs.len());
        let mut given_here: HashMap<Vec<u8>, u64> = HashMap::new();
        let mut pending = Pending::default();
        for job in jobs {
            let mut outcome = self.check(&records, &given_here, &mut job.changes)?.map(|()| Vec::new());
            if let Ok(given) = &mut outcome {
                for change in &mut job.changes {
                    versions += 1;
                    change.put(versions, &mut pending);
                    given_here.insert(change.bytes.clone(), versions);
                    given.push(versions);
                }
            }
            outcomes.push(outcome);
        }
        self.records = Some(records);
        if versions > reserved {
            reserved = versions + RESERVED;
        }
        pending.reserve(reserved);
        Ok(Staged { outcomes, pending, versions, reserved })
    }

    /// Whether all that a job expects is there.
    fn check(
        &self,
        records: &impl ReadableTable<&'static [u8], &'static [u8]>,
        given_here: &HashMap<Vec<u8>, u64>,
        changes: &mut [Prepared],
    ) -> Result<Result<(), StoreError>, Error> {
        for change in changes {
            let found = match given_here.get(&change.bytes) {
                Some(version) => Some(Ok(*version)),
                None => self.version_of(records, &change.bytes)?,
            };
            let fits = match (&found, &change.expect) {
                (Some(Err(not)), _) => return Ok(Err(self.not_intact(&change.key, not.clone()))),
                (None, Expected::Absent) => true,
                (Some(Ok(version)), Expected::Version(expected)) => version == expected,
                (None | Some(Ok(_)), Expected::Absent | Expected::Version(_) | Expected::Never) => false,
            };
            if !fits {
                return Ok(Err(StoreError::Conflict));
            }
            if found.is_none() {
                // A record that was not there has no clock to be kept.
                change.clock = AgeStamp::Reset;
            }
        }
        Ok(Ok(()))
    }

    /// The version of a record, as it is on the disk.
    fn version_of(
        &self,
        records: &impl ReadableTable<&'static [u8], &'static [u8]>,
        key: &[u8],
    ) -> Result<Option<Result<u64, NotARecord>>, Error> {
        let number = |value: &[u8]| shape::parts(value).map(|(version, _)| version);
        if let Some(value) = self.shared.pending().record(key) {
            return Ok(Some(number(value)));
        }
        Ok(records.get(key)?.map(|found| number(found.value())))
    }

    fn not_intact(&self, key: &Key, not: NotARecord) -> StoreError {
        self.shared.place.not_a_record(key, not)
    }
}

/// What failed first, however often it was tried since.
fn first_cause(why: &str) -> &str {
    why.rsplit_once("(it failed before: ").map_or(why, |(_, first)| first.trim_end_matches(')'))
}
