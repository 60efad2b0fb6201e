//! What only the holder of a lease may do: renew, release, pass, checkpoint, acknowledge.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use serde_json::Value;

use super::{Role, moves, role};
use crate::command::{
    Acknowledge, Answer, Decision, Ending, Evidence, MAX_CHECKPOINT_BYTES, MAX_CHECKPOINT_DEPTH, Pass,
    Persistence, Release, Renew, WriteCheckpoint,
};
use crate::document::{
    Approval, Cause, Checkpoint, Departure, Document, Leader, Phase, Question, Reservation, State, Transition,
};
use crate::handover::HandoverRule;
use crate::id::Epoch;
use crate::manifest::Coverage;
use crate::name::AgentName;
use crate::policy::ApprovalMode;
use crate::quorum;
use crate::refusal::Refusal;
use crate::region::{self, Flaw, Region};
use crate::time::Span;

pub(super) fn renew(
    document: &Document,
    renew: &Renew,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    match role(document, &renew.credential, renew.epoch)? {
        Role::Outgoing(_) => Err(ended(document, renew.epoch)),
        Role::Leader(leader) => {
            running(document, leader, renew.epoch, evidence)?;
            let region = region_of(document, leader, renew)?;
            let mut next = document.clone();
            let region = match region {
                Under::Leads(region) => region,
                // The clock goes on: who follows waits for the rest of the lease, and no longer.
                Under::Lost(why) => {
                    let (cause, reason) = (Cause::Region, format!("it lost its region: {why}"));
                    let _ = moves::end(&mut next, cause, &reason, false, evidence);
                    return Ok(ended_by(document, next, cause, reason));
                }
            };
            count(&mut next, evidence, renew.progress, renew.spent_tokens);
            if let Some(leader) = &mut next.leader {
                leader.region = region;
            }
            if let Some((cause, reason)) = exhausted(&next) {
                let _ = moves::end(&mut next, cause, &reason, false, evidence);
                return Ok(ended_by(document, next, cause, reason));
            }
            enter(&mut next, renew.phase);
            if let (Some(promotion), Some(last)) = (renew.promotion, grants_entry(&mut next)) {
                last.phases.promotion = Some(promotion.whole_millis());
            }
            let persistence = match moves::persistence(document, &next) {
                Persistence::Synced if !document.is_counted() && !tells(document, &next) => {
                    Persistence::Volatile
                }
                persistence => persistence,
            };
            let answer = renewed(&next);
            Ok(Decision::change(next, answer, persistence))
        }
    }
}

/// The answer to a holder whose leadership this ends.
fn ended_by(before: &Document, next: Document, cause: Cause, reason: String) -> Decision {
    let persistence = moves::persistence(before, &next);
    Decision::change(next, Answer::Ended { cause, reason }, persistence)
}

/// Whether a renewal tells anything beside that its holder lives: another state of its region, more tokens, another phase, how
/// long its promotion took.
fn tells(before: &Document, next: &Document) -> bool {
    fn told(document: &Document) -> Option<(Option<&Region>, u64, Phase)> {
        let leader = document.leader.as_ref()?;
        Some((leader.region.as_deref(), leader.spent_tokens, leader.phase))
    }
    told(before) != told(next) || before.last_transition != next.last_transition
}

/// The entry of the change of leader by which this one began: an approval begins a new epoch, and has an entry of its own.
fn grants_entry(next: &mut Document) -> Option<&mut Transition> {
    let granted = next.leader.as_ref()?.granted;
    next.last_transition.as_mut().filter(|last| last.epoch == granted).map(Arc::make_mut)
}

/// The leader says how far it is. That it serves counts only once it has taken on what was left.
fn enter(next: &mut Document, phase: Option<Phase>) {
    let unread = next.leader.as_ref().is_some_and(|leader| next.is_unread_by(leader));
    if let (Some(leader), Some(phase)) = (&mut next.leader, phase) {
        leader.phase = if phase == Phase::Serving && unread { Phase::Synchronising } else { phase };
    }
}

/// How the region of a leader stands.
enum Under {
    /// It leads that one, or needs none.
    Leads(Option<Arc<Region>>),
    /// It does not lead it any more; why.
    Lost(String),
}

