//! A process that campaigns for many elections at once by the library, and says when it leads each of them, until it is killed.

use std::io::Write;
use std::time::Duration;

use baton::{Bid, Campaign, Coordinator};
use baton_election::{AgentName, ElectionName, Span};
use baton_store::boot;

use crate::load::random;

/// The name of one of the elections.
pub(crate) fn election(number: usize) -> String {
    format!("crash-{number}")
}

/// `STORE AGENT TTL-MS COUNT`; says `leads NUMBER NS` for each.
pub(crate) fn campaign(arguments: &[String]) -> std::io::Result<()> {
    let [store, agent, ttl, count] = arguments else { return Err(std::io::ErrorKind::InvalidInput.into()) };
    let (Ok(agent), Ok(ttl), Ok(count)) = (AgentName::new(agent), ttl.parse(), count.parse::<usize>()) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let coordinator =
            Coordinator::connect(store).await.map_err(|error| std::io::Error::other(error.to_string()))?;
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..count {
            let bid = Bid { ttl: Some(Span::millis(ttl)), ..Bid::new(agent.clone()) };
            tasks.spawn(lead(coordinator.clone(), number, bid, Duration::from_millis(ttl)));
        }
        match tasks.join_next().await {
            Some(ended) => ended.map_err(std::io::Error::other)?,
            None => Ok(()),
        }
    })
}

async fn lead(coordinator: Coordinator, number: usize, bid: Bid, ttl: Duration) -> std::io::Result<()> {
    let Ok(name) = ElectionName::new(&election(number)) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    // Apart, so that not all leases are renewed at the same moments.
    tokio::time::sleep(random(ttl / 3)).await;
    let lead = coordinator.campaign(&name, Campaign::new(bid)).await;
    let leads = boot::now().as_nanos();
    let lead = lead.map_err(|error| std::io::Error::other(error.to_string()))?;
    {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "leads {number} {leads}")?;
        stdout.flush()?;
    }
    Err(std::io::Error::other(format!("election {number} was lost: {}", lead.lost().await)))
}
