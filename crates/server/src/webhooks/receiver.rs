//! Who is told, and one try to tell it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Uri};
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, RootCertStore};

use super::sign::Secret;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one try may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(4);

/// A receiver of deliveries. As text it is only its host: a path may hold a secret.
#[derive(Clone)]
pub struct Receiver {
    uri: Uri,
    /// What deliveries to it are signed with: whoever else has another cannot speak for this server there.
    secret: Secret,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host) = (self.uri.scheme_str(), self.uri.authority());
        write!(f, "{}://{}", scheme.unwrap_or_default(), host.map_or("", |host| host.as_str()))
    }
}

impl Receiver {
    /// The receiver at a URL, to which deliveries are signed with this secret; why not, if it is none.
    pub fn new(url: &str, secret: Secret) -> Result<Receiver, String> {
        let uri: Uri = url.parse().map_err(|_| "it is not a URL".to_string())?;
        let tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(_) | None => return Err("it is not http://… or https://…".to_string()),
        };
        if uri.authority().is_none_or(|host| host.as_str().contains('@')) {
            return Err("it names no host, or a password, which is sent to nobody".to_string());
        }
        Ok(Receiver { uri, secret, client: client(tls)? })
    }

    /// Tries once, at this time of the wall clock. Redirects are not followed: what is signed for one receiver is not for another.
    pub(super) async fn post(&self, id: &str, seconds: u64, body: Bytes) -> Result<(), String> {
        let request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, HeaderValue::from_static(concat!("baton/", env!("CARGO_PKG_VERSION"))))
            .header("baton-delivery", id)
            .header("baton-signature", self.secret.sign(seconds, &body))
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        match tokio::time::timeout(ATTEMPT, self.client.request(request)).await {
            Ok(Ok(response)) if response.status().is_success() => Ok(()),
            Ok(Ok(response)) => Err(format!("it answered {}", response.status())),
            Ok(Err(error)) => Err(cause(&error)),
            Err(_) => Err(format!("it did not answer within {ATTEMPT:?}")),
        }
    }
}

fn client(tls: bool) -> Result<Client<HttpsConnector<HttpConnector>, Full<Bytes>>, String> {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT));
    connector.enforce_http(false);
    let mut roots = RootCertStore::empty();
    if tls {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(
                "this system has no authority to check its certificate by: set SSL_CERT_FILE".to_string()
            );
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .build(connector))
}

/// What failed at the bottom of it.
fn cause(error: &hyper_util::client::legacy::Error) -> String {
    let mut why = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        why = cause.to_string();
        source = cause.source();
    }
    why
}
