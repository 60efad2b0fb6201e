//! What waits to be delivered to one receiver. Whoever puts something in never waits; when it is full, the oldest goes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::engine::Event;

/// The most that waits.
pub(super) const LONGEST: usize = 1_024;

pub(super) struct Queue {
    state: Mutex<State>,
    /// How many have not been dealt with: those that wait, and the one in hand.
    outstanding: watch::Sender<usize>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Event>>,
    /// How many went undelivered right before the first that waits.
    missed: u64,
}

impl Queue {
    pub(super) fn new() -> Arc<Queue> {
        Arc::new(Queue { state: Mutex::default(), outstanding: watch::Sender::new(0) })
    }

    pub(super) fn put(&self, event: Arc<Event>) {
        let full = {
            let mut state = self.state();
            let full = state.waiting.len() == LONGEST;
            if full {
                state.waiting.pop_front();
                state.missed += 1;
            }
            state.waiting.push_back(event);
            full
        };
        if !full {
            self.outstanding.send_modify(|count| *count += 1);
        }
    }

    /// The first that waits, and how many went undelivered right before it.
    pub(super) async fn take(&self) -> (Arc<Event>, u64) {
        let mut outstanding = self.outstanding.subscribe();
        loop {
            {
                let mut state = self.state();
                if let Some(event) = state.waiting.pop_front() {
                    return (event, std::mem::take(&mut state.missed));
                }
            }
            if outstanding.wait_for(|count| *count > 0).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The one in hand has been dealt with; so many went undelivered, it among them if it was given up.
    pub(super) fn done(&self, undelivered: u64) {
        self.state().missed += undelivered;
        self.outstanding.send_modify(|count| *count -= 1);
    }

    /// Waits until all has been dealt with.
    pub(super) async fn empty(&self) {
        let _ = self.outstanding.subscribe().wait_for(|count| *count == 0).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_go_and_the_next_says_how_many() {
        let queue = Queue::new();
        let longest = LONGEST as u64;
        for number in 1..=longest + 3 {
            queue.put(Event::numbered(number));
        }
        let (first, missed) = queue.take().await;
        assert_eq!((first.number, missed), (4, 3));
        queue.done(missed + 1);
        let (second, missed) = queue.take().await;
        assert_eq!((second.number, missed), (5, 4), "what was given up is missed, too");
        queue.done(0);
        let (third, missed) = queue.take().await;
        assert_eq!((third.number, missed), (6, 0));
    }

    #[tokio::test]
    async fn it_is_empty_when_the_last_has_been_dealt_with() {
        let queue = Queue::new();
        queue.put(Event::numbered(1));
        queue.take().await;
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.empty().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        queue.done(0);
        waiting.await.unwrap();
    }
}
