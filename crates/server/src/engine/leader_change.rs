//! What a write changes about who leads, for those who count it.

use baton_election::Document;
use baton_election::time::{Span, WallTime};

use super::cached_election::CachedElection;
use crate::metrics::{Ended, LeaderChange, Part};

/// What `next` changes, and whether that is a change of leader. Wall times tell how long a leadership lasted: that is for people, and
/// they also know of what was before a restart.
pub(super) fn leader_change(
    old: Option<&CachedElection>,
    next: &Document,
    transition: bool,
    wall: WallTime,
) -> Option<Box<LeaderChange>> {
    let granted = next.leader.as_ref().map(|leader| leader.granted);
    let ended = old.and_then(|old| old.compact.tenure()).filter(|(epoch, ..)| granted != Some(*epoch));
    let change = LeaderChange {
        ended: ended.map(|(_, acquired, expires)| between(acquired, wall.min(expires))),
        transition: next.last_transition.clone().filter(|_| transition),
        phases: if transition { None } else { phases(old, next) },
    };
    let something = change.ended.is_some() || change.transition.is_some() || change.phases.is_some();
    something.then(|| Box::new(change))
}

fn between(from: WallTime, to: WallTime) -> Span {
    Span::millis(to.as_unix_millis().saturating_sub(from.as_unix_millis()))
}

/// The phases of the last change of leader that are over by this.
fn phases(old: Option<&CachedElection>, next: &Document) -> Option<Ended> {
    let last = next.last_transition.as_ref()?;
    // Most documents have neither, and none is unpacked for them.
    if last.phases.promotion.is_none() && last.phases.synchronisation.is_none() {
        return None;
    }
    let before = old?.document(&next.election).last_transition?;
    let parts = [
        (Part::Promotion, before.phases.promotion, last.phases.promotion),
        (Part::Synchronisation, before.phases.synchronisation, last.phases.synchronisation),
    ];
    let over = parts.into_iter().filter_map(|(part, before, after)| match (before, after) {
        (None, Some(span)) => Some((part, span)),
        (Some(_), _) | (None, None) => None,
    });
    let over: Vec<(Part, Span)> = over.collect();
    let took = last.phases.took().unwrap_or_default();
    (!over.is_empty()).then_some(Ended { epoch: last.epoch, parts: over, took })
}
