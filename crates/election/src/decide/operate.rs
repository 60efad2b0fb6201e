//! An operator's acts: the last word.

use alloc::string::ToString;
use alloc::sync::Arc;

use super::moves;
use crate::command::{Answer, Decision, Evidence};
use crate::document::{
    Approval, Cause, Document, Pause, PhaseTimes, Question, Reservation, State, Transition,
};
use crate::id::ContentHash;
use crate::name::AgentName;
use crate::operator::{Act, MAX_OPERATORS, PublicKey, SignedAct};
use crate::policy::{ApprovalMode, Policy};
use crate::refusal::Refusal;
use crate::time::Span;

pub(super) fn decide(
    document: Option<&Document>,
    signed: &SignedAct,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    let fresh;
    let document = match document {
        Some(document) => document,
        None if evidence.vanished_lease > Span::ZERO => {
            return Err(Refusal::Held {
                by: None,
                epoch: evidence.floor,
                remaining: evidence.vanished_lease,
                ending: None,
            });
        }
        None => {
            fresh = begin(&signed.order.act, evidence)?;
            &fresh
        }
    };
    if signed.is_repeated(document) {
        return Ok(Decision { next: None, answer: answer(document, evidence) });
    }
    signed.verify(document)?;
    let mut next = document.clone();
    apply(&mut next, signed, evidence)?;
    let ended = document.leader.as_ref().filter(|_| next.leader.is_none());
    next.acts += 1;
    next.last_act =
        Some(Arc::new(signed.remembered(ended.map(|leader| leader.agent.clone()), evidence.wall)));
    Ok(Decision { answer: answer(&next, evidence), next: Some(next) })
}

/// An operator may prepare an election that nobody has led; the other acts need one.
fn begin(act: &Act, evidence: &Evidence<'_>) -> Result<Document, Refusal> {
    match act {
        Act::Appoint { .. } | Act::Pause { .. } | Act::SetPolicy { .. } => Ok(Document::new(
            evidence.election.clone(),
            evidence.store,
            evidence.floor,
            evidence.operator_keys,
        )),
        Act::Depose { .. }
        | Act::Resume
        | Act::Approve { .. }
        | Act::Reject { .. }
        | Act::Enrol { .. }
        | Act::Dismiss { .. } => Err(Refusal::UnknownElection { election: evidence.election.to_string() }),
    }
}

/// What the last act did.
fn answer(after: &Document, evidence: &Evidence<'_>) -> Answer {
    Answer::Done {
        epoch: after.epoch,
        ended: after.last_act.as_ref().and_then(|last| last.ended.clone()),
        waits: after.outgoing.as_ref().map_or(Span::ZERO, |leader| leader.lease().minus(evidence.age)),
    }
}

fn apply(next: &mut Document, signed: &SignedAct, evidence: &Evidence<'_>) -> Result<(), Refusal> {
    match &signed.order.act {
        Act::Appoint { agent, lasts, force, reason } => {
            moves::check_text("reason", reason)?;
            appoint(next, agent, *lasts, *force, reason, evidence);
            Ok(())
        }
        Act::Depose { force, reason } => {
            moves::check_text("reason", reason)?;
            depose(next, *force, reason, evidence)
        }
        Act::Pause { reason } => {
            moves::check_text("reason", reason)?;
            pause(next, signed.by, reason, evidence);
            Ok(())
        }
        Act::Resume => resume(next, evidence),
        Act::Approve { checkpoint } => approve(next, *checkpoint, evidence),
        Act::Reject { reason } => {
            moves::check_text("reason", reason)?;
            reject(next, reason, evidence)
        }
        Act::SetPolicy { policy } => set_policy(next, policy),
        Act::Enrol { key } => enrol(next, *key),
        Act::Dismiss { key } => dismiss(next, *key),
    }
}

fn appoint(
    next: &mut Document,
    agent: &AgentName,
    lasts: Option<Span>,
    force: bool,
    reason: &str,
    evidence: &Evidence<'_>,
) {
    let leads_already =
        next.state == State::Held && next.leader.as_ref().is_some_and(|leader| leader.agent == *agent);
    if leads_already && next.lease_remaining(evidence.age) > Span::ZERO {
        return;
    }
    let _ = moves::end(next, Cause::Appoint, reason, force, evidence);
    let lasts = lasts.map(Span::whole_millis);
    next.reserved_for = Some(Reservation { agent: agent.clone(), lasts, by_operator: true });
    if next.state == State::AwaitingApproval {
        next.state = State::Vacant;
        next.approval = Approval::default();
    }
    if force {
        next.outgoing = None;
    }
    moves::begin_vacancy(next, evidence);
}

