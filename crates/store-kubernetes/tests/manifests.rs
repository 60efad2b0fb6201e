//! What stands in `deploy/kubernetes`, as the apiserver takes it.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use baton_election::{Span, StoreId, StoreInfo, WallTime};
use baton_store::conformance::{Required, required};
use baton_store::{AgeStamp, Expect, Key, Persistence, Prefix, Record, Store, StoreError};

use crate::support::{Cluster, Player, key};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes");

#[tokio::test(flavor = "multi_thread")]
async fn the_server_accepts_all_of_it() {
    let Some(cluster) = Cluster::get().await else { return };
    let Some(text) = cluster.kubectl(&["kustomize", FOLDER]) else { return };
    let namespace = &cluster.namespace;
    let text = text
        .replace("namespace: agents", &format!("namespace: {namespace}"))
        .replace("name: agents", &format!("name: {namespace}"));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let said = cluster.kubectl(&["apply", "--dry-run=server", "-f", file.path().to_str().unwrap()]).unwrap();
    for object in
        ["serviceaccount/baton", "role.rbac.authorization.k8s.io/baton", "rolebinding", "deployment.apps/"]
    {
        assert!(said.contains(object), "{said}");
    }
    assert!(said.contains("poddisruptionbudget.policy/nightly-index created (server dry run)"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_election_can_be_led_with_permissions_for_its_name_alone() {
    let Some(cluster) = Cluster::get().await else { return };
    let Required::At(kubeconfig) = required("BATON_TEST_KUBECONFIG_AGENT") else { return };
    if cluster.kubectl(&["apply", "-f", &format!("{FOLDER}/role-one-election.yaml")]).is_none() {
        return;
    }
    let _ = cluster.kubectl(&["create", "rolebinding", "agent", "--role", "baton", "--user", "agent"]);
    let store = cluster.by(&kubeconfig).store().await;
    let info = StoreInfo::new(StoreId([1; 8]), WallTime::default());
    let records = [
        (Key::Store, Record::Store(info)),
        (Key::parse("nightly-index/history").unwrap(), Record::History(baton_election::log::Log::default())),
    ];
    for (key, record) in &records {
        let first =
            store.swap(key, Expect::Absent, record, AgeStamp::Reset, Persistence::Durable).await.unwrap();
        store
            .swap(key, Expect::Version(first.version), record, AgeStamp::Reset, Persistence::Durable)
            .await
            .unwrap();
        assert_eq!(store.read(key).await.unwrap().record(), Some(record));
    }
    let mut agent = Player::new(store.clone(), "nightly-index", "a", Span::secs(1));
    agent.campaign().await;
    agent.renew().await.unwrap();
    agent.release().await.unwrap();
    for refused in [
        store.read(&key("other")).await.map(drop),
        store.list(&Prefix::Elections).await.map(drop),
        store.read(&Key::parse("fences/a").unwrap()).await.map(drop),
    ] {
        assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    }
}
