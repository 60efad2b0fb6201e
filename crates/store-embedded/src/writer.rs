//! The one thread that writes: all swaps that wait, in one transaction, with one sync.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use baton_election::{Moment, Span};
use baton_store::{Clock, Expect, Key, NotARecord, Record, StoreError, boot};
use redb::{Database, Error, ReadableTable, StorageError, WriteTransaction};
use tokio::sync::{mpsc, oneshot};

use crate::fault::{Place, said};
use crate::history;
use crate::open::{self, Connect, Meta};
use crate::reader::{Disk, Shared};
use crate::shape::{self, HISTORY, META, META_LEASE, META_VERSIONS, RECORDS, Rows};

/// The most requests that wait; more wait to wait.
pub(crate) const QUEUE: usize = 4_096;
/// The most requests of one transaction.
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
    clock: Clock,
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
    pub(crate) fn new(key: &Key, expect: &Expect, next: &Record, clock: Clock) -> Prepared {
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
            transition: match next {
                Record::Election(document) => history::Entry::of(document),
                Record::Store(_)
                | Record::Tokens(_)
                | Record::Candidate(_)
                | Record::History(_)
                | Record::Fence(_)
                | Record::FenceLog(_) => None,
            },
        }
    }

    fn put(
        &mut self,
        version: u64,
        records: &mut Rows<'_>,
        transitions: &mut Rows<'_>,
    ) -> Result<(), StorageError> {
        shape::number(&mut self.value, version);
        if records.insert(self.bytes.as_slice(), self.value.as_slice())?.is_none() {
            // A record that was not there has no clock to be kept.
            self.clock = Clock::Restart;
        }
        self.transition.take().map_or(Ok(()), |transition| transition.put(transitions))
    }
}

/// Why nothing came of a batch.
enum Failed {
    /// Surely not applied.
    Before(Error),
    /// Perhaps applied.
    Committing(Error),
}

