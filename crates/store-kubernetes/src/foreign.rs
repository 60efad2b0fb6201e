//! A Lease that another client has changed, as a document.
//!
//! The spec says who holds it and since when; what only Baton knows (policy, operators, checkpoint) is carried over from what Baton wrote
//! last. Everything here is a function of the object alone, so that all who read it agree, and writing such a document down
//! changes nothing in what is read afterwards.

use std::sync::Arc;

use baton_election::document::{
    Approval, Cause, Departure, Document, Leader, Phase, PhaseTimes, State, Transition,
};
use baton_election::id::Incarnation;
use baton_election::policy::Limits;
use baton_election::removal_rules::Verdicts;
use baton_election::{AgentName, ContentHash, ElectionName, Epoch, Span, StoreInfo};
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use crate::hold::{FOREIGN_KEY, is_foreign};
use crate::stamp;

/// The duration of a holder that names none: client-go's usual one.
const USUAL_SECONDS: i32 = 15;
/// What a holder is called of whom nothing is known any more.
const NAMELESS: &str = "foreign";

/// The holder of a Lease; empty if nobody holds it.
pub(crate) fn holder(spec: &LeaseSpec) -> &str {
    spec.holder_identity.as_deref().unwrap_or_default()
}

/// How often the holder changed.
pub(crate) fn transitions(spec: &LeaseSpec) -> u64 {
    u64::try_from(spec.lease_transitions.unwrap_or(0)).unwrap_or(0)
}

/// A Lease that Baton has written on, and another client since.
///
/// The epoch is above the one that Baton wrote, even if the other client did not count its take-over as a transition: it
/// must not seem to go back when that one leaves. Only a holder under whom Baton wrote has the epoch that was written.
pub(crate) fn adopted(record: Document, base: u64, spec: &LeaseSpec) -> Document {
    let shown = Epoch(base.saturating_add(transitions(spec)));
    let epoch = shown.max(Epoch(record.epoch.0.saturating_add(1)));
    if holder(spec).is_empty() {
        let free = record.state == State::Vacant && record.outgoing.is_none();
        let departure = match &record.leader {
            // Somebody had it meanwhile of whom nothing is known.
            _ if shown > record.epoch => Some(Arc::new(departed(None, epoch, spec))),
            None if free => Some(Arc::new(departed(None, epoch, spec))),
            Some(leader) => Some(Arc::new(departed(Some(leader), epoch, spec))),
            None => record.departure.clone(),
        };
        return freed(Document { departure, ..record }, epoch, spec);
    }
    let same = |leader: &&Leader| is_foreign(leader) && leader.incarnation == incarnation(holder(spec));
    match record.leader.as_ref().filter(same).filter(|_| shown <= record.epoch) {
        Some(known) => {
            let leader = leader(spec, record.epoch, known.granted);
            let transition = record.last_transition.clone();
            held(record, leader, transition, spec)
        }
        None => {
            let leader = leader(spec, epoch, epoch);
            let transition = taken(&record, &leader);
            held(record, leader, Some(Arc::new(transition)), spec)
        }
    }
}

/// What the transitions of a Lease are counted from on which no Baton has written: so that the epoch is its resourceVersion.
///
/// That one is above every epoch that was given under this name before; nothing else in the object is. It rises with every renewal of
/// the holder, who does not show tokens to anybody. Baton's first write fixes it.
pub(crate) fn bare_base(resource_version: u64, spec: &LeaseSpec) -> u64 {
    resource_version.saturating_sub(transitions(spec))
}

/// A Lease on which no Baton has written.
pub(crate) fn bare(election: &ElectionName, info: &StoreInfo, base: u64, spec: &LeaseSpec) -> Document {
    let epoch = Epoch(base.saturating_add(transitions(spec)));
    let document = Document::new(election.clone(), info.id, epoch, &info.operator_keys);
    if holder(spec).is_empty() {
        let led = spec.acquire_time.is_some();
        let departure = led.then(|| Arc::new(departed(None, epoch, spec)));
        return freed(Document { departure, ..document }, epoch, spec);
    }
    // The epoch rises at each renewal, and its lease's clock must be told by the renewals alone.
    let leader = leader(spec, epoch, Epoch(transitions(spec)));
    held(document, leader, None, spec)
}

