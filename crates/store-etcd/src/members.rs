//! The members of an etcd, one of which is asked until it fails.
//!
//! Clients begin with a member chosen at random, so that they spread, and go on to the next when one is down, silent, or
//! cut off from the others. A connection is made when it is first needed, and anew after one was silent.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use baton_store::StoreError;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::open::{Settings, Tls};

/// How long a connection may take to come about, where there is no other member.
const CONNECT_ONLY: Duration = Duration::from_secs(5);
/// The same where there is.
const CONNECT: Duration = Duration::from_secs(2);
/// How often a connection in use that says nothing is asked for a sign of life. etcd hangs up on whoever asks more
/// often than every 5 s.
const PING_EVERY: Duration = Duration::from_secs(6);
/// How long that sign may take.
const PING_WITHIN: Duration = Duration::from_secs(3);

/// All of them.
pub(crate) struct Members {
    list: Vec<Member>,
    current: AtomicUsize,
}

struct Member {
    name: String,
    endpoint: Endpoint,
    channel: Mutex<Channel>,
    /// Whether the channel is to be made anew.
    stale: AtomicBool,
}

/// One of them, for one request.
#[derive(Clone)]
pub(crate) struct MemberHandle {
    /// Its place in the list.
    pub(crate) index: usize,
    /// `host:port`.
    pub(crate) name: String,
    /// The way to it.
    pub(crate) channel: Channel,
}

impl Members {
    /// The members that a store's name lists. Connects to none.
    pub(crate) fn of(settings: &Settings, location: &str) -> Result<Members, StoreError> {
        let tls = settings.tls.as_ref().map(|tls| configured(tls, location)).transpose()?;
        let connect = if settings.hosts.len() > 1 { CONNECT } else { CONNECT_ONLY };
        let member = |name: &String| -> Result<Member, StoreError> {
            let refused = |error: tonic::transport::Error| {
                let why = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
                refuse(location, format!("{name}: {why}"), "check the host's name and the certificates")
            };
            let scheme = if tls.is_some() { "https" } else { "http" };
            let endpoint = Endpoint::from_shared(format!("{scheme}://{name}")).map_err(refused)?;
            let endpoint = endpoint
                .connect_timeout(connect)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_WITHIN)
                .keep_alive_while_idle(false);
            let endpoint = match &tls {
                None => endpoint,
                Some(tls) => endpoint.tls_config(tls.clone()).map_err(refused)?,
            };
            let channel = Mutex::new(endpoint.connect_lazy());
            Ok(Member { name: name.clone(), endpoint, channel, stale: AtomicBool::new(false) })
        };
        let list = settings.hosts.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        let first = getrandom::u32().map_or(0, |number| number as usize % list.len().max(1));
        Ok(Members { list, current: AtomicUsize::new(first) })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// The one to ask.
    pub(crate) fn current(&self) -> MemberHandle {
        let index = self.current.load(Ordering::Acquire) % self.list.len();
        let member = &self.list[index];
        let mut channel = member.channel.lock().unwrap_or_else(PoisonError::into_inner);
        if member.stale.swap(false, Ordering::AcqRel) {
            *channel = member.endpoint.connect_lazy();
        }
        MemberHandle { index, name: member.name.clone(), channel: channel.clone() }
    }

    /// Goes on to the next, unless somebody has already.
    pub(crate) fn leave(&self, index: usize) {
        let next = (index + 1) % self.list.len();
        let _ = self.current.compare_exchange(index, next, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The same, and its connection is not used again.
    pub(crate) fn hang_up(&self, index: usize) {
        self.list[index].stale.store(true, Ordering::Release);
        self.leave(index);
    }
}

fn configured(tls: &Tls, location: &str) -> Result<ClientTlsConfig, StoreError> {
    let read = |file: &String| {
        std::fs::read(file).map_err(|error| {
            refuse(
                location,
                format!("{file}: {error}"),
                "name files in PEM form: ?tls=true&ca=FILE&cert=FILE&key=FILE",
            )
        })
    };
    let config = match &tls.ca {
        Some(file) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(file)?)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    match &tls.identity {
        Some((cert, key)) => Ok(config.identity(Identity::from_pem(read(cert)?, read(key)?))),
        None => Ok(config),
    }
}

fn refuse(location: &str, why: String, hint: &str) -> StoreError {
    StoreError::Refused { place: location.to_string(), why, hint: hint.to_string() }
}
