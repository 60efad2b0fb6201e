//! One place for a team's elections: decided in memory at full speed, kept durably, reachable over HTTP.
//!
//! Guarantees what every store does, and that whatever it answered survives its death, except for the counts of plain renewals.
//! Every start gives each running lease its full length anew, so that a crash never shortens one; a stall of over a second does not count.
//! Does not guarantee that leases end while the server is down: they end later.

mod access;
mod alerts;
mod candidates;
mod census;
mod cluster;
mod engine;
mod engine_store;
mod founders;
mod give_back;
mod http;
mod jwt;
mod metrics;
mod options;
mod own_lease;
mod sessions;
mod sign_ins;
mod socket;
mod tokens;
mod toolbox;
mod traces;
mod webhooks;

/// Entry points for `fuzz/`: what anybody may send.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    pub use crate::http::fuzzing::{batches, bodies, routes};

    /// Verifies a JWT, and reads a file of keys.
    pub fn jwt(data: &[u8]) {
        crate::jwt::fuzz(data);
    }
}

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use baton_store::{Deletion, Store, StoreError};
use cluster::{Cluster, Heralds};
use own_lease::OwnLease;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use access::AccessLog;
pub use alerts::{Rate, Thresholds, Warnings};
pub use baton_http_listener::{Tls, TlsError};
pub use cluster::{Membership, RoleChange};
pub use engine::{ChangeNotice, Engine, Event, Leads, Subscription, View};
pub use founders::Founders;
pub use give_back::{GiveBackError, give_back};
pub use jwt::{Jwt, JwtError, Rules as JwtRules};
pub use options::{Limits, Options, Quotas};
pub use socket::{Socket, SocketError};
pub use traces::Collector;
pub use webhooks::{Deliveries, Pauses, Receiver, Secret, Tell};

/// A server that listens.
pub struct Server {
    listening: Listeners,
    serving: Arc<http::ServingRole>,
    serves: Serves,
}

/// Where a server listens: at an address, at a Unix socket, or at both.
#[derive(Debug)]
pub struct Listeners {
    address: Option<TcpListener>,
    socket: Option<Socket>,
}

impl From<TcpListener> for Listeners {
    fn from(listener: TcpListener) -> Listeners {
        Listeners { address: Some(listener), socket: None }
    }
}

impl From<Socket> for Listeners {
    fn from(socket: Socket) -> Listeners {
        Listeners { address: None, socket: Some(socket) }
    }
}

impl Listeners {
    /// The same, and at this socket.
    #[must_use]
    pub fn and(self, socket: Socket) -> Listeners {
        Listeners { socket: Some(socket), ..self }
    }

