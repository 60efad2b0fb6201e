//! The few moves that every decision is made of: grant, end, restart the clock.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;

use crate::command::{Acquire, Evidence, MAX_TEXT_BYTES, Persistence};
use crate::document::{
    Approval, Cause, Departure, Document, Leader, Phase, PhaseTimes, Reference, State, Transition,
};
use crate::id::ContentHash;
use crate::lease::MIN_TTL;
use crate::manifest::Coverage;
use crate::policy::{ApprovalMode, Limits, Policy};
use crate::quorum;
use crate::refusal::Refusal;
use crate::removal_rules::Verdicts;
use crate::time::Span;

/// Restarts the document's clock: a grant, a renewal, the beginning of a vacancy.
pub(super) fn beat(document: &mut Document) {
    document.beat += 1;
}

/// How durable a change must be that no operator ordered and that leaves no checkpoint. A power cut must not bring back
/// operators' signatures that it dropped, nor take back a question that stops the leader.
pub(super) fn persistence(before: &Document, next: &Document) -> Persistence {
    let asks = before.state != next.state && next.state == State::AwaitingApproval;
    if asks || before.gathering != next.gathering { Persistence::Durable } else { Persistence::Synced }
}

/// Restarts the clock of a vacancy, so that reservations count from here, unless a lease may still be running.
pub(super) fn begin_vacancy(document: &mut Document, evidence: &Evidence<'_>) {
    if document.lease_remaining(evidence.age) == Span::ZERO {
        document.outgoing = None;
        beat(document);
    }
}

/// Refuses text that is too long.
pub(super) fn check_text(what: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Refusal::invalid(
            format!("the {what} is {} bytes long; at most {MAX_TEXT_BYTES} are allowed", text.len()),
            "say it shorter",
        ));
    }
    Ok(())
}

/// Begins a new epoch, above all that were ever given.
pub(super) fn raise_epoch(document: &mut Document, evidence: &Evidence<'_>) {
    document.epoch = document.epoch.max(evidence.floor).next();
    document.gathering = quorum::in_a_new_epoch(document.gathering.take());
}

/// Makes `acquire`'s agent the leader, in a new epoch. The caller has made sure that no lease is running.
pub(super) fn grant(document: &mut Document, acquire: &Acquire, evidence: &Evidence<'_>) -> Cause {
    let (cause, from, ended_because) = match (&document.departure, &document.leader) {
        (Some(departure), _) => (departure.cause, Some(departure.agent.clone()), departure.reason.clone()),
        (None, Some(leader)) => {
            (Cause::Failover, Some(leader.agent.clone()), "the lease ran out".to_string())
        }
        (None, None) => (Cause::First, None, String::new()),
    };
    let noticed = acquire.noticed.map(Span::whole_millis);
    // Nobody was missed before the first, nor after the work was done.
    let missed = !matches!(cause, Cause::First | Cause::Finished);
    let free_for = missed.then(|| document.vacancy(evidence.age));
    let kept = document.reserved_for.as_ref().is_some_and(|kept| kept.agent == acquire.agent);
    let usual = if kept { "it was kept for this agent" } else { "first to ask" };
    let chosen = acquire.reason.clone().unwrap_or_else(|| usual.to_string());
    let reason = if ended_because.is_empty() { chosen } else { format!("{ended_because}; {chosen}") };
    raise_epoch(document, evidence);
    let must_synchronise = document.checkpoint.is_some();
    if let Some(checkpoint) = &mut document.checkpoint {
        Arc::make_mut(checkpoint).acknowledged_by = None;
    }
    let limits = document.policy.limits.tightened(&acquire.limits);
    let ttl = within_limits(acquire.ttl.unwrap_or(document.policy.ttl), &limits, &document.policy);
    document.leader = Some(Leader {
        agent: acquire.agent.clone(),
        incarnation: acquire.incarnation,
        key_hash: acquire.key_hash,
        epoch: document.epoch,
        granted: document.epoch,
        ttl,
        renewals: 0,
        offered: acquire.offer,
        contact: acquire.contact.as_deref().map(Arc::from),
        region: None,
        through: acquire.through,
        phase: if must_synchronise { Phase::Synchronising } else { Phase::Serving },
        limits,
        held: Span::ZERO,
        idle: Span::ZERO,
        spent_tokens: 0,
        verdicts: Verdicts::default(),
        acquired: evidence.wall,
        expires: evidence.wall + ttl,
    });
    document.last_transition = Some(Arc::new(Transition {
        epoch: document.epoch,
        cause,
        from,
        to: acquire.agent.clone(),
        reason,
        at: evidence.wall,
        phases: PhaseTimes {
            detection: free_for.map(|free| free.minus(noticed.unwrap_or(Span::ZERO))),
            election: noticed,
            ..PhaseTimes::default()
        },
    }));
    if let Some(task) = &acquire.task {
        document.task = Some(Arc::from(task.as_str()));
    }
    document.gathering = quorum::under(document.gathering.take(), &acquire.agent);
    document.state = State::Held;
    document.outgoing = None;
    document.reserved_for = None;
    document.passed_over = None;
    document.departure = None;
    document.votes = None;
    document.approval = Approval::default();
    beat(document);
    cause
}

