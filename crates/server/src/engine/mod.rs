//! Elections decided in memory and kept in a store.
//!
//! Assumes that nobody else writes the elections of the store while this engine runs, or that this is the active one of several servers, which
//! takes each election over before it decides on it (`takeover.rs`), or that it only observes. Guarantees that whatever is answered is
//! durable, except for plain renewals, which a restart makes good by giving every lease its full length; that commands on one
//! election are carried out one after the other; and that a request whose caller has gone is carried
//! out whole or not at all. Does not guarantee that a lease ends at its end while the server does not run: it ends later.

mod breakers;
mod bytes;
mod cached_election;
mod changes;
mod command_queue;
mod compact_document;
mod elections;
mod health;
mod in_flight_guard;
mod leader_change;
mod line;
mod notification;
mod offers;
mod others;
mod pacemaker;
mod queries;
mod regions;
mod reserved;
mod store_follower;
mod succession;
mod takeover;
mod tally;
mod tasks;
mod timers;
mod vanished;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use baton::{Memory, Patience};
use baton_api::CommandError;
use baton_api::command::Decided;
use baton_api::elections::{AskInfo, Elections as _};
use baton_election::command::{Acquire, Renew};
use baton_election::region::Region;
use baton_election::time::{Moment, Span};
use baton_election::{
    AgentName, Answer, Command, Decision, Document, ElectionName, Epoch, Refusal, StoreInfo, fence,
};
use baton_executor::{Executor, Facts};
use baton_store::{HistoryKept, Key, Record, Store, StoreError, Trace, boot};

use cached_election::CachedElection;
pub(crate) use cached_election::Now;
use changes::Changes;
pub(crate) use changes::Herald;
pub use changes::{ChangeNotice, Event, Subscription};
use command_queue::InFlight;
use compact_document::FieldInterner;
use elections::Elections;
use health::Health;
use pacemaker::Pacemaker;
use reserved::is_reserved;
use store_follower::StoreFollower;
use takeover::{Authority, ServerTerm, StoredElection};
pub(crate) use tally::Tally;
use tasks::Task;
use timers::Timers;
use vanished::VanishedElections;

use crate::census::Census;
use crate::metrics::{At, Meters};

/// How many parts the elections are kept in, each behind a lock of its own.
const SHARDS: usize = 64;
/// When who waits in line is looked after again, after a write that failed.
const AFTER_A_FAILURE: Span = Span::millis(200);
/// How often a command is tried whose outcome the store did not tell.
const TRIES: usize = 3;

type Outcome = Result<Decided, CommandError>;

/// An election as it stands.
#[derive(Clone, Debug)]
pub struct View {
    /// The document; none if there is no such election.
    pub document: Option<Document>,
    /// A lower bound on the time since its last beat.
    pub age: Span,
}

/// The leader of an election, with its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leads {
    /// The leader.
    pub agent: AgentName,
    /// Its token.
    pub epoch: Epoch,
    /// Where it is reached, if it said so.
    pub contact: Option<String>,
    /// The region from which it leads, if it leads from one.
    pub region: Option<Region>,
    /// How long its lease lasts at least.
    pub remaining: Span,
}

/// All elections of one store. Clones share it.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
    _tasks: Arc<[Task; 2]>,
}

struct Shared {
    store: Arc<dyn Store>,
    info: RwLock<Arc<StoreInfo>>,
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    clock: Pacemaker,
    timers: Timers,
    changes: Arc<Changes>,
    health: Health,
    meters: Arc<Meters>,
    interner: FieldInterner,
    authority: Authority,
    /// Follows elections that others decide.
    follower: StoreFollower,
    /// What is known of elections whose records are gone.
    vanished: VanishedElections,
    /// Puts into the logs what falls out of documents.
    executor: Executor,
    /// Whether the history is one of them, since the store does not keep it by itself.
    keeps_history: bool,
    /// The longest lease that is granted here, if there is a bound.
    longest_lease: OnceLock<Span>,
    /// How much is kept.
    census: Census,
}

#[derive(Default)]
struct Shard {
    /// What is durable, and the renewals since. What is not here may still be in the store.
    known: Elections,
    /// Which are being read or written, and who waits for that.
    in_flight: HashMap<ElectionName, InFlight>,
    /// Of which the store did not say what came of a change, with the number of that change.
    doubtful: HashMap<ElectionName, u64>,
    /// Counts the changes of which nobody knows.
    doubts: u64,
    /// The agents that wait in line, by election.
    lines: HashMap<ElectionName, line::WaitingLine>,
    /// Counts the plain renewals.
    renewed: u64,
}

