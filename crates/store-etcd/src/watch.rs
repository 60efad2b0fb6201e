//! Being told of changes, through whichever member answers, with a gap wherever some may have been missed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_election::Moment;
use baton_store::{BoxStream, Change, StoreError, boot};
use futures_util::{StreamExt, stream};
use tokio::sync::oneshot;
use tonic::{Status, Streaming};

use crate::client::{Client, Connection, Effect};
use crate::fault::{Fault, Meaning};
use crate::shape::Area;
use crate::wire::etcdserverpb::watch_client::WatchClient;
use crate::wire::etcdserverpb::watch_create_request::FilterType;
use crate::wire::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse, watch_request};
use crate::wire::mvccpb::KeyValue;
use crate::wire::mvccpb::event::EventType;

/// The first pause after a failure is drawn from this to twice this.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// No pause is drawn from above twice this.
const LONGEST_PAUSE: Duration = Duration::from_secs(4);

/// A range of keys to watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchRange {
    pub(crate) area: Area,
    /// From which revision on; zero for whatever comes.
    pub(crate) from: i64,
    /// Whether only deletions count.
    pub(crate) deletions: bool,
}

/// A stream of events from one member.
pub(crate) struct Feed {
    answers: Streaming<WatchResponse>,
    /// Ends the requests when it is dropped, and so the watch: to drop the answers alone would leave it to etcd to send them.
    _open: oneshot::Sender<()>,
    /// Whether there was an event before every range was subscribed to.
    early: bool,
}

impl Feed {
    /// Opens a feed of every change in these ranges from here on.
    pub(crate) async fn open(client: &Client, ranges: &[WatchRange]) -> Result<Feed, Fault> {
        let ranges: Arc<[WatchRange]> = ranges.into();
        let subscribe =
            || client.call(Effect::Repeatable, |connection| subscribe(connection, Arc::clone(&ranges)));
        match subscribe().await {
            // Older etcds say the same of a token that has run out; a read tells them apart, and renews it.
            Err(fault) if matches!(fault.meaning(), Meaning::Refused(_)) => {
                for part in &*ranges {
                    client.range(&part.area.keys(1)).await?;
                }
                subscribe().await
            }
            answer => answer,
        }
    }

    /// Waits for an event. None if the feed has ended; else what was put last, unless it is not known or was deleted.
    pub(crate) async fn event(&mut self) -> Option<Option<KeyValue>> {
        if std::mem::take(&mut self.early) {
            return Some(None);
        }
        loop {
            match self.answers.message().await {
                Ok(Some(answer)) if answer.canceled => return None,
                Ok(Some(answer)) if answer.events.is_empty() => {}
                Ok(Some(mut answer)) => {
                    let last = answer.events.pop();
                    return Some(
                        last.filter(|event| event.r#type() == EventType::Put).and_then(|event| event.kv),
                    );
                }
                Ok(None) | Err(_) => return None,
            }
        }
    }
}

async fn subscribe(connection: Connection, ranges: Arc<[WatchRange]>) -> Result<Feed, Status> {
    let count = ranges.len();
    let requests: Vec<WatchRequest> = ranges.iter().map(request).collect();
    // The stream of requests stays open: to end it would be to end the watch.
    let (open, dropped) = oneshot::channel();
    let rest = stream::once(dropped).filter_map(|_| std::future::ready(None));
    let requests = connection.request(stream::iter(requests).chain(rest));
    let mut answers = WatchClient::new(connection.channel.clone()).watch(requests).await?.into_inner();
    let (mut created, mut early) = (0, false);
    while created < count {
        match answers.message().await? {
            Some(answer) if answer.canceled => return Err(Status::unavailable(answer.cancel_reason)),
            Some(answer) if answer.created => created += 1,
            Some(answer) => early |= !answer.events.is_empty(),
            None => return Err(Status::unavailable("the watch ended before it began")),
        }
    }
    Ok(Feed { answers, _open: open, early })
}

fn request(range: &WatchRange) -> WatchRequest {
    let create = WatchCreateRequest {
        key: range.area.from.clone(),
        range_end: range.area.to.clone(),
        start_revision: range.from,
        progress_notify: false,
        filters: if range.deletions { vec![FilterType::Noput.into()] } else { Vec::new() },
    };
    WatchRequest { request_union: Some(watch_request::RequestUnion::CreateRequest(create)) }
}

/// The last value that the watches saw of each key, until it is taken.
pub(crate) type LastPushed = Arc<Mutex<HashMap<Vec<u8>, PushedValue>>>;

/// A value as a watch saw it.
#[derive(Clone, Debug)]
pub(crate) struct PushedValue {
    pub(crate) found: KeyValue,
    /// When it had not happened yet.
    pub(crate) after: Moment,
    pub(crate) received_at: Moment,
}

/// One watcher of one area.
struct Watcher {
    client: Arc<Client>,
    ranges: [WatchRange; 1],
    feed: Option<Feed>,
    failures: u32,
    /// Where to put what is told, for whoever is in a hurry.
    told: Option<LastPushed>,
    /// The last time that there was nothing to tell.
    quiet_at: Moment,
}

/// Tells of changes in an area from now on.
pub(crate) async fn watch(
    client: Arc<Client>,
    area: Area,
    told: Option<LastPushed>,
) -> Result<BoxStream<Change>, StoreError> {
    let quiet_at = boot::now();
    let ranges = [WatchRange { area, from: 0, deletions: false }];
    let feed = Feed::open(&client, &ranges).await.map_err(|fault| fault.of_reading(&client.location))?;
    let watcher = Watcher { client, ranges, feed: Some(feed), failures: 0, told, quiet_at };
    let changes = stream::unfold(watcher, |mut watcher| async move {
        let change = watcher.change().await;
        Some((change, watcher))
    });
    Ok(Box::pin(changes))
}

impl Watcher {
    async fn change(&mut self) -> Change {
        loop {
            match &mut self.feed {
                Some(feed) => {
                    if let Some(news) = feed.event().await {
                        self.failures = 0;
                        let received_at = boot::now();
                        let after = std::mem::replace(&mut self.quiet_at, received_at);
                        if let (Some(told), Some(found)) = (&self.told, news) {
                            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                            told.insert(found.key.clone(), PushedValue { found, after, received_at });
                        }
                        return Change::Changed;
                    }
                    self.feed = None;
                }
                None => {
                    // Also before the first try: a member that fails has many watchers.
                    tokio::time::sleep(pause(self.failures)).await;
                    self.failures = self.failures.saturating_add(1);
                    let quiet_at = boot::now();
                    if let Ok(feed) = Feed::open(&self.client, &self.ranges).await {
                        self.quiet_at = quiet_at;
                        self.feed = Some(feed);
                        return Change::Gap;
                    }
                }
            }
        }
    }
}

/// How long to wait after so many failures, with jitter.
pub(crate) fn pause(failures: u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(LONGEST_PAUSE);
    let mut byte = [0];
    let jitter = getrandom::fill(&mut byte).map_or(0.5, |()| f64::from(byte[0]) / 256.0);
    pause.mul_f64(1.0 + jitter)
}
