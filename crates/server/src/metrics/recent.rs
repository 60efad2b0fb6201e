//! How many of something there were lately, in a fixed amount of memory.

use baton_election::time::{Moment, Span};

/// Into how many parts the time that counts is divided: what is older than one sixteenth more than it is surely forgotten.
const PARTS: usize = 16;

/// Counts over a window that moves along.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    window: Span,
    counts: [u32; PARTS],
    /// The part of all time that was counted last.
    last: u64,
}

impl Recent {
    pub(crate) fn over(window: Span) -> Recent {
        Recent { window, counts: [0; PARTS], last: 0 }
    }

    pub(crate) fn add(&mut self, now: Moment, many: u32) {
        self.move_to(now);
        let place = place(self.last);
        self.counts[place] = self.counts[place].saturating_add(many);
    }

    /// How many in the window that ends now.
    pub(crate) fn sum(&mut self, now: Moment) -> u64 {
        self.move_to(now);
        self.counts.iter().map(|count| u64::from(*count)).sum()
    }

    fn move_to(&mut self, now: Moment) {
        let part = now.as_nanos() / (self.window.as_nanos() / PARTS as u64).max(1);
        // A clock that goes back for a moment moves nothing.
        for passed in self.last + 1..=part.min(self.last.saturating_add(PARTS as u64)) {
            self.counts[place(passed)] = 0;
        }
        if part > self.last.saturating_add(PARTS as u64) {
            self.counts = [0; PARTS];
        }
        self.last = self.last.max(part);
    }
}

/// Where a part of all time is counted.
fn place(part: u64) -> usize {
    usize::try_from(part % PARTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut recent = Recent::over(Span::secs(160));
        recent.add(at(1_000), 2);
        recent.add(at(1_100), 3);
        assert_eq!(recent.sum(at(1_100)), 5);
        assert_eq!(recent.sum(at(1_150)), 5, "the whole window counts");
        assert_eq!(recent.sum(at(1_165)), 3);
        assert_eq!(recent.sum(at(1_262)), 0);
        recent.add(at(900_000), 1);
        assert_eq!(recent.sum(at(900_000)), 1);
        assert_eq!(recent.sum(at(10)), 1, "the clock went back");
    }
}