impl Shard {
    fn remembered(&self) -> usize {
        self.known.len() + self.in_flight.len() + self.doubtful.len()
    }
}

impl Engine {
    /// The elections of a store that nobody else writes. The tasks that this starts end with the engine's last clone.
    pub async fn start(store: Arc<dyn Store>) -> Result<Engine, StoreError> {
        Engine::deciding(store, Authority::Alone).await
    }

    /// The elections of a store that other servers write too, for the one that is active in this epoch of theirs. Its predecessor's lease has
    /// ended.
    pub async fn take_over(store: Arc<dyn Store>, epoch: Epoch) -> Result<Engine, StoreError> {
        Engine::deciding(store, Authority::Active(ServerTerm::new(epoch))).await
    }

    /// The elections of a store as others decide them. Nothing is written, and no command is carried out.
    pub async fn observe(store: Arc<dyn Store>) -> Result<Engine, StoreError> {
        // A store that nobody has written yet shows no elections, and may be made later.
        let nothing = || StoreInfo::new(baton_election::StoreId([0; 8]), boot::wall());
        let info = stored_info(&*store).await?.unwrap_or_else(nothing);
        Ok(Engine::begin(Executor::new(store, Memory::new()), info, Authority::Observer))
    }

    async fn deciding(store: Arc<dyn Store>, authority: Authority) -> Result<Engine, StoreError> {
        let executor = Executor::new(store, Memory::new());
        let info = stored_or_made_info(&executor).await?;
        Ok(Engine::begin(executor, info, authority))
    }

    fn begin(executor: Executor, info: StoreInfo, authority: Authority) -> Engine {
        let store = Arc::clone(executor.store());
        let keeps_history = store.properties().history == HistoryKept::Beside;
        let shared = Arc::new(Shared {
            store,
            authority,
            follower: StoreFollower::default(),
            vanished: VanishedElections::default(),
            executor,
            keeps_history,
            info: RwLock::new(Arc::new(info)),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            clock: Pacemaker::start(),
            timers: Timers::default(),
            changes: Arc::default(),
            health: Health::default(),
            meters: Arc::default(),
            interner: FieldInterner::default(),
            longest_lease: OnceLock::new(),
            census: Census::default(),
        });
        let (clock, timers) = (Arc::downgrade(&shared), Arc::downgrade(&shared));
        let tasks = [
            Task::lasting(move || keep_time(clock.clone())),
            Task::lasting(move || end_leases(timers.clone())),
        ];
        Engine { shared, _tasks: Arc::new(tasks) }
    }

    /// The store behind it.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// Takes over what clients of the store decide only while this holds.
    pub fn only_while(&self, holds: impl Fn() -> bool + Send + Sync + 'static) {
        if let Some(term) = self.shared.term() {
            // The first condition stands.
            let _ = term.holds.set(Box::new(holds));
        }
    }

    /// How much is kept.
    pub(crate) fn census(&self) -> &Census {
        &self.shared.census
    }

    /// Grants no lease that is longer than this from here on. The first bound stands.
    pub(crate) fn limit_leases(&self, longest: Span) {
        let _ = self.shared.longest_lease.set(longest);
    }

    /// Whether a document has shown that another server has taken over.
    pub fn is_deposed(&self) -> bool {
        self.shared.term().is_some_and(|term| *term.over.borrow())
    }

    /// Waits until a document shows that.
    pub async fn deposed(&self) {
        match self.shared.term() {
            Some(term) => drop(term.over.subscribe().wait_for(|over| *over).await),
            None => std::future::pending().await,
        }
    }

    /// What is counted here.
    pub(crate) fn meters(&self) -> &Arc<Meters> {
        &self.shared.meters
    }

