//! One request to a server, bounded in time.

use std::any::Any;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use baton_api::FORMAT_HEADER;
use baton_api::endpoints::{self, Target};
use baton_store::{BoxFuture, StoreError};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, DATE, HeaderValue, LOCATION};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connections::{Connections, Pool, Pools};
use crate::dial::{AT_SOCKET, Trust};
use crate::fault::Fault;
use crate::open::Settings;
use crate::servers::Servers;
use crate::token::Token;
use crate::trace;

/// The largest answer that is read: far above a list of 10,000 names or the documents of a batch.
pub(crate) const LARGEST: usize = 64 << 20;
/// After so long without an answer another server is asked too.
const PATIENCE: Duration = Duration::from_millis(400);
/// The same for a caller that asked to wait.
const PATIENCE_IN_LINE: Duration = Duration::from_secs(2);

/// A way to the server. Clones share its connections.
#[derive(Clone)]
pub(crate) struct Client {
    connections: Arc<Connections>,
    /// Whether a server has answered: each end has accepted the other's certificate.
    answered: Arc<AtomicBool>,
    /// For people: all of its names.
    pub(crate) base: String,
    servers: Arc<Servers>,
    /// What shows who asks.
    token: Token,
    /// What tells which trace this process is part of.
    traceparent: Option<HeaderValue>,
    limit: Duration,
}

impl Client {
    pub(crate) fn of(settings: &Settings) -> Result<Client, StoreError> {
        let token = Token::of(settings)?;
        let trust = Trust { owner: settings.owner, shows_token: token.is_some() };
        // What was meant to stay on this machine does not go over the network in the open either.
        let secret = token.is_some() || settings.socket.is_some();
        let servers = Arc::new(Servers::new(&settings.bases, secret));
        let (base, limit, traceparent) = (settings.base.clone(), settings.limit, trace::header());
        let (connections, answered) = (Arc::new(Connections::of(settings, trust)?), Arc::default());
        Ok(Client { connections, answered, base, servers, token, traceparent, limit })
    }

    /// Where the server is that answered last.
    pub(crate) fn address(&self) -> String {
        let preferred = self.servers.preferred().filter(|base| **base != *AT_SOCKET);
        preferred.map_or_else(|| self.base.clone(), |base| base.to_string())
    }

    /// The answer to a request that only reads.
    pub(crate) async fn get<T: Reply>(&self, target: &Target) -> Result<T, Fault> {
        let begun = tokio::time::Instant::now();
        let answered = match self.exchange(target, None, Duration::ZERO, understood::<T>).await {
            // A connection that was kept from before belonged to a server that is gone. To look twice changes nothing.
            Err(Fault::NoAnswer(_)) if begun.elapsed() < PATIENCE => {
                self.exchange(target, None, Duration::ZERO, understood::<T>).await
            }
            answered => answered,
        };
        answered.map(of_type)
    }

    /// When the server answers, by its own clock, to the second: the `date` of an answer.
    pub(crate) async fn date(&self, target: &Target) -> Result<Option<SystemTime>, Fault> {
        let ask = async |base: Arc<str>| {
            let request = self.request(&base, target).body(Full::default());
            let response = self.send(COMMANDS, request).await?;
            if !response.status().is_success() {
                return Err(failed(response).await);
            }
            let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
            Ok(date.and_then(|date| httpdate::parse_http_date(date).ok()))
        };
        self.servers.ask(self.limit, PATIENCE, ask).await
    }

    /// Sends a command, which may take so much longer.
    pub(crate) async fn post<T: Reply>(
        &self,
        target: &Target,
        body: &(impl Serialize + Sync),
        longer: Duration,
    ) -> Result<T, Fault> {
        let body = serde_json::to_vec(body).map_err(|error| Fault::NotSent(error.to_string()))?;
        self.exchange(target, Some(body.into()), longer, understood::<T>).await.map(of_type)
    }

