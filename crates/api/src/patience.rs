//! Waiting before a retry: exponential, with full jitter, and with a limit.

use std::future::Future;

use baton_election::Span;
use baton_election::time::Moment;
use baton_store::{StoreError, boot};

use crate::elections::CommandError;

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
pub struct Backoff {
    patience: Patience,
    retried: u32,
}

impl Backoff {
    /// No retry yet.
    pub fn new(patience: Patience) -> Backoff {
        Backoff { patience, retried: 0 }
    }

    /// How long to wait before the next try; none if it was tried often enough.
    #[expect(
        clippy::should_implement_trait,
        reason = "a wait is asked for one at a time, with an error in hand"
    )]
    pub fn next(&mut self) -> Option<Span> {
        if self.patience.retries.is_some_and(|limit| self.retried >= limit) {
            return None;
        }
        let ceiling = self.patience.first.scaled(1 << self.retried.min(32), 1).min(self.patience.longest);
        self.retried = self.retried.saturating_add(1);
        Some(jitter(ceiling))
    }
}

/// How long to wait between the attempts of one request.
#[derive(Debug)]
pub struct Pace {
    failures: Backoff,
    contention: Backoff,
    /// When the last retry after a failure may begin; contention is no failure.
    last_retry: Option<Moment>,
}

impl Pace {
    /// The waits of a request that begins now.
    pub fn new(patience: Patience) -> Pace {
        let contention = Patience { first: Span::millis(1), longest: Span::millis(50), ..patience.endless() };
        Pace {
            failures: Backoff::new(patience),
            contention: Backoff::new(contention),
            last_retry: patience.within.map(|within| boot::now() + within),
        }
    }

    /// Waits before the next attempt; the error itself if there were enough.
    pub async fn wait_after(&mut self, error: StoreError) -> Result<(), CommandError> {
        let delay = match error {
            StoreError::Conflict => self.contention.next(),
            _ => self
                .failures
                .next()
                .filter(|delay| self.last_retry.is_none_or(|last_retry| boot::now() + *delay <= last_retry)),
        };
        match delay {
            Some(delay) => Ok(boot::sleep(delay).await?),
            None => Err(error.into()),
        }
    }
}

/// Asks until there is an answer, or the store has failed too often. Only for requests that may be sent again after any error.
pub async fn retried<T, F>(patience: Patience, ask: impl Fn() -> F) -> Result<T, CommandError>
where
    F: Future<Output = Result<T, CommandError>>,
{
    let mut pace = Pace::new(patience);
    loop {
        match ask().await {
            Err(CommandError::Store(error)) if error.is_passing() => pace.wait_after(error).await?,
            outcome => return outcome,
        }
    }
}

/// A random length from zero to `ceiling`.
pub fn jitter(ceiling: Span) -> Span {
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
