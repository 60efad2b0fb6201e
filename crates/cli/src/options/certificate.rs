//! Whether and as whom something listens with TLS: a server's certificate, or a guard's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_http_listener::Tls;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::output::{Failure, Output};

#[derive(Args, Debug)]
pub(crate) struct Certificate {
    /// Speak TLS with this certificate chain (PEM); SIGHUP reads it again
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl Certificate {
    /// The certificate and its key, if they were named, and the authorities of clients' certificates.
    pub(crate) fn load(&self, client_ca: Option<&Path>) -> Result<Option<Arc<Tls>>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let tls = Tls::load(certificate, key, client_ca);
        Ok(Some(Arc::new(tls.map_err(|error| Failure::usage(error.to_string(), error.hint))?)))
    }
}

/// Reads the certificate again whenever it is told to, for ever. Without TLS the signal keeps its meaning.
pub(crate) async fn reload(tls: Option<Arc<Tls>>, output: Output) -> std::io::Result<()> {
    let Some(tls) = tls else { return std::future::pending().await };
    let mut told = signal(SignalKind::hangup())?;
    while told.recv().await.is_some() {
        match tls.reload() {
            Ok(()) => output.talk("baton: the certificate was read again"),
            Err(error) => output.talk(&format!("baton: the former certificate stays in use: {error}")),
        }
    }
    Ok(())
}