    /// What the store knows of itself.
    pub fn info(&self) -> Arc<StoreInfo> {
        Arc::clone(&self.shared.info.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in what the store knows of itself, after it was changed.
    pub(crate) fn set_info(&self, info: StoreInfo) {
        let goes_on = info.paused.is_none();
        let mut known = self.shared.info.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *known, Arc::new(info));
        drop(known);
        if before.paused.is_some() && goes_on {
            self.shared.everything_goes_on();
        }
    }

    /// An election as it stands.
    pub async fn view(&self, election: &ElectionName) -> Result<View, StoreError> {
        if is_reserved(election) {
            return self.shared.look_at(election).await;
        }
        let seen =
            self.shared.seen(election, |known, age| View { document: Some(known.document(election)), age });
        match seen {
            Lookup::Known(view) => Ok(view),
            Lookup::Absent => Ok(View { document: None, age: Span::ZERO }),
            Lookup::Unknown(before) => self.shared.read(election, before).await,
        }
    }

    /// The leader of an election.
    pub async fn leader(&self, election: &ElectionName) -> Result<Option<Leads>, StoreError> {
        let seen = self.shared.seen(election, |known, age| {
            let (agent, contact, running) =
                known.compact.leader().filter(|(.., running)| age < running.ttl)?;
            let (agent, contact) = (AgentName::new(agent).ok()?, contact.map(ToString::to_string));
            // A lease under a region does not lie open.
            let (epoch, remaining) = (running.epoch, running.ttl.minus(age));
            Some(Leads { agent, epoch, contact, region: None, remaining })
        });
        if let Lookup::Known(Some(leads)) = seen {
            return Ok(Some(leads));
        }
        let View { document, age } = self.view(election).await?;
        let leader = document.as_ref().and_then(|document| document.current_leader(age));
        Ok(leader.map(|leader| Leads {
            agent: leader.agent.clone(),
            epoch: leader.epoch,
            contact: leader.contact.as_deref().map(ToString::to_string),
            region: leader.region.as_deref().cloned(),
            remaining: leader.lease().minus(age),
        }))
    }

    /// Whether a token may act, as the election stands.
    pub async fn check(&self, election: &ElectionName, token: Epoch) -> Result<(), CommandError> {
        let seen = self.shared.seen(election, |known, age| {
            known.compact.running.is_some_and(|running| running.epoch == token && age < running.ttl)
        });
        if let Lookup::Known(true) = seen {
            return Ok(());
        }
        let View { document, age } = self.view(election).await?;
        match &document {
            None => Err(Refusal::UnknownElection { election: election.to_string() }.into()),
            Some(document) => {
                let checked = fence::check(token, document, age);
                if let Err(Refusal::Stale { .. }) = &checked {
                    self.shared.meters.stale(At::Check);
                }
                Ok(checked?)
            }
        }
    }

    /// How many elections are in memory.
    pub fn remembered(&self) -> usize {
        let shards = self.shared.shards.iter();
        shards.map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).remembered()).sum()
    }

    /// What the clocks show, for many commands at once.
    pub(crate) fn now(&self) -> Now {
        self.shared.now()
    }

    /// Renews a lease if that takes nothing but memory; otherwise nothing was done.
    pub(crate) fn renew_at_once(&self, election: &str, renew: &Renew, now: Now) -> Option<(Answer, Span)> {
        let mut shard = self.shared.shard_of(election);
        if shard.in_flight.contains_key(election) {
            return None;
        }
        let known = shard.known.get_mut(election)?;
        let age = self.shared.clock.age(known.stamp, now.moment);
        let renewed = known.renew(renew, age, now)?;
        shard.renewed += 1;
        Some(renewed)
    }

    /// Tells of changes of an election from here on, or after the event of this number.
    pub fn subscribe(&self, election: &ElectionName, after: Option<u64>) -> Subscription {
        let subscription = self.shared.changes.subscribe(election, after);
        self.keep_following(election);
        subscription
    }

    /// Fails if the store cannot be read or, as the last write showed, cannot be written.
    pub async fn ready(&self) -> Result<(), StoreError> {
        self.shared.health.check(&*self.shared.store).await
    }

    /// Has somebody told of the changes of leader of all elections.
    pub(crate) fn tell_of_leaders(&self, herald: Herald) {
        self.shared.changes.tell_of_leaders(herald);
    }

    /// Carries out a command.
    pub async fn execute(&self, election: &ElectionName, command: &Command) -> Outcome {
        self.shared.may_decide()?;
        let outcome = match self.seeing_region(command).await {
            Ok(command) => self.execute_looking(election, &command).await,
            Err(error) => Err(error.into()),
        };
        self.shared.count(election, command, &outcome);
        outcome
    }

    /// Asks for the lease, and waits in line for it for at most so long.
    ///
    /// An agent that is granted the lease after having waited has an offer, which it must claim with a
    /// renewal. An agent that shows a region does not wait here: how the region stands when its turn comes is
    /// not known when it asks.
    pub async fn acquire(&self, election: &ElectionName, acquire: Acquire, wait: Span) -> Outcome {
        self.shared.may_decide()?;
        let until = self.shared.clock.now() + wait;
        // Agents that wait already go first.
        self.shared.look_after(election);
        if acquire.region.is_some() {
            return Box::pin(self.execute(election, &Command::Acquire(acquire))).await;
        }
        let command = Command::Acquire(acquire);
        let outcome = match self.execute_looking(election, &command).await {
            Err(CommandError::Refused(refusal @ Refusal::Held { .. }))
                if wait > Span::ZERO && !self.shared.compares(election) =>
            {
                // Apart: most do not wait.
                Box::pin(self.wait_in_line(election, &command, until, refusal)).await
            }
            outcome => outcome,
        };
        self.shared.count(election, &command, &outcome);
        outcome
    }

    /// Waits in line until this moment.
    async fn wait_in_line(
        &self,
        election: &ElectionName,
        command: &Command,
        until: Moment,
        refusal: Refusal,
    ) -> Outcome {
        let Command::Acquire(acquire) = command else { unreachable!("only who wants to lead waits") };
        let mut place = self.shared.stand_in_line(election, acquire.clone());
        self.shared.look_after(election);
        let settled = tokio::select! {
            settled = place.settled() => Some(settled),
            _ = boot::sleep_until(until) => None,
        };
        let settled = match settled {
            Some(settled) => settled,
            None if place.leave() => return Err(self.still_refused(election, refusal).await),
            // It is being granted in this very moment.
            None => place.settled().await,
        };
        match settled {
            // Its turn has come. It asked long ago: what it is granted is an offer.
            Err(CommandError::Refused(refusal)) if refusal.asks_for_breakers() => {
                let offer = Command::Acquire(Acquire { offer: true, ..acquire.clone() });
                self.look_and_execute(election, &offer).await
            }
            settled => settled,
        }
    }

    /// Why who waited in vain does not lead: by now perhaps because of another.
    async fn still_refused(&self, election: &ElectionName, first: Refusal) -> CommandError {
        let Ok(View { document: Some(document), age }) = self.view(election).await else {
            return first.into();
        };
        Refusal::held(&document, age).unwrap_or(first).into()
    }
}