/// What a transaction does.
struct Staged {
    /// What becomes of each job.
    outcomes: Vec<Result<Vec<u64>, StoreError>>,
    /// What the writer's numbers are after it.
    versions: u64,
    reserved: u64,
    aftermath: bool,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    connect: Connect,
    queue: mpsc::Receiver<Job>,
    /// The last version given.
    versions: u64,
    /// The last version that may be given before more are reserved.
    reserved: u64,
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
        connect: Connect,
        queue: mpsc::Receiver<Job>,
        meta: &Meta,
    ) -> Writer {
        Writer {
            shared,
            connect,
            queue,
            versions: meta.versions,
            reserved: meta.versions,
            answered: None,
            aftermath: meta.lease > Span::ZERO,
            failed_at: boot::now(),
        }
    }

    /// Goes on until nobody can ask any more, and closes the database.
    pub(crate) fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let mut jobs = vec![first];
            while jobs.len() < BATCH
                && let Ok(next) = self.queue.try_recv()
            {
                jobs.push(next);
            }
            match self.ready() {
                Ok(()) => self.commit(jobs),
                Err(why) => {
                    for job in jobs {
                        let _ = job.answer.send(Err(self.shared.place.unavailable(&why)));
                    }
                }
            }
        }
        self.shared.put(Disk::Broken("it was closed".to_string()));
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

    /// Reads the database from the disk, and writes to it to see that it can be.
    fn reopen(&mut self) -> Result<Database, StoreError> {
        let place = &self.shared.place;
        let (database, meta) = open::open(place, &self.connect)?;
        self.versions = self.versions.max(meta.versions);
        let written = catch_unwind(AssertUnwindSafe(|| -> Result<bool, Error> {
            let transaction = database.begin_write()?;
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
            transaction.open_table(META)?.insert(META_VERSIONS, self.versions)?;
            transaction.commit()?;
            Ok(true)
        }));
        self.reserved = self.versions;
        match written {
            Ok(Ok(true)) => Ok(database),
            Ok(Ok(false)) => Err(place.corrupt("it is older than it was: what was answered is not there")),
            Ok(Err(error)) => Err(place.unavailable(error)),
            Err(panic) => Err(place.unavailable(said(&*panic))),
        }
    }

    fn commit(&mut self, mut jobs: Vec<Job>) {
        let applied = {
            let disk = self.shared.disk();
            let Disk::Open(database) = &*disk else {
                unreachable!("only this thread changes what is open, and it has just looked")
            };
            catch_unwind(AssertUnwindSafe(|| self.apply(database, &mut jobs)))
        };
        let Staged { outcomes, versions, reserved, aftermath } = match applied {
            Ok(Ok(applied)) => applied,
            Ok(Err(Failed::Before(error))) => {
                return self.fail(jobs, &error.to_string(), |place, why| place.unavailable(why));
            }
            Ok(Err(Failed::Committing(error))) => {
                return self.fail(jobs, &error.to_string(), |place, why| place.unknown(why));
            }
            Err(panic) => return self.fail(jobs, &said(&*panic), |place, why| place.unknown(why)),
        };
        (self.versions, self.reserved, self.aftermath) = (versions, reserved, aftermath);
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
    fn fail(&mut self, jobs: Vec<Job>, why: &str, error: impl Fn(&Place, &str) -> StoreError) {
        // What was not committed may have been: its versions are not given again.
        self.versions += jobs.iter().map(|job| job.changes.len() as u64).sum::<u64>();
        self.failed_at = boot::now();
        self.shared.put(Disk::Broken(why.to_string()));
        for job in jobs {
            let _ = job.answer.send(Err(error(&self.shared.place, why)));
        }
    }

    /// One transaction.
    fn apply(&self, database: &Database, jobs: &mut [Job]) -> Result<Staged, Failed> {
        let (transaction, staged) = self.stage(database, jobs).map_err(Failed::Before)?;
        if staged.versions == self.versions {
            transaction.abort().map_err(|error| Failed::Before(error.into()))?;
            return Ok(staged);
        }
        let applied = jobs.iter().zip(&staged.outcomes).filter(|(_, outcome)| outcome.is_ok());
        let restarted = applied.flat_map(|(job, _)| &job.changes);
        let restarted = restarted.filter(|change| change.clock == Clock::Restart);
        self.shared.stamps.restart(restarted.map(|change| change.bytes.as_slice()), boot::now());
        transaction.commit().map_err(|error| Failed::Committing(error.into()))?;
        Ok(staged)
    }

    /// All that comes before the commit.
    fn stage(&self, database: &Database, jobs: &mut [Job]) -> Result<(WriteTransaction, Staged), Error> {
        let transaction = database.begin_write()?;
        let (mut versions, mut reserved) = (self.versions, self.reserved);
        let mut outcomes = Vec::with_capacity(jobs.len());
        {
            let mut records = transaction.open_table(RECORDS)?;
            let mut transitions = transaction.open_table(HISTORY)?;
            for job in jobs {
                let mut outcome = self.check(&records, &job.changes)?.map(|()| Vec::new());
                if let Ok(given) = &mut outcome {
                    for change in &mut job.changes {
                        versions += 1;
                        change.put(versions, &mut records, &mut transitions)?;
                        given.push(versions);
                    }
                }
                outcomes.push(outcome);
            }
        }
        if versions > reserved {
            reserved = versions + RESERVED;
            transaction.open_table(META)?.insert(META_VERSIONS, reserved)?;
        }
        // The mark goes with a commit, and none is made for it alone.
        let over = self.aftermath && versions > self.versions && self.shared.aftermath_is_over();
        if over {
            transaction.open_table(META)?.remove(META_LEASE)?;
        }
        Ok((transaction, Staged { outcomes, versions, reserved, aftermath: self.aftermath && !over }))
    }

    /// Whether all that a job expects is there.
    fn check(
        &self,
        records: &Rows<'_>,
        changes: &[Prepared],
    ) -> Result<Result<(), StoreError>, StorageError> {
        for change in changes {
            let found = records.get(change.bytes.as_slice())?;
            let found = found.map(|found| shape::parts(found.value()).map(|(version, _)| version));
            let fits = match (found, &change.expect) {
                (Some(Err(not)), _) => return Ok(Err(self.not_intact(&change.key, not))),
                (None, Expected::Absent) => true,
                (Some(Ok(version)), Expected::Version(expected)) => version == *expected,
                (None | Some(Ok(_)), Expected::Absent | Expected::Version(_) | Expected::Never) => false,
            };
            if !fits {
                return Ok(Err(StoreError::Conflict));
            }
        }
        Ok(Ok(()))
    }

    fn not_intact(&self, key: &Key, not: NotARecord) -> StoreError {
        self.shared.place.not_a_record(key, not)
    }
}

/// What failed first, however often it was tried since.
fn first_cause(why: &str) -> &str {
    why.rsplit_once("(it failed before: ").map_or(why, |(_, first)| first.trim_end_matches(')'))
}
