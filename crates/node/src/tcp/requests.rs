//! Asking a member something from elsewhere, with the same proofs as a member.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use baton_peer::NodeId;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Shared;
use super::count;
use super::frame::FrameError;
use super::greeting::{self, Caller, GreetError, Greeter, GroupSettings, Refusal, Trust};
use super::line::{LineError, Reader, Writer};
use crate::control::{ControlReply, ControlRequest};

/// For a whole exchange.
const EXCHANGE_MAX: Duration = Duration::from_secs(10);
/// The same for a caller that only asks for the status.
const STATUS_MAX: Duration = Duration::from_secs(5);

/// A member elsewhere, to be asked.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Which member.
    pub id: NodeId,
    /// Where it is.
    pub address: String,
    /// Of which group.
    pub group: String,
    /// How it is known, and what we show.
    pub trust: Trust,
}

/// Why there is no answer. What was asked for may have been done all the same, unless it was refused.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody is there, or the answer is lost.
    #[error("cannot reach it: {0}")]
    Unreachable(#[source] io::Error),
    /// It closed the connection before it said a word. Nothing was done.
    #[error("it closed the connection without a word")]
    HungUp,
    /// There is another member of the group. Nothing was done.
    #[error("it is member {0}")]
    Other(NodeId),
    /// It wants a secret or a certificate, and was shown none. Nothing was done.
    #[error("it wants to be shown a secret or a certificate, and we have none")]
    Unshown,
    /// One of the two does not believe the other, or they are of different groups or versions. Nothing was done.
    #[error("{0}")]
    Stranger(String),
    /// The answer made no sense.
    #[error("its answer made no sense")]
    Nonsense,
}

impl Remote {
    /// Asks, and waits for the answer.
    pub async fn ask(&self, ask: &ControlRequest) -> Result<ControlReply, AskError> {
        let late = |_| AskError::Unreachable(io::Error::from(io::ErrorKind::TimedOut));
        let patience = match ask {
            ControlRequest::Status => STATUS_MAX,
            ControlRequest::Transfer { .. } | ControlRequest::Members { .. } => EXCHANGE_MAX,
        };
        timeout(patience, self.exchange(ask)).await.map_err(late)?
    }

    async fn exchange(&self, ask: &ControlRequest) -> Result<ControlReply, AskError> {
        let stream = TcpStream::connect(&self.address).await.map_err(AskError::Unreachable)?;
        let outside = stream.peer_addr().is_ok_and(|address| !address.ip().is_loopback());
        if outside && matches!(self.trust, Trust::Loopback) {
            let text = "it is not at a loopback address, and nobody would have to prove who they are";
            return Err(AskError::Stranger(text.to_string()));
        }
        let terms = GroupSettings::new("", &baton_peer::Timing::LAN);
        let me = Greeter {
            caller: Caller::Asker,
            group: self.group.clone(),
            terms,
            advertise: String::new(),
            life: 0,
            trust: self.trust.clone(),
        };
        let greeted = greeting::dial(Box::new(stream), &me, self.id).await;
        let (mut reader, mut writer) = greeted.map_err(|error| self.ungreeted(error))?;
        let question = serde_json::to_vec(ask).map_err(|_| AskError::Nonsense)?;
        writer.send(&question).await.map_err(AskError::Unreachable)?;
        let answer = reader.receive().await.map_err(|error| match error {
            LineError::Frame(FrameError::Io(error)) => AskError::Unreachable(error),
            LineError::Frame(_) | LineError::Unsealed => AskError::Nonsense,
        })?;
        serde_json::from_slice(&answer).map_err(|_| AskError::Nonsense)
    }

    /// Why the two did not come together.
    fn ungreeted(&self, error: GreetError) -> AskError {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error {
            GreetError::Frame(FrameError::Io(error))
                if matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe) =>
            {
                AskError::HungUp
            }
            GreetError::Frame(FrameError::Io(error)) => AskError::Unreachable(error),
            GreetError::Refused(Refusal::Id(id)) => AskError::Other(id),
            GreetError::Refused(Refusal::Unproven) if matches!(self.trust, Trust::Loopback) => {
                AskError::Unshown
            }
            GreetError::Refused(refusal) => AskError::Stranger(refusal.to_string()),
            other @ (GreetError::Frame(_)
            | GreetError::Tls(_)
            | GreetError::Nonsense
            | GreetError::Unproven
            | GreetError::Mismatch(_)
            | GreetError::NoChance) => AskError::Stranger(other.to_string()),
        }
    }
}

/// Answers one question.
pub(super) async fn answer(shared: &Arc<Shared>, may_change: bool, mut reader: Reader, mut writer: Writer) {
    let exchange = async {
        let Ok(question) = reader.receive().await else { return };
        let Ok(ask) = serde_json::from_slice::<ControlRequest>(&question) else {
            return count(&shared.tally.malformed);
        };
        let answer = match ask {
            ControlRequest::Transfer { .. } | ControlRequest::Members { .. } if !may_change => {
                count(&shared.tally.refused);
                ControlReply::NotAllowed
            }
            ControlRequest::Status | ControlRequest::Transfer { .. } | ControlRequest::Members { .. } => {
                shared.control_handle.ask(ask).await
            }
        };
        if let Ok(bytes) = serde_json::to_vec(&answer) {
            let _ = writer.send(&bytes).await;
        }
    };
    let _ = timeout(EXCHANGE_MAX, exchange).await;
}
