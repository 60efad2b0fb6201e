//! What every transport counts, and what it has to tell people.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::transport::Counters;

/// What people have not been told yet.
const COMPLAINTS_MAX: usize = 16;
/// What people have been told, and are not told again.
const TOLD_MAX: usize = 256;

/// [`Counters`] that several tasks raise.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) oversized: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) connections: AtomicU64,
}

impl Tally {
    pub(crate) fn counters(&self) -> Counters {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            sent: value(&self.sent),
            received: value(&self.received),
            dropped: value(&self.dropped),
            oversized: value(&self.oversized),
            malformed: value(&self.malformed),
            refused: value(&self.refused),
            connections: value(&self.connections),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whole between any two statements, also where a panic left it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What people should know, each of it once.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    texts: VecDeque<String>,
    told: BTreeSet<String>,
}

impl Complaints {
    /// Tells people something, once.
    pub(crate) fn tell(&self, text: String) {
        let mut waiting = lock(&self.0);
        if waiting.texts.len() < COMPLAINTS_MAX
            && waiting.told.len() < TOLD_MAX
            && waiting.told.insert(text.clone())
        {
            waiting.texts.push_back(text);
        }
    }

    /// What was complained of is mended: it may be told again.
    pub(crate) fn forgive(&self, beginning: &str) {
        lock(&self.0).told.retain(|text| !text.starts_with(beginning));
    }

    /// What has not been told yet.
    pub(crate) fn take(&self) -> Vec<String> {
        lock(&self.0).texts.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_told_once_until_it_is_forgiven() {
        let complaints = Complaints::default();
        complaints.tell("member 2: no".to_string());
        complaints.tell("member 2: no".to_string());
        assert_eq!(complaints.take(), ["member 2: no"]);
        complaints.tell("member 2: no".to_string());
        assert!(complaints.take().is_empty());
        complaints.forgive("member 2");
        complaints.tell("member 2: no".to_string());
        assert_eq!(complaints.take(), ["member 2: no"]);
    }

    #[test]
    fn no_more_than_a_few_are_kept() {
        let complaints = Complaints::default();
        for n in 0..1_000 {
            complaints.tell(n.to_string());
        }
        assert_eq!(complaints.take().len(), COMPLAINTS_MAX);
    }
}