/// The document with nobody in it.
fn freed(document: Document, epoch: Epoch, spec: &LeaseSpec) -> Document {
    Document { epoch, state: State::Vacant, leader: None, ..settled(document, spec) }
}

/// The document with this leader in it.
fn held(
    document: Document,
    leader: Leader,
    last_transition: Option<Arc<Transition>>,
    spec: &LeaseSpec,
) -> Document {
    Document {
        epoch: leader.epoch,
        state: State::Held,
        leader: Some(leader),
        departure: None,
        last_transition,
        ..settled(document, spec)
    }
}

/// Without what another client's change has ended, and with its beat.
fn settled(document: Document, spec: &LeaseSpec) -> Document {
    Document {
        beat: beat(spec),
        outgoing: None,
        reserved_for: None,
        passed_over: None,
        paused: None,
        approval: Approval::default(),
        ..document
    }
}

fn leader(spec: &LeaseSpec, epoch: Epoch, granted: Epoch) -> Leader {
    let seconds = spec.lease_duration_seconds.filter(|seconds| *seconds > 0).unwrap_or(USUAL_SECONDS);
    let ttl = Span::secs(u64::try_from(seconds).unwrap_or(0));
    Leader {
        agent: agent(holder(spec)),
        incarnation: incarnation(holder(spec)),
        key_hash: FOREIGN_KEY,
        epoch,
        granted,
        ttl,
        renewals: 0,
        offered: false,
        contact: None,
        region: None,
        through: None,
        phase: Phase::Serving,
        limits: Limits::default(),
        held: Span::ZERO,
        idle: Span::ZERO,
        spent_tokens: 0,
        verdicts: Verdicts::default(),
        acquired: stamp::to_wall(spec.acquire_time.as_ref()),
        expires: stamp::to_wall(spec.renew_time.as_ref()) + ttl,
    }
}

/// How a holder that Baton does not know came to hold the Lease.
fn taken(record: &Document, leader: &Leader) -> Transition {
    let (cause, from) = match (&record.leader, &record.departure) {
        // There were others in between, of whom nothing is known.
        _ if leader.epoch.0 > record.epoch.0.saturating_add(1) => (Cause::Release, None),
        (Some(former), _) => (Cause::Failover, Some(former.agent.clone())),
        (None, Some(departure)) => (departure.cause, Some(departure.agent.clone())),
        (None, None) => (Cause::First, None),
    };
    Transition {
        epoch: leader.epoch,
        cause,
        from,
        to: leader.agent.clone(),
        reason: "taken by another client of the Lease".to_string(),
        at: leader.acquired,
        phases: PhaseTimes::default(),
    }
}

/// How a holder came to hold it no more; without a leader, one of whom nothing is known.
fn departed(leader: Option<&Leader>, epoch: Epoch, spec: &LeaseSpec) -> Departure {
    Departure {
        cause: Cause::Release,
        agent: leader.map_or_else(|| agent(NAMELESS), |leader| leader.agent.clone()),
        incarnation: leader.map_or(Incarnation([0; 8]), |leader| leader.incarnation),
        epoch: leader.map_or(epoch, |leader| leader.epoch),
        reason: "freed by another client of the Lease".to_string(),
        at: stamp::to_wall(spec.renew_time.as_ref()),
    }
}

/// Changes with every renewal, and with nothing else.
fn beat(spec: &LeaseSpec) -> u64 {
    let renewed = spec.renew_time.as_ref().or(spec.acquire_time.as_ref());
    renewed.map_or(0, |MicroTime(at)| at.as_microsecond().unsigned_abs())
}

/// An identity as the name of an agent: itself, if it can be one.
fn agent(identity: &str) -> AgentName {
    let hashed = || AgentName::new(&format!("foreign-{}", incarnation(identity)));
    let Ok(name) = AgentName::new(identity).or_else(|_| hashed()) else {
        unreachable!("a hash is a plain name")
    };
    name
}

/// An identity as an incarnation.
fn incarnation(identity: &str) -> Incarnation {
    let ContentHash(hash) = ContentHash::of(identity.as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[..8]);
    Incarnation(bytes)
}
