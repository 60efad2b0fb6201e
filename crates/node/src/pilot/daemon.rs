//! The line to the daemon: opened, kept, and opened again when the daemon went.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use baton_peer::NodeId;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, interval, sleep, timeout};

use super::envelope::{DecodeError, DecodedMessage, MessageCodec, SenderPosition};
use super::frame::{Reply, Request};
use super::fresh::{Age, Stamp};
use super::{PEERS_MAX, PeerRoute, PilotAddress, PilotError, Shared, Topic};
use crate::tally::{Source, count, lock};
use crate::transport::Received;

/// For the daemon's answers when the line is opened, and for it to take one frame.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Between two signs of life to each member. Daemons give a path up for a relay when it has been silent one way for about eight
/// seconds.
pub(super) const PING: Duration = Duration::from_secs(2);
/// The first and the longest wait after the line was lost.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MOST: Duration = Duration::from_secs(5);
/// After a daemon would not open its event stream.
const TOPIC_RETRY: Duration = Duration::from_secs(60);
/// Where a node's event stream is.
const EVENT_PORT: u16 = 1_002;

/// An open line whose port is ours.
pub(super) struct DaemonConnection {
    stream: UnixStream,
    /// What was read and is not understood yet.
    read: Vec<u8>,
    /// Which node the daemon is.
    pub(super) own: PilotAddress,
}

#[derive(Deserialize)]
struct Info {
    address: String,
}

impl DaemonConnection {
    /// Asks the daemon who it is, and for the port.
    pub(super) async fn open(socket: &Path, port: u16) -> Result<DaemonConnection, PilotError> {
        let unreachable = |error| PilotError::Unreachable { socket: socket.to_path_buf(), error };
        match timeout(ANSWER_MAX, DaemonConnection::greet(socket, port)).await {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => Err(unreachable(error)),
            Err(_) => Err(unreachable(std::io::ErrorKind::TimedOut.into())),
        }
    }

    async fn greet(socket: &Path, port: u16) -> std::io::Result<Result<DaemonConnection, PilotError>> {
        let (mut stream, mut read) = (UnixStream::connect(socket).await?, Vec::new());
        stream.write_all(&Request::Info.encode()).await?;
        let own = loop {
            match reply(&mut stream, &mut read).await? {
                Reply::Info(json) => {
                    let info = serde_json::from_slice::<Info>(&json).ok();
                    match info.and_then(|info| info.address.parse().ok()) {
                        Some(own) => break own,
                        None => return Ok(Err(PilotError::Daemon("it does not tell its address".into()))),
                    }
                }
                Reply::Error(text) => return Ok(Err(PilotError::Daemon(text))),
                Reply::Bound
                | Reply::Dialled { .. }
                | Reply::Closed { .. }
                | Reply::Datagram { .. }
                | Reply::Unknown => {}
            }
        };
        stream.write_all(&Request::Bind { port }.encode()).await?;
        loop {
            match reply(&mut stream, &mut read).await? {
                Reply::Bound => return Ok(Ok(DaemonConnection { stream, read, own })),
                Reply::Error(text) => return Ok(Err(PilotError::Port(port, text))),
                Reply::Info(_)
                | Reply::Dialled { .. }
                | Reply::Closed { .. }
                | Reply::Datagram { .. }
                | Reply::Unknown => {}
            }
        }
    }
}

