//! Records which place acts at which true instant and what the guarded resource accepted, and what all of
//! that says about the promises.

use std::collections::BTreeMap;

use baton_election::Span;

use crate::invariants::{Acting, Backing, Broken, Demands, Fact, Invariants};
use crate::network::Links;
use crate::statistics::Statistics;
use crate::timeline::{EventKind, Timeline};

/// The book of one run.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Until when it is written, in true time.
    now: u64,
    acting: Vec<Acting>,
    works: u64,
    /// Since when nobody acts.
    vacant_since: Option<u64>,
    struck: Option<Strike>,
    healed_at: Option<u64>,
    /// The places that led in each term: one bit for each place.
    terms: BTreeMap<u64, u128>,
    invariants: Invariants,
    pub(crate) statistics: Statistics,
    pub(crate) broken: Option<Broken>,
    pub(crate) timeline: Option<Timeline>,
}

/// A leader that was struck by a fault, until it is clear what comes of it.
#[derive(Debug, Clone, Copy)]
struct Strike {
    at: u64,
    place: u8,
    /// Which work it did.
    number: u64,
    /// When a lease would end there that is counted from the strike. What makes its lease longer than that was asked for after it.
    full: u64,
}

impl Ledger {
    pub(crate) fn new(demands: Demands, timeline: Option<Timeline>) -> Ledger {
        Ledger {
            now: 0,
            acting: Vec::with_capacity(8),
            works: 0,
            vacant_since: Some(0),
            struck: None,
            healed_at: None,
            terms: BTreeMap::new(),
            invariants: Invariants::new(demands),
            statistics: Statistics { runs: 1, ..Statistics::default() },
            broken: None,
            timeline,
        }
    }

    /// Notes an event for a replay of the run. The text of the event is made only then.
    pub(crate) fn note(&mut self, place: Option<u8>, what: impl FnOnce() -> EventKind) {
        if let Some(timeline) = &mut self.timeline {
            timeline.push(self.now, place, what());
        }
    }

    /// Whether anybody watches.
    pub(crate) fn is_watched(&self) -> bool {
        self.timeline.is_some()
    }

    /// Time passes; work whose end has come is over.
    pub(crate) fn advance(&mut self, to: u64) {
        while self.now < to {
            let first_end = self.acting.iter().map(|acting| acting.until).min().unwrap_or(u64::MAX);
            let next = first_end.clamp(self.now, to);
            let span = Span::nanos(next - self.now);
            let awake = self.acting.iter().filter(|acting| !acting.still).count();
            let sum = match (self.acting.len(), awake) {
                (0, _) => &mut self.statistics.no_leader,
                (1, _) => &mut self.statistics.one_leader,
                (_, 0 | 1) => &mut self.statistics.beside_still,
                (_, _) => &mut self.statistics.two_leaders,
            };
            *sum = sum.plus(span);
            self.statistics.simulated = self.statistics.simulated.plus(span);
            self.now = next;
            if first_end <= next {
                self.drop_ended();
            }
        }
        // Work that ends at this very instant does not act in it.
        if self.acting.iter().any(|acting| acting.until <= self.now) {
            self.drop_ended();
        }
    }

    fn drop_ended(&mut self) {
        self.acting.retain(|acting| acting.until > self.now);
        self.note_vacancy();
    }

    fn note_vacancy(&mut self) {
        if self.acting.is_empty() {
            self.vacant_since.get_or_insert(self.now);
        }
    }

    /// Work begins: returns its number.
    pub(crate) fn leads(&mut self, place: u8, term: u64, until: u64, backing: Backing) -> u64 {
        self.works += 1;
        let number = self.works;
        self.see(&Fact::Leads { place, term, backing });
        self.statistics.leaderships += 1;
        let led = self.terms.entry(term).or_default();
        let before = led.count_ones();
        *led |= 1 << place;
        // Each term is counted once, with its second leader.
        if before == 1 && led.count_ones() == 2 {
            self.statistics.terms_shared += 1;
        }
        if let Some(since) = self.vacant_since.take() {
            self.statistics.gaps.push(Span::nanos(self.now - since));
        }
        if let Some(strike) = self.struck.take().filter(|strike| strike.place != place) {
            self.statistics.failovers.push(Span::nanos(self.now - strike.at));
        }
        if let Some(at) = self.healed_at.take() {
            self.statistics.healed_in.push(Span::nanos(self.now - at));
        }
        self.acting.push(Acting { place, term, number, until, still: false });
        let shown = (until != u64::MAX).then(|| Span::nanos(until));
        self.note(Some(place), || EventKind::Leads { number, term, until: shown });
        number
    }

