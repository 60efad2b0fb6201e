//! Traces for OpenTelemetry: a span for each command that is not a renewal, and one for each change of leader with its phases below.
//!
//! Assumes a collector that speaks OTLP over HTTP, or none. Guarantees that nobody waits for it: spans are put into a bounded queue, what
//! does not fit is dropped and counted, and a batch that could not be sent is dropped and counted. Does not guarantee that a trace is whole.

mod collector;
mod context;
mod span;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_election::document::Transition;
use baton_election::time::Span as Length;
use baton_election::{ElectionName, Epoch};
use http::StatusCode;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::metrics::{Counter, Part};
pub use collector::Collector;
pub(crate) use context::Context;
use span::{Kind, Span};

/// The most spans that wait to be sent.
const LONGEST: usize = 4_096;
/// The most spans of one batch.
const BATCH: usize = 512;
/// How long a batch waits for more.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a collector that failed is left alone.
const AFTER_A_FAILURE: Duration = Duration::from_secs(5);

/// What came of the spans.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TraceCounts {
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
}

/// Makes spans and sends them.
pub(crate) struct Tracer {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    /// Tells this run of the server from others, in the numbers of traces.
    run: String,
    collector: Collector,
    queue: Mutex<VecDeque<Span>>,
    more: Notify,
    sent: Counter,
    dropped: Counter,
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A command that is being carried out.
pub(crate) struct OpenSpan {
    name: &'static str,
    context: Option<Context>,
    election: Option<String>,
    start: u64,
}

impl Tracer {
    /// The task that this starts ends with it.
    pub(crate) fn start(collector: Collector, run: &str) -> Arc<Tracer> {
        let shared = Arc::new(Shared {
            run: run.to_string(),
            collector,
            queue: Mutex::default(),
            more: Notify::new(),
            sent: Counter::default(),
            dropped: Counter::default(),
        });
        let task = tokio::spawn(Arc::clone(&shared).send_all()).abort_handle();
        Arc::new(Tracer { shared, task })
    }

    pub(crate) fn sent(&self) -> TraceCounts {
        TraceCounts { sent: self.shared.sent.value(), dropped: self.shared.dropped.value() }
    }

    /// A command begins. None if who sent it does not want it to be recorded.
    pub(crate) fn begin(
        &self,
        name: &'static str,
        traceparent: Option<&str>,
        election: Option<&str>,
    ) -> Option<OpenSpan> {
        let context = traceparent.and_then(Context::parse);
        let wanted = context.is_none_or(|context| context.sampled);
        wanted.then(|| OpenSpan { name, context, election: election.map(ToString::to_string), start: now() })
    }

    /// It has ended so.
    pub(crate) fn end(&self, begun: OpenSpan, status: StatusCode) {
        let OpenSpan { name, context, election, start } = begun;
        let trace = context.map_or_else(random, |context| context.trace);
        let mut attributes = vec![("http.response.status_code", status.as_u16().to_string())];
        attributes.extend(election.map(|election| ("baton.election", election)));
        self.shared.put(Span {
            trace,
            id: random(),
            parent: context.map(|context| context.parent),
            name,
            kind: Kind::Server,
            start,
            end: now(),
            attributes,
            failed: status.is_server_error(),
        });
    }

    /// A leader was granted: the change, and the phases that are over.
    pub(crate) fn transition(&self, election: &ElectionName, transition: &Transition) {
        let phases = &transition.phases;
        let (detection, choice) = (phases.detection.unwrap_or_default(), phases.election.unwrap_or_default());
        let end = now();
        let noticed = end.saturating_sub(choice.as_nanos());
        let start = noticed.saturating_sub(detection.as_nanos());
        let (trace, id) = self.shared.ids(election, transition.epoch);
        let mut attributes = vec![
            ("baton.election", election.to_string()),
            ("baton.epoch", transition.epoch.to_string()),
            ("baton.cause", transition.cause.to_string()),
            ("baton.kind", transition.cause.handover().to_string()),
            ("baton.leader", transition.to.to_string()),
        ];
        attributes.extend(transition.from.as_ref().map(|from| ("baton.from", from.to_string())));
        let whole = Span {
            trace,
            id,
            parent: None,
            name: "transition",
            kind: Kind::Internal,
            start,
            end,
            attributes,
            failed: false,
        };
        self.shared.put(whole);
        for (part, measured, from, to) in [
            (Part::Detection, phases.detection, start, noticed),
            (Part::Election, phases.election, noticed, end),
        ] {
            if measured.is_some() {
                self.shared.put(child(trace, id, part, from, to));
            }
        }
    }

    /// A phase after the grant is over.
    pub(crate) fn phase(&self, election: &ElectionName, epoch: Epoch, part: Part, took: Length) {
        let (trace, id) = self.shared.ids(election, epoch);
        let end = now();
        self.shared.put(child(trace, id, part, end.saturating_sub(took.as_nanos()), end));
    }

    /// Waits until all is sent or dropped, for at most so long.
    pub(crate) async fn finish(&self, within: Duration) {
        let empty = async {
            while self.shared.outstanding() {
                self.shared.more.notify_one();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(within, empty).await;
    }
}

fn child(trace: [u8; 16], parent: [u8; 8], part: Part, start: u64, end: u64) -> Span {
    Span {
        trace,
        id: random(),
        parent: Some(parent),
        name: part.name(),
        kind: Kind::Internal,
        start,
        end,
        attributes: Vec::new(),
        failed: false,
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Span>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outstanding(&self) -> bool {
        !self.queue().is_empty()
    }

    fn put(&self, span: Span) {
        let mut queue = self.queue();
        if queue.len() >= LONGEST {
            self.dropped.one();
            return;
        }
        queue.push_back(span);
        if queue.len() >= BATCH {
            self.more.notify_one();
        }
    }

    /// By what a change of leader is known: whoever tells of a later phase of it knows them again.
    fn ids(&self, election: &ElectionName, epoch: Epoch) -> ([u8; 16], [u8; 8]) {
        let digest = Sha256::digest(format!("{} {election} {epoch}", self.run));
        let (mut trace, mut id) = ([0; 16], [0; 8]);
        trace.copy_from_slice(&digest[..16]);
        id.copy_from_slice(&digest[16..24]);
        (trace, id)
    }

    async fn send_all(self: Arc<Self>) {
        loop {
            let _ = tokio::time::timeout(PAUSE, self.more.notified()).await;
            let batch: Vec<Span> = {
                let mut queue = self.queue();
                let many = queue.len().min(BATCH);
                queue.drain(..many).collect()
            };
            if batch.is_empty() {
                continue;
            }
            let many = batch.len() as u64;
            match self.collector.send(span::written(&batch)).await {
                Ok(()) => self.sent.add(many),
                Err(_) => {
                    self.dropped.add(many);
                    tokio::time::sleep(AFTER_A_FAILURE).await;
                }
            }
        }
    }
}

/// Nanoseconds since 1970, for people.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Without randomness, traces could not be told apart, and nothing else is lost.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [1; N];
    let _ = getrandom::fill(&mut bytes);
    bytes
}
