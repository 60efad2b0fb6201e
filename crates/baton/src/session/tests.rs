//! What a session makes of answers, without a server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_api::sessions::{HeartbeatReply, LeaseChange, LeaseFailure};
use baton_election::time::Span;
use baton_election::{AgentName, Document, ElectionName, Epoch, Incarnation, LeaseKey, StoreId};
use baton_store::{MemoryStore, boot};
use tokio::sync::{Notify, watch};

use super::heartbeat::Next;
use super::{Inner, SessionLeadership, State, Topic};
use crate::coordinator::Coordinator;
use crate::follow::{LeaderView, SeenAt};
use crate::grant::Grant;
use baton_api::Memory;

fn inner() -> Arc<Inner> {
    Arc::new(Inner {
        coordinator: Coordinator::with_store(Arc::new(MemoryStore::default()), Memory::new()),
        agent: AgentName::new("a").unwrap(),
        key: LeaseKey([2; 16]),
        state: Mutex::new(State {
            id: Incarnation([1; 8]),
            number: 0,
            announced: true,
            leases: BTreeMap::new(),
            dropping: Vec::new(),
            follows: BTreeMap::new(),
            follows_known: true,
            unfollowed: BTreeSet::new(),
            health: None,
            progress: None,
            description: None,
            undescribed: false,
            leads: None,
            every: Span::secs(6),
            reached: true,
        }),
        nudge: Notify::new(),
        ask: Notify::new(),
        look: Notify::new(),
        seen: Arc::default(),
    })
}

fn ride(inner: &Arc<Inner>, name: &str, token: u64, ttl: Span) -> SessionLeadership {
    let election = ElectionName::new(name).unwrap();
    let credential =
        baton_election::Credential { incarnation: Incarnation(token.to_be_bytes()), key: inner.key };
    let document = Document::new(election.clone(), StoreId([1; 8]), Epoch(token), &[]);
    let grant = Grant::asked_for(boot::now(), ttl, credential, document);
    SessionLeadership::begin(inner, &election, &grant).unwrap()
}

fn named(riding: &SessionLeadership, why: &str) -> LeaseFailure {
    LeaseFailure { election: riding.election().clone(), token: riding.token(), why: why.to_string() }
}

fn renewed(riding: u64) -> HeartbeatReply {
    HeartbeatReply { heartbeat_ms: 5_000, jitter_ms: 1_000, missed: 3, riding, ..HeartbeatReply::default() }
}

/// Sends, waits for a moment, and takes in this answer.
fn beat(inner: &Arc<Inner>, answer: HeartbeatReply) -> Next {
    let sent = inner.state().send();
    std::thread::sleep(Duration::from_millis(5));
    inner.answered(sent, answer)
}

#[test]
fn an_answer_that_counts_all_renews_all_from_before_it_was_asked_for() {
    let inner = inner();
    let (one, two) = (ride(&inner, "one", 1, Span::secs(30)), ride(&inner, "two", 2, Span::secs(30)));
    let before = one.deadline();
    let asked = boot::now();
    assert!(matches!(beat(&inner, renewed(2)), Next::AsTold(_)));
    assert!(one.deadline() > before && two.deadline() > before);
    let usable = baton_election::Margins::STANDARD.usable(Span::secs(30));
    assert!(one.deadline() < boot::now() + usable, "not from the answer");
    assert!(one.deadline() >= asked + usable);
    assert!(inner.state().leases.values().all(|lease| lease.confirmed));
}

#[test]
fn an_answer_that_counts_another_number_renews_nothing() {
    let inner = inner();
    let (one, two) = (ride(&inner, "one", 1, Span::secs(30)), ride(&inner, "two", 2, Span::secs(30)));
    let before = (one.deadline(), two.deadline());
    for count in [0, 1, 3] {
        assert!(matches!(beat(&inner, renewed(count)), Next::Again));
        assert_eq!((one.deadline(), two.deadline()), before);
        assert!(!inner.state().announced, "it announces anew");
    }
    assert!(matches!(beat(&inner, renewed(2)), Next::AsTold(_)));
    assert!(one.deadline() > before.0);
}

