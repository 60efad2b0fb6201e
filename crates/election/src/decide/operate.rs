//! An operator's acts: the last word.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::moves;
use crate::command::{Answer, Decision, Evidence, Persistence};
use crate::document::{
    Approval, Cause, Document, Pause, PhaseTimes, Question, Reservation, State, Transition,
};
use crate::id::ContentHash;
use crate::name::AgentName;
use crate::operator::{Act, MAX_OPERATORS, PublicKey, SignedAct};
use crate::policy::{ApprovalMode, Policy, Select};
use crate::quorum::{self, Gathered, Gathering, check_enough, gather};
use crate::refusal::Refusal;
use crate::region;
use crate::select::Vote;
use crate::time::Span;

pub(super) fn decide(
    document: Option<&Document>,
    signed: &SignedAct,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    let fresh;
    let document = match document {
        Some(retired) if retired.is_retired() && !signed.is_repeated(retired) => {
            fresh = begin(Some(retired), &signed.order.act, evidence)?;
            &fresh
        }
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
            fresh = begin(None, &signed.order.act, evidence)?;
            &fresh
        }
    };
    if signed.is_repeated(document) {
        return Ok(Decision::unchanged(answer(document, evidence)));
    }
    signed.verify(document)?;
    let mut next = document.clone();
    if next.is_retired() {
        // It begins anew: from here on it is told from one that is retired by its epoch.
        moves::raise_epoch(&mut next, evidence);
    }
    // Tried first: what makes no sense is not gathered either.
    apply(&mut next, signed, evidence)?;
    let with = match together(document, signed)? {
        Gathered::Enough(with) => with,
        Gathered::Waits(gathering, have) => return Ok(waits(document, signed, gathering, have)),
    };
    if !with.is_empty()
        && next.last_transition != document.last_transition
        && let Some(last) = &mut next.last_transition
    {
        Arc::make_mut(last).reason = format!("approved by {} operators", with.len() + 1);
    }
    if let Some(why) = &signed.order.break_glass {
        mark_broken_glass(document, &mut next, why);
    }
    let ended = document.leader.as_ref().filter(|_| next.leader.is_none());
    let outcome = (ended.map(|leader| leader.agent.clone()), next.epoch);
    next.acts += 1;
    next.gathering = quorum::after(next.gathering.take(), signed, &with);
    next.last_act = Some(Arc::new(signed.remembered(document, outcome, with, evidence.wall)));
    let answer = answer(&next, evidence);
    Ok(Decision::change(next, answer, Persistence::Durable))
}

/// Whether enough operators have signed, with this one; or one of them, for a reason that is kept.
fn together(document: &Document, signed: &SignedAct) -> Result<Gathered, Refusal> {
    let rules = &document.policy.operators;
    // The first operator of an election is nobody's colleague.
    let need = if document.operator_keys.is_empty() { 1 } else { rules.needed(&signed.order.act) };
    match &signed.order.break_glass {
        Some(why) => {
            moves::check_text("reason", why)?;
            if why.trim().is_empty() {
                return Err(Refusal::invalid("to break the glass takes a reason", "say why: --reason TEXT"));
            }
            if need > 1 && !rules.break_glass {
                return Err(Refusal::invalid(
                    format!("the policy asks for {need} operators, and does not let one act alone"),
                    "give the order without --break-glass, and others sign it: baton cosign",
                ));
            }
            Ok(Gathered::Enough(Vec::new()))
        }
        None if need > 1 => Ok(gather(document, signed, need)),
        None => Ok(Gathered::Enough(Vec::new())),
    }
}

/// The act is not carried out: more operators must sign it.
fn waits(
    document: &Document,
    signed: &SignedAct,
    gathering: Option<Vec<Gathering>>,
    have: usize,
) -> Decision {
    let need = document.policy.operators.needed(&signed.order.act);
    let answer = Answer::Signed { epoch: document.epoch, have: have as u64, need: need as u64 };
    match gathering {
        None => Decision::unchanged(answer),
        Some(gathering) => {
            let next = Document { gathering: Some(Arc::new(gathering)), ..document.clone() };
            Decision::change(next, answer, Persistence::Durable)
        }
    }
}

/// Whoever reads the history learns that one operator did this alone.
fn mark_broken_glass(before: &Document, next: &mut Document, why: &str) {
    if next.departure != before.departure
        && let Some(departure) = &mut next.departure
    {
        let departure = Arc::make_mut(departure);
        departure.reason = alone(why, &departure.reason);
    }
    if next.last_transition != before.last_transition
        && let Some(last) = &mut next.last_transition
    {
        let last = Arc::make_mut(last);
        last.reason = alone(why, &last.reason);
    }
}

/// Why one operator acted alone, before the act's own reason. The command gives one reason for both.
fn alone(why: &str, reason: &str) -> String {
    match reason.strip_prefix(why) {
        Some(rest) if rest.is_empty() || rest.starts_with("; ") => format!("break-glass ({why}){rest}"),
        _ => format!("break-glass ({why}): {reason}"),
    }
}