    /// A request and its answer. It is one function for all types of answers, so that it is compiled once.
    fn exchange<'a>(
        &'a self,
        target: &'a Target,
        body: Option<Bytes>,
        longer: Duration,
        understand: Understand,
    ) -> BoxFuture<'a, Result<AnyReply, Fault>> {
        Box::pin(async move {
            let ask = |base: Arc<str>| {
                let mut request = self.request(&base, target);
                if body.is_some() {
                    request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                }
                let request = request.body(Full::new(body.clone().unwrap_or_default()));
                async move {
                    let response = self.send(COMMANDS, request).await?;
                    if !response.status().is_success() {
                        return Err(failed(response).await);
                    }
                    let not_understood = |error| format!("its answer was not understood: {error}");
                    let text = body_of(response).await?;
                    understand(&text).map_err(|error| Fault::NoAnswer(not_understood(error)))
                }
            };
            let patience = if longer > Duration::ZERO { PATIENCE_IN_LINE } else { PATIENCE };
            self.servers.ask(self.limit + longer, patience, ask).await
        })
    }

    /// A stream of events, after the one of this id.
    pub(crate) async fn events(&self, target: &Target, after: Option<&str>) -> Result<Incoming, Fault> {
        let ask = |base: Arc<str>| {
            let mut request = self.request(&base, target);
            if let Some(after) = after {
                request = request.header("last-event-id", after);
            }
            let request = request.body(Full::default());
            async move {
                let response = self.send(STREAMS, request).await?;
                match response.status().is_success() {
                    true => Ok(response.into_body()),
                    false => Err(failed(response).await),
                }
            }
        };
        self.servers.ask(self.limit, PATIENCE, ask).await
    }

    fn request(&self, base: &str, target: &Target) -> http::request::Builder {
        let method = match target.method() {
            endpoints::Method::Get => Method::GET,
            endpoints::Method::Post => Method::POST,
        };
        let mut request = Request::builder().method(method).uri(format!("{base}{}", target.path()));
        request = request.header(FORMAT_HEADER, baton_store::format());
        if let Some(token) = self.token.header() {
            request = request.header(AUTHORIZATION, token);
        }
        if let Some(traceparent) = &self.traceparent {
            request = request.header("traceparent", traceparent);
        }
        request
    }

    async fn send(
        &self,
        kind: Kind,
        request: http::Result<Request<Full<Bytes>>>,
    ) -> Result<Response<Incoming>, Fault> {
        let request = request.map_err(|error| Fault::NotSent(error.to_string()))?;
        let pools = self.connections.current();
        match kind(&pools).request(request).await {
            Ok(response) => {
                self.answered.store(true, Ordering::Relaxed);
                Ok(response)
            }
            Err(error) => Err(Fault::of(&error, self.answered.load(Ordering::Relaxed))),
        }
    }
}

/// Which connections a request goes over.
type Kind = fn(&Pools) -> &Pool;
const COMMANDS: Kind = |pools| &pools.commands;
const STREAMS: Kind = |pools| &pools.streams;

/// What an answer can be read as.
pub(crate) trait Reply: DeserializeOwned + Send + 'static {}

impl<T: DeserializeOwned + Send + 'static> Reply for T {}

/// An answer of the type that its [`Understand`] reads.
type AnyReply = Box<dyn Any + Send>;
type Understand = fn(&[u8]) -> serde_json::Result<AnyReply>;

fn understood<T: Reply>(text: &[u8]) -> serde_json::Result<AnyReply> {
    Ok(Box::new(serde_json::from_slice::<T>(text)?))
}

fn of_type<T: Reply>(answer: AnyReply) -> T {
    *answer.downcast().expect("it was understood as this type")
}

async fn failed(response: Response<Incoming>) -> Fault {
    let status = response.status();
    let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok()).and_then(server_of);
    let format = response.headers().get(FORMAT_HEADER).and_then(|format| format.to_str().ok()?.parse().ok());
    match body_of(response).await {
        Ok(body) => Fault::of_inactive(&body, to)
            .unwrap_or_else(|| Fault::said(status, &body).of_a_server_that_speaks(format)),
        Err(fault) => fault,
    }
}

/// The server of an address, without the path there.
fn server_of(address: &str) -> Option<String> {
    let uri: http::Uri = address.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    (!authority.as_str().contains('@')).then(|| format!("{scheme}://{authority}"))
}

async fn body_of(response: Response<Incoming>) -> Result<Bytes, Fault> {
    collect(response.into_body()).await
}

/// A whole body. Whatever is at the other end, it takes no more than so much memory.
async fn collect<B>(body: B) -> Result<Bytes, Fault>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    match Limited::new(body, LARGEST).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Fault::NoAnswer(format!("its answer is larger than {} MiB", LARGEST >> 20)))
        }
        Err(error) => Err(Fault::NoAnswer(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::AtomicUsize;

    use futures_util::{StreamExt, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn an_answer_without_end_is_read_up_to_a_bound() {
        let piece = Bytes::from(vec![b' '; 1 << 20]);
        let taken = AtomicUsize::new(0);
        let pieces = stream::iter(0..1_000_000).map(|_| {
            taken.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Frame::data(piece.clone()))
        });
        let fault = collect(StreamBody::new(pieces)).await.err().map(|fault| match fault {
            Fault::NoAnswer(why) => why,
            _ => "another fault".to_string(),
        });
        assert_eq!(fault.as_deref(), Some("its answer is larger than 64 MiB"));
        assert_eq!(taken.into_inner(), 65, "and no further");
    }

    #[tokio::test]
    async fn a_usual_answer_is_read_whole() {
        let whole = collect(Full::new(Bytes::from_static(b"{}"))).await;
        assert!(matches!(whole, Ok(body) if body == "{}"));
    }
}
