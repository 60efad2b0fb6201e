//! Take-over after a kill on the file store, from the outside: when the successor's CMD runs.

use std::path::Path;
use std::time::Duration;

use baton::Coordinator;
use baton_election::{ElectionName, Span};
use baton_store::boot;

use crate::calibrate;
use crate::figures::{Figure, Five, percentile};
use crate::load::random;
use crate::runs::{ELECTION, Runs, Terms};

fn start(baton: &Path) -> std::io::Result<Runs> {
    let folder = calibrate::scratch()?;
    let store = format!("file:{}", folder.path().join("s").display());
    Runs::start(Terms { baton, store, ttl: "1s", lasts: None }, folder)
}

/// The warden releases.
pub(crate) fn after_run_is_killed(baton: &Path) -> std::io::Result<Figure> {
    let five = Five::of(|| {
        let mut runs = start(baton)?;
        runs.began_after(0)?;
        p99(100, || {
            settle();
            let killed = runs.kill_run()?;
            let began = runs.began_after(killed)?;
            runs.spawn()?;
            Ok(Duration::from_nanos(began.saturating_sub(killed)))
        })
    })?;
    let what = "take-over after SIGKILL of run, p99 of 100";
    Ok(Figure::at_most(what, five.median(), Duration::from_millis(100), five.range()))
}

/// Nobody releases: the lease runs out.
pub(crate) fn after_both_are_killed(baton: &Path) -> std::io::Result<Figure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let five = Five::of(|| {
        let mut runs = start(baton)?;
        runs.began_after(0)?;
        p99(60, || {
            settle();
            let killed = runs.kill_run_and_warden()?;
            let lease_end = runtime.block_on(lease_end(runs.store()))?;
            let began = runs.began_after(killed)?;
            runs.spawn()?;
            Ok(Duration::from_nanos(began.saturating_sub(lease_end)))
        })
    })?;
    let what = "take-over past the lease after SIGKILL of run and warden, p99 of 60";
    Ok(Figure::at_most(what, five.median(), Duration::from_millis(30), five.range()))
}

/// Of many events.
fn p99(rounds: usize, mut event: impl FnMut() -> std::io::Result<Duration>) -> std::io::Result<Duration> {
    let mut values = (0..rounds).map(|_| event()).collect::<std::io::Result<Vec<_>>>()?;
    Ok(percentile(&mut values, 0.99))
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