/// The region from which this leader goes on.
fn region_of(document: &Document, leader: &Leader, renew: &Renew) -> Result<Under, Refusal> {
    let Some(from) = &leader.region else { return Ok(Under::Leads(None)) };
    let shown = renew.region.as_ref().filter(|proof| proof.election == from.election);
    let Some(proof) = shown else {
        return Err(Refusal::invalid(
            format!(
                "{} leads `{}` from `{}`, and does not show that it leads that",
                leader.agent, document.election, from.election
            ),
            "renew with the region's lease at hand: under its `baton run`, or by the user that acquired it",
        ));
    };
    match region::check(&document.election, &leader.agent, proof) {
        Ok(region) if region.store != from.store => {
            Ok(Under::Lost(format!("`{}` is in another store", from.election)))
        }
        Ok(region) if region == **from => Ok(Under::Leads(Some(Arc::clone(from)))),
        Ok(region) => Ok(Under::Leads(Some(Arc::new(region)))),
        Err(Flaw::Over(why)) => Ok(Under::Lost(why)),
        Err(Flaw::Refused(refusal)) => Err(refusal),
    }
}

/// Adds up what this renewal shows: time, renewals, progress, tokens, approval. Restarts the clock.
fn count(next: &mut Document, evidence: &Evidence<'_>, progress: bool, spent_tokens: Option<u64>) {
    let awaiting = next.state == State::AwaitingApproval;
    let approval_ttl = next.policy.approval_ttl;
    let runs_out = next.approval_runs_out();
    let Some(leader) = &mut next.leader else { return };
    leader.renewals += 1;
    leader.offered = false;
    leader.held = leader.held.plus(evidence.age);
    leader.idle = if progress || awaiting { Span::ZERO } else { leader.idle.plus(evidence.age) };
    leader.spent_tokens = leader.spent_tokens.max(spent_tokens.unwrap_or(0));
    leader.expires = evidence.wall + leader.ttl;
    moves::beat(next);
    if runs_out {
        next.approval.used = next.approval.used.plus(evidence.age);
        if next.approval.used >= approval_ttl.scaled(1, 2) {
            next.approval.question = Some(Question::MoreTime);
        }
        if next.approval.used >= approval_ttl {
            next.state = State::AwaitingApproval;
        }
    }
}

/// What the leader writes is a sign of life and of progress. It lengthens no lease under a region, which only a renewal shows: the next one
/// counts the time.
fn wrote(next: &mut Document, evidence: &Evidence<'_>) {
    match &mut next.leader {
        Some(leader) if leader.region.is_some() => leader.idle = Span::ZERO,
        Some(_) | None => count(next, evidence, true, None),
    }
}

/// The first limit that the leader has reached, if any.
fn exhausted(document: &Document) -> Option<(Cause, String)> {
    let leader = document.leader.as_ref()?;
    let limits = &leader.limits;
    if let Some(limit) = limits.time.filter(|limit| leader.held >= *limit) {
        return Some((Cause::Budget, format!("led for {}; the budget was {limit}", leader.held)));
    }
    if let Some(limit) = limits.tokens.filter(|limit| leader.spent_tokens >= *limit) {
        return Some((Cause::Budget, format!("used {} tokens; the budget was {limit}", leader.spent_tokens)));
    }
    if let Some(limit) = limits.renewals.filter(|limit| leader.renewals > *limit) {
        return Some((Cause::Budget, format!("renewed {limit} times; that was the budget")));
    }
    if let Some(limit) = limits.stall.filter(|limit| leader.idle >= *limit) {
        return Some((Cause::Stall, format!("no progress for {}; the limit was {limit}", leader.idle)));
    }
    None
}

fn renewed(next: &Document) -> Answer {
    Answer::Renewed {
        epoch: next.epoch,
        awaiting_approval: next.state == State::AwaitingApproval,
        approval_wanted: next.approval.question.is_some(),
    }
}

/// Refuses a holder whose lease has run out: it cannot know who was let in meanwhile.
pub(super) fn running(
    document: &Document,
    leader: &Leader,
    shown: Epoch,
    evidence: &Evidence<'_>,
) -> Result<(), Refusal> {
    if evidence.age < leader.lease() {
        return Ok(());
    }
    Err(Refusal::Stale {
        shown,
        current: document.epoch,
        leader: None,
        why: format!("the lease ran out {} ago", evidence.age.minus(leader.lease())),
    })
}

pub(super) fn ended(document: &Document, shown: Epoch) -> Refusal {
    let why = match &document.departure {
        Some(departure) if departure.reason.is_empty() => {
            format!("this leadership ended ({})", departure.cause)
        }
        Some(departure) => format!("this leadership ended ({}): {}", departure.cause, departure.reason),
        None => "this leadership ended".to_string(),
    };
    Refusal::Stale { shown, current: document.epoch, leader: None, why }
}

