//! Several servers on one store: what a former one decided does not land, what a lease was promised is kept, and one answers at a time.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton::{Bid, Coordinator, Memory, mint_credential};
use baton_api::CommandError;
use baton_api::command::Decided;
use baton_election::command::{Ending, Release, Renew};
use baton_election::time::Span;
use baton_election::{AgentName, Answer, Command, Epoch, Refusal};
use baton_server::Engine;
use baton_store::{Key, MemoryStore, Record, Store, boot};

use crate::support;
use crate::support::{Held, acquire, credential, election};

async fn engine(store: &Held, term: u64) -> Engine {
    Engine::take_over(Arc::new(store.clone()), Epoch(term)).await.unwrap()
}

fn granted(outcome: Result<Decided, CommandError>) -> Epoch {
    match outcome.unwrap().answer {
        Answer::Granted { epoch, .. } => epoch,
        other => panic!("{other:?}"),
    }
}

async fn grant(engine: &Engine, number: u8, ttl: Span) -> Epoch {
    granted(engine.acquire(&election(), acquire(number, ttl), Span::ZERO).await)
}

/// Asks again while somebody holds it. A server that stood still waits for a whole lease anew.
async fn grant_at_last(engine: &Engine, number: u8, ttl: Span) -> Epoch {
    let asked = async {
        loop {
            match engine.acquire(&election(), acquire(number, ttl), Span::ZERO).await {
                Err(CommandError::Refused(Refusal::Held { .. })) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                outcome => return granted(outcome),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), asked).await.expect("it is held for ever")
}

async fn renew(engine: &Engine, number: u8, epoch: Epoch) -> Result<Decided, CommandError> {
    engine.execute(&election(), &Command::Renew(Renew::new(epoch, credential(number)))).await
}

async fn release(engine: &Engine, number: u8, epoch: Epoch) -> Result<Decided, CommandError> {
    let release = Release { epoch, credential: credential(number), reason: None, ending: Ending::Stopped };
    engine.execute(&election(), &Command::Release(release)).await
}

async fn server_in(store: &MemoryStore) -> Option<Epoch> {
    match store.read(&Key::Election(election())).await.unwrap().found {
        Some((Record::Election(document), _)) => document.server,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_a_former_server_decided_does_not_land_after_the_take_over() {
    let inner = MemoryStore::default();
    let (old, new) = (Held::on(&inner), Held::on(&inner));
    let first = engine(&old, 1).await;
    let epoch = grant(&first, 1, Span::secs(30)).await;
    release(&first, 1, epoch).await.unwrap();
    // It has decided to grant it to 2, and is stopped before the write.
    old.hold.send_replace(true);
    let asked = tokio::spawn({
        let first = first.clone();
        async move { first.acquire(&election(), acquire(2, Span::secs(30)), Span::ZERO).await }
    });
    support::until(|| old.holding.load(Ordering::SeqCst) > 0).await;
    let second = engine(&new, 2).await;
    let next = grant(&second, 3, Span::secs(30)).await;
    assert!(next > epoch);
    old.hold.send_replace(false);
    assert!(matches!(asked.await.unwrap(), Err(CommandError::Store(_))), "it was told of its grant");
    assert!(first.is_deposed());
    let document = second.view(&election()).await.unwrap().document.unwrap();
    assert_eq!((document.epoch, document.leader.unwrap().agent.as_str()), (next, "agent-3"));
}

#[tokio::test]
async fn an_election_is_taken_over_before_anything_is_decided_on_it() {
    let inner = MemoryStore::default();
    let first = engine(&Held::on(&inner), 1).await;
    let epoch = grant(&first, 1, Span::secs(30)).await;
    assert_eq!(server_in(&inner).await, Some(Epoch(1)));
    let second = engine(&Held::on(&inner), 2).await;
    assert_eq!(server_in(&inner).await, Some(Epoch(1)), "nobody has asked for it");
    renew(&second, 1, epoch).await.unwrap();
    assert_eq!(server_in(&inner).await, Some(Epoch(2)));
    let third = engine(&Held::on(&inner), 3).await;
    assert_eq!(third.view(&election()).await.unwrap().document.unwrap().epoch, epoch);
    assert_eq!(server_in(&inner).await, Some(Epoch(2)), "a look takes nothing over");
    renew(&third, 1, epoch).await.unwrap();
    assert_eq!(server_in(&inner).await, Some(Epoch(3)));
    // The second server is late, and finds out that it was deposed.
    assert!(release(&second, 1, epoch).await.is_err());
    assert!(second.is_deposed());
    release(&third, 1, epoch).await.unwrap();
}

#[tokio::test]
async fn a_take_over_whose_answer_was_lost_is_known_again() {
    let inner = MemoryStore::default();
    let epoch = grant(&engine(&Held::on(&inner), 1).await, 1, Span::secs(30)).await;
    let store = Held::on(&inner);
    let second = engine(&store, 2).await;
    store.lose_answer.store(true, Ordering::SeqCst);
    renew(&second, 1, epoch).await.unwrap();
    assert_eq!(server_in(&inner).await, Some(Epoch(2)));
}

#[tokio::test]
async fn a_lease_has_its_full_length_from_the_take_over() {
    let inner = MemoryStore::default();
    let first = engine(&Held::on(&inner), 1).await;
    let granted = boot::now();
    let epoch = grant(&first, 1, Span::secs(8)).await;
    tokio::time::sleep(Duration::from_millis(6_000)).await;
    let second = engine(&Held::on(&inner), 2).await;
    boot::sleep_until(granted + Span::millis(8_200)).await.unwrap();
    let refused = second.acquire(&election(), acquire(2, Span::secs(2)), Span::ZERO).await.unwrap_err();
    assert!(matches!(refused, CommandError::Refused(Refusal::Held { .. })), "{refused}");
    renew(&second, 1, epoch).await.unwrap();
}

/// On a store that does not tell ages, whoever renewed in it may have done so just before the servers came.
#[tokio::test]
async fn whoever_led_without_servers_keeps_its_lease_and_goes_around_them_no_more() {
    let inner = MemoryStore::default();
    let mut store = Held::on(&inner);
    store.ageless = true;
    let direct = Coordinator::with_store(Arc::new(store.clone()), Memory::new());
    let bid = Bid { ttl: Some(Span::secs(6)), ..Bid::new(AgentName::new("direct").unwrap()) };
    let engine = engine(&store, 1).await;
    tokio::time::sleep(Duration::from_millis(6_200)).await;
    let lease = direct.acquire(&election(), &bid, mint_credential().unwrap(), None, None).await.unwrap();
    let refused = engine.acquire(&election(), acquire(2, Span::secs(1)), Span::ZERO).await.unwrap_err();
    assert!(matches!(refused, CommandError::Refused(Refusal::Held { .. })), "{refused}");
    let renewal = baton::Renewal::new(lease.epoch, lease.credential);
    direct.renew(&election(), &renewal).await.expect("a command that is refused takes nothing over");
    engine.execute(&election(), &Command::Renew(renewal.clone())).await.unwrap();
    let refused = direct.renew(&election(), &renewal).await.unwrap_err();
    assert_eq!(refused.code(), "refused", "{refused}");
    assert!(refused.hint().unwrap().contains("URL"), "{refused:?}");
    let campaign = baton::Campaign { bid, wait: Some(Span::secs(5)) };
    assert_eq!(direct.campaign(&election(), campaign).await.err().unwrap().code(), "refused");
    tokio::time::sleep(Duration::from_millis(6_200)).await;
    // A client that reads the store does not know whether the lease was renewed.
    let view = direct.view(&election()).await.unwrap();
    assert!(view.leader().is_some() && !view.exact);
    assert!(grant_at_last(&engine, 2, Span::secs(1)).await > lease.epoch);
}

#[tokio::test]
async fn every_change_of_leader_is_in_the_history() {
    let inner = MemoryStore::default();
    let mut given = Vec::new();
    for term in 1..=3 {
        let engine = engine(&Held::on(&inner), term).await;
        for _ in 0..2 {
            let number = u8::try_from(given.len() + 1).unwrap();
            let epoch = grant(&engine, number, Span::secs(30)).await;
            release(&engine, number, epoch).await.unwrap();
            given.push(epoch);
        }
    }
    let reader = Coordinator::with_store(Arc::new(inner), Memory::new());
    let history = reader.history(&election(), 100).await.unwrap();
    assert_eq!(history.iter().map(|entry| entry.epoch).collect::<Vec<_>>(), given);
}

#[tokio::test]
async fn a_record_that_others_deleted_is_waited_out_and_epochs_go_on() {
    let store = Held::on(&MemoryStore::default());
    let engine = engine(&store, 1).await;
    let epoch = grant(&engine, 1, Span::secs(8)).await;
    store.wipe().await;
    // The server knows its elections by heart, and notices when it writes.
    renew(&engine, 1, epoch).await.unwrap();
    assert!(release(&engine, 1, epoch).await.is_err());
    let refused = engine.acquire(&election(), acquire(2, Span::secs(2)), Span::ZERO).await.unwrap_err();
    assert!(matches!(refused, CommandError::Refused(Refusal::Held { by: None, .. })), "{refused}");
    assert!(grant_at_last(&engine, 2, Span::secs(2)).await > epoch);
}

#[tokio::test]
async fn the_servers_own_election_is_read_and_not_commanded() {
    let inner = MemoryStore::default();
    let engine = engine(&Held::on(&inner), 1).await;
    let servers = baton_election::ElectionName::new(baton::SERVERS).unwrap();
    let refused = engine.acquire(&servers, acquire(1, Span::secs(2)), Span::ZERO).await.unwrap_err();
    assert!(matches!(refused, CommandError::Refused(Refusal::Invalid { .. })), "{refused}");
    let direct = Coordinator::with_store(Arc::new(inner), Memory::new());
    let bid = Bid { contact: Some("http://h:1".to_string()), ..Bid::new(AgentName::new("s").unwrap()) };
    direct.acquire(&servers, &bid, mint_credential().unwrap(), None, None).await.unwrap();
    let document = engine.view(&servers).await.unwrap().document.unwrap();
    assert_eq!(document.leader.unwrap().contact.as_deref(), Some("http://h:1"));
    assert_eq!(document.server, None, "it is nobody's to take over");
}
