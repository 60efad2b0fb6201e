//! The store itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_election::{ElectionName, Epoch, Span, StoreId, StoreInfo, WallTime};
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Key,
    Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, Swapped, Trace, Version,
    Watching, boot,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::fault::{self, Operation};
use crate::mark::{MARK, Marks};
use crate::owner::Owner;
use crate::readiness::Readiness;
use crate::shape::{self, KIND, LeaseBase};
use crate::stamp::Stamps;
use crate::version::LeaseVersion;
use crate::watch::{self, WatchedKind};
use crate::{config_map, name};

/// How long anything that is asked of the store may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How many objects are listed at a time.
const PAGE: u32 = 500;
/// Who changes fields, as the apiserver notes it.
const MANAGER: &str = "baton";

/// A store in a namespace of Kubernetes. Clones share a client.
///
/// A value belongs to the tokio runtime that it is opened in.
#[derive(Clone)]
pub struct KubernetesStore {
    inner: Arc<Inner>,
}

/// What the clones of a store share.
pub(crate) struct Inner {
    client: Client,
    namespace: String,
    location: String,
    /// The same with the apiserver's address, for whoever must look why it cannot be reached.
    reached: String,
    owner: Owner,
    readiness: Readiness,
    /// The namespace is there, or whether it is cannot be found out.
    there: AtomicBool,
    pub(crate) marks: Marks,
    pub(crate) stamps: Stamps,
    limit: Duration,
}

impl KubernetesStore {
    /// `anonymous` reaches the same apiserver as `client`, without credentials.
    pub(crate) fn new(
        client: Client,
        anonymous: Client,
        namespace: String,
        (location, server): (String, &str),
        owner: Owner,
    ) -> KubernetesStore {
        let inner = Inner {
            client,
            namespace,
            reached: format!("{location} at {server}"),
            location,
            owner,
            readiness: Readiness::new(anonymous),
            there: AtomicBool::new(false),
            marks: Marks::default(),
            stamps: Stamps::begin(),
            limit: LIMIT,
        };
        KubernetesStore { inner: Arc::new(inner) }
    }

    /// The same store with another bound on everything that is asked of it than 10 s. Only right after opening.
    #[must_use]
    pub fn limited_to(mut self, limit: Duration) -> KubernetesStore {
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.limit = limit;
        }
        self
    }
}

impl Inner {
    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Bounds an operation as a whole, however many requests it takes.
    async fn within<T>(
        &self,
        doing: Operation,
        operation: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match tokio::time::timeout(self.limit, operation).await {
            Ok(outcome) => outcome,
            Err(_) => Err(fault::silence(&self.reached, doing, self.limit)),
        }
    }

