use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_election::Moment;
use baton_peer::bully::Bully;
use baton_peer::paxos::Paxos;
use baton_peer::raft::Raft;
use baton_peer::ring::Ring;
use baton_peer::{Config, Group, Input, Machine, Member, Start, Term, Timing};
use serde_json::Value;

use super::super::fresh::Freshness;
use super::*;

fn speech(number: u16, secret: Option<&str>) -> MessageCodec {
    MessageCodec {
        id: NodeId::new(number).unwrap(),
        priority: 7,
        group: "fleet/eu".to_string(),
        terms: GroupSettings::new("raft", &Timing::AGENTS),
        secret: secret.and_then(Secret::new),
    }
}

/// Where a member of these tests is.
fn place(number: u16) -> SenderPosition {
    let at = format!("0:0000.0000.{:04X}", 41 + number).parse().unwrap();
    SenderPosition { at, stamp: Some(Freshness::new(1).stamp(NodeId::new(9).unwrap())) }
}

fn outgoing(to: u16, kind: &'static str) -> Outgoing {
    Outgoing { to: NodeId::new(to).unwrap(), kind, term: Term(3), bytes: vec![0, 1, 0xfe] }
}

#[test]
fn a_message_has_the_shape_of_the_skill() {
    let shape = |kind| -> Value {
        serde_json::from_slice(&speech(1, None).message(place(1), true, &outgoing(2, kind))).unwrap()
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
    let early = speech(1, None).message(place(1), false, &outgoing(2, "AppendEntries"));
    assert_eq!(serde_json::from_slice::<Value>(&early).unwrap().get("leader"), None);
}

#[test]
fn what_is_written_is_read() {
    let (one, two) = (speech(1, None), speech(2, None));
    let spoken = two.read(&one.message(place(1), true, &outgoing(2, "PreVote"))).unwrap();
    let blank = DecodedMessage { from: one.id, at: place(1).at, stamp: None, bytes: None };
    assert_eq!(spoken, DecodedMessage { bytes: Some(vec![0, 1, 0xfe]), ..blank.clone() });
    assert_eq!(
        two.read(&one.ping(place(1), two.id)),
        Ok(blank.clone()),
        "without a seal a stamp is worth nothing"
    );
    let secret = Some("a secret of all members");
    let spoken = speech(2, secret).read(&speech(1, secret).ping(place(1), two.id)).unwrap();
    assert_eq!(spoken, DecodedMessage { stamp: place(1).stamp, ..blank });
}

#[test]
fn what_is_not_for_us_is_not_heard() {
    let (one, two) = (speech(1, None), speech(2, None));
    assert_eq!(speech(3, None).read(&one.ping(place(1), two.id)), Err(DecodeError::NotForUs));
    let elsewhere = MessageCodec { group: "fleet".to_string(), ..one.clone() };
    assert_eq!(two.read(&elsewhere.ping(place(1), two.id)), Err(DecodeError::NotForUs));
    let faster = MessageCodec { terms: GroupSettings::new("raft", &Timing::LAN), ..one.clone() };
    assert_eq!(
        two.read(&faster.ping(place(1), two.id)),
        Err(DecodeError::OtherSettings(faster.terms.clone()))
    );
    assert_eq!(two.read(&two.ping(place(1), two.id)), Err(DecodeError::NotForUs), "one's own words");
}

#[test]
fn a_seal_is_of_everything_that_is_read() {
    let secret = Some("a secret of all members");
    let (one, two) = (speech(1, secret), speech(2, secret));
    let message = one.message(place(1), true, &outgoing(2, "PreVote"));
    assert!(two.read(&message).is_ok());
    let text = String::from_utf8(message).unwrap();
    let drifts = text.replace("\"drift_permille\":", "\"drift_permille\":1");
    assert_ne!(drifts, text);
    assert_eq!(two.read(drifts.as_bytes()), Err(DecodeError::Unsealed), "the rhythm");
    for (from, to) in [
        ("\"0001fe\"", "\"0001ff\""),
        ("\"from\":1", "\"from\":3"),
        ("\"seal\":\"", "\"seal\":\"0"),
        ("\"type\":\"election\"", "\"type\":\"ping\""),
        ("\"priority\":7", "\"priority\":8"),
        ("\"term\":3", "\"term\":4"),
        ("\"kind\":\"PreVote\"", "\"kind\":\"AppendEntries\""),
        ("\"algorithm\":\"raft\"", "\"algorithm\":\"paxos\""),
        ("\"at\":\"0:0000.0000.002A\"", "\"at\":\"0:0000.0000.002B\""),
        ("\"count\":1", "\"count\":2"),
        ("\"echo\":0", "\"echo\":1"),
    ] {
        assert!(text.contains(from));
        assert_eq!(two.read(text.replace(from, to).as_bytes()), Err(DecodeError::Unsealed), "{from}");
    }
    assert_eq!(two.read(&speech(1, None).ping(place(1), two.id)), Err(DecodeError::Unsealed));
    let timeless = one.ping(SenderPosition { stamp: None, ..place(1) }, two.id);
    assert_eq!(two.read(&timeless), Err(DecodeError::Unsealed), "without its place");
    assert_eq!(
        two.read(&speech(1, Some("another secret of others")).ping(place(1), two.id)),
        Err(DecodeError::Unsealed)
    );
}

#[test]
fn nonsense_is_not_heard() {
    let two = speech(2, None);
    let good = String::from_utf8(speech(1, None).message(place(1), true, &outgoing(2, "PreVote"))).unwrap();
    let odd = [
        good.replace("\"0001fe\"", "\"0001f\""),
        good.replace("\"0001fe\"", "\"0001fg\""),
        good.replace("\"from\":1", "\"from\":0"),
        good.replace("\"baton\":2", "\"baton\":3"),
        good.replace("\"election\"", "\"coup\""),
        "{\"type\":\"leader\",\"leader\":\"null\",\"term\":\"xterm\"}".to_string(),
        String::new(),
    ];
    for text in odd {
        assert_ne!(text, good);
        assert_eq!(two.read(text.as_bytes()), Err(DecodeError::Nonsense), "{text}");
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
