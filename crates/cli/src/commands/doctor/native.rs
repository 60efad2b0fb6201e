//! The store's own elections: there are no records to look at, and much cannot be done.

use std::time::Instant;

use baton::election::time::Span;
use baton::election::{AgentName, ElectionName};
use baton::{Bid, Coordinator, Error, mint_credential};

use super::write::shown;
use super::{CheckReport, count};
use crate::output::Failure;

/// The most candidates of one election that are counted.
const MAX_CANDIDATES: usize = 1_000;
/// The lease that is tried, should the store fail to take it back.
const SCRATCH: Span = Span::secs(5);

/// Says whether the store answered.
pub(super) async fn check(
    chart: &mut CheckReport,
    coordinator: &Coordinator,
    try_write: bool,
) -> Result<bool, Failure> {
    let store = coordinator.backend();
    let elections = match coordinator.elections().await {
        Ok(elections) => elections,
        Err(error) => {
            chart.fail_with("store", &error)?;
            return Ok(false);
        }
    };
    chart.ok(
        "store",
        format!("{}: the store's own elections; {}", store.location(), store.properties().age),
    )?;
    chart.ok(
        "limits",
        "run, acquire, renew, release, status and watch work here; there are no policies, checkpoints, operators or fences",
    )?;
    let mut candidates = 0;
    for election in &elections {
        match coordinator.candidates().line(election, MAX_CANDIDATES).await {
            Ok(line) => candidates += line.len(),
            Err(error) => {
                chart.fail_with("elections", &error)?;
                return Ok(false);
            }
        }
    }
    let (elections, candidates) =
        (count(elections.len(), "election", "elections"), count(candidates, "candidate", "candidates"));
    chart.ok("elections", format!("{elections} with {candidates}"))?;
    if try_write {
        write(chart, coordinator).await?;
    }
    Ok(true)
}

/// Leads an election that nobody else knows of, and leaves it.
async fn write(chart: &mut CheckReport, coordinator: &Coordinator) -> Result<(), Failure> {
    let start = Instant::now();
    match lead_once(coordinator).await {
        Ok(()) => chart.ok("write", format!("stood, led and left in {}", shown(start.elapsed()))),
        Err(error) => chart.fail_with("write", &error),
    }
}

async fn lead_once(coordinator: &Coordinator) -> Result<(), Error> {
    let election = ElectionName::new(&format!("baton-doctor-{}", std::process::id()))?;
    let bid = Bid { ttl: Some(SCRATCH), ..Bid::new(AgentName::new("baton-doctor")?) };
    let grant = coordinator.acquire(&election, &bid, mint_credential()?, None, None).await?;
    coordinator.release(&election, grant.epoch, grant.credential, None).await?;
    Ok(())
}
