//! Commands on one election, one after the other, in the order in which they came.
//!
//! Whoever comes while an election is being read or written joins its queue; who is at it carries out what is queued
//! before it lets go. A task that breaks off leaves the election in doubt, to be read again, and never locked.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use baton_api::CommandError;
use baton_api::command::Decided;
use baton_election::time::{Moment, Span};
use baton_election::{Command, Decision, Document, ElectionName, Persistence};
use baton_store::{AgeStamp, Expect, Key, Record, StoreError, Trace, Version, boot};
use tokio::sync::oneshot;

use super::cached_election::CachedElection;
use super::in_flight_guard::InFlightGuard;
use super::leader_change::leader_change;
use super::line::Waiter;
use super::notification::NotificationPhase;
use super::offers;
use super::others::Verdict;
use super::reserved::is_reserved;
use super::takeover::{self, DisplacedEntries, StoredElection};
use super::{AFTER_A_FAILURE, Outcome, Shard, Shared, TRIES, decided, is_renewal};
use crate::metrics::LeaderChange;

/// Somebody is at an election.
#[derive(Default)]
pub(super) struct InFlight {
    /// It is being read: nobody knows yet what there is.
    pub(super) reads: bool,
    pub(super) queue: VecDeque<QueuedCommand>,
    /// What became known meanwhile, to be put into the document once nobody is at it.
    pub(super) notified: Option<NotificationPhase>,
}

/// A command whose caller waits.
pub(super) struct QueuedCommand {
    pub(super) command: Command,
    /// How often it was tried without an answer of the store.
    tries: usize,
    outcome: oneshot::Sender<Outcome>,
}

impl QueuedCommand {
    fn new(command: Command) -> (QueuedCommand, oneshot::Receiver<Outcome>) {
        let (outcome, later) = oneshot::channel();
        (QueuedCommand { command, tries: 0, outcome }, later)
    }

    pub(super) fn tell(self, outcome: Outcome) {
        let outcome = match outcome {
            // What may have been applied once is not said to have failed later.
            Err(CommandError::Store(StoreError::Unavailable { location, why, .. })) if self.tries > 0 => {
                Err(StoreError::Unknown { location, why }.into())
            }
            outcome => outcome,
        };
        let _ = self.outcome.send(outcome);
    }
}

/// What came of one try.
enum Try {
    Done(Outcome),
    /// Its turn comes, or it is being written.
    Later(oneshot::Receiver<Outcome>),
}

/// What becomes of a command.
enum Step {
    Done(Outcome),
    /// It is answered so once this is durable.
    Write(Box<Document>, Persistence, Decided),
}

/// What was found in the store.
enum ReadOutcome {
    /// An election, or an error.
    Handled,
    /// None; what the store still knows of one that was there.
    Missing(Option<Trace>),
}

/// A change on its way to the store.
struct Write {
    election: ElectionName,
    expect: Expect,
    next: Box<Document>,
    persistence: Persistence,
    clock: AgeStamp,
    /// When its clock was restarted, if this does not restart it.
    stamp: Option<Moment>,
    /// That it is a change of leader.
    transition: bool,
    /// What the document no longer shows after it, if nobody else remembers that.
    displaced: Option<Box<DisplacedEntries>>,
    /// What it changes about who leads.
    change: Option<Box<LeaderChange>>,
    /// Who asked for it, and what is answered once it is durable.
    asked: Vec<(Requester, Decided)>,
}

/// Whose command it was.
pub(super) enum Requester {
    Caller(Box<QueuedCommand>),
    InLine(Box<Waiter>),
}

impl Requester {
    fn tell(self, outcome: Outcome) {
        match self {
            Requester::Caller(asked) => asked.tell(outcome),
            Requester::InLine(waiter) => waiter.tell(outcome),
        }
    }
}

impl Shared {
    pub(super) async fn execute(self: &Arc<Self>, election: &ElectionName, command: &Command) -> Outcome {
        if is_reserved(election) {
            return Box::pin(self.execute_reserved(election, command)).await;
        }
        match self.attempt(election, command) {
            Try::Done(outcome) => outcome,
            Try::Later(outcome) => outcome.await.unwrap_or_else(|_| Err(self.broke_off())),
        }
    }

