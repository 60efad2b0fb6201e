//! A thousand who wait for one election, whose leader resigns: when all know who leads next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::elector;
use super::etcd::Etcd;
use crate::line::{Line, get};
use crate::server::{Server, acquire, epoch, release, renew};
use crate::voices::Voices;

/// The number of candidates that wait.
const CROWD: usize = 1_000;
/// No lease ends meanwhile.
const TTL: Duration = Duration::from_secs(60);
/// How long anything is waited for: a bound on a hang.
const HANG: Duration = Duration::from_secs(100);
/// By when everybody who asked is in line.
const IN_LINE: Duration = Duration::from_millis(700);

/// What came of one resignation.
pub(crate) struct Told {
    /// From the call of release until all knew.
    pub(crate) took: Duration,
    /// The candidates that got an answer although it was not their turn.
    pub(crate) failed: usize,
}

/// Ours: each waits on a connection of its own, and watches on another.
pub(crate) async fn ours(server: &Server, round: usize) -> std::io::Result<Told> {
    match tokio::time::timeout(HANG, resign(server, &format!("crowd-{round}"))).await {
        Ok(told) => told,
        Err(_) => Err(std::io::Error::other("not all of a crowd were told who leads")),
    }
}

async fn resign(server: &Server, election: &str) -> std::io::Result<Told> {
    let ttl_ms = u64::try_from(TTL.as_millis()).unwrap_or(u64::MAX);
    let mut leader = Line::open(&server.address).await?;
    let first = epoch(leader.done(&acquire(election, 0, ttl_ms, 0)).await?)?;
    let answered = Arc::new(AtomicUsize::new(0));
    let (mut watchers, mut waiters) = (JoinSet::new(), JoinSet::new());
    let next = format!("\"epoch\":{}", first + 1).into_bytes();
    for number in 1..=CROWD {
        let mut watcher = Line::open(&server.address).await?;
        watcher.send(&get(&format!("/v1/elections/{election}/watch"))).await?;
        watcher.hears(b"event: state").await?;
        let next = next.clone();
        watchers.spawn(async move { watcher.hears(&next).await.map(|()| Instant::now()) });
        let mut waiter = Line::open(&server.address).await?;
        waiter.send(&acquire(election, number, ttl_ms, ttl_ms)).await?;
        waiters.spawn(lead(waiter, election.to_string(), number, Arc::clone(&answered)));
    }
    tokio::time::sleep(IN_LINE).await;
    let begun = Instant::now();
    leader.done(&release(election, 0, first)).await?;
    let Some(leads) = waiters.join_next().await else { return Err(std::io::Error::other("nobody waits")) };
    let mut last = leads.map_err(std::io::Error::other)??;
    while let Some(told) = watchers.join_next().await {
        last = last.max(told.map_err(std::io::Error::other)??);
    }
    Ok(Told { took: last - begun, failed: answered.load(Ordering::Relaxed) - 1 })
}

/// Waits for its turn, and claims what it is offered.
async fn lead(
    mut line: Line,
    election: String,
    number: usize,
    answered: Arc<AtomicUsize>,
) -> std::io::Result<Instant> {
    let (status, body) = line.answer().await?;
    answered.fetch_add(1, Ordering::Relaxed);
    if status != 200 {
        let body = String::from_utf8_lossy(body);
        return Err(std::io::Error::other(format!("who waits was refused: {status}: {body}")));
    }
    let epoch = epoch(body)?;
    line.done(&renew(&election, number, epoch)).await?;
    Ok(Instant::now())
}

/// etcd's own recipe.
pub(crate) fn recipe(etcd: &Etcd, round: usize) -> std::io::Result<Duration> {
    let mut voices = Voices::new()?;
    let mut command = elector(&etcd.address, &format!("crowd-{round}"), "peer", TTL)?;
    voices.start(command.args(["--crowd", &CROWD.to_string()]))?;
    let said = voices.next(HANG, "not all of the recipe's crowd were told who leads")?;
    let took = said.line.strip_prefix("crowd peer ").and_then(|took| took.parse().ok());
    took.map(Duration::from_nanos)
        .ok_or_else(|| std::io::Error::other(format!("the recipe's crowd said {}", said.line)))
}
