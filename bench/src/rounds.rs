//! Rates: how much is done in a while, and what CPU that takes from the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::process::Process;

/// How long a load runs before it counts.
const WARM_UP: Duration = Duration::from_millis(300);
/// How long it counts.
const LASTS: Duration = Duration::from_millis(1_500);
/// How long those who are asked to stop may take: a bound on a hang.
const HANG: Duration = Duration::from_secs(30);

/// What those who make a load have in common.
#[derive(Default)]
pub(crate) struct Tally {
    count: AtomicU64,
    over: AtomicBool,
}

impl Tally {
    /// So much more was done. Says whether to go on.
    pub(crate) fn add(&self, more: u64) -> bool {
        self.count.fetch_add(more, Ordering::Relaxed);
        !self.over.load(Ordering::Relaxed)
    }
}

/// Those who make a load.
pub(crate) type Clients = JoinSet<std::io::Result<()>>;

/// What came of a load.
#[derive(Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) per_second: f64,
    /// The server's, for each.
    pub(crate) cpu: Duration,
}

/// Lets the clients ask for a while, and stops them between two requests.
pub(crate) async fn load(
    server: &Process,
    tally: &Arc<Tally>,
    mut clients: Clients,
) -> std::io::Result<Rate> {
    undisturbed(&mut clients, WARM_UP).await?;
    let (cpu, count, begun) = (server.cpu()?, tally.count.load(Ordering::Relaxed), Instant::now());
    undisturbed(&mut clients, LASTS).await?;
    let count = tally.count.load(Ordering::Relaxed) - count;
    let (took, cpu) = (begun.elapsed(), server.cpu()?.saturating_sub(cpu));
    tally.over.store(true, Ordering::Relaxed);
    let ended = tokio::time::timeout(HANG, async {
        while let Some(ended) = clients.join_next().await {
            ended.map_err(std::io::Error::other)??;
        }
        Ok(())
    });
    ended.await.unwrap_or_else(|_| Err(std::io::Error::other("a client hangs")))?;
    if count == 0 {
        return Err(std::io::Error::other("nothing was done"));
    }
    Ok(Rate { per_second: count as f64 / took.as_secs_f64(), cpu: cpu.div_f64(count as f64) })
}

/// Nobody ends while the load lasts, unless something failed.
async fn undisturbed(clients: &mut Clients, span: Duration) -> std::io::Result<()> {
    match tokio::time::timeout(span, clients.join_next()).await {
        Err(_) => Ok(()),
        Ok(Some(ended)) => {
            ended.map_err(std::io::Error::other)??;
            Err(std::io::Error::other("a client ended by itself"))
        }
        Ok(None) => Err(std::io::Error::other("there is no client")),
    }
}