    /// Decides a command, and begins to write what it changes; or queues it.
    fn attempt(self: &Arc<Self>, election: &ElectionName, command: &Command) -> Try {
        let mut shard = self.shard(election);
        if let Some(in_flight) = shard.in_flight.get_mut(election) {
            let (asked, later) = QueuedCommand::new(command.clone());
            in_flight.queue.push_back(asked);
            return Try::Later(later);
        }
        if !shard.known.contains(election.as_str()) {
            let (asked, later) = QueuedCommand::new(command.clone());
            self.look(shard, election, Some(asked));
            return Try::Later(later);
        }
        match self.step(&mut shard, election, command, None) {
            Step::Done(outcome) => Try::Done(outcome),
            Step::Write(next, persistence, decided) => {
                let (asked, later) = QueuedCommand::new(command.clone());
                self.write(
                    shard,
                    election,
                    next,
                    persistence,
                    vec![(Requester::Caller(Box::new(asked)), decided)],
                );
                Try::Later(later)
            }
        }
    }

    /// Decides a command on what is known, or on nothing.
    fn step(
        &self,
        shard: &mut Shard,
        election: &ElectionName,
        command: &Command,
        trace: Option<Trace>,
    ) -> Step {
        let mut known = shard.known.get_mut(election.as_str());
        let now = self.now();
        let age = known.as_ref().map_or(Span::ZERO, |known| self.clock.age(known.stamp, now.moment));
        if let (Some(known), Command::Renew(renew)) = (&mut known, command)
            && let Some((answer, ttl)) = known.renew(renew, age, now)
        {
            return Step::Done(Ok(Decided { answer, document: None, ttl: Some(ttl) }));
        }
        let document = known.as_ref().map(|known| known.document(election));
        let Decision { next, answer, persistence } =
            match self.decide(election, document.as_ref(), command, age, trace) {
                Ok(decision) => decision,
                Err(refusal) => return Step::Done(Err(refusal.into())),
            };
        let show = !is_renewal(command);
        let Some(next) = next else { return Step::Done(Ok(decided(answer, document.as_ref(), show))) };
        match (known, document) {
            (Some(known), Some(document)) if persistence == Persistence::Volatile => {
                let claims = offers::claims(&document, &next);
                let outcome = decided(answer, Some(&next), show || claims);
                known.put(next, &self.interner, now.moment);
                if claims {
                    self.changes.publish(election, &known.compact, known.stamp, false);
                }
                Step::Done(Ok(outcome))
            }
            (Some(_) | None, Some(_) | None) => {
                let outcome = decided(answer, Some(&next), true);
                Step::Write(Box::new(next), persistence, outcome)
            }
        }
    }

    /// Carries out what is queued until something must be written, and lets go.
    fn proceed(
        self: &Arc<Self>,
        mut shard: MutexGuard<'_, Shard>,
        election: &ElectionName,
        trace: Option<Trace>,
    ) {
        while let Some(asked) =
            shard.in_flight.get_mut(election).and_then(|in_flight| in_flight.queue.pop_front())
        {
            if asked.outcome.is_closed() {
                continue;
            }
            match self.step(&mut shard, election, &asked.command, trace) {
                Step::Done(outcome) => asked.tell(outcome),
                Step::Write(next, persistence, decided) => {
                    return self.write(
                        shard,
                        election,
                        next,
                        persistence,
                        vec![(Requester::Caller(Box::new(asked)), decided)],
                    );
                }
            }
        }
        let in_flight = shard.in_flight.remove(election);
        if let Some(notified) = in_flight.and_then(|in_flight| in_flight.notified) {
            self.put_notified(&mut shard, election, notified);
        }
    }

    /// Begins to write a document. If it is free to take, the first in line takes it in the same step.
    pub(super) fn write(
        self: &Arc<Self>,
        mut shard: MutexGuard<'_, Shard>,
        election: &ElectionName,
        next: Box<Document>,
        persistence: Persistence,
        mut asked: Vec<(Requester, Decided)>,
    ) {
        let (mut next, persistence) = match self.succeed(&mut shard, election, &next, Span::ZERO) {
            Some((granted, needed, waiter, outcome)) => {
                asked.push((Requester::InLine(Box::new(waiter)), outcome));
                (Box::new(granted), persistence.max(needed))
            }
            None => (next, persistence),
        };
        next.server = self.term().map(|term| term.epoch);
        let (expect, stamp, displaced) = match shard.known.get(election.as_str()) {
            Some(known) => {
                let same_beat = known.compact.beat() == next.beat;
                let keeps = self.keeps_history || next.last_act.is_some();
                let old = keeps.then(|| known.document(election));
                let displaced =
                    old.and_then(|old| DisplacedEntries::of(&old, &next, self.keeps_history)).map(Box::new);
                (Expect::Version(known.version()), same_beat.then_some(known.stamp), displaced)
            }
            None => (Expect::Absent, None, None),
        };
        let before = shard.known.get(election.as_str()).map(|known| known.compact.epoch());
        let transition = next.last_transition.as_ref().map(|last| last.epoch) > before;
        let change = leader_change(shard.known.get(election.as_str()), &next, transition, boot::wall());
        shard.in_flight.entry(election.clone()).or_default().reads = false;
        drop(shard);
        let clock = if stamp.is_some() { AgeStamp::Preserve } else { AgeStamp::Reset };
        let write = Write {
            election: election.clone(),
            expect,
            next,
            persistence,
            clock,
            stamp,
            transition,
            displaced,
            change,
            asked,
        };
        tokio::spawn(Arc::clone(self).carry_out(write));
    }

