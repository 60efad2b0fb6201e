//! Lease keys in the user's state folder whose leases have ended.

use std::fs;
use std::path::Path;
use std::time::Duration;

use baton::caller::KeptLease;
use baton::election::Epoch;
use baton::{Decides, View};

use super::store::{OpenStore, is_silent};
use super::{CheckReport, count};
use crate::output::Failure;

/// A key that was kept before its lease was granted may belong to a request that is under way.
const UNDER_WAY: Duration = Duration::from_secs(3_600);

pub(super) async fn check(chart: &mut CheckReport, opened: &OpenStore, fix: bool) -> Result<(), Failure> {
    let mut over = Vec::new();
    let mut running = 0;
    let has_documents = opened.coordinator.decides() != Decides::Store;
    for file in opened.state.leases().files() {
        let Some(lease) = file.lease() else { continue };
        match opened.coordinator.view(&file.election).await {
            // In the store's own elections there is no document to judge by.
            Ok(view) if has_documents && is_over(&lease, &view, &file.path) => over.push((file, lease)),
            // Of a request whose answer was lost, and which was not granted for all that can be seen.
            Ok(view) if lease.epoch == Epoch(0) && !is_of(&lease, &view) => {}
            Ok(_) => running += 1,
            Err(error) if is_silent(&error) => return chart.fail_with("leases", &error),
            // A document that cannot be read says nothing about its lease.
            Err(_) => {}
        }
    }
    let running = format!("{} of running leases", count(running, "key", "keys"));
    if over.is_empty() {
        return chart.ok("leases", running);
    }
    let ended = format!("{} of leases that have ended", count(over.len(), "key", "keys"));
    if !fix {
        return chart.warn(
            "leases",
            format!("{running}, {ended}"),
            "`baton doctor --fix` removes the latter",
        );
    }
    for (file, lease) in &over {
        opened.state.leases().forget(&file.election, &file.agent, lease);
    }
    if over.iter().any(|(file, _)| file.path.exists()) {
        let hint = format!("see {}", opened.state.path().display());
        return chart.fail("leases", format!("{ended} could not be removed"), hint);
    }
    chart.ok("leases", format!("{running}; removed {ended}"))
}

/// Once lost, always lost: a lease that ran out, or that is somebody else's by now, never comes back.
fn is_over(lease: &KeptLease, view: &View, path: &Path) -> bool {
    if lease.epoch == Epoch(0) {
        let modified = fs::metadata(path).and_then(|data| data.modified()).ok();
        return modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > UNDER_WAY);
    }
    let Some(document) = &view.document else { return true };
    !is_of(lease, view) || document.lease_remaining(view.age) == baton::election::time::Span::ZERO
}

/// Whether it is this lease that the document shows.
fn is_of(lease: &KeptLease, view: &View) -> bool {
    let holder = view.document.as_ref().and_then(|document| document.lease_holder());
    holder.is_some_and(|holder| holder.incarnation == lease.credential.incarnation)
}
