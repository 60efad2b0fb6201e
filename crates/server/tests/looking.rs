//! A look takes no election over, a command that changes one does, and there is a way back.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton::{Bid, Coordinator, Grant, Memory, mint_credential};
use baton_api::CommandError;
use baton_api::command::Decided;
use baton_election::command::Renew;
use baton_election::time::Span;
use baton_election::{AgentName, Answer, Command, Epoch, Refusal};
use baton_server::{ChangeNotice, Engine, GiveBackError, give_back};
use baton_store::{Key, MemoryStore, Record, Store};

use crate::support;
use crate::support::{Held, acquire, credential, election};

/// A bound on a hang.
const HANG: Duration = Duration::from_secs(180);

fn direct(store: &Held) -> Coordinator {
    Coordinator::with_store(Arc::new(store.clone()), Memory::new())
}

async fn lead(direct: &Coordinator, agent: &str, ttl: Span) -> Grant {
    let bid = Bid { ttl: Some(ttl), ..Bid::new(AgentName::new(agent).unwrap()) };
    direct.acquire(&election(), &bid, mint_credential().unwrap(), None, None).await.unwrap()
}

async fn server_in(store: &Held) -> Option<Epoch> {
    match store.read(&Key::Election(election())).await.unwrap().found {
        Some((Record::Election(document), _)) => document.server,
        other => panic!("{other:?}"),
    }
}

fn granted(outcome: Result<Decided, CommandError>) -> Epoch {
    match outcome.unwrap().answer {
        Answer::Granted { epoch, .. } => epoch,
        other => panic!("{other:?}"),
    }
}

/// Everything by which somebody can look at an election.
async fn look(engine: &Engine, leads: &Grant) {
    let view = engine.view(&election()).await.unwrap();
    assert_eq!(view.document.unwrap().epoch, leads.epoch);
    assert_eq!(engine.leader(&election()).await.unwrap().unwrap().epoch, leads.epoch);
    engine.check(&election(), leads.epoch).await.unwrap();
    engine.ready().await.unwrap();
    engine.look_for_new().await;
    drop(engine.subscribe(&election(), None));
}

