//! One request to the server, bounded in time.

use std::time::Duration;

use baton_store::StoreError;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fault::Fault;
use crate::open::Settings;
use crate::{tls, token};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection that nobody uses is kept: less than the server keeps it.
const IDLE: Duration = Duration::from_secs(8);

/// A way to the server. Clones share its connections.
#[derive(Clone)]
pub(crate) struct Client {
    inner: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    pub(crate) base: String,
    /// What shows who asks.
    token: Option<HeaderValue>,
    limit: Duration,
}

impl Client {
    pub(crate) fn of(settings: &Settings) -> Result<Client, StoreError> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls::config(settings)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let inner = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(connector);
        let token = token::header(settings)?;
        Ok(Client { inner, base: settings.base.clone(), token, limit: settings.limit })
    }

    /// What is at a path.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Fault> {
        let request = self.request(Method::GET, path);
        self.within(self.limit, async { parse(self.send(request?.body(Full::default())).await?).await }).await
    }

    /// Sends a command, which may take so much longer.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
        longer: Duration,
    ) -> Result<T, Fault> {
        let body = serde_json::to_vec(body).map_err(|error| Fault::NotSent(error.to_string()))?;
        let request = self.request(Method::POST, path)?;
        let request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.within(self.limit + longer, async {
            parse(self.send(request.body(Full::new(Bytes::from(body)))).await?).await
        })
        .await
    }

    /// A stream of events, after the one of this id.
    pub(crate) async fn events(&self, path: &str, after: Option<&str>) -> Result<Incoming, Fault> {
        let mut request = self.request(Method::GET, path)?;
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        self.within(self.limit, async {
            let response = self.send(request.body(Full::default())).await?;
            match response.status().is_success() {
                true => Ok(response.into_body()),
                false => Err(failed(response).await),
            }
        })
        .await
    }

    fn request(&self, method: Method, path: &str) -> Result<http::request::Builder, Fault> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        Ok(request)
    }

    async fn send(&self, request: http::Result<Request<Full<Bytes>>>) -> Result<Response<Incoming>, Fault> {
        let request = request.map_err(|error| Fault::NotSent(error.to_string()))?;
        self.inner.request(request).await.map_err(|error| Fault::of(&error))
    }

    async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Fault::NoAnswer(format!("it did not answer within {limit:?}"))),
        }
    }
}

async fn parse<T: DeserializeOwned>(response: Response<Incoming>) -> Result<T, Fault> {
    if !response.status().is_success() {
        return Err(failed(response).await);
    }
    let body = body(response).await?;
    serde_json::from_slice(&body)
        .map_err(|error| Fault::NoAnswer(format!("its answer was not understood: {error}")))
}

async fn failed(response: Response<Incoming>) -> Fault {
    let status = response.status();
    match body(response).await {
        Ok(body) => Fault::said(status, &body),
        Err(fault) => fault,
    }
}

async fn body(response: Response<Incoming>) -> Result<Bytes, Fault> {
    let collected = response.into_body().collect().await;
    Ok(collected.map_err(|error| Fault::NoAnswer(error.to_string()))?.to_bytes())
}

/// A name as a segment of a path.
pub(crate) fn segment(name: &impl ToString) -> String {
    name.to_string().replace('/', "%2F")
}
