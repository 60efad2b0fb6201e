//! A document in a quarter of the room.
//!
//! Most documents of a server are alike: held, under the usual policy, never renewed but plainly. What a plain renewal touches lies
//! open ([`Running`]); the terms are shared by all documents that have the same; what is seldom there is boxed; the rest is a few bytes.
//! Every field is named when it is packed and when it is unpacked, so that one that is new in the document cannot be forgotten.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use baton_election::document::{
    Approval, Checkpoint, Departure, Leader, Pause, PhaseTimes, Reservation, Transition,
};
use baton_election::operator::{LastAct, PublicKey};
use baton_election::policy::{Limits, Policy};
use baton_election::time::Span;
use baton_election::{AgentName, Document, ElectionName, Epoch, Incarnation, Running, StoreId};

use super::bytes::{Reader, Writer};

/// After so many terms those that nobody has any more are forgotten.
const MANY: usize = 1_024;

/// A document, packed. Its name stands elsewhere.
#[derive(Clone)]
pub(super) struct Packed {
    /// The lease, if a renewal of it may be plain.
    pub(super) running: Option<Running>,
    terms: Arc<Terms>,
    rare: Option<Box<Rare>>,
    rest: Box<[u8]>,
}

/// What many documents have in common.
#[derive(PartialEq, Eq, Hash)]
struct Terms {
    store: StoreId,
    policy: Arc<Policy>,
    operator_keys: Arc<Vec<PublicKey>>,
}

/// What few documents have.
#[derive(Clone, Default)]
struct Rare {
    /// The leader, if its lease does not lie open.
    leader: Option<Box<Leader>>,
    outgoing: Option<Box<Leader>>,
    reserved_for: Option<Box<Reservation>>,
    passed_over: Option<AgentName>,
    paused: Option<Box<Pause>>,
    approval: Option<Box<Approval>>,
    last_act: Option<Arc<LastAct>>,
    checkpoint: Option<Arc<Checkpoint>>,
}

impl Rare {
    fn boxed(self) -> Option<Box<Rare>> {
        let Rare { leader, outgoing, reserved_for, passed_over, paused, approval, last_act, checkpoint } =
            &self;
        let some = leader.is_some()
            || outgoing.is_some()
            || reserved_for.is_some()
            || passed_over.is_some()
            || paused.is_some()
            || approval.is_some()
            || last_act.is_some()
            || checkpoint.is_some();
        some.then(|| Box::new(self))
    }
}

/// All terms of the documents that are known.
#[derive(Default)]
pub(super) struct AllTerms(Mutex<HashSet<Arc<Terms>>>);

impl AllTerms {
    fn shared(&self, terms: Terms) -> Arc<Terms> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&terms) {
            return Arc::clone(known);
        }
        if all.len() >= MANY && all.len() == all.capacity() {
            all.retain(|terms| Arc::strong_count(terms) > 1);
        }
        let terms = Arc::new(terms);
        all.insert(Arc::clone(&terms));
        terms
    }
}

impl Packed {
    pub(super) fn of(document: Document, all: &AllTerms) -> Packed {
        let running = Running::of(&document);
        let Document {
            election: _,
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
            checkpoint,
            departure,
            last_transition,
        } = document;
        let mut bytes = Writer::default();
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
        let rare = Rare {
            leader: if running.is_some() { None } else { leader.map(Box::new) },
            outgoing: outgoing.map(Box::new),
            reserved_for: reserved_for.map(Box::new),
            passed_over,
            paused: paused.map(Box::new),
            approval: (approval != Approval::default()).then(|| Box::new(approval)),
            last_act,
            checkpoint,
        };
        let terms = all.shared(Terms { store, policy, operator_keys });
        Packed { running, terms, rare: rare.boxed(), rest: bytes.done() }
    }

