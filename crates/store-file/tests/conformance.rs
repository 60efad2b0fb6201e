//! The suite on a folder.

use std::sync::Arc;

use baton_store::{Access, Store, conformance};
use baton_store_file::FileStore;

#[tokio::test]
async fn on_a_folder_epochs_survive_a_deletion() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let open = || {
        let store = FileStore::open(&path, Access::Write).unwrap();
        Box::pin(async move { Arc::new(store) as Arc<dyn Store> }) as baton_store::BoxFuture<'_, _>
    };
    let delete = |key: baton_store::Key| {
        let (from, to) = (path.join(key.to_string()), folder.path().join("away"));
        let away = async move {
            std::fs::rename(&from, &to).unwrap();
            std::fs::remove_dir_all(&to).unwrap();
        };
        Box::pin(away) as baton_store::BoxFuture<'_, ()>
    };
    conformance::survived(&open, &delete).await;
    let left = std::fs::read_dir(path.join("@marks")).unwrap().count();
    assert_eq!(left, 1, "the mark is what is left");
    conformance::begun_once(&open, &delete).await;
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
    assert_eq!(checks, 14);
}
