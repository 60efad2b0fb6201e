//! Looking again and again, with jitter, and less often while Spanner does not answer.

use std::sync::Arc;
use std::time::Duration;

use baton_store::{BoxStream, Change, Key, StoreError, polled};

use crate::client::Client;
use crate::reader;

/// Tells of changes under a key from now on: what is there at this moment is what later looks are compared with.
pub(crate) async fn watch(client: Arc<Client>, key: Key) -> Result<BoxStream<Change>, StoreError> {
    let last = reader::version(&client, &key).await?;
    Ok(polled(last, client.settings.poll, move || {
        let (client, key) = (Arc::clone(&client), key.clone());
        async move { reader::version(&client, &key).await }
    }))
}

/// How often one watcher looks in an hour, on average.
pub(crate) fn looks_per_hour(poll: Duration) -> u32 {
    let between_ms = poll.as_millis().saturating_mul(3) / 2;
    u32::try_from(3_600_000 / between_ms.max(1)).unwrap_or(u32::MAX)
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
