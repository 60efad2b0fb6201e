//! How Google's services are reached: the channel, the credentials, the emulators.
//!
//! Assumes application-default credentials, or an emulator, which takes anybody for the owner. Guarantees that no
//! request is sent without credentials, that building and opening send nothing, and that connecting and every request
//! are bounded in time. Does not retry anything.

use std::sync::Arc;
use std::time::Duration;

use baton_store::network_failure;
use gcloud_sdk::error::{Error, ErrorKind};
use gcloud_sdk::tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use gcloud_sdk::tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use gcloud_sdk::tonic::{Code, ConnectError, Request, Status};
use gcloud_sdk::{GoogleAuthHeaders, HeaderMap};

/// The bound on a request and its answer.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// The bound on a connection being made.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How often a connection that waits is asked whether it is still there. Google's servers close those that ask more often.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
/// How long it may take to say so.
const ALIVE_LIMIT: Duration = Duration::from_secs(10);

const LOG_IN: &str = "log in with `gcloud auth application-default login`, or let GOOGLE_APPLICATION_CREDENTIALS name a \
                      service account's key";

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Google's own, at this host.
    Service(&'static str),
    /// An emulator at HOST:PORT.
    Emulator(String),
}

impl Route {
    /// The emulator that was asked for, else the one that the environment names, else the service itself.
    pub fn choose(asked: Option<&str>, variable: &str, service: &'static str) -> Route {
        let named = || std::env::var(variable).ok().filter(|host| !host.is_empty());
        match asked.map(str::to_string).or_else(named) {
            Some(host) => Route::Emulator(host.trim_start_matches("http://").to_string()),
            None => Route::Service(service),
        }
    }
}

/// Why nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotSent {
    /// Whether the same may succeed later.
    pub passing: bool,
    /// What failed.
    pub why: String,
    /// What to do.
    pub hint: String,
}

impl NotSent {
    fn lasting(why: impl Into<String>, hint: impl Into<String>) -> NotSent {
        NotSent { passing: false, why: why.into(), hint: hint.into() }
    }
}

/// One who asks a service.
#[derive(Clone)]
pub struct Caller {
    endpoint: Endpoint,
    identity: Identity,
    headers: MetadataMap,
}

#[derive(Clone)]
enum Identity {
    Token(AsciiMetadataValue),
    Credentials(Arc<GoogleAuthHeaders>),
}

impl Caller {
    /// A caller by this route, who shows these headers with every request. Reads the file of the credentials, if there is one.
    pub async fn new(route: &Route, headers: &[(&'static str, &str)]) -> Result<Caller, NotSent> {
        let mut shown = MetadataMap::new();
        for (name, value) in headers {
            let value = AsciiMetadataValue::try_from(*value)
                .map_err(|_| NotSent::lasting(format!("`{value}` cannot be sent"), "use plain characters"))?;
            shown.insert(AsciiMetadataKey::from_static(name), value);
        }
        let (endpoint, identity) = match route {
            Route::Service(host) => {
                let tls = ClientTlsConfig::new().with_native_roots();
                let endpoint = endpoint(&format!("https://{host}"))?
                    .http2_keep_alive_interval(ALIVE_EVERY)
                    .keep_alive_timeout(ALIVE_LIMIT)
                    .tls_config(tls)
                    .map_err(|error| {
                        NotSent::lasting(said(&error), "install the root certificates of this system")
                    })?;
                let credentials = GoogleAuthHeaders::from_adc().await.map_err(|error| blamed(&error))?;
                (endpoint, Identity::Credentials(Arc::new(credentials)))
            }
            Route::Emulator(host) => {
                let owner = AsciiMetadataValue::from_static("Bearer owner");
                (endpoint(&format!("http://{host}"))?, Identity::Token(owner))
            }
        };
        Ok(Caller { endpoint, identity, headers: shown })
    }

    /// The same caller under another name: what an emulator's rules are tested with.
    #[must_use]
    pub fn with_token(mut self, token: &'static str) -> Caller {
        self.identity = Identity::Token(AsciiMetadataValue::from_static(token));
        self
    }

    /// A connection of its own, made when it is first used, and again after it was lost.
    pub fn channel(&self) -> Channel {
        self.endpoint.connect_lazy()
    }

    /// A message, ready to be sent.
    pub async fn request<T>(&self, message: T) -> Result<Request<T>, NotSent> {
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        *metadata = self.headers.clone();
        match &self.identity {
            Identity::Token(token) => {
                metadata.insert("authorization", token.clone());
            }
            Identity::Credentials(credentials) => {
                let headers = tokio::time::timeout(REQUEST_LIMIT, credentials.headers())
                    .await
                    .map_err(|_| NotSent {
                        passing: true,
                        why: format!("no access token was had within {} s", REQUEST_LIMIT.as_secs()),
                        hint: LOG_IN.to_string(),
                    })?
                    .map_err(|error| blamed(&error))?;
                show(metadata, &headers);
            }
        }
        Ok(request)
    }
}

fn endpoint(url: &str) -> Result<Endpoint, NotSent> {
    let endpoint = Endpoint::from_shared(url.to_string()).map_err(|error| {
        NotSent::lasting(format!("{url}: {}", said(&error)), "an emulator is named by HOST:PORT")
    })?;
    Ok(endpoint.connect_timeout(CONNECT_LIMIT).tcp_nodelay(true).tcp_keepalive(Some(ALIVE_EVERY)))
}

/// Puts the headers of an access token into a request. They are few, and none is binary.
fn show(metadata: &mut MetadataMap, headers: &HeaderMap) {
    for (name, value) in headers {
        let key = AsciiMetadataKey::from_bytes(name.as_str().as_bytes());
        if let (Ok(key), Ok(mut text)) = (key, AsciiMetadataValue::try_from(value.as_bytes())) {
            text.set_sensitive(true);
            metadata.insert(key, text);
        }
    }
}

/// What credentials that cannot be had mean. Nothing was sent.
fn blamed(error: &Error) -> NotSent {
    match error.kind() {
        // Without a login Google's library asks a server that only Google's machines have, and takes its silence for a
        // passing trouble, at length.
        ErrorKind::Credentials(error) if error.is_transient() => NotSent {
            passing: true,
            why: "there is no access token: nobody has logged in here, or Google's metadata server does not answer"
                .to_string(),
            hint: LOG_IN.to_string(),
        },
        ErrorKind::Credentials(error) => {
            NotSent::lasting(format!("there is no access token: {}", said(error)), LOG_IN)
        }
        _ => NotSent::lasting(
            format!("the application-default credentials are of no use: {}", said(error)),
            LOG_IN,
        ),
    }
}

/// The longest quotation of somebody else's words.
const MAX_WORDS: usize = 400;

/// An error in the words of all that caused it.
pub fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = inner.source();
    }
    text.chars().take(MAX_WORDS).collect()
}