    /// Work may go on until then.
    pub(crate) fn extended(&mut self, number: u64, until: u64) {
        let Some(acting) = self.acting.iter_mut().find(|acting| acting.number == number) else { return };
        acting.until = until;
        let place = acting.place;
        self.struck.take_if(|strike| strike.number == number && until > strike.full);
        self.note(Some(place), || EventKind::Extended { number, until: Span::nanos(until) });
    }

    /// A clock runs at another rate: the same end comes at another instant.
    pub(crate) fn moved(&mut self, number: u64, until: u64) {
        if let Some(acting) = self.acting.iter_mut().find(|acting| acting.number == number) {
            acting.until = until;
        }
    }

    /// Work has ended.
    pub(crate) fn ended(&mut self, number: u64) {
        let Some(at) = self.acting.iter().position(|acting| acting.number == number) else { return };
        let place = self.acting.remove(at).place;
        self.note(Some(place), || EventKind::Ended { number });
        self.note_vacancy();
    }

    /// Whoever works there is struck by a fault: from here on a fail-over is measured. `full` is when a lease would end there that is counted
    /// from this instant. What strikes somebody who is struck already changes nothing, and of two that lead nobody is missed.
    pub(crate) fn strike(&mut self, place: u8, full: u64) {
        let Some(acting) = self.acting.iter().find(|acting| acting.place == place) else { return };
        let alone = self.acting.iter().all(|other| other.place == place || other.still);
        if self.struck.is_none() && alone {
            self.struck = Some(Strike { at: self.now, place, number: acting.number, full });
        }
    }

    /// The fault that struck that place has ended. Work that knows no lease and still acts has survived it.
    pub(crate) fn recovers(&mut self, place: u8) {
        let endless = |strike: &Strike| {
            let mut acting = self.acting.iter().filter(|acting| acting.number == strike.number);
            acting.any(|acting| acting.until == u64::MAX)
        };
        if self.struck.as_ref().is_some_and(|strike| strike.place == place && endless(strike)) {
            self.struck = None;
        }
    }

    /// Whoever does that work stands still with it, or goes on.
    pub(crate) fn stands_still(&mut self, number: u64, still: bool) {
        if let Some(acting) = self.acting.iter_mut().find(|acting| acting.number == number) {
            acting.still = still;
        }
    }

    /// The links change.
    pub(crate) fn relinked(&mut self, was: &Links, is: &Links) {
        let whole = is.is_whole();
        if whole != was.is_whole() {
            self.note(None, || EventKind::Links { whole });
        }
    }

    /// Who works in a process that is there, which the closure tells of a place and the number of a work: one that does not stand still, if there is one.
    pub(crate) fn leader_that(&self, is_there: impl Fn(usize, u64) -> bool) -> Option<u8> {
        let there = || self.acting.iter().filter(|acting| is_there(usize::from(acting.place), acting.number));
        there().find(|acting| !acting.still).or_else(|| there().next()).map(|acting| acting.place)
    }

    /// Who works, if one does: the first of them.
    pub(crate) fn leader(&self) -> Option<u8> {
        self.acting.first().map(|acting| acting.place)
    }

    /// Whether that work may go on.
    pub(crate) fn acts(&self, number: u64) -> bool {
        self.acting.iter().any(|acting| acting.number == number)
    }

    /// How many act.
    pub(crate) fn actors(&self) -> usize {
        self.acting.len()
    }

    /// All faults have ended; there must be a leader by then.
    pub(crate) fn healed(&mut self, by: u64) {
        if self.acting.is_empty() {
            self.healed_at = Some(self.now);
        } else {
            self.statistics.healed_in.push(Span::ZERO);
        }
        self.struck = None;
        self.see(&Fact::Healed { by });
        self.note(None, || EventKind::Healed);
    }

    /// After an event.
    pub(crate) fn check_instant(&mut self) {
        let acting = std::mem::take(&mut self.acting);
        self.see(&Fact::Instant(&acting));
        self.acting = acting;
    }

    /// Shows a fact to all promises; the first that breaks is kept.
    pub(crate) fn see(&mut self, fact: &Fact<'_>) {
        if self.broken.is_some() {
            return;
        }
        if let Err(broken) = self.invariants.see(self.now, fact) {
            self.note(None, || EventKind::Broken(format!("{}: {}", broken.invariant, broken.what)));
            self.broken = Some(broken);
        }
    }

