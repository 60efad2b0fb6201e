//! The Pilot transport, against daemons of our own that do what a test says.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use crate::daemon::{Daemon, Network};
use baton_node::{
    GroupSettings, Outgoing, Peer, Pilot, PilotError, PilotOptions, Received, Secret, Transport, flush,
    receive,
};
use baton_peer::{NodeId, Term, Timing};
use tempfile::TempDir;
use tokio::time::timeout;

/// A bound on a hang, not an expectation.
const HANG: Duration = Duration::from_secs(180);
const PORT: u16 = 7_117;

/// Members 1 to 3 are the nodes 11 to 13.
struct Stage {
    folder: TempDir,
    network: Network,
}

fn id(number: u16) -> NodeId {
    NodeId::new(number).unwrap()
}

fn address(number: u16) -> String {
    format!("0:0000.0000.{:04X}", 10 + number)
}

fn others(own: u16) -> Vec<Peer> {
    (1..=3).filter(|n| *n != own).map(|n| Peer { id: id(n), address: address(n) }).collect()
}

impl Stage {
    fn new() -> Stage {
        Stage { folder: TempDir::new().unwrap(), network: Network::default() }
    }

    fn daemon(&self, number: u16) -> Daemon {
        self.network.daemon(self.folder.path(), u32::from(10 + number))
    }

    fn options(&self, number: u16) -> PilotOptions {
        PilotOptions {
            id: id(number),
            priority: 0,
            group: "fleet".to_string(),
            terms: GroupSettings::new("raft", &Timing::AGENTS),
            socket: self.folder.path().join(format!("{}.sock", 10 + number)),
            port: PORT,
            address: address(number).parse().ok(),
            secret: None,
        }
    }

    async fn open(&self, number: u16) -> Pilot {
        let mut pilot = Pilot::open(self.options(number)).await.unwrap();
        pilot.reach(&others(number));
        pilot
    }
}

fn message(to: u16, text: &str) -> Outgoing {
    Outgoing { to: id(to), kind: "AppendEntries", term: Term(4), bytes: text.as_bytes().to_vec() }
}

async fn next(pilot: &mut Pilot) -> Received {
    timeout(HANG, receive(pilot)).await.expect("nothing came").unwrap()
}

