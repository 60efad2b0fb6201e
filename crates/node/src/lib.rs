//! Runs a machine of `baton-peer` over a real network.
//!
//! A [`Node`] has the member's folder and its memory; [`Node::run`] puts it on a [`Transport`] and tells by [`LeadershipStatus`] whether it
//! leads, until when, and whether it shall stop. Whoever does the work looks there; nothing here starts or ends work.
//!
//! **Assumes** what the machine assumes, a boot-time clock, and a disk that keeps what it says it keeps. **Guarantees** that what
//! a step of the machine must keep is on disk before anything of that step is seen outside; that one process at a time is one
//! member of one folder; that a silent or hostile peer costs a bounded amount of memory and no waiting. **Does not** guarantee that
//! work stops in time: that is the warden's, by [`LeadershipSnapshot::until`].

mod codec;
mod control;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod members;
mod members_file;
mod node;
mod pilot;
mod queue;
mod shell;
mod state;
mod tally;
mod tcp;
mod transport;

pub use control::{
    Change, ControlHandle, ControlReply, ControlRequest, MachineCounters, MemberRole, MemberStatus, Status,
    ask_folder,
};
pub use members::{InvalidListedMember, ListedMember, check_places, parse_file};
pub use node::{
    ControlRequests, Event, LeadershipSnapshot, LeadershipStatus, Node, NodeError, NodeOptions, RunningNode,
    WorkHandle, control_channel,
};
pub use pilot::{InvalidPilotAddress, Pilot, PilotAddress, PilotError, PilotOptions};
pub use state::StateError;
pub use tcp::{
    AskError, CertificateError, CertificateFiles, Certificates, GroupSettings, Remote, Secret, Tcp, TcpError,
    TcpOptions, Trust,
};
pub use transport::{
    Counters, MAX_MESSAGE_BYTES, Outgoing, Peer, QUEUE_LENGTH, Received, Transport, flush, receive,
};
