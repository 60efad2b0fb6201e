//! Work in slices: a long computation lets other tasks run every few milliseconds.
//!
//! Guarantees that a loop which calls [`Pace::breathe`] once an item holds its worker for one slice and one item at most, however many items
//! there are. Does not guarantee anything about a single item: the bodies and answers that make one up have bounds of their own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a task works before it lets others run.
const SLICE: Duration = Duration::from_millis(2);

/// The time slice of one request. Futures that the same task polls share it.
pub(super) struct Pace {
    begun: Instant,
    /// When the slice began, in nanoseconds since `begun`.
    slice: AtomicU64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { begun: Instant::now(), slice: AtomicU64::new(0) }
    }
}

impl Pace {
    fn elapsed(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Lets other tasks run if the slice is used up. Returns whether it did.
    pub(super) async fn breathe(&self) -> bool {
        let used = Duration::from_nanos(self.elapsed().saturating_sub(self.slice.load(Ordering::Relaxed)));
        if used < SLICE {
            return false;
        }
        tokio::task::yield_now().await;
        self.slice.store(self.elapsed(), Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn others_run_while_a_long_loop_does() {
        let ticks = std::sync::Arc::new(AtomicU64::new(0));
        let ticker = std::sync::Arc::clone(&ticks);
        let other = tokio::spawn(async move {
            loop {
                ticker.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let (pace, mut yielded) = (Pace::default(), 0);
        let begun = Instant::now();
        while yielded < 5 {
            yielded += u64::from(pace.breathe().await);
            assert!(begun.elapsed().as_secs() < 60, "it let others run {yielded} times");
        }
        other.abort();
        assert!(ticks.load(Ordering::Relaxed) >= yielded - 1, "and they did");
    }
}
