//! The records as the server's executor sees them, for what the engine does not decide: fences, candidates, toolboxes, orders.
//!
//! Elections are read from memory and are not written through here. Candidates live in memory only. Everything else goes to the store
//! behind the engine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_election::document::Transition;
use baton_election::{Candidate, ElectionName, ResourceName};
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Expect, Key, Persistence, Prefix, Reading, Record, Store,
    StoreError, StoreProperties, Swapped, Version, boot,
};

use crate::candidates::{Candidates, NoRoom};
use crate::engine::{Engine, View, stored_info};
use crate::http::Register;
use crate::own_lease::OwnLease;
use crate::tokens;

/// The store that a server's executor works on.
pub(crate) struct EngineStore {
    engine: Engine,
    own_lease: OwnLease,
    candidates: Candidates,
    register: Arc<Register>,
    /// To which elections fences are bound, as far as they were read or written here.
    bound: Mutex<HashMap<ResourceName, ElectionName>>,
    /// Who changes what the store knows of itself does so alone.
    info: tokio::sync::Mutex<()>,
}

/// The most fences of which it is remembered to which election they are bound. Others are read.
const BOUND: usize = 200_000;

impl EngineStore {
    pub(crate) fn new(engine: Engine, own_lease: OwnLease, register: Arc<Register>) -> EngineStore {
        let info = tokio::sync::Mutex::default();
        EngineStore {
            engine,
            own_lease,
            candidates: Candidates::default(),
            register,
            bound: Mutex::default(),
            info,
        }
    }

    /// Whether what this server says holds: it is the active one, or alone.
    pub(crate) fn holds(&self) -> bool {
        self.own_lease.holds() && !self.engine.is_deposed()
    }

    /// From here on nothing is written.
    pub(crate) fn end(&self) {
        self.own_lease.end();
    }

    /// Swaps in the store behind it, in this server's turn only. What waited in a queue until the turn was over is not carried out: another server has
    /// looked since. It is not worth another try either.
    async fn swap_while_active(
        &self,
        key: &Key,
        expect: Expect,
        next: &Record,
        clock: AgeStamp,
        persistence: Persistence,
    ) -> Result<Swapped, StoreError> {
        if self.engine.observes() {
            return Err(StoreError::Refused {
                place: key.to_string(),
                why: "this server only observes".to_string(),
                hint: "act in the store itself: baton --store …".to_string(),
            });
        }
        if self.holds() {
            let swapped = self.engine.store().swap(key, expect, next, clock, persistence).await;
            if swapped.is_ok() {
                self.engine.census().note(key, next);
            }
            return swapped;
        }
        Err(StoreError::Refused {
            place: key.to_string(),
            why: "this server is no longer the active one".to_string(),
            hint: "ask again: the servers tell which one is active".to_string(),
        })
    }

    fn bound(&self) -> MutexGuard<'_, HashMap<ResourceName, ElectionName>> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To which election a fence is bound, and whether it had to be read.
    pub(crate) async fn election_of(
        &self,
        resource: &ResourceName,
    ) -> Result<(Option<ElectionName>, bool), StoreError> {
        let known = self.bound().get(resource).cloned();
        if known.is_some() {
            return Ok((known, false));
        }
        let found = self.engine.store().read(&Key::Fence(resource.clone())).await?.found;
        let election = found.as_ref().and_then(|(record, _)| self.remember(resource, record));
        Ok((election, true))
    }

    fn remember(&self, resource: &ResourceName, record: &Record) -> Option<ElectionName> {
        let Record::Fence(fence) = record else { return None };
        let mut bound = self.bound();
        if bound.len() < BOUND || bound.contains_key(resource) {
            bound.insert(resource.clone(), fence.election.clone());
        }
        Some(fence.election.clone())
    }

    /// Swaps a fence. What came of it is remembered, if that is known.
    async fn swap_fence(
        &self,
        key: &Key,
        resource: &ResourceName,
        expect: Expect,
        next: &Record,
        clock: AgeStamp,
        persistence: Persistence,
    ) -> Result<Swapped, StoreError> {
        let swapped = self.swap_while_active(key, expect, next, clock, persistence).await;
        match &swapped {
            Ok(_) => drop(self.remember(resource, next)),
            Err(_) => drop(self.bound().remove(resource)),
        }
        swapped
    }

    /// Whether one more may stand. A candidate that stands already may go on.
    pub(crate) fn has_room_for(&self, candidate: &Candidate) -> Result<(), NoRoom> {
        self.candidates.has_room(candidate)
    }

    /// How many stand for which elections.
    pub(crate) fn standing(&self) -> Vec<(ElectionName, u64)> {
        self.candidates.standing()
    }

    async fn read_election(&self, election: &ElectionName) -> Result<Reading, StoreError> {
        let asked_at = boot::now();
        let View { document, age } = self.engine.view(election).await?;
        let found = document.map(|mut document| {
            // A client of this server is told how old the lease is. A client that reads the store behind it
            // is not.
            document.server = None;
            let version = Version::new(&format!("{}.{}", document.epoch, document.beat));
            (Record::Election(Box::new(document)), version)
        });
        let age = found.is_some().then_some(age);
        Ok(Reading { found, age, trace: None, asked_at, received_at: boot::now() })
    }
}

