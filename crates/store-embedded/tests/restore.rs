//! Snapshots, and putting them back.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use baton_election::bindings::FenceChange;
use baton_election::document::Pause;
use baton_election::id::StoreId;
use baton_election::operator::OperatorKey;
use baton_election::store_order::{SignedStoreOrder, StoreChange};
use baton_election::store_quorum::StoreQuorum;
use baton_election::tokens::{Proof, Role, TokenChange, TokenEntry};
use baton_election::{
    ContentHash, Epoch, Fence, Refusal, ResourceName, Span, State, StoreInfo, TokenId, Tokens, WallTime,
};
use baton_store::{Access, AgeStamp, Expect, Key, Persistence, Record, Store, StoreError, boot};
use baton_store_embedded::{EmbeddedStore, FormerStore, Restore, Restored, Write, restore};

use crate::support;
use crate::support::{TestStore, asked, document, election, failed, led, put, read, record, taken_over};

const GAP: u64 = 1 << 32;

fn from(snapshot: &Path, to: &Path) -> Result<Restored, StoreError> {
    restore(&Restore {
        from: snapshot,
        to,
        above: Epoch(0),
        leases: None,
        at: WallTime::default(),
        trust_snapshot: false,
    })
}

fn info(id: u8) -> Record {
    Record::Store(StoreInfo::new(StoreId([id; 8]), WallTime::default()))
}

