//! How a server may be reached, and how much of it one may have.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_door::Tls;

use crate::alerts::Warnings;
use crate::traces::Collector;

/// How a server may be reached.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether and as whom it speaks TLS.
    pub tls: Option<Arc<Tls>>,
    /// Everybody must show a token, even on a loopback address.
    pub require_tokens: bool,
    /// By what names it is called, beside loopback ones and those in the certificate.
    pub names: Vec<String>,
    /// How much one may have.
    pub limits: Limits,
    /// What it warns of.
    pub warnings: Warnings,
    /// Who is sent traces.
    pub collector: Option<Collector>,
}

impl Options {
    /// Whether everybody must show a token where it listens.
    pub fn needs_tokens(&self, address: SocketAddr) -> bool {
        self.require_tokens || self.tls.is_some() || !address.ip().is_loopback()
    }
}

/// How much of a server one may have. Who asks for more is told so, and when to come again.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Durable commands of one identity in a second, after as many at once.
    pub commands: u32,
    /// Streams of one token at once.
    pub streams: usize,
    /// Sessions of one token at once; without one, of the agents of one name.
    pub sessions: usize,
    /// Connections of one address at once, of IPv6 of one /64, unless it is a loopback one.
    pub peer_connections: usize,
    /// Connections of all at once; the others wait.
    pub connections: usize,
    /// How long a client may leave an answer or a stream unread.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            commands: 5_000,
            streams: 4_096,
            sessions: 10_000,
            peer_connections: 2_048,
            connections: 16_384,
            unread: Duration::from_secs(30),
        }
    }
}
