//! The leader's toolbox: the same on a store in memory, in a folder and through a server.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton::file::FileStore;
use baton::toolbox::{Kind, NewTask, Propose, Query, Ruling, State};
use baton::{Bid, Coordinator, Error, Mandate, Memory, Toolbox, WorkerKey, mint_credential};
use baton_election::time::Span;
use baton_election::{AgentName, ElectionName, Epoch, ItemName, Refusal};
use baton_server::{Options, Server};
use baton_store::{Access, MemoryStore, Store};

fn election() -> ElectionName {
    "fleet/eu".parse().unwrap()
}

fn agent(name: &str) -> AgentName {
    name.parse().unwrap()
}

fn item(name: &str) -> ItemName {
    name.parse().unwrap()
}

fn new(id: &str) -> NewTask {
    NewTask { id: Some(item(id)), title: format!("do {id}"), size: 1, ..NewTask::default() }
}

/// A server over a store.
struct TestServer {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    async fn over(store: Arc<dyn Store>) -> TestServer {
        let listener = Server::listen("127.0.0.1:0".parse().unwrap(), &Options::default()).await.unwrap();
        let server = Server::start(listener, store, Options::default()).await.unwrap();
        TestServer {
            address: server.listening().address().unwrap(),
            task: tokio::spawn(server.serve(std::future::pending())),
        }
    }

    async fn client(&self) -> Coordinator {
        Coordinator::connect(&format!("http://{}", self.address)).await.unwrap()
    }
}

async fn lead(coordinator: &Coordinator, name: &str) -> Mandate {
    let bid = Bid { ttl: Some(Span::secs(600)), ..Bid::new(agent(name)) };
    let credential = mint_credential().unwrap();
    let grant = coordinator.acquire(&election(), &bid, credential, None, None).await.unwrap();
    Mandate { token: grant.epoch, credential }
}

