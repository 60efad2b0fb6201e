//! What goes wrong, told apart.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::sync::Arc;
use std::time::Duration;

use baton_election::Span;
use baton_store::conformance::{self, Required, required};
use baton_store::{AgeStamp, BoxFuture, Change, Expect, Key, Persistence, Prefix, Record, Store, StoreError};
use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::{Cluster, Player, Proxy, ProxyState, document, key, open, put, read};

const TTL: Span = Span::secs(30);

async fn led(cluster: &Cluster) -> Player {
    let mut agent = Player::new(cluster.store().await, "e", "a", TTL);
    agent.acquire().await.unwrap();
    agent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_deleted_while_held_is_gone_and_its_token_is_remembered() {
    let Some(cluster) = Cluster::get().await else { return };
    let mut agent = led(&cluster).await;
    let (held, version) = document(&agent.store, &key("e")).await;
    cluster.leases().delete("e", &DeleteParams::default()).await.unwrap();
    let error = put(&agent.store, &key("e"), Expect::Version(version), &held).await.unwrap_err();
    assert!(matches!(error, StoreError::Conflict), "nothing is made anew by a renewal: {error:?}");
    let reading = read(&agent.store, &key("e")).await;
    assert!(reading.found.is_none());
    assert!(reading.trace.unwrap().epoch >= held.epoch);
    agent.acquire().await.unwrap();
    assert!(agent.epoch > held.epoch);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_annotations_are_refused_and_left_alone() {
    let Some(cluster) = Cluster::get().await else { return };
    let agent = led(&cluster).await;
    for (annotation, value, why) in [
        ("baton.dev/record", "{\"format\": 1, \"epo", "not a record of Baton"),
        ("baton.dev/record", "{\"format\": 99}", "newer Baton"),
        ("baton.dev/base", "x", "no number"),
    ] {
        let good = cluster.lease("e").await.annotations()[annotation].clone();
        let annotate = |value: &str| json!({ "metadata": { "annotations": { annotation: value } } });
        let patch = PatchParams::default();
        let damaged = cluster.leases().patch("e", &patch, &Patch::Merge(annotate(value))).await.unwrap();
        let error = agent.store.read(&key("e")).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::Newer { .. }), why == "newer Baton", "{error:?}");
        assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(
            error.to_string().contains(&format!("Lease e in namespace {}", cluster.namespace)),
            "{error}"
        );
        assert_eq!(cluster.lease("e").await, damaged);
        cluster.leases().patch("e", &patch, &Patch::Merge(annotate(&good))).await.unwrap();
    }
    assert!(agent.store.read(&key("e")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_map_of_somebody_else_s_is_refused_and_left_alone() {
    let Some(cluster) = Cluster::get().await else { return };
    let store = cluster.store().await;
    let mut map =
        ConfigMap { data: Some([("a".to_string(), "b".to_string())].into()), ..ConfigMap::default() };
    map.metadata.name = Some("baton--e.history".to_string());
    let theirs = cluster.config_maps().create(&PostParams::default(), &map).await.unwrap();
    let history = Key::parse("e/history").unwrap();
    let error = store.read(&history).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("ConfigMap baton--e.history"), "{error}");
    let record = Record::History(baton_election::log::Log::default());
    let error = store
        .swap(&history, Expect::Absent, &record, AgeStamp::Preserve, Persistence::Durable)
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Conflict), "{error:?}");
    assert_eq!(cluster.config_maps().get("baton--e.history").await.unwrap(), theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_named_with_the_verb_and_the_resource() {
    let Some(cluster) = Cluster::get().await else { return };
    let Required::At(kubeconfig) = required("BATON_TEST_KUBECONFIG_AGENT") else { return };
    let agent = led(&cluster).await;
    let (held, version) = document(&agent.store, &key("e")).await;
    let store = cluster.by(&kubeconfig).store().await;
    let read = store.read(&key("e")).await.unwrap_err();
    let create = put(&store, &key("f"), Expect::Absent, &held).await.unwrap_err();
    let patch = put(&store, &key("e"), Expect::Version(version), &held).await.unwrap_err();
    let Err(watch) = store.watch(&key("e")).await else { panic!("it may not watch") };
    for (error, verb) in [(read, "get"), (create, "create"), (patch, "patch"), (watch, "list")] {
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("cannot {verb} resource \"leases\"")), "{error}");
        assert!(error.hint().contains("deploy/kubernetes"), "{}", error.hint());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_namespace_is_not_an_empty_one() {
    let Some(cluster) = Cluster::get().await else { return };
    let held = document(&led(&cluster).await.store, &key("e")).await.0;
    let url = cluster.url("").replace(&cluster.namespace, "no-such-namespace");
    let store = open(&url).await.unwrap();
    let errors = [
        store.read(&key("e")).await.unwrap_err(),
        store.read(&Key::Store).await.unwrap_err(),
        store.list(&Prefix::Elections).await.unwrap_err(),
        put(&store, &key("e"), Expect::Absent, &held).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
        assert!(error.hint().contains("kubectl create namespace"), "{}", error.hint());
    }
    let Required::At(kubeconfig) = required("BATON_TEST_KUBECONFIG_AGENT") else { return };
    let store = open(&format!("k8s://no-such-namespace?kubeconfig={kubeconfig}")).await.unwrap();
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "nor to an agent with a Role elsewhere: {error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_certificates_and_addresses_that_do_not_fit_are_told_apart() {
    let Some(cluster) = Cluster::get().await else { return };
    let Required::At(kubeconfig) = required("BATON_TEST_KUBECONFIG") else { return };
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let part = |after: &str| text.split(after).nth(1).unwrap().split(['}', '\n']).next().unwrap().to_string();
    let token = part("token: ");
    let authority = part("certificate-authority-data: ");
    let server = part("server: https://");
    let without_authority =
        text.replace(&format!("certificate-authority-data: {authority}"), "tls-server-name: x");
    for (name, text, code, why) in [
        ("token", text.replace(&token, "expired"), "refused", "does not accept the credentials"),
        ("authority", without_authority, "refused", "certificate"),
        ("address", text.replace(&server, "127.0.0.1:1"), "unavailable", "refused"),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        let store = cluster.by(file.to_str().unwrap()).store().await;
        let error = store.read(&key("e")).await.unwrap_err();
        assert_eq!(error.code(), code, "{name}: {error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(!error.hint().is_empty() && !error.to_string().contains("expired"), "{error}");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_is_refused_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, broken) = (folder.path().join("empty"), folder.path().join("broken"));
    std::fs::write(&empty, "apiVersion: v1\nkind: Config\n").unwrap();
    std::fs::write(&broken, "{").unwrap();
    for (url, hint) in [
        ("k8s://".to_string(), "k8s://NAMESPACE"),
        ("k8s://Upper".to_string(), "k8s://NAMESPACE"),
        ("k8s://u:s3cret@n".to_string(), "leave out"),
        ("k8s://s3cret@n?color=red".to_string(), "leave out"),
        ("k8s://n?color=red".to_string(), "context, kubeconfig, owner"),
        ("k8s://n?kubeconfig=/no/such/file".to_string(), "kubeconfig=FILE"),
        (format!("k8s://n?kubeconfig={}", broken.display()), "kubeconfig=FILE"),
        (format!("k8s://n?kubeconfig={}&context=none", empty.display()), "context=NAME"),
    ] {
        let Err(error) = open(&url).await else { panic!("{url} was opened") };
        let misnamed = !url.contains("kubeconfig");
        assert_eq!(matches!(error, StoreError::Misnamed { .. }), misnamed, "{error:?}");
        assert_eq!(matches!(error, StoreError::Refused { .. }), !misnamed, "{error:?}");
        assert!(error.hint().contains(hint), "{url}: {}", error.hint());
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_too_large_is_refused_in_the_server_s_words() {
    let Some(cluster) = Cluster::get().await else { return };
    let agent = led(&cluster).await;
    let large = json!({ "metadata": { "annotations": { "theirs": "x".repeat(262_144 - 2_500) } } });
    cluster.leases().patch("e", &PatchParams::default(), &Patch::Merge(large)).await.unwrap();
    let (mut held, version) = document(&agent.store, &key("e")).await;
    held.task = Some("y".repeat(4_096).into());
    let error = put(&agent.store, &key("e"), Expect::Version(version), &held).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("annotations"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_without_an_answer_may_have_been_applied() {
    let Some(cluster) = Cluster::get().await else { return };
    let Required::At(kubeconfig) = required("BATON_TEST_KUBECONFIG") else { return };
    let agent = led(&cluster).await;
    let proxy = Proxy::before(&kubeconfig).await;
    let by_proxy = cluster.by(&proxy.kubeconfig());
    let store = by_proxy.store().await.limited_to(Duration::from_secs(8));
    let (mut held, version) = document(&store, &key("e")).await;
    held.task = Some("else".into());
    proxy.set(ProxyState::Mute);
    let error = put(&store, &key("e"), Expect::Version(version), &held).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown { .. }), "{error:?}");
    let error = store.read(&key("e")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    proxy.set(ProxyState::Open);
    let (found, version) = document(&agent.store, &key("e")).await;
    assert_eq!(found, held, "as it was here");
    proxy.set(ProxyState::Cut);
    let error = put(&store, &key("e"), Expect::Version(version.clone()), &held).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { .. } | StoreError::Unknown { .. }), "{error:?}");
    proxy.set(ProxyState::Open);
    assert!(
        put(&store, &key("e"), Expect::Version(version), &held).await.is_ok(),
        "without being opened anew"
    );
}

#[tokio::test]
async fn nobody_waits_for_a_server_that_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let open = |address: String| -> BoxFuture<'_, Arc<dyn Store>> {
        let file = folder.path().join(&address);
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("https://{address}") } }],
            "users": [{ "name": "u", "user": { "token": "t" } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        });
        std::fs::write(&file, text.to_string()).unwrap();
        let url = format!("k8s://n?kubeconfig={}", file.display());
        Box::pin(async move { Arc::new(open(&url).await.unwrap()) as Arc<dyn Store> })
    };
    conformance::plain_words(&open).await;
    conformance::bounded(&open, Duration::from_secs(9)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_after_a_cut_and_tells_of_the_gap() {
    let Some(cluster) = Cluster::get().await else { return };
    let Required::At(kubeconfig) = required("BATON_TEST_KUBECONFIG") else { return };
    let mut agent = led(&cluster).await;
    let proxy = Proxy::before(&kubeconfig).await;
    let store = cluster.by(&proxy.kubeconfig()).store().await;
    let mut changes = store.watch(&key("e")).await.unwrap();
    agent.renew().await.unwrap();
    assert_eq!(changes.next().await, Some(Change::Changed));
    proxy.set(ProxyState::Cut);
    agent.renew().await.unwrap();
    let none = tokio::time::timeout(Duration::from_millis(500), changes.next()).await;
    assert!(none.is_err(), "nothing is known while it is cut: {none:?}");
    proxy.set(ProxyState::Open);
    assert_eq!(changes.next().await, Some(Change::Gap));
    assert_eq!(changes.next().await, Some(Change::Changed), "what was missed is told of as well");
    agent.renew().await.unwrap();
    assert_eq!(changes.next().await, Some(Change::Changed));
}
