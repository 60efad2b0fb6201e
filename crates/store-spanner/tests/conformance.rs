//! The suite, against a real emulator.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

use crate::support::Server;
use baton_store::{BoxFuture, Key, conformance};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_whole_suite() {
    let Some(server) = Server::shared() else { return };
    let database = server.database().await;
    assert_eq!(conformance::run(&|| database.opened()).await, 14);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_on_after_a_row_was_deleted() {
    let Some(server) = Server::shared() else { return };
    let database = server.database().await;
    let by_hand = database.by_hand().await;
    let by_hand = &by_hand;
    let delete = |key: Key| Box::pin(async move { by_hand.delete(&key).await }) as BoxFuture<'_, ()>;
    conformance::survived(&|| database.opened(), &delete).await;
    conformance::begun_once(&|| database.opened(), &delete).await;
}
