//! The door: whoever dials is greeted, and what members send is passed on.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_peer::NodeId;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::dial::BUFFER_BYTES;
use super::frame::FrameError;
use super::greeting::{self, Caller, GreetError, GreetedPeer};
use super::line::{LineError, Reader};
use super::{IncomingConnection, Shared, count, lock, requests};
use crate::tally::Source;
use crate::transport::Received;

/// Those who have not shown yet who they are. Whoever comes then takes the place of the one who has taken longest, of those at the address from
/// which most have come: a member shows it at once, and a crowd that says nothing keeps nobody out, least of all whoever is elsewhere.
const STRANGERS_MAX: usize = 64;
/// Of those, from one address.
const STRANGERS_AT_ONE: usize = 16;
/// How long a stranger may take, however slowly it speaks.
const GREETING_MAX: Duration = Duration::from_secs(5);
/// So many times a process that was cut off may come back as another, before it is said that there are two.
const CLASHES: u32 = 3;
/// Two that run disturb each other at least so often; what lasts longer was no clash.
const CLASH_WITHIN: Duration = Duration::from_secs(60);
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
    let mut strangers = UngreetedConnections::default();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(BREATHER).await;
            continue;
        };
        if strangers.make_room(&Source::at(from.ip())) {
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
                    Caller::Asker => requests::answer(&shared, guest.may_change, reader, writer).await,
                },
                Err(error) => shared.heed(&error, from),
            }
        });
        strangers.0.push_back((Source::at(from.ip()), greeting.abort_handle()));
    }
}

/// Those who have not shown yet who they are, who came first at the front.
#[derive(Default)]
struct UngreetedConnections(VecDeque<(Source, AbortHandle)>);

impl UngreetedConnections {
    /// Makes room for one more from there; says whether another had to go.
    fn make_room(&mut self, from: &Source) -> bool {
        self.0.retain(|(_, stranger)| !stranger.is_finished());
        let there = |place: &Source| self.0.iter().filter(|(source, _)| source == place).count();
        let crowded = if there(from) >= STRANGERS_AT_ONE {
            Some(from.clone())
        } else if self.0.len() >= STRANGERS_MAX {
            // Of two that are alike, the one whose first came first.
            let places = self.0.iter().rev().map(|(source, _)| source);
            places.max_by_key(|place| there(place)).cloned()
        } else {
            None
        };
        let slowest = crowded.and_then(|place| self.0.iter().position(|(source, _)| *source == place));
        match slowest.and_then(|at| self.0.remove(at)) {
            Some((_, slowest)) => {
                slowest.abort();
                true
            }
            None => false,
        }
    }
}

/// How often two processes have come between each other, once another connection takes the place of this one.
fn clashes_after(before: u32, is_clash: bool, stood: Duration) -> u32 {
    let before = if stood < CLASH_WITHIN { before } else { 0 };
    before.saturating_add(u32::from(is_clash))
}

async fn greet(
    shared: &Shared,
    stream: TcpStream,
) -> Result<(GreetedPeer, Reader, super::line::Writer), GreetError> {
    stream.set_nodelay(true)?;
    let late = |_| GreetError::from(io::Error::from(io::ErrorKind::TimedOut));
    timeout(GREETING_MAX, greeting::accept(Box::new(stream), &shared.me, shared.id)).await.map_err(late)?
}

impl Shared {
    /// Reads what a member sends. Of two connections of one member the newer counts: the older may have been cut.
    fn welcome(self: &Arc<Self>, id: NodeId, guest: &GreetedPeer, from: SocketAddr, reader: Reader) {
        if let Some(address) = told_address(&guest.advertise, from) {
            self.connect(id, &address, true);
        }
        let task = tokio::spawn(Arc::clone(self).listen_to(id, reader)).abort_handle();
        let mut callers = lock(&self.callers);
        let mut line = IncomingConnection { life: guest.life, clashes: 0, since: Instant::now(), task };
        if let Some(older) = callers.get(&id) {
            // A process that ended closed its connection; one that was cut off left it open, once.
            let is_clash = older.life != guest.life && !older.task.is_finished();
            line.clashes = clashes_after(older.clashes, is_clash, older.since.elapsed());
            older.task.abort();
        }
        if line.clashes >= CLASHES {
            let text = "only one may run, or both may vote";
            self.complaints
                .tell(Source::Member(id), format!("two processes say that they are member {id}: {text}"));
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
        let tell = |text| self.complaints.tell(Source::at(from.ip()), text);
        match error {
            // It went away, or said nothing: a look at the port does that too.
            GreetError::Frame(FrameError::Io(_)) | GreetError::NoChance => {}
            GreetError::Frame(FrameError::Oversized(_)) => count(&self.tally.oversized),
            GreetError::Frame(FrameError::Foreign) | GreetError::Nonsense => count(&self.tally.malformed),
            GreetError::Frame(FrameError::Version(_)) => {
                count(&self.tally.malformed);
                tell(format!("{who}: {error}"));
            }
            GreetError::Tls(_) | GreetError::Unproven | GreetError::Refused(_) => {
                count(&self.tally.refused);
                tell(format!("{who} was not let in: {error}"));
            }
            GreetError::Mismatch(_) => {
                count(&self.tally.refused);
                tell(format!("{who} was not let in, although it is known: {error}"));
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
    fn a_process_that_comes_back_now_and_then_is_not_two() {
        let (soon, late) = (Duration::from_secs(2), Duration::from_secs(3_600));
        let after = |stood| (0..10).fold(0, |before, _| clashes_after(before, true, stood));
        assert!(after(soon) >= CLASHES, "each comes between the other");
        assert_eq!(after(late), 1, "cut off now and then");
        assert_eq!(clashes_after(2, false, soon), 2);
        assert_eq!(clashes_after(2, false, late), 0, "it has stood");
    }

    #[tokio::test]
    async fn a_crowd_at_one_address_makes_room_itself() {
        let waits = || tokio::spawn(std::future::pending::<()>()).abort_handle();
        let at = |last: u8| Source::at([10, 0, 0, last].into());
        let mut strangers = UngreetedConnections::default();
        strangers.0.push_back((at(1), waits()));
        for _ in 0..200 {
            strangers.make_room(&at(66));
            strangers.0.push_back((at(66), waits()));
        }
        assert_eq!(strangers.0.len(), 1 + STRANGERS_AT_ONE);
        assert!(strangers.0[0].0 == at(1), "who is elsewhere was not disturbed");
        for last in 100..162 {
            strangers.make_room(&at(last));
            strangers.0.push_back((at(last), waits()));
        }
        assert_eq!(strangers.0.len(), STRANGERS_MAX);
        let left = strangers.0.iter().filter(|(source, _)| *source == at(66)).count();
        assert!(left == 1 && strangers.0[0].0 == at(1), "the crowded place gives way first: {left}");
    }

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
