//! What members say to each other.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Term};

/// The two messages of the textbook that go round, the answer to each, and what failure detection and terms need.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Goes round until it comes to somebody who is in its list; everybody adds itself.
    Election {
        /// The highest term that the origin has seen; its leader is not heard any more.
        term: Term,
        /// Who sent it off.
        origin: NodeId,
        /// Whom it came to, in order, the origin first. At most as many as there are members.
        ids: Vec<NodeId>,
    },
    /// Goes round once more and tells who leads.
    Coordinator {
        /// The term of that leader.
        term: Term,
        /// The member that sent it off.
        origin: NodeId,
        /// The leader.
        leader: NodeId,
        /// Whom it came to, in order, the origin first. At most as many as there are members.
        told: Vec<NodeId>,
    },
    /// The answer to one of those: it has come here, and need not be sent to the next one.
    Ack {
        /// What has come.
        lap: Lap,
        /// The highest term that the sender has seen. Higher than that of the lap: what has come is of an older term and goes no
        /// further.
        term: Term,
    },
    /// The sender still leads.
    Heartbeat {
        /// Its term.
        term: Term,
    },
    /// The heartbeat belongs to an older term than this.
    Refused {
        /// The highest term that the sender has seen.
        term: Term,
    },
}

/// Which of the messages that go round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lap {
    /// Whether it is a COORDINATOR, else an ELECTION.
    pub coordinator: bool,
    /// Its term.
    pub term: Term,
    /// Who sent it off.
    pub origin: NodeId,
}

impl Message {
    /// The textbook's word, or ours where it has none.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Message::Election { .. } => "ELECTION",
            Message::Coordinator { .. } => "COORDINATOR",
            Message::Ack { .. } => "ACK",
            Message::Heartbeat { .. } => "HEARTBEAT",
            Message::Refused { .. } => "REFUSED",
        }
    }

    /// Which lap it is, if it goes round.
    pub(super) const fn lap(&self) -> Option<Lap> {
        match *self {
            Message::Election { term, origin, .. } => Some(Lap { coordinator: false, term, origin }),
            Message::Coordinator { term, origin, .. } => Some(Lap { coordinator: true, term, origin }),
            Message::Ack { .. } | Message::Heartbeat { .. } | Message::Refused { .. } => None,
        }
    }
}
