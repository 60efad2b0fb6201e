//! A namespace of a test's own in the real cluster, documents to write into it, and an agent that plays by the rules.
#![allow(dead_code, unused_imports, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod player;
mod private;
mod proxy;

use std::process::Command;
use std::sync::Arc;

use baton_election::{Document, ElectionName};
use baton_store::conformance::{Required, required};
use baton_store::{
    AgeStamp, BoxFuture, Expect, Key, Persistence, Reading, Record, Store, StoreError, Version,
};
use baton_store_kubernetes::KubernetesStore;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

pub(crate) use player::Player;
pub(crate) use private::Private;
pub(crate) use proxy::{Proxy, ProxyState};

pub(crate) struct Cluster {
    pub(crate) namespace: String,
    pub(crate) client: Client,
    kubeconfig: String,
}

impl Cluster {
    /// A namespace that nobody else uses; none if there is no cluster.
    pub(crate) async fn get() -> Option<Cluster> {
        let Required::At(kubeconfig) = required("BATON_TEST_KUBECONFIG") else { return None };
        Some(Cluster::at(kubeconfig).await)
    }

    /// The same, in the cluster of this kubeconfig.
    pub(crate) async fn at(kubeconfig: String) -> Cluster {
        let client = client(&kubeconfig).await;
        let namespace = format!("baton-test-{}", fresh());
        let metadata = ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() };
        let object = Namespace { metadata, ..Namespace::default() };
        Api::all(client.clone()).create(&PostParams::default(), &object).await.unwrap();
        Cluster { namespace, client, kubeconfig }
    }

    /// The same namespace, reached by way of another kubeconfig.
    pub(crate) fn by(&self, kubeconfig: &str) -> Cluster {
        let (namespace, client) = (self.namespace.clone(), self.client.clone());
        Cluster { namespace, client, kubeconfig: kubeconfig.to_string() }
    }

    pub(crate) fn url(&self, more: &str) -> String {
        format!("k8s://{}?kubeconfig={}{more}", self.namespace, self.kubeconfig)
    }

    pub(crate) async fn store(&self) -> KubernetesStore {
        open(&self.url("")).await.unwrap()
    }

    pub(crate) fn opened(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async move { baton_store_kubernetes::open(&self.url("").parse().unwrap()).await.unwrap() })
    }

    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn lease(&self, name: &str) -> Lease {
        self.leases().get(name).await.unwrap()
    }

    /// Puts back a Lease that was read and changed, as a client of Go does.
    pub(crate) async fn replace(&self, lease: &Lease) -> Lease {
        let name = lease.metadata.name.clone().unwrap();
        self.leases().replace(&name, &PostParams::default(), lease).await.unwrap()
    }

    /// Runs kubectl as the administrator; none if there is none.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Option<String> {
        let Required::At(kubectl) = required("BATON_TEST_KUBECTL") else { return None };
        let output = Command::new(kubectl)
            .args(["--kubeconfig", &self.kubeconfig, "--namespace", &self.namespace])
            .args(arguments)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?} failed: {stderr}");
        Some(String::from_utf8(output.stdout).unwrap().trim_end().to_string())
    }
}

pub(crate) async fn client(kubeconfig: &str) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// What no other test has.
pub(crate) fn fresh() -> String {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).unwrap();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) async fn open(url: &str) -> Result<KubernetesStore, StoreError> {
    KubernetesStore::open(&url.parse().unwrap()).await
}

pub(crate) fn key(name: &str) -> Key {
    Key::Election(ElectionName::new(name).unwrap())
}

pub(crate) async fn read(store: &KubernetesStore, key: &Key) -> Reading {
    store.read(key).await.unwrap()
}

pub(crate) async fn document(store: &KubernetesStore, key: &Key) -> (Document, Version) {
    match read(store, key).await.found.unwrap() {
        (Record::Election(document), version) => (*document, version),
        (other, _) => panic!("{other:?}"),
    }
}

pub(crate) async fn put(
    store: &KubernetesStore,
    key: &Key,
    expect: Expect,
    next: &Document,
) -> Result<Version, StoreError> {
    let record = Record::Election(Box::new(next.clone()));
    store
        .swap(key, expect, &record, AgeStamp::Reset, Persistence::Durable)
        .await
        .map(|swapped| swapped.version)
}
