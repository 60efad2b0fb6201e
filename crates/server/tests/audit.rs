//! The audit log through a real server: on its embedded store, over HTTP, across restarts; beside the same on a folder and in memory.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton::file::FileStore;
use baton::{Bid, Coordinator, Error, Memory, NewToken};
use baton_election::audit::{Book, Ordered};
use baton_election::operator::{Act, OperatorKey};
use baton_election::time::WallTime;
use baton_election::tokens::Role;
use baton_election::{AgentName, Answer, ElectionName, Policy, Refusal, StoreId, StoreInfo};
use baton_server::{Founders, Options, Server};
use baton_store::conformance::Wrapped;
use baton_store::{
    Access, AgeStamp, BoxFuture, Expect, Key, MemoryStore, Persistence, Reading, Record, Store, StoreError,
};
use tokio::sync::oneshot;

fn operator(number: u8) -> OperatorKey {
    OperatorKey::from_seed([number; 32])
}

fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

/// A server on a store, until it is stopped.
struct RunningServer {
    url: String,
    stop: oneshot::Sender<()>,
    over: tokio::task::JoinHandle<()>,
}

impl RunningServer {
    async fn on(store: Arc<dyn Store>) -> RunningServer {
        let founders = Arc::new(Founders::with_keys(vec![operator(1).public()]));
        let options = Options { founders, ..Options::default() };
        let listener = Server::listen("127.0.0.1:0".parse().unwrap(), &options).await.unwrap();
        let server = Server::start(listener, store, options).await.unwrap();
        let url = format!("http://{}", server.listening().address().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let over = tokio::spawn(async move {
            let _ = server
                .serve(async {
                    let _ = stopped.await;
                })
                .await;
        });
        RunningServer { url, stop, over }
    }

    async fn client(&self) -> Coordinator {
        Coordinator::connect(&self.url).await.unwrap()
    }

    async fn end(self) {
        self.stop.send(()).unwrap();
        self.over.await.unwrap();
    }
}

async fn embedded(path: &Path) -> Arc<dyn Store> {
    baton::open_store(&format!("embedded:{}", path.display()), Access::Write).await.unwrap()
}

/// Everything that operators can do, and what is left of it.
async fn do_everything(coordinator: &Coordinator) {
    let (one, two, e) = (operator(1), operator(2), election("e"));
    coordinator.operators().enrol(&one).await.unwrap();
    let credential = baton::mint_credential().unwrap();
    let bid = Bid::new(AgentName::new("a").unwrap());
    coordinator.acquire(&e, &bid, credential, None, None).await.unwrap();
    coordinator.operators().add(&one, two.public()).await.unwrap();
    let new = NewToken {
        role: Role::Observer,
        agents: vec![],
        elections: vec![],
        resources: Vec::new(),
        note: "\u{1b}[31mnot red".to_string(),
        expires: None,
    };
    let (_, entry, _) = coordinator.tokens().create(&one, &new).await.unwrap();
    coordinator.tokens().revoke(&one, entry.id).await.unwrap();
    let mut policy = Policy::default();
    policy.operators.quorum = 2;
    coordinator.operate(&e, &one, &Act::SetPolicy { policy }).await.unwrap();
    let depose = Act::Depose { force: false, reason: "loops".to_string() };
    let signed = coordinator.operate(&e, &one, &depose).await.unwrap();
    assert!(matches!(signed, Answer::Signed { have: 1, need: 2, .. }), "{signed:?}");
    let document = coordinator.view(&e).await.unwrap().document.unwrap();
    assert!(document.leader.is_some(), "one of two ended nobody");
    let gathering = document.gathering.unwrap()[0].clone();
    // It waits, also if something else comes first.
    coordinator.note(&e, &two, "between").await.unwrap();
    let done = coordinator.cosign(&e, &two, &gathering).await.unwrap();
    assert!(matches!(done, Answer::Done { ended: Some(_), .. }), "{done:?}");
    for number in 0..39 {
        coordinator.note(&e, &two, &format!("note {number}")).await.unwrap();
    }
    let alone = coordinator.operate_urgently(&e, &one, &Act::Resume, Some("fire")).await;
    assert!(matches!(alone, Err(Error::Refused(Refusal::Invalid { .. }))), "{alone:?}");
    let spread = coordinator.orders().pause_all(&one, "fire").await.unwrap();
    assert_eq!(spread.waiting, std::slice::from_ref(&e), "its policy asks for two");
    let new =
        coordinator.acquire(&election("new"), &bid, baton::mint_credential().unwrap(), None, None).await;
    assert!(matches!(new, Err(Error::Refused(Refusal::Paused { .. }))), "{new:?}");
    coordinator.orders().resume_all(&two).await.unwrap();
}

async fn look(coordinator: &Coordinator) {
    let e = Book::Election(election("e"));
    for (book, acts) in [(e.clone(), 43), (Book::Store, 4), (Book::Tokens, 2)] {
        let verdict = coordinator.audit().verify(&book).await.unwrap();
        assert_eq!((verdict.acts, &verdict.faults), (acts, &vec![]), "{book}");
        let all = coordinator.audit().read(&book, usize::MAX).await.unwrap();
        let numbers: Vec<u64> = all.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, (1..=acts as u64).collect::<Vec<_>>(), "{book}");
    }
    let all = coordinator.audit().read(&e, usize::MAX).await.unwrap();
    let deposed = &all[3];
    assert!(matches!(&deposed.ordered, Ordered::Act(act) if act.by == operator(2).public()));
    assert_eq!(deposed.with.iter().map(|with| with.by).collect::<Vec<_>>(), [operator(1).public()]);
    assert_eq!(deposed.ended, Some(AgentName::new("a").unwrap()));
}

