//! What members say to each other on the Pilot network: JSON in the shapes of the skill `pilot-leader-election`, with the machine's
//! message inside.
//!
//! The skill has three: `election` with `candidate`, `priority` and `term`; `leader` with `leader` and `term`; `heartbeat` with `leader`
//! and `term`. They are kept, on the topic `election:GROUP`. Ids are the numbers of Pilot nodes. Its times (`elected_at`, `timestamp`)
//! are left out: nothing may be decided by the clock of somebody else. What counts is [`DecodedMessage`]; the rest is for people and
//! other programs. With a shared secret the whole message is sealed, with its place in what its sender says ([`Stamp`]) and where its sender is.

use baton_peer::NodeId;
use serde::{Deserialize, Serialize};

use super::PilotAddress;
use super::fresh::Stamp;
use crate::tcp::{GroupSettings, Secret, Side};
use crate::transport::Outgoing;

/// The largest message that a datagram carries, before it is written as JSON.
pub(super) const MAX_PAYLOAD_BYTES: usize = 16 * 1024;

/// The version of these shapes.
const VERSION: u32 = 2;

/// The skill's word for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Type {
    Election,
    Leader,
    Heartbeat,
    /// Ours: nothing but a sign of life, so that the path between two daemons stays open both ways.
    Ping,
}

/// What the sender of a message claims by sending it. A sender that speaks as a leader may still be waiting
/// for its first answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Candidate,
    Leader,
    Nothing,
}

impl Type {
    /// What a machine's message is in the skill's words, and what its sender claims. What is not a heartbeat, its answer or news of a
    /// leader belongs to an election.
    pub(super) fn of(kind: &str) -> (Type, Claim) {
        match kind {
            "RequestVote" | "prepare" | "ELECTION" => (Type::Election, Claim::Candidate),
            "AppendEntries" | "accept" | "HEARTBEAT" => (Type::Heartbeat, Claim::Leader),
            "AppendAnswer" | "accepted" => (Type::Heartbeat, Claim::Nothing),
            "COORDINATOR" => (Type::Leader, Claim::Nothing),
            _ => (Type::Election, Claim::Nothing),
        }
    }
}

/// A message as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WireMessage {
    #[serde(rename = "type")]
    what: Type,
    topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    priority: u8,
    term: u64,
    /// From here on ours: the version of the shape, the two members, the algorithm and its rhythm, the algorithm's own word, where the sender is, the place
    /// of the message, the algorithm's message in hexadecimal, and the seal of all the rest.
    baton: u32,
    from: NodeId,
    to: NodeId,
    terms: GroupSettings,
    kind: String,
    /// Where the sender is.
    at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stamp: Option<Stamp>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<String>,
}

/// What is announced on the topic for whoever listens; nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Announcement {
    #[serde(rename = "type")]
    what: Type,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    term: u64,
}

/// How this member writes and reads.
#[derive(Clone, Debug)]
pub(super) struct MessageCodec {
    pub(super) id: NodeId,
    pub(super) priority: u8,
    pub(super) group: String,
    pub(super) terms: GroupSettings,
    pub(super) secret: Option<Secret>,
}

/// Where this member is, and the place of what it says among all that it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SenderPosition {
    pub(super) at: PilotAddress,
    /// None without a secret: there is no seal that would make it worth anything.
    pub(super) stamp: Option<Stamp>,
}

/// A message that was understood; whether its sender is who it says is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DecodedMessage {
    pub(super) from: NodeId,
    /// Where its sender says to be; sealed where there is a secret.
    pub(super) at: PilotAddress,
    /// Its place; sealed. None without a secret.
    pub(super) stamp: Option<Stamp>,
    /// None in a sign of life.
    pub(super) bytes: Option<Vec<u8>>,
}

/// Why something is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    /// It makes no sense, or is of another version.
    Nonsense,
    /// It is for another group or another member.
    NotForUs,
    /// The sender elects by another algorithm, or in another rhythm.
    OtherSettings(GroupSettings),
    /// The seal is missing or wrong.
    Unsealed,
}

impl MessageCodec {
    pub(super) fn topic(&self) -> String {
        format!("election:{}", self.group)
    }

