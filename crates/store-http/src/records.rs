//! The records of a server, as they are read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use baton_api::endpoints::{Endpoint, Target};
use baton_api::records::RecordResponse;
use baton_api::{Memory, SharedMemory};
use baton_election::StoreInfo;
use baton_election::audit::Book;
use baton_election::time::{Span, WallTime};
use baton_store::toolbox::Kind;
use baton_store::{Key, Prefix, Reading, Record, StoreError, StoreUrl, Version, boot};

use crate::client::Client;
use crate::open::Settings;

/// A Baton server. Clones share its connections.
#[derive(Clone)]
pub struct HttpElections {
    pub(crate) client: Client,
    pub(crate) memory: Arc<SharedMemory>,
    /// What the store behind the server knows of itself, as it was last read.
    info: Arc<Mutex<Option<Arc<StoreInfo>>>>,
}

impl HttpElections {
    /// The server that `http://HOST:PORT` names. Asks nothing of it.
    pub fn open(url: &StoreUrl) -> Result<HttpElections, StoreError> {
        let (client, memory) = (Client::of(&Settings::of(url)?)?, Arc::new(SharedMemory::new(Memory::new())));
        Ok(HttpElections { client, memory, info: Arc::default() })
    }

    pub(crate) fn cached_info(&self) -> MutexGuard<'_, Option<Arc<StoreInfo>>> {
        self.info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn wall_now(&self) -> Result<Option<WallTime>, StoreError> {
        let date = self.client.date(&Endpoint::Store.target(&[])).await;
        let date = date.map_err(|fault| fault.of_reading(&self.client.base))?;
        let since_1970 = date.and_then(|date| date.duration_since(SystemTime::UNIX_EPOCH).ok());
        let millis = since_1970.and_then(|since| u64::try_from(since.as_millis()).ok());
        Ok(millis.map(WallTime::from_unix_millis))
    }

    pub(crate) async fn read_now(&self, key: &Key) -> Result<Reading, StoreError> {
        let asked_at = boot::now();
        let shown: RecordResponse = match record_target(key) {
            Some(target) => {
                self.client.get(&target).await.map_err(|fault| fault.of_reading(&self.client.base))?
            }
            // The server keeps its histories by itself.
            None => RecordResponse::none(),
        };
        let found = match (shown.record, shown.version) {
            (Some(record), Some(version)) => {
                let record = Record::from_json(key, record.get())
                    .map_err(|error| error.at(format!("{key} of {}", self.client.base)))?;
                Some((record, Version::new(&version)))
            }
            (_, _) => None,
        };
        let age = shown.age_ms.filter(|_| found.is_some()).map(Span::millis);
        Ok(Reading { found, age, trace: None, asked_at, received_at: boot::now() })
    }

    /// The keys of a kind, in order.
    pub(crate) async fn list_now(&self, prefix: &Prefix) -> Result<Vec<Key>, StoreError> {
        let target = match prefix {
            Prefix::Elections => Endpoint::Elections.target(&[]),
            Prefix::Candidates(election) => Endpoint::Candidates.target(&[election]),
            Prefix::Fences => Endpoint::Fences.target(&[]),
            Prefix::Audits => Endpoint::Audits.target(&[]),
            Prefix::Items(election, kind) => return self.names(election, *kind).await,
        };
        let mut keys: Vec<Key> = Vec::new();
        loop {
            let last = keys.last().cloned();
            let mut page = target.clone().with("limit", &PAGE);
            if let Some(last) = &last {
                page = page.with("after", &last.name());
            }
            let names: Vec<String> =
                self.client.get(&page).await.map_err(|fault| fault.of_reading(&self.client.base))?;
            keys.extend(names.iter().filter_map(|name| prefix.key(name).ok()));
            // A list that does not go on is no reason to ask for ever.
            if names.len() < PAGE || keys.last() <= last.as_ref() {
                return Ok(keys);
            }
        }
    }
}

/// The request that reads a record.
fn record_target(key: &Key) -> Option<Target> {
    Some(match key {
        Key::Store => Endpoint::Store.target(&[]),
        Key::Tokens => Endpoint::Tokens.target(&[]),
        Key::Election(election) => Endpoint::Election.target(&[election]),
        Key::Candidate(election, agent) => Endpoint::Candidate.target(&[election, agent]),
        Key::History(_) => return None,
        Key::Fence(resource) => Endpoint::Fence.target(&[resource]),
        Key::FenceLog(resource, part) => Endpoint::FenceLog.target(&[resource, part]),
        Key::Audit(Book::Store, part) => Endpoint::StoreAuditPart.target(&[part]),
        // It verifies those by itself.
        Key::Audit(Book::Tokens, _) => return None,
        Key::Audit(Book::Election(election), part) => Endpoint::AuditPart.target(&[election, part]),
        Key::Item(election, kind, item) => {
            let endpoint = match kind {
                Kind::Task => Endpoint::Task,
                Kind::Proposal => Endpoint::Proposal,
                Kind::Quota => Endpoint::Quota,
                Kind::Value => Endpoint::Value,
                Kind::Breaker => Endpoint::Breaker,
            };
            endpoint.target(&[election, item])
        }
    })
}

/// How many names are asked for at once.
const PAGE: usize = 1_000;

/// No longer than it asks for.
pub(crate) const AT_ONCE: Duration = Duration::ZERO;
