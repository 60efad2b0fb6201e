//! What others see and do: kubectl, labels and annotations of others, clients of the same Lease that are not Baton.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use baton_election::document::State;
use baton_election::operator::Act;
use baton_election::{Refusal, Span};
use baton_store::{Expect, Prefix, Record, Store};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::support::{Cluster, Player, document, key, open};

const TTL: Span = Span::secs(1);

fn now() -> Option<MicroTime> {
    Some(MicroTime(Timestamp::now()))
}

/// As client-go acquires a Lease that it has read.
fn taken(mut lease: Lease, identity: &str) -> Lease {
    let transitions = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or(-1);
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(identity.to_string()),
        lease_duration_seconds: Some(1),
        acquire_time: now(),
        renew_time: now(),
        lease_transitions: Some(transitions + 1),
        ..LeaseSpec::default()
    });
    lease
}

/// As client-go releases.
fn released(mut lease: Lease) -> Lease {
    let spec = lease.spec.as_mut().unwrap();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    (spec.acquire_time, spec.renew_time) = (now(), now());
    lease
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_shows_the_holder_and_the_token() {
    let Some(cluster) = Cluster::get().await else { return };
    let mut agent = Player::new(cluster.store().await, "refactor-auth", "agent-a", Span::secs(30));
    agent.acquire().await.unwrap();
    let Some(table) = cluster.kubectl(&["get", "lease", "refactor-auth"]) else { return };
    let row: Vec<&str> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[0], "refactor-auth");
    assert!(row[1].starts_with("agent-a_"), "{table}");
    let token = cluster.kubectl(&[
        "get",
        "lease",
        "refactor-auth",
        "-o",
        "jsonpath={.metadata.annotations.baton\\.dev/token}",
    ]);
    assert_eq!(token, Some(agent.epoch.to_string()));
    let spec = cluster.lease("refactor-auth").await.spec.unwrap();
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(31), Some(0)));
    agent.release().await.unwrap();
    let spec = cluster.lease("refactor-auth").await.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(1), Some(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_put_on_a_lease_stays() {
    let Some(cluster) = Cluster::get().await else { return };
    let mut agent = Player::new(cluster.store().await, "e", "a", TTL);
    agent.acquire().await.unwrap();
    let others = json!({ "metadata": { "labels": { "team": "x" }, "annotations": { "note": "y" }, "finalizers": ["a.dev/b"] } });
    cluster.leases().patch("e", &PatchParams::default(), &Patch::Merge(&others)).await.unwrap();
    agent.renew().await.unwrap();
    agent.release().await.unwrap();
    let lease = cluster.lease("e").await;
    assert_eq!(lease.labels()["team"], "x");
    assert_eq!(lease.annotations()["note"], "y");
    assert_eq!(lease.finalizers(), ["a.dev/b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_renewal_changes_the_resource_version_and_the_renew_time() {
    let Some(cluster) = Cluster::get().await else { return };
    let mut agent = Player::new(cluster.store().await, "e", "a", TTL);
    agent.acquire().await.unwrap();
    for _ in 0..5 {
        let before = cluster.lease("e").await;
        agent.renew().await.unwrap();
        let after = cluster.lease("e").await;
        assert_ne!(before.resource_version(), after.resource_version());
        assert!(before.spec.unwrap().renew_time < after.spec.unwrap().renew_time);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_holder_is_waited_for_and_taken_over_from() {
    let Some(cluster) = Cluster::get().await else { return };
    let mut agent = Player::new(cluster.store().await, "e", "a", TTL);
    agent.acquire().await.unwrap();
    let first = agent.epoch;
    agent.release().await.unwrap();
    let lease = cluster.replace(&taken(cluster.lease("e").await, "host_1")).await;
    assert!(
        matches!(agent.acquire().await, Err(Refusal::Held { by: Some(by), .. }) if by.as_str() == "host_1")
    );
    assert!(matches!(agent.renew().await, Err(Refusal::Stale { .. })), "the old leadership is over");
    let mut renewed = lease;
    renewed.spec.as_mut().unwrap().renew_time = now();
    cluster.replace(&renewed).await;
    agent.campaign().await;
    assert_eq!(agent.epoch.0, first.0 + 2, "theirs was the one in between");
    let spec = cluster.lease("e").await.spec.unwrap();
    assert!(spec.holder_identity.unwrap().starts_with("a_"));
    assert_eq!(spec.lease_transitions, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_release_is_taken_at_once() {
    let Some(cluster) = Cluster::get().await else { return };
    let name = Some("e".to_string());
    let mut lease = taken(Lease::default(), "host_1");
    lease.metadata.name = name;
    let lease = cluster.leases().create(&PostParams::default(), &lease).await.unwrap();
    let mut agent = Player::new(cluster.store().await, "e", "a", TTL);
    assert!(matches!(agent.acquire().await, Err(Refusal::Held { .. })));
    let resource = cluster.replace(&released(lease)).await.resource_version().unwrap();
    agent.acquire().await.unwrap();
    assert!(agent.epoch.0 > resource.parse().unwrap(), "above whatever was given under this name before");
    let listed = agent.store.list(&Prefix::Elections).await.unwrap();
    assert_eq!(listed, [key("e")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_deposes_and_pauses_a_foreign_holder() {
    let Some(cluster) = Cluster::get().await else { return };
    let mut agent = Player::new(cluster.store().await, "e", "a", TTL);
    agent.acquire().await.unwrap();
    agent.release().await.unwrap();
    cluster.replace(&taken(cluster.lease("e").await, "host_1")).await;
    let held = document(&agent.store, &key("e")).await.0;
    let deposed = agent.operate(Act::Depose { force: false, reason: "x".into() }).await.unwrap();
    assert_eq!(deposed.epoch.0, held.epoch.0 + 1);
    assert_eq!(cluster.lease("e").await.spec.unwrap().holder_identity.as_deref(), Some("baton/ending"));
    let paused = agent.operate(Act::Pause { reason: "night".into() }).await.unwrap();
    assert_eq!(paused.state, State::Paused);
    let spec = cluster.lease("e").await.spec.unwrap();
    assert_eq!(
        (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
        (Some("baton/paused"), Some(i32::MAX))
    );
    assert!(matches!(agent.acquire().await, Err(Refusal::Paused { .. })));
    agent.operate(Act::Resume).await.unwrap();
    agent.campaign().await;
    assert!(agent.epoch > deposed.epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_kubernetes_cannot_bear_are_listed_as_they_are() {
    let Some(cluster) = Cluster::get().await else { return };
    let store = cluster.store().await;
    for name in ["fleet/eu", "fleet.eu", "_a", "a-"] {
        Player::new(store.clone(), name, "a", TTL).acquire().await.unwrap();
    }
    // Not Baton's, and a copy by hand.
    for name in ["other", "baton--refactor-auth"] {
        let mut lease = Lease::default();
        lease.metadata.name = Some(name.to_string());
        if name.starts_with("baton") {
            lease.metadata.labels = Some([("baton.dev/kind".to_string(), "election".to_string())].into());
        }
        cluster.leases().create(&PostParams::default(), &lease).await.unwrap();
    }
    let listed: Vec<String> =
        store.list(&Prefix::Elections).await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(listed, ["_a", "a-", "fleet.eu", "fleet/eu"]);
    assert!(cluster.lease("baton--fleet.eu").await.spec.is_some());
}

/// An object with its controller, as a cluster's controllers would make it.
fn controlled(name: &str, by: Option<OwnerReference>, spec: &Value) -> Value {
    let owners = by.map(|by| OwnerReference { controller: Some(true), ..by });
    json!({ "metadata": { "name": name, "ownerReferences": owners.into_iter().collect::<Vec<_>>() }, "spec": spec })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_owned_by_the_deployment_of_its_pod() {
    let Some(cluster) = Cluster::get().await else { return };
    let (client, namespace) = (cluster.client.clone(), cluster.namespace.as_str());
    let post = PostParams::default();
    let mut account =
        ServiceAccount { automount_service_account_token: Some(false), ..ServiceAccount::default() };
    account.metadata.name = Some("default".to_string());
    Api::<ServiceAccount>::namespaced(client.clone(), namespace).create(&post, &account).await.unwrap();
    let labels = json!({ "app": "x" });
    let pod = json!({ "containers": [{ "name": "c", "image": "i" }] });
    let set = json!({
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": pod }
    });
    let deployment: Deployment = serde_json::from_value(controlled("d", None, &set)).unwrap();
    let deployment = Api::namespaced(client.clone(), namespace).create(&post, &deployment).await.unwrap();
    let of_deployment = deployment.owner_ref(&()).unwrap();
    let replicas: ReplicaSet =
        serde_json::from_value(controlled("d-1", Some(of_deployment.clone()), &set)).unwrap();
    let replicas = Api::namespaced(client.clone(), namespace).create(&post, &replicas).await.unwrap();
    for (name, owner) in [("d-1-a", replicas.owner_ref(&())), ("lone", None)] {
        let pod: Pod = serde_json::from_value(controlled(name, owner, &pod)).unwrap();
        Api::namespaced(client.clone(), namespace).create(&post, &pod).await.unwrap();
    }
    for (election, owner, wanted) in [
        ("owned", "&owner=pod/d-1-a", vec![of_deployment]),
        ("lone", "&owner=pod/lone", vec![]),
        ("gone", "&owner=pod/gone", vec![]),
        ("none", "&owner=none", vec![]),
    ] {
        let store = open(&cluster.url(owner)).await.unwrap();
        Player::new(store, election, "a", TTL).acquire().await.unwrap();
        assert_eq!(cluster.lease(election).await.owner_references(), wanted, "{election}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_no_baton_wrote_begins_with_the_store_s_operators() {
    let Some(cluster) = Cluster::get().await else { return };
    let store = cluster.store().await;
    let info = baton_election::StoreInfo {
        operator_keys: vec![baton_election::operator::PublicKey([6; 32])],
        ..baton_election::StoreInfo::new(baton_election::StoreId([4; 8]), baton_election::WallTime::default())
    };
    let record = Record::Store(info.clone());
    let at = baton_store::AgeStamp::Reset;
    store
        .swap(&baton_store::Key::Store, Expect::Absent, &record, at, baton_store::Persistence::Durable)
        .await
        .unwrap();
    let mut lease = taken(Lease::default(), "host_1");
    lease.metadata.name = Some("e".to_string());
    cluster.leases().create(&PostParams::default(), &lease).await.unwrap();
    let document = document(&store, &key("e")).await.0;
    assert_eq!((document.store, document.operator_keys.to_vec()), (info.id, info.operator_keys));
}