/// What a look into memory shows.
enum Lookup<T> {
    Known(T),
    /// There is surely none.
    Absent,
    /// It must be read; the number of the change in doubt, if there is one.
    Unknown(Option<u64>),
}

impl Shared {
    fn shard(&self, election: &ElectionName) -> MutexGuard<'_, Shard> {
        self.shard_of(election.as_str())
    }

    fn shard_of(&self, election: &str) -> MutexGuard<'_, Shard> {
        #[expect(clippy::cast_possible_truncation, reason = "only the lower bits count")]
        let number = self.hasher.hash_one(election) as usize % SHARDS;
        self.shards[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Now {
        Now { moment: self.clock.now(), wall: boot::wall() }
    }

    /// What is durable, as far as that is in memory: a change that is being written is not.
    fn seen<T>(&self, election: &ElectionName, see: impl FnOnce(&CachedElection, Span) -> T) -> Lookup<T> {
        let shard = self.shard(election);
        match (shard.known.get(election.as_str()), shard.in_flight.get(election)) {
            (Some(known), _) => Lookup::Known(see(known, self.clock.age(known.stamp, self.clock.now()))),
            (None, Some(in_flight)) if !in_flight.reads => Lookup::Absent,
            (None, Some(_) | None) => Lookup::Unknown(shard.doubtful.get(election).copied()),
        }
    }

    /// Reads an election that is not known, for a caller that only looks. Nothing is written, and what is not there leaves nothing behind.
    async fn read(
        self: &Arc<Self>,
        election: &ElectionName,
        before: Option<u64>,
    ) -> Result<View, StoreError> {
        if let Some(view) = self.view_of_others(election).await? {
            return Ok(view);
        }
        let StoredElection { found, renewed, .. } = self.fetch(election, None).await?;
        let Some((document, version)) = found else {
            return Ok(View { document: None, age: Span::ZERO });
        };
        let mut shard = self.shard(election);
        let untouched = !shard.known.contains(election.as_str())
            && !shard.in_flight.contains_key(election)
            && shard.doubtful.get(election).copied() == before;
        if !untouched {
            // Its lease is perhaps younger than anything here could tell.
            return Ok(View { document: Some(document), age: Span::ZERO });
        }
        let stamp = self.take_up(&mut shard, election, document.clone(), version, renewed);
        Ok(View { document: Some(document), age: self.clock.age(stamp, self.clock.now()) })
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
        refuse_founding(document, command, &info)?;
        // Nobody else takes epochs back or ahead where this engine is alone.
        let seen = self.term().map_or(Epoch(0), |_| self.vanished.floor(election));
        let facts = Facts {
            election,
            info: &info,
            info_is_current: true,
            age,
            floor: trace.map_or(seen, |trace| trace.epoch.max(seen)),
            vanished_lease: trace.map_or(Span::ZERO, |trace| trace.lease),
        };
        let decision = facts.decide(document, command)?;
        match (self.longest_lease.get(), &decision) {
            (Some(longest), Decision { next: Some(_), answer: Answer::Granted { ttl, .. }, .. })
                if ttl > longest =>
            {
                Err(Refusal::invalid(
                    format!("a lease of {ttl} is longer than this server grants: at most {longest}"),
                    format!(
                        "ask for less: --ttl {longest}; where the policy says how long, an operator changes it: \
                         baton policy {election} --ttl {longest}"
                    ),
                ))
            }
            (Some(_) | None, _) => Ok(decision),
        }
    }

    /// Counts what came of a command. Plain renewals are counted where they are made.
    fn count(&self, election: &ElectionName, command: &Command, outcome: &Outcome) {
        match (outcome, command) {
            (Err(CommandError::Refused(refusal)), _) => self.meters.refused(election, command, refusal),
            (Ok(_), Command::Renew(_)) => self.meters.renewed(true),
            (Err(CommandError::Store(_) | CommandError::System(_)), Command::Renew(_)) => {
                self.meters.renewed(false)
            }
            (Ok(_) | Err(CommandError::Store(_) | CommandError::System(_)), _) => {}
        }
    }

    /// Whether a policy compares candidates, so that they do not wait in the order in which they came.
    fn compares(&self, election: &ElectionName) -> bool {
        let shard = self.shard(election);
        shard.known.get(election.as_str()).is_some_and(|known| known.compact.policy().select.compares())
    }
}

