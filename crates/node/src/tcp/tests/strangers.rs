//! What is done with those who are no members, or not of this kind.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use frame::{MAGIC, VERSION};
use greeting::Refusal;

#[tokio::test]
async fn who_does_not_know_the_secret_is_not_heard_and_learns_nothing() {
    let mut two = member(options(2, secret(SECRET))).await;
    for trust in [secret("another secret of tests"), Trust::Loopback] {
        let refused = dialled(&two, 2, &caller(1, trust)).await;
        assert!(matches!(refused, Err(GreetError::Refused(Refusal::Unproven))));
    }
    until("both are counted", || two.counters().refused == 2).await;
    assert_eq!(two.counters().received, 0);
    assert_eq!(two.complaints().len(), 1, "it is told once");
    // The other way round: who dials with a secret does not believe one who has none.
    let open = member(options(3, Trust::Loopback)).await;
    assert!(dialled(&open, 3, &caller(1, secret(SECRET))).await.is_err());
}

#[tokio::test]
async fn members_of_other_groups_rhythms_and_algorithms_are_refused_by_name() {
    let two = member(options(2, secret(SECRET))).await;
    let mut other = caller(1, secret(SECRET));
    other.group = "elsewhere".to_string();
    assert!(matches!(dialled(&two, 2, &other).await, Err(GreetError::Refused(Refusal::Group))));
    let ours = caller(1, secret(SECRET));
    let refused = dialled(&two, 7, &ours).await;
    assert!(matches!(refused, Err(GreetError::Refused(Refusal::Id(who))) if who == id(2)));
    let refused = dialled(&two, 2, &caller(2, secret(SECRET))).await;
    assert!(matches!(refused, Err(GreetError::Refused(Refusal::Id(_)))), "it is itself");
    let mut other = caller(1, secret(SECRET));
    other.terms = other_rhythm();
    let error = dialled(&two, 2, &other).await.err().unwrap().to_string();
    assert!(error.contains("150ms to 300ms") && error.contains("must have the same"), "{error}");
    let mut other = caller(1, secret(SECRET));
    other.terms = GroupSettings::new("another", &Timing::LAN);
    assert!(matches!(dialled(&two, 2, &other).await, Err(GreetError::Refused(Refusal::GroupSettings(_)))));
    until("all are counted", || two.counters().refused == 5).await;
}

#[tokio::test]
async fn another_version_is_told_which_one_is_spoken_and_complained_of_once() {
    let mut two = member(options(2, Trust::Loopback)).await;
    for _ in 0..3 {
        let mut stream = TcpStream::connect(two.local()).await.unwrap();
        stream.write_all(&MAGIC).await.unwrap();
        stream.write_u16(VERSION + 1).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, [&MAGIC[..], &VERSION.to_be_bytes()].concat());
    }
    until("all are counted", || two.counters().malformed == 3).await;
    let complaints = two.complaints();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains("version 3 of the protocol is spoken there, and version 2 here"));
}

#[tokio::test]
async fn a_member_that_dials_another_version_says_so_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut one = member(options(1, Trust::Loopback)).await;
    one.reach(&[Peer { id: id(2), address: listener.local_addr().unwrap().to_string() }]);
    for _ in 0..3 {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&[&MAGIC[..], &9_u16.to_be_bytes()].concat()).await.unwrap();
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said).await;
    }
    until("it is noticed", || one.counters().malformed >= 2).await;
    let complaints = one.complaints();
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].contains("version 9"), "{complaints:?}");
}

#[tokio::test]
async fn other_protocols_are_counted() {
    let two = member(options(2, Trust::Loopback)).await;
    let mut stream = TcpStream::connect(two.local()).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until("it is counted", || two.counters().malformed == 1).await;
}

#[tokio::test]
async fn a_crowd_that_says_nothing_keeps_no_member_out() {
    let mut two = member(options(2, secret(SECRET))).await;
    let mut crowd = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(two.local()).await.unwrap();
        // Some begin, and never go on.
        let _ = stream.write_all(&MAGIC[..crowd.len() % 8]).await;
        crowd.push(stream);
    }
    let (_reader, mut writer) = dialled(&two, 2, &caller(1, secret(SECRET))).await.unwrap();
    writer.send(b"through the crowd").await.unwrap();
    assert_eq!(next(&mut two).await.bytes, b"through the crowd");
    until("the crowd has been thinned", || two.counters().refused >= 100).await;
}

#[tokio::test]
async fn who_stops_in_the_middle_of_a_greeting_is_given_up() {
    let two = member(options(2, secret(SECRET))).await;
    let mut stream = TcpStream::connect(two.local()).await.unwrap();
    stream.write_all(&[&MAGIC[..], &VERSION.to_be_bytes(), &[0, 0, 1, 0]].concat()).await.unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(HANG, stream.read_to_end(&mut rest)).await.unwrap();
    assert!(read.is_ok() && rest.len() == 10, "its preamble, and then the end: {rest:?}");
}
