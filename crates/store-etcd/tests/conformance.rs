//! The suite: against one member, against three, and with TLS and a password.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_store::{BoxFuture, Key, Store, conformance};

use crate::support::{etcdctl, fresh, need, open};

/// Opens the store again, as another process would.
fn again(url: &str) -> BoxFuture<'_, Arc<dyn Store>> {
    Box::pin(async move { open(url).await.unwrap() })
}

async fn conforms(url: String) {
    assert_eq!(conformance::run(&|| again(&url)).await, 14);
}

async fn survives(hosts: String) {
    let prefix = fresh();
    let deleted = AtomicUsize::new(0);
    let (hosts, prefix, deleted) = (&hosts, &prefix, &deleted);
    let url = format!("etcd://{hosts}/{prefix}");
    conformance::survived(&|| again(&url), &move |key: Key| {
        Box::pin(async move {
            let said = etcdctl(hosts, &["del", &format!("{prefix}/{key}")]);
            assert_eq!(said, "1");
            deleted.fetch_add(1, Ordering::Relaxed);
        })
    })
    .await;
    assert!(deleted.load(Ordering::Relaxed) >= 3);
    conformance::begun_once(&|| again(&url), &move |key: Key| {
        Box::pin(
            async move { assert_eq!(etcdctl(hosts, &["del", "--prefix", &format!("{prefix}/{key}")]), "1") },
        )
    })
    .await;
}

#[tokio::test]
async fn one_member() {
    conforms(format!("etcd://{}/{}", need!("BATON_TEST_ETCD"), fresh())).await;
}

#[tokio::test]
async fn three_members() {
    conforms(format!("etcd://{}/{}", need!("BATON_TEST_ETCD3"), fresh())).await;
}

#[tokio::test]
async fn a_prefix_that_begins_with_a_slash() {
    conforms(format!("etcd://{}//{}/deeper", need!("BATON_TEST_ETCD"), fresh())).await;
}

#[tokio::test]
async fn tls_and_a_password() {
    let (at, ca) = (need!("BATON_TEST_ETCD_TLS"), need!("BATON_TEST_ETCD_TLS_CA"));
    let (user, password) = (need!("BATON_TEST_ETCD_TLS_USER"), need!("BATON_TEST_ETCD_TLS_PASSWORD"));
    conforms(format!("etcd://{user}:{password}@{at}/{}?tls=true&ca={ca}", fresh())).await;
}

#[tokio::test]
async fn epochs_survive_deletion_on_one_member() {
    let _ = need!("BATON_TEST_ETCDCTL");
    survives(need!("BATON_TEST_ETCD")).await;
}

#[tokio::test]
async fn epochs_survive_deletion_on_three_members() {
    let _ = need!("BATON_TEST_ETCDCTL");
    survives(need!("BATON_TEST_ETCD3")).await;
}
