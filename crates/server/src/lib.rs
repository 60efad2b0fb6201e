//! One place for a team's elections: decided in memory at full speed, kept durably, reachable over HTTP.
//!
//! Guarantees what every store does, and that whatever it answered survives its death, except for the counts of plain renewals.
//! Every start, and every stall of over a second, gives each running lease its full length anew, so that a crash never shortens one.
//! Does not guarantee that leases end while the server is down: they end later.

mod alerts;
mod candidates;
mod cluster;
mod engine;
mod http;
mod metrics;
mod options;
mod own_lease;
mod sessions;
mod sign_ins;
mod store;
mod tokens;
mod toolbox;
mod traces;
mod webhooks;

use std::net::SocketAddr;
use std::sync::Arc;

use baton_store::{Deletion, Store, StoreError};
use cluster::{Cluster, Heralds};
use own_lease::OwnLease;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use alerts::{Rate, Thresholds, Warnings};
pub use baton_door::{Tls, TlsError};
pub use cluster::{Membership, Turned};
pub use engine::{Engine, Event, Leads, News, Subscription, View};
pub use options::{Limits, Options};
pub use traces::Collector;
pub use webhooks::{Deliveries, Pauses, Receiver, Secret, Tell};

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    front: Arc<http::Front>,
    address: SocketAddr,
    serves: Serves,
}

/// Whether it is alone with its store, or one of several.
enum Serves {
    Alone(Arc<http::Service>),
    InTurn(Box<Cluster>),
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
    /// Others than this server could write the store.
    #[error("{0} can be written by others, and a server must be alone with its elections")]
    Shared(String),
    /// It is no place for records.
    #[error("{0} keeps no records that servers could share")]
    NoRecords(String),
    /// Others than this machine's users could reach it, and read what is sent.
    #[error("{0} can be reached from other machines, and there is no TLS")]
    NoTls(SocketAddr),
    /// Everybody must show a token, and there is none.
    #[error("everybody must show a token, and {0} has none")]
    NoTokens(String),
}

impl Server {
    /// Takes an address, before anything else is done. One that is not a loopback one takes TLS.
    pub async fn listen(address: SocketAddr, options: &Options) -> Result<TcpListener, StartError> {
        if !address.ip().is_loopback() && options.tls.is_none() {
            return Err(StartError::NoTls(address));
        }
        TcpListener::bind(address).await.map_err(|error| StartError::Listen { address, error })
    }

    /// Serves elections in a store that nobody else can write meanwhile.
    ///
    /// Everybody must show a token, unless it listens at a loopback address, without TLS, and was not told to ask for one.
    pub async fn start(
        listener: TcpListener,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Server, StartError> {
        if store.decider().is_some() || store.strengths().deletion != Deletion::Impossible {
            return Err(StartError::Shared(store.location()));
        }
        let address = address_of(&listener)?;
        let register = register(&*store, address, &options).await?;
        let engine = Engine::start(store).await?;
        let service =
            Arc::new(http::Service::new(engine, OwnLease::not_needed(), address, register, options.clone()));
        let front = Arc::new(http::Front::alone(Arc::clone(&service), options));
        Ok(Server { listener, front, address, serves: Serves::Alone(service) })
    }

    /// Serves elections in a store that other servers serve too: one is active at a time, and the others say which. `tell` is told of its
    /// turns. Who must show a token is as for one that is alone.
    pub async fn join(
        listener: TcpListener,
        store: Arc<dyn Store>,
        options: Options,
        membership: Membership,
        tell: impl Fn(Turned) + Send + Sync + 'static,
    ) -> Result<Server, StartError> {
        if store.decider().is_some() || store.native().is_some() {
            return Err(StartError::NoRecords(store.location()));
        }
        let address = address_of(&listener)?;
        let register = register(&*store, address, &options).await?;
        let front = Arc::new(http::Front::one_of_several(options.clone()));
        let door = cluster::Door { front: Arc::clone(&front), address, register, options };
        let cluster = Cluster::join(store, membership, door, Box::new(tell)).await?;
        Ok(Server { listener, front, address, serves: Serves::InTurn(Box::new(cluster)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells others of every change of leader, until what is returned is dropped; one of several servers, while it is the active one.
    pub fn tell(&mut self, receivers: Vec<Receiver>, tell: Tell) -> Option<Deliveries> {
        match &mut self.serves {
            Serves::Alone(service) => {
                Some(Deliveries::start(&service.engine, service.alerts(), service.run(), receivers, &tell))
            }
            Serves::InTurn(cluster) => {
                cluster.heralds = Some(Heralds { receivers, tell });
                None
            }
        }
    }

    /// Answers requests until it is to stop; those under way are answered first, and who waits or watches is let go.
    pub async fn serve(self, until: impl Future<Output = ()>) {
        let stop = watch::Sender::new(false);
        let (turns, alone) = match self.serves {
            Serves::Alone(service) => (None, Some(service)),
            Serves::InTurn(cluster) => (Some(tokio::spawn(cluster.take_turns(stop.subscribe()))), None),
        };
        http::serve(self.listener, self.front, until).await;
        if let Some(service) = alone {
            service.last_words().await;
        }
        stop.send_replace(true);
        if let Some(turns) = turns {
            let _ = turns.await;
        }
    }
}

fn address_of(listener: &TcpListener) -> Result<SocketAddr, StartError> {
    let unbound = SocketAddr::from(([127, 0, 0, 1], 0));
    listener.local_addr().map_err(|error| StartError::Listen { address: unbound, error })
}

/// Who is let in at this address. Where everybody must show a token, there must be one.
async fn register(
    store: &dyn Store,
    address: SocketAddr,
    options: &Options,
) -> Result<Arc<http::Register>, StartError> {
    if !address.ip().is_loopback() && options.tls.is_none() {
        return Err(StartError::NoTls(address));
    }
    let needed = options.needs_tokens(address);
    let register = Arc::new(http::Register::new(&tokens::read(store).await?, needed));
    if needed && register.is_empty() {
        return Err(StartError::NoTokens(store.location()));
    }
    Ok(register)
}
