//! The one loop: read, gather evidence, decide, log, swap.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use baton_api::elections::{CommandError, Executed, Sighting, StartFrom, merged_history};
use baton_api::{Memory, Pace, Patience, SharedMemory, served};
use baton_election::document::Transition;
use baton_election::fence::{Accepted, LOG_PART, LOG_PARTS};
use baton_election::id::StoreId;
use baton_election::log::{Log, MAX_HISTORY, Numbered};
use baton_election::time::{Moment, Span};
use baton_election::{Answer, Command, Document, ElectionName, Refusal, ResourceName, StoreInfo};
use baton_store::{
    AgeStamp, Expect, HistoryKept, Key, Persistence, Reading, Record, Store, StoreError, Trace, Version, boot,
};

use crate::audit;
use crate::facts::Facts;

/// Decides on the elections of a store, and on all else that stands in it.
pub struct Executor {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) memory: SharedMemory,
    info: Mutex<Option<Arc<StoreInfo>>>,
    /// What this client itself wrote last of each election: most likely still there when it writes the next time.
    own: Mutex<BTreeMap<ElectionName, LastWrite>>,
    /// The last transition of each election that is known to stand in its history, as it stands there.
    recorded: Mutex<BTreeMap<ElectionName, Transition>>,
    /// What is done when this executor makes the store.
    pub(crate) when_made: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// What this client wrote.
struct LastWrite {
    record: Record,
    version: Version,
    /// When the store said so.
    heard_at: Moment,
}

/// A record as it is known when a change of it is decided.
pub(crate) struct Look<'a> {
    pub(crate) record: Option<&'a Record>,
    /// A lower bound on the time since its last beat.
    pub(crate) age: Span,
    /// When it was asked for; none if it was not asked for but remembered.
    pub(crate) asked_at: Option<Moment>,
    /// What the store told beside it.
    pub(crate) trace: Option<Trace>,
}

/// What to do with a record that was read.
pub(crate) enum Step<T> {
    /// Swap this in; the outcome is valid once it is committed.
    Write(Record, AgeStamp, Persistence, T),
    /// Nothing.
    Done(T),
}

