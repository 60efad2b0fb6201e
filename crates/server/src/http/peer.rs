//! The peer at the other end of a connection, as far as the connection itself tells.
//!
//! This is decided once for each connection, before any request is read. `identity.rs` turns it, together with the headers of a request,
//! into what the request may do.

use std::fmt;
use std::net::IpAddr;

use baton_http_listener::Origin;
use http::StatusCode;

use super::reply::Problem;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Somebody at this address, over TCP.
    Address(IpAddr),
    /// A user of this machine, over the Unix socket. The kernel says which.
    User { uid: u32, admitted: bool },
}

impl Peer {
    /// A user at a socket of this owner: the owner and root are admitted, and nobody else.
    pub(super) fn of_user(uid: u32, owner: u32) -> Peer {
        Peer::User { uid, admitted: uid == 0 || uid == owner }
    }

    /// Refuses a user whom the socket is not for, whatever it asks and shows.
    pub(super) fn check(&self) -> Result<(), Problem> {
        match self {
            Peer::User { uid, admitted: false } => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "forbidden",
                format!(
                    "the user {uid} may not use this socket: it is for the server's own user and for root"
                ),
                "run as the server's user, or use the server's address with a token",
            )),
            Peer::User { admitted: true, .. } | Peer::Address(_) => Ok(()),
        }
    }

    /// Whether its connections are unlimited: it could stop the server anyway, or is as near as an agent gets.
    pub(super) fn is_near(&self) -> bool {
        match self {
            Peer::Address(address) => address.is_loopback(),
            Peer::User { admitted, .. } => *admitted,
        }
    }

    /// What its budgets are counted by.
    pub(super) fn origin(&self) -> Origin {
        match self {
            Peer::Address(address) => (*address).into(),
            Peer::User { uid, .. } => Origin::User(*uid),
        }
    }

    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Peer::Address(address) => Some(*address),
            Peer::User { .. } => None,
        }
    }

    pub(super) fn uid(&self) -> Option<u32> {
        match self {
            Peer::Address(_) => None,
            Peer::User { uid, .. } => Some(*uid),
        }
    }
}

/// As people see it, in the last use of a token.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Address(address) => address.fmt(f),
            Peer::User { uid, .. } => write!(f, "uid {uid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_for_its_owner_and_for_root() {
        for (uid, owner, admitted) in
            [(1_000, 1_000, true), (0, 1_000, true), (0, 0, true), (1_001, 1_000, false), (1_000, 0, false)]
        {
            let peer = Peer::of_user(uid, owner);
            assert_eq!(peer.check().is_ok(), admitted, "the user {uid} at a socket of {owner}");
            assert_eq!(peer.is_near(), admitted, "strangers have few connections");
        }
        let refused = Peer::of_user(7, 1_000).check().unwrap_err().to_value();
        assert_eq!((&refused["status"], &refused["code"]), (&403.into(), &"forbidden".into()));
        assert!(refused["detail"].as_str().unwrap().starts_with("the user 7 may not use this socket"));
    }

    #[test]
    fn users_have_budgets_of_their_own() {
        let [one, other] = [1, 2].map(|uid| Peer::of_user(uid, 1).origin());
        assert!(one != other && one != Peer::Address([127, 0, 0, 1].into()).origin());
    }
}
