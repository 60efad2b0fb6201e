//! Whether those who wait are told of changes, as a first watch finds it: what a store can do is not what its surroundings let it do.

use std::time::Duration;

use baton::Coordinator;
use baton::store::{Key, Watching};

use super::CheckReport;
use crate::output::Failure;

/// A store that takes longer to begin a watch is one that does not tell.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn check(chart: &mut CheckReport, coordinator: &Coordinator) -> Result<(), Failure> {
    let store = coordinator.backend();
    let promised = store.properties().watch;
    match tokio::time::timeout(PATIENCE, store.watch(&Key::Store)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            let detail = format!("nobody is told of changes, so that waiters look for themselves: {error}");
            return chart.warn("watch", detail, error.hint());
        }
        Err(_) => {
            let hint = "look whether the store can be reached from here";
            return chart.warn("watch", "the store did not say in time whether it tells of changes", hint);
        }
    }
    let found = store.properties();
    let looks = found.cost.looks_per_hour;
    match (promised, found.watch) {
        (_, Watching::Pushed) => chart.ok("watch", "who waits is told of changes at once"),
        (Watching::Polled, Watching::Polled) => chart.ok(
            "watch",
            format!("who waits looks for changes {looks} times an hour: this store does not tell"),
        ),
        (Watching::Pushed, Watching::Polled) => chart.warn(
            "watch",
            format!(
                "what the server tells does not arrive: who waits looks for changes {looks} times an hour"
            ),
            "a pooler in transaction mode swallows it; name the server itself, or a pool in session mode",
        ),
    }
}
