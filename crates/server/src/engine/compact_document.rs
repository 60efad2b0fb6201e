//! A document in a quarter of the room.
//!
//! Most documents of a server are alike: held, under the usual policy, never renewed but plainly. What a plain renewal touches lies
//! open ([`PlainLease`]); fields that many documents have in common are shared; what is seldom there is boxed; the rest is a few bytes.
//! Every field is named when it is packed and when it is unpacked, so that one that is new in the document cannot be forgotten.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use baton_election::document::{
    Approval, Checkpoint, Departure, Leader, Pause, PhaseTimes, Reservation, Transition,
};
use baton_election::operator::{LastAct, PublicKey};
use baton_election::policy::{Limits, Policy};
use baton_election::quorum::Gathering;
use baton_election::removal_rules::Verdicts;
use baton_election::select::Vote;
use baton_election::time::{Span, WallTime};
use baton_election::{AgentName, Document, ElectionName, Epoch, Incarnation, PlainLease, StoreId, TokenId};

use super::bytes::{Bytes, Reader, Writer};

/// After so many shared values those that no document has any more are forgotten.
const MANY: usize = 1_024;

/// A document in its compact form.
#[derive(Clone)]
pub(super) struct CompactDocument {
    /// The lease, if a renewal of it may be plain.
    pub(super) running: Option<PlainLease>,
    shared: Arc<SharedFields>,
    optional: Option<Box<OptionalFields>>,
    rest: Bytes,
}

/// What many documents have in common.
#[derive(PartialEq, Eq, Hash)]
struct SharedFields {
    store: StoreId,
    policy: Arc<Policy>,
    operator_keys: Arc<Vec<PublicKey>>,
    server: Option<Epoch>,
    created_by: Option<TokenId>,
}

/// What few documents have.
#[derive(Clone, Default, PartialEq)]
struct OptionalFields {
    /// The leader, if its lease does not lie open.
    leader: Option<Box<Leader>>,
    outgoing: Option<Box<Leader>>,
    reserved_for: Option<Box<Reservation>>,
    passed_over: Option<AgentName>,
    paused: Option<Box<Pause>>,
    approval: Option<Box<Approval>>,
    last_act: Option<Arc<LastAct>>,
    gathering: Option<Arc<Vec<Gathering>>>,
    votes: Option<Arc<Vec<Vote>>>,
    checkpoint: Option<Arc<Checkpoint>>,
    forgotten: Option<Epoch>,
}

impl OptionalFields {
    fn boxed(self) -> Option<Box<OptionalFields>> {
        (self != OptionalFields::default()).then(|| Box::new(self))
    }
}

/// Shares the fields that many documents have in common.
#[derive(Default)]
pub(super) struct FieldInterner(Mutex<HashSet<Arc<SharedFields>>>);

impl FieldInterner {
    fn intern(&self, fields: SharedFields) -> Arc<SharedFields> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&fields) {
            return Arc::clone(known);
        }
        if all.len() >= MANY && all.len() == all.capacity() {
            all.retain(|fields| Arc::strong_count(fields) > 1);
        }
        let fields = Arc::new(fields);
        all.insert(Arc::clone(&fields));
        fields
    }
}

impl CompactDocument {
    pub(super) fn of(document: Document, interner: &FieldInterner) -> CompactDocument {
        let running = PlainLease::of(&document);
        let Document {
            election,
            store,
            epoch,
            task,
            state,
            beat,
            leader,
            outgoing,
            policy,
            reserved_for,
            passed_over,
            paused,
            approval,
            operator_keys,
            acts,
            last_act,
            gathering,
            votes,
            checkpoint,
            departure,
            last_transition,
            created_by,
            forgotten,
            server,
        } = document;
        let mut bytes = Writer::default();
        bytes.text(election.as_str());
        let open = running.is_some().then_some(leader.as_ref()).flatten();
        match open {
            Some(leader) => write_leader(&mut bytes, leader),
            None => {
                bytes.number(epoch.0);
                bytes.number(beat);
            }
        }
        bytes.state(state);
        bytes.option(task.as_deref(), Writer::text);
        bytes.number(acts);
        bytes.option(departure.as_deref(), write_departure);
        let led_by = open.map(|leader| &leader.agent);
        bytes.option(last_transition.as_deref(), |bytes, last| write_transition(bytes, last, led_by));
        let optional = OptionalFields {
            leader: if running.is_some() { None } else { leader.map(Box::new) },
            outgoing: outgoing.map(Box::new),
            reserved_for: reserved_for.map(Box::new),
            passed_over,
            paused: paused.map(Box::new),
            approval: (approval != Approval::default()).then(|| Box::new(approval)),
            last_act,
            gathering,
            votes,
            checkpoint,
            forgotten,
        };
        let shared = interner.intern(SharedFields { store, policy, operator_keys, server, created_by });
        CompactDocument { running, shared, optional: optional.boxed(), rest: bytes.done() }
    }

