//! What members say to each other.

use serde::{Deserialize, Serialize};

use crate::Term;

/// Garcia-Molina's three messages, and what failure detection, hand-over and terms need besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// To each of a higher rank: is one of you there? The leader of that term is not heard any more.
    Election {
        /// The highest term that the sender has seen.
        term: Term,
    },
    /// The answer of a higher one: I am, and I see to it.
    Ok {
        /// The term of the question.
        term: Term,
    },
    /// The sender leads.
    Coordinator {
        /// Its term.
        term: Term,
    },
    /// The sender still leads.
    Heartbeat {
        /// Its term.
        term: Term,
    },
    /// What was said belongs to an older term than this.
    Refused {
        /// The highest term that the sender has seen.
        term: Term,
    },
    /// The sender led and gives up; the receiver shall hold an election.
    Resign {
        /// The term that ends.
        term: Term,
    },
}

impl Message {
    /// The paper's word, or ours where the paper has none.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Message::Election { .. } => "ELECTION",
            Message::Ok { .. } => "OK",
            Message::Coordinator { .. } => "COORDINATOR",
            Message::Heartbeat { .. } => "HEARTBEAT",
            Message::Refused { .. } => "REFUSED",
            Message::Resign { .. } => "RESIGN",
        }
    }
}
