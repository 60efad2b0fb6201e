//! Looking again and again, with jitter, and less often while the arbiter does not answer.

use std::sync::Arc;
use std::time::Duration;

use baton_store::{BoxStream, Change, StoreError, Version};

use crate::refs::Oid;
use crate::store::Inner;

/// What stands between the two claims in the version that settles a divergence.
pub(crate) const SETTLES: char = '+';

/// How often a remote is asked: from this to twice this.
const REMOTE_PAUSE: Duration = Duration::from_secs(1);
/// How often the repository itself is.
const LOCAL_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause while there is no answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The version of a record whose tip this is.
pub(crate) fn version(oid: &Oid) -> Version {
    Version::new(oid.as_str())
}

/// One watcher of one ref.
struct Watcher {
    inner: Arc<Inner>,
    refname: String,
    last: Option<Oid>,
    failures: u32,
}

/// Tells of changes of a ref from now on.
pub(crate) async fn watch(inner: Arc<Inner>, refname: String) -> Result<BoxStream<Change>, StoreError> {
    let last = inner.tip_oid(&refname).await?;
    let watcher = Watcher { inner, refname, last, failures: 0 };
    let changes = futures_util::stream::unfold(watcher, |mut watcher| async move {
        let change = watcher.change().await;
        Some((change, watcher))
    });
    Ok(Box::pin(changes))
}

impl Watcher {
    async fn change(&mut self) -> Change {
        loop {
            tokio::time::sleep(self.pause()).await;
            match self.inner.tip_oid(&self.refname).await {
                Err(_) => self.failures = self.failures.saturating_add(1),
                Ok(tip) if self.failures > 0 => {
                    self.failures = 0;
                    self.last = tip;
                    return Change::Gap;
                }
                Ok(tip) if tip != self.last => {
                    self.last = tip;
                    return Change::Changed;
                }
                Ok(_) => {}
            }
        }
    }

    fn pause(&self) -> Duration {
        let pause = if self.inner.arbiter.is_here() { LOCAL_PAUSE } else { REMOTE_PAUSE };
        let backed_off = pause.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
        backed_off.mul_f64(1.0 + jitter())
    }
}

/// From 0 to 1; without random numbers, in the middle.
fn jitter() -> f64 {
    let mut byte = [0];
    getrandom::fill(&mut byte).map_or(0.5, |()| f64::from(byte[0]) / 256.0)
}
