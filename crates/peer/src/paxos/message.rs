//! What members say to each other.

use serde::{Deserialize, Serialize};

use super::saved::Vote;
use crate::memory_recovery::{Answer, Ask};
use crate::{Group, GroupStamp, Term};

/// A message. Its owner's id is part of each ballot, so that a prepare or accept request from anybody else is no such request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// Would you promise, if I asked? Changes nothing anywhere.
    Query {
        /// What the answers refer to.
        ballot: Term,
        /// How new the sender's list of members is.
        stamp: GroupStamp,
    },
    /// Yes: nobody leads, as far as I know.
    Open {
        /// Of the query.
        ballot: Term,
        /// What I have promised so far; a ballot must be higher.
        promised: Term,
    },
    /// Phase 1a: promise to take part in nothing lower, in this instance and all later ones.
    Prepare {
        /// Under which the sender wants to lead.
        ballot: Term,
        /// The leadership that was handed over to the sender, if one was.
        released: Option<Term>,
        /// How new the sender's list of members is.
        stamp: GroupStamp,
    },
    /// Phase 1b: I promise, and this is what I accepted last.
    Promise {
        /// Of the prepare request.
        ballot: Term,
        /// In the highest instance in which anything was accepted.
        vote: Option<Vote>,
    },
    /// Phase 2a: accept this value in this instance. Once a leader has its lease, this is its heartbeat.
    Accept {
        /// Which ballot, instance and value.
        vote: Vote,
        /// Of the sender's leadership. The value is another one where it completes an instance of its predecessor.
        token: Term,
        /// Which round of requests this belongs to; the answer repeats it.
        beat: u64,
        /// The leader's list of members, for those who may not have it.
        group: Option<Group>,
    },
    /// Phase 2b: I accepted.
    Accepted {
        /// Of the accept request.
        ballot: Term,
        /// Of the accept request.
        instance: u64,
        /// Of the accept request: the leader's lease counts from when it sent that round.
        beat: u64,
        /// How new my list of members is.
        stamp: GroupStamp,
    },
    /// No: to a query, a prepare or an accept request.
    Refused {
        /// Of the request.
        ballot: Term,
        /// What I have promised.
        promised: Term,
        /// My list of members, if the sender's is older.
        group: Option<Group>,
    },
    /// I do not lead any more and my work has stopped: stand for election at once.
    HandOver {
        /// The leadership that ended.
        released: Term,
    },
    /// From a member that has forgotten.
    Ask(Ask),
    /// What a member knows of the past.
    Told {
        /// As all algorithms answer.
        answer: Answer,
        /// What it accepted last.
        vote: Option<Vote>,
    },
}

impl Message {
    /// In the paper's word, where it has one.
    pub const fn kind(&self) -> &'static str {
        match self {
            Message::Query { .. } => "query",
            Message::Open { .. } => "open",
            Message::Prepare { .. } => "prepare",
            Message::Promise { .. } => "promise",
            Message::Accept { .. } => "accept",
            Message::Accepted { .. } => "accepted",
            Message::Refused { .. } => "refused",
            Message::HandOver { .. } => "hand-over",
            Message::Ask(_) => "ask",
            Message::Told { .. } => "told",
        }
    }
}