    /// The document as it stands.
    pub(super) fn document(&self, election: &ElectionName) -> Document {
        let Terms { store, policy, operator_keys } = &*self.terms;
        let Rare { leader, outgoing, reserved_for, passed_over, paused, approval, last_act, checkpoint } =
            self.rare.as_deref().cloned().unwrap_or_default();
        let mut bytes = Reader::new(&self.rest);
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
            checkpoint,
            departure,
            last_transition,
        }
    }

    /// Who leads, if its lease lies open.
    pub(super) fn leader(&self) -> Option<(&str, &Running)> {
        let running = self.running.as_ref()?;
        Some((Reader::new(&self.rest).text(), running))
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.terms.policy
    }

    /// The count of beats.
    pub(super) fn beat(&self) -> u64 {
        match &self.running {
            Some(running) => running.beat,
            None => {
                let mut bytes = Reader::new(&self.rest);
                let _epoch = bytes.number();
                bytes.number()
            }
        }
    }

    /// About how many bytes it takes that it shares with nobody for sure.
    pub(super) fn weight(&self) -> usize {
        let checkpoint = self.rare.as_ref().and_then(|rare| rare.checkpoint.as_ref());
        let left = checkpoint.map_or(0, |checkpoint| checkpoint.state.len() + checkpoint.summary.len());
        let rare = if self.rare.is_some() { size_of::<Rare>() + size_of::<Leader>() } else { 0 };
        size_of::<Packed>() + self.rest.len() + rare + left
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
        phase,
        spent_tokens,
        acquired,
    } = leader;
    bytes.text(agent.as_str());
    bytes.phase(*phase);
    bytes.number(*spent_tokens);
    bytes.wall(*acquired);
}

