//! What people and programs ask of a running member, and the socket in its folder on which they do.
//!
//! Assumes that who can enter the member's folder may ask for anything. Guarantees that at most a few ask at once, the others waiting outside, each with
//! a bound on what it says and on its time. Does not guarantee an answer while the disk hangs.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_election::Moment;
use baton_peer::{GroupStamp, Member, NodeId, Role, Term};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use crate::transport::Counters;

/// Those who ask at once in the folder, and questions that wait; who asks from elsewhere while so many do is told to come again.
const WAITING_MAX: usize = 64;
/// For a whole exchange.
const EXCHANGE_MAX: Duration = Duration::from_secs(10);
/// How long a member beside us is waited for that is asked how it is: it answers at once, unless it is stopped or its disk hangs.
const STATUS_MAX: Duration = Duration::from_millis(1_500);
/// The longest question and the longest answer: 127 members with long addresses fit.
const MAX_BYTES: u64 = 256 * 1024;
/// The name of the socket.
const SOCKET: &str = "control";

/// A question or a wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum ControlRequest {
    /// How are things?
    Status,
    /// Hand over, to that member or to the best.
    Transfer {
        /// The successor; without one the leader chooses the best.
        to: Option<NodeId>,
    },
    /// Change the members by one.
    Members {
        /// The member that comes, changes or goes.
        change: Change,
    },
}

/// A change of the members by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// This one joins, or is another kind of member from here on.
    Add {
        /// What kind of member.
        member: Member,
        /// Where it is; nothing if that is known or it will tell.
        address: Option<String>,
    },
    /// This one leaves.
    Remove {
        /// The member that leaves.
        id: NodeId,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "with", rename_all = "kebab-case")]
pub enum ControlReply {
    /// So are things.
    Status(Box<Status>),
    /// It is begun.
    Begun,
    /// It is begun, and this should be known of it.
    Warned(String),
    /// It is not done, and why.
    Refused(String),
    /// It is not done: whoever asks may only ask how things are.
    NotAllowed,
    /// It is not done: this file says who the members are.
    InFile(String),
}

/// How things are with one member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The member.
    pub id: NodeId,
    /// The group.
    pub group: String,
    /// The algorithm.
    pub algorithm: String,
    /// Whether its terms are fencing tokens.
    pub terms_are_tokens: bool,
    /// What the member does.
    pub role: MemberRole,
    /// The highest term that it has seen.
    pub term: Term,
    /// The leader, as far as this member knows.
    pub leader: Option<NodeId>,
    /// Whether it leads, and its work may go on.
    pub leads: bool,
    /// If it leads: how long its lease lasts, in milliseconds. None without a lease.
    pub lease_left_ms: Option<u64>,
    /// It led, has lost its majority, and has heard of no other leader since.
    pub read_only: bool,
    /// Why nobody is elected, for people; none while somebody is, or while there may soon be.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Since when it has run, in milliseconds.
    pub up_ms: u64,
    /// How it came to be: founded, restarted, forgotten.
    pub start: String,
    /// Which list of members counts here.
    pub stamp: GroupStamp,
    /// The members.
    pub members: Vec<MemberStatus>,
    /// What the network has seen.
    pub network: Counters,
    /// What the machine was given and did.
    pub machine: MachineCounters,
}

/// What a member does, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MemberRole {
    /// Has just started and does not take part yet.
    Waiting,
    /// Follows whom it hears.
    Follower,
    /// Stands for election.
    Candidate,
    /// Leads.
    Leader,
}

impl From<Role> for MemberRole {
    fn from(role: Role) -> MemberRole {
        match role {
            Role::Waiting => MemberRole::Waiting,
            Role::Follower => MemberRole::Follower,
            Role::Candidate => MemberRole::Candidate,
            Role::Leader => MemberRole::Leader,
        }
    }
}

/// One member as another sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// The member's number.
    pub id: NodeId,
    /// It votes and never leads.
    pub witness: bool,
    /// Of several, the highest shall lead.
    pub priority: u8,
    /// Where it is, if that is known; the member itself has none.
    pub address: Option<String>,
    /// Whether it can be sent to; the member itself can.
    pub connected: bool,
    /// It is asked again and again, and has not answered for so long, in milliseconds; none if it answers, or is asked nothing.
    #[serde(default)]
    pub silent_ms: Option<u64>,
    /// It has lately asked what it had forgotten: it does not vote.
    #[serde(default)]
    pub forgetful: bool,
}

/// What a machine was given and did. Numbers only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCounters {
    /// Steps.
    pub steps: u64,
    /// Messages that it said.
    pub sent: u64,
    /// Messages that it was given.
    pub received: u64,
    /// Messages that were none.
    pub malformed: u64,
    /// Times that something was kept on disk.
    pub kept: u64,
    /// Times that it began to lead.
    pub led: u64,
}

/// What is left of a lease, in whole milliseconds.
pub(crate) fn left_ms(until: Option<Moment>, now: Moment) -> Option<u64> {
    until.map(|until| until.since(now).as_millis())
}

