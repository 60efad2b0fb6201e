//! A server, and somebody who takes what it sends.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use baton::{Bid, Coordinator, Grant, mint_credential};
use baton_election::time::Span;
use baton_election::{AgentName, ElectionName};
use baton_server::{Deliveries, Options, Receiver, Secret, Server, Thresholds, Warnings};
use baton_store::MemoryStore;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::security::client::{HANG, get};

/// A server that runs until it is dropped.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) client: Coordinator,
    task: tokio::task::JoinHandle<()>,
    _deliveries: Option<Deliveries>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Thresholds that nothing reaches.
pub(crate) const QUIET: Thresholds = Thresholds {
    no_leader: None,
    flapping: None,
    contention: None,
    elections: None,
    transition: None,
    participation: None,
    suspicion: None,
    refusals: None,
};

pub(crate) fn warning_of(limits: Thresholds) -> Options {
    let warnings = Warnings { limits, ..Warnings::default() };
    Options { warnings, ..Options::default() }
}

impl TestServer {
    pub(crate) async fn open(options: Options) -> TestServer {
        TestServer::telling(options, None).await
    }

    /// The same, with a webhook.
    pub(crate) async fn telling(options: Options, hook: Option<&Taker>) -> TestServer {
        let listener = Server::listen("127.0.0.1:0".parse().unwrap(), &options).await.unwrap();
        let mut server = Server::start(listener, Arc::new(MemoryStore::default()), options).await.unwrap();
        let address = server.listening().address().unwrap();
        let deliveries = hook.and_then(|hook| {
            let secret = Secret::new("a secret of sixteen bytes").unwrap();
            let receiver = Receiver::new(&hook.url(), secret).unwrap();
            server.tell(vec![receiver], Arc::new(|_: &str| {}))
        });
        let task = tokio::spawn(server.serve(std::future::pending()));
        let client = Coordinator::connect(&format!("http://{address}")).await.unwrap();
        TestServer { address, client, task, _deliveries: deliveries }
    }

    pub(crate) async fn lead(&self, of: &str, agent: &str) -> Grant {
        self.try_to_lead(of, agent).await.unwrap()
    }

    pub(crate) async fn try_to_lead(&self, of: &str, by: &str) -> Result<Grant, baton::Error> {
        self.ask_to_lead(of, by, Span::secs(600)).await
    }

    pub(crate) async fn lead_for(&self, of: &str, agent: &str, ttl: Span) -> Grant {
        self.ask_to_lead(of, agent, ttl).await.unwrap()
    }

    async fn ask_to_lead(&self, of: &str, by: &str, ttl: Span) -> Result<Grant, baton::Error> {
        let bid = Bid { ttl: Some(ttl), ..Bid::new(agent(by)) };
        let credential = mint_credential().unwrap();
        self.client.acquire(&election(of), &bid, credential, None, None).await
    }

    pub(crate) async fn release(&self, of: &str, grant: &Grant) {
        self.client.release(&election(of), grant.epoch, grant.credential, None).await.unwrap();
    }

    /// The page of metrics.
    pub(crate) async fn page(&self) -> Page {
        let answer = get(self.address, "/metrics", None).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{answer:?}");
        Page::parse(&answer.body)
    }

    /// Waits until the page shows something.
    pub(crate) async fn page_with(&self, holds: impl Fn(&Page) -> bool) -> Page {
        let waited = async {
            loop {
                let page = self.page().await;
                if holds(&page) {
                    return page;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(HANG, waited).await.expect("the metrics do not show it")
    }

    /// Waits until exactly these alerts are active: their names and elections.
    pub(crate) async fn alerts_become(&self, wanted: &[(&str, &str)]) -> Vec<Value> {
        let mut seen = Vec::new();
        let waited = async {
            loop {
                let told = get(self.address, "/v1/alerts", None).await.json();
                seen = told["alerts"].as_array().unwrap().clone();
                let names = |alert: &Value| {
                    (
                        alert["alert"].as_str().unwrap().to_string(),
                        alert["election"].as_str().unwrap().to_string(),
                    )
                };
                let names: Vec<(String, String)> = seen.iter().map(names).collect();
                let wanted = wanted.iter().map(|(alert, of)| ((*alert).to_string(), (*of).to_string()));
                if names == wanted.collect::<Vec<_>>() {
                    return seen.clone();
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(HANG, waited).await.unwrap_or_else(|_| panic!("no {wanted:?} among the alerts"))
    }
}

pub(crate) fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

pub(crate) fn agent(name: &str) -> AgentName {
    AgentName::new(name).unwrap()
}

/// A page of metrics: each sample with its labels, as it is written, and its value.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) text: String,
    samples: BTreeMap<String, f64>,
}

impl Page {
    fn parse(text: &str) -> Page {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_string(), value.parse().unwrap())
        };
        Page { text: text.to_string(), samples: lines.map(sample).collect() }
    }

    /// The value of a sample; it must be there.
    #[track_caller]
    pub(crate) fn value(&self, sample: &str) -> f64 {
        self.get(sample).unwrap_or_else(|| panic!("no {sample} in {}", self.text))
    }

    pub(crate) fn get(&self, sample: &str) -> Option<f64> {
        self.samples.get(sample).copied()
    }

    /// All samples of one metric.
    pub(crate) fn of(&self, metric: &str) -> Vec<f64> {
        let of = |name: &&String| name.split('{').next() == Some(metric);
        self.samples.keys().filter(of).map(|name| self.samples[name]).collect()
    }

    /// The names of all metrics.
    pub(crate) fn metrics(&self) -> Vec<String> {
        let types = self.text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.map(|line| line.split(' ').next().unwrap().to_string()).collect()
    }
}

/// Takes whatever is posted.
#[derive(Clone)]
pub(crate) struct Taker {
    address: SocketAddr,
    taken: watch::Sender<Vec<(String, Value)>>,
}

impl Taker {
    pub(crate) async fn start() -> Taker {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taker = Taker { address: listener.local_addr().unwrap(), taken: watch::Sender::new(Vec::new()) };
        let serving = taker.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let serving = serving.clone();
                tokio::spawn(async move {
                    let answer = service_fn(move |request| serving.clone().take(request));
                    let builder = hyper::server::conn::http1::Builder::new();
                    let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        taker
    }

    async fn take(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let path = request.uri().path().to_string();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap();
        self.taken.send_modify(|taken| taken.push((path, body)));
        Ok(Response::new(Full::default()))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until something was taken.
    pub(crate) async fn takes(&self, wanted: impl Fn(&[(String, Value)]) -> bool) -> Vec<(String, Value)> {
        let mut taken = self.taken.subscribe();
        let waited = tokio::time::timeout(HANG, taken.wait_for(|taken| wanted(taken))).await;
        waited.expect("it is not sent").unwrap().clone()
    }
}
