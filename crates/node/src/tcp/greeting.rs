//! How two members get to know each other at the begin of a connection.
//!
//! Who dials says who it is, whom it wants, of which group, with which algorithm and rhythm, and a number never used before;
//! who is called answers with such a number of its own. With a shared secret each then proves to know it, over all that was
//! said, the dialling side first. Guarantees that both ends agree on all of that before a message is passed on: members of
//! different rhythms must not hear each other, since a voter's patience is what a leader's lease counts on. Does not bound the
//! time that it takes: the caller does.

use std::io;

use baton_peer::{NodeId, Timing};
use serde::{Deserialize, Serialize};

use super::frame::{FrameError, MAGIC, VERSION, read_frame, read_preamble, write_frame, write_preamble};
use super::line::{Reader, Stream, Writer};
use super::secret::{Secret, Side};
use super::tls::{self, Certificates};
use crate::codec;

/// How members know each other.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Not at all: only for loopback addresses.
    Loopback,
    /// By a shared secret.
    Secret(Secret),
    /// By certificates.
    Certificates(Certificates),
}

impl Trust {
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Trust::Secret(secret) => Some(secret),
            Trust::Loopback | Trust::Certificates(_) => None,
        }
    }
}

/// What all members must have alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSettings {
    /// The algorithm's name.
    pub algorithm: String,
    heartbeat_ns: u64,
    timeout_min_ns: u64,
    timeout_max_ns: u64,
    drift_permille: u64,
    guard_cap_ns: u64,
}

impl GroupSettings {
    /// Of this algorithm in this rhythm.
    pub fn new(algorithm: &str, timing: &Timing) -> GroupSettings {
        GroupSettings {
            algorithm: algorithm.to_string(),
            heartbeat_ns: timing.heartbeat.as_nanos(),
            timeout_min_ns: timing.timeout_min.as_nanos(),
            timeout_max_ns: timing.timeout_max.as_nanos(),
            drift_permille: timing.margins.drift_permille,
            guard_cap_ns: timing.margins.guard_cap.as_nanos(),
        }
    }
}

impl std::fmt::Display for GroupSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let span = baton_election::Span::nanos;
        let (heartbeat, min, max) =
            (span(self.heartbeat_ns), span(self.timeout_min_ns), span(self.timeout_max_ns));
        // What others say is shown to people; it is bounded by the frame and cut here.
        let name: String = self.algorithm.chars().filter(char::is_ascii_graphic).take(16).collect();
        write!(f, "{name}, heartbeats every {heartbeat}, timeouts of {min} to {max}")
    }
}

/// The kind of caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Caller {
    /// A member, which will send messages.
    Member(NodeId),
    /// Somebody who wants to ask something.
    Asker,
}

/// What one side says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Greeter {
    pub(crate) caller: Caller,
    pub(crate) group: String,
    pub(crate) terms: GroupSettings,
    /// Where it can be dialled; an address without a host means the one that it dials from.
    pub(crate) advertise: String,
    /// Tells this process from any other that says it is the same member.
    pub(crate) life: u64,
    pub(crate) trust: Trust,
}

/// The longest address that is told.
pub(crate) const MAX_ADDRESS_BYTES: usize = 255;

#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    caller: Caller,
    to: NodeId,
    group: String,
    terms: GroupSettings,
    advertise: String,
    life: u64,
    nonce: [u8; 32],
}

#[derive(Debug, Serialize, Deserialize)]
struct Challenge {
    nonce: [u8; 32],
}

#[derive(Debug, Serialize, Deserialize)]
enum Verdict {
    /// The proof of the side that was called; empty without a secret.
    Welcome(Vec<u8>),
    Refused(Refusal),
}

/// Why a member does not talk to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it does not know us by the secret or the certificate that we showed")]
    Unproven,
    #[error("it is in another group")]
    Group,
    #[error("it is member {0}")]
    Id(NodeId),
    #[error("it runs {0}: all members must have the same")]
    GroupSettings(GroupSettings),
}

