//! Elections in Google Firestore, by the server's own time: `firestore://PROJECT/DATABASE?collection=leadership`.
//!
//! An election is the document `leadership/<election>`, whose fields `leaderId`, `fencingToken`, `leaseExpiration` and
//! `lastHeartbeat` say to the console and to any other client what the field `record` says to Baton. Everything else
//! stands in `leadership-records`, and the marks, which outlive a deleted election, in `leadership-marks`. A `/` in a
//! name is a `~` in the document's id.
//!
//! Assumes that Firestore's times (`read_time`, `update_time`, `REQUEST_TIME`) are within some milliseconds of each
//! other, which the guard of every lease covers; that the callers may read and write these collections
//! (`roles/datastore.user`); and that whoever writes `lastHeartbeat` by hand knows what it does.
//!
//! Guarantees that a swap is one `Commit` with the precondition `update_time` or `exists=false`, so that it is applied
//! as a whole or not at all and no transaction locks anybody out; that no client's clock decides anything
//! (`leaseExpiration` is for people); that the mark is written in the same commit whenever the epoch or the length of
//! the lease changes, only ever upwards, and is itself conditioned, so that a deleted election is taken again only
//! with a higher token, and only after the lease that it may have had; that a document that an old copy was put back
//! over is refused.
//!
//! Does not guarantee anything to whoever deletes the mark along with the election: its epochs begin at 1 again, and
//! only clients and fences that saw a higher one refuse them. Does not take leases under 3 s from the service itself:
//! Firestore bears about one write a second to a document, and a lease is renewed three times in its length. An
//! emulator has no such limit. A renewal, but for the first after a grant, that comes within a second of this client's last write to the document waits
//! for the rest of it, at most an eighth of the lease, and not at all once half of the lease is gone; nothing else waits.
//!
//! For hundreds of elections: exempt `record` and `lastHeartbeat` from indexing (`gcloud firestore indexes fields
//! update FIELD --collection-group=leadership --disable-indexes`); an index over rising times takes about 500 writes a
//! second.

mod client;
mod database;
mod election_cache;
mod fault;
mod mark;
mod open;
mod pace;
mod shape;
mod store;
mod swap;
mod time;
mod watch;

pub use open::open;
pub use store::FirestoreStore;