/// Where questions are put to the task that owns the machine.
#[derive(Clone, Debug)]
pub struct ControlHandle(mpsc::Sender<ControlCall>);

pub(crate) type ControlCall = (ControlRequest, oneshot::Sender<ControlReply>);

/// A door and what is behind it.
pub(crate) fn control_channel() -> (ControlHandle, mpsc::Receiver<ControlCall>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (ControlHandle(sender), receiver)
}

impl ControlHandle {
    /// Asks, and waits for the answer.
    pub async fn ask(&self, ask: ControlRequest) -> ControlReply {
        let (sender, answer) = oneshot::channel();
        if self.0.try_send((ask, sender)).is_err() {
            return ControlReply::Refused("too many ask at once, or the member is leaving".to_string());
        }
        answer.await.unwrap_or_else(|_| ControlReply::Refused("the member is leaving".to_string()))
    }
}

/// The socket of a member's folder. A path below `/proc/self/fd` reaches it however long the folder's name is.
struct SocketPath {
    _folder: File,
    path: PathBuf,
}

impl SocketPath {
    fn of(folder: &Path) -> io::Result<SocketPath> {
        use std::os::fd::AsRawFd;
        let folder = File::open(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()));
        Ok(SocketPath { _folder: folder, path })
    }
}

/// Answers on the socket of a member's folder, whose lock the caller holds, for ever.
pub(crate) async fn serve(folder: &Path, control_handle: ControlHandle) -> io::Result<()> {
    let place = SocketPath::of(folder)?;
    let _ = std::fs::remove_file(&place.path);
    let listener = UnixListener::bind(&place.path)?;
    // The folder may be older than this member, and open to others.
    std::fs::set_permissions(&place.path, std::fs::Permissions::from_mode(0o600))?;
    let places = Arc::new(Semaphore::new(WAITING_MAX));
    loop {
        // Whoever finds no place waits in the kernel's line, which is bounded too.
        let place = Arc::clone(&places).acquire_owned().await.map_err(io::Error::other)?;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let control_handle = control_handle.clone();
        tokio::spawn(async move {
            let _ = timeout(EXCHANGE_MAX, answer(stream, control_handle)).await;
            drop(place);
        });
    }
}

async fn answer(stream: UnixStream, control_handle: ControlHandle) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut question = Vec::new();
    read.take(MAX_BYTES).read_to_end(&mut question).await?;
    let answer = match serde_json::from_slice(&question) {
        Ok(ask) => control_handle.ask(ask).await,
        Err(error) => ControlReply::Refused(format!("this is no question: {error}")),
    };
    write.write_all(&serde_json::to_vec(&answer)?).await?;
    write.shutdown().await
}

/// Asks the member whose folder this is. One that is there and does not answer in time gives [`io::ErrorKind::TimedOut`].
pub async fn ask_folder(folder: &Path, ask: &ControlRequest) -> io::Result<ControlReply> {
    let exchange = async {
        let place = SocketPath::of(folder)?;
        let mut stream = UnixStream::connect(&place.path).await?;
        stream.write_all(&serde_json::to_vec(ask)?).await?;
        stream.shutdown().await?;
        let mut answer = Vec::new();
        stream.take(MAX_BYTES).read_to_end(&mut answer).await?;
        Ok(serde_json::from_slice(&answer)?)
    };
    let patience = match ask {
        ControlRequest::Status => STATUS_MAX,
        ControlRequest::Transfer { .. } | ControlRequest::Members { .. } => EXCHANGE_MAX,
    };
    timeout(patience, exchange).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member that refuses everything, in a folder of its own.
    async fn refusing(folder: &Path) -> tokio::task::JoinHandle<io::Result<()>> {
        let (control_handle, mut questions) = control_channel();
        tokio::spawn(async move {
            while let Some((_, answer)) = questions.recv().await {
                let _ = answer.send(ControlReply::Refused("as always".to_string()));
            }
        });
        let folder = folder.to_path_buf();
        tokio::spawn(async move { serve(&folder, control_handle).await })
    }

    #[tokio::test]
    async fn a_crowd_in_the_folder_waits_outside_and_is_served_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let serving = refusing(folder.path()).await;
        while ask_folder(folder.path(), &ControlRequest::Status).await.is_err() {
            tokio::task::yield_now().await;
        }
        let place = SocketPath::of(folder.path()).unwrap();
        let mut crowd = Vec::new();
        // They ask nothing, and keep their places.
        for _ in 0..WAITING_MAX {
            crowd.push(UnixStream::connect(&place.path).await.unwrap());
        }
        let asks = ask_folder(folder.path(), &ControlRequest::Status);
        tokio::pin!(asks);
        let early = timeout(Duration::from_millis(200), &mut asks).await;
        assert!(early.is_err(), "there is no place yet: {early:?}");
        drop(crowd);
        assert_eq!(asks.await.unwrap(), ControlReply::Refused("as always".to_string()));
        serving.abort();
    }
}
