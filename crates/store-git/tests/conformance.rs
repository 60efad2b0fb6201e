//! The suite, with the repository itself as the arbiter and with a remote.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::TestRepository;
use baton_store::{Store, conformance};

#[tokio::test]
async fn without_a_remote() {
    let place = TestRepository::new();
    let checks = conformance::run(&|| {
        let store = place.lone_store("only");
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    })
    .await;
    assert!(checks >= 14);
}

#[tokio::test]
async fn with_a_remote() {
    let place = TestRepository::new();
    let opened = AtomicUsize::new(0);
    // Several clones, some of them with several clients.
    let open = || {
        let turn = opened.fetch_add(1, Ordering::Relaxed) % 3;
        let store = place.store(&format!("clone-{turn}"));
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> }) as baton_store::BoxFuture<'_, _>
    };
    assert!(conformance::run(&open).await >= 14);
}
