//! A reverse proxy in front of something that only a leader may change: reads pass, writes need a current token.
//!
//! Assumes that the upstream is reached through guards only, and that whatever it changes on a read (GET, HEAD, OPTIONS without a body)
//! matters to nobody. Guarantees that writes reach the upstream in the order of their tokens, as the module `gate` says precisely: what is passed on for one
//! leader has ended before anything is for the next. Does not guarantee who shows a token: it is a number, and no secret. A
//! guard keeps out a leader that does not know that it is past, not one that lies.

mod cohort;
mod forward;
mod gate;
mod keeper;
mod look;
mod problem;
mod request;
mod serve;
mod upload;
mod upstream;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton::election::{ElectionName, ResourceName};
use baton::{Coordinator, Decides, Error};
use baton_http_listener::Peers;
pub use baton_http_listener::{Tls, TlsError};
use tokio::net::TcpListener;

use gate::Gate;
use upstream::Upstream;

/// What a guard is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is guarded: `http://HOST[:PORT][/PATH]` or `https://…`.
    pub upstream: String,
    /// The certificates that an upstream's is checked by, in PEM form; else the system's.
    pub authority: Option<PathBuf>,
    /// Whose leader may write.
    pub election: ElectionName,
    /// The fence that is asked. Guards of one upstream have one.
    pub resource: ResourceName,
    /// How long a write with a new token waits for those of the former.
    pub drain: Duration,
    /// How long one request may take, until its answer begins; for a write, until it ends.
    pub limit: Duration,
    /// Whether and as whom it speaks TLS.
    pub tls: Option<Arc<Tls>>,
    /// How many connections of one address it serves at once, of IPv6 of one /64.
    pub peer_connections: usize,
}

/// A guard that listens.
pub struct Guard {
    listener: TcpListener,
    address: SocketAddr,
    service: Arc<serve::Service>,
}

/// Why a guard did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The address of `--listen`.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// The upstream is not one.
    #[error("`{url}` cannot be guarded: {why}")]
    Upstream {
        /// The URL that was given.
        url: String,
        /// Why not.
        why: String,
    },
    /// No certificate can be checked.
    #[error("{0}")]
    Certificates(String),
    /// The resource is bound to another election.
    #[error("the resource `{resource}` belongs to the election `{election}`")]
    Bound {
        /// The resource of `--resource`.
        resource: ResourceName,
        /// The one that it is bound to.
        election: ElectionName,
    },
    /// The store has no fences.
    #[error("{0} has no fences")]
    NoFences(String),
    /// Something else failed.
    #[error("{0}")]
    Other(#[from] Error),
}

impl Guard {
    /// Takes an address, before anything else is done.
    pub async fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
        TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })
    }

    /// Begins to guard. A store that is out of reach is waited for: reads pass meanwhile.
    pub async fn start(
        listener: TcpListener,
        coordinator: Coordinator,
        settings: Settings,
    ) -> Result<Guard, StartError> {
        let unbound = SocketAddr::from(([0, 0, 0, 0], 0));
        let address =
            listener.local_addr().map_err(|error| StartError::Listen { address: unbound, error })?;
        if coordinator.decides() == Decides::Store {
            return Err(StartError::NoFences(coordinator.backend().location()));
        }
        let holder = baton::mint_credential()?;
        // Not the incarnation of its hold: every client of the upstream can read this name.
        let name = format!("baton-{}", baton::mint_credential()?.incarnation);
        let upstream = Upstream::new(&settings.upstream, settings.authority.as_ref(), name)?;
        if let Ok(Some(found)) = coordinator.fences().get(&settings.resource).await
            && found.fence.election != settings.election
        {
            return Err(StartError::Bound { resource: settings.resource, election: found.fence.election });
        }
        let gate = Gate::new(coordinator, settings.election, settings.resource, holder, settings.drain).await;
        let (gate, upstream) = (Arc::new(gate), Arc::new(upstream));
        let peers = Peers::new(settings.peer_connections);
        let service = serve::Service { gate, upstream, limit: settings.limit, tls: settings.tls, peers };
        Ok(Guard { listener, address, service: Arc::new(service) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Guards until it is to stop; requests under way end first.
    pub async fn serve(self, until: impl Future<Output = ()>) {
        serve::serve(self.listener, self.service, until).await;
    }
}
