//! The suite against a real apiserver, as its administrator and with the least that `deploy/kubernetes` grants.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use baton_store::conformance::{self, Required, required};
use baton_store::{BoxFuture, Key};
use kube::api::DeleteParams;

use crate::support::Cluster;

const ROLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/kubernetes/role.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn as_the_administrator() {
    let Some(cluster) = Cluster::get().await else { return };
    assert_eq!(conformance::run(&|| cluster.opened()).await, 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_least_permissions() {
    let Some(cluster) = Cluster::get().await else { return };
    let Required::At(kubeconfig) = required("BATON_TEST_KUBECONFIG_AGENT") else { return };
    if cluster.kubectl(&["apply", "-f", ROLE]).is_none() {
        return;
    }
    let _ = cluster.kubectl(&["create", "rolebinding", "agent", "--role", "baton", "--user", "agent"]);
    let agent = cluster.by(&kubeconfig);
    assert_eq!(conformance::run(&|| agent.opened()).await, 14);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_survive_a_deleted_lease() {
    let Some(cluster) = Cluster::get().await else { return };
    let delete = |key: Key| {
        let leases = cluster.leases();
        // The names that the suite uses are plain: the Lease is called the same.
        let delete =
            async move { drop(leases.delete(&key.to_string(), &DeleteParams::default()).await.unwrap()) };
        Box::pin(delete) as BoxFuture<'_, ()>
    };
    conformance::survived(&|| cluster.opened(), &delete).await;
    conformance::begun_once(&|| cluster.opened(), &delete).await;
}