    /// Writes, tells everybody, and goes on with what is queued.
    async fn carry_out(self: Arc<Self>, write: Write) {
        let Write {
            election,
            expect,
            mut next,
            persistence,
            clock,
            stamp,
            transition,
            displaced,
            change,
            asked,
        } = write;
        let work = InFlightGuard::on(&self, &election);
        let key = Key::Election(election.clone());
        let offered = offers::keep_as_lease(&mut next);
        let record = Record::Election(next);
        let kept = match displaced {
            // Seldom, and so apart: there is a task for each write, and it is small without this.
            Some(out) => Box::pin(self.keep(&election, &out)).await,
            None => Ok(()),
        };
        let begun = Instant::now();
        let swapped = match kept {
            Ok(()) => self.store.swap(&key, expect, &record, clock, persistence).await,
            Err(error) => Err(error),
        };
        if swapped.is_ok() {
            self.census.note(&key, &record);
        }
        let Record::Election(mut next) = record else { unreachable!("it is an election") };
        offers::remember(&mut next, offered);
        self.health.note(swapped.as_ref().err());
        self.measure(begun, swapped.as_ref().err());
        match swapped {
            Ok(swapped) => {
                let stamp = stamp.unwrap_or_else(|| self.clock.now());
                if let Some(change) = change {
                    self.meters.changed(&election, &change, self.clock.now());
                }
                if next.is_retired() {
                    self.meters.notes().forget(&election);
                }
                let known = CachedElection::new(*next, &self.interner, swapped.version, stamp);
                let mut shard = self.shard(&election);
                // It is told of in the order in which it was made.
                self.changes.publish(&election, &known.compact, stamp, transition);
                shard.known.insert(known);
                for (asker, outcome) in asked {
                    asker.tell(Ok(outcome));
                }
                self.proceed(shard, &election, None);
                work.done();
                self.look_after(&election);
            }
            Err(error) => {
                self.after_failed_write(&election, asked, &error);
                work.done();
            }
        }
    }

    /// Answers or repeats the commands of a write that failed.
    fn after_failed_write(
        self: &Arc<Self>,
        election: &ElectionName,
        asked: Vec<(Requester, Decided)>,
        error: &StoreError,
    ) {
        let mut shard = self.shard(election);
        let written_surely_not = matches!(error, StoreError::Unavailable { .. } | StoreError::Refused { .. });
        if !written_surely_not {
            self.doubt(&mut shard, election);
        }
        let again = self.put_back(&mut shard, election, asked, error);
        if written_surely_not {
            for caller in again {
                caller.tell(Err(error.clone().into()));
            }
        } else {
            let in_flight = shard.in_flight.entry(election.clone()).or_default();
            for mut caller in again.into_iter().rev() {
                caller.tries += 1;
                match caller.tries < TRIES {
                    true => in_flight.queue.push_front(caller),
                    false => caller.tell(Err(error.clone().into())),
                }
            }
        }
        self.go_on(shard, election);
    }

    /// Counts a write that began at this moment. A conflict is no fault of the store.
    fn measure(&self, begun: Instant, failed: Option<&StoreError>) {
        match failed {
            None | Some(StoreError::Conflict) => self.meters.writes.since(begun),
            Some(_) => self.meters.writes_failed.one(),
        }
    }

    /// Goes on after a change that was not made, or of which nobody knows. What is not known is read, also if it was just read: only
    /// the store can tell what it still knows of an election that is not there.
    fn go_on(self: &Arc<Self>, mut shard: MutexGuard<'_, Shard>, election: &ElectionName) {
        if shard.known.contains(election.as_str()) {
            self.proceed(shard, election, None);
        } else if shard.in_flight.get(election).is_some_and(|in_flight| !in_flight.queue.is_empty()) {
            self.look(shard, election, None);
        } else {
            shard.in_flight.remove(election);
        }
    }

