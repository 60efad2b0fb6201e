//! What every store must do. One suite; each passes it whole, against the real thing.
//!
//! A store's own tests call [`run`] with a way to open it: every call gives an independent client of one and the same
//! store, as another process would have it. Each check uses keys of its own, so that the store may have been used before.

mod clocks;
mod deaf;
mod deletion;
pub mod documents;
pub mod fixtures;
mod names;
pub mod power;
mod sample;
mod server;
mod swaps;
mod versions;
mod watches;
mod wrapped;

use std::sync::Arc;

pub use deaf::{OpenAt, bounded, plain_words};
pub use deletion::{Delete, begun_once, survived};
pub use server::{Required, free_port, required};
pub use wrapped::{Swap, Wrapped};

use crate::store::{BoxFuture, Store};

/// A way to open one and the same store again, as another process would.
pub type Open<'a> = &'a (dyn Fn() -> BoxFuture<'a, Arc<dyn Store>> + Send + Sync);

/// Runs the whole suite. Panics at the first thing that does not hold, saying which.
///
/// Returns how many checks were run.
pub async fn run(open: Open<'_>) -> usize {
    let mut done = Progress::default();
    done.check("absent is absent, then what was written", swaps::absent_then_written(open)).await;
    done.check("a stale swap changes nothing", swaps::stale_swap_changes_nothing(open)).await;
    done.check("a version never comes back", swaps::versions_never_come_back(open)).await;
    done.check("of many racing swaps one is applied", swaps::one_of_many(open)).await;
    done.check("no increment is lost", swaps::no_lost_increment(open)).await;
    done.check("a full document survives", swaps::full_document(open)).await;
    done.check("every kind of record survives", swaps::every_kind(open)).await;
    done.check("the clock restarts only when told", clocks::restarts_only_when_told(open)).await;
    done.check("an age is a lower bound", clocks::age_is_a_lower_bound(open)).await;
    done.check("names that look alike are kept apart", names::kept_apart(open)).await;
    done.check("lists are complete and exact", names::lists(open)).await;
    done.check("a watcher hears of a change", watches::hears_of_a_change(open)).await;
    done.check("a watcher hears of a beginning", watches::hears_of_a_beginning(open)).await;
    done.check("a record of a newer Baton is refused and kept", versions::newer_is_refused(open)).await;
    done.count
}

#[derive(Default)]
struct Progress {
    count: usize,
}

impl Progress {
    /// Runs one check; a hang counts as a failure.
    async fn check(&mut self, what: &str, check: impl Future<Output = ()>) {
        let bound = std::time::Duration::from_secs(120);
        assert!(tokio::time::timeout(bound, check).await.is_ok(), "conformance: `{what}` hangs");
        self.count += 1;
    }
}
