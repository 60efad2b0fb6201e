//! What members say to each other.

use serde::{Deserialize, Serialize};

use crate::memory_recovery::{Answer, Ask};
use crate::{Group, GroupStamp, Term};

/// One message. The sender is known from the transport; nothing here is trusted further.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// The leader's heartbeat: AppendEntries without entries (§5.2).
    AppendEntries {
        /// The leader's.
        term: Term,
        /// Counts the leader's rounds of heartbeats, from 1.
        round: u64,
        /// How new the leader's list of members is.
        stamp: GroupStamp,
        /// The list, if the receiver's may be older.
        group: Option<Group>,
    },
    /// The answer to a heartbeat.
    AppendAnswer {
        /// The highest that the sender has seen.
        term: Term,
        /// Of the heartbeat.
        round: u64,
        /// How new the sender's list is.
        stamp: GroupStamp,
        /// It follows: for the shortest timeout it votes for nobody else.
        followed: bool,
    },
    /// Whether the receiver would vote for the sender (dissertation 9.6).
    PreVote {
        /// Tells this question from others of the sender.
        poll: u64,
        /// How new the sender's list is.
        stamp: GroupStamp,
        /// If the leader of this term offered to hand over to the sender.
        offered: Option<Term>,
    },
    /// The answer to that.
    PreVoteAnswer {
        /// The voter's: the candidate stands in a higher one.
        term: Term,
        /// Of the question.
        poll: u64,
        /// Whether it would.
        granted: bool,
        /// The voter's list, if the candidate's is older.
        group: Option<Group>,
    },
    /// The sender stands for election.
    RequestVote {
        /// In this term.
        term: Term,
        /// How new the sender's list is.
        stamp: GroupStamp,
        /// The term whose leader has given up its leadership to the sender: nobody needs to wait for its lease.
        released: Option<Term>,
    },
    /// The answer to that.
    VoteAnswer {
        /// Of the election, if the vote was given; else the voter's.
        term: Term,
        /// Whether it was.
        granted: bool,
        /// The voter's list, if the candidate's is older.
        group: Option<Group>,
    },
    /// The leader asks whether the receiver could be elected in its place.
    Offer {
        /// The leader's.
        term: Term,
    },
    /// A majority would vote for the sender if the leader gave up.
    Ready {
        /// The leader's.
        term: Term,
    },
    /// The leader has given up its leadership; the receiver shall stand at once (dissertation 3.10).
    TimeoutNow {
        /// Of the leadership that was given up.
        term: Term,
    },
    /// From one who has forgotten.
    Ask(Ask),
    /// To one who has forgotten.
    Answer(Answer),
}

impl Message {
    /// The paper's word for it, or ours where the paper has none.
    pub const fn kind(&self) -> &'static str {
        match self {
            Message::AppendEntries { .. } => "AppendEntries",
            Message::AppendAnswer { .. } => "AppendAnswer",
            Message::PreVote { .. } => "PreVote",
            Message::PreVoteAnswer { .. } => "PreVoteAnswer",
            Message::RequestVote { .. } => "RequestVote",
            Message::VoteAnswer { .. } => "VoteAnswer",
            Message::Offer { .. } => "Offer",
            Message::Ready { .. } => "Ready",
            Message::TimeoutNow { .. } => "TimeoutNow",
            Message::Ask(_) => "Ask",
            Message::Answer(_) => "Answer",
        }
    }

    /// The highest term in it.
    pub(super) fn highest_term(&self) -> Term {
        let of_list = |group: &Option<Group>| group.as_ref().map_or(Term::ZERO, |group| group.stamp().term);
        match self {
            Message::AppendEntries { term, stamp, group, round: _ } => {
                (*term).max(stamp.term).max(of_list(group))
            }
            Message::AppendAnswer { term, stamp, .. } | Message::RequestVote { term, stamp, .. } => {
                (*term).max(stamp.term)
            }
            Message::PreVoteAnswer { term, group, .. } | Message::VoteAnswer { term, group, .. } => {
                (*term).max(of_list(group))
            }
            Message::Offer { term } | Message::Ready { term } | Message::TimeoutNow { term } => *term,
            Message::PreVote { stamp, .. } => stamp.term,
            Message::Ask(ask) => ask.stamp.term,
            Message::Answer(answer) => answer.highest_term(),
        }
    }
}
