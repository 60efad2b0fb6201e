//! The records of a server, as they are read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use baton_api::records::RecordResponse;
use baton_api::{Memory, SharedMemory};
use baton_election::StoreInfo;
use baton_election::audit::Book;
use baton_election::time::{Span, WallTime};
use baton_store::{Key, Prefix, Reading, Record, StoreError, StoreUrl, Version, boot};

use crate::client::{Client, segment};
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
        let date = self.client.date("/v1/store").await;
        let date = date.map_err(|fault| fault.of_reading(&self.client.base))?;
        let since_1970 = date.and_then(|date| date.duration_since(SystemTime::UNIX_EPOCH).ok());
        let millis = since_1970.and_then(|since| u64::try_from(since.as_millis()).ok());
        Ok(millis.map(WallTime::from_unix_millis))
    }

    pub(crate) async fn read_now(&self, key: &Key) -> Result<Reading, StoreError> {
        let asked_at = boot::now();
        let shown: RecordResponse = match path(key) {
            Some(path) => {
                self.client.get(&path).await.map_err(|fault| fault.of_reading(&self.client.base))?
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
        let path = match prefix {
            Prefix::Elections => "/v1/elections".to_string(),
            Prefix::Candidates(election) => format!("/v1/elections/{}/candidates", segment(election)),
            Prefix::Fences => "/v1/fences".to_string(),
            Prefix::Audits => "/v1/audits".to_string(),
            Prefix::Items(election, kind) => return self.names(election, *kind).await,
        };
        let mut keys: Vec<Key> = Vec::new();
        loop {
            let last = keys.last().cloned();
            let after = last.as_ref().map(|last| format!("&after={}", segment(&last.name())));
            let path = format!("{path}?limit={PAGE}{}", after.unwrap_or_default());
            let names: Vec<String> =
                self.client.get(&path).await.map_err(|fault| fault.of_reading(&self.client.base))?;
            keys.extend(names.iter().filter_map(|name| prefix.key(name).ok()));
            // A list that does not go on is no reason to ask for ever.
            if names.len() < PAGE || keys.last() <= last.as_ref() {
                return Ok(keys);
            }
        }
    }
}

/// Where a record is.
fn path(key: &Key) -> Option<String> {
    Some(match key {
        Key::Store => "/v1/store".to_string(),
        Key::Tokens => "/v1/tokens".to_string(),
        Key::Election(election) => format!("/v1/elections/{}", segment(election)),
        Key::Candidate(election, agent) => {
            format!("/v1/elections/{}/candidates/{}", segment(election), segment(agent))
        }
        Key::History(_) => return None,
        Key::Fence(resource) => format!("/v1/fences/{}", segment(resource)),
        Key::FenceLog(resource, part) => format!("/v1/fences/{}/log/{part}", segment(resource)),
        Key::Audit(Book::Store, part) => format!("/v1/audit/{part}"),
        // It verifies those by itself.
        Key::Audit(Book::Tokens, _) => return None,
        Key::Audit(Book::Election(election), part) => {
            format!("/v1/elections/{}/audit/{part}", segment(election))
        }
        Key::Item(election, kind, item) => {
            format!("/v1/elections/{}/{}/{}", segment(election), kind.plural(), segment(item))
        }
    })
}

/// How many names are asked for at once.
const PAGE: usize = 1_000;

/// No longer than it asks for.
pub(crate) const AT_ONCE: Duration = Duration::ZERO;