/// A store with an election that is held in epoch 2, one that is vacant, a fence, and a snapshot of all that.
async fn snapshotted(place: &TestStore) -> EmbeddedStore {
    let store = place.store();
    let _ = store
        .swap(&Key::Store, Expect::Absent, &info(7), AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    let version = put(&store, &led("held", 1), Expect::Absent).await;
    let _ = put(&store, &taken_over(&led("held", 1), 2), Expect::Version(version)).await;
    let mut vacant = led("vacant", 1);
    (vacant.state, vacant.leader) = (State::Vacant, None);
    let _ = put(&store, &vacant, Expect::Absent).await;
    let resource = ResourceName::new("r").unwrap();
    let fence = Fence {
        highest: Epoch(2),
        beat: 1,
        ..Fence::new(resource.clone(), StoreId([7; 8]), election("held"))
    };
    let fence = Record::Fence(Box::new(fence));
    let _ = store
        .swap(&Key::Fence(resource), Expect::Absent, &fence, AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    store.snapshot(&place.file("snapshot")).unwrap();
    store
}

#[tokio::test]
async fn no_epoch_goes_back() {
    let place = TestStore::new();
    let store = snapshotted(&place).await;
    // What the snapshot does not know of.
    let reading = read(&store, "held").await;
    let later = taken_over(&taken_over(&document(&reading), 3), 4);
    let _ = put(&store, &later, reading.expect()).await;
    let _ = put(&store, &led("new", 9), Expect::Absent).await;
    let version = read(&store, "held").await.found.unwrap().1;
    drop(store);
    let before = std::fs::read(place.file("snapshot")).unwrap();
    let former = std::fs::read(place.file("baton.redb")).unwrap();

    let restored = from(&place.file("snapshot"), &place.file("baton.redb")).unwrap();
    assert_eq!((restored.floor, restored.elections), (Epoch(4 + GAP), 2));
    let kept = restored.kept.unwrap();
    assert!(std::fs::read(&kept).unwrap() == former, "what was there is kept as it was");
    assert!(std::fs::read(place.file("snapshot")).unwrap() == before, "the snapshot is left alone");

    let store = place.store();
    let held = read(&store, "held").await;
    let found = document(&held);
    assert_eq!((found.epoch, found.state), (restored.floor, State::Vacant));
    assert!(found.contradiction().is_none());
    assert!(held.found.unwrap().1.as_str().parse::<u64>().unwrap() > 0);
    let again = asked(Some(&found), "held", 9, Span::ZERO, Epoch(0));
    assert!(again.is_err(), "whoever led may still be at work: {again:?}");
    let granted = asked(Some(&found), "held", 9, restored.leases, Epoch(0)).unwrap();
    assert_eq!(granted.epoch, Epoch(restored.floor.0 + 1));
    let vacant = document(&read(&store, "vacant").await);
    assert!(
        asked(Some(&vacant), "vacant", 9, Span::ZERO, Epoch(0)).is_err(),
        "it may be held by somebody unknown"
    );
    assert!(asked(Some(&vacant), "vacant", 9, restored.leases, Epoch(0)).unwrap().epoch > restored.floor);
    let trace = read(&store, "new").await.trace.unwrap();
    assert_eq!(trace.epoch, restored.floor, "one that the snapshot did not know begins above, too");
    assert!(trace.lease > Span::ZERO && trace.lease <= restored.leases);
    assert_eq!(own(&store).await.id, StoreId([7; 8]), "it is the same store");
    let fence = store.read(&Key::Fence(ResourceName::new("r").unwrap())).await.unwrap();
    assert!(matches!(fence.record(), Some(Record::Fence(fence)) if fence.highest == restored.floor));
    assert_eq!(store.native_history(&election("held"), 9).await.unwrap().len(), 2);
    let next = put(&store, &led("another", 1), Expect::Absent).await;
    assert!(next.as_str().parse::<u64>().unwrap() > version.as_str().parse::<u64>().unwrap() + GAP / 2);
    drop(store);

    // And once more.
    let again = from(&place.file("snapshot"), &place.file("baton.redb")).unwrap();
    assert_eq!(again.floor, Epoch(restored.floor.0 + GAP));
    assert_ne!(again.kept.unwrap(), kept);
}

#[tokio::test]
async fn what_is_known_better_counts() {
    let place = TestStore::new();
    drop(snapshotted(&place).await);
    let (snapshot, to) = (place.file("snapshot"), place.file("elsewhere.redb"));
    let leases = Some(Span::secs(3_600));
    let asked = Restore {
        from: &snapshot,
        to: &to,
        above: Epoch(1_000),
        leases,
        at: WallTime::default(),
        trust_snapshot: false,
    };
    let restored = restore(&asked).unwrap();
    assert_eq!((restored.floor, restored.kept), (Epoch(1_000 + GAP), None));
    assert_eq!(restored.leases, Span::secs(3_600));
    let store = EmbeddedStore::open(&to, Access::Write).unwrap();
    let found = document(&read(&store, "held").await);
    assert_eq!(found.outgoing.unwrap().ttl, Span::secs(3_600));
}

/// Of what was given after the first restore no file tells.
#[tokio::test]
async fn a_snapshot_that_is_restored_twice_gives_no_epoch_twice() {
    let place = TestStore::new();
    drop(snapshotted(&place).await);
    let snapshot = place.file("snapshot");
    let at = |day: u64| WallTime::from_unix_millis(1_800_000_000_000 + day * 86_400_000);
    let floor = |to: &str, at: WallTime| {
        let to = place.file(to);
        let asked =
            Restore { from: &snapshot, to: &to, above: Epoch(0), leases: None, at, trust_snapshot: false };
        restore(&asked).unwrap().floor
    };
    let (first, second) = (floor("first.redb", at(0)), floor("second.redb", at(1)));
    // A thousand a second, for a day.
    assert!(second.0 > first.0 + 86_400_000, "{second} after {first}");
    // A clock that was set back takes nothing back.
    assert!(floor("third.redb", WallTime::default()) > Epoch(GAP));
    // Numbers in JSON are read as floats by many.
    assert!(second.0 < 1 << 53);
}

/// A former store that is older than the snapshot is no word of the operators, although both had as much room for versions; nor is a copy of the
/// snapshot that somebody put in its place.
#[tokio::test]
async fn a_former_store_that_is_older_or_a_copy_is_noticed() {
    let place = TestStore::new();
    drop(snapshotted(&place).await);
    std::fs::copy(place.file("baton.redb"), place.file("old.redb")).unwrap();
    let store = place.store();
    let _ = put(&store, &led("since", 1), Expect::Absent).await;
    let later = place.file("later");
    store.snapshot(&later).unwrap();
    drop(store);
    std::fs::copy(&later, place.file("copy.redb")).unwrap();
    for (former, state) in [
        ("old.redb", FormerStore::Incomplete),
        ("copy.redb", FormerStore::Incomplete),
        ("baton.redb", FormerStore::Whole),
    ] {
        assert_eq!(from(&later, &place.file(former)).unwrap().former, state, "{former}");
    }
}

#[tokio::test]
async fn a_link_stays_one_and_what_it_leads_to_is_replaced() {
    let place = TestStore::new();
    drop(snapshotted(&place).await);
    std::os::unix::fs::symlink(place.file("baton.redb"), place.file("link.redb")).unwrap();
    let restored = from(&place.file("snapshot"), &place.file("link.redb")).unwrap();
    assert!(std::fs::symlink_metadata(place.file("link.redb")).unwrap().is_symlink());
    assert!(std::fs::symlink_metadata(restored.kept.unwrap()).unwrap().is_file());
    assert_eq!(document(&read(&place.store(), "held").await).epoch, restored.floor);
}

/// The agent whom operators appointed since is waited for, and not the one of the snapshot.
#[tokio::test]
async fn the_last_appointment_counts() {
    let place = TestStore::new();
    let store = place.store();
    let _ = store
        .swap(&Key::Store, Expect::Absent, &info(7), AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    let kept_for = |agent: &str, acts: u64| {
        let mut document = led("e", 1);
        (document.state, document.leader, document.acts) = (State::Vacant, None, acts);
        let agent = baton_election::AgentName::new(agent).unwrap();
        document.reserved_for =
            Some(baton_election::document::Reservation { agent, lasts: None, by_operator: true });
        document
    };
    let version = put(&store, &kept_for("mallory", 1), Expect::Absent).await;
    store.snapshot(&place.file("snapshot")).unwrap();
    let _ = put(&store, &kept_for("bob", 2), Expect::Version(version)).await;
    drop(store);
    from(&place.file("snapshot"), &place.file("baton.redb")).unwrap();
    let restored = document(&read(&place.store(), "e").await);
    assert_eq!(restored.reserved_for.unwrap().agent.as_str(), "bob");
}

/// Above it no token is left: every grant would be refused, for ever.
#[tokio::test]
async fn a_token_that_cannot_have_been_given_is_refused_and_nothing_is_changed() {
    let place = TestStore::new();
    drop(snapshotted(&place).await);
    let (snapshot, to) = (place.file("snapshot"), place.file("elsewhere.redb"));
    for above in [u64::MAX, u64::MAX - 1, u64::MAX / 2 + 1] {
        let error = failed(restore(&Restore {
            from: &snapshot,
            to: &to,
            above: Epoch(above),
            leases: None,
            at: WallTime::default(),
            trust_snapshot: false,
        }));
        assert!(error.to_string().contains(&format!("token {above} cannot have been given")), "{error}");
        assert!(error.hint().contains("--above"), "{}", error.hint());
        assert!(!to.exists());
    }
    let most = Restore {
        from: &snapshot,
        to: &to,
        above: Epoch(u64::MAX / 2),
        leases: None,
        at: WallTime::default(),
        trust_snapshot: false,
    };
    assert_eq!(restore(&most).unwrap().floor, Epoch(u64::MAX / 2 + GAP));
}

#[tokio::test]
async fn a_damaged_store_is_no_obstacle_but_a_live_or_another_one_is() {
    let place = TestStore::new();
    let store = snapshotted(&place).await;
    let (snapshot, path) = (place.file("snapshot"), place.file("baton.redb"));
    let error = failed(from(&snapshot, &path));
    assert!(error.hint().contains("stop it"), "{error}");
    drop(store);

    let mut damaged = std::fs::read(&path).unwrap();
    let len = damaged.len();
    damaged.truncate(len / 3);
    std::fs::write(&path, &damaged).unwrap();
    let restored = from(&snapshot, &path).unwrap();
    assert_eq!(restored.floor, Epoch(2 + GAP));
    assert!(std::fs::read(restored.kept.unwrap()).unwrap() == damaged);

    let other = place.file("other.redb");
    let store = EmbeddedStore::open(&other, Access::Write).unwrap();
    let change = Write { key: Key::Store, expect: Expect::Absent, next: info(8), clock: AgeStamp::Reset };
    let _ = store.commit(vec![change]).await.unwrap();
    drop(store);
    let error = failed(from(&snapshot, &other));
    assert!(error.to_string().contains("another store"), "{error}");
    std::fs::write(place.file("broken"), &damaged).unwrap();
    assert!(matches!(failed(from(&place.file("broken"), &path)), StoreError::Corrupt { .. }));
}

/// What stands before the damage to a journal is better than nothing: epochs that were given since the snapshot are known.
#[tokio::test]
async fn of_a_damaged_journal_the_part_before_the_damage_counts() {
    let place = TestStore::new();
    let store = snapshotted(&place).await;
    let high = (2..=6).fold(led("held-since", 1), |document, agent| taken_over(&document, agent));
    assert_eq!(high.epoch, Epoch(6));
    let _ = put(&store, &high, Expect::Absent).await;
    for number in 1..=2 {
        let _ = put(&store, &led(&format!("more-{number}"), 1), Expect::Absent).await;
    }
    // What a killed process leaves: the last frame but one is damaged.
    let mut killed = std::fs::read(place.file("baton.redb")).unwrap();
    drop(store);
    let frames = (4_096..support::DATABASE_AT).step_by(4_096).filter(|at| killed[*at..].starts_with(b"bjf1"));
    let frames: Vec<usize> = frames.collect();
    killed[frames[frames.len() - 2] + 60] ^= 1;
    let path = place.file("killed.redb");
    std::fs::write(&path, killed).unwrap();
    assert!(matches!(EmbeddedStore::open(&path, Access::Write), Err(StoreError::Corrupt { .. })));
    assert_eq!(from(&place.file("snapshot"), &path).unwrap().floor, Epoch(6 + GAP));
}

#[tokio::test]
async fn a_snapshot_is_for_restoring_only_and_overwrites_nothing() {
    let place = TestStore::new();
    let store = snapshotted(&place).await;
    let snapshot = place.file("snapshot");
    let error = failed(store.snapshot(&snapshot));
    assert!(error.to_string().contains("already"), "{error}");
    let error = failed(EmbeddedStore::open(&snapshot, Access::Write));
    assert!(error.hint().contains("baton restore"), "{error}");
    let look = EmbeddedStore::open(&snapshot, Access::Read).unwrap();
    assert_eq!(document(&read(&look, "held").await).epoch, Epoch(2), "it can be looked at");
    assert_eq!(record(&document(&read(&look, "held").await)), record(&document(&read(&store, "held").await)));
}

#[tokio::test]
async fn new_elections_wait_once_for_leases_that_nobody_knows_of() {
    const META: redb::TableDefinition<'static, &str, u64> = redb::TableDefinition::new("baton");
    let place = TestStore::new();
    drop(snapshotted(&place).await);
    {
        let (path, alone) = (place.file("baton.redb"), place.file("tables.redb"));
        let database = support::database(&path, &alone);
        let transaction = database.begin_write().unwrap();
        transaction.open_table(META).unwrap().insert("floor", 9).unwrap();
        transaction.open_table(META).unwrap().insert("lease_ms", 5_000).unwrap();
        transaction.commit().unwrap();
        drop(database);
        let front = std::fs::read(&path).unwrap()[..support::DATABASE_AT].to_vec();
        std::fs::write(&path, [front, std::fs::read(&alone).unwrap()].concat()).unwrap();
    }
    let store = place.store();
    let trace = read(&store, "new").await.trace.unwrap();
    assert!(trace.lease > Span::ZERO && trace.epoch == Epoch(9));
    assert!(read(&store, "held").await.trace.is_none(), "what is there tells for itself");
    boot::sleep(Span::millis(5_010)).await.unwrap();
    assert_eq!(store.trace().unwrap().lease, Span::ZERO);
    let _ = put(&store, &led("other", 1), Expect::Absent).await;
    drop(store);
    let trace = read(&place.store(), "new").await.trace.unwrap();
    assert_eq!((trace.epoch, trace.lease), (Epoch(9), Span::ZERO), "not again after every restart");
}

const AT: WallTime = WallTime::from_unix_millis(1_700_000_000_000);

fn operator(seed: u8) -> OperatorKey {
    OperatorKey::from_seed([seed; 32])
}

/// What the store knows of itself.
async fn own(store: &EmbeddedStore) -> StoreInfo {
    match store.read(&Key::Store).await.unwrap().record() {
        Some(Record::Store(info)) => info.clone(),
        other => panic!("{other:?}"),
    }
}

async fn tokens(store: &EmbeddedStore) -> Tokens {
    match store.read(&Key::Tokens).await.unwrap().record() {
        Some(Record::Tokens(tokens)) => tokens.clone(),
        Some(other) => panic!("{other:?}"),
        None => Tokens::default(),
    }
}

async fn fence(store: &EmbeddedStore, resource: &str) -> Option<Fence> {
    let key = Key::Fence(ResourceName::new(resource).unwrap());
    match store.read(&key).await.unwrap().record() {
        Some(Record::Fence(fence)) => Some((**fence).clone()),
        other => other.map(|other| panic!("{other:?}")),
    }
}

async fn write(store: &EmbeddedStore, key: Key, record: Record) {
    let expect = store.read(&key).await.unwrap().expect();
    let _ = store.swap(&key, expect, &record, AgeStamp::Preserve, Persistence::Durable).await.unwrap();
}

/// Has an order on the store carried out. Returns it, as somebody recorded it.
async fn order(store: &EmbeddedStore, by: &OperatorKey, change: StoreChange) -> SignedStoreOrder {
    let info = own(store).await;
    let order = by.sign_store(&info, change, AT);
    let (next, _) = order.carry_out(&info, AT).unwrap();
    write(store, Key::Store, Record::Store(next)).await;
    order
}

fn operators(keys: &[&OperatorKey]) -> StoreChange {
    StoreChange::Operators { after: keys.iter().map(|key| key.public()).collect(), names: BTreeMap::new() }
}

fn create(number: u8, by: &OperatorKey) -> TokenChange {
    TokenChange::Create {
        token: TokenEntry {
            id: TokenId([number; 6]),
            proof: Proof::Secret { hash: Some(ContentHash([number; 32])) },
            role: Role::Agent,
            agents: vec![],
            elections: vec![],
            resources: vec![],
            note: String::new(),
            created: AT,
            expires: None,
            by: by.public(),
        },
    }
}

/// A store of three operators with an access token, an election and a snapshot.
async fn operated(place: &TestStore) -> EmbeddedStore {
    let [ada, ben, cy] = [1, 2, 3].map(operator);
    let store = place.store();
    let _ = store
        .swap(&Key::Store, Expect::Absent, &info(7), AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    order(&store, &ada, operators(&[&ada])).await;
    order(&store, &ada, operators(&[&ada, &ben, &cy])).await;
    let (info, none) = (own(&store).await, Tokens::default());
    let first = ada.sign_tokens(&info, &none, create(1, &ada), AT).carry_out(&none, &info, AT).unwrap().0;
    write(&store, Key::Tokens, Record::Tokens(first)).await;
    let mut held = led("held", 1);
    held.operator_keys = Arc::new(info.operator_keys);
    let _ = put(&store, &held, Expect::Absent).await;
    store.snapshot(&place.file("snapshot")).unwrap();
    store
}

/// A removed operator is not back, nor a revoked token, and a quorum and pauses are not over.
#[tokio::test]
async fn what_operators_ordered_since_the_snapshot_is_not_taken_back() {
    let place = TestStore::new();
    let store = operated(&place).await;
    let [ada, ben, cy] = [1, 2, 3].map(operator);
    order(&store, &ada, operators(&[&ada, &ben])).await;
    order(&store, &ada, StoreChange::Pause { reason: "fire".to_string() }).await;
    let rules = StoreQuorum { quorum: 2, ..StoreQuorum::default() };
    order(&store, &ada, StoreChange::Quorum { rules: rules.clone() }).await;
    let (info, known) = (own(&store).await, tokens(&store).await);
    let revoke = ada.sign_tokens(&info, &known, TokenChange::Revoke { id: TokenId([1; 6]) }, AT);
    write(&store, Key::Tokens, Record::Tokens(revoke.carry_out(&known, &info, AT).unwrap().0)).await;
    let bind = FenceChange::Bind { election: election("held") };
    let bound = ada.sign_fence(&info, ResourceName::new("db").unwrap(), None, bind);
    let bound = bound.carry_out(None, &info, AT).unwrap();
    write(&store, Key::Fence(bound.resource.clone()), Record::Fence(Box::new(bound))).await;
    let pause = Pause { by: ada.public(), reason: "freeze".to_string(), at: AT, halted: false };
    for name in ["held", "since"] {
        let mut paused = led(name, 1);
        (paused.state, paused.leader, paused.paused) = (State::Paused, None, Some(pause.clone()));
        paused.operator_keys = Arc::new(vec![ada.public(), ben.public()]);
        paused.acts = 3;
        Arc::make_mut(&mut paused.policy).operators.quorum = 2;
        write(&store, Key::Election(election(name)), record(&paused)).await;
    }
    let before = own(&store).await;
    drop(store);

    let restored = from(&place.file("snapshot"), &place.file("baton.redb")).unwrap();
    assert_eq!((restored.former, restored.tokens.len()), (FormerStore::Whole, 0));
    let store = place.store();
    let after = own(&store).await;
    assert_eq!(after, StoreInfo { floor: restored.floor.0, ..before });
    assert_eq!(restored.info.as_ref(), Some(&after));
    assert!(!after.operator_keys.contains(&cy.public()) && after.paused.is_some() && *after.quorum == rules);
    assert!(tokens(&store).await.tokens.is_empty());
    let bound = fence(&store, "db").await.unwrap();
    assert_eq!((bound.election, bound.highest), (election("held"), restored.floor));
    for name in ["held", "since"] {
        let found = document(&read(&store, name).await);
        assert_eq!((found.state, found.epoch, found.acts), (State::Paused, restored.floor, 3), "{name}");
        assert_eq!(found.operator_keys.len(), 2, "{name}");
        assert_eq!(found.policy.operators.quorum, 2, "{name}");
        assert!(found.contradiction().is_none(), "{name}");
        assert!(found.outgoing.is_some(), "{name}: whoever led may be at work");
    }
}

/// Whoever recorded orders that were signed since the snapshot cannot have them carried out a second time, with or without the former store.
#[tokio::test]
async fn an_order_that_was_signed_before_a_restore_is_refused_after_it() {
    let place = TestStore::new();
    let store = operated(&place).await;
    let [ada, ben, cy] = [1, 2, 3].map(operator);
    let (info, known) = (own(&store).await, tokens(&store).await);
    let recorded = order(&store, &ada, operators(&[&ada, &ben, &cy, &operator(4)])).await;
    order(&store, &ada, operators(&[&ada, &ben, &cy])).await;
    let token = ada.sign_tokens(&info, &known, create(2, &ada), AT);
    let db = ResourceName::new("db").unwrap();
    let bind = |election_name: &str| FenceChange::Bind { election: election(election_name) };
    let fenced = ada.sign_fence(&info, db.clone(), None, bind("held"));
    drop(store);

    let (snapshot, there) = (place.file("snapshot"), place.file("baton.redb"));
    for to in [place.file("elsewhere.redb"), there] {
        let restored = from(&snapshot, &to).unwrap();
        let store = EmbeddedStore::open(&to, Access::Write).unwrap();
        let (info, known) = (own(&store).await, tokens(&store).await);
        let refused = |outcome: Result<(), Refusal>| matches!(outcome, Err(Refusal::Invalid { .. }));
        assert!(refused(recorded.carry_out(&info, AT).map(drop)), "{to:?}");
        assert!(refused(token.carry_out(&known, &info, AT).map(drop)), "{to:?}");
        assert!(refused(fenced.carry_out(None, &info, AT).map(drop)), "{to:?}");
        // What is signed for the store as it stands counts, and the log has no gap.
        let next = ada.sign_store(&info, operators(&[&ada, &ben]), AT).carry_out(&info, AT).unwrap().0;
        assert_eq!(next.orders, restored.floor.0 + 1);
        let last = info.last_order.as_ref().unwrap().number;
        assert_eq!(next.last_order.unwrap().number, last + 1);
        assert!(ada.sign_tokens(&info, &known, create(2, &ada), AT).carry_out(&known, &info, AT).is_ok());
        assert!(ada.sign_fence(&info, db.clone(), None, bind("held")).carry_out(None, &info, AT).is_ok());
    }
}

/// Nobody knows who was removed since the snapshot: nothing goes on before a person has looked.
#[tokio::test]
async fn without_a_whole_former_store_everything_is_paused() {
    let place = TestStore::new();
    let store = operated(&place).await;
    order(&store, &operator(1), operators(&[&operator(1)])).await;
    drop(store);
    let (snapshot, to) = (place.file("snapshot"), place.file("elsewhere.redb"));
    let restored = from(&snapshot, &to).unwrap();
    assert_eq!((restored.former, restored.tokens.len()), (FormerStore::Absent, 1));
    let info = restored.info.unwrap();
    assert_eq!(info.operator_keys.len(), 3, "as far as the snapshot knows");
    let store = EmbeddedStore::open(&to, Access::Write).unwrap();
    assert!(own(&store).await.paused.is_some() && own(&store).await.allow_grant().is_err());
    order(&store, &operator(1), StoreChange::Resume).await;
    assert!(own(&store).await.allow_grant().is_ok());
    drop(store);

    let trusted = place.file("trusted.redb");
    let above = Epoch(0);
    let asked = Restore {
        from: &snapshot,
        to: &trusted,
        above,
        leases: None,
        at: WallTime::default(),
        trust_snapshot: true,
    };
    assert!(restore(&asked).unwrap().info.unwrap().paused.is_none());

    let damaged = place.file("damaged.redb");
    std::fs::write(&damaged, "not a database").unwrap();
    let restored = from(&snapshot, &damaged).unwrap();
    assert_eq!(restored.former, FormerStore::Unreadable);
    assert!(restored.info.unwrap().paused.is_some());
    // A store that is older than the snapshot does not tell what was ordered since.
    let old = place.file("old.redb");
    std::fs::copy(place.file("baton.redb"), &old).unwrap();
    let store = place.store();
    order(&store, &operator(1), operators(&[&operator(1), &operator(5)])).await;
    store.snapshot(&place.file("later")).unwrap();
    drop(store);
    let restored = from(&place.file("later"), &old).unwrap();
    let info = restored.info.unwrap();
    assert_eq!((restored.former, info.operator_keys.len()), (FormerStore::Incomplete, 2));
    assert!(info.paused.is_some());
}
