//! One place for a team's elections: decided in memory at full speed, kept durably, reachable over HTTP.
//!
//! Guarantees what every store does, and that whatever it answered survives its death, except for the counts of plain renewals.
//! Every start, and every stall of over a second, gives each running lease its full length anew, so that a crash never shortens one.
//! Does not guarantee that leases end while the server is down: they end later.

mod engine;
mod http;
mod store;

use std::net::SocketAddr;
use std::sync::Arc;

use baton_store::{Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use engine::{Engine, Event, News, Subscription, View};

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    service: Arc<http::Service>,
    address: SocketAddr,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why not.
        error: std::io::Error,
    },
    /// Others than this machine's users could reach it.
    #[error("{0} can be reached from other machines, and this server knows neither tokens nor TLS yet")]
    NotLoopback(SocketAddr),
}

impl Server {
    /// Starts to listen, on a loopback address.
    pub async fn start(address: SocketAddr, store: Arc<dyn Store>) -> Result<Server, StartError> {
        if !address.ip().is_loopback() {
            return Err(StartError::NotLoopback(address));
        }
        let refused = |error| StartError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let engine = Engine::start(store).await?;
        Ok(Server { listener, service: Arc::new(http::Service::new(engine, address)), address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What decides.
    pub fn engine(&self) -> &Engine {
        &self.service.engine
    }

    /// Answers requests until told to stop; those under way are answered first.
    pub async fn serve(self, stop: watch::Receiver<bool>) {
        http::serve(self.listener, self.service, stop).await;
    }
}
