//! Being told of changes of one object.
//!
//! A watch begins at the resourceVersion of a list, so that nothing after it is missed, and goes on where it was when the connection ends.
//! Where that cannot be, because the apiserver no longer knows that version or was out of reach, there is a gap.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use baton_store::{BoxStream, Change};
use futures_util::{Stream, StreamExt};
use kube::api::{ListParams, PartialObjectMeta, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// How long the apiserver keeps one watch open.
const LENGTH_S: u32 = 60;
/// How much longer a watch may be silent before its connection counts as dead.
const LATENESS: Duration = Duration::from_secs(10);
/// A watch that ended sooner did not go well.
const TOO_SHORT: Duration = Duration::from_secs(1);
/// The first pause after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// HTTP: the resourceVersion is no longer known.
const GONE: u16 = 410;

/// Kinds of objects that can be watched here.
pub(crate) trait WatchedKind:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
}
impl<K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static> WatchedKind for K {}

type Events<K> = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<PartialObjectMeta<K>>>> + Send>>;

/// One watcher of one object.
struct Watcher<K: WatchedKind> {
    api: Api<K>,
    name: String,
    limit: Duration,
    /// From where to go on; none if that is not known.
    from: Option<String>,
    events: Option<(Events<K>, Instant)>,
    failures: u32,
    gap: bool,
}

/// Tells of changes of an object after a resourceVersion, whether it is there or not.
pub(crate) fn watch<K: WatchedKind>(
    api: Api<K>,
    name: String,
    from: Option<String>,
    limit: Duration,
) -> BoxStream<Change> {
    let watcher = Watcher { api, name, limit, from, events: None, failures: 0, gap: false };
    Box::pin(futures_util::stream::unfold(watcher, |mut watcher| async move {
        let change = watcher.change().await;
        Some((change, watcher))
    }))
}

/// The selector of one object.
pub(crate) fn only(name: &str) -> String {
    format!("metadata.name={name}")
}

/// The present resourceVersion.
pub(crate) async fn now<K: WatchedKind>(api: &Api<K>, name: &str) -> kube::Result<Option<String>> {
    Ok(api.list_metadata(&ListParams::default().fields(&only(name))).await?.metadata.resource_version)
}

impl<K: WatchedKind> Watcher<K> {
    async fn change(&mut self) -> Change {
        loop {
            let Some((events, since)) = &mut self.events else {
                if self.open().await {
                    return Change::Gap;
                }
                continue;
            };
            let longest = Duration::from_secs(u64::from(LENGTH_S)) + LATENESS;
            let (event, lasted) = (tokio::time::timeout(longest, events.next()).await, since.elapsed());
            match event {
                Ok(Some(Ok(
                    WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object),
                ))) => {
                    self.from = object.resource_version().or(self.from.take());
                    self.failures = 0;
                    return Change::Changed;
                }
                Ok(Some(Ok(WatchEvent::Bookmark(mark)))) => {
                    self.from = Some(mark.metadata.resource_version);
                    self.failures = 0;
                }
                Ok(Some(Ok(WatchEvent::Error(status)))) => self.failed(status.code == GONE),
                Ok(Some(Err(_))) | Err(_) => self.failed(false),
                // Its time was up; it goes on where it was.
                Ok(None) => {
                    self.events = None;
                    self.failures = if lasted < TOO_SHORT { self.failures.saturating_add(1) } else { 0 };
                }
            }
        }
    }

    /// Tries to open a watch. True if there may have been a change that it does not tell of.
    async fn open(&mut self) -> bool {
        if self.failures > 0 {
            tokio::time::sleep(pause(self.failures)).await;
        }
        if self.from.is_none() {
            match tokio::time::timeout(self.limit, now(&self.api, &self.name)).await {
                Ok(Ok(from)) => self.from = from,
                Ok(Err(_)) | Err(_) => {
                    self.failed(false);
                    return false;
                }
            }
        }
        let from = self.from.clone().unwrap_or_default();
        let parameters = WatchParams::default().fields(&only(&self.name)).timeout(LENGTH_S);
        match tokio::time::timeout(self.limit, self.api.watch_metadata(&parameters, &from)).await {
            Ok(Ok(events)) => {
                self.events = Some((Box::pin(events), Instant::now()));
                std::mem::take(&mut self.gap)
            }
            Ok(Err(kube::Error::Api(status))) => {
                self.failed(status.code == GONE);
                false
            }
            Ok(Err(_)) | Err(_) => {
                self.failed(false);
                false
            }
        }
    }

    fn failed(&mut self, forgotten: bool) {
        self.events = None;
        self.failures = self.failures.saturating_add(1);
        self.gap = true;
        if forgotten {
            self.from = None;
        }
    }
}

/// How long to wait after so many failures: longer each time, from half of it to all of it.
fn pause(failures: u32) -> Duration {
    let longest = FIRST_PAUSE.saturating_mul(1 << failures.min(10).saturating_sub(1)).min(LONGEST_PAUSE);
    let mut byte = [128];
    // Without random numbers, in the middle.
    let _ = getrandom::fill(&mut byte);
    longest.mul_f64(0.5 + f64::from(byte[0]) / 512.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        for (failures, most) in [(1, 100), (2, 200), (5, 1_600), (8, 10_000), (u32::MAX, 10_000)] {
            let pause = pause(failures).as_millis();
            assert!(pause >= most / 2 && pause <= most, "{failures}: {pause}");
        }
    }
}