    /// A change was not made, or nobody knows: who waits in line goes on waiting while its time is not over, and is looked after
    /// soon. Returns the others.
    fn put_back(
        &self,
        shard: &mut Shard,
        election: &ElectionName,
        asked: Vec<(Requester, Decided)>,
        error: &StoreError,
    ) -> Vec<QueuedCommand> {
        let mut callers = Vec::new();
        for (asker, _) in asked {
            match asker {
                Requester::Caller(caller) => callers.push(*caller),
                Requester::InLine(waiter) if waiter.is_over() => waiter.tell(Err(error.clone().into())),
                Requester::InLine(waiter) if waiter.waits() => {
                    shard.lines.entry(election.clone()).or_default().put_back(*waiter);
                }
                Requester::InLine(_) => {}
            }
        }
        self.arm(shard, election, self.clock.now() + AFTER_A_FAILURE);
        callers
    }

    /// Nobody knows what is durable: it must be read.
    pub(super) fn doubt(&self, shard: &mut Shard, election: &ElectionName) {
        if let (Some(known), Some(_)) = (shard.known.remove(election.as_str()), self.term()) {
            let (document, age) = (known.document(election), self.clock.age(known.stamp, self.clock.now()));
            self.vanished.doubted(&document, takeover::lease_until(&document, age));
        }
        shard.doubts += 1;
        shard.doubtful.insert(election.clone(), shard.doubts);
    }

    /// Begins to read an election that is not known, for this caller and for those in the queue.
    pub(super) fn look(
        self: &Arc<Self>,
        mut shard: MutexGuard<'_, Shard>,
        election: &ElectionName,
        asked: Option<QueuedCommand>,
    ) {
        let in_flight = shard.in_flight.entry(election.clone()).or_default();
        in_flight.reads = true;
        in_flight.queue.extend(asked);
        drop(shard);
        tokio::spawn(Arc::clone(self).find_out(election.clone()));
    }

    async fn find_out(self: Arc<Self>, election: ElectionName) {
        let work = InFlightGuard::on(&self, &election);
        let watched = match self.leave_or_take(&election).await {
            Ok(Verdict::Take(watched)) => watched,
            Ok(Verdict::Leave(document, age)) => {
                self.leave_to_others(&election, &document, age);
                return work.done();
            }
            Err(error) => {
                self.take_in(&election, Err(error), work);
                return;
            }
        };
        let fetched = self.fetch_for_command(&election, watched).await;
        if let ReadOutcome::Missing(trace) = self.take_in(&election, fetched, work) {
            self.begin(&election, trace).await;
        }
    }

    /// Goes on from what was read.
    fn take_in(
        self: &Arc<Self>,
        election: &ElectionName,
        fetched: Result<StoredElection, StoreError>,
        work: InFlightGuard,
    ) -> ReadOutcome {
        let mut shard = self.shard(election);
        match fetched {
            Err(error) => {
                for asked in shard.in_flight.remove(election).unwrap_or_default().queue {
                    asked.tell(Err(error.clone().into()));
                }
                self.arm(&mut shard, election, self.clock.now() + AFTER_A_FAILURE);
                work.done();
                ReadOutcome::Handled
            }
            Ok(StoredElection { found: Some((document, version)), renewed, .. }) => {
                self.take_up(&mut shard, election, document, version, renewed);
                self.proceed(shard, election, None);
                work.done();
                self.look_after(election);
                ReadOutcome::Handled
            }
            Ok(StoredElection { found: None, trace, .. }) => {
                shard.doubtful.remove(election);
                self.proceed(shard, election, trace);
                work.done();
                ReadOutcome::Missing(trace)
            }
        }
    }

    /// Takes up what was read of an election that was not known, and renewed last at this moment, which is then no longer in doubt. Returns from when on its lease counts.
    pub(super) fn take_up(
        &self,
        shard: &mut Shard,
        election: &ElectionName,
        document: Document,
        version: Version,
        renewed: Option<Moment>,
    ) -> Moment {
        let doubtful = shard.doubtful.remove(election).is_some();
        // Nothing was done to it here since the start; or whatever was done to it, its lease has its full length from here on.
        let stamp = renewed.filter(|_| !doubtful).unwrap_or_else(|| self.clock.now());
        let led = document.last_transition.is_some();
        let known = CachedElection::new(document, &self.interner, version, stamp);
        if doubtful {
            // Whatever was done to it, nobody was told.
            self.changes.publish(election, &known.compact, stamp, led);
        }
        shard.known.insert(known);
        stamp
    }

    /// The server ends, or failed, before it could answer.
    pub(super) fn broke_off(&self) -> CommandError {
        let why = "the server broke off, most likely because it is stopping".to_string();
        StoreError::Unknown { location: self.store.location(), why }.into()
    }
}
