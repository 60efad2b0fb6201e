//! Looking again and again, with jitter, and less often while Spanner does not answer.

use std::sync::Arc;
use std::time::Duration;

use baton_store::{BoxStream, Change, Key, StoreError};

use crate::client::Client;
use crate::reader;

/// The longest pause while there is no answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// One watcher of one key.
struct Watcher {
    client: Arc<Client>,
    key: Key,
    last: Option<String>,
    failures: u32,
}

/// Tells of changes under a key from now on: what is there at this moment is what later looks are compared with.
pub(crate) async fn watch(client: Arc<Client>, key: Key) -> Result<BoxStream<Change>, StoreError> {
    let last = reader::version(&client, &key).await?;
    let watcher = Watcher { client, key, last, failures: 0 };
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
            match reader::version(&self.client, &self.key).await {
                Err(_) => self.failures = self.failures.saturating_add(1),
                Ok(version) if self.failures > 0 => {
                    self.failures = 0;
                    self.last = version;
                    return Change::Gap;
                }
                Ok(version) if version != self.last => {
                    self.last = version;
                    return Change::Changed;
                }
                Ok(_) => {}
            }
        }
    }

    fn pause(&self) -> Duration {
        let backed_off = self.client.settings.poll.saturating_mul(1 << self.failures.min(8));
        backed_off.min(LONGEST_PAUSE.max(self.client.settings.poll)).mul_f64(1.0 + jitter())
    }
}

/// How often one watcher looks in an hour, on average.
pub(crate) fn looks_per_hour(poll: Duration) -> u32 {
    let between_ms = poll.as_millis().saturating_mul(3) / 2;
    u32::try_from(3_600_000 / between_ms.max(1)).unwrap_or(u32::MAX)
}

/// From 0 to 1; without random numbers, in the middle.
fn jitter() -> f64 {
    let mut byte = [0];
    getrandom::fill(&mut byte).map_or(0.5, |()| f64::from(byte[0]) / 256.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_counted_with_their_jitter() {
        assert_eq!(looks_per_hour(Duration::from_secs(1)), 2_400);
        assert_eq!(looks_per_hour(Duration::from_secs(60)), 40);
    }
}