/// An operator may prepare an election that nobody has led, or that was retired; the other acts need one.
fn begin(retired: Option<&Document>, act: &Act, evidence: &Evidence<'_>) -> Result<Document, Refusal> {
    let fresh =
        || Document::new(evidence.election.clone(), evidence.store, evidence.floor, evidence.operator_keys);
    match act {
        Act::Appoint { .. } | Act::Pause { .. } | Act::SetPolicy { .. } => {
            Ok(retired.map_or_else(fresh, |retired| retired.emptied(evidence.operator_keys)))
        }
        Act::Depose { .. }
        | Act::Halt { .. }
        | Act::Note { .. }
        | Act::Vote { .. }
        | Act::Resume
        | Act::Approve { .. }
        | Act::Reject { .. }
        | Act::Enrol { .. }
        | Act::Dismiss { .. }
        | Act::Forget { .. } => Err(Refusal::UnknownElection { election: evidence.election.to_string() }),
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
            pause(next, signed.operator(), reason, false, evidence);
            Ok(())
        }
        Act::Halt { reason, since: _ } => {
            moves::check_text("reason", reason)?;
            if next.state == State::Paused {
                return Err(Refusal::invalid("the election is paused already", "see `baton status`"));
            }
            pause(next, signed.operator(), reason, true, evidence);
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
        Act::Note { text } => {
            moves::check_text("note", text)?;
            if text.trim().is_empty() {
                return Err(Refusal::invalid("the note is empty", "write what is to be remembered"));
            }
            Ok(())
        }
        Act::Vote { agent } => vote(next, signed.operator(), agent, evidence),
        Act::Forget { reason } => {
            moves::check_text("reason", reason)?;
            forget(next, evidence)
        }
    }
}

/// Retires the election. The epoch rises, so that every token of it is stale from here on, and every order for it.
fn forget(next: &mut Document, evidence: &Evidence<'_>) -> Result<(), Refusal> {
    let (election, remaining) = (&next.election, next.lease_remaining(evidence.age));
    // Each hint leads to the next refusal's cause, and the last one to an election that can be forgotten.
    if next.state == State::Paused {
        return Err(Refusal::out_of_turn(
            "the election is paused, and forgetting it would end the pause",
            format!("stop the agents that want to lead it; then end the pause: baton resume {election}"),
        ));
    }
    match (&next.leader, &next.outgoing) {
        (_, _) if remaining == Span::ZERO => {}
        (Some(leader), _) => {
            return Err(Refusal::out_of_turn(
                format!("{} leads, and its lease lasts {remaining}", leader.agent),
                format!(
                    "stop it and the agents that wait for it, or end its leadership: baton depose {election}"
                ),
            ));
        }
        (None, Some(last)) => {
            return Err(Refusal::out_of_turn(
                format!("nobody leads, but the lease of {} lasts {remaining} more", last.agent),
                format!(
                    "try again in {remaining}; or, if its work has surely stopped: baton depose {election} --force"
                ),
            ));
        }
        (None, None) => {}
    }
    *next = next.emptied(&next.operator_keys);
    moves::raise_epoch(next, evidence);
    moves::beat(next);
    next.forgotten = Some(next.epoch);
    Ok(())
}

fn vote(
    next: &mut Document,
    by: PublicKey,
    agent: &AgentName,
    evidence: &Evidence<'_>,
) -> Result<(), Refusal> {
    if next.policy.select != Select::Vote {
        return Err(Refusal::invalid(
            format!("the policy selects `{}`, and asks nobody to vote", next.policy.select),
            "an operator can change that: baton policy ELECTION --select vote --nomination 1m",
        ));
    }
    let leader = next.leader.as_ref().filter(|_| next.lease_remaining(evidence.age) > Span::ZERO);
    if let Some(leader) = leader {
        return Err(Refusal::invalid(
            format!("{} leads; operators vote while nobody does", leader.agent),
            "`baton depose` ends a leadership, and `baton appoint` names a successor at once",
        ));
    }
    let mut votes = next.votes.as_deref().cloned().unwrap_or_default();
    votes.retain(|vote| vote.by != by && next.operator_keys.contains(&vote.by));
    votes.push(Vote { by, agent: agent.clone(), at: evidence.wall });
    next.votes = Some(Arc::new(votes));
    Ok(())
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
    Err(Refusal::invalid(
        "nobody leads, so nobody can be deposed",
        "see `baton status`; if the lease of the last leader still runs, --force ends it",
    ))
}

fn pause(next: &mut Document, by: PublicKey, reason: &str, halted: bool, evidence: &Evidence<'_>) {
    let _ = moves::end(next, Cause::Pause, reason, false, evidence);
    next.state = State::Paused;
    next.approval = Approval::default();
    next.paused = Some(Pause { by, reason: reason.to_string(), at: evidence.wall, halted });
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
    match (&next.approval.question, checkpoint) {
        (None, _) => return Err(Refusal::invalid("nothing waits for an approval", "see `baton status`")),
        (Some(Question::Checkpoint { hash }), Some(seen)) if seen == *hash => {}
        (Some(Question::MoreTime), None) => {}
        (Some(Question::Checkpoint { .. } | Question::MoreTime), Some(_) | None) => {
            return Err(Refusal::invalid(
                "the approval answers another question than the one that waits",
                "look at it again: baton status",
            ));
        }
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
    if policy.regions {
        region::check_fleet(&next.election)?;
    }
    check_enough(&policy.operators, next.operator_keys.len())?;
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
    if !key.is_usable() {
        return Err(Refusal::invalid(
            "nobody can sign for that key",
            "copy what `baton operator key` prints",
        ));
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
    if keys.contains(&key) && keys.len() <= usize::from(next.policy.operators.quorum) {
        return Err(Refusal::invalid(
            format!(
                "the policy asks for {} operators; one fewer could not act",
                next.policy.operators.quorum
            ),
            "enrol another first, or lower the quorum",
        ));
    }
    keys.retain(|known| *known != key);
    Ok(())
}
