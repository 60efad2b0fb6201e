//! Waiting before a retry: exponential, with full jitter, and with a limit.

use baton_election::Span;

/// How patient a caller is with a store that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The first delay is drawn from zero to this.
    pub first: Span,
    /// No delay is drawn from above this.
    pub longest: Span,
    /// How often to retry; without it, for ever.
    pub retries: Option<u32>,
    /// No retry begins later than this after the first attempt: a store that does not answer makes every attempt long.
    pub within: Option<Span>,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            first: Span::millis(20),
            longest: Span::secs(5),
            retries: Some(8),
            within: Some(Span::secs(5)),
        }
    }
}

impl Patience {
    /// The same, but never giving up.
    #[must_use]
    pub fn endless(self) -> Patience {
        Patience { retries: None, within: None, ..self }
    }
}

/// The retries of one request.
#[derive(Debug)]
pub(crate) struct Backoff {
    patience: Patience,
    retried: u32,
}

impl Backoff {
    pub(crate) fn new(patience: Patience) -> Backoff {
        Backoff { patience, retried: 0 }
    }

    /// How long to wait before the next try; none if it was tried often enough.
    pub(crate) fn next(&mut self) -> Option<Span> {
        if self.patience.retries.is_some_and(|limit| self.retried >= limit) {
            return None;
        }
        let ceiling = self.patience.first.scaled(1 << self.retried.min(32), 1).min(self.patience.longest);
        self.retried = self.retried.saturating_add(1);
        Some(jitter(ceiling))
    }
}

/// A random length from zero to `ceiling`.
pub(crate) fn jitter(ceiling: Span) -> Span {
    ceiling.scaled(u64::from(random_u32()), u64::from(u32::MAX))
}

fn random_u32() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_their_ceiling_and_end() {
        let patience =
            Patience { first: Span::millis(10), longest: Span::millis(40), retries: Some(100), within: None };
        let mut backoff = Backoff::new(patience);
        let delays: Vec<Span> = std::iter::from_fn(|| backoff.next()).collect();
        assert_eq!(delays.len(), 100);
        assert!(delays.iter().all(|delay| *delay <= Span::millis(40)));
        assert!(delays[0] <= Span::millis(10));
        assert!(delays.iter().any(|delay| *delay > Span::millis(10)), "they grow");
        let mut distinct = delays.clone();
        distinct.dedup();
        assert!(distinct.len() > 50, "they are jittered");
    }

    #[test]
    fn an_endless_one_does_not_end() {
        let mut backoff = Backoff::new(Patience::default().endless());
        assert!((0..1_000).all(|_| backoff.next().is_some_and(|delay| delay <= Patience::default().longest)));
    }
}
