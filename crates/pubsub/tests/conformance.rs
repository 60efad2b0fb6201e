//! The suite on a store that tells of nothing itself: whatever its watchers hear comes from the topic.

#![allow(clippy::unwrap_used, reason = "this is all tests")]

use std::sync::Arc;

use crate::support::TestProject;
use baton_store::{BoxFuture, Store, conformance};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_suite() {
    let Some(place) = TestProject::prepared().await else { return };
    let open = || {
        let client = place.client();
        Box::pin(async move { Arc::new(client.await) as Arc<dyn Store> }) as BoxFuture<'_, _>
    };
    assert_eq!(conformance::run(&open).await, 14);
}