fn read_leader(bytes: &mut Reader<'_>, running: &Running) -> Leader {
    let Running { incarnation, key_hash, epoch, granted, ttl, renewals, held, idle, expires, beat: _ } =
        *running;
    Leader {
        agent: bytes.agent(),
        incarnation,
        key_hash,
        epoch,
        granted,
        ttl,
        renewals,
        offered: false,
        phase: bytes.phase(),
        limits: Limits::default(),
        held,
        idle,
        spent_tokens: bytes.number(),
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
mod tests {
    use baton_election::command::{
        Acknowledge, Acquire, Evidence, Finding, Pass, Release, Renew, Report, WriteCheckpoint,
    };
    use baton_election::operator::{Act, OperatorKey};
    use baton_election::policy::ApprovalMode;
    use baton_election::time::WallTime;
    use baton_election::{Command, Credential, LeaseKey, State, decide};

    use super::*;

    /// A walk through the states of one election, by dice that always fall the same.
    struct Walk {
        dice: u64,
        document: Option<Document>,
        lives: u8,
    }

    impl Walk {
        fn roll(&mut self, sides: u64) -> u64 {
            self.dice =
                self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.dice >> 33) % sides
        }

        fn credential(&self) -> Credential {
            let leader = self.document.as_ref().and_then(Document::lease_holder);
            let life = leader.map_or([self.lives; 8], |leader| leader.incarnation.0);
            Credential { incarnation: Incarnation(life), key: LeaseKey([life[0]; 16]) }
        }

        fn acquire(&mut self) -> Command {
            self.lives = self.lives.wrapping_add(1);
            let fresh = [self.lives; 8];
            let limits = Limits { renewals: (self.roll(4) == 0).then_some(3), ..Limits::default() };
            Command::Acquire(Acquire {
                agent: AgentName::new(&format!("agent-{}", self.roll(3))).unwrap(),
                incarnation: Incarnation(fresh),
                key_hash: LeaseKey([fresh[0]; 16]).hash(),
                ttl: Some(Span::secs(10)),
                task: (self.roll(2) == 0).then(|| "a task".to_string()),
                capabilities: std::collections::BTreeSet::new(),
                limits,
                reason: None,
                noticed: Some(Span::millis(self.roll(50))),
                offer: self.roll(4) == 0,
            })
        }

        fn act(&mut self) -> Command {
            let reason = "so be it".to_string();
            let policy = |approval, limits| Policy {
                approval,
                limits,
                watchers: vec![AgentName::new("watcher").unwrap()],
                ..Policy::default()
            };
            let limits = Limits { tokens: Some(100), ..Limits::default() };
            let act = match self.roll(9) {
                0 => Act::Pause { reason },
                1 => Act::Resume,
                2 => Act::Depose { force: false, reason },
                3 => Act::Appoint {
                    agent: AgentName::new("agent-1").unwrap(),
                    lasts: None,
                    force: false,
                    reason,
                },
                4 => Act::SetPolicy { policy: policy(ApprovalMode::Checkpoints, Limits::default()) },
                5 => Act::SetPolicy { policy: policy(ApprovalMode::None, limits) },
                6 | 7 => Act::SetPolicy { policy: Policy::default() },
                _ => Act::Reject { reason },
            };
            let document = self.document.clone();
            let document = document.unwrap_or_else(|| {
                Document::new(
                    ElectionName::new("e").unwrap(),
                    StoreId([1; 8]),
                    Epoch(0),
                    &[operator().public()],
                )
            });
            Command::Operate(operator().sign(&document, act))
        }

        fn command(&mut self) -> Command {
            let (epoch, credential) =
                (self.document.as_ref().map_or(Epoch(0), |document| document.epoch), self.credential());
            let last = self.document.as_ref().and_then(|document| document.checkpoint.clone());
            match self.roll(12) {
                0..4 => self.acquire(),
                4 | 5 => {
                    let spent_tokens = (self.roll(2) == 0).then_some(7);
                    Command::Renew(Renew { spent_tokens, ..Renew::new(epoch, credential) })
                }
                6 => Command::Release(Release { epoch, credential, reason: None, orphaned: false }),
                7 => {
                    let to = AgentName::new("agent-2").unwrap();
                    Command::Pass(Pass { epoch, credential, to, reason: None })
                }
                8 => Command::Checkpoint(WriteCheckpoint {
                    epoch,
                    credential,
                    seq: last.map_or(1, |last| last.seq + 1),
                    summary: "half".to_string(),
                    state: "{\"done\":[1]}".to_string(),
                    reference: None,
                }),
                9 => {
                    let hash = last.map_or(baton_election::ContentHash([0; 32]), |last| last.hash);
                    Command::Acknowledge(Acknowledge { epoch, credential, hash })
                }
                10 => Command::Report(Report {
                    epoch,
                    finding: Finding::Validation,
                    detail: "red".to_string(),
                    by: AgentName::new("watcher").unwrap(),
                    credential: None,
                }),
                _ => self.act(),
            }
        }
    }

    fn operator() -> OperatorKey {
        OperatorKey::from_seed([1; 32])
    }

    #[test]
    fn every_document_is_unpacked_as_it_was_packed() {
        let (election, all) = (ElectionName::new("e").unwrap(), AllTerms::default());
        let mut walk = Walk { dice: 7, document: None, lives: 0 };
        let (mut open, mut rare) = (0, [0; 8]);
        let mut states = HashSet::new();
        for step in 0..20_000 {
            let command = walk.command();
            let evidence = Evidence {
                election: &election,
                store: StoreId([1; 8]),
                age: Span::millis(walk.roll(if step % 7 == 0 { 30_000 } else { 3_000 })),
                wall: WallTime::from_unix_millis(1_700_000_000_000 + step),
                floor: Epoch(0),
                vanished_lease: Span::ZERO,
                operator_keys: &[operator().public()],
            };
            let decided = decide(walk.document.as_ref(), &command, &evidence);
            let Some(document) = decided.ok().and_then(|decision| decision.next) else { continue };
            let packed = Packed::of(document.clone(), &all);
            assert_eq!(packed.document(&election), document);
            assert_eq!(packed.beat(), document.beat);
            assert_eq!(packed.policy(), &*document.policy);
            states.insert(document.state);
            open += usize::from(packed.running.is_some());
            let has = [
                document.leader.is_some() && packed.running.is_none(),
                document.outgoing.is_some(),
                document.reserved_for.is_some(),
                document.passed_over.is_some(),
                document.paused.is_some(),
                document.approval != Approval::default(),
                document.departure.is_some(),
                document.checkpoint.is_some(),
            ];
            rare.iter_mut().zip(has).for_each(|(count, has)| *count += usize::from(has));
            walk.document = Some(document);
        }
        assert_eq!(states.len(), 4, "{states:?}");
        assert!(
            states.contains(&State::Paused) && open > 0 && rare.iter().all(|count| *count > 0),
            "{open} {rare:?}"
        );
        assert!(all.0.lock().unwrap().len() < 10, "documents of the same terms share them");
    }

    #[test]
    fn a_plain_lease_is_small() {
        assert!(size_of::<Packed>() <= 152, "{}", size_of::<Packed>());
    }
}