fn depose(next: &mut Document, force: bool, reason: &str, evidence: &Evidence<'_>) -> Result<(), Refusal> {
    if next.leader.is_some() {
        let _ = moves::end(next, Cause::Depose, reason, force, evidence);
        return Ok(());
    }
    if force && next.outgoing.take().is_some() {
        moves::beat(next);
        return Ok(());
    }
    Err(Refusal::invalid("nobody leads, so nobody can be deposed", "see `baton status`"))
}

fn pause(next: &mut Document, by: PublicKey, reason: &str, evidence: &Evidence<'_>) {
    let _ = moves::end(next, Cause::Pause, reason, false, evidence);
    next.state = State::Paused;
    next.approval = Approval::default();
    next.paused = Some(Pause { by, reason: reason.to_string(), at: evidence.wall });
}

fn resume(next: &mut Document, evidence: &Evidence<'_>) -> Result<(), Refusal> {
    if next.state != State::Paused {
        return Err(Refusal::invalid("the election is not paused", "see `baton status`"));
    }
    next.state = State::Vacant;
    next.paused = None;
    moves::begin_vacancy(next, evidence);
    Ok(())
}

fn approve(
    next: &mut Document,
    checkpoint: Option<ContentHash>,
    evidence: &Evidence<'_>,
) -> Result<(), Refusal> {
    match &next.approval.question {
        None => return Err(Refusal::invalid("nothing waits for an approval", "see `baton status`")),
        Some(Question::Checkpoint { hash }) if checkpoint != Some(*hash) => {
            return Err(Refusal::invalid(
                "the approval is not of the checkpoint that waits for one",
                "look at it again: baton status",
            ));
        }
        Some(Question::Checkpoint { .. } | Question::MoreTime) => {}
    }
    next.approval = Approval::default();
    if next.state != State::AwaitingApproval {
        return Ok(());
    }
    let alive = next.lease_remaining(evidence.age) > Span::ZERO;
    match next.leader.take() {
        Some(mut leader) if alive => {
            moves::raise_epoch(next, evidence);
            leader.epoch = next.epoch;
            next.last_transition = Some(Arc::new(Transition {
                epoch: next.epoch,
                cause: Cause::Approval,
                from: Some(leader.agent.clone()),
                to: leader.agent.clone(),
                reason: "approved by an operator".to_string(),
                at: evidence.wall,
                phases: PhaseTimes::default(),
            }));
            next.leader = Some(leader);
            next.state = State::Held;
        }
        gone => {
            next.leader = gone;
            let _ =
                moves::end(next, Cause::Failover, "the lease ran out before the approval", false, evidence);
            next.state = State::Vacant;
            moves::beat(next);
        }
    }
    Ok(())
}

fn reject(next: &mut Document, reason: &str, evidence: &Evidence<'_>) -> Result<(), Refusal> {
    if next.approval.question.is_none() {
        return Err(Refusal::invalid("nothing waits for an approval", "see `baton status`"));
    }
    if next.leader.is_some() {
        let _ = moves::end(next, Cause::Approval, reason, false, evidence);
    } else {
        next.state = State::Vacant;
        moves::beat(next);
    }
    next.approval = Approval::default();
    Ok(())
}

fn set_policy(next: &mut Document, policy: &Policy) -> Result<(), Refusal> {
    policy.check()?;
    if next.state == State::Held && policy.approval != ApprovalMode::Time {
        next.approval = Approval::default();
    }
    next.policy = Arc::new(policy.clone());
    Ok(())
}

fn enrol(next: &mut Document, key: PublicKey) -> Result<(), Refusal> {
    let keys = Arc::make_mut(&mut next.operator_keys);
    if keys.contains(&key) {
        return Ok(());
    }
    if keys.len() >= MAX_OPERATORS {
        return Err(Refusal::invalid("the election has 16 operators, the most", "dismiss one first"));
    }
    keys.push(key);
    Ok(())
}

fn dismiss(next: &mut Document, key: PublicKey) -> Result<(), Refusal> {
    let keys = Arc::make_mut(&mut next.operator_keys);
    if keys.iter().all(|known| *known == key) {
        return Err(Refusal::invalid("the last operator cannot be dismissed", "enrol another first"));
    }
    keys.retain(|known| *known != key);
    Ok(())
}
