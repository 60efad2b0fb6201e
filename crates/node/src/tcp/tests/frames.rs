//! What is done with frames that are not what they should be.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::codec;

/// A stream that keeps what goes through it.
async fn recorded(from: &mut TcpStream, to: &mut TcpStream, bytes: usize, kept: &mut Vec<u8>) {
    let mut buffer = vec![0; bytes];
    from.read_exact(&mut buffer).await.unwrap();
    to.write_all(&buffer).await.unwrap();
    kept.extend(buffer);
}

/// How many bytes the two sides say while they greet each other: both preambles, and two frames each.
async fn pass_greeting_on(dialler: &mut TcpStream, member: &mut TcpStream, kept: &mut Vec<u8>) {
    recorded(dialler, member, 10, kept).await;
    pass_frame_on(dialler, member, 0, kept).await;
    let mut ignored = Vec::new();
    recorded(member, dialler, 10, &mut ignored).await;
    pass_frame_on(member, dialler, 0, &mut ignored).await;
    pass_frame_on(dialler, member, 0, kept).await;
    pass_frame_on(member, dialler, 0, &mut ignored).await;
}

async fn pass_frame_on(from: &mut TcpStream, to: &mut TcpStream, tail: usize, kept: &mut Vec<u8>) {
    let length = from.read_u32().await.unwrap();
    to.write_u32(length).await.unwrap();
    kept.extend(length.to_be_bytes());
    recorded(from, to, usize::try_from(length).unwrap() + tail, kept).await;
}

/// Somebody between member 1, who dials, and member 2: it sees all and can say anything.
async fn between() -> (Tcp, TcpStream, TcpStream, Vec<u8>, Writer) {
    let two = member(options(2, secret(SECRET))).await;
    let middle = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to_middle = TcpStream::connect(middle.local_addr().unwrap()).await.unwrap();
    let (mut dialler, _) = middle.accept().await.unwrap();
    let mut listener = TcpStream::connect(two.local()).await.unwrap();
    let me = caller(1, secret(SECRET));
    let greeted = tokio::spawn(async move { greeting::dial(Box::new(to_middle), &me, id(2)).await });
    let mut kept = Vec::new();
    pass_greeting_on(&mut dialler, &mut listener, &mut kept).await;
    let Ok((reader, writer)) = greeted.await.unwrap() else { panic!("they know each other") };
    // Kept open until the test ends.
    std::mem::forget(reader);
    (two, dialler, listener, kept, writer)
}

#[tokio::test]
async fn a_message_that_was_changed_on_the_way_ends_the_connection() {
    let (mut two, mut dialler, mut listener, _, mut writer) = between().await;
    writer.send(b"as it was").await.unwrap();
    pass_frame_on(&mut dialler, &mut listener, 32, &mut Vec::new()).await;
    assert_eq!(next(&mut two).await.bytes, b"as it was");
    writer.send(b"to be changed").await.unwrap();
    let mut frame = vec![0; 4 + 13 + 32];
    dialler.read_exact(&mut frame).await.unwrap();
    frame[6] ^= 1;
    listener.write_all(&frame).await.unwrap();
    until("it is refused", || two.counters().refused == 1).await;
    assert_eq!(two.counters().received, 1);
}

#[tokio::test]
async fn a_message_is_not_taken_twice() {
    let (mut two, mut dialler, mut listener, _, mut writer) = between().await;
    writer.send(b"once").await.unwrap();
    let mut frame = Vec::new();
    pass_frame_on(&mut dialler, &mut listener, 32, &mut frame).await;
    assert_eq!(next(&mut two).await.bytes, b"once");
    listener.write_all(&frame).await.unwrap();
    until("it is refused", || two.counters().refused == 1).await;
    assert_eq!(two.counters().received, 1);
}

#[tokio::test]
async fn a_greeting_that_was_overheard_is_worth_nothing_later() {
    let (two, _dialler, _listener, kept, _writer) = between().await;
    let mut again = TcpStream::connect(two.local()).await.unwrap();
    again.write_all(&kept).await.unwrap();
    until("it is refused", || two.counters().refused == 1).await;
    assert_eq!(two.counters().received, 0);
}

#[tokio::test]
async fn a_frame_that_is_too_large_is_not_read() {
    let two = member(options(2, Trust::Loopback)).await;
    let mut stream = TcpStream::connect(two.local()).await.unwrap();
    greet_by_hand(&mut stream).await;
    stream.write_u32(u32::MAX).await.unwrap();
    until("it is counted", || two.counters().oversized == 1).await;
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).await.is_ok_and(|read| read == 0), "the connection has ended");
}

#[tokio::test]
async fn a_connection_that_is_half_closed_or_cut_off_ends_without_a_message() {
    let mut two = member(options(2, Trust::Loopback)).await;
    for partial in [&[][..], &[0, 0], &[0, 0, 0, 9, 1, 2]] {
        let mut stream = TcpStream::connect(two.local()).await.unwrap();
        greet_by_hand(&mut stream).await;
        stream.write_all(partial).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        assert!(stream.read_to_end(&mut rest).await.is_ok_and(|read| read == 0), "{partial:?}");
    }
    let (_reader, mut writer) = dialled(&two, 2, &caller(1, Trust::Loopback)).await.unwrap();
    writer.send(b"whole").await.unwrap();
    assert_eq!(next(&mut two).await.bytes, b"whole");
    assert_eq!(two.counters().received, 1);
}

/// Greets as member 1 on a connection without proofs, and leaves the stream in our hands.
async fn greet_by_hand(stream: &mut TcpStream) {
    let mut hello = Vec::new();
    let fields = (
        Caller::Member(id(1)),
        id(2),
        "test",
        GroupSettings::new("toy", &Timing::LAN),
        "",
        1_u64,
        [7_u8; 32],
    );
    hello.extend(codec::encode(&fields).unwrap());
    frame::write_preamble(stream).await.unwrap();
    frame::write_frame(stream, &hello, &[]).await.unwrap();
    frame::read_preamble(stream).await.unwrap();
    frame::read_frame(stream).await.unwrap();
    frame::write_frame(stream, &[], &[]).await.unwrap();
    frame::read_frame(stream).await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is said, whole or in part, the door stands: there is an answer or an end, and no member.
    #[test]
    fn nonsense_makes_no_member(noise in prop::collection::vec(any::<u8>(), 0..400), right in 0..4_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (ours, mut theirs) = tokio::io::duplex(1 << 16);
            let me = caller(2, secret(SECRET));
            let mut said = Vec::new();
            // The first parts may be right.
            if right > 0 {
                said.extend([&frame::MAGIC[..], &frame::VERSION.to_be_bytes()].concat());
            }
            if right > 1 {
                said.extend(u32::try_from(noise.len()).unwrap().to_be_bytes());
            }
            if right > 2 {
                let fields = (Caller::Member(id(1)), id(2), "test", GroupSettings::new("toy", &Timing::LAN), "", 1_u64, [7_u8; 32]);
                let hello = codec::encode(&fields).unwrap();
                said.truncate(10);
                said.extend(u32::try_from(hello.len()).unwrap().to_be_bytes());
                said.extend(hello);
            }
            said.extend(&noise);
            theirs.write_all(&said).await.unwrap();
            theirs.shutdown().await.unwrap();
            let greeted = greeting::accept(Box::new(ours), &me, id(2)).await;
            assert!(greeted.is_err());
        });
    }
}
