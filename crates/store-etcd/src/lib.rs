//! Elections in etcd: compare on the revision, watch, and a place in etcd's own elections.
//!
//! `etcd://[user:password@]HOST[:2379][,HOST…]/PREFIX`, with `?user=NAME` (the password in `BATON_ETCD_PASSWORD`),
//! `tls=true`, `ca=FILE`, `cert=FILE`, `key=FILE`, and `election=etcd` for [`EtcdElections`]. A record stands under
//! `PREFIX/<key>` as JSON, and an election of etcd's own under `PREFIX/<election>/`, as `etcdctl elect PREFIX/<election>`
//! has it. Without a prefix the keys are the names alone; keys that begin with a `/` need two: `etcd://HOST//PREFIX`.
//!
//! Assumes etcd 3.4 or newer, whose revision never goes back: an etcd that was restored from a backup has forgotten tokens
//! that were given, unless it was restored with `etcdutl snapshot restore --bump-revision`. Assumes that the prefix is
//! Baton's alone.
//!
//! Guarantees that a swap is applied once or not at all, by a majority of the members; that reads are linearizable; that a
//! member which is down, silent or cut off does not keep the others from being asked, and that no request takes longer
//! than ten seconds; that **epochs survive the deletion of a record**. A reading that finds nothing gives etcd's own revision,
//! at that same reading, as the epoch above which the next begins. Every swap raises the revision by at least one and an
//! epoch by at most one, and a first epoch begins at a revision that the swap which writes it has already passed: so no
//! epoch is ever above the revision, and whatever was deleted was below it. Whoever makes a record also writes the key
//! `PREFIX/@begun/<election>`, in the same transaction and only if nobody has since its look: so a client that looked, and writes after another record came and
//! was deleted, gives no epoch again. Whoever deletes that key too, with the whole prefix, deletes the store's id with it. How long the lease of a deleted record would
//! have lasted is not known: whoever saw it waits for it, others do not.
//!
//! Guarantees that the two ways are not mixed on one prefix: neither begins an election where the other's keys are. A record
//! that is there already does not keep `etcdctl elect`, which knows nothing of it, from using the same name.
//!
//! Does not stamp: the age of a lease is what an observer has itself seen, or, in etcd's own elections, what etcd counts. Does
//! not guarantee anything against somebody who may write the prefix and means harm.

mod auth;
mod client;
mod fault;
mod members;
mod native;
mod open;
mod shape;
mod store;
mod watch;
mod wire;

use std::sync::Arc;

use baton_store::{Store, StoreError, StoreUrl};

pub use native::{Candidacy, EtcdElections, RenewedLease};
pub use store::EtcdStore;

/// Opens the store that a URL names, unless it names [`EtcdElections`]. Asks nothing of etcd.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    let settings = open::Settings::of(url, std::env::var(open::PASSWORD).ok())?;
    if settings.native {
        return Err(StoreError::Refused {
            place: settings.location(),
            why: "it names etcd's own elections, which keep no records".to_string(),
            hint: "run, acquire, renew, release, status and watch work there; for records leave out ?election=etcd".to_string(),
        });
    }
    Ok(Arc::new(EtcdStore::of(&settings)?))
}