/// The words of a status, for people.
pub fn words(status: &Status) -> String {
    if let Some(words) = std::error::Error::source(status).and_then(network_failure) {
        return words.to_string();
    }
    let message = status.message().lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let message =
        if message.is_empty() { status.code().description().to_string() } else { message.join(" ") };
    let text = match std::error::Error::source(status).map(said) {
        Some(cause) if cause.contains(&message) => cause,
        Some(cause) if !message.contains(&cause) => format!("{message}: {cause}"),
        Some(_) | None => message,
    };
    text.chars().take(MAX_WORDS).collect()
}

/// Whether the request surely never left: there was no connection.
pub fn never_sent(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return status.code() == Code::Unavailable;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_that_is_asked_for_goes_first() {
        let route = Route::choose(Some("http://h:1"), "BATON_NO_SUCH_VARIABLE", "s");
        assert_eq!(route, Route::Emulator("h:1".to_string()));
        assert_eq!(Route::choose(None, "BATON_NO_SUCH_VARIABLE", "s"), Route::Service("s"));
    }

    #[tokio::test]
    async fn what_was_never_sent_is_known() {
        let gone = Caller::new(&Route::Emulator("127.0.0.1:1".to_string()), &[]).await.unwrap();
        let mut client =
            gcloud_sdk::google::pubsub::v1::publisher_client::PublisherClient::new(gone.channel());
        let request = gone.request(gcloud_sdk::google::pubsub::v1::GetTopicRequest::default()).await.unwrap();
        assert_eq!(request.metadata().get("authorization").unwrap(), "Bearer owner");
        let status = client.get_topic(request).await.unwrap_err();
        assert!(never_sent(&status), "{status:?}");
        assert!(words(&status).contains("refused"), "{}", words(&status));
        assert!(!never_sent(&Status::unavailable("by the server")));
    }

    #[tokio::test]
    async fn a_host_that_is_none_is_refused() {
        let odd = Caller::new(&Route::Emulator("a b".to_string()), &[]).await;
        assert!(odd.is_err_and(|error| !error.passing && error.hint.contains("HOST:PORT")));
    }

    #[tokio::test]
    async fn the_service_itself_is_spoken_to_with_tls() {
        // No credentials are needed to build the channel; without any file they are looked for when they are needed.
        let built = Caller::new(&Route::Service("firestore.googleapis.com"), &[]).await;
        assert!(built.is_ok() || built.is_err_and(|error| !error.hint.is_empty()));
    }
}
