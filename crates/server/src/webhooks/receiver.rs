//! A receiver that is told or asked, and one try to do it.

use std::fmt;
use std::time::Duration;

use baton_http_listener::outgoing::{self, Client, Trust};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;

use super::sign::Secret;
use crate::http::is_loopback;

/// How long one try to tell may take.
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

    /// Whether others on the way could read what it is sent, and answer in its place.
    pub fn is_open(&self) -> bool {
        let host = self.uri.host().unwrap_or_default();
        let name = host.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(host);
        self.uri.scheme() != Some(&Scheme::HTTPS) && !is_loopback(name)
    }

    /// Asks once, and gives what is answered; why not, if nothing of 2xx and of at most so many bytes comes within this time.
    pub async fn ask(
        &self,
        id: &str,
        body: Vec<u8>,
        within: Duration,
        most: usize,
    ) -> Result<Vec<u8>, String> {
        let answer = async {
            let body = Limited::new(self.send(id, body.into()).await?.into_body(), most);
            match body.collect().await {
                Ok(answer) => Ok(answer.to_bytes().to_vec()),
                Err(error) if error.is::<LengthLimitError>() => {
                    Err(format!("its answer has more than {most} bytes"))
                }
                Err(error) => Err(format!("its answer broke off: {error}")),
            }
        };
        in_time(within, answer).await
    }

    /// Tells once.
    pub(super) async fn post(&self, id: &str, body: Bytes) -> Result<(), String> {
        in_time(ATTEMPT, self.send(id, body)).await.map(|_| ())
    }

    /// Sends it, signed at this time of the wall clock. Redirects are not followed: what is signed for one receiver is not for another.
    async fn send(&self, id: &str, body: Bytes) -> Result<Response<Incoming>, String> {
        let seconds = baton_store::boot::wall().as_unix_millis() / 1_000;
        let request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(USER_AGENT, HeaderValue::from_static(concat!("baton/", env!("CARGO_PKG_VERSION"))))
            .header("baton-delivery", id)
            .header("baton-signature", self.secret.sign(seconds, &body))
            .body(Full::new(body))
            .map_err(|error| error.to_string())?;
        match self.client.request(request).await {
            Ok(response) if response.status().is_success() => Ok(response),
            Ok(response) => Err(format!("it answered {}", response.status())),
            Err(error) => Err(outgoing::cause(&error)),
        }
    }
}

async fn in_time<T>(limit: Duration, asked: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = |_| Err(format!("it did not answer within {limit:?}"));
    tokio::time::timeout(limit, asked).await.unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_open_but_for_loopback() {
        let receiver = |url: &str| {
            let secret = Secret::new("0123456789abcdef").unwrap();
            Receiver::new(url, secret)
        };
        for url in ["http://127.0.0.9:1/x", "http://[::1]/x", "http://LocalHost:8080"] {
            assert!(!receiver(url).unwrap().is_open(), "{url}");
        }
        for url in
            ["http://example.org/x", "http://10.0.0.1", "http://[::2]:1", "http://127.0.0.1.example.org"]
        {
            assert!(receiver(url).unwrap().is_open(), "{url}");
        }
        for url in ["example.org", "ftp://example.org", "http://me:word@127.0.0.1", "/x"] {
            assert!(receiver(url).is_err(), "{url}");
        }
    }
}
