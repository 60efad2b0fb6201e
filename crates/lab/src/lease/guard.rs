//! A guarded resource: its guard looks at the election, then asks the fence, and between the two time passes.

use baton_election::fence::{self, Entry, Sight};
use baton_election::{Document, Epoch, Fence, Moment, Observer, Span, WallTime};

use super::{Event, LeaseWorld};
use crate::invariants::Fact;
use crate::timeline::EventKind;

/// The resource's fence, and what its guard has seen of the election.
#[derive(Debug, Default)]
pub(super) struct Guard {
    fence: Option<Fence>,
    observer: Observer,
}

impl LeaseWorld<'_> {
    /// A write reaches the guard: it reads the election.
    pub(super) fn guard_looks(&mut self, place: u8, token: Epoch, number: u64) {
        let document = self.store.document.clone();
        let now = Moment::from_nanos(self.now);
        let age = match (self.store.age(self.now), &document) {
            (Some(age), _) => age,
            (None, Some(document)) => self.guard.observer.observe(document.pulse(), now, now),
            (None, None) => Span::ZERO,
        };
        let delay = self.network.delay_min.as_nanos() + self.random.below(self.network.delay_max.as_nanos());
        let admits = Event::Admits { place, token, number, document, age };
        self.queue.put(self.now + delay, admits);
    }

    /// The fence decides, by the election as the guard saw it.
    pub(super) fn fence_decides(
        &mut self,
        place: u8,
        token: Epoch,
        number: u64,
        document: Option<&Document>,
        document_age: Span,
    ) {
        let entry = Entry { resource: &self.names.resource, token, agent: None, note: "", hold: None };
        let admitted = document.map(|document| {
            let sight = Sight { document, document_age, fence_age: Span::ZERO, wall: WallTime::default() };
            fence::admit(self.guard.fence.as_ref(), &entry, &sight)
        });
        let accepted = matches!(admitted, Some(Ok(_)));
        self.ledger.note(Some(place), || EventKind::Wrote { token: token.0, accepted });
        match admitted {
            Some(Ok(mut next)) => {
                // What is in the log beside the fence decides nothing.
                next.tail.truncate(1);
                self.guard.fence = Some(next);
                self.ledger.statistics.writes_accepted += 1;
                self.ledger.see(&Fact::Accepted { token: token.0, writer: number });
            }
            Some(Err(_)) | None => self.ledger.statistics.writes_refused += 1,
        }
    }
}
