//! Elections in Google Cloud Spanner, by the server's own time.
//!
//! Assumes a database of the GoogleSQL dialect with three tables ([`SpannerStore`] prints and creates them), and that the
//! clocks of Spanner's servers differ by less than ten milliseconds (TrueTime promises less).
//!
//! Guarantees that a swap is one conditional statement and one commit, a second statement in the same commit where the
//! token or the length of the lease changes; that ages are differences of two readings of `CURRENT_TIMESTAMP()`, and
//! never too high; that tokens rise on after somebody deleted a row, since a mark in another table keeps the highest;
//! that a row which somebody else changed is neither believed nor overwritten, since its version seals its content;
//! that `SELECT * FROM Leadership` shows leader and token.
//!
//! Does not guarantee anything against somebody who may write the tables and means harm: whoever empties all three has
//! begun anew. Does not tell of changes at once: Spanner does not push, so a watcher looks again and again (a topic of
//! Pub/Sub, beside this store, tells sooner). Does not free at once what a request leaves behind that was cut off on
//! its way: Spanner may keep its locks for ten seconds, for which the row cannot be changed. Does not see that `beat`
//! was changed by hand: an administrator can shorten or lengthen a lease.

mod client;
mod fault;
mod open;
mod prepare;
mod reader;
mod shape;
mod sql;
mod store;
mod tables;
mod watch;
mod writer;

use std::sync::Arc;

use baton_store::{Store, StoreError, StoreUrl};

pub use store::SpannerStore;

/// Opens the store that a URL names: `spanner://PROJECT/INSTANCE/DATABASE`. Sends nothing yet.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SpannerStore::open(url)?))
}