impl Executor {
    /// Decides in a store, knowing what was seen of it before.
    pub fn new(store: Arc<dyn Store>, memory: Memory) -> Executor {
        Executor {
            store,
            memory: SharedMemory::new(memory),
            info: Mutex::default(),
            own: Mutex::default(),
            recorded: Mutex::default(),
            when_made: OnceLock::new(),
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What was seen of the store.
    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// Reads an election and takes in what it shows.
    pub async fn see(&self, election: &ElectionName) -> Result<Sighting, CommandError> {
        let key = Key::Election(election.clone());
        Ok(self.memory.view(&key, &|| self.store.location(), || self.store.read(&key)).await?)
    }

    /// What a change showed that was just told of, for a swap right after it; none if it is not known or was overtaken.
    pub(crate) fn pushed(&self, election: &ElectionName) -> Option<Sighting> {
        let key = Key::Election(election.clone());
        let seen = self.memory.take_in(&key, self.store.last_pushed(&key)?);
        self.accept(seen.document.as_ref(), seen.age, seen.asked_at, seen.trace()).ok().map(|()| seen)
    }

    fn accept(
        &self,
        document: Option<&Document>,
        age: Span,
        asked_at: Moment,
        trace: Option<Trace>,
    ) -> Result<(), StoreError> {
        self.memory.accept(&|| self.store.location(), document, age, asked_at, trace)
    }

    /// Refuses what this client wrote itself if another task has seen a later epoch since.
    fn still_newest(&self, document: Option<&Document>) -> Result<(), StoreError> {
        let overtaken = |document: &Document| self.memory.highest(&document.election) > document.epoch;
        if document.is_some_and(overtaken) { Err(StoreError::Conflict) } else { Ok(()) }
    }

    fn own(&self) -> MutexGuard<'_, BTreeMap<ElectionName, LastWrite>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first look of a change: by itself, or what is known already. A swap on what is outdated is a conflict and costs a
    /// round trip; one on what is not saves one.
    async fn first_look(
        &self,
        key: &Key,
        first: StartFrom,
    ) -> Result<(Reading, Option<Moment>), CommandError> {
        match (first, key) {
            (StartFrom::Reading(reading), _) => {
                let asked_at = reading.asked_at;
                return Ok((*reading, Some(asked_at)));
            }
            (StartFrom::LastWrite, Key::Election(election)) => {
                if let Some(own) = self.own().remove(election) {
                    let now = boot::now();
                    return Ok((
                        Reading {
                            found: Some((own.record, own.version)),
                            age: Some(now.since(own.heard_at)),
                            trace: None,
                            asked_at: own.heard_at,
                            received_at: own.heard_at,
                        },
                        None,
                    ));
                }
            }
            (StartFrom::Read | StartFrom::LastWrite, _) => {}
        }
        let reading = self.store.read(key).await?;
        let asked_at = reading.asked_at;
        Ok((reading, Some(asked_at)))
    }

    /// Carries out a command: reads, decides, logs what falls out of the document, and swaps, until it is done or refused.
    pub(crate) async fn run(
        &self,
        patience: Patience,
        election: &ElectionName,
        command: &Command,
        mut first: StartFrom,
    ) -> Result<Executed, CommandError> {
        let asked_at = boot::now();
        let key = Key::Election(election.clone());
        let (mut info, mut fresh) = (self.known_info(patience, true).await?, false);
        let (answer, document) = loop {
            let decided = self
                .change_from(std::mem::replace(&mut first, StartFrom::Read), &key, patience, |look| {
                    let document = match look.record {
                        Some(Record::Election(document)) => Some(&**document),
                        Some(_) | None => None,
                    };
                    served::only_unserved(document, &|| self.store.location())?;
                    match look.asked_at {
                        Some(at) => self.accept(document, look.age, at, look.trace)?,
                        None => self.still_newest(document)?,
                    }
                    match document.filter(|document| !document.is_retired()) {
                        None if !fresh => Ok(Step::Done(None)),
                        None | Some(_) => self.decide(election, document, look.age, &info, command),
                    }
                })
                .await?;
            match decided {
                Some(decided) => break decided,
                // A new document begins with the store's operators of this moment, and the store may have been wiped.
                None => (info, fresh) = (self.fresh_info(patience, true).await?, true),
            }
        };
        self.memory().wrote(&document);
        let ttl = document.leader.as_ref().map(|leader| leader.ttl);
        Ok(Executed { answer, document: Some(document), asked_at, ttl })
    }

    fn decide(
        &self,
        election: &ElectionName,
        document: Option<&Document>,
        age: Span,
        info: &StoreInfo,
        command: &Command,
    ) -> Result<Step<Option<(Answer, Document)>>, CommandError> {
        let (floor, vanished_lease) = self.memory().vanished(election, boot::now());
        let facts = Facts { election, info, info_is_current: false, age, floor, vanished_lease };
        let decision = facts.decide(document, command)?;
        Ok(match decision.next {
            None => {
                let Some(document) = document else {
                    unreachable!("only a document answers without a write")
                };
                Step::Done(Some((decision.answer, document.clone())))
            }
            Some(next) => {
                let restarts = document.is_none_or(|document| document.beat != next.beat);
                let clock = if restarts { AgeStamp::Reset } else { AgeStamp::Preserve };
                let outcome = Some((decision.answer, next.clone()));
                Step::Write(Record::Election(Box::new(next)), clock, decision.persistence, outcome)
            }
        })
    }

    /// Reads, decides and swaps until it is done, refused, or the store has failed too often.
    ///
    /// An outcome that is not known is read again and decided anew: commands are idempotent.
    pub(crate) async fn change<T>(
        &self,
        key: &Key,
        patience: Patience,
        step: impl FnMut(Look<'_>) -> Result<Step<T>, CommandError>,
    ) -> Result<T, CommandError> {
        self.change_from(StartFrom::Read, key, patience, step).await
    }

    /// The same, beginning with what may be known already.
    async fn change_from<T>(
        &self,
        mut first: StartFrom,
        key: &Key,
        patience: Patience,
        mut step: impl FnMut(Look<'_>) -> Result<Step<T>, CommandError>,
    ) -> Result<T, CommandError> {
        let mut pace = Pace::new(patience);
        let mut unknown = None;
        loop {
            let from = std::mem::replace(&mut first, StartFrom::Read);
            match self.try_change(from, key, &mut unknown, &mut step).await {
                Err(CommandError::Store(error)) if error.is_passing() => pace.wait_after(error).await?,
                outcome => return outcome,
            }
        }
    }

    /// One attempt. `unknown` is what an earlier one wrote without hearing whether it was applied.
    pub(crate) async fn try_change<T>(
        &self,
        first: StartFrom,
        key: &Key,
        unknown: &mut Option<(Record, T)>,
        step: &mut impl FnMut(Look<'_>) -> Result<Step<T>, CommandError>,
    ) -> Result<T, CommandError> {
        let (mut reading, mut asked_at) = self.first_look(key, first).await?;
        let mut age = match asked_at {
            Some(_) => self.memory().observe(key, &reading),
            // What is remembered tells nothing new.
            None => reading.age.unwrap_or(Span::ZERO),
        };
        if let Some((_, outcome)) = unknown.take_if(|(written, _)| reading.record() == Some(&*written)) {
            return Ok(outcome);
        }
        let mut stepped = step(Look { record: reading.record(), age, asked_at, trace: reading.trace });
        if asked_at.is_none() && !matches!(stepped, Ok(Step::Write(..))) {
            // Only a swap can tell that what is remembered is still there: an answer without one needs a look.
            (reading, asked_at) = self.first_look(key, StartFrom::Read).await?;
            age = self.memory().observe(key, &reading);
            stepped = step(Look { record: reading.record(), age, asked_at, trace: reading.trace });
        }
        match stepped? {
            Step::Done(outcome) => Ok(outcome),
            Step::Write(next, clock, persistence, outcome) => {
                self.before_swap(key, reading.record(), &next).await?;
                match self.store.swap(key, reading.expect(), &next, clock, persistence).await {
                    Ok(swapped) => {
                        self.remember_own(key, next, swapped.version, clock);
                        Ok(outcome)
                    }
                    Err(error) => {
                        if matches!(error, StoreError::Unknown { .. }) {
                            *unknown = Some((next, outcome));
                        }
                        Err(error.into())
                    }
                }
            }
        }
    }

    /// Only what restarted the clock: of anything else the age is not known.
    fn remember_own(&self, key: &Key, record: Record, version: Version, clock: AgeStamp) {
        let Key::Election(election) = key else { return };
        match clock {
            AgeStamp::Reset => {
                self.own().insert(election.clone(), LastWrite { record, version, heard_at: boot::now() });
            }
            AgeStamp::Preserve => drop(self.own().remove(election)),
        }
    }

    /// What falls out of a record must stand in the list beside it first.
    ///
    /// And nobody is granted anything while everything is paused. Who pauses everything first says so in the store's own record, then in each election's. So one who
    /// looks at the two in the other order sees the pause, or its swap finds the election changed.
    async fn before_swap(&self, key: &Key, old: Option<&Record>, next: &Record) -> Result<(), CommandError> {
        if is_grant(key, old, next) {
            Box::pin(self.fresh_info(Patience::default(), true)).await?.allow_grant()?;
        }
        if let Some((book, entry)) = audit::pushed_out(key, old, next) {
            self.record_act(book, entry).await?;
        }
        match (key, old, next) {
            (Key::Election(election), Some(Record::Election(old)), Record::Election(next)) => {
                match old.pushes_out(next) {
                    Some(transition) => self.record_transition(election, transition).await,
                    None => Ok(()),
                }
            }
            (Key::Fence(resource), Some(Record::Fence(old)), Record::Fence(next)) => {
                let kept = next.tail.first().map_or(0, Numbered::number);
                let falling: Vec<Accepted> =
                    old.tail.iter().filter(|entry| entry.seq < kept).cloned().collect();
                self.record_accepted(resource, &falling).await
            }
            (_, _, _) => Ok(()),
        }
    }

    /// Puts a change of leader into the election's history, once, where the store does not keep it by itself. Whoever swaps
    /// documents by itself does this before the swap that pushes it out.
    pub async fn record_transition(
        &self,
        election: &ElectionName,
        transition: &Transition,
    ) -> Result<(), CommandError> {
        if self.store.properties().history == HistoryKept::Native {
            return Ok(());
        }
        if self.recorded().get(election) == Some(transition) {
            return Ok(());
        }
        let key = Key::History(election.clone());
        Box::pin(self.change(&key, Patience::default(), |look| {
            let log = match look.record {
                Some(Record::History(log)) => log.clone(),
                Some(_) | None => Log::default(),
            };
            Ok(match log.with(std::slice::from_ref(transition), MAX_HISTORY) {
                None => Step::Done(()),
                Some(longer) => {
                    Step::Write(Record::History(longer), AgeStamp::Preserve, Persistence::Durable, ())
                }
            })
        }))
        .await?;
        self.recorded().insert(election.clone(), transition.clone());
        Ok(())
    }

    fn recorded(&self) -> MutexGuard<'_, BTreeMap<ElectionName, Transition>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether a transition stands in the history already, so that a later swap need not. Says whether it does.
    pub(crate) async fn learn_recorded(&self, election: &ElectionName, transition: &Transition) -> bool {
        if self.store.properties().history == HistoryKept::Native
            || self.recorded().get(election) == Some(transition)
        {
            return true;
        }
        let Ok(reading) = self.store.read(&Key::History(election.clone())).await else { return false };
        let stands =
            matches!(reading.record(), Some(Record::History(log)) if log.entries.contains(transition));
        if stands {
            self.recorded().insert(election.clone(), transition.clone());
        }
        stands
    }

    /// Puts accepted tokens into the log beside a fence, each once. A part replaces an older one; where a newer one stands, it comes too late.
    async fn record_accepted(
        &self,
        resource: &ResourceName,
        entries: &[Accepted],
    ) -> Result<(), CommandError> {
        for part in entries.chunk_by(|a, b| a.seq / LOG_PART == b.seq / LOG_PART) {
            let Some(first) = part.first() else { continue };
            let number = first.seq / LOG_PART;
            let key = Key::FenceLog(resource.clone(), number % LOG_PARTS);
            Box::pin(self.change(&key, Patience::default(), |look| {
                let log = match look.record {
                    Some(Record::FenceLog(log)) => log.clone(),
                    Some(_) | None => Log::default(),
                };
                let log = match log.entries.first().map_or(number, |entry| entry.seq / LOG_PART) {
                    stands if stands > number => return Ok(Step::Done(())),
                    stands if stands < number => Log::default(),
                    _ => log,
                };
                Ok(match log.with(part, usize::MAX) {
                    None => Step::Done(()),
                    Some(longer) => {
                        Step::Write(Record::FenceLog(longer), AgeStamp::Preserve, Persistence::Durable, ())
                    }
                })
            }))
            .await?;
        }
        Ok(())
    }

    /// What the store knows of itself, as it was when last asked; written first if it knows nothing and `make` is set.
    pub(crate) async fn known_info(
        &self,
        patience: Patience,
        make: bool,
    ) -> Result<Arc<StoreInfo>, CommandError> {
        let known = self.cached_info().clone();
        match known {
            Some(info) => Ok(info),
            None => self.fresh_info(patience, make).await,
        }
    }

    fn cached_info(&self) -> MutexGuard<'_, Option<Arc<StoreInfo>>> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, as it is.
    pub(crate) async fn fresh_info(
        &self,
        patience: Patience,
        make: bool,
    ) -> Result<Arc<StoreInfo>, CommandError> {
        let mut id = [0; 8];
        getrandom::fill(&mut id).map_err(std::io::Error::other)?;
        let fresh = StoreInfo::new(StoreId(id), boot::wall());
        let info = self
            .change(&Key::Store, patience, |look| match look.record {
                Some(Record::Store(info)) => Ok(Step::Done(info.clone())),
                Some(_) | None if make => Ok(Step::Write(
                    Record::Store(fresh.clone()),
                    AgeStamp::Reset,
                    Persistence::Durable,
                    fresh.clone(),
                )),
                Some(_) | None => Err(CommandError::Refused(Refusal::invalid(
                    format!("{} is not a store yet", self.store.location()),
                    "`baton init`, `baton run` or `baton acquire` makes one",
                ))),
            })
            .await?;
        if info.id == fresh.id
            && let Some(tell) = self.when_made.get()
        {
            tell();
        }
        let info = Arc::new(info);
        *self.cached_info() = Some(Arc::clone(&info));
        Ok(info)
    }

    /// The transitions of an election, the oldest first; at most `limit` of the newest.
    pub(crate) async fn transitions(
        &self,
        election: &ElectionName,
        limit: usize,
    ) -> Result<Vec<Transition>, CommandError> {
        // The document first: what it does not show stands in the history by then.
        let document = self.see(election).await?.document;
        let entries = match self.store.properties().history {
            HistoryKept::Native => self.store.native_history(election, limit).await?,
            HistoryKept::Beside => match self.store.read(&Key::History(election.clone())).await?.found {
                Some((Record::History(log), _)) => log.entries,
                Some(_) | None => Vec::new(),
            },
        };
        Ok(merged_history(document, entries, limit))
    }

    /// A swap that settles which of two histories holds.
    pub(crate) async fn swap_in(
        &self,
        key: &Key,
        settles: &Version,
        next: &Record,
    ) -> Result<(), CommandError> {
        self.store
            .swap(key, Expect::Version(settles.clone()), next, AgeStamp::Reset, Persistence::Durable)
            .await?;
        Ok(())
    }
}

/// Whether somebody else leads by it, of an election that a pause of everything stops.
fn is_grant(key: &Key, old: Option<&Record>, next: &Record) -> bool {
    let (Key::Election(election), Record::Election(next)) = (key, next) else { return false };
    let led_by = |document: &Document| document.leader.as_ref().map(|leader| leader.incarnation);
    let before = match old {
        Some(Record::Election(old)) => led_by(old),
        Some(_) | None => None,
    };
    election.as_str() != served::SERVERS && next.leader.is_some() && led_by(next) != before
}
