//! The suite on the stores of this crate.

use std::sync::Arc;

use baton_store::{MemoryStore, Store, conformance};

#[tokio::test]
async fn memory() {
    let store = MemoryStore::default();
    let checks = conformance::run(&|| {
        let store = store.clone();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    })
    .await;
    assert_eq!(checks, 14);
}
