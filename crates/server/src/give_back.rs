//! The way back from servers: elections that they decided are given back to the clients of the store.
//!
//! Assumes what a store guarantees. Guarantees that no server is active meanwhile, since this holds the servers' own lease; that a lease which
//! a server promised is never cut short, since each is written with its full length; and that what a former server had decided and not
//! written does not land, since each election is swapped. Does not tell the leaders: one that renewed at a server leads until its own
//! deadline, unless its client renews in the store itself.

use std::sync::Arc;
use std::time::Duration;

use baton::{Bid, Campaign, Coordinator, Error, Leadership, Memory};
use baton_election::document::Leader;
use baton_election::time::Span;
use baton_election::{AgentName, ElectionName, InvalidName};
use baton_store::{AgeStamp, Expect, Key, Persistence, Prefix, Record, Store, StoreError, boot};

/// How often it is tried to give one election back that others change meanwhile.
const TRIES: u32 = 8;
/// Between two of them.
const BETWEEN: Duration = Duration::from_millis(20);
/// As whom this takes part in the servers' election.
const NAME: &str = "server-that-gives-back";
/// How often it is looked whether a server is active.
const LOOK: Duration = Duration::from_millis(200);
/// How much longer than the lease of a server that has died its end is waited for.
const MARGIN: Span = Span::secs(2);

/// Why elections were not given back. Those that were before it are.
#[derive(Debug, thiserror::Error)]
pub enum GiveBackError {
    /// A server is active.
    #[error("the server at {0} is active")]
    Active(String),
    /// The servers' own lease was lost meanwhile.
    #[error("the servers' lease was lost: {0}")]
    Lost(String),
    /// The store failed, or refused.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<StoreError> for GiveBackError {
    fn from(error: StoreError) -> GiveBackError {
        GiveBackError::Failed(error.into())
    }
}

impl From<InvalidName> for GiveBackError {
    fn from(error: InvalidName) -> GiveBackError {
        GiveBackError::Failed(error.into())
    }
}

/// Gives all elections that servers decide back to the clients of the store, and returns which. Holds the servers' lease of this length
/// meanwhile. May be repeated: what was given back stays so.
pub async fn give_back(store: Arc<dyn Store>, ttl: Span) -> Result<Vec<ElectionName>, GiveBackError> {
    let coordinator = Coordinator::with_store(Arc::clone(&store), Memory::new());
    let lead = be_the_only_server(&coordinator, ttl).await?;
    let mut given_back = Vec::new();
    for key in store.list(&Prefix::Elections).await? {
        let Key::Election(election) = key else { continue };
        if election.as_str() != baton::SERVERS && give_one_back(&*store, &lead, &election).await? {
            given_back.push(election);
        }
    }
    lead.release("elections were given back to the clients of the store").await?;
    Ok(given_back)
}

/// Becomes the active server. One that has died is waited for until its lease ends; one that renews is not.
async fn be_the_only_server(coordinator: &Coordinator, ttl: Span) -> Result<Leadership, GiveBackError> {
    let servers = ElectionName::new(baton::SERVERS)?;
    let view = coordinator.view(&servers).await?;
    let left = view.document.as_ref().map_or(Span::ZERO, |document| document.lease_remaining(view.age));
    let task = Some("giving elections back".to_string());
    let bid = Bid { ttl: Some(ttl), task, ..Bid::new(AgentName::new(NAME)?) };
    let campaign = Campaign { wait: Some(left.plus(MARGIN)), ..Campaign::new(bid) };
    let before = view.document.map_or(0, |document| document.beat);
    let refused = tokio::select! {
        campaigned = coordinator.campaign(&servers, campaign) => match campaigned {
            Ok(lead) => return Ok(lead),
            Err(error) => error,
        },
        contact = renewing(coordinator, &servers, before) => return Err(GiveBackError::Active(contact)),
    };
    match coordinator.view(&servers).await?.leader() {
        Some(leader) => Err(GiveBackError::Active(named(leader))),
        None => Err(refused.into()),
    }
}

/// Waits until the active server has renewed its lease, and says where it is reached.
async fn renewing(coordinator: &Coordinator, servers: &ElectionName, before: u64) -> String {
    loop {
        tokio::time::sleep(LOOK).await;
        let Ok(view) = coordinator.view(servers).await else { continue };
        let renewed = view.document.as_ref().is_some_and(|document| document.beat > before);
        if let Some(leader) = view.leader().filter(|leader| renewed && leader.agent.as_str() != NAME) {
            return named(leader);
        }
    }
}

/// Where a server is reached, or else how it is called.
fn named(leader: &Leader) -> String {
    leader.contact.as_deref().map_or_else(|| leader.agent.to_string(), ToString::to_string)
}

/// Gives one election back. Says whether servers had it.
async fn give_one_back(
    store: &dyn Store,
    lead: &Leadership,
    election: &ElectionName,
) -> Result<bool, GiveBackError> {
    let key = Key::Election(election.clone());
    for tried in 0..TRIES {
        tokio::time::sleep(BETWEEN * tried).await;
        let Some((Record::Election(document), version)) = store.read(&key).await?.found else {
            return Ok(false);
        };
        if document.server.is_none() {
            // A swap whose answer was lost has landed.
            return Ok(tried > 0);
        }
        if !lead.ensure(Duration::ZERO) {
            return Err(GiveBackError::Lost(lead.lost().await));
        }
        let next = document.given_back(boot::wall());
        let clock = if next.beat == document.beat { AgeStamp::Preserve } else { AgeStamp::Reset };
        let record = Record::Election(Box::new(next));
        match store.swap(&key, Expect::Version(version), &record, clock, Persistence::Synced).await {
            Ok(_) => return Ok(true),
            // The next look shows what became of it.
            Err(StoreError::Conflict | StoreError::Unknown { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Unavailable {
        location: store.location(),
        why: format!("others keep changing the election `{election}`"),
        hint: "try again".to_string(),
    }
    .into())
}