#[tokio::test]
async fn a_look_writes_nothing_and_the_leader_leads_on() {
    for ageless in [false, true] {
        let mut store = Held::on(&MemoryStore::default());
        store.ageless = ageless;
        let direct = direct(&store);
        let leads = lead(&direct, "direct", Span::secs(60)).await;
        for engine in [
            Engine::take_over(Arc::new(store.clone()), Epoch(1)).await.unwrap(),
            Engine::observe(Arc::new(store.clone())).await.unwrap(),
        ] {
            let before = store.swapped.load(Ordering::SeqCst);
            look(&engine, &leads).await;
            look(&engine, &leads).await;
            assert_eq!(store.swapped.load(Ordering::SeqCst), before, "a look has written");
            assert_eq!(server_in(&store).await, None);
            direct.renew(&election(), &Renew::new(leads.epoch, leads.credential)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_an_earlier_server_decided_is_looked_at_without_a_take_over() {
    let inner = MemoryStore::default();
    let first = Engine::take_over(Arc::new(Held::on(&inner)), Epoch(1)).await.unwrap();
    let epoch = granted(first.acquire(&election(), acquire(1, Span::secs(60)), Span::ZERO).await);
    let store = Held::on(&inner);
    let second = Engine::take_over(Arc::new(store.clone()), Epoch(2)).await.unwrap();
    assert_eq!(second.leader(&election()).await.unwrap().unwrap().epoch, epoch);
    assert_eq!((server_in(&store).await, store.swapped.load(Ordering::SeqCst)), (Some(Epoch(1)), 0));
    // The server that is still paused finds out at its next command, also if the next one has only looked: by the lease that it lost.
    second.execute(&election(), &Command::Renew(Renew::new(epoch, credential(1)))).await.unwrap();
    assert_eq!(server_in(&store).await, Some(Epoch(2)));
}

#[tokio::test]
async fn a_command_that_is_refused_takes_nothing_over_and_one_that_changes_it_does() {
    let store = Held::on(&MemoryStore::default());
    let direct = direct(&store);
    let leads = lead(&direct, "direct", Span::secs(60)).await;
    let engine = Engine::take_over(Arc::new(store.clone()), Epoch(1)).await.unwrap();
    let before = store.swapped.load(Ordering::SeqCst);
    let refused = engine.acquire(&election(), acquire(2, Span::secs(5)), Span::ZERO).await.unwrap_err();
    assert!(matches!(refused, CommandError::Refused(Refusal::Held { .. })), "{refused}");
    let waited = engine.acquire(&election(), acquire(2, Span::secs(5)), Span::millis(700)).await.unwrap_err();
    assert!(matches!(waited, CommandError::Refused(Refusal::Held { .. })), "{waited}");
    assert_eq!(store.swapped.load(Ordering::SeqCst), before);
    // An agent that waits in line at the server gets the lease when the leader in the store releases it.
    let waits = tokio::spawn({
        let engine = engine.clone();
        async move { engine.acquire(&election(), acquire(2, Span::secs(60)), Span::secs(60)).await }
    });
    support::until(|| !engine.in_line().is_empty()).await;
    direct.release(&election(), leads.epoch, leads.credential, None).await.unwrap();
    let next = granted(tokio::time::timeout(HANG, waits).await.expect("nobody is granted it").unwrap());
    assert!(next > leads.epoch);
    assert_eq!(server_in(&store).await, Some(Epoch(1)));
}

#[tokio::test]
async fn a_leader_that_died_in_the_store_is_succeeded_at_the_server() {
    for ageless in [false, true] {
        let mut store = Held::on(&MemoryStore::default());
        store.ageless = ageless;
        let leads = lead(&direct(&store), "direct", Span::secs(2)).await;
        let engine = Engine::take_over(Arc::new(store.clone()), Epoch(1)).await.unwrap();
        let asked = async { engine.acquire(&election(), acquire(2, Span::secs(5)), Span::secs(60)).await };
        let next = granted(tokio::time::timeout(HANG, asked).await.expect("nobody is granted it"));
        assert!(next > leads.epoch, "ageless: {ageless}");
    }
}

#[tokio::test]
async fn changes_that_others_make_are_told_of() {
    let store = Held::on(&MemoryStore::default());
    let direct = direct(&store);
    let leads = lead(&direct, "direct", Span::secs(60)).await;
    let engine = Engine::observe(Arc::new(store.clone())).await.unwrap();
    let mut changes = engine.subscribe(&election(), None);
    direct.release(&election(), leads.epoch, leads.credential, None).await.unwrap();
    let told = async {
        loop {
            match changes.next().await.unwrap() {
                ChangeNotice::Event(event) if event.document().leader.is_none() => return,
                ChangeNotice::Event(_) | ChangeNotice::Gap => {}
            }
        }
    };
    tokio::time::timeout(HANG, told).await.expect("nobody was told of the release");
}

#[tokio::test]
async fn who_observes_carries_out_no_command() {
    let store = Held::on(&MemoryStore::default());
    let leads = lead(&direct(&store), "direct", Span::secs(60)).await;
    let engine = Engine::observe(Arc::new(store.clone())).await.unwrap();
    let before = store.swapped.load(Ordering::SeqCst);
    let renewal = Command::Renew(Renew::new(leads.epoch, leads.credential));
    let refused = engine.execute(&election(), &renewal).await.unwrap_err();
    assert!(refused.to_string().contains("only observes"), "{refused}");
    let refused = engine.acquire(&election(), acquire(2, Span::secs(5)), Span::ZERO).await.unwrap_err();
    assert!(refused.to_string().contains("only observes"), "{refused}");
    assert_eq!(store.swapped.load(Ordering::SeqCst), before);
}

/// Whoever watches the store sees no renewal that a server has only in memory: it would take the lease for one that ended long ago.
#[tokio::test]
async fn elections_are_given_back_with_the_full_length_of_each_lease() {
    for ageless in [false, true] {
        let mut store = Held::on(&MemoryStore::default());
        store.ageless = ageless;
        let direct = direct(&store);
        let engine = Engine::take_over(Arc::new(store.clone()), Epoch(1)).await.unwrap();
        let ttl = Span::secs(6);
        let epoch = granted(engine.acquire(&election(), acquire(1, ttl), Span::ZERO).await);
        let renewal = Renew::new(epoch, credential(1));
        for _ in 0..7 {
            direct.view(&election()).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            engine.execute(&election(), &Command::Renew(renewal.clone())).await.unwrap();
        }
        let given_back = give_back(Arc::new(store.clone()), Span::secs(3)).await.unwrap();
        assert_eq!((given_back, server_in(&store).await), (vec![election()], None));
        let bid = Bid::new(AgentName::new("local").unwrap());
        let refused = direct.acquire(&election(), &bid, mint_credential().unwrap(), None, None).await;
        let refused = refused.expect_err("a lease that a server promised was cut short");
        assert_eq!(refused.code(), "held", "{refused}");
        // The leader goes on in the store itself. A server that wakes up late, and whose own lease has ended, takes nothing back.
        engine.only_while(|| false);
        direct.renew(&election(), &renewal).await.unwrap();
        let release = baton_election::command::Release {
            epoch,
            credential: credential(1),
            reason: None,
            ending: baton_election::command::Ending::Stopped,
        };
        engine.execute(&election(), &Command::Release(release)).await.unwrap_err();
        assert_eq!(direct.view(&election()).await.unwrap().document.unwrap().epoch, epoch);
        assert_eq!(give_back(Arc::new(store.clone()), Span::secs(3)).await.unwrap(), Vec::new());
    }
}

#[tokio::test]
async fn nothing_is_given_back_while_a_server_is_active() {
    let store = Held::on(&MemoryStore::default());
    let servers = baton_election::ElectionName::new(baton::SERVERS).unwrap();
    let contact = Some("http://h:1".to_string());
    let bid = Bid { contact, ttl: Some(Span::secs(3)), ..Bid::new(AgentName::new("s").unwrap()) };
    let active = direct(&store).campaign(&servers, baton::Campaign::new(bid)).await.unwrap();
    let refused = give_back(Arc::new(store.clone()), Span::secs(3)).await.unwrap_err();
    assert!(matches!(&refused, GiveBackError::Active(contact) if contact == "http://h:1"), "{refused}");
    active.release("").await.unwrap();
    give_back(Arc::new(store.clone()), Span::secs(3)).await.unwrap();
}
