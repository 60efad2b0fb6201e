//! The trait that all algorithms share.

use core::fmt::Debug;
use core::hash::Hash;

use alloc::vec::Vec;

use baton_election::Moment;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::memory_recovery::{Founding, MemoryRecovery};
use crate::{Effects, Group, Member, NodeId, Term, Timing};

/// Who a machine is and how it shall behave.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Config {
    /// The member that the machine is.
    pub id: NodeId,
    /// The members, unless a newer list was kept.
    pub group: Group,
    /// The rhythm, the same for all members.
    pub timing: Timing,
    /// Of all chance. Members should have different ones.
    pub seed: u64,
}

/// What a machine knows of its own past.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Start<S> {
    /// The group is being founded: this member has surely never spoken under its id.
    Founded,
    /// It ran before, and this is what it kept.
    Restarted(S),
    /// Nothing was kept, and whether it ever spoke under its id is not known: a first start, or a lost disk. It must not
    /// vote until the others have told it enough.
    Forgotten,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Input<M> {
    /// Time has passed; the machine looks whether something is due.
    Tick,
    /// A message came. Who sent it is authenticated by the transport, what it says is not trusted further.
    Received {
        /// The sender.
        from: NodeId,
        /// What it says.
        message: M,
    },
    /// The work has stopped, as [`crate::Notice::Stop`] asked.
    Stopped,
    /// The leader shall hand over: to that member, or to whom it finds best. Others refuse.
    Transfer {
        /// The successor; without one the leader chooses the best.
        to: Option<NodeId>,
    },
    /// These shall be the members; at most one step from the list that counts. Raft and Paxos change it only through the
    /// leader and a majority.
    Reconfigure {
        /// The whole new list.
        members: Vec<Member>,
    },
}

/// An algorithm as one member of the group runs it.
///
/// The shell calls [`Machine::step`] with whatever happens and at the latest at [`Machine::deadline`], with moments of one
/// clock that never goes back while the machine lives, and carries out the effects in the order of their fields.
pub trait Machine: Sized + Clone + Debug + Send + 'static {
    /// What members say to each other.
    type Message: Clone + Debug + PartialEq + Eq + Hash + Send + Serialize + DeserializeOwned;
    /// What must survive a crash.
    type Saved: Clone + Debug + PartialEq + Eq + Hash + Send + Serialize + DeserializeOwned + 'static;

    /// The algorithm's name, as it is written on the command line.
    const NAME: &'static str;
    /// Whether its terms are fencing tokens: never two leaders under the same one.
    const TERMS_ARE_TOKENS: bool;

    /// The machine at its start.
    fn start(config: Config, start: Start<Self::Saved>, now: Moment) -> Self;

    /// Goes one step. Nothing of the machine's state may be shown to others before the effects are carried out.
    fn step(&mut self, now: Moment, input: Input<Self::Message>) -> Effects<Self::Saved, Self::Message>;

    /// When the machine wants the next [`Input::Tick`], if nothing happens before.
    fn deadline(&self) -> Moment;

    /// What the machine knows, for people and for checks.
    fn view(&self, now: Moment) -> View;

    /// The list of members that counts here; after a restart it may be newer than that of the [`Config`].
    fn group(&self) -> &Group;

    /// The kind of a message, in the paper's word.
    fn kind(message: &Self::Message) -> &'static str;

    /// Where members that have forgotten recover it from the others: how far that is, while it has forgotten. For people and for checks.
    fn memory_recovery(&self) -> Option<&MemoryRecovery> {
        None
    }

    /// What a message has to do with memory recovery. For people.
    fn recovery_role(_message: &Self::Message) -> RecoveryRole {
        RecoveryRole::Apart
    }

    /// Where members that have forgotten recover it from the others: how the group was founded, as far as that was kept. For checks.
    fn founding(_saved: &Self::Saved) -> Option<&Founding> {
        None
    }
}

/// What a message has to do with memory recovery, and so what it says of its sender's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryRole {
    /// Only who has forgotten asks.
    Asks,
    /// Anybody answers.
    Answers,
    /// Only who remembers says anything else.
    Apart,
}

/// What a member knows of the election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct View {
    /// What it does.
    pub role: Role,
    /// The highest term it has seen.
    pub term: Term,
    /// The leader, as far as this member knows; itself only while it may act.
    pub leader: Option<NodeId>,
    /// If it leads: when its work must have stopped. `None` for a leader without a lease.
    pub until: Option<Moment>,
    /// It led, lost its majority, and has heard of no other leader since: it may answer reads, with what it last knew.
    pub read_only: bool,
}

impl View {
    /// Whether its work may go on at that moment.
    pub fn leads(&self, now: Moment) -> bool {
        self.role == Role::Leader && self.until.is_none_or(|until| now < until)
    }
}

/// What a member does in the election.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// It has just started and does not take part yet.
    Waiting,
    /// It follows whom it hears.
    Follower,
    /// It stands for election.
    Candidate,
    /// It leads.
    Leader,
}
