//! Elections decided in memory and kept in a store.
//!
//! Assumes that nobody else writes the elections of the store while this engine runs. Guarantees that whatever is answered is
//! durable, except for plain renewals, which a restart makes good by giving every lease its full length; that commands on one
//! election are carried out one after the other; and that a request whose caller has gone is carried
//! out whole or not at all. Does not guarantee that a lease ends at its end while the server does not run: it ends later.

mod changes;
mod line;
mod pacemaker;
mod slot;
mod soft;
mod succession;
mod timers;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use baton_election::command::Acquire;
use baton_election::time::{Moment, Span};
use baton_election::{
    Answer, Command, Decision, Document, ElectionName, Epoch, Evidence, Refusal, StoreInfo, decide,
};
use baton_store::{Clock, Decided, Expect, Key, Reading, Record, Store, StoreError, Trace, Undecided, boot};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use changes::Changes;
pub use changes::{Event, News, Subscription};
use line::Waiter;
use pacemaker::Pacemaker;
use slot::{Known, Slot};
use soft::is_soft;
use timers::Timers;

/// How many parts the elections are kept in, each behind a lock of its own.
const SHARDS: usize = 64;
/// When who waits in line is looked after again, after a write that failed.
const AFTER_A_FAILURE: Span = Span::millis(200);
/// How often a command is tried whose outcome the store did not tell.
const TRIES: usize = 3;

type Outcome = Result<Decided, Undecided>;

/// An election as it stands.
#[derive(Clone, Debug)]
pub struct View {
    /// The document; none if there is no such election.
    pub document: Option<Document>,
    /// A lower bound on the time since its last beat.
    pub age: Span,
}

/// All elections of one store. Clones share it.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    _tasks: Arc<Tasks>,
}

/// What goes on by itself, as long as somebody has the engine.
struct Tasks([AbortHandle; 2]);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

struct Shared {
    store: Arc<dyn Store>,
    info: RwLock<Arc<StoreInfo>>,
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    clock: Pacemaker,
    timers: Timers,
    changes: Changes,
    /// Counts the changes of which nobody knows.
    doubts: AtomicU64,
}

#[derive(Default)]
struct Shard {
    slots: HashMap<ElectionName, Slot>,
    /// Who waits until an election is not being changed.
    queues: HashMap<ElectionName, Vec<oneshot::Sender<()>>>,
    /// Who waits in line for an election.
    lines: HashMap<ElectionName, line::Line>,
}

/// What came of one try.
enum Try {
    Done(Outcome),
    /// It is being changed: try again after that.
    Later(oneshot::Receiver<()>),
    /// It is not known: read it first.
    Unknown,
    /// It is being written.
    Written(oneshot::Receiver<Settled>),
}

/// What was found in the store.
enum Loaded {
    /// An election.
    Something,
    /// None; what the store still knows of one that was there.
    Nothing(Option<Trace>),
}

/// What came of a write.
enum Settled {
    Done(Outcome),
    /// Nobody knows: try again.
    Again(StoreError),
}

/// A change on its way to the store.
struct Write {
    election: ElectionName,
    expect: Expect,
    next: Document,
    clock: Clock,
    /// When its clock was restarted, if this does not restart it.
    stamp: Option<Moment>,
    /// Who asked for it, and what is answered once it is durable.
    asked: Vec<(Asker, Decided)>,
}

/// Whose command it was.
enum Asker {
    Caller(oneshot::Sender<Settled>),
    InLine(Box<Waiter>),
}

impl Engine {
    /// The elections of a store. The tasks that this starts end with the engine's last clone.
    pub async fn start(store: Arc<dyn Store>) -> Result<Engine, StoreError> {
        let info = Arc::new(found_or_made(&*store).await?);
        let shared = Arc::new(Shared {
            store,
            info: RwLock::new(info),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            clock: Pacemaker::start(),
            timers: Timers::default(),
            changes: Changes::default(),
            doubts: AtomicU64::new(0),
        });
        let tasks = [
            tokio::spawn(keep_time(Arc::downgrade(&shared))).abort_handle(),
            tokio::spawn(end_leases(Arc::downgrade(&shared))).abort_handle(),
        ];
        Ok(Engine { shared, _tasks: Arc::new(Tasks(tasks)) })
    }

