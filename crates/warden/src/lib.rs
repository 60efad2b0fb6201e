//! Ends a command, and everything it started, before its lease ends; or, if its [`StatusFiles`] says so, tells it in
//! time that it does not lead.
//!
//! Two processes share the work. *run* (the async side, [`WardenHandle`]) renews the lease and feeds the *warden*
//! (the synchronous side, [`serve`]) with deadlines; the warden is the parent of CMD and kills CMD's whole
//! tree in time. Each of the two ends the tree when the other fails: the warden when it loses run, run by
//! [`WardenHandle::seize`] when it loses the warden.
//!
//! **Assumes** Linux 5.4 or later with `/proc`, that both processes run as one user, that deadlines are
//! absolute times of `CLOCK_BOOTTIME`, and that run's other children stay in its session, or are started through [`ChildRegistry::spawn`].
//!
//! **Guarantees** that [`Report::Ended`] is sent, [`WardenHandle::seize`] returns `Ok` and the `release` of
//! [`serve`] is called only at a moment when no descendant of CMD exists, whatever CMD's processes do with
//! signals, sessions, groups and forks; and that SIGKILL is sent early enough before the deadline to be
//! over by then while one of the two processes is neither dead nor stopped. A command that outlives its lease
//! is shown `read-only` as early as SIGTERM would have been sent, is shown `leading` only while the warden has
//! the deadline of another lease, and is ended like any other when one of the two processes is lost or the
//! files cannot be written. After the end of any command they say `read-only`.
//!
//! A *validator* is a second command under the same warden. It has the leader's secret files, so the lease is released only when nothing of it
//! is left either: [`Report::Validated`] is sent only then, and the deadline, the end of run, [`WardenHandle::kill`] and the loss of the lease by a command that
//! outlives it end the validator too.
//!
//! A CMD may have a terminal of its own ([`Terminal`]), if run is at one. Run then carries bytes between the two, and makes its own terminal raw; the
//! warden, which knows how that was before, restores it when run is killed or stopped. CMD is then the leader of a session of its own.
//!
//! **Does not guarantee** that a command which outlives its lease obeys what it is shown, nor anything while both processes are stopped, or while the machine is suspended or
//! paused: fences protect there. When both are killed at once, only CMD's main process dies with them, and nobody restores run's terminal. Work
//! handed to somebody who is not a descendant (`systemd-run`, `at`, a container daemon) is out of reach. A
//! process of another user, or one that hangs in the kernel, cannot be ended in time: it is reported as
//! [`Report::Unkillable`], and nothing is released before it is gone.

mod channel;
mod child_registry;
mod clock;
mod handle;
mod link;
mod order;
mod process_tree;
mod relay;
mod schedule;
mod shim;
mod status_files;
mod sweep;
mod terminal;
mod usage;
mod validator;
mod warden;
mod watchdog;

pub use channel::LineError;
pub use child_registry::{ChildPid, ChildRegistry, become_subreaper};
pub use clock::BootTime;
pub use handle::{WardenEvent, WardenHandle, WardenHandleError};
pub use order::{CommandExit, EndCause, Lead, Order, Report, Start, Ticket, Validation};
pub use process_tree::descendants;
pub use relay::Request;
pub use schedule::Schedule;
pub use shim::{NO_TERMINAL, ShimError, exec_shim};
pub use status_files::{SecretFile, StatusFiles};
pub use sweep::Survivor;
pub use terminal::{Modes, Terminal};
pub use usage::{Usage, of_descendants};
pub use validator::keep_validator;
pub use warden::{Shims, WardenError, WardenExit, serve};
