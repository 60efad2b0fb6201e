//! Where traces are sent, and one try to send some: OTLP over HTTP, as JSON.

use std::fmt;
use std::time::Duration;

use baton_http_listener::outgoing::{self, Client, Trust};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Uri};
use http_body_util::Full;

/// How long one try may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Below an endpoint's own path.
const TRACES: &str = "v1/traces";

/// A collector of traces. As text it is only its host: headers and paths may hold secrets.
#[derive(Clone)]
pub struct Collector {
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    client: Client<Full<Bytes>>,
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, host) = (self.uri.scheme_str(), self.uri.authority());
        write!(f, "{}://{}", scheme.unwrap_or_default(), host.map_or("", |host| host.as_str()))
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collector({self})")
    }
}

impl Collector {
    /// The collector at an endpoint, with headers as `NAME=VALUE,NAME=VALUE`; why not, if it is none.
    pub fn new(endpoint: &str, headers: &str) -> Result<Collector, String> {
        let endpoint: Uri = endpoint.parse().map_err(|_| "it is not a URL".to_string())?;
        let trust = match endpoint.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => Trust::Nobody,
            Some(scheme) if *scheme == Scheme::HTTPS => Trust::System,
            Some(_) | None => return Err("it is not http://… or https://…".to_string()),
        };
        if endpoint.authority().is_none_or(|host| host.as_str().contains('@')) {
            return Err("it names no host, or a password; send that as a header".to_string());
        }
        let base = endpoint.to_string();
        let uri = format!("{}/{TRACES}", base.trim_end_matches('/'));
        let uri = uri.parse().map_err(|_| "nothing can stand below it".to_string())?;
        let headers: Result<Vec<_>, String> =
            headers.split(',').filter(|pair| !pair.trim().is_empty()).map(header).collect();
        Ok(Collector { uri, headers: headers?, client: outgoing::client(trust)? })
    }

    /// Tries once.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<(), String> {
        let mut request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, HeaderValue::from_static(concat!("baton/", env!("CARGO_PKG_VERSION"))));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())?;
        match tokio::time::timeout(ATTEMPT, self.client.request(request)).await {
            Ok(Ok(response)) if response.status().is_success() => Ok(()),
            Ok(Ok(response)) => Err(format!("it answered {}", response.status())),
            Ok(Err(error)) => Err(outgoing::cause(&error)),
            Err(_) => Err(format!("it did not answer within {ATTEMPT:?}")),
        }
    }
}

/// What is wrong with it is said without its value.
fn header(pair: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = pair.split_once('=').ok_or("a header is NAME=VALUE")?;
    let name = HeaderName::try_from(name.trim()).map_err(|_| "the name of a header is none".to_string())?;
    let mut value = HeaderValue::try_from(value.trim())
        .map_err(|_| format!("the value of the header {name} cannot be sent"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_traces_below_it() {
        let at = |endpoint: &str| Collector::new(endpoint, "").map(|collector| collector.uri.to_string());
        assert_eq!(at("http://127.0.0.1:4318").unwrap(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(at("http://h:1/otlp/").unwrap(), "http://h:1/otlp/v1/traces");
        for odd in ["h:4318", "ftp://h", "http://me:secret@h", "grpc://h:4317", ""] {
            assert!(at(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn headers_are_never_shown() {
        let collector = Collector::new("http://h:1/secret", "Authorization=Bearer s3cr3t, x-a=b").unwrap();
        assert_eq!(collector.headers.len(), 2);
        assert_eq!(format!("{collector} {collector:?}"), "http://h:1 Collector(http://h:1)");
        let wrong = Collector::new("http://h:1", "a=s3c\nr3t").unwrap_err();
        assert!(!wrong.contains("s3c"), "{wrong}");
        assert!(Collector::new("http://h:1", "novalue").is_err());
    }
}
