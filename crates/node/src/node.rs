//! A member of a group: what it is given, what it tells, and how it is talked to.

use std::path::PathBuf;

use baton_election::Moment;
use baton_peer::{Config, Group, LossCause, Machine, NodeId, Start, Term};
use baton_store::boot;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::control::{self, ControlCall, ControlHandle};
use crate::shell::Shell;
use crate::state::{Folder, Keeper, Owner, StateError};
use crate::transport::{Peer, Transport};

/// What people are told and have not read yet; more is dropped.
const EVENTS_MAX: usize = 256;

/// Who a member is, and where it keeps its memory.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The machine's configuration.
    pub config: Config,
    /// The group's name.
    pub group: String,
    /// Where its memory is.
    pub folder: PathBuf,
    /// The group is being founded, and this member has surely never spoken.
    pub found: bool,
    /// Where the others are.
    pub peers: Vec<Peer>,
    /// The file of members, read again and again.
    pub members_file: Option<PathBuf>,
    /// This member must never lead, whatever the list of members says.
    pub never_leads: bool,
}

/// Why a member does not run any more.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Its memory. It must not speak any more.
    #[error(transparent)]
    State(#[from] StateError),
    /// Its network.
    #[error("the network has failed for good")]
    Network,
    /// Its folder's socket.
    #[error("cannot answer questions in {}: {error}", folder.display())]
    Control {
        /// Which folder.
        folder: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
}

/// A leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadershipSnapshot {
    /// Counts the leaderships of this process.
    pub serial: u64,
    /// The fencing token, where terms are tokens.
    pub term: Term,
    /// When the work must have stopped; none without a lease.
    pub until: Option<Moment>,
    /// The work shall stop, since the leadership is to be handed over.
    pub stop: bool,
}

/// What whoever does the work must know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeadershipStatus {
    /// The leadership, if there is one.
    pub current: Option<LeadershipSnapshot>,
    /// How the last one ended, and its serial number.
    pub ended: Option<(u64, LossCause)>,
}

/// What people may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another member leads.
    Follows {
        /// The member that leads.
        leader: NodeId,
        /// In which term.
        term: Term,
    },
    /// Nobody is known to lead.
    Leaderless {
        /// The highest term seen.
        term: Term,
    },
    /// The members are others.
    Members(Group),
    /// What the members' file wants is not done, or the file cannot be used.
    Unwanted(String),
    /// The members' file could not be used, and can be again.
    Usable,
    /// The list that counts is the one that was kept, and the member was started with another.
    OtherList {
        /// The one that was kept.
        counts: Vec<NodeId>,
        /// The other one.
        given: Vec<NodeId>,
    },
    /// No leader is known, and why, as far as this member can tell.
    Stuck(String),
    /// A hand-over that somebody asked for came to nothing.
    NotHandedOver {
        /// To whom; none for the best.
        to: Option<NodeId>,
        /// The reason, for people.
        why: String,
    },
    /// The transport has something to say.
    Network(String),
}

/// What the one who does the work says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkMessage {
    Stopped { serial: u64 },
    Resign { serial: u64 },
    Leave,
}

/// How the one who does the work talks to the shell.
#[derive(Clone, Debug)]
pub struct WorkHandle(mpsc::Sender<WorkMessage>);

impl WorkHandle {
    /// Nothing of the work is left, as [`LeadershipSnapshot::stop`] asked.
    pub async fn stopped(&self, serial: u64) {
        let _ = self.0.send(WorkMessage::Stopped { serial }).await;
    }

    /// Nothing of the work is left, although nobody asked for that, and it shall not begin again under this leadership: the
    /// same token would stand for two runs of it. The leadership ends, by a hand-over if somebody can take it.
    pub async fn resign(&self, serial: u64) {
        let _ = self.0.send(WorkMessage::Resign { serial }).await;
    }

    /// This member goes: nothing of the work is left. The task ends once the leadership is handed over, or soon.
    pub async fn leave(&self) {
        let _ = self.0.send(WorkMessage::Leave).await;
    }
}

/// A member that runs.
pub struct RunningNode {
    /// The leadership.
    pub leadership: watch::Receiver<LeadershipStatus>,
    /// What people may want to know.
    pub events: mpsc::Receiver<Event>,
    /// How to talk to it.
    pub work: WorkHandle,
    /// The task; it ends when the member leaves, or fails.
    pub task: JoinHandle<Result<(), NodeError>>,
}

/// What is behind a [`ControlHandle`].
#[derive(Debug)]
pub struct ControlRequests(mpsc::Receiver<ControlCall>);

/// A door for questions: the one end for transports, the other for [`Node::run`].
pub fn control_channel() -> (ControlHandle, ControlRequests) {
    let (control_handle, questions) = control::control_channel();
    (control_handle, ControlRequests(questions))
}

/// A member that has its memory and does not run yet.
pub struct Node<M: Machine> {
    options: NodeOptions,
    keeper: Keeper<M::Saved>,
    start: Start<M::Saved>,
}

impl<M: Machine> Node<M> {
    /// Takes the folder, and reads what was kept.
    pub fn open(options: NodeOptions) -> Result<Node<M>, NodeError> {
        let owner =
            Owner { algorithm: M::NAME.to_string(), group: options.group.clone(), id: options.config.id };
        let folder = Folder::take(&options.folder, owner)?;
        let start = match folder.kept()? {
            Some(saved) => Start::Restarted(saved),
            None if options.found => Start::Founded,
            None => Start::Forgotten,
        };
        Ok(Node { options, keeper: Keeper::start(folder)?, start })
    }

    /// How it starts, in a few words.
    pub fn start_text(&self) -> &'static str {
        match &self.start {
            Start::Founded => "founds its group",
            Start::Restarted(_) => "with its memory",
            Start::Forgotten => "new, or without its memory",
        }
    }

    /// The list of members that counts: the one that was kept, if there is one.
    pub fn group(&self) -> Group {
        M::start(self.options.config.clone(), self.start.clone(), boot::now()).group().clone()
    }

    /// Runs the member on this transport. `questions` are those of the door that the transport has.
    pub fn run(
        self,
        transport: Box<dyn Transport>,
        control_handle: ControlHandle,
        questions: ControlRequests,
    ) -> RunningNode {
        let (leadership_sender, leadership) = watch::channel(LeadershipStatus::default());
        let (event_sender, events) = mpsc::channel(EVENTS_MAX);
        let (work_sender, words) = mpsc::channel(16);
        let shell = Shell::<M>::new(
            self.options,
            self.start,
            self.keeper,
            transport,
            leadership_sender,
            event_sender,
        );
        let task = tokio::spawn(shell.run(control_handle, questions.0, words));
        RunningNode { leadership, events, work: WorkHandle(work_sender), task }
    }
}

pub(crate) fn word<S>(start: &Start<S>) -> &'static str {
    match start {
        Start::Founded => "founded",
        Start::Restarted(_) => "restarted",
        Start::Forgotten => "forgotten",
    }
}
