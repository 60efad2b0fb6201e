//! The adapter: the one place where the shipped decisions are called.
//!
//! Assumes that a decision is pure, so that one made before need not be made again. Guarantees that every decision in the
//! model, the fence's too, is one of `baton_election`. Does not keep what no decision in the model's scope reads (sums of
//! time, counts of renewals, measured phases, what the audit log will have): worlds that differ in those only would be explored apart for nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_election::command::{Acquire, Ending, Pass, Release, Renew};
use baton_election::document::PhaseTimes;
use baton_election::fence::{self, Entry, Sight};
use baton_election::operator::{Act, OperatorKey, PublicKey};
use baton_election::store_order::StoreChange;
use baton_election::{
    AgentName, Answer, Command, Credential, Document, ElectionName, Epoch, Evidence, Fence, Incarnation,
    KeyHash, LeaseKey, Policy, Refusal, ResourceName, Span, StoreId, StoreInfo, WallTime, decide,
};

use crate::config::{BrokenRule, Config};
use crate::state::{AgentAnswer, HashedDocument, RequestKind};

/// More incarnations than an agent can live through within any horizon.
const MAX_LIVES: u8 = 16;

/// What a client learns from one decision.
pub(crate) enum Verdict {
    /// This must be swapped in for the answer to be true.
    Swap(HashedDocument, AgentAnswer),
    /// The answer is true as it stands.
    Stands(AgentAnswer),
    /// It was refused.
    Refused(Refusal),
}

/// The shipped code, with the names and keys that the model gives it.
pub(crate) struct Shipped {
    election: ElectionName,
    resource: ResourceName,
    agents: [AgentName; 2],
    key_hashes: [Vec<KeyHash>; 2],
    operator: OperatorKey,
    operator_keys: [PublicKey; 1],
    /// What the store knows of itself, and the same while everything is paused.
    infos: [StoreInfo; 2],
    /// Orders are signed and verified once for each document and age: `decide` is pure, and Ed25519 is slow.
    deposed: Mutex<HashMap<(HashedDocument, Span), Option<HashedDocument>>>,
}

impl Shipped {
    pub(crate) fn new() -> Shipped {
        let agent = |name| AgentName::new(name).expect("a lawful name");
        let operator = OperatorKey::from_seed([7; 32]);
        Shipped {
            election: ElectionName::new("model").expect("a lawful name"),
            resource: ResourceName::new("resource").expect("a lawful name"),
            agents: [agent("a"), agent("b")],
            key_hashes: [0, 1]
                .map(|agent| (0..MAX_LIVES).map(|life| credential(agent, life).key.hash()).collect()),
            operator_keys: [operator.public()],
            infos: infos(&operator),
            operator,
            deposed: Mutex::default(),
        }
    }

    /// An election that nobody has led, with the policy that an operator set.
    pub(crate) fn founded(&self, config: &Config) -> HashedDocument {
        let blank = Document::new(self.election.clone(), StoreId([1; 8]), Epoch(0), &self.operator_keys);
        let policy = Policy { ttl: config.policy_ttl, ..Policy::default() };
        let order = self.operator.sign(&blank, Act::SetPolicy { policy });
        let decision = decide(None, &Command::Operate(order), &self.evidence(Span::ZERO));
        let next = decision.ok().and_then(|decision| decision.next);
        HashedDocument::new(next.expect("an operator may set the policy of a new election"))
    }

    /// Decides what an agent asks for, on the document that it read.
    pub(crate) fn decide(
        &self,
        (agent, life): (usize, u8),
        (kind, token): (RequestKind, Epoch),
        (document, halted): (&Document, bool),
        age: Span,
        config: &Config,
    ) -> Verdict {
        let credential = credential(agent, life);
        let command = match kind {
            RequestKind::Acquire => Command::Acquire(self.acquire(agent, life, config)),
            RequestKind::Renew => Command::Renew(Renew {
                epoch: token,
                credential,
                progress: true,
                spent_tokens: None,
                phase: None,
                promotion: None,
                region: None,
            }),
            RequestKind::Release => {
                Command::Release(Release { epoch: token, credential, reason: None, ending: Ending::Stopped })
            }
            RequestKind::Pass => {
                let to = self.agents[1 - agent].clone();
                Command::Pass(Pass { epoch: token, credential, to, reason: None })
            }
        };
        if let Err(refusal) = self.infos[usize::from(halted)].allow(&command) {
            return Verdict::Refused(refusal);
        }
        let misread = (kind == RequestKind::Acquire && config.fault == Some(BrokenRule::JudgeByPolicy))
            .then(|| judged_by_policy(document));
        match decide(Some(misread.as_ref().unwrap_or(document)), &command, &self.evidence(age)) {
            Err(refusal) => Verdict::Refused(refusal),
            Ok(decision) => {
                let heard = heard(&decision.answer);
                match decision.next {
                    Some(next) => Verdict::Swap(HashedDocument::new(without_sums(next)), heard),
                    None => Verdict::Stands(heard),
                }
            }
        }
    }

