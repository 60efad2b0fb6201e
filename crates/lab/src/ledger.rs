//! Who acts at which true instant, what the guarded resource took, and what all of that says about the promises.

use std::collections::BTreeMap;

use baton_election::Span;

use crate::invariants::{Acting, Broken, Demands, Fact, Invariants};
use crate::statistics::Statistics;
use crate::timeline::{Timeline, What};

/// The book of one run.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Until when it is written, in true time.
    now: u64,
    acting: Vec<Acting>,
    works: u64,
    /// Since when nobody acts.
    vacant_since: Option<u64>,
    /// When a leader was struck, and which work it did.
    struck: Option<(u64, u64)>,
    healed_at: Option<u64>,
    /// Who led last in which term.
    terms: BTreeMap<u64, u8>,
    invariants: Invariants,
    pub(crate) statistics: Statistics,
    pub(crate) broken: Option<Broken>,
    pub(crate) timeline: Option<Timeline>,
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

    /// Notes an event for who replays the run; what it says is made up only then.
    pub(crate) fn note(&mut self, place: Option<u8>, what: impl FnOnce() -> What) {
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
            let sum = match self.acting.len() {
                0 => &mut self.statistics.no_leader,
                1 => &mut self.statistics.one_leader,
                _ => &mut self.statistics.two_leaders,
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
    pub(crate) fn leads(&mut self, place: u8, term: u64, until: u64, heard: usize, majority: usize) -> u64 {
        self.works += 1;
        let number = self.works;
        self.see(&Fact::Leads { place, term, heard, majority });
        self.statistics.leaderships += 1;
        if self.terms.insert(term, place).is_some_and(|former| former != place) {
            self.statistics.terms_shared += 1;
        }
        if let Some(since) = self.vacant_since.take() {
            self.statistics.gaps.push(Span::nanos(self.now - since));
        }
        if let Some((at, _)) = self.struck.take() {
            self.statistics.failovers.push(Span::nanos(self.now - at));
        }
        if let Some(at) = self.healed_at.take() {
            self.statistics.healed_in.push(Span::nanos(self.now - at));
        }
        self.acting.push(Acting { place, term, number, until });
        let shown = (until != u64::MAX).then(|| Span::nanos(until));
        self.note(Some(place), || What::Leads { number, term, until: shown });
        number
    }

    /// Work may go on until then.
    pub(crate) fn extended(&mut self, number: u64, until: u64) {
        let Some(acting) = self.acting.iter_mut().find(|acting| acting.number == number) else { return };
        acting.until = until;
        let place = acting.place;
        if self.struck.is_some_and(|(_, struck)| struck == number) {
            self.struck = None;
        }
        self.note(Some(place), || What::Extended { number, until: Span::nanos(until) });
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
        self.note(Some(place), || What::Ended { number });
        self.note_vacancy();
    }

    /// Whoever works there is struck by a fault: from here on a fail-over is measured.
    pub(crate) fn strike(&mut self, place: u8) {
        if let Some(acting) = self.acting.iter().find(|acting| acting.place == place) {
            self.struck = Some((self.now, acting.number));
        }
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
        self.note(None, || What::Healed);
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
            self.note(None, || What::Broken(format!("{}: {}", broken.invariant, broken.what)));
            self.broken = Some(broken);
        }
    }

    /// Counts a message.
    pub(crate) fn sent(&mut self, kind: &'static str) {
        self.statistics.messages += 1;
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
        ledger.note(Some(place), || What::Wrote { token, accepted });
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
