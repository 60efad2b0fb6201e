//! How a server may be reached, and how much of it one may have.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_election::time::Span;
use baton_http_listener::Tls;

use crate::access::AccessLog;
use crate::alerts::Warnings;
use crate::founders::Founders;
use crate::jwt::Jwt;
use crate::traces::Collector;

/// How a server may be reached.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether and as whom it speaks TLS.
    pub tls: Option<Arc<Tls>>,
    /// Everybody must show a token, even on a loopback address. At a Unix socket the kernel says who is there, and no token is needed.
    pub require_tokens: bool,
    /// Whose JWTs it takes, in the place of tokens.
    pub jwt: Option<Arc<Jwt>>,
    /// By what names it is called, beside loopback ones and those in the certificate.
    pub names: Vec<String>,
    /// The keys and the code that make a first operator of a store that has none: by default none.
    pub founders: Arc<Founders>,
    /// How much one may have.
    pub limits: Limits,
    /// What it warns of.
    pub warnings: Warnings,
    /// The collector that traces are sent to.
    pub collector: Option<Collector>,
    /// Where each request is noted.
    pub access_log: Option<Arc<AccessLog>>,
}

impl Options {
    /// Whether everybody must show a token at this address.
    pub fn needs_tokens(&self, address: SocketAddr) -> bool {
        self.require_tokens || self.tls.is_some() || !address.ip().is_loopback()
    }
}

/// How much of a server one caller may have. A caller that asks for more is told so, and when to come again.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Durable commands of one identity in a second, after as many at once.
    pub commands: u32,
    /// Requests without a token of one address, or of one user at the Unix socket, in a second, after as many at once. Probes are not counted.
    pub unauthenticated: u32,
    /// Rows that one token looks at in a second, after as many at once.
    pub reads: u32,
    /// Leases that the streams of one token watch, all together.
    pub watched: usize,
    /// Streams of one token at once.
    pub streams: usize,
    /// Sessions of one token at once; without one, of the agents of one name.
    pub sessions: usize,
    /// Elections that those sessions follow, all together. What is more is not followed.
    pub follows: usize,
    /// Connections of one address at once, of IPv6 of one /64, unless it is a loopback one; at a Unix socket of one user, unless it is
    /// the server's own or root.
    pub peer_connections: usize,
    /// Connections of all at once; the others wait. A server with an address and a socket has half of them at each.
    pub connections: usize,
    /// How long a client may leave an answer or a stream unread.
    pub unread: Duration,
    /// The longest lease that is granted; none for the longest that there is.
    pub lease: Option<Span>,
    /// How much is kept.
    pub quotas: Quotas,
}

/// How much a server keeps: zero for as much as there is. Bytes are those of elections, items and fences, as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotas {
    /// Elections in all.
    pub elections: u64,
    /// Bytes in all.
    pub bytes: u64,
    /// Elections that were begun with one token.
    pub token_elections: u64,
    /// Bytes of the elections that were begun with one token.
    pub token_bytes: u64,
}

impl Quotas {
    /// As much as there is.
    pub fn none() -> Quotas {
        Quotas { elections: 0, bytes: 0, token_elections: 0, token_bytes: 0 }
    }
}

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas { elections: 100_000, bytes: 1 << 30, token_elections: 10_000, token_bytes: 256 << 20 }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            commands: 5_000,
            unauthenticated: 1_000,
            reads: 100_000,
            watched: 5_000,
            streams: 4_096,
            sessions: 10_000,
            follows: 100_000,
            peer_connections: 2_048,
            connections: 16_384,
            unread: Duration::from_secs(30),
            lease: None,
            quotas: Quotas::default(),
        }
    }
}
