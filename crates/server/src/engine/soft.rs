//! Which changes of a document may be forgotten by a crash.
//!
//! A renewal changes only how long the lease lasts and how often it was renewed, and a restart gives every lease its full length
//! anyway. One that claims an offer is no different, since an offer is written as a lease (`offers.rs`). Everything else is durable before it is answered: also a renewal that counts what a limit or an approval is
//! measured by.

use baton_election::document::{Document, Leader};
use baton_election::policy::{ApprovalMode, Limits};

/// Whether `next` may stand in memory alone, if `old` is durable or may itself stand in memory alone.
pub(super) fn is_soft(old: &Document, next: &Document) -> bool {
    old.leader.as_ref().is_some_and(|leader| !counts(old, leader)) && only_renews(old, next)
}

/// Whether `next` is `old` after renewals, and nothing else.
pub(super) fn only_renews(old: &Document, next: &Document) -> bool {
    let (Some(before), Some(after)) = (&old.leader, &next.leader) else { return old == next };
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
    expected.approval.question == old.approval.question && expected == *next
}

/// Whether time or tokens are counted against something.
fn counts(document: &Document, leader: &Leader) -> bool {
    document.policy.approval != ApprovalMode::None
        || document.policy.limits != Limits::default()
        || leader.limits != Limits::default()
}

#[cfg(test)]
mod tests {
    use baton_election::command::{Acquire, Renew};
    use baton_election::time::{Span, WallTime};
    use baton_election::{
        AgentName, Command, Credential, ElectionName, Epoch, Evidence, Incarnation, LeaseKey, StoreId, decide,
    };

    use super::*;

    const CREDENTIAL: Credential = Credential { incarnation: Incarnation([1; 8]), key: LeaseKey([2; 16]) };

    fn after(document: Option<&Document>, command: &Command) -> Document {
        let election = ElectionName::new("e").unwrap();
        let evidence = Evidence {
            election: &election,
            store: StoreId([1; 8]),
            age: Span::secs(1),
            wall: WallTime::from_unix_millis(1_700_000_000_000),
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &[],
        };
        decide(document, command, &evidence).unwrap().next.unwrap()
    }

    fn led(limits: Limits, offer: bool) -> Document {
        after(
            None,
            &Command::Acquire(Acquire {
                agent: AgentName::new("a").unwrap(),
                incarnation: CREDENTIAL.incarnation,
                key_hash: CREDENTIAL.key.hash(),
                ttl: None,
                task: None,
                capabilities: std::collections::BTreeSet::new(),
                limits,
                reason: None,
                noticed: None,
                offer,
                contact: None,
                region: None,
                failing: Default::default(),
                waited: None,
                seen: None,
                open: None,
                through: None,
            }),
        )
    }

    fn renewal() -> Renew {
        Renew::new(Epoch(1), CREDENTIAL)
    }

    #[test]
    fn a_plain_renewal_is_soft() {
        for offer in [false, true] {
            let document = led(Limits::default(), offer);
            let next = after(Some(&document), &Command::Renew(renewal()));
            assert_ne!(document, next);
            assert!(is_soft(&document, &next));
            assert!(!is_soft(&next, &document) || !offer, "what was claimed is not offered again");
        }
    }

    #[test]
    fn what_is_counted_or_told_is_not() {
        for offer in [false, true] {
            let counted = led(Limits { renewals: Some(9), ..Limits::default() }, offer);
            assert!(!is_soft(&counted, &after(Some(&counted), &Command::Renew(renewal()))));
        }
        let plain = led(Limits::default(), false);
        let spent = Renew { spent_tokens: Some(5), ..renewal() };
        assert!(!is_soft(&plain, &after(Some(&plain), &Command::Renew(spent))));
    }

    #[test]
    fn a_grant_is_not() {
        let mut vacant = led(Limits::default(), false);
        let led = vacant.clone();
        vacant.leader = None;
        assert!(!is_soft(&vacant, &led) && !is_soft(&led, &vacant));
    }
}
