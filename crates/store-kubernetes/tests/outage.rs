//! An apiserver, or its etcd, that stops, is killed and comes back.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::time::Duration;

use baton_election::{Document, Span};
use baton_store::{Change, Expect, Store, StoreError, Version, boot};
use baton_store_kubernetes::KubernetesStore;
use futures_util::StreamExt;

use crate::support::{Cluster, Player, Private, document, key, put};

/// Enough for a busy machine, and to be waited for.
const LIMIT: Duration = Duration::from_secs(8);

/// Reads until there is an answer again.
async fn back(store: &KubernetesStore) -> (Document, Version) {
    let bound = boot::now() + Span::secs(60);
    while let Err(error) = store.read(&key("e")).await {
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
        assert!(boot::now() < bound, "it does not come back: {error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    document(store, &key("e")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_or_is_killed_in_the_middle_of_a_swap() {
    let Some(mut server) = Private::start() else { return };
    let cluster = Cluster::at(server.kubeconfig()).await;
    let role = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/role.yaml");
    let _ = cluster.kubectl(&["apply", "-f", role]);
    let _ = cluster.kubectl(&["create", "rolebinding", "agent", "--role", "baton", "--user", "agent"]);
    // For some seconds after its start the server denies everything to whoever needs a Role.
    let store = cluster.by(&server.agent()).store().await.limited_to(LIMIT);
    let mut agent = Player::new(store.clone(), "e", "a", Span::secs(60));
    agent.acquire().await.unwrap();
    let mut changes = store.watch(&key("e")).await.unwrap();

    for process in ["kube-apiserver", "etcd"] {
        let (before, version) = document(&store, &key("e")).await;
        let next = Document { task: Some(process.into()), ..before.clone() };
        server.signal("STOP", process);
        let error = put(&store, &key("e"), Expect::Version(version.clone()), &next).await.unwrap_err();
        assert!(matches!(error, StoreError::Unknown { .. }), "{process}: {error:?}");
        server.signal("CONT", process);
        loop {
            let (found, now) = back(&store).await;
            assert!(found == next || (found == before && now == version), "{found:?}");
            let after = Document { task: Some("after".into()), ..found };
            match put(&store, &key("e"), Expect::Version(now), &after).await {
                Ok(_) => break,
                // The server got round to the lost request only now. From here on it never will: this one has won or lost.
                Err(StoreError::Conflict) => {}
                Err(error) => panic!("{process}: {error}"),
            }
        }
    }

    let (held, version) = document(&store, &key("e")).await;
    let again = server.kill();
    let error = put(&store, &key("e"), Expect::Version(version), &held).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. } | StoreError::Unavailable { .. }), "{error:?}");
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    server.restart(again);
    assert_eq!(back(&store).await.0, held);
    while changes.next().await != Some(Change::Gap) {}
    agent.renew().await.unwrap();
    while changes.next().await != Some(Change::Changed) {}
}