async fn release(coordinator: &Coordinator, mandate: Mandate) {
    coordinator.release(&election(), mandate.token, mandate.credential, None).await.unwrap();
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Refusal {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// Two clients that share nothing but the store.
async fn play(leader: Coordinator, worker: Coordinator) {
    let (lead_tools, work) = (leader.toolbox(&election()), worker.toolbox(&election()));
    let nobody = refused(lead_tools.add(None, Some(&agent("a")), &[new("t")]).await);
    assert!(matches!(nobody, Refusal::UnknownElection { .. }), "{nobody:?}");
    let first = lead(&leader, "a").await;
    let added = lead_tools.add(Some(first), None, &[new("one"), new("two")]).await.unwrap();
    assert!(added.iter().all(|added| !added.repeated));
    let again = lead_tools.add(Some(first), None, &[new("one")]).await.unwrap();
    assert!(again[0].repeated);
    let unasked = refused(work.add(None, Some(&agent("b")), &[new("three")]).await);
    assert!(matches!(unasked, Refusal::OutOfTurn { .. }), "{unasked:?}");
    lead_tools.assign(&item("one"), first, Some(agent("b"))).await.unwrap();
    lead_tools.assign(&item("two"), first, Some(agent("b"))).await.unwrap();
    let key = WorkerKey::mint().unwrap();
    work.accept(&item("one"), &agent("b"), key, Epoch(0)).await.unwrap();
    work.progress(&item("one"), key, 50, Some(Span::secs(9)), "half").await.unwrap();
    let forged = refused(work.progress(&item("one"), WorkerKey::mint().unwrap(), 99, None, "").await);
    assert!(matches!(forged, Refusal::WrongKey { .. }), "{forged:?}");
    let not_there = refused(work.progress(&item("none"), key, 1, None, "").await);
    assert!(matches!(not_there, Refusal::NoSuchItem { .. }), "{not_there:?}");
    degraded(&leader, &lead_tools, &work, first, key).await;
    inherited(&leader, &worker, first).await;
    beside(&leader, &worker).await;
}

/// Nobody leads: what is under way goes on, what is new waits.
async fn degraded(leader: &Coordinator, tools: &Toolbox, work: &Toolbox, first: Mandate, key: WorkerKey) {
    release(leader, first).await;
    let counts = work.counts().await.unwrap();
    assert!(counts.degraded && counts.leader.is_none());
    assert_eq!((counts.working, counts.assigned, counts.tasks()), (1, 1, 2));
    let waits = work.add(None, Some(&agent("b")), &[new("three")]).await.unwrap();
    assert_eq!(waits[0].state, State::Queued);
    let former = refused(tools.assign(&item("three"), first, Some(agent("b"))).await);
    assert!(matches!(former, Refusal::Stale { .. }), "{former:?}");
    let done = work.complete(&item("one"), key, "done while nobody led").await.unwrap();
    assert_eq!(done.state, State::Done);
}

/// The successor sees it all, and what a former leader says counts no longer.
async fn inherited(leader: &Coordinator, worker: &Coordinator, first: Mandate) {
    let second = lead(leader, "x").await;
    assert!(second.token > first.token);
    let (tools, work) = (leader.toolbox(&election()), worker.toolbox(&election()));
    let counts = tools.counts().await.unwrap();
    assert_eq!((counts.queued, counts.assigned, counts.done, counts.unled), (1, 1, 1, 1));
    assert_eq!(counts.leader, Some(agent("x")));
    let listed = tools.tasks(&Query { state: Some(State::Assigned), ..Query::default() }).await.unwrap();
    assert_eq!(listed.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["two"]);
    // Told in the first epoch, and the worker has heard of the second.
    let key = WorkerKey::mint().unwrap();
    let older = refused(work.accept(&item("two"), &agent("b"), key, second.token).await);
    assert!(matches!(older, Refusal::Stale { shown, .. } if shown == first.token), "{older:?}");
    tools.assign(&item("two"), second, None).await.unwrap();
    let stale = refused(tools.retry(&item("two"), first, "", None).await);
    assert!(matches!(stale, Refusal::Stale { .. }), "{stale:?}");
    work.accept(&item("two"), &agent("b"), key, second.token).await.unwrap();
    tools.cancel(&item("two"), second, "not needed", Some(1)).await.unwrap();
    let stopped = refused(work.complete(&item("two"), key, "").await);
    assert!(matches!(stopped, Refusal::OutOfTurn { .. }), "{stopped:?}");
    release(leader, second).await;
}

/// Proposals, quotas and values.
async fn beside(leader: &Coordinator, worker: &Coordinator) {
    let mandate = lead(leader, "x").await;
    let (tools, work) = (leader.toolbox(&election()), worker.toolbox(&election()));
    let propose = Propose {
        id: item("p"),
        by: agent("b"),
        title: "a better way".into(),
        body: String::new(),
        about: "two".into(),
    };
    work.propose(propose.clone()).await.unwrap();
    let ruling = Ruling { mandate, accept: true, reason: "yes".into() };
    assert!(tools.rule(&item("p"), ruling.clone()).await.unwrap().ruling.unwrap().accepted);
    let late = refused(tools.rule(&item("p"), Ruling { accept: false, ..ruling }).await);
    assert!(matches!(late, Refusal::OutOfTurn { .. }), "{late:?}");
    let shares = |b: u64| BTreeMap::from([(agent("b"), b), (agent("c"), 3)]);
    let beyond = refused(tools.set_quota(&item("api"), mandate, 10, Span::secs(600), shares(8)).await);
    assert!(matches!(beyond, Refusal::Invalid { .. }), "{beyond:?}");
    tools.set_quota(&item("api"), mandate, 10, Span::secs(600), shares(7)).await.unwrap();
    assert_eq!(work.draw(&item("api"), &agent("b"), 5).await.unwrap().left, 2);
    let empty = refused(work.draw(&item("api"), &agent("b"), 3).await);
    assert!(
        matches!(empty, Refusal::Exhausted { retry_in: Some(wait), .. } if wait <= Span::secs(600)),
        "{empty:?}"
    );
    tools
        .set_quota(&item("quick"), mandate, 1, Span::millis(100), BTreeMap::from([(agent("b"), 1)]))
        .await
        .unwrap();
    for _ in 0..3 {
        let drawn = tokio::time::timeout(Duration::from_secs(60), async {
            while work.draw(&item("quick"), &agent("b"), 1).await.is_err() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        drawn.await.expect("windows end");
    }
    assert_eq!(work.quota(&item("quick")).await.unwrap().windows, 3);
    tools.put(&item("plan"), mandate, "one", Some(0)).await.unwrap();
    let overtaken = refused(tools.put(&item("plan"), mandate, "x", Some(0)).await);
    assert!(matches!(overtaken, Refusal::OutOfTurn { .. }), "{overtaken:?}");
    tools.put(&item("plan"), mandate, "two", Some(1)).await.unwrap();
    let plan = work.value(&item("plan")).await.unwrap();
    assert_eq!((plan.version(), plan.latest().unwrap().value.as_str()), (2, "two"));
    for (kind, most) in [(Kind::Proposal, 1), (Kind::Quota, 2), (Kind::Value, 1)] {
        assert_eq!(work.all(kind, &Query::default()).await.unwrap().len(), most, "{kind}");
    }
    // A filter is not passed over, whatever the items are reached through.
    for (by, found) in [("b", 1), ("c", 0)] {
        let query = Query { agent: Some(agent(by)), ..Query::default() };
        assert_eq!(work.all(Kind::Proposal, &query).await.unwrap().len(), found, "{by}");
    }
}

#[tokio::test]
async fn in_memory() {
    let store = MemoryStore::default();
    let client = || Coordinator::with_store(Arc::new(store.clone()), Memory::new());
    play(client(), client()).await;
}

#[tokio::test]
async fn in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let client = || {
        let store = FileStore::open(folder.path(), Access::Write).unwrap();
        Coordinator::with_store(Arc::new(store), Memory::new())
    };
    play(client(), client()).await;
    // Items are no elections.
    assert_eq!(client().elections().await.unwrap(), [election()]);
}

#[tokio::test]
async fn through_a_server() {
    let place = TestServer::over(Arc::new(MemoryStore::default())).await;
    play(place.client().await, place.client().await).await;
}

#[tokio::test]
async fn what_a_server_knew_it_knows_after_a_crash() {
    let store = MemoryStore::default();
    let place = TestServer::over(Arc::new(store.clone())).await;
    let client = place.client().await;
    let mandate = lead(&client, "a").await;
    let tools = client.toolbox(&election());
    tools.add(Some(mandate), None, &[new("one"), new("two")]).await.unwrap();
    tools.assign(&item("one"), mandate, Some(agent("b"))).await.unwrap();
    drop(place);
    let place = TestServer::over(Arc::new(store)).await;
    let tools = place.client().await.toolbox(&election());
    let counts = tools.counts().await.unwrap();
    assert_eq!((counts.queued, counts.assigned), (1, 1));
    tools.assign(&item("two"), mandate, Some(agent("b"))).await.expect("the lease goes on");
    assert_eq!(tools.counts().await.unwrap().assigned, 2);
}

#[tokio::test]
async fn many_at_once_do_a_task_once() {
    let place = TestServer::over(Arc::new(MemoryStore::default())).await;
    let client = place.client().await;
    let mandate = lead(&client, "a").await;
    let tools = client.toolbox(&election());
    tools.add(Some(mandate), None, &[new("t")]).await.unwrap();
    tools.assign(&item("t"), mandate, Some(agent("b"))).await.unwrap();
    let tries = (0..32).map(|_| {
        let tools = tools.clone();
        tokio::spawn(async move {
            let key = WorkerKey::mint().unwrap();
            tools.accept(&item("t"), &agent("b"), key, Epoch(0)).await?;
            tools.complete(&item("t"), key, "").await
        })
    });
    let mut done = 0;
    for tried in tries.collect::<Vec<_>>() {
        done += usize::from(tried.await.unwrap().is_ok());
    }
    assert_eq!(done, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_tasks() {
    const TASKS: usize = 100_000;
    let store = MemoryStore::default();
    let place = TestServer::over(Arc::new(store.clone())).await;
    let client = place.client().await;
    let mandate = lead(&client, "a").await;
    let tools = client.toolbox(&election());
    let all: Vec<NewTask> = (0..TASKS).map(|number| new(&format!("t-{number:06}"))).collect();
    assert_eq!(tools.add(Some(mandate), None, &all).await.unwrap().len(), TASKS);
    for number in [7, 70_000] {
        tools.assign(&item(&format!("t-{number:06}")), mandate, Some(agent("b"))).await.unwrap();
    }
    let counts = tools.counts().await.unwrap();
    assert_eq!((counts.queued, counts.assigned), (TASKS as u64 - 2, 2));
    let mine = Query { agent: Some(agent("b")), ..Query::default() };
    let mine: Vec<String> =
        tools.tasks(&mine).await.unwrap().iter().map(|task| task.id.to_string()).collect();
    assert_eq!(mine, ["t-000007", "t-070000"]);
    let page = tools
        .page(Kind::Task, &Query { after: Some(item("t-099990")), limit: 5, ..Query::default() })
        .await
        .unwrap();
    assert!(page.more && page.items.len() == 5);
    // Who begins anew reads it all once.
    drop(place);
    let place = TestServer::over(Arc::new(store)).await;
    let counts = place.client().await.toolbox(&election()).counts().await.unwrap();
    assert_eq!(counts.tasks(), TASKS as u64);
}