/// Why two did not come together.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("what it said made no sense")]
    Nonsense,
    /// We do not believe it.
    #[error("it does not know the secret of the group, or its certificate is another's")]
    Unproven,
    /// We do not talk to it, although we believe it.
    #[error("it wants {0}")]
    Mismatch(String),
    /// It does not talk to us.
    #[error("{0}")]
    Refused(Refusal),
    #[error("no random numbers can be had")]
    NoChance,
}

impl From<io::Error> for GreetError {
    fn from(error: io::Error) -> GreetError {
        GreetError::Frame(FrameError::Io(error))
    }
}

/// Who came.
#[derive(Debug)]
pub(crate) struct GreetedPeer {
    pub(crate) caller: Caller,
    pub(crate) advertise: String,
    pub(crate) life: u64,
    /// Whether it may ask for more than to be told.
    pub(crate) may_change: bool,
}

fn nonce() -> Result<[u8; 32], GreetError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| GreetError::NoChance)?;
    Ok(bytes)
}

/// All that was said, with the length of the first part, so that the border cannot be moved.
fn said(hello: &[u8], challenge: &[u8]) -> Vec<u8> {
    let length = u64::try_from(hello.len()).unwrap_or(u64::MAX);
    [&MAGIC[..], &VERSION.to_be_bytes(), &length.to_be_bytes(), hello, challenge].concat()
}

fn encoded<T: Serialize>(value: &T) -> Result<Vec<u8>, GreetError> {
    codec::encode(value).map_err(|_| GreetError::Nonsense)
}

/// Makes the acquaintance of the member `to`, which was dialled.
pub(crate) async fn dial(
    stream: Box<dyn Stream>,
    me: &Greeter,
    to: NodeId,
) -> Result<(Reader, Writer), GreetError> {
    let mut stream = match &me.trust {
        Trust::Certificates(certificates) => {
            let name = tls::server_name(to).ok_or(GreetError::Nonsense)?;
            let secured = certificates.connector().connect(name, stream).await.map_err(GreetError::Tls)?;
            Box::new(secured)
        }
        Trust::Loopback | Trust::Secret(_) => stream,
    };
    write_preamble(&mut stream).await?;
    let hello = encoded(&Hello {
        caller: me.caller,
        to,
        group: me.group.clone(),
        terms: me.terms.clone(),
        advertise: me.advertise.clone(),
        life: me.life,
        nonce: nonce()?,
    })?;
    write_frame(&mut stream, &hello, &[]).await?;
    read_preamble(&mut stream).await?;
    let challenge = read_frame(&mut stream).await?;
    codec::decode::<Challenge>(&challenge).ok_or(GreetError::Nonsense)?;
    let said = said(&hello, &challenge);
    let secret = me.trust.secret();
    let proof = secret.map(|secret| secret.proof(Side::Dials, &said).to_vec()).unwrap_or_default();
    write_frame(&mut stream, &proof, &[]).await?;
    let verdict = read_frame(&mut stream).await?;
    match codec::decode(&verdict).ok_or(GreetError::Nonsense)? {
        Verdict::Refused(refusal) => Err(GreetError::Refused(refusal)),
        Verdict::Welcome(proof)
            if secret.is_none_or(|secret| secret.proves(Side::Accepts, &said, &proof)) =>
        {
            halves(stream, secret, &said, Side::Dials)
        }
        Verdict::Welcome(_) => Err(GreetError::Unproven),
    }
}

