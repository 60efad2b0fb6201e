//! Elections as Kubernetes Leases, beside other clients of the same Lease.
//!
//! An election is a Lease of the same name in one namespace; every other record is a ConfigMap. `kubectl get lease`
//! shows the holder, the annotation `baton.dev/token` its token, and candidates that use client-go's leaderelection
//! may share the Lease.
//!
//! # Assumes
//! An apiserver that applies a patch only to the resourceVersion that the patch names, and whose resourceVersions are
//! numbers that rise with every write. All are so, and since Kubernetes 1.35 the comparison is documented
//! (KEP-5504). The permissions of `deploy/kubernetes`.
//!
//! # Guarantees
//! - **The spec is the truth.** What Baton wrote into the annotations counts while the spec has the holder and the
//!   transitions that were written with it. Otherwise another client has taken or freed the Lease since, and the
//!   document says so: held by that holder, who lapses like any other when its `renewTime` stands still for
//!   `leaseDurationSeconds`, or vacant.
//! - **The token is `baton.dev/base` + `leaseTransitions`** while Baton holds the Lease, and never lower afterwards. A
//!   take-over by client-go adds one transition, and Baton counts one for every epoch, be it of a leader, of a pause or
//!   of a deposition.
//! - **The token survives the deletion of the Lease.** An absent Lease is reported with the resourceVersion of the
//!   moment, and the engine grants above it. No epoch of a Lease exceeds its resourceVersion: the first is one above the
//!   resourceVersion of a reading before the Lease's creation, which itself raises it by one or more, and every later
//!   one costs a write that raises it again. So the resourceVersion of a reading that finds nothing is at or above every
//!   epoch that was given under that name. A client that looked, and writes after another Lease came and was deleted, is
//!   refused by the mark that every beginning writes (`begin.rs`): it looks again. Whoever deletes the mark too, while a
//!   client is between its look and its write, takes that away.
//! - **The mark of a fence survives the deletion of its ConfigMap**: it stands in a second one.
//! - Fields, labels, annotations and finalizers of others are not touched, and what cannot be read is not overwritten.
//! - client-go's candidates keep away from a Lease that Baton holds, that is paused or that awaits approval, and start
//!   only when a deposed leader's lease has ended.
//!
//! # Does not guarantee
//! - A vacant Lease is anybody's: reservations and policies other than `first` do not bind clients that are not Baton's.
//!   A pause does not bind those that judge a lease by a duration of their own.
//! - Nothing is known of a lease that was deleted with its record: whoever did not see it held starts at once. The token
//!   protects what asks for it.
//! - resourceVersions go back when the cluster's etcd is restored from a backup or replaced, and epochs may exceed them
//!   where `leaseTransitions` was raised by hand: tokens may then be given twice after a deletion. Clients that saw the
//!   higher ones refuse.
//! - A Lease on which no Baton has written has its resourceVersion for a token, which rises with every renewal of its
//!   foreign holder, who does not know it. Baton's first write fixes the base.
//! - A namespace that is not there looks empty to whoever may read in all namespaces but may not look at them: a first
//!   write says so. Everybody else is told.
//! - A Lease has no clock of the server's: ages are what each observer has itself seen.

mod begin;
mod config_map;
mod fault;
mod foreign;
mod hold;
mod mark;
mod name;
mod open;
mod owner;
mod readiness;
mod shape;
mod stamp;
mod store;
mod version;
mod watch;

pub use open::open;
pub use store::KubernetesStore;