    /// The store behind it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// What the store knows of itself.
    pub fn info(&self) -> Arc<StoreInfo> {
        Arc::clone(&self.shared.info.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in what the store knows of itself, after it was changed.
    pub(crate) fn set_info(&self, info: StoreInfo) {
        *self.shared.info.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(info);
    }

    /// An election as it stands.
    pub async fn view(&self, election: &ElectionName) -> Result<View, StoreError> {
        loop {
            let later = {
                let mut shard = self.shared.shard(election);
                if let Some(known) = shard.slots.get(election).and_then(Slot::known) {
                    let age = self.shared.clock.age(known.stamp, self.shared.clock.now());
                    return Ok(View { document: Some(known.document.clone()), age });
                }
                shard.later(election)
            };
            if let Some(later) = later {
                let _ = later.await;
                continue;
            }
            if let Loaded::Nothing(_) = self.shared.load(election).await? {
                return Ok(View { document: None, age: Span::ZERO });
            }
        }
    }

    /// Tells of changes of an election from here on, or after the event of this number.
    pub fn subscribe(&self, election: &ElectionName, after: Option<u64>) -> Subscription {
        self.shared.changes.subscribe(election, after)
    }

    /// Carries out a command.
    pub async fn execute(&self, election: &ElectionName, command: &Command) -> Outcome {
        self.shared.execute(election, command).await
    }

    /// Asks for the lease, and waits in line for it for at most so long.
    ///
    /// Who is granted it after having waited has an offer, which it must claim with a renewal.
    pub async fn acquire(&self, election: &ElectionName, acquire: Acquire, wait: Span) -> Outcome {
        let until = self.shared.clock.now() + wait;
        // Whoever waits already goes first.
        self.shared.look_after(election);
        let refused = self.execute(election, &Command::Acquire(acquire.clone())).await;
        let Err(Undecided::Refused(refusal @ Refusal::Held { .. })) = refused else { return refused };
        if wait == Span::ZERO || self.shared.compares(election) {
            return Err(refusal.into());
        }
        let mut place = self.shared.stand_in_line(election, acquire);
        self.shared.look_after(election);
        let settled = tokio::select! {
            settled = place.settled() => Some(settled),
            _ = boot::sleep_until(until) => None,
        };
        match settled {
            Some(settled) => settled,
            None if place.leave() => Err(self.still_refused(election, refusal).await),
            // It is being granted in this very moment.
            None => place.settled().await,
        }
    }

    /// Why who waited in vain does not lead: by now perhaps because of another.
    async fn still_refused(&self, election: &ElectionName, first: Refusal) -> Undecided {
        let Ok(View { document: Some(document), age }) = self.view(election).await else {
            return first.into();
        };
        match document.lease_holder() {
            Some(holder) => Refusal::Held {
                by: Some(holder.agent.clone()),
                epoch: document.epoch,
                remaining: document.lease_remaining(age),
                ending: document.departure.as_ref().map(|departure| departure.cause),
            }
            .into(),
            None => first.into(),
        }
    }
}

impl Shared {
    fn shard(&self, election: &ElectionName) -> MutexGuard<'_, Shard> {
        #[expect(clippy::cast_possible_truncation, reason = "only the lower bits count")]
        let number = self.hasher.hash_one(election) as usize % SHARDS;
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn execute(self: &Arc<Self>, election: &ElectionName, command: &Command) -> Outcome {
        let mut tries = 0;
        // What may have been applied once is not said to have failed later.
        let unless_applied = |tries: usize, error: StoreError| match error {
            StoreError::Unavailable { location, why, .. } if tries > 0 => {
                StoreError::Unknown { location, why }
            }
            error => error,
        };
        loop {
            match self.attempt(election, command) {
                Try::Done(outcome) => return outcome,
                Try::Later(later) => {
                    let _ = later.await;
                }
                Try::Unknown => {
                    let loaded = self.load(election).await;
                    match loaded.map_err(|error| unless_applied(tries, error))? {
                        Loaded::Nothing(trace) => self.create(election, trace),
                        Loaded::Something => {}
                    }
                }
                Try::Written(settled) => match settled.await {
                    Ok(Settled::Done(Err(Undecided::Store(error)))) => {
                        return Err(unless_applied(tries, error).into());
                    }
                    Ok(Settled::Done(outcome)) => return outcome,
                    Ok(Settled::Again(error)) => {
                        tries += 1;
                        if tries >= TRIES {
                            return Err(error.into());
                        }
                    }
                    Err(_) => return Err(self.stopping()),
                },
            }
        }
    }

    /// Decides a command, and begins to write what it changes.
    fn attempt(self: &Arc<Self>, election: &ElectionName, command: &Command) -> Try {
        let mut shard = self.shard(election);
        if let Some(later) = shard.later(election) {
            return Try::Later(later);
        }
        let Some(slot) = shard.slots.get_mut(election) else { return Try::Unknown };
        let (document, stamp, trace) = match slot {
            Slot::Absent(trace) => (None, Moment::default(), *trace),
            Slot::Known(known) => (Some(&known.document), known.stamp, None),
            Slot::Doubtful(_) => return Try::Unknown,
            Slot::Writing(_) => unreachable!("whoever comes while it is written waits"),
        };
        let now = self.clock.now();
        let age = document.map_or(Span::ZERO, |_| self.clock.age(stamp, now));
        let Decision { next, answer } = match self.decide(election, document, command, age, trace) {
            Ok(decision) => decision,
            Err(refusal) => {
                if document.is_none() {
                    shard.slots.remove(election);
                }
                return Try::Done(Err(refusal.into()));
            }
        };
        let Some(next) = next else {
            return Try::Done(Ok(decided(answer, document, !is_renewal(command))));
        };
        if document.is_some_and(|document| is_soft(document, &next)) {
            let outcome = decided(answer, Some(&next), !is_renewal(command));
            if let Slot::Known(known) = slot {
                (known.document, known.stamp) = (next, now);
            }
            return Try::Done(Ok(outcome));
        }
        let (sender, settled) = oneshot::channel();
        let outcome = decided(answer, Some(&next), true);
        self.write(shard, election, next, vec![(Asker::Caller(sender), outcome)]);
        Try::Written(settled)
    }

    fn decide(
        &self,
        election: &ElectionName,
        document: Option<&Document>,
        command: &Command,
        age: Span,
        trace: Option<Trace>,
    ) -> Result<Decision, Refusal> {
        let info = Arc::clone(&self.info.read().unwrap_or_else(PoisonError::into_inner));
        let evidence = Evidence {
            election,
            store: info.id,
            age,
            wall: boot::wall(),
            floor: trace.map_or(Epoch(0), |trace| trace.epoch),
            vanished_lease: trace.map_or(Span::ZERO, |trace| trace.lease),
            operator_keys: &info.operator_keys,
        };
        decide(document, command, &evidence)
    }

    /// Begins to write a document. If it is free to take, the first in line takes it in the same step.
    fn write(
        self: &Arc<Self>,
        mut shard: MutexGuard<'_, Shard>,
        election: &ElectionName,
        next: Document,
        mut asked: Vec<(Asker, Decided)>,
    ) {
        let next = match self.succeed(&mut shard, election, &next, Span::ZERO) {
            Some((granted, waiter, outcome)) => {
                asked.push((Asker::InLine(Box::new(waiter)), outcome));
                granted
            }
            None => next,
        };
        let Some(slot) = shard.slots.get_mut(election) else { return };
        let before = match std::mem::replace(slot, Slot::Writing(None)) {
            Slot::Known(known) => Some(known),
            Slot::Absent(_) | Slot::Doubtful(_) | Slot::Writing(_) => None,
        };
        let (expect, stamp) = match &before {
            Some(known) => {
                let keeps = known.document.beat == next.beat;
                (Expect::Version(known.version.clone()), keeps.then_some(known.stamp))
            }
            None => (Expect::Absent, None),
        };
        *slot = Slot::Writing(before);
        drop(shard);
        let clock = if stamp.is_some() { Clock::Keep } else { Clock::Restart };
        let write = Write { election: election.clone(), expect, next, clock, stamp, asked };
        tokio::spawn(Arc::clone(self).carry_out(write));
    }

    /// Writes, and tells everybody.
    async fn carry_out(self: Arc<Self>, write: Write) {
        let Write { election, expect, next, clock, stamp, asked } = write;
        let key = Key::Election(election.clone());
        let record = Record::Election(Box::new(next));
        let swapped = self.store.swap(&key, expect, &record, clock).await;
        let Record::Election(next) = record else { unreachable!("it is an election") };
        match swapped {
            Ok(swapped) => {
                let stamp = stamp.unwrap_or_else(|| self.clock.now());
                let known = Known { document: *next, version: swapped.version, stamp };
                self.settle(&election, known);
                for (asker, outcome) in asked {
                    asker.tell(Settled::Done(Ok(outcome)));
                }
                self.look_after(&election);
            }
            // Nothing was written.
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Refused { .. })) => {
                self.undo(&election, false, asked, || Settled::Done(Err(error.clone().into())));
            }
            Err(error) => self.undo(&election, true, asked, || Settled::Again(error.clone())),
        }
    }