/// Makes the acquaintance of whoever dialled member `me`.
pub(crate) async fn accept(
    stream: Box<dyn Stream>,
    me: &Greeter,
    id: NodeId,
) -> Result<(GreetedPeer, Reader, Writer), GreetError> {
    let mut shown = None;
    let mut stream = match &me.trust {
        Trust::Certificates(certificates) => {
            let secured = certificates.acceptor().accept(stream).await.map_err(GreetError::Tls)?;
            shown = secured.get_ref().1.peer_certificates().and_then(|chain| chain.first()).cloned();
            Box::new(secured)
        }
        Trust::Loopback | Trust::Secret(_) => stream,
    };
    match read_preamble(&mut stream).await {
        // So that the other side learns which version is spoken here.
        Err(error @ FrameError::Version(_)) => {
            write_preamble(&mut stream).await?;
            return Err(error.into());
        }
        read => read?,
    }
    write_preamble(&mut stream).await?;
    let hello_bytes = read_frame(&mut stream).await?;
    let hello: Hello = codec::decode(&hello_bytes).ok_or(GreetError::Nonsense)?;
    if hello.advertise.len() > MAX_ADDRESS_BYTES {
        return Err(GreetError::Nonsense);
    }
    let challenge = encoded(&Challenge { nonce: nonce()? })?;
    write_frame(&mut stream, &challenge, &[]).await?;
    let proof = read_frame(&mut stream).await?;
    let said = said(&hello_bytes, &challenge);
    let proven = match (&me.trust, hello.caller) {
        (Trust::Loopback, _) => proof.is_empty(),
        (Trust::Secret(secret), _) => secret.proves(Side::Dials, &said, &proof),
        // Whoever has a certificate of the authority may ask; who speaks as a member must be named so.
        (Trust::Certificates(_), Caller::Asker) => true,
        (Trust::Certificates(_), Caller::Member(from)) => {
            shown.as_ref().is_some_and(|certificate| tls::names(certificate, from))
        }
    };
    let may_change = match &me.trust {
        Trust::Loopback | Trust::Secret(_) => true,
        Trust::Certificates(_) => {
            shown.as_ref().is_some_and(|shown| tls::names(shown, id) || tls::is_operator(shown))
        }
    };
    if let Some(refusal) = refusal(me, id, &hello, proven) {
        let error = match &refusal {
            Refusal::Unproven => GreetError::Unproven,
            Refusal::Group => GreetError::Mismatch("another group".to_string()),
            Refusal::Id(_) => GreetError::Mismatch(format!("member {}", hello.to)),
            Refusal::GroupSettings(_) => GreetError::Mismatch(hello.terms.to_string()),
        };
        write_frame(&mut stream, &encoded(&Verdict::Refused(refusal))?, &[]).await?;
        return Err(error);
    }
    let secret = me.trust.secret();
    let proof = secret.map(|secret| secret.proof(Side::Accepts, &said).to_vec()).unwrap_or_default();
    write_frame(&mut stream, &encoded(&Verdict::Welcome(proof))?, &[]).await?;
    let (reader, writer) = halves(stream, secret, &said, Side::Accepts)?;
    Ok((
        GreetedPeer { caller: hello.caller, advertise: hello.advertise, life: hello.life, may_change },
        reader,
        writer,
    ))
}

/// Why we do not talk to whoever said this. First of all it must be believed: nobody else learns more.
fn refusal(me: &Greeter, id: NodeId, hello: &Hello, proven: bool) -> Option<Refusal> {
    if !proven {
        return Some(Refusal::Unproven);
    }
    if hello.group != me.group {
        return Some(Refusal::Group);
    }
    if hello.to != id {
        return Some(Refusal::Id(id));
    }
    match hello.caller {
        Caller::Member(from) if from == id => Some(Refusal::Id(id)),
        Caller::Member(_) if hello.terms != me.terms => Some(Refusal::GroupSettings(me.terms.clone())),
        Caller::Member(_) | Caller::Asker => None,
    }
}

fn halves(
    stream: Box<dyn Stream>,
    secret: Option<&Secret>,
    said: &[u8],
    ours: Side,
) -> Result<(Reader, Writer), GreetError> {
    let theirs = match ours {
        Side::Dials => Side::Accepts,
        Side::Accepts => Side::Dials,
    };
    // A side that has a secret never goes on without seals.
    let sealer =
        |side: Side| secret.map(|secret| secret.sealer(side, said).ok_or(GreetError::Nonsense)).transpose();
    let (theirs, ours) = (sealer(theirs)?, sealer(ours)?);
    let (read, write) = tokio::io::split(stream);
    Ok((Reader { stream: read, sealer: theirs }, Writer { stream: write, sealer: ours }))
}
/// Reads a frame as each part of a greeting.
#[cfg(feature = "fuzzing")]
pub(super) fn understand(frame: &[u8]) {
    if let Some(hello) = codec::decode::<Hello>(frame) {
        assert!(
            hello.terms.to_string().len() <= 200,
            "what others call an algorithm is cut where it is shown"
        );
    }
    let _ = codec::decode::<Challenge>(frame);
    let _ = codec::decode::<Verdict>(frame);
}
