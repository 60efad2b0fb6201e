//! Waiting before a retry: exponential, with jitter.

use std::time::Duration;

/// The waits before the retries of one thing.
#[derive(Debug)]
pub struct Backoff {
    ceiling: Duration,
    longest: Duration,
}

impl Backoff {
    /// From `first` on, each up to twice as long as the one before, up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { ceiling: first, longest }
    }

    /// The next wait: from half its ceiling to all of it.
    pub fn wait(&mut self) -> Duration {
        let ceiling = self.ceiling;
        self.ceiling = (ceiling * 2).min(self.longest);
        let fraction = f64::from(getrandom::u32().unwrap_or(u32::MAX / 2)) / f64::from(u32::MAX);
        ceiling / 2 + (ceiling / 2).mul_f64(fraction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(150));
        for ceiling in [50, 100, 150, 150] {
            let wait = backoff.wait();
            assert!(wait <= Duration::from_millis(ceiling) && wait >= Duration::from_millis(ceiling / 2));
        }
    }
}
