//! Push by Google Pub/Sub, for stores of Google's: `?notify=pubsub:TOPIC`. And how Google's services are reached.
//!
//! [`notified`] wraps a store: after every swap that was, or may have been, applied it publishes the key to a topic,
//! and every process that watches hears of it through a subscription of its own, beside what the store itself tells.
//!
//! Assumes that all clients of a store name the same topic, and that they may publish, make and delete subscriptions
//! (`roles/pubsub.editor`). Honours `PUBSUB_EMULATOR_HOST`; otherwise application-default credentials are used.
//!
//! Guarantees that a message says which record changed, and nothing about its content or its store; that no swap fails, or
//! waits for more than 300 ms, because a message cannot be published; that a watch misses nothing that was published
//! after it began, and hears of a gap after every break. A missing topic is refused before the first swap and at the
//! first watch: `prepare` makes it.
//!
//! Does not guarantee that a change is told: the writer may die between the swap and the message. The store's own
//! watch goes on for that. Does not delete the subscription of a process that just ends: Pub/Sub does, after a day.

mod fault;
pub mod google;
mod hub;
pub mod jitter;
mod store;
mod tell;
mod topic;

use std::sync::Arc;

use baton_store::{Store, StoreError};

pub use store::Notified;

use crate::google::Route;

const SERVICE: &str = "pubsub.googleapis.com";
const EMULATOR: &str = "PUBSUB_EMULATOR_HOST";

/// A store whose changes are also told through a topic of a project.
pub async fn notified(
    store: Arc<dyn Store>,
    project: &str,
    topic: &str,
) -> Result<Arc<dyn Store>, StoreError> {
    let route = Route::choose(None, EMULATOR, SERVICE);
    Ok(Arc::new(Notified::open(store, project, topic, &route).await?))
}
