//! Whether the store can be written, as the last write showed. Nothing is written to find out while writes succeed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use baton_election::time::{Moment, Span};
use baton_store::{AgeStamp, Key, Persistence, Reading, Store, StoreError, boot};

/// How often a store that failed is written to by those who only ask whether it can be.
const AGAIN: Span = Span::secs(1);

#[derive(Default)]
pub(super) struct Health {
    fails: AtomicBool,
    failure: Mutex<Option<(StoreError, Moment)>>,
}

impl Health {
    /// Takes in what came of a write.
    pub(super) fn note(&self, failed: Option<&StoreError>) {
        match failed {
            // Nothing was wrong with the store.
            Some(StoreError::Conflict) => {}
            Some(error) => self.failed(error),
            None => self.wrote(),
        }
    }

    /// A write has succeeded.
    fn wrote(&self) {
        if self.fails.swap(false, Ordering::Relaxed) {
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// A write has failed.
    fn failed(&self, error: &StoreError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some((error.clone(), boot::now()));
        self.fails.store(true, Ordering::Relaxed);
    }

    /// Fails if the store cannot be read, or could not be written the last time. Then, at times, it is tried.
    pub(super) async fn check(&self, store: &dyn Store) -> Result<(), StoreError> {
        let Reading { found, .. } = store.read(&Key::Store).await?;
        let Some(failure) = self.due() else { return Ok(()) };
        failure?;
        let Some((record, version)) = found else { return Ok(()) };
        // What is there is written once more as it is.
        match store
            .swap(
                &Key::Store,
                baton_store::Expect::Version(version),
                &record,
                AgeStamp::Preserve,
                Persistence::Durable,
            )
            .await
        {
            // Somebody else has just written it.
            Ok(_) | Err(StoreError::Conflict) => {
                self.wrote();
                Ok(())
            }
            Err(error) => {
                self.failed(&error);
                Err(error)
            }
        }
    }

    /// None if writes succeed; else why not, unless it is time to try. Only one tries at a time.
    fn due(&self) -> Option<Result<(), StoreError>> {
        if !self.fails.load(Ordering::Relaxed) {
            return None;
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let (error, at) = failure.as_mut()?;
        if boot::now().since(*at) < AGAIN {
            return Some(Err(error.clone()));
        }
        *at = boot::now();
        Some(Ok(()))
    }
}