    /// Carries out a request, and says what its failure means.
    pub(crate) async fn ask<T>(
        &self,
        doing: Operation,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, StoreError> {
        match request.await {
            Ok(answer) => {
                self.readiness.let_in();
                Ok(answer)
            }
            Err(error) if fault::is_denial(&error) && !self.readiness.means_it().await => {
                Err(fault::premature(&self.location, &error))
            }
            Err(error) => Err(fault::of(&self.reached, doing, &error)),
        }
    }

    /// Refuses a namespace that is not there, which looks empty to a client that may read in all of them.
    ///
    /// Asked once, by a client that has found nothing. A client with a Role in this namespace alone need not
    /// be allowed to ask: the Role is not there either, and the client misses it before this.
    async fn found_nothing(&self) -> Result<(), StoreError> {
        if self.there.load(Ordering::Relaxed) {
            return Ok(());
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces.get_metadata(&self.namespace).await {
            Err(error) if !fault::is_denial(&error) => {
                return Err(fault::of(&self.reached, Operation::Reading, &error));
            }
            Ok(_) | Err(_) => self.there.store(true, Ordering::Relaxed),
        }
        Ok(())
    }

    pub(crate) fn place(&self, kind: &str, name: &str) -> String {
        format!("{kind} {name} in namespace {}", self.namespace)
    }

    /// A Lease, or the resourceVersion at which there was none.
    async fn lease(&self, name: &str) -> Result<Result<Lease, u64>, StoreError> {
        let leases = self.leases();
        if let Some(lease) = self.ask(Operation::Reading, get(&leases, name)).await? {
            return Ok(Ok(lease));
        }
        // A list without a version is as new as the moment, and says what moment that is.
        let only = ListParams::default().fields(&watch::only(name));
        let list = self.ask(Operation::Reading, leases.list(&only)).await?;
        let place = self.place("Lease", name);
        match list.items.into_iter().next() {
            Some(lease) => Ok(Ok(lease)),
            None => Ok(Err(shape::resource_version(list.metadata.resource_version.as_deref(), &place)?)),
        }
    }

    /// The record of a key, in the ConfigMap of this name.
    pub(crate) async fn config_map(
        &self,
        key: &Key,
        name: String,
    ) -> Result<Option<(Record, Version)>, StoreError> {
        let Some(map) = self.ask(Operation::Reading, get(&self.config_maps(), &name)).await? else {
            return Ok(None);
        };
        let record = config_map::read(key, &map, &self.place("ConfigMap", &name))?;
        let version = Version::new(&map.resource_version().unwrap_or_default());
        Ok(Some((record, version)))
    }

    /// What the store knows of itself: a Lease on which no Baton has written says nothing of it.
    async fn info(&self) -> Result<StoreInfo, StoreError> {
        Ok(match self.config_map(&Key::Store, name::config_map(&Key::Store)).await? {
            Some((Record::Store(info), _)) => info,
            Some(_) | None => nothing_known(),
        })
    }

    async fn read(&self, key: &Key) -> Result<Reading, StoreError> {
        let asked_at = boot::now();
        let (found, trace) = match key {
            Key::Election(election) => self.read_election(election).await?,
            Key::Fence(_) => (self.fence(key).await?, None),
            Key::Store
            | Key::Tokens
            | Key::Candidate(..)
            | Key::History(_)
            | Key::FenceLog(..)
            | Key::Audit(..)
            | Key::Item(..) => (self.config_map(key, name::config_map(key)).await?, None),
        };
        match found {
            Some(_) => self.there.store(true, Ordering::Relaxed),
            None => self.found_nothing().await?,
        }
        Ok(Reading { found, age: None, trace, asked_at, received_at: boot::now() })
    }

    async fn read_election(
        &self,
        election: &ElectionName,
    ) -> Result<(Option<(Record, Version)>, Option<Trace>), StoreError> {
        let name = name::lease(election);
        let lease = match self.lease(&name).await? {
            Ok(lease) => lease,
            Err(resource) => return Ok((None, Some(Trace { epoch: Epoch(resource), lease: Span::ZERO }))),
        };
        let info = if shape::is_bare(&lease) { self.info().await? } else { nothing_known() };
        let (document, version) = shape::read(election, &lease, &info, &self.place("Lease", &name))?;
        Ok((Some((Record::Election(Box::new(document)), version.to_version())), None))
    }

    async fn swap(
        &self,
        key: &Key,
        expect: &Expect,
        next: &Record,
        clock: AgeStamp,
    ) -> Result<Swapped, StoreError> {
        let change = self.fresh_change()?;
        match (key, next) {
            (Key::Election(election), Record::Election(document)) => {
                let over = match expect {
                    Expect::Absent => return self.begin(key, document, clock, &change).await,
                    Expect::Version(version) => LeaseVersion::parse(version).ok_or(StoreError::Conflict)?,
                };
                let name = name::lease(election);
                let place = self.place("Lease", &name);
                let written = shape::write(document, Some(over), clock, &self.stamps, &change, &place)?;
                self.put(key, name, over.resource, written).await
            }
            (Key::Election(_), _) | (_, Record::Election(_)) => {
                unreachable!("elections, and they alone, are kept under their own keys")
            }
            (_, _) => {
                let expect = match next {
                    Record::Fence(next) => &self.marked(key, expect, next, &change).await?,
                    _ => expect,
                };
                let over = match expect {
                    Expect::Absent => None,
                    Expect::Version(version) if version.as_str().parse::<u64>().is_err() => {
                        return Err(StoreError::Conflict);
                    }
                    Expect::Version(version) => Some(version.as_str().to_string()),
                };
                let (name, patch) = (name::config_map(key), config_map::write(key, next, &change));
                let written = self.write(&self.config_maps(), key, name, over, patch).await?;
                Ok(Swapped { version: Version::new(&written.unwrap_or_default()) })
            }
        }
    }

    /// Writes on the Lease of this very resourceVersion.
    pub(crate) async fn put(
        &self,
        key: &Key,
        name: String,
        over: u64,
        (patch, base): (Value, LeaseBase),
    ) -> Result<Swapped, StoreError> {
        let place = self.place("Lease", &name);
        let written = self.write(&self.leases(), key, name, Some(over.to_string()), patch).await?;
        let resource = written.and_then(|written| written.parse().ok());
        let resource = resource.ok_or_else(|| StoreError::Unknown {
            location: self.location.clone(),
            why: format!("{place} was answered without a resourceVersion"),
        })?;
        Ok(Swapped { version: base.at(resource).to_version() })
    }

    /// Creates an object, or patches the one of this very resourceVersion. Returns the resourceVersion after it.
    pub(crate) async fn write<K>(
        &self,
        api: &Api<K>,
        key: &Key,
        name: String,
        over: Option<String>,
        mut patch: Value,
    ) -> Result<Option<String>, StoreError>
    where
        K: WatchedKind + serde::Serialize,
    {
        let written = match over {
            Some(resource) => {
                patch["metadata"]["resourceVersion"] = Value::from(resource);
                let parameters =
                    PatchParams { field_manager: Some(MANAGER.to_string()), ..PatchParams::default() };
                self.ask(Operation::Writing, api.patch(&name, &parameters, &Patch::Merge(&patch))).await?
            }
            None => {
                patch["metadata"]["name"] = Value::from(name);
                patch["metadata"]["labels"]["app.kubernetes.io/managed-by"] = Value::from(MANAGER);
                if config_map::belongs_to(key).is_some()
                    && let Some(owner) = self.owner.reference(&self.client, &self.namespace).await
                {
                    patch["metadata"]["ownerReferences"] = json!([owner]);
                }
                let Ok(object) = serde_json::from_value(patch) else {
                    unreachable!("what is written is an object of its kind")
                };
                let parameters =
                    PostParams { field_manager: Some(MANAGER.to_string()), ..PostParams::default() };
                self.ask(Operation::Writing, api.create(&parameters, &object)).await?
            }
        };
        Ok(written.resource_version())
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Key>, StoreError> {
        let key_of_map = |name: &str, written: Option<&String>| {
            Key::parse(written?).filter(|key| name::config_map(key) == name || name::mark(key) == name)
        };
        let of_kind = |kind: &str| format!("{KIND}={kind}");
        let mut keys = match prefix {
            Prefix::Elections => {
                let key_of_lease = |name: &str, _: Option<&String>| name::election(name).map(Key::Election);
                self.list_all(&self.leases(), &of_kind("election"), key_of_lease).await?
            }
            Prefix::Candidates(election) => {
                let label = config_map::label(election);
                let selector = format!("{},{}={label}", of_kind("candidate"), config_map::ELECTION);
                self.list_all(&self.config_maps(), &selector, key_of_map).await?
            }
            Prefix::Items(election, kind) => {
                let label = config_map::label(election);
                let kind = of_kind(kind.singular());
                let selector = format!("{kind},{}={label}", config_map::ELECTION);
                self.list_all(&self.config_maps(), &selector, key_of_map).await?
            }
            Prefix::Audits => self.list_all(&self.config_maps(), &of_kind("audit"), key_of_map).await?,
            Prefix::Fences => {
                let kinds = format!("{KIND} in (fence,{MARK})");
                self.list_all(&self.config_maps(), &kinds, key_of_map).await?
            }
        };
        keys.retain(|key| prefix.covers(key));
        keys.sort();
        keys.dedup();
        if keys.is_empty() {
            self.found_nothing().await?;
        }
        Ok(keys)
    }

    /// The keys of all objects with these labels. Only their metadata is sent.
    async fn list_all<K: WatchedKind>(
        &self,
        api: &Api<K>,
        selector: &str,
        key_of: impl Fn(&str, Option<&String>) -> Option<Key>,
    ) -> Result<Vec<Key>, StoreError> {
        let mut parameters = ListParams::default().labels(selector).limit(PAGE);
        let mut keys = Vec::new();
        loop {
            let page = self.ask(Operation::Reading, api.list_metadata(&parameters)).await?;
            for object in &page.items {
                keys.extend(key_of(&object.name_any(), object.annotations().get(config_map::KEY)));
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => return Ok(keys),
            }
        }
    }

    async fn watch(&self, key: &Key) -> Result<BoxStream<Change>, StoreError> {
        match key.as_election() {
            Some(election) => self.watch_object(self.leases(), name::lease(election)).await,
            None => self.watch_object(self.config_maps(), name::config_map(key)).await,
        }
    }

    async fn watch_object<K: WatchedKind>(
        &self,
        api: Api<K>,
        name: String,
    ) -> Result<BoxStream<Change>, StoreError> {
        let from = self.ask(Operation::Reading, watch::now(&api, &name)).await?;
        Ok(watch::watch(api, name, from, self.limit))
    }

    /// A number that no other write has.
    fn fresh_change(&self) -> Result<String, StoreError> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| StoreError::Unavailable {
            location: self.location.clone(),
            why: format!("this machine has no random numbers: {error}"),
            hint: "look at /dev/urandom".to_string(),
        })?;
        Ok(format!("{:016x}", u64::from_be_bytes(bytes)))
    }
}

/// An object, if there is one. That something else was not found is an error.
pub(crate) async fn get<K: WatchedKind>(api: &Api<K>, name: &str) -> kube::Result<Option<K>> {
    match api.get(name).await {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if fault::is_gone(&status) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a store knows of itself before it was made.
fn nothing_known() -> StoreInfo {
    StoreInfo::new(StoreId([0; 8]), WallTime::default())
}

impl Store for KubernetesStore {
    fn location(&self) -> String {
        self.inner.location.clone()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(self.inner.within(Operation::Reading, self.inner.read(key)))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            self.inner.within(Operation::Writing, self.inner.swap(key, &expect, next, clock)).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(self.inner.within(Operation::Reading, self.inner.list(prefix)))
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(self.inner.within(Operation::Reading, self.inner.watch(key)))
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "how long this observer has itself seen the Lease unchanged",
            stamped: false,
            watch: Watching::Pushed,
            durability: Durability::Remote,
            deletion: Deletion::Survives,
            history: HistoryKept::Beside,
            partition: "a client that cannot reach the apiserver can neither take nor renew a lease, and loses its own",
            // One PATCH; a watch is opened anew every minute.
            cost: Cost { per_renewal: 1, looks_per_hour: 60 },
        }
    }
}
