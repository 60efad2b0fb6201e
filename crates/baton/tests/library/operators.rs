//! Operators' acts, and what a lost reply does to them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::Error;
use baton::election::Policy;
use baton::election::Refusal;
use baton::election::operator::{Act, OperatorKey};
use baton::election::policy::Select;
use baton::election::quorum::Quorum;
use baton::file::FileStore;
use baton::store::conformance::Wrapped;
use baton::store::{Access, BoxFuture, Key, MemoryStore, Reading, Store, StoreError};

use crate::support::faulty::{Fault, Faulty, is_election};
use crate::support::{act, bid, client, depose, document, election, in_time, lead, operator, rule};

#[tokio::test]
async fn an_operator_enrolled_in_the_store_rules_elections_that_begin_later() {
    let store = MemoryStore::default();
    let (early, late) = (client(&store), client(&store));
    // A client that knew the store before there was an operator.
    lead(&early, bid("a", 30_000)).await.release("").await.unwrap();
    late.operators().enrol(&operator()).await.unwrap();
    assert_eq!(late.info().await.unwrap().operator_keys, [operator().public()]);
    for coordinator in [&early, &late] {
        let name = if std::ptr::eq(coordinator, &early) { "new/one" } else { "new/two" };
        let election = name.parse().unwrap();
        let bid = bid("a", 30_000);
        let credential = baton::mint_credential().unwrap();
        let grant = coordinator.acquire(&election, &bid, credential, None, None).await.unwrap();
        assert_eq!(*grant.document.operator_keys, [operator().public()], "{name}");
        late.operate(&election, &operator(), &depose("")).await.unwrap();
    }
}

#[tokio::test]
async fn a_wiped_store_has_a_new_id_also_for_a_client_that_knew_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let coordinator = client(&FileStore::open(&path, Access::Write).unwrap());
    let before = lead(&coordinator, bid("a", 1_000)).await.release("").await.unwrap().unwrap();
    crate::support::wipe(&path, &folder);
    let leader = lead(&coordinator, bid("a", 1_000)).await;
    let newcomer = client(&FileStore::open(&path, Access::Read).unwrap());
    let after = document(&newcomer).await;
    assert_ne!(after.store, before.store);
    assert_eq!(newcomer.info().await.unwrap().id, after.store, "the store knows itself");
    assert!(leader.token() > before.epoch);
}

#[tokio::test]
async fn an_act_whose_reply_is_lost_is_done_once() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let (agents, person) = (client(&store), client(&faulty));
    rule(&person, Policy::default()).await;
    let leader = lead(&agents, bid("a", 600_000)).await;
    let before = document(&agents).await;
    for operation in [
        Act::SetPolicy { policy: Policy { select: Select::Priority, ..Policy::default() } },
        Act::Enrol { key: OperatorKey::from_seed([9; 32]).public() },
        depose("enough"),
        Act::Pause { reason: String::new() },
        Act::Resume,
    ] {
        let acts = document(&agents).await.acts;
        faulty.plan(is_election, &[Fault::After]);
        act(&person, operation.clone()).await;
        assert!(faulty.is_over());
        assert_eq!(document(&agents).await.acts, acts + 1, "{operation:?}");
    }
    assert_eq!(document(&agents).await.epoch.0, before.epoch.0 + 1, "one epoch for the depose");
    assert!(in_time(leader.lost()).await.contains("enough"));
}

/// The reply to a depose is lost; before it is asked for again a successor leads, who must not be hit.
#[tokio::test]
async fn a_depose_that_is_asked_for_again_does_not_hit_the_successor() {
    let store = MemoryStore::default();
    let faulty = Faulty::over(store.clone());
    let (agents, person) = (client(&store), client(&faulty));
    rule(&person, Policy::default()).await;
    let first = lead(&agents, bid("a", 600_000)).await;
    faulty.plan(is_election, &[Fault::After]);
    let asking = tokio::spawn({
        let (person, faulty) = (person.clone(), faulty.clone());
        async move {
            let outcome = person.operate(&election(), &operator(), &depose("too slow")).await;
            (outcome, faulty.is_over())
        }
    });
    in_time(first.lost()).await;
    faulty.silence(true);
    first.release("").await.unwrap();
    let second = lead(&agents, bid("b", 600_000)).await;
    faulty.silence(false);
    let (outcome, happened) = in_time(asking).await.unwrap();
    assert!(happened);
    if let Err(error) = outcome {
        assert_eq!(error.code(), "stale", "{error}");
    }
    assert!(second.ensure(Duration::ZERO));
    assert_eq!(document(&agents).await.leader.unwrap().agent.as_str(), "b");
}

/// A store at which something happens right before an election is read, once.
#[derive(Clone)]
struct Before {
    store: MemoryStore,
    happens: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
}

impl Wrapped for Before {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn reads<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async move {
            let happens = if is_election(key) { self.happens.lock().unwrap().take() } else { None };
            if let Some(happens) = happens {
                happens.await;
            }
            self.store.read(key).await
        })
    }
}

/// Everything is paused between two looks of a client that wants to lead. The halt of the election waits for a second operator, so that its record does not refuse.
#[tokio::test]
async fn nobody_is_granted_what_waits_for_the_signatures_of_its_halt() {
    let store = MemoryStore::default();
    let person = client(&store);
    rule(&person, Policy::default()).await;
    person.operators().add(&operator(), OperatorKey::from_seed([43; 32]).public()).await.unwrap();
    let operators = Quorum { quorum: 2, ..Quorum::default() };
    act(&person, Act::SetPolicy { policy: Policy { operators, ..Policy::default() } }).await;
    let happens: BoxFuture<'static, ()> = Box::pin(async move {
        let spread = person.orders().pause_all(&operator(), "fire").await.unwrap();
        assert_eq!(spread.waiting, [election()]);
    });
    let before = Before { store, happens: Arc::new(Mutex::new(Some(happens))) };
    let agent = client(&before);
    let credential = baton::mint_credential().unwrap();
    let asked = agent.acquire(&election(), &bid("a", 30_000), credential, None, None).await;
    assert!(matches!(asked, Err(Error::Refused(Refusal::Paused { .. }))), "{asked:?}");
    assert!(before.happens.lock().unwrap().is_none(), "it happened");
}
