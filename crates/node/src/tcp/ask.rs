//! Asking a member something from elsewhere, with the same proofs as a member.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use baton_peer::NodeId;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Shared;
use super::count;
use super::greeting::{self, Caller, GreetError, Greeter, Terms, Trust};
use super::line::{LineError, Reader, Writer};
use crate::control::{Answer, Ask};

/// For a whole exchange.
const EXCHANGE_MAX: Duration = Duration::from_secs(10);

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
    /// One of the two does not believe the other, or they are of different groups or versions. Nothing was done.
    #[error("{0}")]
    Stranger(String),
    /// The answer made no sense.
    #[error("its answer made no sense")]
    Nonsense,
}

impl Remote {
    /// Asks, and waits for the answer.
    pub async fn ask(&self, ask: &Ask) -> Result<Answer, AskError> {
        let late = |_| AskError::Unreachable(io::Error::from(io::ErrorKind::TimedOut));
        timeout(EXCHANGE_MAX, self.exchange(ask)).await.map_err(late)?
    }

    async fn exchange(&self, ask: &Ask) -> Result<Answer, AskError> {
        let stream = TcpStream::connect(&self.address).await.map_err(AskError::Unreachable)?;
        let outside = stream.peer_addr().is_ok_and(|address| !address.ip().is_loopback());
        if outside && matches!(self.trust, Trust::Loopback) {
            let text = "it is not at a loopback address, and nobody would have to prove who they are";
            return Err(AskError::Stranger(text.to_string()));
        }
        let terms = Terms::new("", &baton_peer::Timing::LAN);
        let me = Greeter {
            caller: Caller::Asker,
            group: self.group.clone(),
            terms,
            advertise: String::new(),
            life: 0,
            trust: self.trust.clone(),
        };
        let (mut reader, mut writer) =
            greeting::dial(Box::new(stream), &me, self.id).await.map_err(|error| match error {
                GreetError::Frame(super::frame::FrameError::Io(error)) => AskError::Unreachable(error),
                other => AskError::Stranger(other.to_string()),
            })?;
        let question = serde_json::to_vec(ask).map_err(|_| AskError::Nonsense)?;
        writer.send(&question).await.map_err(AskError::Unreachable)?;
        let answer = reader.receive().await.map_err(|error| match error {
            LineError::Frame(super::frame::FrameError::Io(error)) => AskError::Unreachable(error),
            LineError::Frame(_) | LineError::Unsealed => AskError::Nonsense,
        })?;
        serde_json::from_slice(&answer).map_err(|_| AskError::Nonsense)
    }
}

/// Answers one question.
pub(super) async fn answer(shared: &Arc<Shared>, may_change: bool, mut reader: Reader, mut writer: Writer) {
    let exchange = async {
        let Ok(question) = reader.receive().await else { return };
        let Ok(ask) = serde_json::from_slice::<Ask>(&question) else {
            return count(&shared.tally.malformed);
        };
        let answer = match ask {
            Ask::Transfer { .. } | Ask::Members { .. } if !may_change => {
                count(&shared.tally.refused);
                Answer::Refused("this certificate may only ask how things are".to_string())
            }
            Ask::Status | Ask::Transfer { .. } | Ask::Members { .. } => shared.door.ask(ask).await,
        };
        if let Ok(bytes) = serde_json::to_vec(&answer) {
            let _ = writer.send(&bytes).await;
        }
    };
    let _ = timeout(EXCHANGE_MAX, exchange).await;
}