    /// The address, if it listens at one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.bound().ok().flatten()
    }

    /// The same, where an address that is not known must not be taken for none.
    fn bound(&self) -> Result<Option<SocketAddr>, StartError> {
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let bound = self.address.as_ref().map(TcpListener::local_addr).transpose();
        bound.map_err(|error| StartError::Listen { address: unknown, error })
    }

    /// The path of the socket, if it listens at one.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_ref().map(Socket::path)
    }

    /// As URLs by which clients name it: the address, then the socket.
    pub fn places(&self, secure: bool) -> Vec<String> {
        let scheme = if secure { "https" } else { "http" };
        let address = self.address().map(|address| format!("{scheme}://{address}"));
        let socket = self.socket().map(|path| format!("unix:{}", path.display()));
        address.into_iter().chain(socket).collect()
    }
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
    /// Everybody must show a token at its address, unless that is a loopback one, without TLS, and it was not told to ask for one. At its socket
    /// its own user and root need none, and nobody else is let in.
    pub async fn start(
        listening: impl Into<Listeners>,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Server, StartError> {
        if store.properties().deletion != Deletion::Impossible {
            return Err(StartError::Shared(store.location()));
        }
        let listening = listening.into();
        let register = register(&*store, &listening, &options).await?;
        let (engine, place) = (Engine::start(store).await?, place(&listening, &options));
        let service =
            Arc::new(http::Service::new(engine, OwnLease::not_needed(), place, register, options.clone()));
        let serving = Arc::new(http::ServingRole::alone(Arc::clone(&service), options));
        Ok(Server { listening, serving, serves: Serves::Alone(service) })
    }

    /// Serves elections in a store that other servers serve too: one is active at a time, and the others say
    /// which. `tell` is told of its turns. The rules on which clients must show a token are those of a server
    /// that is alone.
    ///
    /// The first command that changes an election takes it over: from then on servers decide on it, and clients of the store are refused. What is
    /// only looked at is left as it is. [`give_back`] is the way back.
    pub async fn join(
        listening: impl Into<Listeners>,
        store: Arc<dyn Store>,
        options: Options,
        membership: Membership,
        tell: impl Fn(RoleChange) + Send + Sync + 'static,
    ) -> Result<Server, StartError> {
        let listening = listening.into();
        let register = register(&*store, &listening, &options).await?;
        let serving = Arc::new(http::ServingRole::one_of_several(options.clone()));
        let place = place(&listening, &options);
        let parts = cluster::ServerParts { serving: Arc::clone(&serving), place, register, options };
        let cluster = Cluster::join(store, membership, parts, Box::new(tell)).await?;
        Ok(Server { listening, serving, serves: Serves::InTurn(Box::new(cluster)) })
    }

    /// Shows the elections of a store that others decide, and changes nothing in it. It listens at a loopback address; everybody may look, and
    /// nobody may do more.
    pub async fn observe(
        listener: TcpListener,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Result<Server, StartError> {
        let listening = Listeners::from(listener);
        if let Some(address) = listening.bound()?.filter(|address| !address.ip().is_loopback()) {
            return Err(StartError::NoTls(address));
        }
        let register = Arc::new(http::Register::of_onlookers());
        let (engine, place) = (Engine::observe(store).await?, place(&listening, &options));
        let service =
            Arc::new(http::Service::new(engine, OwnLease::not_needed(), place, register, options.clone()));
        let serving = Arc::new(http::ServingRole::alone(Arc::clone(&service), options));
        Ok(Server { listening, serving, serves: Serves::Alone(service) })
    }

    /// Where it listens.
    pub fn listening(&self) -> &Listeners {
        &self.listening
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

    /// Answers requests until `until` is ready, then shuts down gracefully: finishes requests in flight, closes waits and streams.
    pub async fn serve(self, until: impl Future<Output = ()>) {
        let stop = watch::Sender::new(false);
        let (turns, alone) = match self.serves {
            Serves::Alone(service) => (None, Some(service)),
            Serves::InTurn(cluster) => (Some(tokio::spawn(cluster.serve_terms(stop.subscribe()))), None),
        };
        http::serve(self.listening, self.serving, until).await;
        if let Some(service) = alone {
            service.last_words().await;
        }
        stop.send_replace(true);
        if let Some(turns) = turns {
            let _ = turns.await;
        }
    }
}

/// Where it listens, for people.
fn place(listening: &Listeners, options: &Options) -> String {
    listening.places(options.tls.is_some()).join(" and ")
}

/// The register of the tokens that are let in. Where everybody must show a token at the address, there must
/// be one.
async fn register(
    store: &dyn Store,
    listening: &Listeners,
    options: &Options,
) -> Result<Arc<http::Register>, StartError> {
    let address = listening.bound()?;
    if let Some(address) = address.filter(|address| !address.ip().is_loopback() && options.tls.is_none()) {
        return Err(StartError::NoTls(address));
    }
    let needed = address.is_some_and(|address| options.needs_tokens(address));
    let register = Arc::new(http::Register::new(&tokens::read(store).await?, needed, options.jwt.clone()));
    if needed && register.is_empty() {
        return Err(StartError::NoTokens(store.location()));
    }
    Ok(register)
}
