//! A watcher's word that the leader is not useful.

use alloc::format;
use alloc::string::ToString;

use super::{Role, moves, role};
use crate::command::{Answer, Decision, Evidence, Finding, Persistence, Report};
use crate::document::{Cause, Document, Leader, State};
use crate::name::AgentName;
use crate::refusal::Refusal;
use crate::removal_rules::{self, Bars};
use crate::time::Span;

pub(super) fn decide(
    document: &Document,
    report: &Report,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    moves::check_text("detail", &report.detail)?;
    let leader = match (document.state, &document.leader) {
        (State::Held | State::AwaitingApproval, Some(leader)) if leader.epoch == report.epoch => leader,
        (State::Held | State::AwaitingApproval | State::Vacant | State::Paused, _) => {
            return Err(Refusal::Stale {
                shown: report.epoch,
                current: document.epoch,
                leader: document.leader.as_ref().map(|leader| leader.agent.clone()),
                why: "the report speaks of a leadership that is over".to_string(),
            });
        }
    };
    let itself = match &report.credential {
        None => false,
        Some(credential) => matches!(role(document, credential, report.epoch)?, Role::Leader(_)),
    };
    if report.finding == Finding::Breaker {
        // The record is believed, not who speaks of it.
        return breaker(document, leader, report, evidence);
    }
    if !itself && !document.policy.watchers.contains(&report.by) {
        return Err(Refusal::NotEligible {
            why: format!("{} is neither the leader nor one of the policy's watchers", report.by),
            retry_in: None,
        });
    }
    if report.finding == Finding::Dependency && document.policy.depends.is_empty() {
        return Err(Refusal::invalid(
            "the policy names nothing that a leader depends on",
            "an operator can name it: baton policy ELECTION --depends NAME",
        ));
    }
    if let (Some(bad), true) = (report.finding.verdict(), document.policy.performance.is_some()) {
        let judge = if itself { &leader.agent } else { &report.by };
        return verdict(document, leader, (judge, bad), report, evidence);
    }
    match report.finding.cause() {
        Some(cause) => Ok(end(document, document.clone(), cause, report, evidence)),
        // A report that finds nothing against the leader changes nothing.
        None => Ok(Decision::unchanged(nothing_ended(document))),
    }
}

/// Ends the leadership if an open breaker does.
fn breaker(
    document: &Document,
    leader: &Leader,
    report: &Report,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    if document.policy.breakers.as_ref().is_none_or(|breakers| breakers.bars != Bars::Leadership) {
        return Err(Refusal::invalid(
            "the policy ends no leadership for an open circuit breaker",
            "an operator can say so: baton policy ELECTION --breaker 3/5m --breaker-bars leadership",
        ));
    }
    let Some(open) = &report.open else {
        return Err(Refusal::invalid(
            format!("the circuit breakers of {} were not looked at", leader.agent),
            "send the report to the store or the server that decides on the election",
        ));
    };
    match removal_rules::broken(document, leader, evidence.age, open) {
        Some(open) => Ok(end_for(document, document.clone(), Cause::Breaker, &open.to_string(), evidence)),
        None => Ok(Decision::unchanged(nothing_ended(document))),
    }
}

/// Counts a verdict, and ends the leadership if that is one bad one too many.
fn verdict(
    document: &Document,
    leader: &Leader,
    (judge, bad): (&AgentName, bool),
    report: &Report,
    evidence: &Evidence<'_>,
) -> Result<Decision, Refusal> {
    if let Some(seq) = report.checkpoint {
        if document.checkpoint.as_ref().is_none_or(|left| seq > left.seq) {
            return Err(Refusal::invalid(
                format!("there is no checkpoint {seq} to judge"),
                "look at the election again: baton status",
            ));
        }
        if leader.verdicts.is_judged(judge, seq) {
            return Ok(Decision::unchanged(nothing_ended(document)));
        }
    }
    let given = leader.verdicts.given_by(judge);
    let due = given.saturating_add(1);
    match report.number {
        Some(number) if number == given && given > 0 => {
            return Ok(Decision::unchanged(nothing_ended(document)));
        }
        Some(number) if number != due => {
            return Err(Refusal::invalid(
                format!("verdict {due} of {judge} is due, not {number}"),
                "look at the election again, and number it one above those that this judge gave",
            ));
        }
        Some(_) | None => {}
    }
    let mut next = document.clone();
    let mut verdicts = leader.verdicts.clone().and(judge, bad);
    // A policy names only so many watchers, but others at other times.
    let may_judge = |judge: &AgentName| *judge == leader.agent || document.policy.watchers.contains(judge);
    verdicts.judged.extend(report.checkpoint.map(|seq| (judge.clone(), seq)));
    verdicts.by.retain(|judge, _| may_judge(judge));
    verdicts.judged.retain(|judge, _| may_judge(judge));
    if let Some(leader) = &mut next.leader {
        leader.verdicts = verdicts;
    }
    let judged =
        next.leader.as_ref().is_some_and(|leader| removal_rules::judged(&next, leader, evidence.age));
    if bad && judged {
        return Ok(end(document, next, Cause::Validation, report, evidence));
    }
    let answer = nothing_ended(&next);
    Ok(Decision::change(next, answer, Persistence::Synced))
}

fn end(
    before: &Document,
    next: Document,
    cause: Cause,
    report: &Report,
    evidence: &Evidence<'_>,
) -> Decision {
    let reason = match report.detail.as_str() {
        "" => format!("{} reports it", report.by),
        detail => format!("{} reports: {detail}", report.by),
    };
    end_for(before, next, cause, &reason, evidence)
}

fn end_for(
    before: &Document,
    mut next: Document,
    cause: Cause,
    reason: &str,
    evidence: &Evidence<'_>,
) -> Decision {
    let ended = next.leader.as_ref().map(|leader| leader.agent.clone());
    let waits = moves::end(&mut next, cause, reason, false, evidence);
    let answer = Answer::Done { epoch: next.epoch, ended, waits };
    let persistence = moves::persistence(before, &next);
    Decision::change(next, answer, persistence)
}

fn nothing_ended(document: &Document) -> Answer {
    Answer::Done { epoch: document.epoch, ended: None, waits: Span::ZERO }
}
