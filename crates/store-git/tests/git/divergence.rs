//! A ref that was moved by hand.

use baton_election::{AgentName, Document, Epoch, StoreId, StoreInfo, WallTime};
use baton_store::conformance::documents::{document, key, put, renewed, take};
use baton_store::{AgeStamp, Claim, Expect, Key, Persistence, Record, Store, StoreError, Version};
use baton_store_git::GitStore;

use crate::support::{TestRepository, commit_by_hand, git, read};

/// What a diverged store says.
async fn claims(store: &GitStore, key: &Key) -> (String, Vec<Claim>, Version) {
    match store.read(key).await {
        Err(StoreError::Diverged { place, claims, settles }) => (place, claims, settles),
        other => panic!("{other:?}"),
    }
}

/// As an operator's appointment does: on the higher claim, in an epoch above both.
fn settled(claims: &[Claim], agent: &str) -> Document {
    let documents = claims.iter().filter_map(|claim| match claim.record.as_deref() {
        Some(Record::Election(document)) => Some((**document).clone()),
        _ => None,
    });
    let mut document = documents.max_by_key(|document| document.epoch).unwrap();
    document.epoch = document.epoch.next();
    document.outgoing = document.leader.take();
    document.state = baton_election::State::Vacant;
    document.reserved_for = Some(baton_election::document::Reservation {
        agent: AgentName::new(agent).unwrap(),
        lasts: None,
        by_operator: true,
    });
    document.beat += 1;
    document
}

/// Two clones that have seen different leaders of epoch 2; the second one's was forced onto the remote.
async fn diverge(place: &TestRepository) -> (GitStore, GitStore) {
    let (one, two) = (place.store("one"), place.store("two"));
    let _ = take(&one, &key("e"), "first").await;
    let before = git(&place.remote(), &["rev-parse", "refs/baton/e"]);
    let _ = read(&two, &key("e")).await;
    let _ = take(&one, &key("e"), "alpha").await;
    git(&place.remote(), &["update-ref", "refs/baton/e", &before]);
    let _ = take(&two, &key("e"), "beta").await;
    (one, two)
}

#[tokio::test]
async fn both_claims_are_shown_and_an_operator_settles_it_for_everybody() {
    let place = TestRepository::new();
    let (one, two) = diverge(&place).await;
    let (at, shown, settles) = claims(&one, &key("e")).await;
    assert_eq!(at, "refs/baton/e");
    let told: Vec<String> = shown.iter().map(Claim::to_string).collect();
    assert!(told[0].starts_with("beta in epoch 2 (in force at origin, commit "), "{told:?}");
    assert!(told[1].starts_with("alpha in epoch 2 (seen by this clone, commit "), "{told:?}");
    assert_eq!(document(&two, &key("e")).await.0.epoch, Epoch(2), "who saw no other goes on");
    let too_low = settled(&shown, "gamma");
    let too_low = Document { epoch: Epoch(2), outgoing: None, ..too_low };
    let refused = put(&one, &key("e"), Expect::Version(settles.clone()), &too_low).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    let next = settled(&shown, "gamma");
    let _ = put(&one, &key("e"), Expect::Version(settles.clone()), &next).await.unwrap();
    for store in [&one, &two, &place.store("fresh")] {
        assert_eq!(document(store, &key("e")).await.0, next);
    }
    let again = put(&one, &key("e"), Expect::Version(settles), &next).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "a divergence is settled once: {again:?}");
    let _ = take(&two, &key("e"), "gamma").await;
    assert_eq!(document(&one, &key("e")).await.0.epoch, Epoch(4));
    let subjects = git(&place.remote(), &["log", "--first-parent", "--format=%s", "refs/baton/e"]);
    assert_eq!(subjects.lines().nth(1), Some("epoch 3: e settled by an operator, kept for gamma"));
    let election = baton_election::ElectionName::new("e").unwrap();
    let history = one.native_history(&election, 10).await.unwrap();
    let epochs: Vec<u64> = history.iter().map(|transition| transition.epoch.0).collect();
    assert_eq!(epochs, [1, 2, 4]);
}

#[tokio::test]
async fn who_saw_later_renewals_of_a_claim_than_were_settled_accepts_it_too() {
    let place = TestRepository::new();
    let (one, two) = diverge(&place).await;
    let (_, shown, settles) = claims(&one, &key("e")).await;
    let (beta, version) = document(&two, &key("e")).await;
    let version = put(&two, &key("e"), Expect::Version(version), &renewed(&beta)).await.unwrap();
    let next = settled(&shown, "gamma");
    let late = put(&one, &key("e"), Expect::Version(settles), &next).await;
    assert!(matches!(late, Err(StoreError::Conflict)), "the claim in force has moved on: {late:?}");
    let (_, shown, settles) = claims(&one, &key("e")).await;
    let _ = put(&one, &key("e"), Expect::Version(settles), &settled(&shown, "gamma")).await.unwrap();
    assert_eq!(document(&two, &key("e")).await.0.epoch, Epoch(3));
    assert_ne!(document(&two, &key("e")).await.1, version);
}