    /// Counts a message, and whether an election sent it.
    pub(crate) fn sent(&mut self, kind: &'static str, elective: bool) {
        self.statistics.messages += 1;
        self.statistics.elective += u64::from(elective);
        *self.statistics.kinds.entry(kind).or_default() += 1;
    }
}

/// A resource that takes no token below the highest that it has seen.
#[derive(Debug, Default)]
pub(crate) struct Resource {
    highest: u64,
    writer: u64,
}

impl Resource {
    /// A write arrives.
    pub(crate) fn write(&mut self, ledger: &mut Ledger, place: u8, token: u64, writer: u64) {
        let accepted = token >= self.highest;
        ledger.note(Some(place), || EventKind::Wrote { token, accepted });
        if !accepted {
            ledger.statistics.writes_refused += 1;
            return;
        }
        ledger.statistics.writes_accepted += 1;
        if token == self.highest && writer != self.writer && self.writer != 0 {
            ledger.statistics.writes_mixed += 1;
        }
        (self.highest, self.writer) = (token, writer);
        ledger.see(&Fact::Accepted { token, writer });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const ENDLESS: u64 = u64::MAX;

    fn ledger() -> Ledger {
        Ledger::new(Demands { safety: false, liveness: false }, None)
    }

    /// Until what second a lease lasts that is counted from then.
    fn lease_from(second: u64) -> u64 {
        (second + 15) * SECOND
    }

    fn leads(ledger: &mut Ledger, second: u64, place: u8, term: u64, until: u64) -> u64 {
        ledger.advance(second * SECOND);
        ledger.leads(place, term, until, Backing::BY_A_STORE)
    }

    fn strike(ledger: &mut Ledger, second: u64, place: u8) {
        ledger.advance(second * SECOND);
        ledger.strike(place, lease_from(second));
    }

    #[test]
    fn a_strike_that_a_leader_without_a_lease_survives_is_no_fail_over() {
        let mut ledger = ledger();
        let first = leads(&mut ledger, 1, 0, 1, ENDLESS);
        strike(&mut ledger, 10, 0);
        ledger.recovers(0);
        ledger.advance(300 * SECOND);
        ledger.ended(first);
        leads(&mut ledger, 301, 1, 2, ENDLESS);
        assert_eq!(ledger.statistics.failovers, []);
    }

    #[test]
    fn a_fail_over_counts_from_the_first_strike_and_is_anothers() {
        let mut ledger = ledger();
        leads(&mut ledger, 1, 0, 1, lease_from(10));
        strike(&mut ledger, 10, 0);
        strike(&mut ledger, 20, 0);
        leads(&mut ledger, 40, 1, 2, lease_from(40));
        assert_eq!(ledger.statistics.failovers, [Span::secs(30)]);
        strike(&mut ledger, 50, 1);
        leads(&mut ledger, 80, 1, 3, lease_from(80));
        leads(&mut ledger, 100, 0, 4, lease_from(100));
        assert_eq!(ledger.statistics.failovers.len(), 1, "who was struck led again itself");
    }

    #[test]
    fn only_what_was_asked_for_after_a_strike_shows_that_a_leader_survived_it() {
        for (asked, fails_over) in [(9, true), (11, false)] {
            let mut ledger = ledger();
            let number = leads(&mut ledger, 1, 0, 1, lease_from(5));
            strike(&mut ledger, 10, 0);
            ledger.extended(number, lease_from(asked));
            leads(&mut ledger, 40, 1, 2, lease_from(40));
            assert_eq!(!ledger.statistics.failovers.is_empty(), fails_over, "asked at {asked} s");
        }
    }

    #[test]
    fn a_leader_that_stands_still_is_counted_apart() {
        let mut ledger = ledger();
        let first = leads(&mut ledger, 0, 0, 1, ENDLESS);
        ledger.stands_still(first, true);
        leads(&mut ledger, 20, 1, 2, ENDLESS);
        ledger.advance(50 * SECOND);
        ledger.stands_still(first, false);
        ledger.advance(57 * SECOND);
        let Statistics { one_leader, two_leaders, beside_still, .. } = ledger.statistics;
        assert_eq!((one_leader, beside_still, two_leaders), (Span::secs(20), Span::secs(30), Span::secs(7)));
    }

    #[test]
    fn a_term_is_shared_once_however_often_its_leaders_take_turns() {
        let mut ledger = ledger();
        for (second, place) in [(1, 0), (2, 1), (3, 0), (4, 1), (5, 2)] {
            leads(&mut ledger, second, place, 1, ENDLESS);
        }
        leads(&mut ledger, 6, 0, 2, ENDLESS);
        assert_eq!(ledger.statistics.terms_shared, 1);
    }
}
