//! Requests of our own to others: a guard's to what it guards, a server's to those whom it tells of changes.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection that nobody uses is kept: less than most servers keep it.
const IDLE: Duration = Duration::from_secs(4);

/// What sends requests. Its clones share their connections.
pub type Client<B> = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, B>;

/// Whose certificates are believed.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// Nobody's: only plain HTTP is spoken.
    Nobody,
    /// Those that an authority of the system has signed.
    System,
    /// Those that an authority in this file, in PEM form, has signed.
    File(&'a Path),
}

/// A client, which names the host as the request does; why there is none, otherwise.
pub fn client<B>(trust: Trust<'_>) -> Result<Client<B>, String>
where
    B: Body + Send + 'static + Unpin,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::Nobody => {}
        Trust::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(
                    "this system has no authority to check certificates by: set SSL_CERT_FILE".to_string()
                );
            }
        }
        Trust::File(file) => {
            let found = read(file).map_err(|why| format!("{} cannot be used: {why}", file.display()))?;
            roots.add_parsable_certificates(found);
        }
    }
    let tls = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_nodelay(true);
    connector.enforce_http(false);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Ok(hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .build(connector))
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| error.to_string())?;
    if found.is_empty() { Err("it has no certificate".to_string()) } else { Ok(found) }
}

/// What failed at the bottom of it.
pub fn cause(error: &hyper_util::client::legacy::Error) -> String {
    let mut why = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        why = cause.to_string();
        source = cause.source();
    }
    why
}
