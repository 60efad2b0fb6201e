//! What is guarded: where it is, and what of a request and of an answer is passed on.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, VIA};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Response, Uri};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::StartError;
use crate::forward::Body;
use crate::problem::{Problem, SAID_BY_GUARD};
use crate::request;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection that nobody uses is kept: less than most servers keep it.
const IDLE: Duration = Duration::from_secs(4);
/// Headers that concern one connection only.
const OF_A_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What is guarded.
pub(crate) struct Upstream {
    client: Client<HttpsConnector<HttpConnector>, Body>,
    scheme: Scheme,
    authority: Authority,
    /// What the path of every request is put behind; does not end in a slash.
    base: String,
    host: HeaderValue,
    /// By what this guard is known among those that pass a request on.
    pub(crate) name: String,
    via: HeaderValue,
}

impl Upstream {
    /// What a URL names; `authority` are the certificates that are believed, else the system's.
    pub(crate) fn new(url: &str, authority: Option<&PathBuf>, name: String) -> Result<Upstream, StartError> {
        let wrong = |why: &str| StartError::Upstream { url: url.to_string(), why: why.to_string() };
        let uri: Uri = url.parse().map_err(|error: http::uri::InvalidUri| wrong(&error.to_string()))?;
        let parts = uri.into_parts();
        let scheme = parts.scheme.filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
        let (Some(scheme), Some(address)) = (scheme, parts.authority) else {
            return Err(wrong("it is not http://HOST[:PORT][/PATH] or https://…"));
        };
        if address.as_str().contains('@') {
            return Err(wrong("it holds a password: send it with the requests"));
        }
        if parts.path_and_query.as_ref().is_some_and(|path| path.query().is_some()) {
            return Err(wrong("it has a query"));
        }
        let base = parts.path_and_query.map(|path| path.path().trim_end_matches('/').to_string());
        let header = |text: &str| HeaderValue::from_str(text).map_err(|error| wrong(&error.to_string()));
        Ok(Upstream {
            client: client(if scheme == Scheme::HTTPS { Some(trusted(authority)?) } else { None })?,
            host: header(address.as_str())?,
            via: header(&format!("1.1 {name}"))?,
            base: base.unwrap_or_default(),
            authority: address,
            scheme,
            name,
        })
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(&self, request: http::Request<Body>) -> Result<Response<Incoming>, Problem> {
        let mut response = self.client.request(request).await.map_err(|error| unreachable(&error))?;
        if response.status().is_informational() {
            return Err(bad_gateway("it changed to another protocol"));
        }
        let headers = response.headers_mut();
        strip(headers);
        headers.remove(SAID_BY_GUARD);
        headers.append(VIA, self.via.clone());
        Ok(response)
    }

    /// What of a request is passed on, as one to the upstream, and by which scheme it came. Its length is told anew, by what arrives.
    pub(crate) fn readdress(&self, parts: &mut Parts, peer: IpAddr, came_by: Scheme) -> Result<(), Problem> {
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        if !path.starts_with('/') {
            return Err(Problem::invalid("the request names no path", "a path begins with a slash"));
        }
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        let uri = uri.path_and_query(format!("{}{path}", self.base)).build();
        parts.uri = uri.map_err(|error| Problem::invalid(error.to_string(), "send another path"))?;
        parts.version = http::Version::HTTP_11;
        parts.extensions = http::Extensions::new();
        let headers = &mut parts.headers;
        strip(headers);
        headers.remove(CONTENT_LENGTH);
        headers.remove(EXPECT);
        let asked_for = headers.insert(HOST, self.host.clone());
        if let Some(asked_for) = asked_for {
            headers.insert(HeaderName::from_static("x-forwarded-host"), asked_for);
        }
        let came_by = HeaderValue::from_static(if came_by == Scheme::HTTPS { "https" } else { "http" });
        headers.insert(HeaderName::from_static("x-forwarded-proto"), came_by);
        let mut passed_by: Vec<String> = request::names(headers, &FORWARDED_FOR).collect();
        passed_by.push(peer.to_string());
        if let Ok(passed_by) = HeaderValue::from_str(&passed_by.join(", ")) {
            headers.insert(FORWARDED_FOR, passed_by);
        }
        headers.append(VIA, self.via.clone());
        Ok(())
    }
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Takes out what concerns one connection only, and what a header says does.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<String> = request::names(headers, &CONNECTION).collect();
    for name in named.iter().map(String::as_str).chain(OF_A_CONNECTION) {
        headers.remove(name);
    }
}

fn client(tls: Option<ClientConfig>) -> Result<Client<HttpsConnector<HttpConnector>, Body>, StartError> {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_nodelay(true);
    connector.enforce_http(false);
    let tls = match tls {
        Some(tls) => tls,
        None => config(RootCertStore::empty())?,
    };
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .set_host(false)
        .build(connector))
}

/// TLS with the certificates of a file, else of the system.
fn trusted(file: Option<&PathBuf>) -> Result<ClientConfig, StartError> {
    let certificates = match file {
        Some(file) => read(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        return Err(StartError::Certificates(
            "this system has no authority to check certificates by".to_string(),
        ));
    }
    config(roots)
}

fn config(roots: RootCertStore) -> Result<ClientConfig, StartError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| StartError::Certificates(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let found = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let unusable =
        |why: String| StartError::Certificates(format!("{} cannot be used: {why}", file.display()));
    match found {
        Ok(found) if found.is_empty() => Err(unusable("it has no certificate".to_string())),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(error.to_string())),
    }
}

fn unreachable(error: &hyper_util::client::legacy::Error) -> Problem {
    let mut why = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        why = cause.to_string();
        source = cause.source();
    }
    bad_gateway(&why)
}

fn bad_gateway(why: &str) -> Problem {
    Problem::new(
        http::StatusCode::BAD_GATEWAY,
        "upstream",
        format!("the upstream failed: {why}"),
        "a write that it had received whole may have been carried out",
    )
}
