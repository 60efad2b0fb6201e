//! Elections in a git repository: a leader is a commit, a lost race is a rejected push.
//!
//! Assumes the `git` command (2.30 or newer), and an arbiter that moves a ref from one commit to another only if it is at
//! the first: any remote does (`--force-with-lease` with an explicit object name), and so does the repository itself,
//! where there is no remote. The remote must let its users create and replace `refs/baton/*`.
//!
//! Guarantees that a swap is applied by the arbiter or not at all; that the working tree, the index, `HEAD`,
//! `FETCH_HEAD`, branches and tags of the clone are never touched, and that no hook, signature, prompt or garbage
//! collection of the user's comes into play; that `git log refs/baton/<election>` lists the changes of leader and
//! nothing else; that what does not go on from what this clone saw last is refused, with both claims.
//!
//! Does not guarantee anything against somebody who may write the refs and means harm, nor for a clone that has not
//! seen what was taken away: a fresh clone believes the remote. Does not stamp: the age of a lease is what an observer
//! has itself seen. Does not tell of changes at once: it looks again and again. Does not survive a git that somebody killed
//! outright while it held the lock file of a ref: a person removes the file, at the remote or, where there is none, in
//! the repository; `baton doctor` finds it. Baton itself asks such a git to end and never kills it. A git that is stopped while it holds
//! the lock keeps all others from changing that ref until it goes on. Nobody removes a lock by its age: a stopped git would wake up and put another's half-written
//! file in place. Tips that were replaced are garbage, three small objects each, which `git gc` removes in its own
//! time, in the clone and at the remote.

mod arbiter;
mod blame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod git;
mod lineage;
mod message;
mod objects;
mod open;
mod reader;
mod refs;
mod store;
mod tip;
mod watch;
mod writer;

pub use store::GitStore;
