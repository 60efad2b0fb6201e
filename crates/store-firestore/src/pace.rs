//! How close together renewals may come: Firestore bears about one write a second to a document.

use baton_election::document::{Document, Phase};
use baton_election::time::Moment;
use baton_election::{Candidate, Fence, Incarnation, Span};
use baton_store::Record;

/// The least time between two writes to a document.
const APART: Span = Span::secs(1);
/// The shortest lease whose renewals, at a third of it, are that far apart.
pub(crate) const SHORTEST_LEASE: Span = Span::secs(3);

/// The lease that a record asks for, if it does.
pub(crate) fn lease(record: &Record) -> Option<Span> {
    match record {
        Record::Election(document) => document.leader.as_ref().map(|leader| leader.ttl),
        Record::Candidate(candidate) => {
            let Candidate { ttl, .. } = &**candidate;
            Some(*ttl)
        }
        Record::Fence(fence) => {
            let Fence { hold, .. } = &**fence;
            hold.as_ref().map(|hold| hold.ttl)
        }
        Record::Store(_)
        | Record::Tokens(_)
        | Record::History(_)
        | Record::FenceLog(_)
        | Record::Audit(_)
        | Record::Item(_) => None,
    }
}

/// What of an election tells a renewal from everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    holder: Option<Incarnation>,
    epoch: u64,
    beat: u64,
    /// The renewals so far, and how far the leader is.
    progress: Option<(u64, Phase)>,
}

impl Beat {
    /// The beat of a document.
    pub(crate) fn of(document: &Document) -> Beat {
        let leader = document.leader.as_ref();
        Beat {
            holder: leader.map(|leader| leader.incarnation),
            epoch: document.epoch.0,
            beat: document.beat,
            progress: leader.map(|leader| (leader.renewals, leader.phase)),
        }
    }

    /// Whether `next` is a plain renewal of this by the same leader.
    ///
    /// The first one after a grant is none, nor is one that says how far the leader is: somebody waits for those.
    pub(crate) fn is_renewed_by(&self, next: &Beat) -> bool {
        let plain = match (self.progress, next.progress) {
            (Some((renewals, before)), Some((_, after))) => renewals > 0 && before == after,
            (_, _) => false,
        };
        plain && self.holder == next.holder && self.epoch == next.epoch && self.beat != next.beat
    }
}

/// How long a renewal at `now` waits.
///
/// `written` is this client's last write to the document, `beaten` the last beat of the lease.
pub(crate) fn pause(now: Moment, written: Moment, beaten: Moment, lease: Span) -> Span {
    let wait = APART.minus(now.since(written)).min(lease.scaled(1, 8));
    if now.since(beaten).plus(wait) > lease.scaled(1, 2) { Span::ZERO } else { wait }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: u64, written: u64, beaten: u64, lease: Span) -> Span {
        let at = |millis| Moment::from_nanos(0) + Span::millis(start + millis);
        pause(at(60_000), at(60_000 - written), at(60_000 - beaten), lease)
    }

    #[test]
    fn a_renewal_right_after_another_write_waits_for_the_rest_of_the_second() {
        assert_eq!(after(0, 300, 10_000, Span::secs(30)), Span::millis(700));
        assert_eq!(after(0, 1_000, 10_000, Span::secs(30)), Span::ZERO);
        assert_eq!(after(0, 0, 1_000, Span::secs(4)), Span::millis(500), "an eighth of the lease at most");
    }

    #[test]
    fn no_wait_comes_near_the_end_of_a_lease() {
        assert_eq!(after(0, 0, 15_000, Span::secs(30)), Span::ZERO);
        assert_eq!(after(0, 0, 450, Span::secs(1)), Span::ZERO);
        for lease in [1_000, 2_000, 3_000, 10_000, 30_000].map(Span::millis) {
            for beaten in (0..30_000).step_by(50) {
                let wait = after(0, 0, beaten, lease);
                assert!(wait == Span::ZERO || Span::millis(beaten).plus(wait) <= lease.scaled(1, 2));
            }
        }
    }

    #[test]
    fn leases_that_are_long_enough_renew_without_waiting() {
        let third = baton_election::lease::renewal_interval(SHORTEST_LEASE);
        assert!(third >= APART);
    }
}