#[tokio::test]
async fn an_epoch_that_went_back_is_told_so_and_can_be_settled() {
    let place = TestRepository::new();
    for store in [place.store("one"), place.lone_store("one")] {
        let dir = if store.location().contains("remote") { place.remote() } else { place.clone("one") };
        let _ = take(&store, &key("e"), "a").await;
        let before = git(&dir, &["rev-parse", "refs/baton/e"]);
        let _ = take(&store, &key("e"), "b").await;
        git(&dir, &["update-ref", "refs/baton/e", &before]);
        let (at, shown, settles) = claims(&store, &key("e")).await;
        assert_eq!(at, "refs/baton/e (its epoch went back from 2 to 1)");
        assert_eq!(git(&dir, &["rev-parse", "refs/baton/e"]), before, "nothing was overwritten");
        let _ = put(&store, &key("e"), Expect::Version(settles), &settled(&shown, "c")).await.unwrap();
        assert_eq!(document(&store, &key("e")).await.0.epoch, Epoch(3));
    }
    assert_eq!(document(&place.store("two"), &key("e")).await.0.epoch, Epoch(3));
}

#[tokio::test]
async fn a_tip_made_by_hand_is_gone_on_from_where_everybody_sees_it() {
    let place = TestRepository::new();
    let (one, two) = (place.store("one"), place.store("two"));
    let by_hand = Record::Election(Box::new(baton_store::conformance::documents::led("e", None, "a")));
    let _ = commit_by_hand(&place.remote(), "refs/baton/e", "coordinator.json", &by_hand.to_json(), None);
    let (first, version) = document(&one, &key("e")).await;
    assert_eq!(document(&two, &key("e")).await, (first.clone(), version.clone()));
    let _ = put(&one, &key("e"), Expect::Version(version), &renewed(&first)).await.unwrap();
    assert_eq!(document(&two, &key("e")).await.0, renewed(&first));
}

#[tokio::test]
async fn a_renewal_that_went_back_is_told_so() {
    let place = TestRepository::new();
    for store in [place.store("one"), place.lone_store("one")] {
        let dir = if store.location().contains("remote") { place.remote() } else { place.clone("one") };
        let (first, version) = take(&store, &key("e"), "a").await;
        let before = git(&dir, &["rev-parse", "refs/baton/e"]);
        let _ = put(&store, &key("e"), Expect::Version(version), &renewed(&first)).await.unwrap();
        git(&dir, &["update-ref", "refs/baton/e", &before]);
        let (at, _, _) = claims(&store, &key("e")).await;
        assert_eq!(at, "refs/baton/e (its beat went back from 2 to 1)");
    }
}

#[tokio::test]
async fn a_deleted_election_is_refused_by_who_saw_it_and_can_be_settled() {
    let place = TestRepository::new();
    let store = place.store("one");
    let _ = take(&store, &key("e"), "a").await;
    git(&place.remote(), &["update-ref", "-d", "refs/baton/e"]);
    let (_, shown, settles) = claims(&store, &key("e")).await;
    assert_eq!(shown[0].to_string(), "nobody in epoch 0 (deleted at origin)");
    assert_eq!(shown[1].epoch, Epoch(1));
    let next = settled(&shown, "b");
    let _ = put(&store, &key("e"), Expect::Version(settles), &next).await.unwrap();
    assert_eq!(document(&place.store("two"), &key("e")).await.0, next, "the epochs went on");
}

#[tokio::test]
async fn a_store_that_its_owner_wiped_begins_anew() {
    let place = TestRepository::new();
    let store = place.store("one");
    let info = |id: u8| Record::Store(StoreInfo::new(StoreId([id; 8]), WallTime::default()));
    let _ = store
        .swap(&Key::Store, Expect::Absent, &info(1), AgeStamp::Reset, Persistence::Durable)
        .await
        .unwrap();
    let _ = take(&store, &key("e"), "a").await;
    git(&place.remote(), &["update-ref", "-d", "refs/baton/e"]);
    assert!(store.read(&key("e")).await.is_err(), "the store is still the same one");
    git(&place.remote(), &["update-ref", "-d", "refs/baton/@store"]);
    assert!(read(&store, &key("e")).await.found.is_none());
    let again =
        store.swap(&Key::Store, Expect::Absent, &info(2), AgeStamp::Reset, Persistence::Durable).await;
    assert!(again.is_ok(), "{again:?}");
}

#[tokio::test]
async fn a_fence_whose_mark_went_back_is_not_intact() {
    let place = TestRepository::new();
    let store = place.store("one");
    let resource = baton_election::ResourceName::new("db").unwrap();
    let fence = |highest| {
        Record::Fence(Box::new(baton_election::Fence {
            highest: Epoch(highest),
            ..baton_election::Fence::new(
                resource.clone(),
                StoreId([7; 8]),
                baton_election::ElectionName::new("e").unwrap(),
            )
        }))
    };
    let key = Key::Fence(resource.clone());
    let first = store
        .swap(&key, Expect::Absent, &fence(3), AgeStamp::Preserve, Persistence::Durable)
        .await
        .unwrap()
        .version;
    let before = git(&place.remote(), &["rev-parse", "refs/baton/fences+db"]);
    let _ = store
        .swap(&key, Expect::Version(first), &fence(7), AgeStamp::Preserve, Persistence::Durable)
        .await
        .unwrap();
    git(&place.remote(), &["update-ref", "refs/baton/fences+db", &before]);
    let error = store.read(&key).await.unwrap_err();
    assert!(error.to_string().contains("the fence's mark went back from 7 to 3"), "{error}");
    let put_back = error.hint();
    let command = put_back.split("put it back: ").nth(1).unwrap().split(';').next().unwrap().to_string();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    git(&place.clone("one"), &words);
    assert_eq!(read(&store, &key).await.record(), Some(&fence(7)), "the hint is right");
    git(&place.remote(), &["update-ref", "-d", "refs/baton/fences+db"]);
    let error = store.read(&key).await.unwrap_err();
    assert!(error.to_string().contains("the fence was deleted"), "{error}");
}