impl EngineStore {
    /// Whatever came of it, the engine then knows what the store knows.
    async fn swap_info(&self, expect: Expect, next: &Record, clock: AgeStamp) -> Result<Swapped, StoreError> {
        let _alone = self.info.lock().await;
        let swapped = self.swap_while_active(&Key::Store, expect, next, clock, Persistence::Durable).await;
        if let Some(info) = stored_info(&**self.engine.store()).await? {
            self.engine.set_info(info);
        }
        swapped
    }

    /// Whatever came of it, those are let in whom the store knows.
    async fn swap_tokens(
        &self,
        expect: Expect,
        next: &Record,
        clock: AgeStamp,
    ) -> Result<Swapped, StoreError> {
        let _alone = self.info.lock().await;
        let swapped = self.swap_while_active(&Key::Tokens, expect, next, clock, Persistence::Durable).await;
        let refreshed = tokens::refresh(&**self.engine.store(), &self.register).await;
        match (swapped, refreshed) {
            // It is in the store, and not yet in force here: whoever asked asks again.
            (Ok(_), Err(error)) => {
                Err(StoreError::Unknown { location: self.location(), why: error.to_string() })
            }
            (swapped, _) => swapped,
        }
    }
}

impl Store for EngineStore {
    fn location(&self) -> String {
        self.engine.store().location()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        match key {
            Key::Election(election) => Box::pin(self.read_election(election)),
            Key::Candidate(election, agent) => {
                Box::pin(async move { Ok(self.candidates.read(election, agent)) })
            }
            Key::Store
            | Key::Tokens
            | Key::History(_)
            | Key::Fence(_)
            | Key::FenceLog(..)
            | Key::Audit(..)
            | Key::Item(..) => self.engine.store().read(key),
        }
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        match key {
            Key::Election(election) => Box::pin(async move {
                Err(StoreError::Refused {
                    place: election.to_string(),
                    why: "the server decides on its elections itself".to_string(),
                    hint: "send it the command".to_string(),
                })
            }),
            Key::Candidate(election, agent) => {
                Box::pin(async move { self.candidates.swap(election, agent, &expect, next, clock) })
            }
            Key::Store => Box::pin(self.swap_info(expect, next, clock)),
            Key::Tokens => Box::pin(self.swap_tokens(expect, next, clock)),
            Key::Fence(resource) => {
                Box::pin(self.swap_fence(key, resource, expect, next, clock, persistence))
            }
            Key::History(_) | Key::FenceLog(..) | Key::Audit(..) | Key::Item(..) => {
                Box::pin(self.swap_while_active(key, expect, next, clock, persistence))
            }
        }
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        match prefix {
            Prefix::Candidates(election) => {
                Box::pin(async move { Ok(self.candidates.list(election, None, usize::MAX)) })
            }
            Prefix::Elections | Prefix::Fences | Prefix::Audits | Prefix::Items(..) => {
                self.engine.store().list(prefix)
            }
        }
    }

    fn list_part<'a>(
        &'a self,
        prefix: &'a Prefix,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        match prefix {
            Prefix::Candidates(election) => {
                Box::pin(async move { Ok(self.candidates.list(election, after, limit)) })
            }
            Prefix::Elections | Prefix::Fences | Prefix::Audits | Prefix::Items(..) => {
                self.engine.store().list_part(prefix, after, limit)
            }
        }
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        self.engine.store().watch(key)
    }

    fn properties(&self) -> StoreProperties {
        self.engine.store().properties()
    }

    fn native_history<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Transition>, StoreError>> {
        self.engine.store().native_history(election, limit)
    }
}

#[cfg(test)]
mod tests {
    use baton_election::{Epoch, Fence, StoreId, Tokens};
    use baton_store::MemoryStore;

    use super::*;

    fn fence(resource: &ResourceName, election: &ElectionName) -> Record {
        let new = Fence::new(resource.clone(), StoreId([0; 8]), election.clone());
        Record::Fence(Box::new(Fence { highest: Epoch(1), ..new }))
    }

    #[tokio::test]
    async fn to_which_election_a_fence_is_bound_is_read_once() {
        let store = Arc::new(MemoryStore::default());
        let (resource, election) = (ResourceName::new("db").unwrap(), ElectionName::new("e").unwrap());
        let record = fence(&resource, &election);
        let key = Key::Fence(resource.clone());
        store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await.unwrap();
        let engine = Engine::start(store).await.unwrap();
        let register = Arc::new(Register::new(&Tokens::default(), false, None));
        let store = EngineStore::new(engine, OwnLease::not_needed(), register);
        assert_eq!(store.election_of(&resource).await.unwrap(), (Some(election.clone()), true));
        assert_eq!(store.election_of(&resource).await.unwrap(), (Some(election.clone()), false));
        // What is written here is known without being read.
        let (other, key) =
            (ResourceName::new("files").unwrap(), Key::Fence(ResourceName::new("files").unwrap()));
        let record = fence(&other, &election);
        store.swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await.unwrap();
        assert_eq!(store.election_of(&other).await.unwrap(), (Some(election), false));
        let none = ResourceName::new("none").unwrap();
        assert_eq!(store.election_of(&none).await.unwrap(), (None, true));
    }
}
