//! A watcher's word that the leader is not useful.

use alloc::format;
use alloc::string::ToString;

use super::{Role, moves, role};
use crate::command::{Answer, Decision, Evidence, Report};
use crate::document::{Document, State};
use crate::refusal::Refusal;

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
    if !itself && !document.policy.watchers.contains(&report.by) {
        return Err(Refusal::NotEligible {
            why: format!("{} is neither the leader nor one of the policy's watchers", report.by),
            retry_in: None,
        });
    }
    let ended = Some(leader.agent.clone());
    let mut next = document.clone();
    let reason = format!("{} reports: {}", report.by, report.detail);
    let waits = moves::end(&mut next, report.finding.cause(), &reason, false, evidence);
    let answer = Answer::Done { epoch: next.epoch, ended, waits };
    Ok(Decision { next: Some(next), answer })
}