    /// The document as it stands. The caller has the name of the election at hand.
    pub(super) fn document(&self, election: &ElectionName) -> Document {
        let SharedFields { store, policy, operator_keys, server, created_by } = &*self.shared;
        let OptionalFields {
            leader,
            outgoing,
            reserved_for,
            passed_over,
            paused,
            approval,
            last_act,
            gathering,
            votes,
            checkpoint,
            forgotten,
        } = self.optional.as_deref().cloned().unwrap_or_default();
        let mut bytes = self.after_name();
        let (leader, epoch, beat) = match &self.running {
            Some(running) => (Some(read_leader(&mut bytes, running)), running.epoch, running.beat),
            None => (leader.map(|leader| *leader), Epoch(bytes.number()), bytes.number()),
        };
        let state = bytes.state();
        let task = bytes.option(|bytes| bytes.text().into());
        let acts = bytes.number();
        let departure = bytes.option(read_departure).map(Arc::new);
        let led_by = self.running.and(leader.as_ref()).map(|leader| &leader.agent);
        let last_transition = bytes.option(|bytes| read_transition(bytes, led_by)).map(Arc::new);
        Document {
            election: election.clone(),
            store: *store,
            epoch,
            task,
            state,
            beat,
            leader,
            outgoing: outgoing.map(|outgoing| *outgoing),
            policy: Arc::clone(policy),
            reserved_for: reserved_for.map(|reserved_for| *reserved_for),
            passed_over,
            paused: paused.map(|paused| *paused),
            approval: approval.map(|approval| *approval).unwrap_or_default(),
            operator_keys: Arc::clone(operator_keys),
            acts,
            last_act,
            gathering,
            votes,
            checkpoint,
            departure,
            last_transition,
            created_by: *created_by,
            forgotten,
            server: *server,
        }
    }

    /// The leader, if its lease lies open.
    pub(super) fn leader(&self) -> Option<(&str, Option<&str>, &PlainLease)> {
        let running = self.running.as_ref()?;
        let mut bytes = self.after_name();
        Some((bytes.text(), bytes.option(Reader::text), running))
    }

    /// How long the lease of its leader lasts, if it has one.
    pub(super) fn lease(&self) -> Option<Span> {
        let apart = || self.optional.as_ref()?.leader.as_ref().map(|leader| leader.lease());
        self.running.map(|running| running.ttl).or_else(apart)
    }

    /// The epoch that its leader was granted, when, and until when its lease lasts.
    pub(super) fn tenure(&self) -> Option<(Epoch, WallTime, WallTime)> {
        if let Some(running) = &self.running {
            let leader = read_leader(&mut self.after_name(), running);
            return Some((leader.granted, leader.acquired, leader.expires));
        }
        let leader = self.optional.as_ref()?.leader.as_ref()?;
        Some((leader.granted, leader.acquired, leader.expires))
    }

    /// The name of the election.
    pub(super) fn name(&self) -> &str {
        Reader::new(&self.rest).text()
    }

    fn after_name(&self) -> Reader<'_> {
        let mut bytes = Reader::new(&self.rest);
        bytes.text();
        bytes
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.shared.policy
    }

    /// The highest epoch given.
    pub(super) fn epoch(&self) -> Epoch {
        match &self.running {
            Some(running) => running.epoch,
            None => Epoch(self.after_name().number()),
        }
    }

    /// Whether an operator retired the election.
    pub(super) fn is_retired(&self) -> bool {
        self.optional
            .as_ref()
            .and_then(|optional| optional.forgotten)
            .is_some_and(|forgotten| forgotten == self.epoch())
    }

    /// The count of beats.
    pub(super) fn beat(&self) -> u64 {
        match &self.running {
            Some(running) => running.beat,
            None => {
                let mut bytes = self.after_name();
                let _epoch = bytes.number();
                bytes.number()
            }
        }
    }

    /// About how many bytes it takes that it shares with nobody for sure.
    pub(super) fn weight(&self) -> usize {
        let checkpoint = self.optional.as_ref().and_then(|optional| optional.checkpoint.as_ref());
        let left = checkpoint.map_or(0, |checkpoint| checkpoint.state.len() + checkpoint.summary.len());
        let optional =
            if self.optional.is_some() { size_of::<OptionalFields>() + size_of::<Leader>() } else { 0 };
        size_of::<CompactDocument>() + self.rest.len() + optional + left
    }
}