/// Sends until the other one hears: a datagram may get lost while a daemon comes back.
async fn until_heard(from: &mut Pilot, to: &mut Pilot, number: u16) -> Received {
    let sending = async {
        loop {
            from.send(message(number, "again"));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        received = next(to) => received,
        () = sending => unreachable!(),
    }
}

#[tokio::test]
async fn a_message_arrives_with_its_sender() {
    let stage = Stage::new();
    let _daemons = [stage.daemon(1), stage.daemon(2)];
    let (mut one, mut two) = (stage.open(1).await, stage.open(2).await);
    one.send(message(2, "hello"));
    assert_eq!(next(&mut two).await, Received { from: id(1), bytes: b"hello".to_vec() });
    timeout(HANG, flush(&mut one)).await.unwrap();
    assert!(one.counters().sent >= 1 && two.counters().received == 1);
    // Signs of life make the two known to each other without a word of the machine.
    let known = async {
        while one.connected() != [id(2)] || two.connected() != [id(1)] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(HANG, known).await.expect("they do not hear each other");
}

#[tokio::test]
async fn who_speaks_from_another_address_is_refused() {
    let stage = Stage::new();
    let _daemons = [stage.daemon(1), stage.daemon(2), stage.daemon(3)];
    let mut two = stage.open(2).await;
    let mut liar = Pilot::open(PilotOptions { id: id(1), address: None, ..stage.options(3) }).await.unwrap();
    liar.reach(&others(1));
    liar.send(message(2, "I am the first"));
    let refused = async {
        while two.counters().refused == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(HANG, refused).await.expect("the liar is heard");
    let complaints = two.complaints().join("; ");
    assert!(complaints.contains("at 0:0000.0000.000D says to be member 1"), "{complaints}");
    let mut one = stage.open(1).await;
    one.send(message(2, "I am"));
    assert_eq!(next(&mut two).await, Received { from: id(1), bytes: b"I am".to_vec() });
}

#[tokio::test]
async fn strangers_and_nonsense_are_counted_and_dropped() {
    let stage = Stage::new();
    let _daemons = [stage.daemon(1), stage.daemon(2)];
    let (mut one, mut two) = (stage.open(1).await, stage.open(2).await);
    for data in [&b"{}"[..], b"", b"\xff\xfe", &[b'['; 60_000]] {
        stage.network.forge(11, 12, PORT, data);
    }
    stage.network.forge(77, 12, PORT, b"{\"type\":\"leader\"}");
    one.send(message(2, "hello"));
    assert_eq!(next(&mut two).await.bytes, b"hello");
    assert_eq!((two.counters().malformed, two.counters().received), (5, 1));
    let complaints = two.complaints().join("; ");
    assert!(complaints.contains("member 1 is not heard"), "{complaints}");
}

#[tokio::test]
async fn who_lacks_the_secret_or_has_another_rhythm_is_not_heard() {
    let stage = Stage::new();
    let _daemons = [stage.daemon(1), stage.daemon(2), stage.daemon(3)];
    let secret = Secret::new("a secret of all members");
    let mut two = Pilot::open(PilotOptions { secret: secret.clone(), ..stage.options(2) }).await.unwrap();
    two.reach(&others(2));
    let mut without = stage.open(1).await;
    without.send(message(2, "let me in"));
    let terms = GroupSettings::new("raft", &Timing::LAN);
    let faster = PilotOptions { secret: secret.clone(), terms, ..stage.options(3) };
    let mut faster = Pilot::open(faster).await.unwrap();
    faster.reach(&others(3));
    faster.send(message(2, "quick"));
    let complained = async {
        let mut all = String::new();
        while !(all.contains("--secret-file") && all.contains("other terms")) {
            all += &two.complaints().join("; ");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(HANG, complained).await.expect("nobody complains");
    assert_eq!(two.counters().received, 0);
}

#[tokio::test]
async fn who_knows_the_secret_may_tell_where_it_is() {
    let stage = Stage::new();
    let _daemons = [stage.daemon(1), stage.daemon(2), stage.daemon(3)];
    let secret = Secret::new("a secret of all members");
    let mut two = Pilot::open(PilotOptions { secret: secret.clone(), ..stage.options(2) }).await.unwrap();
    two.reach(&others(2)[..1]);
    let mut three = Pilot::open(PilotOptions { secret, ..stage.options(3) }).await.unwrap();
    three.reach(&others(3));
    assert_eq!(until_heard(&mut three, &mut two, 2).await.from, id(3));
    assert_eq!(two.addresses(), others(2));
    assert_eq!(until_heard(&mut two, &mut three, 3).await.from, id(2));
    // What its own user says counts more.
    two.reach(&[Peer { id: id(3), address: address(1) }]);
    let refused = two.counters().refused;
    let noticed = async {
        while two.counters().refused == refused {
            three.send(message(2, "I have moved"));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(HANG, noticed).await.expect("it is heard");
}

#[tokio::test]
async fn what_was_said_once_is_not_heard_again() {
    let stage = Stage::new();
    let _daemons = [stage.daemon(1), stage.daemon(2), stage.daemon(3)];
    let options =
        |number| PilotOptions { secret: Secret::new("a secret of all members"), ..stage.options(number) };
    let mut two = Pilot::open(options(2)).await.unwrap();
    let mut one = Pilot::open(options(1)).await.unwrap();
    one.reach(&others(1));
    assert_eq!(until_heard(&mut one, &mut two, 2).await.from, id(1));
    let known = vec![Peer { id: id(1), address: address(1) }];
    assert_eq!(two.addresses(), known, "it told where it is");
    // Everything once more, also from a place of another, in whose hands the messages may have come.
    let again = async |two: &mut Pilot, said: &[Vec<u8>]| {
        // What is still on the way is no repetition.
        let quiet = Duration::from_millis(200);
        while timeout(quiet, receive(two)).await.is_ok() {}
        let before = two.counters();
        for data in said {
            stage.network.forge(11, 12, PORT, data);
            stage.network.forge(13, 12, PORT, data);
        }
        let refused = async {
            while two.counters().refused + two.counters().dropped
                < before.refused + before.dropped + 2 * said.len() as u64
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(HANG, refused).await.expect("some of it was heard");
        assert_eq!(two.counters().received, before.received);
        assert_eq!(two.addresses(), known, "nobody can move it");
    };
    let said = stage.network.delivered(11, 12);
    assert!(said.len() >= 3, "{}", said.len());
    again(&mut two, &said).await;
    // The process ends, and another is that member: its life is believed, the former one is over.
    drop(one);
    let mut one = Pilot::open(options(1)).await.unwrap();
    one.reach(&others(1));
    assert_eq!(until_heard(&mut one, &mut two, 2).await.from, id(1));
    again(&mut two, &said).await;
    assert_eq!(until_heard(&mut one, &mut two, 2).await.from, id(1), "it is still heard");
}

#[tokio::test]
async fn a_daemon_that_comes_back_is_found_again() {
    let stage = Stage::new();
    let first = stage.daemon(1);
    let _second = stage.daemon(2);
    let (mut one, mut two) = (stage.open(1).await, stage.open(2).await);
    one.send(message(2, "before"));
    next(&mut two).await;
    drop(first);
    let noticed = async {
        while one.complaints().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(HANG, noticed).await.expect("the loss is not told");
    one.send(message(2, "into the blue"));
    assert!(one.counters().dropped >= 1, "nothing waits for a daemon that is gone");
    let _first = stage.daemon(1);
    assert_eq!(until_heard(&mut one, &mut two, 2).await.bytes, b"again");
    assert_eq!(one.counters().connections, 2);
}

#[tokio::test]
async fn listeners_of_the_topic_are_told_in_the_words_of_the_skill() {
    let stage = Stage::new();
    let _daemons = [stage.daemon(1), stage.daemon(2)];
    let mut one = stage.open(1).await;
    let told = async {
        // Its first heartbeats as a leader that nobody has answered yet.
        while stage.network.published(11).is_empty() {
            one.send(message(2, ""));
            one.send(Outgoing { kind: "RequestVote", ..message(2, "") });
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        one.leads(Some(Term(4)));
        loop {
            one.send(Outgoing { kind: "RequestVote", ..message(2, "") });
            one.send(message(2, ""));
            tokio::time::sleep(Duration::from_millis(20)).await;
            let published = stage.network.published(11);
            if published.iter().any(|text| text.contains("heartbeat")) {
                return published;
            }
        }
    };
    let published = timeout(HANG, told).await.expect("nothing was published");
    assert_eq!(published[0], r#"{"type":"election","candidate":"11","priority":0,"term":4}"#);
    assert_eq!(published[1], r#"{"type":"leader","leader":"11","term":4}"#);
    assert_eq!(published[2], r#"{"type":"heartbeat","leader":"11","term":4}"#);
    assert_eq!(published.len(), 3, "not every message is announced: {published:?}");
}

#[tokio::test]
async fn why_a_member_is_not_on_the_network_is_said() {
    let stage = Stage::new();
    let missing = Pilot::open(stage.options(1)).await.err().unwrap();
    assert!(matches!(missing, PilotError::Unreachable { .. }), "{missing}");
    let _daemon = stage.daemon(1);
    let elsewhere = PilotOptions { address: address(2).parse().ok(), ..stage.options(1) };
    let elsewhere = Pilot::open(elsewhere).await.err().unwrap();
    assert!(matches!(elsewhere, PilotError::Elsewhere { .. }), "{elsewhere}");
    let _first = stage.open(1).await;
    let second = Pilot::open(stage.options(1)).await.err().unwrap();
    assert!(matches!(second, PilotError::Port(PORT, _)), "{second}");
}
