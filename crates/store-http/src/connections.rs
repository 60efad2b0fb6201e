//! Connections to servers. Each state of the files that the URL names has connections of its own.
//!
//! A connection shows the certificate that it began with for as long as it lasts, and a TLS session that is resumed shows it again. So a request
//! looks whether the files have changed. If they have, it uses new connections and new sessions, and the former ones end once their answers are read.
//! Files that cannot be used, as in the middle of a replacement, change nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_store::StoreError;
use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::dial::{Dial, Trust};
use crate::files::Stamp;
use crate::open::Settings;
use crate::tls;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection that nobody uses is kept: less than the server keeps it.
const IDLE: Duration = Duration::from_secs(8);

pub(crate) type Pool = hyper_util::client::legacy::Client<Dial, Full<Bytes>>;

/// Connections that show the same certificate, if they show one.
pub(crate) struct Pools {
    pub(crate) commands: Pool,
    /// For streams: one that took a connection which waits for the next command would have that command wait for another.
    pub(crate) streams: Pool,
}

impl Pools {
    fn of(settings: &Settings, trust: Trust) -> Result<Pools, StoreError> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let network = HttpsConnectorBuilder::new()
            .with_tls_config(tls::config(settings)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let dial = Dial { network, socket: settings.socket.clone(), trust };
        let streams = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(0)
            .build(dial.clone());
        let commands = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(dial);
        Ok(Pools { commands, streams })
    }
}

/// The connections in use.
pub(crate) struct Connections {
    settings: Settings,
    trust: Trust,
    current: Mutex<Current>,
}

struct Current {
    /// How the files stood before they were read.
    stamps: Vec<Option<Stamp>>,
    pools: Arc<Pools>,
}

impl Connections {
    pub(crate) fn of(settings: &Settings, trust: Trust) -> Result<Connections, StoreError> {
        let stamps = stamps(settings);
        let current = Current { stamps, pools: Arc::new(Pools::of(settings, trust)?) };
        Ok(Connections { settings: settings.clone(), trust, current: Mutex::new(current) })
    }

    /// The connections for the files as they are.
    pub(crate) fn current(&self) -> Arc<Pools> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&self.settings);
        if stamps != current.stamps
            && let Ok(pools) = Pools::of(&self.settings, self.trust)
        {
            *current = Current { stamps, pools: Arc::new(pools) };
        }
        Arc::clone(&current.pools)
    }
}

fn stamps(settings: &Settings) -> Vec<Option<Stamp>> {
    settings.files().map(|file| Stamp::of(file).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_that_changed_have_new_connections_and_bad_ones_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        let authority = || rcgen::generate_simple_self_signed(Vec::new()).unwrap().cert.pem();
        std::fs::write(&file, authority()).unwrap();
        let url = format!("https://h?ca={}", file.display()).parse().unwrap();
        let trust = Trust { owner: None, shows_token: false };
        let connections = Connections::of(&Settings::of(&url).unwrap(), trust).unwrap();
        let first = connections.current();
        assert!(Arc::ptr_eq(&first, &connections.current()), "nothing has changed");
        std::fs::write(&file, "half of it").unwrap();
        assert!(Arc::ptr_eq(&first, &connections.current()), "what cannot be used is not used");
        std::fs::write(&file, authority() + &authority()).unwrap();
        let second = connections.current();
        assert!(!Arc::ptr_eq(&first, &second) && Arc::ptr_eq(&second, &connections.current()));
    }
}