    /// Ends a change: whoever waited for it goes on. It is told of in the order in which it was made.
    fn settle(&self, election: &ElectionName, known: Known) {
        let mut shard = self.shard(election);
        self.changes.publish(election, &known.document, known.stamp);
        shard.slots.insert(election.clone(), Slot::Known(Box::new(known)));
        shard.wake(election);
    }

    /// Ends a change that was not made, or of which nobody knows. Who waits in line goes on waiting, and is looked after soon.
    fn undo(
        &self,
        election: &ElectionName,
        doubtful: bool,
        asked: Vec<(Asker, Decided)>,
        settled: impl Fn() -> Settled,
    ) {
        let mut shard = self.shard(election);
        match shard.slots.remove(election) {
            _ if doubtful => {
                let doubt = self.doubts.fetch_add(1, Ordering::Relaxed);
                shard.slots.insert(election.clone(), Slot::Doubtful(doubt));
            }
            Some(Slot::Writing(Some(known))) => {
                shard.slots.insert(election.clone(), Slot::Known(known));
            }
            Some(_) | None => {}
        }
        for (asker, _) in asked {
            match asker {
                Asker::Caller(caller) => {
                    let _ = caller.send(settled());
                }
                Asker::InLine(waiter) if waiter.waits() => {
                    shard.lines.entry(election.clone()).or_default().put_back(*waiter);
                }
                Asker::InLine(_) => {}
            }
        }
        shard.wake(election);
        self.arm(&mut shard, election, self.clock.now() + AFTER_A_FAILURE);
    }

