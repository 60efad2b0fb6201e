//! Changes, as the server tells of them.

use std::time::Duration;

use baton_api::endpoints::{Endpoint, Target};
use baton_election::ElectionName;
use baton_store::{BoxStream, Change, StoreError};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::client::{Client, LARGEST};

/// A server that is silent for longer has gone: it says every ten seconds that it is there.
const SILENCE: Duration = Duration::from_secs(25);
/// The longest wait between two attempts to connect.
const LONGEST: Duration = Duration::from_secs(5);
/// Between two looks, where nobody tells.
const LOOK: Duration = Duration::from_secs(1);

/// One stream, and what is needed to go on with another.
struct EventStream {
    client: Client,
    target: Target,
    events: Option<Incoming>,
    /// What was received and not yet read.
    text: Vec<u8>,
    /// The id of the last event.
    last: Option<String>,
    failures: u32,
    /// The server does not let it in: whoever looks itself is told why.
    refused: bool,
}

/// Tells of changes from here on.
pub(crate) async fn watch(client: &Client, election: &ElectionName) -> Result<BoxStream<Change>, StoreError> {
    let target = Endpoint::Watch.target(&[election]);
    let events = client.events(&target, None).await.map_err(|fault| fault.of_reading(&client.base))?;
    let mut stream = EventStream {
        client: client.clone(),
        target,
        events: Some(events),
        text: Vec::new(),
        last: None,
        failures: 0,
        refused: false,
    };
    // The first event says how it stands: whatever changes is told after it.
    stream.next_event().await;
    Ok(Box::pin(stream::unfold(stream, |mut stream| async move { Some((stream.next().await, stream)) })))
}

/// Says again and again that something may have changed.
pub(crate) fn polled() -> BoxStream<Change> {
    Box::pin(stream::unfold((), |()| async {
        tokio::time::sleep(LOOK.mul_f64(jitter(0.5))).await;
        Some((Change::Changed, ()))
    }))
}

impl EventStream {
    async fn next(&mut self) -> Change {
        loop {
            if self.events.is_some() {
                match self.next_event().await {
                    Some(event) if event == "change" => return Change::Changed,
                    Some(_) => return Change::Gap,
                    None => self.events = None,
                }
            }
            if self.connect().await && self.last.is_none() || std::mem::take(&mut self.refused) {
                return Change::Gap;
            }
        }
    }

    /// Tries once, after a while if it failed before. Says whether it worked.
    async fn connect(&mut self) -> bool {
        if self.failures > 0 {
            let wait = Duration::from_millis(50).saturating_mul(1 << self.failures.min(7)).min(LONGEST);
            tokio::time::sleep(wait.mul_f64(jitter(1.0))).await;
        }
        // Until it tells something, it has failed.
        self.failures = self.failures.saturating_add(1);
        self.text.clear();
        match self.client.events(&self.target, self.last.as_deref()).await {
            Ok(events) => {
                self.events = Some(events);
                true
            }
            Err(fault) => {
                self.refused = fault.is_refusal();
                false
            }
        }
    }

    /// The kind of the next event; none if the stream ended.
    async fn next_event(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.text.drain(..end + 2).collect();
                if let Some(kind) = self.take_in(&String::from_utf8_lossy(&event)) {
                    return Some(kind);
                }
                continue;
            }
            let more = self.more().await?;
            if self.text.len() + more.len() > LARGEST {
                return None;
            }
            self.text.extend_from_slice(&more);
        }
    }

    fn take_in(&mut self, event: &str) -> Option<String> {
        let field = |name: &str| {
            event
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .map(ToString::to_string)
        };
        let kind = field("event")?;
        self.failures = 0;
        match field("id") {
            Some(id) => self.last = Some(id),
            None if kind == "gap" => self.last = None,
            None => {}
        }
        Some(kind)
    }

    async fn more(&mut self) -> Option<Bytes> {
        let frame = tokio::time::timeout(SILENCE, self.events.as_mut()?.frame()).await.ok()??.ok()?;
        Some(frame.into_data().unwrap_or_default())
    }
}

/// Between `1 - part` and 1, at random.
pub(crate) fn jitter(part: f64) -> f64 {
    let random = f64::from(getrandom::u32().unwrap_or(0)) / f64::from(u32::MAX);
    1.0 - part * random
}