#[test]
fn what_is_named_is_not_renewed_and_the_others_are() {
    let inner = inner();
    let (lost, failed, held) = (
        ride(&inner, "lost", 1, Span::secs(30)),
        ride(&inner, "failed", 2, Span::secs(30)),
        ride(&inner, "held", 3, Span::secs(30)),
    );
    let before = failed.deadline();
    let answer = HeartbeatReply {
        lost: vec![named(&lost, "deposed")],
        failed: vec![named(&failed, "the disk is full")],
        ..renewed(1)
    };
    assert!(matches!(beat(&inner, answer), Next::Again));
    assert!(!lost.ensure(Duration::ZERO) && failed.ensure(Duration::ZERO));
    assert!(failed.deadline() == before && held.deadline() > before);
    // It is dropped the next time, and what was given up meanwhile is too.
    let sent = inner.state().send();
    assert_eq!(sent.drop.len(), 1);
    assert_eq!(sent.rides.len(), 2);
    drop(held);
    let answer = HeartbeatReply { lost: vec![], ..renewed(2) };
    inner.answered(sent, answer);
    let sent = inner.state().send();
    assert_eq!(sent.drop.iter().map(|which| which.token).collect::<Vec<_>>(), [Epoch(3)]);
    assert!(failed.deadline() > before);
}

#[test]
fn an_answer_after_the_deadline_revives_nothing() {
    let inner = inner();
    let short = ride(&inner, "short", 1, Span::millis(1_000));
    let sent = inner.state().send();
    std::thread::sleep(Duration::from_millis(1_000));
    assert!(!short.ensure(Duration::ZERO));
    inner.answered(sent, renewed(1));
    assert!(!short.ensure(Duration::ZERO) && inner.state().leases.is_empty());
}

#[test]
fn a_token_that_rose_is_told_to_the_server() {
    let inner = inner();
    let riding = ride(&inner, "e", 3, Span::secs(30));
    let changed = |awaiting_approval, epoch| LeaseChange {
        election: riding.election().clone(),
        token: Epoch(3),
        epoch: Epoch(epoch),
        awaiting_approval,
    };
    beat(&inner, HeartbeatReply { changed: vec![changed(true, 3)], ..renewed(1) });
    assert!(!riding.ensure(Duration::ZERO), "its token is refused");
    assert!(matches!(
        beat(&inner, HeartbeatReply { changed: vec![changed(false, 4)], ..renewed(1) }),
        Next::AtOnce
    ));
    assert!(riding.ensure(Duration::ZERO) && riding.token() == Epoch(4));
    assert_eq!(inner.state().send().add[0].token, Epoch(4));
}

#[test]
fn a_server_that_knows_nothing_is_told_everything() {
    let inner = inner();
    let _one = ride(&inner, "one", 1, Span::secs(30));
    beat(&inner, renewed(1));
    assert!(inner.state().send().add.is_empty());
    inner.state().announced = false;
    let sent = inner.state().send();
    assert!(sent.announces && sent.add.len() == 1 && sent.follows == Some(Vec::new()));
}

#[test]
fn what_is_stale_is_not_confirmed_by_a_heartbeat() {
    let inner = inner();
    let seen: Arc<SeenAt> = Arc::default();
    let known = watch::Sender::new(Arc::new(LeaderView::default()));
    let topic = Topic { known, followers: 1, look_at: boot::now(), seen: Arc::clone(&seen) };
    inner.state().follows.insert(ElectionName::new("e").unwrap(), topic);
    let begun = boot::now();
    let is_confirmed = || seen.since() <= boot::now().since(begun);
    // To a server that was started anew it is announced: what that knows is told afterwards.
    inner.state().announced = false;
    beat(&inner, renewed(0));
    assert!(!is_confirmed());
    inner.state().all_stale();
    beat(&inner, renewed(0));
    assert!(!is_confirmed());
    let election = ElectionName::new("e").unwrap();
    inner.state().follows[&election].known.send_replace(Arc::new(LeaderView::default()));
    beat(&inner, renewed(0));
    assert!(is_confirmed());
}
