//! What members say to each other on the Pilot network: JSON in the shapes of the skill `pilot-leader-election`, with the machine's
//! message inside.
//!
//! The skill has three: `election` with `candidate`, `priority` and `term`; `leader` with `leader` and `term`; `heartbeat` with `leader`
//! and `term`. They are kept, on the topic `election:GROUP`. Ids are the numbers of Pilot nodes. Its times (`elected_at`, `timestamp`)
//! are left out: nothing may be decided by the clock of somebody else. What counts is [`Spoken::bytes`]; the rest is for people and
//! other programs.

use baton_peer::NodeId;
use serde::{Deserialize, Serialize};

use crate::tcp::{Secret, Side, Terms};
use crate::transport::Outgoing;

/// The largest message that a datagram carries, before it is written as JSON.
pub(super) const MAX_PAYLOAD_BYTES: usize = 16 * 1024;

/// The version of these shapes.
const VERSION: u32 = 1;

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

/// What the sender of a message claims by sending it. Who speaks as a leader may still be waiting for its first answers.
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
struct Written {
    #[serde(rename = "type")]
    what: Type,
    topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<String>,
    priority: u8,
    term: u64,
    /// From here on ours: the version of the shape, the two members, the algorithm and its rhythm, the algorithm's own word,
    /// its message in hexadecimal, and the seal.
    baton: u32,
    from: NodeId,
    to: NodeId,
    terms: Terms,
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seal: Option<String>,
}

/// What is announced on the topic for whoever listens; nothing is decided by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Announced {
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
pub(super) struct Speech {
    pub(super) id: NodeId,
    pub(super) priority: u8,
    pub(super) group: String,
    pub(super) terms: Terms,
    pub(super) secret: Option<Secret>,
}

/// A message that was understood; whether its sender is who it says is not known yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spoken {
    pub(super) from: NodeId,
    /// None in a sign of life.
    pub(super) bytes: Option<Vec<u8>>,
}

/// Why something is not heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unheard {
    /// It makes no sense, or is of another version.
    Nonsense,
    /// It is for another group or another member.
    NotForUs,
    /// The sender elects by another algorithm, or in another rhythm.
    OtherTerms(Terms),
    /// The seal is missing or wrong.
    Unsealed,
}

impl Speech {
    pub(super) fn topic(&self) -> String {
        format!("election:{}", self.group)
    }

    /// A message of the machine, from the node with that number, which leads or does not.
    pub(super) fn message(&self, node: u32, leads: bool, out: &Outgoing) -> Vec<u8> {
        let (what, claim) = Type::of(out.kind);
        let own = Some(node.to_string());
        let mut written = self.written(what, out.to, out.term.0);
        match claim {
            Claim::Candidate => written.candidate = own,
            Claim::Leader if leads => written.leader = own,
            Claim::Leader | Claim::Nothing => {}
        }
        written.kind = out.kind.to_string();
        written.message = hexadecimal(&out.bytes);
        self.sealed(written, &out.bytes)
    }

    /// A sign of life.
    pub(super) fn ping(&self, to: NodeId) -> Vec<u8> {
        self.sealed(self.written(Type::Ping, to, 0), &[])
    }

    fn written(&self, what: Type, to: NodeId, term: u64) -> Written {
        Written {
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
            message: String::new(),
            seal: None,
        }
    }

    fn sealed(&self, mut written: Written, bytes: &[u8]) -> Vec<u8> {
        let said = self.said(written.from, written.to, bytes);
        written.seal = self.secret.as_ref().map(|secret| hexadecimal(&secret.proof(Side::Dials, &said)));
        // Nothing in it can fail to be written.
        serde_json::to_vec(&written).unwrap_or_default()
    }

    /// What the seal is of. Every part has a fixed length but the group, which ends where a byte stands that no name has.
    fn said(&self, from: NodeId, to: NodeId, bytes: &[u8]) -> Vec<u8> {
        let mut said = b"pilot;".to_vec();
        said.extend(from.number().to_be_bytes());
        said.extend(to.number().to_be_bytes());
        said.extend(self.group.as_bytes());
        said.push(0);
        said.extend(bytes);
        said
    }

