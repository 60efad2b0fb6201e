//! The records of a server, as they are read.

use std::time::{Duration, SystemTime};

use baton_api::records::RecordResponse;
use baton_election::ElectionName;
use baton_election::audit::Book;
use baton_election::document::Transition;
use baton_election::time::{Span, WallTime};
use baton_store::waiting::Waiters;
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Decider, Deletion, Durability, Expect, HistoryKept, Key,
    Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, StoreUrl, Swapped, Version,
    Watching, boot,
};

use crate::client::{Client, segment};
use crate::open::Settings;
use crate::watch;

/// A Baton server. Clones share its connections.
#[derive(Clone)]
pub struct HttpStore {
    pub(crate) client: Client,
}

impl HttpStore {
    /// The server that `http://HOST:PORT` names. Asks nothing of it.
    pub fn open(url: &StoreUrl) -> Result<HttpStore, StoreError> {
        Ok(HttpStore { client: Client::of(&Settings::of(url)?)? })
    }

    async fn read_now(&self, key: &Key) -> Result<Reading, StoreError> {
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

    /// At most so many keys of a kind, in order: the first, or those after this one.
    async fn list_now(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, StoreError> {
        let path = match prefix {
            Prefix::Elections => "/v1/elections".to_string(),
            Prefix::Candidates(election) => format!("/v1/elections/{}/candidates", segment(election)),
            Prefix::Fences => "/v1/fences".to_string(),
            Prefix::Audits => "/v1/audits".to_string(),
            Prefix::Items(election, kind) => return self.names(election, *kind, after, limit).await,
        };
        let mut keys: Vec<Key> = Vec::new();
        while keys.len() < limit {
            let asked = (limit - keys.len()).min(PAGE);
            let last = keys.last().or(after).cloned();
            let after = last.as_ref().map(|last| format!("&after={}", segment(&last.name())));
            let path = format!("{path}?limit={asked}{}", after.unwrap_or_default());
            let names: Vec<String> =
                self.client.get(&path).await.map_err(|fault| fault.of_reading(&self.client.base))?;
            keys.extend(names.iter().filter_map(|name| prefix.key(name).ok()));
            // A list that does not go on is no reason to ask for ever.
            if names.len() < asked || keys.last() <= last.as_ref() {
                break;
            }
        }
        Ok(keys)
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

impl Store for HttpStore {
    fn location(&self) -> String {
        self.client.base.clone()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(self.read_now(key))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        _expect: Expect,
        _next: &'a Record,
        _clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            Err(StoreError::Refused {
                place: format!("{key} of {}", self.client.base),
                why: "a server decides by itself, and takes no records".to_string(),
                hint: "send it a command".to_string(),
            })
        })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(self.list_now(prefix, None, usize::MAX))
    }

    fn list_part<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(self.list_now(prefix, after, limit))
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(async move {
            match key {
                Key::Election(election) => watch::watch(&self.client, election).await,
                Key::Store
                | Key::Tokens
                | Key::Candidate(..)
                | Key::History(_)
                | Key::Fence(_)
                | Key::FenceLog(..)
                | Key::Audit(..)
                | Key::Item(..) => Ok(watch::polled()),
            }
        })
    }

    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        Box::pin(async move {
            let date = self.client.date("/v1/store").await;
            let date = date.map_err(|fault| fault.of_reading(&self.client.base))?;
            let since_1970 = date.and_then(|date| date.duration_since(SystemTime::UNIX_EPOCH).ok());
            let millis = since_1970.and_then(|since| u64::try_from(since.as_millis()).ok());
            Ok(millis.map(WallTime::from_unix_millis))
        })
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "the server's boot-time clock",
            stamped: true,
            watch: Watching::Pushed,
            durability: Durability::Synced,
            deletion: Deletion::Impossible,
            history: HistoryKept::Native,
            partition: "a client that cannot reach the server can neither take nor renew a lease",
            cost: Cost { per_renewal: 1, looks_per_hour: 0 },
        }
    }

    fn waiters(&self) -> Option<&dyn Waiters> {
        Some(self)
    }

    fn decider(&self) -> Option<&dyn Decider> {
        Some(self)
    }

    fn native_history<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Transition>, StoreError>> {
        Box::pin(async move {
            let path = format!("/v1/elections/{}/history?limit={limit}", segment(election));
            self.client.get(&path).await.map_err(|fault| fault.of_reading(&self.client.base))
        })
    }
}

/// How many names are asked for at once.
const PAGE: usize = 1_000;

/// No longer than it asks for.
pub(crate) const AT_ONCE: Duration = Duration::ZERO;
