//! The door: whoever dials is greeted, and what members send is passed on.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_peer::NodeId;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::dial::BUFFER_BYTES;
use super::frame::FrameError;
use super::greeting::{self, Caller, GreetError, Guest};
use super::line::{LineError, Reader};
use super::{Line, Shared, ask, count, lock};
use crate::transport::Received;

/// Those who have not shown yet who they are. Whoever comes then takes the place of the one who has taken longest: a member
/// shows it at once, and a crowd that says nothing keeps nobody out.
const STRANGERS_MAX: usize = 64;
/// How long a stranger may take, however slowly it speaks.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// So many times a process that was cut off may come back as another, before it is said that there are two.
const CLASHES: u32 = 3;
/// After a failure to take a connection, for instance without descriptors.
const BREATHER: Duration = Duration::from_millis(50);

pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // After a crash the address must be usable at once.
    socket.set_reuseaddr(true)?;
    socket.set_recv_buffer_size(BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(256)
}

/// Lets everybody in whom it believes, for ever.
pub(super) async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    let mut strangers: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(BREATHER).await;
            continue;
        };
        strangers.retain(|stranger| !stranger.is_finished());
        if strangers.len() >= STRANGERS_MAX
            && let Some(slowest) = strangers.pop_front()
        {
            slowest.abort();
            count(&shared.tally.refused);
        }
        let shared = Arc::clone(&shared);
        let greeting = tokio::spawn(async move {
            match greet(&shared, stream).await {
                Ok((guest, reader, writer)) => match guest.caller {
                    Caller::Member(id) => {
                        drop(writer);
                        shared.welcome(id, &guest, from, reader);
                    }
                    Caller::Asker => ask::answer(&shared, guest.may_change, reader, writer).await,
                },
                Err(error) => shared.heed(&error, from),
            }
        });
        strangers.push_back(greeting.abort_handle());
    }
}

async fn greet(
    shared: &Shared,
    stream: TcpStream,
) -> Result<(Guest, Reader, super::line::Writer), GreetError> {
    stream.set_nodelay(true)?;
    let late = |_| GreetError::from(io::Error::from(io::ErrorKind::TimedOut));
    timeout(GREETING_MAX, greeting::accept(Box::new(stream), &shared.me, shared.id)).await.map_err(late)?
}

impl Shared {
    /// Reads what a member sends. Of two connections of one member the newer counts: the older may have been cut.
    fn welcome(self: &Arc<Self>, id: NodeId, guest: &Guest, from: SocketAddr, reader: Reader) {
        if let Some(address) = told_address(&guest.advertise, from) {
            self.connect(id, &address, true);
        }
        let task = tokio::spawn(Arc::clone(self).listen_to(id, reader)).abort_handle();
        let mut callers = lock(&self.callers);
        let mut line = Line { life: guest.life, clashes: 0, task };
        if let Some(older) = callers.get(&id) {
            // A process that ended closed its connection; one that was cut off left it open, once.
            let clash = older.life != guest.life && !older.task.is_finished();
            line.clashes = older.clashes + u32::from(clash);
            older.task.abort();
        }
        if line.clashes == CLASHES {
            self.complaints.tell(format!(
                "two processes say that they are member {id}: only one may run, or both may vote"
            ));
        }
        callers.insert(id, line);
    }

    async fn listen_to(self: Arc<Self>, id: NodeId, mut reader: Reader) {
        loop {
            let content = match timeout(self.patience.silence, reader.receive()).await {
                Ok(Ok(content)) => content,
                Ok(Err(LineError::Frame(FrameError::Oversized(_)))) => return count(&self.tally.oversized),
                Ok(Err(LineError::Unsealed)) => return count(&self.tally.refused),
                Ok(Err(LineError::Frame(_))) | Err(_) => return,
            };
            if content.is_empty() {
                continue;
            }
            match self.inbox.try_send(Received { from: id, bytes: content }) {
                Ok(()) => count(&self.tally.received),
                Err(_) => count(&self.tally.dropped),
            }
        }
    }

    fn heed(&self, error: &GreetError, from: SocketAddr) {
        let who = format!("somebody at {}", from.ip());
        match error {
            // It went away, or said nothing: a look at the port does that too.
            GreetError::Frame(FrameError::Io(_)) | GreetError::NoChance => {}
            GreetError::Frame(FrameError::Oversized(_)) => count(&self.tally.oversized),
            GreetError::Frame(FrameError::Foreign) | GreetError::Nonsense => count(&self.tally.malformed),
            GreetError::Frame(FrameError::Version(_)) => {
                count(&self.tally.malformed);
                self.complaints.tell(format!("{who}: {error}"));
            }
            GreetError::Tls(_) | GreetError::Unproven | GreetError::Refused(_) => {
                count(&self.tally.refused);
                self.complaints.tell(format!("{who} was not let in: {error}"));
            }
            GreetError::Mismatch(_) => {
                count(&self.tally.refused);
                self.complaints.tell(format!("{who} was not let in, although it is known: {error}"));
            }
        }
    }
}

/// Where a member says that it can be dialled. Without a host, it is where it dialled from.
fn told_address(advertise: &str, from: SocketAddr) -> Option<String> {
    match advertise.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => {
            Some(SocketAddr::new(from.ip(), address.port()).to_string())
        }
        Ok(address) => Some(address.to_string()),
        Err(_) if is_host_and_port(advertise) => Some(advertise.to_string()),
        Err(_) => None,
    }
}

/// Whether a text is a name and a port.
pub(crate) fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !host.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_host_is_where_it_dialled_from() {
        let from = "10.0.0.7:50000".parse().unwrap();
        let told = |advertise| told_address(advertise, from);
        assert_eq!(told("0.0.0.0:7000").as_deref(), Some("10.0.0.7:7000"));
        assert_eq!(told("10.1.1.1:7000").as_deref(), Some("10.1.1.1:7000"));
        assert_eq!(told("node-2.example:7000").as_deref(), Some("node-2.example:7000"));
        for odd in ["", "node", "node:0", "node:x", ":7000", "a b:7", "x/y:80"] {
            assert_eq!(told(odd), None, "{odd}");
        }
    }
}
