//! A fence whose ConfigMap is deleted, or replaced by an older one: its mark stands in another.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use baton_election::fence::{Accepted, Fence, Hold};
use baton_election::id::{Incarnation, KeyHash, StoreId};
use baton_election::{ElectionName, Epoch, ResourceName, Span, WallTime};
use baton_store::{AgeStamp, Expect, Key, Persistence, Prefix, Record, Store, StoreError, Version};
use baton_store_kubernetes::KubernetesStore;
use kube::api::{DeleteParams, PostParams};

use crate::support::{Cluster, read};

const MAP: &str = "baton--fences.orders";
const MARK: &str = "baton-mark--fences.orders";

fn orders() -> Key {
    Key::Fence(ResourceName::new("orders").unwrap())
}

/// A fence that has accepted these tokens.
fn fence(election: &str, tokens: &[u64]) -> Fence {
    let accepted = |(place, token): (usize, &u64)| Accepted {
        seq: u64::try_from(place).unwrap() + 1,
        token: Epoch(*token),
        agent: None,
        note: String::new(),
        at: WallTime::default(),
    };
    let highest = Epoch(*tokens.last().unwrap());
    Fence {
        highest,
        hold: Some(Hold {
            left: None,
            incarnation: Incarnation([1; 8]),
            key_hash: KeyHash([1; 32]),
            token: highest,
            ttl: Span::secs(30),
            lapsing: false,
        }),
        beat: 1,
        tail: tokens.iter().enumerate().map(accepted).collect(),
        ..Fence::new(
            ResourceName::new("orders").unwrap(),
            StoreId([7; 8]),
            ElectionName::new(election).unwrap(),
        )
    }
}

async fn put(store: &KubernetesStore, expect: Expect, next: &Fence) -> Result<Version, StoreError> {
    let record = Record::Fence(Box::new(next.clone()));
    store
        .swap(&orders(), expect, &record, AgeStamp::Reset, Persistence::Durable)
        .await
        .map(|swapped| swapped.version)
}

async fn found(store: &KubernetesStore) -> Option<(Fence, Expect)> {
    let reading = read(store, &orders()).await;
    let expect = reading.expect();
    reading.found.map(|(record, _)| match record {
        Record::Fence(fence) => (*fence, expect),
        other => panic!("{other:?}"),
    })
}

async fn delete(cluster: &Cluster, name: &str) {
    let _ = cluster.config_maps().delete(name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_that_is_deleted_goes_on_from_its_mark() {
    let Some(cluster) = Cluster::get().await else { return };
    let store = cluster.store().await;
    put(&store, Expect::Absent, &fence("e", &[3])).await.unwrap();
    let (_, expect) = found(&store).await.unwrap();
    put(&store, expect, &fence("e", &[3, 17])).await.unwrap();
    delete(&cluster, MAP).await;
    for store in [store, cluster.store().await] {
        let (left, _) = found(&store).await.unwrap();
        assert_eq!((left.highest, left.election.as_str(), left.hold), (Epoch(17), "e", None));
        let listed = store.list(&Prefix::Fences).await.unwrap();
        assert_eq!(listed, [orders()], "it is still one");
    }
    let store = cluster.store().await;
    let (_, expect) = found(&store).await.unwrap();
    for lower in [fence("e", &[16]), fence("other", &[18])] {
        let error = put(&store, expect.clone(), &lower).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("its mark has seen token 17 of `e`"), "{error}");
        assert!(error.hint().contains(MARK), "{}", error.hint());
        let error = put(&cluster.store().await, Expect::Absent, &lower).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict), "a writer that did not look: {error:?}");
    }
    put(&store, expect.clone(), &fence("e", &[3, 17, 18])).await.unwrap();
    assert_eq!(found(&store).await.unwrap().0, fence("e", &[3, 17, 18]), "it is there again");
    let error = put(&store, expect, &fence("e", &[3, 19])).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict), "once: {error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_a_fence_is_noticed() {
    let Some(cluster) = Cluster::get().await else { return };
    let store = cluster.store().await;
    put(&store, Expect::Absent, &fence("e", &[3])).await.unwrap();
    let mut old = cluster.config_maps().get(MAP).await.unwrap();
    let (_, expect) = found(&store).await.unwrap();
    put(&store, expect, &fence("e", &[3, 17])).await.unwrap();
    delete(&cluster, MAP).await;
    old.metadata.resource_version = None;
    cluster.config_maps().create(&PostParams::default(), &old).await.unwrap();
    let (_, expect) = found(&store).await.unwrap();
    let error = put(&store, expect, &fence("e", &[3, 16])).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_deletes_the_mark_as_well_begins_anew() {
    let Some(cluster) = Cluster::get().await else { return };
    put(&cluster.store().await, Expect::Absent, &fence("e", &[17])).await.unwrap();
    delete(&cluster, MAP).await;
    delete(&cluster, MARK).await;
    let store = cluster.store().await;
    assert!(found(&store).await.is_none());
    put(&store, Expect::Absent, &fence("other", &[1])).await.unwrap();
    assert_eq!(found(&store).await.unwrap().0.highest, Epoch(1));
}