    /// Reads an election that is not known.
    async fn load(&self, election: &ElectionName) -> Result<Loaded, StoreError> {
        let doubt = |shard: &Shard| match shard.slots.get(election) {
            None => Some(None),
            Some(Slot::Doubtful(doubt)) => Some(Some(*doubt)),
            Some(_) => None,
        };
        let before = doubt(&self.shard(election));
        let key = Key::Election(election.clone());
        let Reading { found, trace, .. } = self.store.read(&key).await?;
        let mut shard = self.shard(election);
        let stamp = match (before, doubt(&shard)) {
            // Nothing was done to it since the start.
            (Some(None), Some(None)) => Moment::default(),
            // Whatever was done to it, its lease has its full length from here on.
            (Some(Some(before)), Some(Some(now))) if before == now => self.clock.now(),
            // Something was done to it while it was read.
            (_, _) => return Ok(Loaded::Something),
        };
        match found {
            Some((Record::Election(document), version)) => {
                let known = Known { document: *document, version, stamp };
                shard.slots.insert(election.clone(), Slot::Known(Box::new(known)));
                Ok(Loaded::Something)
            }
            Some(_) | None => {
                shard.slots.remove(election);
                Ok(Loaded::Nothing(trace))
            }
        }
    }

    /// The server ends before it could answer.
    fn stopping(&self) -> Undecided {
        StoreError::Unknown { location: self.store.location(), why: "the server is stopping".to_string() }
            .into()
    }