#[tokio::test]
async fn everything_that_operators_do_is_kept_in_memory_and_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = FileStore::open(&folder.path().join("store"), Access::Write).unwrap();
    let stores: [Arc<dyn Store>; 2] = [Arc::new(MemoryStore::default()), Arc::new(file)];
    for store in stores {
        let coordinator = Coordinator::with_store(store, Memory::new());
        do_everything(&coordinator).await;
        look(&coordinator).await;
    }
}

#[tokio::test]
async fn who_runs_on_the_store_itself_sees_a_pause_of_everything() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let client = || Coordinator::with_store(Arc::clone(&store), Memory::new());
    let (agent, people, e, one) = (client(), client(), election("e"), operator(1));
    let bid = Bid::new(AgentName::new("a").unwrap());
    let acquire = async || agent.acquire(&e, &bid, baton::mint_credential().unwrap(), None, None).await;
    people.operators().enrol(&one).await.unwrap();
    // It has looked at what the store knows of itself.
    let lease = acquire().await.unwrap();
    agent.release(&e, lease.epoch, lease.credential, None).await.unwrap();
    people.operators().add(&one, operator(2).public()).await.unwrap();
    let mut policy = Policy::default();
    policy.operators.quorum = 2;
    people.operate(&e, &one, &Act::SetPolicy { policy }).await.unwrap();
    let spread = people.orders().pause_all(&one, "fire").await.unwrap();
    assert_eq!(spread.waiting, std::slice::from_ref(&e), "the election itself waits for another operator");
    let refused = acquire().await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Paused { .. }))), "{refused:?}");
    people.orders().resume_all(&one).await.unwrap();
    acquire().await.unwrap();
}

#[tokio::test]
async fn everything_that_operators_do_is_kept_by_a_server_across_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server.redb");
    let server = RunningServer::on(embedded(&path).await).await;
    let client = server.client().await;
    do_everything(&client).await;
    look(&client).await;
    drop(client);
    server.end().await;
    // The same by itself, without a server, and by the next one.
    let store = embedded(&path).await;
    look(&Coordinator::with_store(Arc::clone(&store), Memory::new())).await;
    let server = RunningServer::on(store).await;
    let client = server.client().await;
    look(&client).await;
    client.note(&election("e"), &operator(1), "later").await.unwrap();
    let verdict = client.audit().verify(&Book::Election(election("e"))).await.unwrap();
    assert_eq!((verdict.acts, verdict.faults), (44, vec![]));
    drop(client);
    server.end().await;
}

/// A store that counts the readings of a book, and in which somebody acts whenever a log is read.
#[derive(Clone)]
struct Lively {
    inner: MemoryStore,
    /// How often somebody else still acts.
    acts: Arc<AtomicUsize>,
    readings: Arc<AtomicUsize>,
}

impl Lively {
    fn on(inner: &MemoryStore) -> Lively {
        Lively { inner: inner.clone(), acts: Arc::default(), readings: Arc::default() }
    }
}

impl Wrapped for Lively {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.inner.clone())
    }

    fn reads<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            if let Key::Audit(Book::Store, _) = key {
                self.readings.fetch_add(1, Ordering::SeqCst);
            }
            if let Key::Audit(Book::Election(e), _) = key
                && self
                    .acts
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    .is_ok()
            {
                let other = Coordinator::with_store(self.inner(), Memory::new());
                for text in ["one", "two", "three"] {
                    other.note(e, &operator(1), text).await.unwrap();
                }
            }
            self.inner.read(key).await
        })
    }
}

