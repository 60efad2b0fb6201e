//! The age of a lease on a store that does not stamp: how long this observer has itself seen it stand still.
//!
//! Assumes a clock that counts through a suspend. Guarantees a lower bound on the time since the last beat, whatever
//! watch events were missed. Does not know how old a lease was when it was first seen: a fresh observer waits a full lease.

use serde::{Deserialize, Serialize};

use crate::document::Pulse;
use crate::time::{Moment, Span};

/// What one observer has seen of one lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Observer {
    seen: Option<(Pulse, Moment)>,
}

impl Observer {
    /// Takes in a reply that was received at `received_at`, and returns the age of the lease it shows as of `asked_at`,
    /// when that reply was asked for: the lease stood still until then, and perhaps no longer.
    pub fn observe(&mut self, pulse: Pulse, asked_at: Moment, received_at: Moment) -> Span {
        match &self.seen {
            Some((seen, since)) if *seen == pulse => asked_at.since(*since),
            Some(_) | None => {
                self.seen = Some((pulse, received_at));
                Span::ZERO
            }
        }
    }

    /// The age that a lease seen with this pulse has at `now`, without a new reply.
    pub fn age(&self, pulse: &Pulse, now: Moment) -> Span {
        match &self.seen {
            Some((seen, since)) if seen == pulse => now.since(*since),
            Some(_) | None => Span::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Epoch, Incarnation};

    fn at(ms: u64) -> Moment {
        Moment::from_nanos(0) + Span::millis(ms)
    }

    fn pulse(beat: u64) -> Pulse {
        Pulse { holder: Some(Incarnation([1; 8])), epoch: Epoch(3), beat }
    }

    #[test]
    fn age_counts_from_the_receipt_of_the_first_reply_to_the_asking_of_the_last() {
        let mut observer = Observer::default();
        assert_eq!(observer.observe(pulse(1), at(0), at(10)), Span::ZERO);
        assert_eq!(observer.observe(pulse(1), at(5), at(6)), Span::ZERO, "asked before the first receipt");
        assert_eq!(observer.observe(pulse(1), at(110), at(400)), Span::millis(100));
    }

    #[test]
    fn any_beat_restarts_it_and_nothing_else_does() {
        let mut observer = Observer::default();
        let _ = observer.observe(pulse(1), at(0), at(0));
        assert_eq!(observer.observe(pulse(2), at(50), at(60)), Span::ZERO);
        assert_eq!(observer.observe(pulse(2), at(100), at(100)), Span::millis(40));
        assert_eq!(observer.age(&pulse(2), at(160)), Span::millis(100));
        assert_eq!(observer.age(&pulse(1), at(160)), Span::ZERO);
    }
}