fn write_leader(bytes: &mut Writer, leader: &Leader) {
    let Leader {
        agent,
        // These lie open.
        incarnation: _,
        key_hash: _,
        epoch: _,
        granted: _,
        ttl: _,
        renewals: _,
        held: _,
        idle: _,
        expires: _,
        // These are as they must be where a renewal may be plain.
        offered: _,
        limits: _,
        region: _,
        phase,
        contact,
        through,
        spent_tokens,
        verdicts,
        acquired,
    } = leader;
    bytes.text(agent.as_str());
    bytes.option(contact.as_deref(), Writer::text);
    bytes.option(through.as_ref(), |bytes, id| bytes.bytes(&id.0));
    bytes.phase(*phase);
    bytes.number(*spent_tokens);
    write_verdicts(bytes, verdicts);
    bytes.wall(*acquired);
}

/// Of most leaders there are none.
fn write_verdicts(bytes: &mut Writer, verdicts: &Verdicts) {
    let Verdicts { given, bad, by, judged } = verdicts;
    bytes.number(*given);
    if *given == 0 {
        return;
    }
    bytes.number(u64::from(*bad));
    for numbers in [by, judged] {
        bytes.number(numbers.len() as u64);
        for (judge, number) in numbers {
            bytes.text(judge.as_str());
            bytes.number(*number);
        }
    }
}

fn read_verdicts(bytes: &mut Reader<'_>) -> Verdicts {
    let given = bytes.number();
    if given == 0 {
        return Verdicts::default();
    }
    let bad = u32::try_from(bytes.number()).unwrap_or(u32::MAX);
    let mut numbers = || (0..bytes.number()).map(|_| (bytes.agent(), bytes.number())).collect();
    Verdicts { given, bad, by: numbers(), judged: numbers() }
}

fn read_leader(bytes: &mut Reader<'_>, running: &PlainLease) -> Leader {
    let PlainLease { incarnation, key_hash, epoch, granted, ttl, renewals, held, idle, expires, beat: _ } =
        *running;
    Leader {
        agent: bytes.agent(),
        contact: bytes.option(|bytes| bytes.text().into()),
        through: bytes.option(|bytes| TokenId(bytes.array())),
        incarnation,
        key_hash,
        epoch,
        granted,
        ttl,
        renewals,
        offered: false,
        phase: bytes.phase(),
        limits: Limits::default(),
        region: None,
        held,
        idle,
        spent_tokens: bytes.number(),
        verdicts: read_verdicts(bytes),
        acquired: bytes.wall(),
        expires,
    }
}

fn write_departure(bytes: &mut Writer, departure: &Departure) {
    let Departure { cause, agent, incarnation, epoch, reason, at } = departure;
    bytes.cause(*cause);
    bytes.text(agent.as_str());
    bytes.bytes(&incarnation.0);
    bytes.number(epoch.0);
    bytes.text(reason);
    bytes.wall(*at);
}

fn read_departure(bytes: &mut Reader<'_>) -> Departure {
    Departure {
        cause: bytes.cause(),
        agent: bytes.agent(),
        incarnation: Incarnation(bytes.array()),
        epoch: Epoch(bytes.number()),
        reason: bytes.text().to_string(),
        at: bytes.wall(),
    }
}

/// The leader's name, which is most often the one that a transition went to, is not written twice.
fn write_transition(bytes: &mut Writer, transition: &Transition, led_by: Option<&AgentName>) {
    let Transition { epoch, cause, from, to, reason, at, phases } = transition;
    let PhaseTimes { detection, election, promotion, synchronisation, notification } = phases;
    bytes.number(epoch.0);
    bytes.cause(*cause);
    bytes.option(from.as_ref(), |bytes, from| bytes.text(from.as_str()));
    bytes.option(Some(to).filter(|to| Some(*to) != led_by), |bytes, to| bytes.text(to.as_str()));
    bytes.text(reason);
    bytes.wall(*at);
    for phase in [detection, election, promotion, synchronisation, notification] {
        bytes.option(*phase, Writer::span);
    }
}

fn read_transition(bytes: &mut Reader<'_>, led_by: Option<&AgentName>) -> Transition {
    let epoch = Epoch(bytes.number());
    let cause = bytes.cause();
    let from = bytes.option(Reader::agent);
    let to = match (bytes.option(Reader::agent), led_by) {
        (Some(to), _) => to,
        (None, Some(leader)) => leader.clone(),
        (None, None) => unreachable!("a name is left out only if it is the leader's"),
    };
    let (reason, at) = (bytes.text().to_string(), bytes.wall());
    let mut phase = || -> Option<Span> { bytes.option(Reader::span) };
    let phases = PhaseTimes {
        detection: phase(),
        election: phase(),
        promotion: phase(),
        synchronisation: phase(),
        notification: phase(),
    };
    Transition { epoch, cause, from, to, reason, at, phases }
}

#[cfg(test)]
#[path = "compact_document_tests.rs"]
mod tests;