#[tokio::test]
async fn what_is_done_while_a_book_is_verified_is_no_fault_of_it() {
    let inner = MemoryStore::default();
    let people = Coordinator::with_store(Arc::new(inner.clone()), Memory::new());
    let (e, one) = (election("e"), operator(1));
    people.operators().enrol(&one).await.unwrap();
    people.operate(&e, &one, &Act::Pause { reason: String::new() }).await.unwrap();
    people.note(&e, &one, "before").await.unwrap();
    // A moment of activity, and one that does not end.
    for acts in [1, 1_000] {
        let lively = Lively::on(&inner);
        lively.acts.store(acts, Ordering::SeqCst);
        let verifier = Coordinator::with_store(Arc::new(lively), Memory::new());
        let verdict = verifier.audit().verify(&Book::Election(e.clone())).await.unwrap();
        assert_eq!(verdict.faults, vec![], "while {acts} are done");
    }
    // Whoever puts the record of yesterday back is found all the same.
    let key = Key::Election(e.clone());
    let old = inner.read(&key).await.unwrap().found.unwrap().0;
    for text in ["a", "b"] {
        people.note(&e, &one, text).await.unwrap();
    }
    let expect = inner.read(&key).await.unwrap().expect();
    inner.swap(&key, expect, &old, AgeStamp::Preserve, Persistence::Durable).await.unwrap();
    let verdict = people.audit().verify(&Book::Election(e)).await.unwrap();
    assert!(!verdict.faults.is_empty(), "{verdict:?}");
    // Nor does it help to delete the record.
    let (log, info) = (Key::Audit(Book::Election(election("e")), 0), Key::Store);
    let wiped = MemoryStore::default();
    for key in [&info, &log] {
        let record = inner.read(key).await.unwrap().found.unwrap().0;
        wiped.swap(key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable).await.unwrap();
    }
    let people = Coordinator::with_store(Arc::new(wiped), Memory::new());
    let verdict = people.audit().verify(&Book::Election(election("e"))).await.unwrap();
    assert!(verdict.faults[0].why.contains("record is gone"), "{verdict:?}");
    let none = people.audit().verify(&Book::Election(election("f"))).await;
    assert!(matches!(none, Err(Error::Refused(Refusal::UnknownElection { .. }))), "{none:?}");
}

#[tokio::test]
async fn a_store_whose_first_orders_were_not_logged_is_whole() {
    let (one, two) = (operator(1), operator(2));
    let store = MemoryStore::default();
    // As a Baton left it that kept no log.
    let info = StoreInfo {
        operator_keys: vec![one.public(), two.public()],
        orders: 2,
        ..StoreInfo::new(StoreId([1; 8]), WallTime::default())
    };
    store
        .swap(&Key::Store, Expect::Absent, &Record::Store(info), AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    let people = Coordinator::with_store(Arc::new(store), Memory::new());
    people.orders().pause_all(&two, "fire").await.unwrap();
    let new = NewToken {
        role: Role::Observer,
        agents: vec![],
        elections: vec![],
        resources: Vec::new(),
        note: String::new(),
        expires: None,
    };
    people.tokens().create(&two, &new).await.unwrap();
    people.operators().remove(&one, two.public()).await.unwrap();
    people.orders().resume_all(&one).await.unwrap();
    for (book, acts) in [(Book::Store, 3), (Book::Tokens, 1)] {
        let verdict = people.audit().verify(&book).await.unwrap();
        assert_eq!((verdict.acts, verdict.faults), (acts, vec![]), "{book}");
    }
}

#[tokio::test]
async fn the_orders_on_tokens_are_not_all_verified_for_everybody_who_looks() {
    let store = Lively::on(&MemoryStore::default());
    let server = RunningServer::on(Arc::new(store.clone())).await;
    let client = server.client().await;
    client.operators().enrol(&operator(1)).await.unwrap();
    let new = NewToken {
        role: Role::Observer,
        agents: vec![],
        elections: vec![],
        resources: Vec::new(),
        note: String::new(),
        expires: None,
    };
    client.tokens().create(&operator(1), &new).await.unwrap();
    let before = store.readings.load(Ordering::SeqCst);
    for _ in 0..20 {
        assert_eq!(client.audit().read(&Book::Tokens, 10).await.unwrap().len(), 1);
    }
    let looks = store.readings.load(Ordering::SeqCst) - before;
    assert!(looks < 10, "{looks} looks for 20 who asked");
    // What was ordered since is looked at.
    client.tokens().create(&operator(1), &new).await.unwrap();
    let verdict = client.audit().verify(&Book::Tokens).await.unwrap();
    assert_eq!((verdict.acts, verdict.faults), (2, vec![]));
    drop(client);
    server.end().await;
}
