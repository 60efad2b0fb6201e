//! Members over real sockets on loopback, and those who pretend to be.
#![allow(clippy::unwrap_used, reason = "tests")]

mod frames;
mod members;
mod strangers;

use std::time::Duration;

use baton_election::Span;
use tokio::net::TcpStream;

use super::*;
use crate::control;
use crate::transport::receive;
use greeting::GreetError;
use line::{Reader, Writer};

/// A bound on a hang.
pub(super) const HANG: Duration = Duration::from_secs(180);

pub(super) fn id(number: u16) -> NodeId {
    NodeId::new(number).unwrap()
}

pub(super) fn secret(text: &str) -> Trust {
    Trust::Secret(Secret::new(text).unwrap())
}

pub(super) const SECRET: &str = "a secret of these tests";

pub(super) fn options(number: u16, trust: Trust) -> TcpOptions {
    TcpOptions {
        id: id(number),
        group: "test".to_string(),
        terms: GroupSettings::new("toy", &Timing::LAN),
        timing: Timing::LAN,
        listen: "127.0.0.1:0".parse().unwrap(),
        advertise: None,
        trust,
    }
}

/// A member that listens and dials nobody.
pub(super) async fn member(options: TcpOptions) -> Tcp {
    // Nobody asks here.
    let (control_handle, _) = control::control_channel();
    Tcp::open(options, control_handle).await.unwrap()
}

pub(super) fn at(member: &Tcp, number: u16) -> Peer {
    Peer { id: id(number), address: member.local().to_string() }
}

pub(super) fn message(to: u16, bytes: &[u8]) -> Outgoing {
    Outgoing { to: id(to), kind: "toy", term: baton_peer::Term(1), bytes: bytes.to_vec() }
}

pub(super) async fn next(member: &mut Tcp) -> Received {
    tokio::time::timeout(HANG, receive(member)).await.unwrap().unwrap()
}

/// Waits for a condition, with a bound on a hang.
pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(HANG, async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    assert!(waited.await.is_ok(), "never happened: {what}");
}

/// What somebody says who dials by hand.
pub(super) fn caller(number: u16, trust: Trust) -> Greeter {
    let options = options(number, trust);
    Greeter {
        caller: Caller::Member(options.id),
        group: options.group,
        terms: options.terms,
        advertise: String::new(),
        life: 1,
        trust: options.trust,
    }
}

/// Dials by hand.
pub(super) async fn dialled(to: &Tcp, number: u16, me: &Greeter) -> Result<(Reader, Writer), GreetError> {
    let stream = TcpStream::connect(to.local()).await.unwrap();
    greeting::dial(Box::new(stream), me, id(number)).await
}

/// The rhythm of agents, but for one length.
pub(super) fn other_rhythm() -> GroupSettings {
    GroupSettings::new("toy", &Timing { timeout_max: Span::millis(301), ..Timing::LAN })
}
