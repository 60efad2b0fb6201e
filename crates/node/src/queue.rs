//! Messages that wait for one receiver.
//!
//! Guarantees that at most [`QUEUE_LENGTH`] wait, of which the oldest is dropped for a newer one, and that putting one in
//! never waits. Does not guarantee that one that was taken out arrives.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::transport::QUEUE_LENGTH;

/// Filled by the shell, emptied by the task of one connection.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Backlog>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Backlog {
    messages: VecDeque<Vec<u8>>,
    /// One was taken out and is not with the network yet.
    in_hand: bool,
}

impl Queue {
    /// Puts a message in; says whether another fell out for it.
    pub(crate) fn push(&self, message: Vec<u8>) -> bool {
        let mut waiting = self.lock();
        let full = waiting.messages.len() >= QUEUE_LENGTH;
        if full {
            waiting.messages.pop_front();
        }
        waiting.messages.push_back(message);
        drop(waiting);
        self.filled.notify_one();
        full
    }

    /// Waits for the next message, which is in hand until [`Queue::sent`].
    pub(crate) async fn pop(&self) -> Vec<u8> {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.filled.notified().await;
        }
    }

    fn take(&self) -> Option<Vec<u8>> {
        let mut waiting = self.lock();
        let message = waiting.messages.pop_front();
        waiting.in_hand = message.is_some();
        message
    }

    /// The network has what was taken out.
    pub(crate) fn sent(&self) {
        self.lock().in_hand = false;
    }

    /// Whether everything is with the network.
    pub(crate) fn is_empty(&self) -> bool {
        let waiting = self.lock();
        waiting.messages.is_empty() && !waiting.in_hand
    }

    fn lock(&self) -> MutexGuard<'_, Backlog> {
        // Whole between any two statements, also where a panic left it.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn the_oldest_makes_room_for_the_newest() {
        let queue = Queue::default();
        for n in 0..=u8::try_from(QUEUE_LENGTH).unwrap() {
            assert_eq!(queue.push(vec![n]), usize::from(n) == QUEUE_LENGTH);
        }
        for n in 1..=u8::try_from(QUEUE_LENGTH).unwrap() {
            assert!(!queue.is_empty());
            assert_eq!(queue.pop().await, [n]);
        }
        assert!(!queue.is_empty(), "the last one is in hand");
        queue.sent();
        assert!(queue.is_empty());
    }
}
