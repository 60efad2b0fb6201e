//! What a daemon, or a member behind it, may send.

use baton_peer::{NodeId, Timing};

use super::envelope::MessageCodec;
use super::frame::Reply;
use crate::tcp::{GroupSettings, Secret};

/// Takes frames off a stream until no whole one is left.
pub(crate) fn replies(data: &[u8]) {
    let mut read = data.to_vec();
    while let Ok(Some(_reply)) = Reply::take(&mut read) {}
    assert!(read.len() <= data.len(), "nothing is added");
}

/// Reads a datagram, with a shared secret and without. Nobody without the secret is heard where there is one.
pub(crate) fn datagram(data: &[u8]) {
    let Ok(id) = NodeId::new(2) else { return };
    let terms = GroupSettings::new("raft", &Timing::LAN);
    let open = MessageCodec { id, priority: 1, group: "g".to_string(), terms, secret: None };
    let _ = open.read(data);
    let sealed = MessageCodec { secret: Secret::new("a secret of at least sixteen bytes"), ..open };
    assert!(sealed.secret.is_some(), "the secret is long enough");
    assert!(sealed.read(data).is_err(), "a message without the secret was heard");
}
