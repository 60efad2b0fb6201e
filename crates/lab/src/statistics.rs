//! What a run measures.

use std::collections::BTreeMap;

use baton_election::Span;

/// The most lengths of one kind that many runs keep.
const MAX_KEPT: usize = 1 << 20;

/// What was counted in one run, or in many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// How many runs these are.
    pub runs: u64,
    /// True time that passed.
    pub simulated: Span,
    /// Time with exactly one member acting as the leader.
    pub one_leader: Span,
    /// Time with two or more that act.
    pub two_leaders: Span,
    /// Time with two or more of whom at most one acts: the others stand still, and do not know that they were replaced.
    pub beside_still: Span,
    /// Time with none.
    pub no_leader: Span,
    /// Leaderships that began.
    pub leaderships: u64,
    /// How long each time without any leader lasted, from the end of the last one's work to the beginning of the next one's. The time before the
    /// first leader is the first of them.
    pub gaps: Vec<Span>,
    /// From the crash, pause or isolation of a leader until another's work began.
    pub failovers: Vec<Span>,
    /// Runs after whose faults too few remembered for a leader to be demanded.
    pub undemanded: u64,
    /// From the healing until there was a leader.
    pub healed_in: Vec<Span>,
    /// Messages sent; on a store requests, answers, and what it tells those who watch.
    pub messages: u64,
    /// Messages of elections: without the leader's heartbeats, renewals, looks at a lease that runs, and the
    /// answers to them.
    pub elective: u64,
    /// The same by kind.
    pub kinds: BTreeMap<&'static str, u64>,
    /// Steps of machines, or decisions.
    pub steps: u64,
    /// Things kept on disks, or swaps of the store.
    pub kept: u64,
    /// Writes that the guarded resource took.
    pub writes_accepted: u64,
    /// Writes that it refused for an old token.
    pub writes_refused: u64,
    /// Writes that it took although another writer had shown the same token: what tokens that are none let through.
    pub writes_mixed: u64,
    /// Terms in which more than one member led.
    pub terms_shared: u64,
}

impl Statistics {
    /// Adds another run's.
    pub fn add(&mut self, other: &Statistics) {
        self.runs += other.runs;
        for (mine, its) in [
            (&mut self.simulated, other.simulated),
            (&mut self.one_leader, other.one_leader),
            (&mut self.two_leaders, other.two_leaders),
            (&mut self.beside_still, other.beside_still),
            (&mut self.no_leader, other.no_leader),
        ] {
            *mine = mine.plus(its);
        }
        keep(&mut self.gaps, &other.gaps);
        keep(&mut self.failovers, &other.failovers);
        keep(&mut self.healed_in, &other.healed_in);
        for (kind, count) in &other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        for (mine, its) in [
            (&mut self.leaderships, other.leaderships),
            (&mut self.undemanded, other.undemanded),
            (&mut self.messages, other.messages),
            (&mut self.elective, other.elective),
            (&mut self.steps, other.steps),
            (&mut self.kept, other.kept),
            (&mut self.writes_accepted, other.writes_accepted),
            (&mut self.writes_refused, other.writes_refused),
            (&mut self.writes_mixed, other.writes_mixed),
            (&mut self.terms_shared, other.terms_shared),
        ] {
            *mine += its;
        }
    }
}

/// Adds some; of too many every second one is kept, which is as good for a percentile, since seeds have no order.
fn keep(all: &mut Vec<Span>, more: &[Span]) {
    all.extend_from_slice(more);
    if all.len() > MAX_KEPT {
        let mut odd = false;
        all.retain(|_| {
            odd = !odd;
            odd
        });
    }
}

/// The value below which that share of all lies, in thousandths; none of none.
pub fn percentile(spans: &mut [Span], permille: usize) -> Option<Span> {
    let last = spans.len().checked_sub(1)?;
    let at = (last * permille).div_ceil(1_000);
    let (_, found, _) = spans.select_nth_unstable(at.min(last));
    Some(*found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_runs_are_added_the_lengths_kept_are_bounded() {
        let run =
            Statistics { runs: 1, gaps: (0..60_000).map(Span::millis).collect(), ..Statistics::default() };
        let mut all = Statistics::default();
        for _ in 0..50 {
            all.add(&run);
        }
        assert!(all.gaps.len() <= MAX_KEPT && all.gaps.len() > MAX_KEPT / 4, "{}", all.gaps.len());
        let middle = percentile(&mut all.gaps, 500).unwrap();
        assert!(middle > Span::millis(29_000) && middle < Span::millis(31_000), "{middle}");
    }

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let mut spans: Vec<Span> = (1..=100).rev().map(Span::millis).collect();
        assert_eq!(percentile(&mut spans, 500), Some(Span::millis(51)));
        assert_eq!(percentile(&mut spans, 990), Some(Span::millis(100)));
        assert_eq!(percentile(&mut spans, 0), Some(Span::millis(1)));
        assert_eq!(percentile(&mut [], 500), None);
    }
}
