//! The way out to one member: dials, greets, sends what waits, and begins again when it fails.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_peer::{NodeId, Random};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval_at, timeout};

use super::frame::FrameError;
use super::greeting::{self, GreetError, Trust};
use super::line::{Reader, Writer};
use super::{Shared, count};
use crate::queue::Queue;
use crate::tally::Source;

/// What the kernel holds of a connection: small, so that a member that stood still is not told old stories for long.
pub(super) const BUFFER_BYTES: u32 = 128 * 1024;
/// A receiver that takes nothing for so long is dialled anew.
const STUCK: Duration = Duration::from_secs(10);

pub(super) struct Dialer {
    pub(super) shared: Arc<Shared>,
    pub(super) to: NodeId,
    pub(super) address: String,
    pub(super) queue: Arc<Queue>,
    pub(super) connected: Arc<AtomicBool>,
    /// As [`super::Link::lookup`].
    pub(super) lookup: Arc<Semaphore>,
}

impl Dialer {
    /// Keeps a connection, for ever.
    pub(super) async fn keep(self) {
        let patience = self.shared.patience;
        let mut random = Random::seeded(seed());
        let mut wait = patience.retry_first;
        let mut reached = Instant::now();
        loop {
            match self.connect().await {
                Ok((mut reader, mut writer)) => {
                    wait = patience.retry_first;
                    count(&self.shared.tally.connections);
                    self.shared.complaints.forgive(&Source::Member(self.to));
                    self.connected.store(true, Ordering::Release);
                    self.send(&mut reader, &mut writer).await;
                    self.connected.store(false, Ordering::Release);
                    self.shared.wake_flusher();
                    reached = Instant::now();
                }
                Err(error) => self.heed(&error),
            }
            if reached.elapsed() >= patience.forget {
                self.shared.forget(self.to, &self.address);
            }
            // Between half of it and all of it, so that not everybody dials at once after an outage.
            let most = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
            tokio::time::sleep(Duration::from_micros(random.between(most / 2, most))).await;
            wait = (wait * 2).min(patience.retry_most);
        }
    }

    async fn connect(&self) -> Result<(Reader, Writer), GreetError> {
        let late = || GreetError::from(io::Error::from(io::ErrorKind::TimedOut));
        let limit = self.shared.patience.connect;
        let stream = timeout(limit, self.open()).await.map_err(|_| late())??;
        let greeted = greeting::dial(Box::new(stream), &self.shared.me, self.to);
        timeout(limit, greeted).await.map_err(|_| late())?
    }

    async fn open(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in self.addresses().await? {
            if matches!(self.shared.me.trust, Trust::Loopback) && !address.ip().is_loopback() {
                last = io::Error::new(io::ErrorKind::PermissionDenied, "it is not a loopback address");
                continue;
            }
            match self.open_at(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Where the name leads. A lookup cannot be called off: what it was given is given back only when it ends.
    async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = self.address.parse() {
            return Ok(vec![address]);
        }
        let closed = |_| io::Error::other("the transport is closed");
        let own = Arc::clone(&self.lookup).acquire_owned().await.map_err(closed)?;
        let shared = Arc::clone(&self.shared.lookups).acquire_owned().await.map_err(closed)?;
        let name = self.address.clone();
        let found = tokio::task::spawn_blocking(move || {
            let _held = (own, shared);
            name.to_socket_addrs().map(|found| found.take(8).collect())
        });
        found.await.map_err(io::Error::other)?
    }

    async fn open_at(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_send_buffer_size(BUFFER_BYTES)?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        // After a cut, the kernel would wait longer and longer before it tries again.
        let unacknowledged = self.shared.patience.connect.as_millis();
        rustix::net::sockopt::set_tcp_user_timeout(
            &stream,
            u32::try_from(unacknowledged).unwrap_or(u32::MAX),
        )?;
        Ok(stream)
    }

    /// Sends until the connection fails.
    async fn send(&self, reader: &mut Reader, writer: &mut Writer) {
        let ping = self.shared.patience.ping;
        let mut pings = interval_at(Instant::now() + ping, ping);
        loop {
            let message = tokio::select! {
                message = self.queue.pop() => message,
                _ = pings.tick() => Vec::new(),
                () = reader.closed() => return,
            };
            if !matches!(timeout(STUCK, writer.send(&message)).await, Ok(Ok(()))) {
                return;
            }
            if !message.is_empty() {
                count(&self.shared.tally.sent);
            }
            self.queue.sent();
            self.shared.wake_flusher();
        }
    }

    fn named(&self) -> String {
        format!("member {} at {}", self.to, self.address)
    }

    /// A member that is away is nothing to tell; one that will never answer is.
    fn heed(&self, error: &GreetError) {
        let tally = &self.shared.tally;
        match error {
            GreetError::Frame(FrameError::Io(failed)) => {
                if failed.kind() == io::ErrorKind::PermissionDenied {
                    count(&tally.refused);
                    let hint = "give all members a --secret-file, or certificates";
                    self.tell(format!("{}: {error}; {hint}", self.named()));
                }
                return;
            }
            GreetError::Frame(FrameError::Oversized(_)) => count(&tally.oversized),
            GreetError::Frame(FrameError::Foreign | FrameError::Version(_)) | GreetError::Nonsense => {
                count(&tally.malformed);
            }
            GreetError::Tls(_) | GreetError::Unproven | GreetError::Mismatch(_) | GreetError::Refused(_) => {
                count(&tally.refused)
            }
            GreetError::NoChance => {}
        }
        self.tell(format!("{}: {error}", self.named()));
    }

    fn tell(&self, text: String) {
        self.shared.complaints.tell(Source::Member(self.to), text);
    }
}

/// Different every time; no secret.
pub(crate) fn seed() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}
