//! The suspicion level of an agent, computed from heartbeat arrival times: φ-accrual (Hayashibara, Défago, Yared, Katayama 2004). Pure: all time is input.
//!
//! Assumes that silences between heartbeats are distributed normally, as the paper does, and that nobody is expected before it was asked to come. Guarantees a
//! number that only rises while nothing is heard, from a bounded window. Is conservative: the mean is never below what the server asked for, and the
//! deviation never below a quarter of the mean. Decides nothing: leases alone do.

use baton_api::describe::Suspicion;
use baton_election::time::Span;

/// How many of the last silences count.
const WINDOW: usize = 32;
/// The least deviation that is believed: a network and a scheduler have no less.
const LEAST_DEVIATION_MS: f64 = 200.0;
/// The same as a part of the mean.
const LEAST_SHARE: f64 = 0.25;

/// The silences between the last heartbeats of one session.
#[derive(Clone, Debug)]
pub(super) struct Arrivals {
    silences_ms: [u32; WINDOW],
    /// How many there were, all in all.
    heard: u64,
}

impl Arrivals {
    pub(super) fn new() -> Arrivals {
        Arrivals { silences_ms: [0; WINDOW], heard: 0 }
    }

    /// It was heard of after so long.
    pub(super) fn heard(&mut self, after: Span) {
        let place = usize::try_from(self.heard % WINDOW as u64).unwrap_or(0);
        self.silences_ms[place] = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
        self.heard += 1;
    }

    /// How much speaks against an agent that has been silent for so long, and was asked to come this often.
    pub(super) fn suspicion(&self, silent: Span, asked: Span) -> Suspicion {
        let known = usize::try_from(self.heard).unwrap_or(usize::MAX).min(WINDOW);
        let silences = || self.silences_ms[..known].iter().map(|silence| f64::from(*silence));
        #[expect(clippy::cast_precision_loss, reason = "at most as many as the window is long")]
        let count = (known as f64).max(1.0);
        let measured = silences().sum::<f64>() / count;
        let variance = silences().map(|silence| (silence - measured).powi(2)).sum::<f64>() / count;
        let mean = measured.max(millis(asked));
        let deviation = variance.sqrt().max(mean * LEAST_SHARE).max(LEAST_DEVIATION_MS);
        Suspicion::of(phi(millis(silent), mean, deviation))
    }
}

fn millis(span: Span) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a thousand years of milliseconds are exact")]
    let millis = span.as_millis() as f64;
    millis
}

/// −log₁₀ of the chance that somebody comes later than this who comes by N(mean, deviation²), by the logistic approximation of it.
fn phi(silent: f64, mean: f64, deviation: f64) -> f64 {
    let y = (silent - mean) / deviation;
    let exponent = y * (1.5976 + 0.070_566 * y * y);
    // 1/(1+e^x) without an overflow at either end.
    let ln = if exponent > 0.0 { -exponent - (-exponent).exp().ln_1p() } else { -exponent.exp().ln_1p() };
    -ln / std::f64::consts::LN_10
}

#[cfg(test)]
mod tests {
    use baton_api::describe::SUSPECT;
    use proptest::prelude::*;

    use super::*;

    fn arrivals(silences: &[u64]) -> Arrivals {
        let mut arrivals = Arrivals::new();
        silences.iter().for_each(|silence| arrivals.heard(Span::millis(*silence)));
        arrivals
    }

    #[test]
    fn the_formula_is_the_papers() {
        // A silence as long as the mean is as likely as not; one, two and three deviations more by the table of N(0, 1).
        for (silent, expected) in [(5_000.0, 0.301), (6_000.0, 0.799), (7_000.0, 1.643), (8_000.0, 2.870)] {
            let found = phi(silent, 5_000.0, 1_000.0);
            assert!((found - expected).abs() < 0.05, "{silent}: {found} instead of {expected}");
        }
    }

    #[test]
    fn who_comes_as_asked_is_not_suspected_and_who_does_not_is() {
        let regular = arrivals(&[5_400; 40]);
        let asked = Span::secs(6);
        assert!(regular.suspicion(Span::secs(6), asked).phi() < 1.0);
        assert!(regular.suspicion(Span::secs(9), asked) < SUSPECT, "half a heartbeat late is no suspicion");
        assert!(regular.suspicion(Span::secs(18), asked) > SUSPECT, "three missed ones are");
    }

    #[test]
    fn who_was_never_heard_of_is_judged_by_what_it_was_asked_for() {
        let fresh = Arrivals::new();
        assert!(fresh.suspicion(Span::secs(5), Span::secs(6)).phi() < 1.0);
        assert!(fresh.suspicion(Span::secs(30), Span::secs(6)) > SUSPECT);
    }

    #[test]
    fn who_was_heard_of_often_is_not_expected_before_it_was_asked_to_come() {
        let busy = arrivals(&[10; 64]);
        assert!(busy.suspicion(Span::secs(6), Span::secs(6)).phi() < 1.0);
    }

    proptest! {
        #[test]
        fn it_only_rises_while_nothing_is_heard_and_is_bounded(
            silences in prop::collection::vec(0u64..100_000, 0..80),
            asked in 100u64..60_000,
            silent in 0u64..10_000_000,
            more in 0u64..10_000_000,
        ) {
            let arrivals = arrivals(&silences);
            let asked = Span::millis(asked);
            let now = arrivals.suspicion(Span::millis(silent), asked);
            let later = arrivals.suspicion(Span::millis(silent + more), asked);
            prop_assert!(now <= later && later <= Suspicion::MOST);
            // Whatever came before: who is not later than it was asked to be is not suspected.
            prop_assert!(arrivals.suspicion(asked, asked).phi() <= 0.31);
        }

        #[test]
        fn only_the_last_silences_count(
            old in prop::collection::vec(0u64..100_000, 0..80),
            new in prop::collection::vec(0u64..100_000, WINDOW..WINDOW + 1),
            silent in 0u64..1_000_000,
        ) {
            let both: Vec<u64> = old.iter().chain(&new).copied().collect();
            let (asked, silent) = (Span::secs(5), Span::millis(silent));
            let (long, short) = (arrivals(&both).suspicion(silent, asked), arrivals(&new).suspicion(silent, asked));
            // The order in which they are summed up may differ in the last digit.
            prop_assert!(long.hundredths().abs_diff(short.hundredths()) <= 1);
        }
    }
}
