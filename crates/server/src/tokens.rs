//! The access tokens of the store, as those that are let in.
//!
//! They are read at the start, at the beginning of each turn as the active server, and whenever the store tells of a change, whoever made
//! it: another server on the same store, or an operator who changed the store itself. While nothing tells of changes, they are read
//! every second. While the store cannot be read, those that were known last are let in.

use std::sync::Arc;
use std::time::Duration;

use baton_election::Tokens;
use baton_store::{Key, Record, Store, StoreError};
use futures_util::StreamExt;

use crate::http::Register;

/// How long to wait after the store failed.
const AGAIN: Duration = Duration::from_secs(1);

/// The tokens that the store has.
pub(crate) async fn read(store: &dyn Store) -> Result<Tokens, StoreError> {
    match store.read(&Key::Tokens).await?.found {
        Some((Record::Tokens(tokens), _)) => Ok(tokens),
        Some(_) | None => Ok(Tokens::default()),
    }
}

/// Lets those in that the store has.
pub(crate) async fn refresh(store: &dyn Store, register: &Register) -> Result<(), StoreError> {
    register.set(&read(store).await?);
    Ok(())
}

/// The same, as often as it takes: whoever was revoked is not let in for ever.
async fn refresh_surely(store: &dyn Store, register: &Register) {
    while refresh(store, register).await.is_err() {
        tokio::time::sleep(AGAIN).await;
    }
}

/// The same after every change, for ever.
pub(crate) async fn follow(store: Arc<dyn Store>, register: Arc<Register>) {
    loop {
        let changes = store.watch(&Key::Tokens).await;
        // Whatever changed before the watch began, or while nothing tells of changes, is found by a look.
        refresh_surely(&*store, &register).await;
        if let Ok(mut changes) = changes {
            while changes.next().await.is_some() {
                refresh_surely(&*store, &register).await;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}
