//! What a crash may take back, judged by what has changed: the oracle of `Decision::persistence`.

use baton_election::document::{Document, Leader, State};
use baton_election::policy::{ApprovalMode, Limits};
use baton_election::{Decision, Persistence};

/// Says what is wrong if a decision asks for more or less than its change needs.
pub(crate) fn check(before: Option<&Document>, decision: &Decision) -> Result<(), String> {
    let needed = match &decision.next {
        None => Persistence::Volatile,
        Some(next) if must_survive(before, next) => Persistence::Durable,
        Some(next) if before.is_some_and(|before| is_plain_renewal(before, next)) => Persistence::Volatile,
        Some(_) => Persistence::Synced,
    };
    if decision.persistence == needed {
        return Ok(());
    }
    Err(format!("the change must be {needed:?}, and is {:?}: {decision:?}", decision.persistence))
}

/// Whether a power cut must not undo this change. A reboot ends all leases anyway, so that a renewal or a release need not
/// survive it; checkpoints and operators' orders must.
fn must_survive(before: Option<&Document>, next: &Document) -> bool {
    // The same words may be left twice.
    let left =
        |document: &Document| document.checkpoint.as_ref().map(|left| (left.epoch, left.seq, left.hash));
    before.is_none_or(|old| {
        old.acts != next.acts
            || old.gathering != next.gathering
            || old.state != next.state && next.state == State::AwaitingApproval
            || left(old) != left(next)
    })
}

/// Whether `next` is `old` after a renewal that nothing counts, and nothing else. These are all the fields that a volatile change may change.
fn is_plain_renewal(old: &Document, next: &Document) -> bool {
    let (Some(before), Some(after)) = (&old.leader, &next.leader) else { return false };
    let counts = old.policy.approval != ApprovalMode::None
        || old.policy.limits != Limits::default()
        || before.limits != Limits::default();
    let renewed = Leader {
        renewals: after.renewals,
        expires: after.expires,
        held: after.held,
        idle: after.idle,
        offered: false,
        ..before.clone()
    };
    let expected =
        Document { beat: next.beat, approval: next.approval.clone(), leader: Some(renewed), ..old.clone() };
    !counts && expected.approval.question == old.approval.question && expected == *next
}