pub(super) fn release(
    document: &Document,
    release: &Release,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    let reason = release.reason.as_deref().unwrap_or_default();
    let cause = match release.ending {
        Ending::Stopped => Cause::Release,
        Ending::Finished => Cause::Finished,
        Ending::Orphaned => Cause::Failover,
    };
    leave(document, release.epoch, &release.credential, cause, reason, None, evidence)
}

pub(super) fn pass(document: &Document, pass: &Pass, evidence: &Evidence<'_>) -> Result<Decision, Refusal> {
    let reason = pass.reason.as_deref().unwrap_or_default();
    leave(document, pass.epoch, &pass.credential, Cause::Pass, reason, Some(&pass.to), evidence)
}

/// Gives the lease back; the work has stopped. Repeated, it is answered as the first time.
fn leave(
    document: &Document,
    epoch: Epoch,
    credential: &crate::id::Credential,
    cause: Cause,
    reason: &str,
    to: Option<&AgentName>,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    moves::check_text("reason", reason)?;
    let done = |document: &Document| Answer::Released {
        reserved_for: document.reserved_for.as_ref().map(|kept| kept.agent.clone()),
    };
    let gone = document.lease_holder().is_none()
        && document
            .departure
            .as_ref()
            .is_some_and(|departure| departure.incarnation == credential.incarnation);
    if gone {
        return Ok(Decision::unchanged(done(document)));
    }
    let role = role(document, credential, epoch)?;
    let mut next = document.clone();
    match role {
        // The vacancy began when the lease ended; a late word of it must not begin it again.
        Role::Outgoing(leader) if evidence.age >= leader.lease() => {
            return Ok(Decision::unchanged(done(document)));
        }
        Role::Outgoing(_) => next.outgoing = None,
        Role::Leader(leader) => {
            next.departure = Some(Arc::new(Departure {
                cause,
                agent: leader.agent.clone(),
                incarnation: leader.incarnation,
                epoch: leader.epoch,
                reason: reason.to_string(),
                at: evidence.wall,
            }));
            next.reserved_for = to.map(|agent| Reservation {
                agent: agent.clone(),
                lasts: Some(leader.ttl),
                by_operator: false,
            });
            next.leader = None;
            // Whether this leader may have more time is moot once it has left; what it checkpointed is not.
            let moot = next.approval.question == Some(Question::MoreTime);
            if next.state == State::Held || next.state == State::AwaitingApproval && moot {
                next.state = State::Vacant;
                next.approval = Approval::default();
            }
        }
    }
    moves::beat(&mut next);
    let answer = done(&next);
    Ok(Decision::change(next, answer, Persistence::Synced))
}

pub(super) fn checkpoint(
    document: &Document,
    write: &WriteCheckpoint,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    let (leader, leads) = match role(document, &write.credential, write.epoch)? {
        Role::Leader(leader) => (leader, true),
        Role::Outgoing(leader) => (leader, false),
    };
    running(document, leader, write.epoch, evidence)?;
    if document.policy.handover == HandoverRule::Acknowledge && document.is_unread_by(leader) {
        return Err(Refusal::out_of_turn(
            "what the predecessor left would be overwritten before it was taken on",
            format!("acknowledge it first: baton handover {}", document.election),
        ));
    }
    let state = check_checkpoint(write)?;
    let hash =
        moves::checkpoint_hash(&write.summary, &state, write.reference.as_ref(), write.covers.as_ref());
    let last = document.checkpoint.as_ref();
    if let Some(last) = last.filter(|last| last.seq == write.seq && last.hash == hash) {
        let awaiting_approval = document.state == State::AwaitingApproval;
        return Ok(Decision::unchanged(Answer::Checkpointed { seq: last.seq, hash, awaiting_approval }));
    }
    let due = last.map_or(1, |last| last.seq + 1);
    if write.seq > due {
        return Err(Refusal::invalid(
            format!("checkpoint {due} is due, not {}", write.seq),
            "number it one above the last one; `baton status` shows that",
        ));
    }
    if write.seq < due {
        return Err(Refusal::Stale {
            shown: write.epoch,
            current: document.epoch,
            leader: Some(leader.agent.clone()),
            why: format!("checkpoint {} is due, not {}", due, write.seq),
        });
    }
    let mut next = document.clone();
    next.checkpoint = Some(Arc::new(Checkpoint {
        epoch: leader.epoch,
        seq: write.seq,
        by: leader.agent.clone(),
        at: evidence.wall,
        summary: write.summary.clone(),
        state,
        reference: write.reference.clone(),
        covers: write.covers.clone(),
        hash,
        acknowledged_by: None,
    }));
    if leads {
        wrote(&mut next, evidence);
        if let Some(leader) = next.leader.as_mut().filter(|leader| leader.phase == Phase::Synchronising) {
            // What stands there is its own: nothing of a predecessor is left to be acknowledged.
            leader.phase = Phase::Serving;
        }
        if let Some((cause, reason)) = exhausted(&next) {
            let _ = moves::end(&mut next, cause, &reason, false, evidence);
        } else if next.policy.approval == ApprovalMode::Checkpoints {
            next.state = State::AwaitingApproval;
            next.approval.question = Some(Question::Checkpoint { hash });
            next.gathering = quorum::under_another_question(next.gathering.take());
        }
    }
    let awaiting_approval = next.state == State::AwaitingApproval;
    let answer = Answer::Checkpointed { seq: write.seq, hash, awaiting_approval };
    Ok(Decision::change(next, answer, Persistence::Durable))
}

