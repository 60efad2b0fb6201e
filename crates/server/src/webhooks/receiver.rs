//! Who is told, and one try to tell it.

use std::fmt;
use std::time::Duration;

use baton_door::outgoing::{self, Client, Trust};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Uri};
use http_body_util::Full;

use super::sign::Secret;

/// How long one try may take.
const ATTEMPT: Duration = Duration::from_secs(10);

/// A receiver of deliveries. As text it is only its host: a path may hold a secret.
#[derive(Clone)]
pub struct Receiver {
    uri: Uri,
    /// What deliveries to it are signed with: whoever else has another cannot speak for this server there.
    secret: Secret,
    client: Client<Full<Bytes>>,
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
        let trust = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => Trust::Nobody,
            Some(scheme) if *scheme == Scheme::HTTPS => Trust::System,
            Some(_) | None => return Err("it is not http://… or https://…".to_string()),
        };
        if uri.authority().is_none_or(|host| host.as_str().contains('@')) {
            return Err("it names no host, or a password, which is sent to nobody".to_string());
        }
        Ok(Receiver { uri, secret, client: outgoing::client(trust)? })
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
            Ok(Err(error)) => Err(outgoing::cause(&error)),
            Err(_) => Err(format!("it did not answer within {ATTEMPT:?}")),
        }
    }
}