    /// A message of the machine, of a member that leads or does not.
    pub(super) fn message(&self, place: SenderPosition, leads: bool, out: &Outgoing) -> Vec<u8> {
        let (what, claim) = Type::of(out.kind);
        let own = Some(place.at.node().to_string());
        let mut written = self.written(place, what, out.to, out.term.0);
        match claim {
            Claim::Candidate => written.candidate = own,
            Claim::Leader if leads => written.leader = own,
            Claim::Leader | Claim::Nothing => {}
        }
        written.kind = out.kind.to_string();
        written.message = hexadecimal(&out.bytes);
        self.sealed(written)
    }

    /// A sign of life.
    pub(super) fn ping(&self, place: SenderPosition, to: NodeId) -> Vec<u8> {
        self.sealed(self.written(place, Type::Ping, to, 0))
    }

    fn written(&self, place: SenderPosition, what: Type, to: NodeId, term: u64) -> WireMessage {
        WireMessage {
            what,
            topic: self.topic(),
            candidate: None,
            leader: None,
            priority: self.priority,
            term,
            baton: VERSION,
            from: self.id,
            to,
            terms: self.terms.clone(),
            kind: String::new(),
            at: place.at.to_string(),
            stamp: place.stamp,
            message: String::new(),
            seal: None,
        }
    }

    fn sealed(&self, mut written: WireMessage) -> Vec<u8> {
        if let Some(secret) = &self.secret {
            written.seal = Some(hexadecimal(&secret.proof(Side::Dials, &said(&written))));
        }
        // Nothing in it can fail to be written.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// What somebody says.
    pub(super) fn read(&self, data: &[u8]) -> Result<DecodedMessage, DecodeError> {
        let mut written: WireMessage = serde_json::from_slice(data).map_err(|_| DecodeError::Nonsense)?;
        if written.baton != VERSION {
            return Err(DecodeError::Nonsense);
        }
        if written.topic != self.topic() || written.to != self.id || written.from == self.id {
            return Err(DecodeError::NotForUs);
        }
        let bytes = bytes_of(&written.message).ok_or(DecodeError::Nonsense)?;
        let at = written.at.parse().map_err(|_| DecodeError::Nonsense)?;
        if let Some(secret) = &self.secret {
            let seal = written.seal.take().as_deref().and_then(bytes_of).ok_or(DecodeError::Unsealed)?;
            if written.stamp.is_none() || !secret.proves(Side::Dials, &said(&written), &seal) {
                return Err(DecodeError::Unsealed);
            }
        }
        if written.terms != self.terms {
            return Err(DecodeError::OtherSettings(written.terms));
        }
        let (from, stamp) = (written.from, written.stamp.filter(|_| self.secret.is_some()));
        Ok(DecodedMessage { from, at, stamp, bytes: (written.what != Type::Ping).then_some(bytes) })
    }

    /// What the topic's listeners are told: a candidacy, a new leader, or that it still leads.
    pub(super) fn announcement(&self, node: u32, what: Type, term: u64) -> Vec<u8> {
        let own = Some(node.to_string());
        let blank = Announcement { what, candidate: None, leader: None, priority: None, term };
        let announced = match what {
            Type::Election => Announcement { candidate: own, priority: Some(self.priority), ..blank },
            Type::Leader | Type::Heartbeat => Announcement { leader: own, ..blank },
            Type::Ping => blank,
        };
        let payload = serde_json::to_vec(&announced).unwrap_or_default();
        self.event(&payload)
    }

    /// An event of the topic as event streams carry it; without a payload it subscribes.
    pub(super) fn event(&self, payload: &[u8]) -> Vec<u8> {
        let topic = self.topic();
        let mut event = u16::try_from(topic.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec();
        event.extend(topic.as_bytes());
        event.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
        event.extend(payload);
        event
    }
}

/// What the seal is of: all that is read of a message but the seal, as we would write it. What else stands there is not read.
fn said(written: &WireMessage) -> Vec<u8> {
    let mut said = b"pilot;".to_vec();
    // Nothing in it can fail to be written.
    said.extend(serde_json::to_vec(written).unwrap_or_default());
    said
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    (text.len() <= 2 * MAX_PAYLOAD_BYTES).then(|| pairs.map(byte).collect::<Option<Vec<u8>>>())?
}

#[cfg(test)]
mod tests;