/// What is left of a lease that was asked for by the limits of time, which count at renewals: who never renews keeps them too.
///
/// It stays the same for the whole leadership: a lease that shrank would have to be heard of by its holder before anybody else.
fn within_limits(ttl: Span, limits: &Limits, policy: &Policy) -> Span {
    let approval = (policy.approval == ApprovalMode::Time).then_some(policy.approval_ttl);
    let limit = limits.time.into_iter().chain(approval).min();
    limit.map_or(ttl, |limit| ttl.min(limit.max(MIN_TTL)))
}

/// Ends the leadership from outside: the epoch rises at once, the lease is left to run out or to be released.
///
/// Returns the longest that the lease can still last; zero with `force`.
pub(super) fn end(
    document: &mut Document,
    cause: Cause,
    reason: &str,
    force: bool,
    evidence: &Evidence<'_>,
) -> Span {
    let Some(leader) = document.leader.take() else { return Span::ZERO };
    raise_epoch(document, evidence);
    document.state = State::Vacant;
    document.approval = Approval::default();
    document.departure = Some(Arc::new(Departure {
        cause,
        agent: leader.agent.clone(),
        incarnation: leader.incarnation,
        epoch: leader.epoch,
        reason: reason.to_string(),
        at: evidence.wall,
    }));
    document.passed_over = match cause {
        Cause::Depose
        | Cause::Budget
        | Cause::Stall
        | Cause::Validation
        | Cause::Dependency
        | Cause::Breaker
        | Cause::Approval => Some(leader.agent.clone()),
        Cause::First
        | Cause::Release
        | Cause::Finished
        | Cause::Pass
        | Cause::Failover
        | Cause::Appoint
        | Cause::Pause
        | Cause::Region => None,
    };
    let waits = leader.lease().minus(evidence.age);
    if force || waits == Span::ZERO {
        beat(document);
        return Span::ZERO;
    }
    document.outgoing = Some(leader);
    waits
}

/// What a checkpoint's hash covers. Without a manifest it is what it was before there were any.
pub fn checkpoint_hash(
    summary: &str,
    state: &str,
    reference: Option<&Reference>,
    covers: Option<&Coverage>,
) -> ContentHash {
    let reference = reference.map_or(String::new(), |r| format!("{}\n{}", r.location, r.sha256));
    let text = format!(
        "baton checkpoint 1\n{}\n{summary}\n{}\n{state}\n{}\n{reference}",
        summary.len(),
        state.len(),
        reference.len()
    );
    let covers = covers.map_or(String::new(), |covers| {
        let place = covers.location.as_deref().unwrap_or_default();
        format!("\n{}\n{}\n{}\n{place}", covers.sha256, covers.paths, covers.bytes)
    });
    ContentHash::of((text + &covers).as_bytes())
}