/// Refuses what cannot be kept. Returns the state in the form in which it is written and read, so that its hash stays true.
fn check_checkpoint(write: &WriteCheckpoint) -> Result<String, Refusal> {
    moves::check_text("summary", &write.summary)?;
    if let Some(reference) = &write.reference {
        moves::check_text("location", &reference.location)?;
    }
    if let Some(covers) = &write.covers {
        covers.check()?;
    }
    let covered = write.covers.as_ref().map_or(0, Coverage::inline_bytes);
    check_size(write.state.len().saturating_add(covered))?;
    let refused = |why: &dyn core::fmt::Display| {
        Refusal::invalid(
            format!("the checkpoint's state is not JSON: {why}"),
            "quote plain text as a JSON string, or put it into the summary",
        )
    };
    let value: Value = serde_json::from_str(&write.state).map_err(|error| refused(&error))?;
    if depth(&value) > MAX_CHECKPOINT_DEPTH {
        return Err(refused(&format!("it is nested more than {MAX_CHECKPOINT_DEPTH} deep")));
    }
    let text = value.to_string();
    check_size(text.len().saturating_add(covered))?;
    let again = serde_json::from_str::<Value>(&text).map(|again| again.to_string());
    if again.is_ok_and(|again| again == text) {
        Ok(text)
    } else {
        Err(refused(&"it has a number that cannot be kept; quote it"))
    }
}

fn check_size(bytes: usize) -> Result<(), Refusal> {
    if bytes <= MAX_CHECKPOINT_BYTES {
        return Ok(());
    }
    Err(Refusal::invalid(
        format!(
            "the checkpoint's state is {bytes} bytes long; at most {MAX_CHECKPOINT_BYTES} fit into the document"
        ),
        "put it into a file and give its location and hash: --reference PATH",
    ))
}

/// How deeply a state is nested. The parser's own limit bounds the recursion.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

pub(super) fn acknowledge(
    document: &Document,
    ack: &Acknowledge,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    let leader = match role(document, &ack.credential, ack.epoch)? {
        Role::Outgoing(_) => return Err(ended(document, ack.epoch)),
        Role::Leader(leader) => leader,
    };
    running(document, leader, ack.epoch, evidence)?;
    let Some(checkpoint) = document.checkpoint.as_ref().filter(|checkpoint| checkpoint.hash == ack.hash)
    else {
        return Err(Refusal::invalid(
            "that is not the checkpoint that was left",
            "read it again: baton handover",
        ));
    };
    let answer = Answer::Acknowledged { seq: checkpoint.seq };
    if checkpoint.acknowledged_by.is_some() {
        return Ok(Decision::unchanged(answer));
    }
    let mut next = document.clone();
    wrote(&mut next, evidence);
    let since_grant = leader.held.plus(evidence.age);
    if let Some(checkpoint) = &mut next.checkpoint {
        Arc::make_mut(checkpoint).acknowledged_by = Some(leader.agent.clone());
    }
    // What it left itself was no part of the change of leader.
    if document.is_unread_by(leader)
        && let Some(last) = grants_entry(&mut next)
    {
        last.phases.synchronisation = Some(since_grant);
    }
    if let Some(leader) = next.leader.as_mut().filter(|leader| leader.phase == Phase::Synchronising) {
        leader.phase = Phase::Serving;
    }
    if let Some((cause, reason)) = exhausted(&next) {
        let _ = moves::end(&mut next, cause, &reason, false, evidence);
    }
    let persistence = moves::persistence(document, &next);
    Ok(Decision::change(next, answer, persistence))
}