async fn reply(stream: &mut (impl AsyncReadExt + Unpin), read: &mut Vec<u8>) -> std::io::Result<Reply> {
    loop {
        let taken = Reply::take(read);
        if let Some(reply) = taken.map_err(|_| std::io::Error::other("the daemon's frame is too long"))? {
            return Ok(reply);
        }
        if stream.read_buf(read).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Keeps the line for ever: with each loss what waited is forgotten, and the daemon is called again.
pub(super) async fn keep(shared: Arc<Shared>, first: DaemonConnection) {
    let mut line = Some(first);
    let mut wait = RETRY_FIRST;
    loop {
        let opened = match line.take() {
            Some(line) => Ok(line),
            None => shared.reopen().await,
        };
        match opened {
            Ok(line) => {
                let began = Instant::now();
                let error = run(&shared, line).await;
                shared.lost();
                shared.complaints.tell(Source::Own, format!("the Pilot daemon has gone: {error}"));
                if began.elapsed() > RETRY_MOST {
                    wait = RETRY_FIRST;
                }
            }
            Err(error) => {
                shared.complaints.tell(Source::Own, format!("the Pilot daemon has not come back: {error}"))
            }
        }
        sleep(wait).await;
        wait = (wait * 2).min(RETRY_MOST);
    }
}

async fn run(shared: &Shared, line: DaemonConnection) -> std::io::Error {
    let DaemonConnection { stream, read, own } = line;
    let (reader, writer) = stream.into_split();
    shared.gained(own);
    tokio::select! {
        error = listen(shared, reader, read) => error,
        error = speak(shared, writer) => error,
        error = breathe(shared) => error,
    }
}

async fn listen(shared: &Shared, mut reader: OwnedReadHalf, mut read: Vec<u8>) -> std::io::Error {
    loop {
        match reply(&mut reader, &mut read).await {
            Ok(reply) => shared.take(reply),
            Err(error) => return error,
        }
    }
}

async fn speak(shared: &Shared, mut writer: OwnedWriteHalf) -> std::io::Error {
    loop {
        let frame = shared.outbox.pop().await;
        match timeout(ANSWER_MAX, writer.write_all(&frame.bytes)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(_) => return std::io::ErrorKind::TimedOut.into(),
        }
        shared.outbox.sent();
        if frame.to.is_some() {
            count(&shared.tally.sent);
        }
        shared.wake_flusher();
    }
}

/// Signs of life, and the topic kept open.
async fn breathe(shared: &Shared) -> std::io::Error {
    let mut ticks = interval(PING);
    loop {
        ticks.tick().await;
        shared.ping();
        shared.open_topic();
    }
}

impl Shared {
    async fn reopen(&self) -> Result<DaemonConnection, PilotError> {
        let line = DaemonConnection::open(&self.socket, self.port).await?;
        self.check_own(line.own)?;
        Ok(line)
    }

    pub(super) fn check_own(&self, actual: PilotAddress) -> Result<(), PilotError> {
        match self.listed {
            Some(listed) if listed != actual => Err(PilotError::Elsewhere { listed, actual }),
            Some(_) | None => Ok(()),
        }
    }

    fn gained(&self, own: PilotAddress) {
        *lock(&self.own) = own;
        *lock(&self.topic) = Topic::Closed { until: Instant::now() };
        count(&self.tally.connections);
        self.complaints.forgive(&Source::Own);
        self.up.store(true, Ordering::Release);
    }

    fn lost(&self) {
        self.up.store(false, Ordering::Release);
        self.outbox.clear();
        lock(&self.heard).clear();
        self.wake_flusher();
    }

    fn ping(&self) {
        let peers: Vec<_> = {
            let mut peers = lock(&self.peers);
            peers.retain(|_, way| !way.is_gone(Instant::now()));
            peers.iter().map(|(id, way)| (*id, way.address)).collect()
        };
        for (id, to) in peers {
            self.ping_at(self.place(id), id, to);
        }
    }

    fn ping_at(&self, place: SenderPosition, id: NodeId, to: PilotAddress) {
        let data = self.speech.ping(place, id);
        self.outbox.push(Some(id), Request::SendTo { to, port: self.port, data: &data }.encode());
    }

    fn open_topic(&self) {
        let mut topic = lock(&self.topic);
        if let Topic::Closed { until } = *topic
            && until <= Instant::now()
        {
            *topic = Topic::Dialled;
            let to = *lock(&self.own);
            self.outbox.push(None, Request::Dial { to, port: EVENT_PORT }.encode());
        }
    }

    /// What the daemon says.
    fn take(&self, reply: Reply) {
        match reply {
            Reply::Datagram { from, port, data } if port == self.port => self.hear(from, &data),
            Reply::Datagram { .. } => count(&self.tally.malformed),
            Reply::Dialled { stream } => {
                *lock(&self.topic) = Topic::Open { stream };
                let data = self.speech.event(&[]);
                self.outbox.push(None, Request::Send { stream, data: &data }.encode());
            }
            Reply::Closed { stream } => {
                let mut topic = lock(&self.topic);
                if *topic == (Topic::Open { stream }) {
                    *topic = Topic::Closed { until: Instant::now() };
                }
            }
            Reply::Error(text) => {
                let mut topic = lock(&self.topic);
                if *topic == Topic::Dialled {
                    *topic = Topic::Closed { until: Instant::now() + TOPIC_RETRY };
                }
                self.complaints.tell(Source::Own, format!("the Pilot daemon says: {text}"));
            }
            Reply::Bound | Reply::Info(_) | Reply::Unknown => {}
        }
    }

    fn hear(&self, from: PilotAddress, data: &[u8]) {
        let peers = lock(&self.peers);
        let known = peers.iter().find(|(_, way)| way.address == from).map(|(id, _)| *id);
        let spoken = match self.speech.read(data) {
            Ok(spoken) => spoken,
            Err(unheard) => {
                drop(peers);
                let counter = match &unheard {
                    DecodeError::Nonsense => &self.tally.malformed,
                    DecodeError::NotForUs | DecodeError::OtherSettings(_) | DecodeError::Unsealed => {
                        &self.tally.refused
                    }
                };
                count(counter);
                // What strangers say is counted and not worth a word: anybody on the network can say anything.
                if let Some(id) = known {
                    let text = format!("member {id} is not heard: {}", reason(&unheard, &self.speech));
                    self.complaints.tell(Source::Member(id), text);
                }
                return;
            }
        };
        let listed = peers.get(&spoken.from).copied();
        // Whoever knows the secret may tell where it is, also anew; what our own user says counts more.
        let may_learn = self.speech.secret.is_some()
            && listed.map_or(peers.len() < PEERS_MAX, |way| way.learned.is_some());
        drop(peers);
        let is_elsewhere = self.speech.secret.is_some() && spoken.at != from;
        if is_elsewhere || (!may_learn && listed.is_none_or(|way| way.address != from)) {
            return self.refuse(&spoken, from, listed.map(|way| way.address));
        }
        if let Some(stamp) = &spoken.stamp
            && !self.is_fresh(stamp, spoken.from, from)
        {
            return;
        }
        if may_learn {
            lock(&self.peers).insert(spoken.from, PeerRoute { address: from, learned: Some(Instant::now()) });
        }
        lock(&self.heard).insert(spoken.from, Instant::now());
        if let Some(bytes) = spoken.bytes {
            match self.inbox.try_send(Received { from: spoken.from, bytes }) {
                Ok(()) => count(&self.tally.received),
                Err(_) => count(&self.tally.dropped),
            }
        }
    }

    /// Somebody speaks from elsewhere than where the member is that it says to be.
    fn refuse(&self, spoken: &DecodedMessage, from: PilotAddress, listed: Option<PilotAddress>) {
        count(&self.tally.refused);
        let id = spoken.from;
        // Without a secret nobody knows where it is.
        if let Some(at) = listed.or(self.speech.secret.as_ref().map(|_| spoken.at)) {
            let text = format!("somebody at {from} says to be member {id}, which is at {at}");
            self.complaints.tell(Source::Stranger(from.to_string()), text);
        }
    }

    /// Whether a sealed message is heard for the first time. A sender that is not known yet gets an answer,
    /// so that it can show that it is there.
    fn is_fresh(&self, stamp: &Stamp, id: NodeId, from: PilotAddress) -> bool {
        let age = lock(&self.fresh).hear(Instant::now(), id, stamp);
        let at = *lock(&self.own);
        match age {
            Age::Fresh => true,
            Age::First => {
                self.ping_at(self.place(id), id, from);
                true
            }
            Age::Stale => {
                count(&self.tally.refused);
                false
            }
            Age::Unknown(answer) => {
                count(&self.tally.dropped);
                if let Some(stamp) = answer {
                    self.ping_at(SenderPosition { at, stamp: Some(stamp) }, id, from);
                }
                false
            }
        }
    }
}

fn reason(unheard: &DecodeError, own: &MessageCodec) -> String {
    match unheard {
        DecodeError::Nonsense => "what it says makes no sense, or is of another version".to_string(),
        DecodeError::NotForUs => {
            format!(
                "it speaks to another group or another member; is it told the same list and --group {}?",
                own.group
            )
        }
        DecodeError::OtherSettings(theirs) => {
            format!("it has other terms ({theirs}) than ours ({})", own.terms)
        }
        DecodeError::Unsealed => {
            "its seal is missing or wrong; do all have the same --secret-file?".to_string()
        }
    }
}