    /// What an operator's order to depose makes of the document; none if it is refused.
    pub(crate) fn depose(
        &self,
        document: &HashedDocument,
        age: Span,
        config: &Config,
    ) -> Option<HashedDocument> {
        let mut deposed = self.deposed.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = deposed.entry((document.clone(), age));
        let next = entry.or_insert_with(|| {
            let force = config.fault == Some(BrokenRule::Force);
            let order = self.operator.sign(document, Act::Depose { force, reason: String::new() });
            let decision = decide(Some(document), &Command::Operate(order), &self.evidence(age)).ok()?;
            decision.next.map(|next| HashedDocument::new(without_sums(next)))
        });
        next.clone()
    }

    /// Asks the fence whether it lets a token pass.
    pub(crate) fn admit(
        &self,
        fence: Option<&Fence>,
        token: Epoch,
        document: &Document,
        document_age: Span,
    ) -> Result<Fence, Refusal> {
        let entry = Entry { resource: &self.resource, token, agent: None, note: "", hold: None };
        let sight = Sight { document, document_age, fence_age: Span::ZERO, wall: WallTime::default() };
        fence::admit(fence, &entry, &sight)
    }

    fn acquire(&self, agent: usize, life: u8, config: &Config) -> Acquire {
        let key_hash = self.key_hashes[agent][usize::from(life)];
        let bid = Acquire::new(self.agents[agent].clone(), incarnation(agent, life), key_hash);
        Acquire { ttl: Some(config.ttl), offer: config.offers, ..bid }
    }

    fn evidence(&self, age: Span) -> Evidence<'_> {
        Evidence {
            election: &self.election,
            store: StoreId([1; 8]),
            age,
            wall: WallTime::default(),
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &self.operator_keys,
        }
    }
}

/// What a store knows of itself before and after an order to pause everything.
fn infos(operator: &OperatorKey) -> [StoreInfo; 2] {
    let at = WallTime::default();
    let running = StoreInfo { operator_keys: vec![operator.public()], ..StoreInfo::new(StoreId([1; 8]), at) };
    let pause = StoreChange::Pause { reason: String::new() };
    let halted = operator.sign_store(&running, pause, at).carry_out(&running, at);
    let (halted, _) = halted.expect("an operator may pause everything");
    [running, halted]
}

/// The name of one life of an agent.
pub(crate) fn incarnation(agent: usize, life: u8) -> Incarnation {
    let agent = if agent == 0 { 0xa } else { 0xb };
    Incarnation([agent, life, 0, 0, 0, 0, 0, 0])
}

fn credential(agent: usize, life: u8) -> Credential {
    let incarnation = incarnation(agent, life);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&incarnation.0);
    Credential { incarnation, key: LeaseKey(key) }
}

fn heard(answer: &Answer) -> AgentAnswer {
    match answer {
        Answer::Granted { epoch, ttl, offer: _, repeated, cause: _ } => AgentAnswer::Granted {
            token: *epoch,
            ttl: *ttl,
            unconfirmed: answer.is_unconfirmed(),
            repeated: *repeated,
        },
        Answer::Renewed { .. } => AgentAnswer::Renewed,
        Answer::Released { .. } => AgentAnswer::Released,
        Answer::Ended { .. }
        | Answer::Checkpointed { .. }
        | Answer::Acknowledged { .. }
        | Answer::Signed { .. }
        | Answer::Done { .. } => unreachable!("no agent of the model asks for that: {answer:?}"),
    }
}

/// The document without what is only summed up or measured. The model sets no budget, so that no decision reads these.
fn without_sums(mut document: Document) -> Document {
    for leader in [&mut document.leader, &mut document.outgoing].into_iter().flatten() {
        (leader.held, leader.idle, leader.renewals) = (Span::ZERO, Span::ZERO, 0);
    }
    if let Some(last) = &mut document.last_transition {
        Arc::make_mut(last).phases = PhaseTimes::default();
    }
    // What is only logged would keep worlds apart for ever that went different ways to the same state.
    if let Some(last) = &mut document.last_act {
        Arc::make_mut(last).entry = None;
    }
    document
}

/// The document as somebody misreads it who takes every lease for one of the policy's length.
fn judged_by_policy(document: &Document) -> Document {
    let mut misread = document.clone();
    for leader in [&mut misread.leader, &mut misread.outgoing].into_iter().flatten() {
        leader.ttl = document.policy.ttl;
    }
    misread
}
