//! Take-over after a kill on the file store, from the outside: when the successor's CMD runs.

use std::path::Path;
use std::time::Duration;

use baton::Coordinator;
use baton_election::{ElectionName, Span};
use baton_store::boot;

use crate::calibrate;
use crate::figures::{Figure, percentile, short};
use crate::load::random;
use crate::runs::{ELECTION, Runs, Terms};

fn start(baton: &Path) -> std::io::Result<Runs> {
    let folder = calibrate::scratch()?;
    let store = format!("file:{}", folder.path().join("s").display());
    Runs::start(Terms { baton, store, ttl: "1s", lasts: None }, folder)
}

/// The warden releases.
pub(crate) fn after_run_is_killed(baton: &Path) -> std::io::Result<Figure> {
    const ROUNDS: usize = 100;
    let mut runs = start(baton)?;
    runs.began_after(0)?;
    let mut values = Vec::new();
    for _ in 0..ROUNDS {
        settle();
        let killed = runs.kill_run()?;
        let began = runs.began_after(killed)?;
        values.push(Duration::from_nanos(began.saturating_sub(killed)));
        runs.spawn()?;
    }
    let beside = format!("p50 {} over {ROUNDS}", short(percentile(&mut values, 0.5)));
    let p99 = percentile(&mut values, 0.99);
    Ok(Figure::at_most("take-over after SIGKILL of run, p99", p99, Duration::from_millis(100), beside))
}

/// Nobody releases: the lease runs out.
pub(crate) fn after_both_are_killed(baton: &Path) -> std::io::Result<Figure> {
    const ROUNDS: usize = 60;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut runs = start(baton)?;
    runs.began_after(0)?;
    let mut values = Vec::new();
    for _ in 0..ROUNDS {
        settle();
        let killed = runs.kill_run_and_warden()?;
        let lease_end = runtime.block_on(lease_end(runs.store()))?;
        let began = runs.began_after(killed)?;
        values.push(Duration::from_nanos(began.saturating_sub(lease_end)));
        runs.spawn()?;
    }
    let beside = format!("p50 {} over {ROUNDS}", short(percentile(&mut values, 0.5)));
    let p99 = percentile(&mut values, 0.99);
    let what = "take-over after SIGKILL of run and warden, past the lease, p99";
    Ok(Figure::at_most(what, p99, Duration::from_millis(30), beside))
}

/// When the lease that stands in the store ends, on the boot-time clock.
async fn lease_end(store: &str) -> std::io::Result<u64> {
    let failed = |error: baton::Error| std::io::Error::other(error.to_string());
    let coordinator = Coordinator::connect(store).await.map_err(failed)?;
    let Ok(election) = ElectionName::new(ELECTION) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let asked = boot::now();
    let view = coordinator.view(&election).await.map_err(failed)?;
    let remaining = view.document.map_or(Span::ZERO, |document| document.lease_remaining(view.age));
    Ok((asked + remaining).as_nanos())
}

/// The moment of the kill is drawn at random, and the new candidate has time to get in line.
fn settle() {
    std::thread::sleep(Duration::from_millis(150) + random(Duration::from_millis(255)));
}
