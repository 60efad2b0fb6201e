//! Changes that are found by looking again and again: with jitter, and less often while there is no answer.

use std::time::Duration;

use crate::error::StoreError;
use crate::store::{BoxStream, Change};

/// The longest pause while there is no answer, unless looks are rarer anyway.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Tells whenever a look shows something else than the last one did, and that changes may have been missed when there is an answer
/// again. Looks come from `pause` to twice that apart.
pub fn polled<V, F>(last: V, pause: Duration, look: impl Fn() -> F + Send + 'static) -> BoxStream<Change>
where
    V: PartialEq + Send + 'static,
    F: Future<Output = Result<V, StoreError>> + Send + 'static,
{
    Box::pin(futures_util::stream::unfold((last, look), move |(mut last, look)| async move {
        let mut failures = 0_u32;
        loop {
            let backed_off = pause.saturating_mul(1 << failures.min(8)).min(LONGEST_PAUSE.max(pause));
            tokio::time::sleep(jittered(backed_off)).await;
            let change = match look().await {
                Err(_) => {
                    failures = failures.saturating_add(1);
                    continue;
                }
                Ok(seen) if failures == 0 && seen == last => continue,
                Ok(seen) => {
                    last = seen;
                    if failures == 0 { Change::Changed } else { Change::Gap }
                }
            };
            return Some((change, (last, look)));
        }
    }))
}

/// From this to twice this; without random numbers, in the middle.
pub fn jittered(pause: Duration) -> Duration {
    let part = f64::from(getrandom::u32().unwrap_or(u32::MAX / 2)) / f64::from(u32::MAX);
    pause.mul_f64(1.0 + part)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures_util::StreamExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_once_and_a_silence_as_a_gap() {
        let shown: Arc<Mutex<Vec<Result<u8, ()>>>> = Arc::default();
        let look = {
            let shown = Arc::clone(&shown);
            move || {
                let seen = shown.lock().unwrap().pop().unwrap_or(Ok(3));
                let unavailable = |()| StoreError::Unavailable {
                    location: "here".to_string(),
                    why: "silence".to_string(),
                    hint: String::new(),
                };
                std::future::ready(seen.map_err(unavailable))
            }
        };
        // The last is seen first.
        *shown.lock().unwrap() = vec![Ok(2), Err(()), Err(()), Ok(2), Ok(2), Ok(1)];
        let mut changes = polled(1, Duration::from_secs(1), look);
        let begun = tokio::time::Instant::now();
        assert_eq!(changes.next().await, Some(Change::Changed), "2");
        assert!(begun.elapsed() >= Duration::from_secs(2), "looks are a pause apart");
        assert_eq!(changes.next().await, Some(Change::Gap), "there is an answer again, and the same");
        assert_eq!(changes.next().await, Some(Change::Changed), "3");
    }
}