    /// Whether a policy compares candidates, so that they do not wait in the order in which they came.
    fn compares(&self, election: &ElectionName) -> bool {
        let shard = self.shard(election);
        shard
            .slots
            .get(election)
            .and_then(Slot::known)
            .is_some_and(|known| known.document.policy.select.compares())
    }

    /// Begins an election that is not there.
    fn create(&self, election: &ElectionName, trace: Option<Trace>) {
        self.shard(election).slots.entry(election.clone()).or_insert(Slot::Absent(trace));
    }
}

impl Shard {
    /// If an election is being changed, when it no longer is.
    fn later(&mut self, election: &ElectionName) -> Option<oneshot::Receiver<()>> {
        let Some(Slot::Writing(_)) = self.slots.get(election) else { return None };
        let (sender, later) = oneshot::channel();
        self.queues.entry(election.clone()).or_default().push(sender);
        Some(later)
    }

    fn wake(&mut self, election: &ElectionName) {
        for waiting in self.queues.remove(election).unwrap_or_default() {
            let _ = waiting.send(());
        }
    }
}

impl Asker {
    fn tell(self, settled: Settled) {
        match (self, settled) {
            (Asker::Caller(caller), settled) => {
                let _ = caller.send(settled);
            }
            (Asker::InLine(waiter), Settled::Done(outcome)) => waiter.tell(outcome),
            (Asker::InLine(waiter), Settled::Again(error)) => waiter.tell(Err(error.into())),
        }
    }
}

fn is_renewal(command: &Command) -> bool {
    matches!(command, Command::Renew(_))
}

fn decided(answer: Answer, document: Option<&Document>, show: bool) -> Decided {
    Decided {
        answer,
        ttl: document.and_then(|document| document.leader.as_ref()).map(|leader| leader.ttl),
        document: document.filter(|_| show).map(|document| Box::new(document.clone())),
    }
}

async fn keep_time(shared: std::sync::Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        tokio::select! {
            () = shared.clock.tick() => {}
            () = tokio::time::sleep(std::time::Duration::from_secs(5)) => {}
        }
    }
}

async fn end_leases(shared: std::sync::Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        tokio::select! {
            (at, election) = shared.timers.next() => shared.fire(at, &election),
            () = tokio::time::sleep(std::time::Duration::from_secs(5)) => {}
        }
    }
}

/// What a store knows of itself, made if it knows nothing.
async fn found_or_made(store: &dyn Store) -> Result<StoreInfo, StoreError> {
    let mut id = [0; 8];
    let random = getrandom::fill(&mut id);
    loop {
        let reading = store.read(&Key::Store).await?;
        if let Some((Record::Store(info), _)) = reading.found {
            return Ok(info);
        }
        if let Err(error) = random {
            return Err(StoreError::Unavailable {
                location: store.location(),
                why: format!("there is no randomness: {error}"),
                hint: "the system's random source failed".to_string(),
            });
        }
        let info = StoreInfo {
            id: baton_election::StoreId(id),
            created: boot::wall(),
            operator_keys: Vec::new(),
            orders: 0,
        };
        let record = Record::Store(info.clone());
        match store.swap(&Key::Store, Expect::Absent, &record, Clock::Restart).await {
            Ok(_) => return Ok(info),
            Err(StoreError::Conflict | StoreError::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}
