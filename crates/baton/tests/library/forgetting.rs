//! An operator retires an election: what stays, who is refused, and what a race or a lost reply does to it.

use std::sync::{Arc, Mutex};

use baton::election::audit::Book;
use baton::election::operator::{Act, OperatorKey};
use baton::election::{Epoch, Policy};
use baton::store::conformance::{Swap, Wrapped};
use baton::store::{BoxFuture, Key, MemoryStore, Record, Store, StoreError, Swapped};
use baton::{Coordinator, Error};

use crate::support::faulty::{Fault, Faulty, is_election};
use crate::support::{act, bid, client, depose, election, lead, operator, rule};

fn forget() -> Act {
    Act::Forget { reason: "merged".to_string() }
}

async fn forgets(person: &Coordinator) -> Result<(), Error> {
    person.operate(&election(), &operator(), &forget()).await.map(drop)
}

/// What the store has.
async fn record(store: &dyn Store) -> baton::election::Document {
    match store.read(&Key::Election(election())).await.unwrap().found {
        Some((Record::Election(document), _)) => *document,
        other => panic!("{other:?}"),
    }
}

/// An election that was led and released, and its last token.
async fn done(store: &MemoryStore) -> Epoch {
    let (agents, person) = (client(store), client(store));
    person.operators().enrol(&operator()).await.unwrap();
    rule(&person, Policy::default()).await;
    let leader = lead(&agents, bid("a", 600_000)).await;
    let token = leader.token();
    leader.release("").await.unwrap();
    token
}

#[tokio::test]
async fn what_is_forgotten_is_nowhere_and_begins_anew_with_a_higher_token() {
    let store = MemoryStore::default();
    let token = done(&store).await;
    let (agents, person) = (client(&store), client(&store));
    forgets(&person).await.unwrap();
    assert!(agents.view(&election()).await.unwrap().document.is_none());
    assert_eq!(agents.history(&election(), 100).await.unwrap(), []);
    assert_eq!(agents.check(&election(), token).await.unwrap_err().code(), "stale");
    // The act stays, and so does the chain that it belongs to.
    let entries = person.audit().read(&Book::Election(election()), 100).await.unwrap();
    assert_eq!(entries.last().map(|entry| entry.number), Some(entries.len() as u64));
    assert_eq!(person.audit().verify(&Book::Election(election())).await.unwrap().faults, []);
    let leader = lead(&agents, bid("b", 600_000)).await;
    assert!(leader.token() > token.next(), "{} after {token}", leader.token());
    let history = agents.history(&election(), 100).await.unwrap();
    assert_eq!(history.iter().map(|entry| entry.epoch).collect::<Vec<_>>(), [leader.token()]);
    assert_eq!(history[0].from, None);
    assert_eq!(agents.check(&election(), token).await.unwrap_err().code(), "stale");
}

#[tokio::test]
async fn a_forget_whose_reply_is_lost_is_done_once() {
    let store = MemoryStore::default();
    done(&store).await;
    let faulty = Faulty::over(store.clone());
    let acts = record(&store).await.acts;
    faulty.plan(is_election, &[Fault::After]);
    forgets(&client(&faulty)).await.unwrap();
    assert!(faulty.is_over());
    let after = record(&store).await;
    assert!(after.is_retired());
    assert_eq!(after.acts, acts + 1);
    assert_eq!(forgets(&client(&store)).await.unwrap_err().code(), "unknown-election", "there is none");
    assert_eq!(record(&store).await, after);
}

/// A store at which something happens right before the next swap of an election.
#[derive(Clone)]
struct Before {
    store: MemoryStore,
    happens: Arc<Mutex<Option<BoxFuture<'static, ()>>>>,
}

impl Wrapped for Before {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn swaps<'a>(&'a self, swap: Swap<'a>) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move {
            let happens = if swap.is_of_election() { self.happens.lock().unwrap().take() } else { None };
            if let Some(happens) = happens {
                happens.await;
            }
            swap.at(&self.store).await
        })
    }
}

fn before(store: &MemoryStore, happens: impl Future<Output = ()> + Send + 'static) -> Before {
    Before { store: store.clone(), happens: Arc::new(Mutex::new(Some(Box::pin(happens)))) }
}

#[tokio::test]
async fn who_leads_before_a_forget_is_written_is_not_forgotten() {
    let store = MemoryStore::default();
    done(&store).await;
    let agents = client(&store);
    let happens = async move {
        // It lasts as long as the election is held.
        std::mem::forget(lead(&agents, bid("b", 600_000)).await);
    };
    let error = forgets(&client(&before(&store, happens))).await.unwrap_err();
    assert_eq!(error.code(), "stale", "{error}");
    let document = record(&store).await;
    assert!(!document.is_retired());
    assert_eq!(document.leader.unwrap().agent.as_str(), "b");
}

#[tokio::test]
async fn who_asks_while_it_is_forgotten_begins_anew() {
    let store = MemoryStore::default();
    let token = done(&store).await;
    let person = client(&store);
    let happens = async move { forgets(&person).await.unwrap() };
    let leader = lead(&client(&before(&store, happens)), bid("b", 600_000)).await;
    assert!(leader.token() > token.next());
    let document = record(&store).await;
    assert_eq!(document.last_transition.unwrap().from, None, "it follows nobody");
    assert_eq!(document.forgotten, Some(token.next()));
}

#[tokio::test]
async fn a_former_leader_of_what_is_forgotten_is_refused() {
    let store = MemoryStore::default();
    let (agents, person) = (client(&store), client(&store));
    person.operators().enrol(&operator()).await.unwrap();
    let leader = lead(&agents, bid("a", 30_000)).await;
    assert_eq!(forgets(&person).await.unwrap_err().code(), "out-of-turn", "it may be at work");
    assert!(leader.ensure(std::time::Duration::ZERO));
    person
        .operate(&election(), &operator(), &Act::Depose { force: true, reason: String::new() })
        .await
        .unwrap();
    forgets(&person).await.unwrap();
    let lost = crate::support::in_time(leader.lost()).await;
    assert!(!lost.is_empty());
    assert!(leader.release("").await.is_err());
    assert!(record(&store).await.is_retired(), "a late release changes nothing");
}

#[tokio::test]
async fn an_election_that_begins_anew_obeys_the_operators_of_the_store() {
    let store = MemoryStore::default();
    done(&store).await;
    let (agents, person) = (client(&store), client(&store));
    forgets(&person).await.unwrap();
    let other = OperatorKey::from_seed([7; 32]);
    let spread = person.operators().add(&operator(), other.public()).await.unwrap();
    assert_eq!((spread.elections, spread.met), (0, 0));
    person.operators().remove(&other, operator().public()).await.unwrap();
    lead(&agents, bid("b", 600_000)).await;
    assert_eq!(*record(&store).await.operator_keys, [other.public()]);
    let refused = person.operate(&election(), &operator(), &depose("")).await.unwrap_err();
    assert_eq!(refused.code(), "wrong-key", "{refused}");
    person.operate(&election(), &other, &depose("")).await.unwrap();
    // What the former operator did here was right when it was done.
    assert_eq!(person.audit().verify(&Book::Election(election())).await.unwrap().faults, []);
}

#[tokio::test]
async fn the_last_change_of_leader_is_put_into_the_history_before_it_is_forgotten() {
    let store = MemoryStore::default();
    let token = done(&store).await;
    act(&client(&store), forget()).await;
    let found = store.read(&Key::History(election())).await.unwrap().found;
    let Some((Record::History(log), _)) = found else { panic!("{found:?}") };
    assert_eq!(log.entries.last().map(|entry| entry.epoch), Some(token));
}