    /// What somebody says.
    pub(super) fn read(&self, data: &[u8]) -> Result<Spoken, Unheard> {
        let written: Written = serde_json::from_slice(data).map_err(|_| Unheard::Nonsense)?;
        if written.baton != VERSION {
            return Err(Unheard::Nonsense);
        }
        if written.topic != self.topic() || written.to != self.id || written.from == self.id {
            return Err(Unheard::NotForUs);
        }
        let bytes = bytes_of(&written.message).ok_or(Unheard::Nonsense)?;
        if let Some(secret) = &self.secret {
            let seal = written.seal.as_deref().and_then(bytes_of).ok_or(Unheard::Unsealed)?;
            if !secret.proves(Side::Dials, &self.said(written.from, written.to, &bytes), &seal) {
                return Err(Unheard::Unsealed);
            }
        }
        if written.terms != self.terms {
            return Err(Unheard::OtherTerms(written.terms));
        }
        Ok(Spoken { from: written.from, bytes: (written.what != Type::Ping).then_some(bytes) })
    }

    /// What the topic's listeners are told: a candidacy, a new leader, or that it still leads.
    pub(super) fn announcement(&self, node: u32, what: Type, term: u64) -> Vec<u8> {
        let own = Some(node.to_string());
        let blank = Announced { what, candidate: None, leader: None, priority: None, term };
        let announced = match what {
            Type::Election => Announced { candidate: own, priority: Some(self.priority), ..blank },
            Type::Leader | Type::Heartbeat => Announced { leader: own, ..blank },
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
mod tests {
    use std::collections::{BTreeMap, BTreeSet, VecDeque};

    use baton_election::Moment;
    use baton_peer::bully::Bully;
    use baton_peer::paxos::Paxos;
    use baton_peer::raft::Raft;
    use baton_peer::ring::Ring;
    use baton_peer::{Config, Group, Input, Machine, Member, Start, Term, Timing};
    use serde_json::Value;

    use super::*;

    fn speech(number: u16, secret: Option<&str>) -> Speech {
        Speech {
            id: NodeId::new(number).unwrap(),
            priority: 7,
            group: "fleet/eu".to_string(),
            terms: Terms::new("raft", &Timing::AGENTS),
            secret: secret.and_then(Secret::new),
        }
    }

    fn outgoing(to: u16, kind: &'static str) -> Outgoing {
        Outgoing { to: NodeId::new(to).unwrap(), kind, term: Term(3), bytes: vec![0, 1, 0xfe] }
    }

    #[test]
    fn a_message_has_the_shape_of_the_skill() {
        let shape = |kind| -> Value {
            serde_json::from_slice(&speech(1, None).message(42, true, &outgoing(2, kind))).unwrap()
        };
        let vote = shape("RequestVote");
        assert_eq!((&vote["type"], &vote["candidate"]), (&"election".into(), &"42".into()));
        assert_eq!((&vote["priority"], &vote["term"]), (&7.into(), &3.into()));
        assert_eq!(vote["topic"], "election:fleet/eu");
        let heartbeat = shape("AppendEntries");
        assert_eq!((&heartbeat["type"], &heartbeat["leader"]), (&"heartbeat".into(), &"42".into()));
        assert_eq!(shape("AppendAnswer").get("leader"), None, "who answers does not lead");
        for shape in [vote, heartbeat] {
            assert!(shape.get("timestamp").is_none() && shape.get("elected_at").is_none());
        }
    }

    /// Three members that hear each other at once, until one has led for a while: what did they claim?
    fn claims<M: Machine>() -> BTreeSet<(&'static str, bool)> {
        let ids = [1, 2, 3].map(|number| NodeId::new(number).unwrap());
        let group = Group::founded(ids.map(Member::plain).to_vec()).unwrap();
        let mut now = Moment::default();
        let start = |id: NodeId| {
            let seed = u64::from(id.number());
            let config = Config { id, group: group.clone(), timing: Timing::LAN, seed };
            (id, M::start(config, Start::Founded, Moment::default()))
        };
        let mut machines = BTreeMap::from(ids.map(start));
        let (mut claims, mut wire) = (BTreeSet::new(), VecDeque::new());
        for _ in 0..2_000 {
            let (to, input) = wire.pop_front().unwrap_or_else(|| {
                let (id, machine) = machines.iter().min_by_key(|(_, machine)| machine.deadline()).unwrap();
                now = now.max(machine.deadline());
                (*id, Input::Tick)
            });
            let effects = machines.get_mut(&to).unwrap().step(now, input);
            let view = machines[&to].view(now);
            for envelope in effects.send {
                claims.insert(match Type::of(M::kind(&envelope.message)) {
                    (Type::Election, Claim::Candidate) => ("stands", true),
                    (Type::Heartbeat, Claim::Leader) => ("leads", view.leads(now)),
                    (_, Claim::Candidate | Claim::Leader) => panic!("an odd claim"),
                    (_, Claim::Nothing) => ("nothing", true),
                });
                wire.push_back((envelope.to, Input::Received { from: to, message: envelope.message }));
            }
        }
        claims
    }

    #[test]
    fn the_messages_of_every_algorithm_are_known_by_their_kind() {
        for (name, claims) in [
            (Raft::NAME, claims::<Raft>()),
            (Paxos::NAME, claims::<Paxos>()),
            (Bully::NAME, claims::<Bully>()),
            (Ring::NAME, claims::<Ring>()),
        ] {
            assert!(
                claims.contains(&("stands", true)) && claims.contains(&("leads", true)),
                "{name}: {claims:?}"
            );
        }
    }

    #[test]
    fn who_does_not_lead_yet_does_not_say_so() {
        let early = speech(1, None).message(42, false, &outgoing(2, "AppendEntries"));
        assert_eq!(serde_json::from_slice::<Value>(&early).unwrap().get("leader"), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let (one, two) = (speech(1, None), speech(2, None));
        let spoken = two.read(&one.message(42, true, &outgoing(2, "PreVote"))).unwrap();
        assert_eq!(spoken, Spoken { from: one.id, bytes: Some(vec![0, 1, 0xfe]) });
        assert_eq!(two.read(&one.ping(two.id)), Ok(Spoken { from: one.id, bytes: None }));
    }

    #[test]
    fn what_is_not_for_us_is_not_heard() {
        let (one, two) = (speech(1, None), speech(2, None));
        assert_eq!(speech(3, None).read(&one.ping(two.id)), Err(Unheard::NotForUs));
        let elsewhere = Speech { group: "fleet".to_string(), ..one.clone() };
        assert_eq!(two.read(&elsewhere.ping(two.id)), Err(Unheard::NotForUs));
        let faster = Speech { terms: Terms::new("raft", &Timing::LAN), ..one.clone() };
        assert_eq!(two.read(&faster.ping(two.id)), Err(Unheard::OtherTerms(faster.terms.clone())));
        assert_eq!(two.read(&two.ping(two.id)), Err(Unheard::NotForUs), "one's own words");
    }

    #[test]
    fn a_seal_is_of_one_pair_of_members_and_one_message() {
        let secret = Some("a secret of all members");
        let (one, two) = (speech(1, secret), speech(2, secret));
        let message = one.message(42, true, &outgoing(2, "PreVote"));
        assert!(two.read(&message).is_ok());
        let text = String::from_utf8(message).unwrap();
        for (from, to) in
            [("\"0001fe\"", "\"0001ff\""), ("\"from\":1", "\"from\":3"), ("\"seal\":\"", "\"seal\":\"0")]
        {
            assert!(text.contains(from));
            assert_eq!(two.read(text.replace(from, to).as_bytes()), Err(Unheard::Unsealed), "{from}");
        }
        assert_eq!(two.read(&speech(1, None).ping(two.id)), Err(Unheard::Unsealed));
        assert_eq!(
            two.read(&speech(1, Some("another secret of others")).ping(two.id)),
            Err(Unheard::Unsealed)
        );
    }

    #[test]
    fn nonsense_is_not_heard() {
        let two = speech(2, None);
        let good = String::from_utf8(speech(1, None).message(1, true, &outgoing(2, "PreVote"))).unwrap();
        let odd = [
            good.replace("\"0001fe\"", "\"0001f\""),
            good.replace("\"0001fe\"", "\"0001fg\""),
            good.replace("\"from\":1", "\"from\":0"),
            good.replace("\"baton\":1", "\"baton\":2"),
            good.replace("\"election\"", "\"coup\""),
            "{\"type\":\"leader\",\"leader\":\"null\",\"term\":\"xterm\"}".to_string(),
            String::new(),
        ];
        for text in odd {
            assert_ne!(text, good);
            assert_eq!(two.read(text.as_bytes()), Err(Unheard::Nonsense), "{text}");
        }
    }

    #[test]
    fn listeners_are_told_in_the_skills_words() {
        let event = speech(1, None).announcement(42, Type::Leader, 9);
        let payload = b"{\"type\":\"leader\",\"leader\":\"42\",\"term\":9}";
        let mut expected = b"\x00\x11election:fleet/eu\x00\x00\x00".to_vec();
        expected.push(u8::try_from(payload.len()).unwrap());
        expected.extend(payload);
        assert_eq!(event, expected);
    }
}
