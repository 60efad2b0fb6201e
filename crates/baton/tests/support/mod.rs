//! Agents, elections, and stores that fail on demand.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a helper of tests")]

pub(crate) mod faulty;

use std::sync::Arc;
use std::time::Duration;

use baton::election::operator::{Act, OperatorKey};
use baton::election::policy::Limits;
use baton::election::{AgentName, Document, ElectionName, Epoch, Policy, Span};
use baton::file::FileStore;
use baton::store::{Access, Key, MemoryStore, Store};
use baton::{Bid, Campaign, Coordinator, Error, Leadership, Memory, Patience};
use futures_util::StreamExt;

/// A bound on a hang, far above what anything takes.
pub(crate) const HANG: Duration = Duration::from_secs(120);

pub(crate) fn election() -> ElectionName {
    ElectionName::new("e").unwrap()
}

pub(crate) fn agent(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

pub(crate) fn operator() -> OperatorKey {
    OperatorKey::from_seed([42; 32])
}

/// A client of its own, as another process would be.
pub(crate) fn client(store: &(impl Store + Clone + 'static)) -> Coordinator {
    Coordinator::with_store(Arc::new(store.clone()), Memory::new())
}

/// One that does not try again for long.
pub(crate) fn impatient() -> Patience {
    Patience { first: Span::millis(1), longest: Span::millis(2), retries: Some(2), within: None }
}

pub(crate) fn bid(name: &str, ttl_ms: u64) -> Bid {
    Bid { ttl: Some(Span::millis(ttl_ms)), ..Bid::new(agent(name)) }
}

pub(crate) fn limited(name: &str, ttl_ms: u64, limits: Limits) -> Bid {
    Bid { limits, ..bid(name, ttl_ms) }
}

/// Campaigns until it leads.
pub(crate) async fn lead(coordinator: &Coordinator, bid: Bid) -> Leadership {
    in_time(coordinator.campaign(&election(), Campaign::new(bid))).await.unwrap()
}

/// Campaigns in the background.
pub(crate) fn campaign(coordinator: &Coordinator, bid: Bid) -> tokio::task::JoinHandle<Leadership> {
    let coordinator = coordinator.clone();
    tokio::spawn(async move { lead(&coordinator, bid).await })
}

/// Says why it could not lead within this time.
pub(crate) async fn cannot_lead(coordinator: &Coordinator, bid: Bid, wait: Span) -> String {
    match coordinator.campaign(&election(), Campaign { bid, wait: Some(wait) }).await {
        Err(Error::WaitedLongEnough { why, .. }) => why,
        Err(error) => panic!("{error}"),
        Ok(lead) => panic!("{} leads with token {}", lead.agent(), lead.token()),
    }
}

/// What this gives, unless it hangs.
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(HANG, work).await.expect("this hangs")
}

/// Looks at every change of a store in memory until something holds.
pub(crate) async fn until(store: &MemoryStore, mut holds: impl AsyncFnMut() -> bool) {
    let mut changes = store.watch(&Key::Store).await.unwrap();
    in_time(async {
        while !holds().await {
            changes.next().await.unwrap();
        }
    })
    .await;
}

pub(crate) async fn document(coordinator: &Coordinator) -> Document {
    coordinator.view(&election()).await.unwrap().document.unwrap()
}

/// Lets the operator act.
pub(crate) async fn act(coordinator: &Coordinator, act: Act) {
    coordinator.operate(&election(), &operator(), &act).await.unwrap();
}

/// Enrols the operator and sets the rules.
pub(crate) async fn rule(coordinator: &Coordinator, policy: Policy) {
    coordinator.operators().enrol(&operator()).await.unwrap();
    act(coordinator, Act::SetPolicy { policy }).await;
}

pub(crate) fn depose(reason: &str) -> Act {
    Act::Depose { force: false, reason: reason.to_string() }
}

/// The epochs and causes of all changes of leader.
pub(crate) async fn changes_of_leader(coordinator: &Coordinator) -> Vec<(Epoch, String)> {
    let history = coordinator.history(&election(), usize::MAX).await.unwrap();
    history.into_iter().map(|entry| (entry.epoch, format!("{} to {}", entry.cause, entry.to))).collect()
}

/// Takes a folder away at once, as no deletion file by file would: a store still writes after it has answered.
pub(crate) fn wipe(folder: &std::path::Path, beside: &tempfile::TempDir) {
    std::fs::rename(folder, beside.path().join("wiped")).unwrap();
}

/// Runs a test on every store of this machine, beside each other: most of it is waiting.
pub(crate) async fn on_each_store<F: Future<Output = ()>>(test: impl Fn(Arc<dyn Store>) -> F) {
    let folder = tempfile::tempdir().unwrap();
    let file = FileStore::open(&folder.path().join("store"), Access::Write).unwrap();
    tokio::join!(test(Arc::new(MemoryStore::default())), test(Arc::new(file)));
}

/// A client of a store that is shared already.
pub(crate) fn client_of(store: &Arc<dyn Store>) -> Coordinator {
    Coordinator::with_store(Arc::clone(store), Memory::new())
}
