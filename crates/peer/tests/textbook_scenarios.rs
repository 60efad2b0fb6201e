//! An election of each kind, message by message. `UPDATE_EXPECT=1` rewrites the files; read the difference.
#![allow(clippy::unwrap_used, reason = "a test")]

use baton_election::Span;
use baton_peer::bully::Bully;
use baton_peer::ring::Ring;
use baton_peer::{Machine, Term};
use expect_test::expect_file;

use crate::net::{Net, plain};

/// Five members found a group, the leader dies, and comes back.
fn story<M: Machine>() -> String {
    let mut net = Net::<M>::started(plain(5), |_| Term::ZERO);
    net.until_leaders(&[5]);
    net.crash(5);
    net.until_leaders(&[4]);
    net.run(Span::secs(1));
    net.start(5);
    net.run(Span::secs(1));
    assert_eq!(net.leaders().len(), 1);
    net.trace
}

#[test]
fn bully() {
    expect_file!["scenarios/bully.txt"].assert_eq(&story::<Bully>());
}

#[test]
fn ring() {
    expect_file!["scenarios/ring.txt"].assert_eq(&story::<Ring>());
}
