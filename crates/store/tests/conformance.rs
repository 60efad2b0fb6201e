//! The suite on the stores of this crate.

use std::sync::Arc;

use baton_store::{Access, FileStore, MemoryStore, Store, conformance};

#[tokio::test]
async fn memory() {
    let store = MemoryStore::default();
    let checks = conformance::run(&|| {
        let store = store.clone();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    })
    .await;
    assert_eq!(checks, 13);
}

#[tokio::test]
async fn file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let checks = conformance::run(&|| {
        let store = FileStore::open(&path, Access::Write).unwrap();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> })
    })
    .await;
    assert_eq!(checks, 13);
}