/// Refuses a first operator of an election that is none of the store: clients of a server cannot write the store, and so are not believed on their
/// own word.
fn refuse_founding(document: Option<&Document>, command: &Command, info: &StoreInfo) -> Result<(), Refusal> {
    let Command::Operate(signed) = command else { return Ok(()) };
    let document = document.filter(|document| !document.is_retired());
    let nobody = document.map_or(info.operator_keys.is_empty(), |document| signed.founds(document));
    if nobody && !info.operator_keys.contains(&signed.by) {
        let why = format!("the key {} is not an operator's of this store", signed.by);
        return Err(Refusal::WrongKey { why });
    }
    Ok(())
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
            election = shared.timers.next() => shared.fire_safely(&election),
            () = tokio::time::sleep(std::time::Duration::from_secs(5)) => {}
        }
    }
}

/// What a store knows of itself.
pub(crate) async fn stored_info(store: &dyn Store) -> Result<Option<StoreInfo>, StoreError> {
    match store.read(&Key::Store).await?.found {
        Some((Record::Store(info), _)) => Ok(Some(info)),
        Some(_) | None => Ok(None),
    }
}

/// How often it is looked what became of a write before a server starts.
const MOST_LOOKS: u32 = 10;

/// The same, made if it knows nothing. The first failure of the store is reported: a server that starts does not retry.
async fn stored_or_made_info(executor: &Executor) -> Result<StoreInfo, StoreError> {
    let once = Patience { retries: Some(0), ..Patience::default() };
    let mut looks = 0;
    loop {
        looks += 1;
        match executor.info(once, AskInfo { fresh: true, make: true }).await {
            Ok(info) => return Ok(StoreInfo::clone(&info)),
            // What became of it, the next look shows.
            Err(CommandError::Store(StoreError::Unknown { .. })) if looks < MOST_LOOKS => {}
            Err(error) => return Err(store_error(&**executor.store(), error)),
        }
    }
}

/// A failure of the executor as a failure of the store. Nothing was written if it is none.
fn store_error(store: &dyn Store, error: CommandError) -> StoreError {
    match error {
        CommandError::Store(error) => error,
        CommandError::Refused(_) | CommandError::System(_) => unavailable(store, &error),
    }
}

/// That nothing was written.
fn unavailable(store: &dyn Store, why: &impl ToString) -> StoreError {
    StoreError::Unavailable {
        location: store.location(),
        why: why.to_string(),
        hint: "try again".to_string(),
    }
}
