//! Frames that wait to be written to the daemon.
//!
//! Guarantees that at most [`QUEUE_LENGTH`] wait for one receiver, of which the oldest is dropped for a newer one, and that
//! putting one in never waits. Does not guarantee that one that was taken out arrives.

use std::collections::VecDeque;
use std::sync::Mutex;

use baton_peer::NodeId;
use tokio::sync::Notify;

use crate::tally::lock;
use crate::transport::QUEUE_LENGTH;

/// Filled by the shell and by the reader of the line, emptied by its writer.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<Backlog>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Backlog {
    frames: VecDeque<Frame>,
    /// One was taken out and is not with the daemon yet.
    in_hand: bool,
}

/// A frame, and for which member; none if it is for the daemon itself.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) to: Option<NodeId>,
    pub(super) bytes: Vec<u8>,
}

impl Outbox {
    /// Puts a frame in; says whether another fell out for it.
    pub(super) fn push(&self, to: Option<NodeId>, bytes: Vec<u8>) -> bool {
        let mut waiting = lock(&self.waiting);
        let full = waiting.frames.iter().filter(|frame| frame.to == to).count() >= QUEUE_LENGTH;
        if full && let Some(oldest) = waiting.frames.iter().position(|frame| frame.to == to) {
            waiting.frames.remove(oldest);
        }
        waiting.frames.push_back(Frame { to, bytes });
        drop(waiting);
        self.filled.notify_one();
        full
    }

    /// Waits for the next frame, which is in hand until [`Outbox::sent`].
    pub(super) async fn pop(&self) -> Frame {
        loop {
            if let Some(frame) = self.take() {
                return frame;
            }
            self.filled.notified().await;
        }
    }

    fn take(&self) -> Option<Frame> {
        let mut waiting = lock(&self.waiting);
        let frame = waiting.frames.pop_front();
        waiting.in_hand = frame.is_some();
        frame
    }

    /// The daemon has what was taken out.
    pub(super) fn sent(&self) {
        lock(&self.waiting).in_hand = false;
    }

    /// Forgets everything: whoever reads it later would be told old stories.
    pub(super) fn clear(&self) {
        *lock(&self.waiting) = Backlog::default();
    }

    pub(super) fn is_empty(&self) -> bool {
        let waiting = lock(&self.waiting);
        waiting.frames.is_empty() && !waiting.in_hand
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn the_oldest_of_one_receiver_makes_room_and_others_keep_theirs() {
        let (outbox, two, three) = (Outbox::default(), NodeId::new(2).ok(), NodeId::new(3).ok());
        assert!(!outbox.push(three, vec![0xff]));
        for n in 0..=u8::try_from(QUEUE_LENGTH).unwrap() {
            assert_eq!(outbox.push(two, vec![n]), usize::from(n) == QUEUE_LENGTH);
        }
        assert_eq!(outbox.pop().await.bytes, [0xff]);
        assert_eq!(outbox.pop().await.bytes, [1], "the oldest fell out");
        for _ in 1..QUEUE_LENGTH {
            outbox.pop().await;
        }
        assert!(!outbox.is_empty(), "the last one is in hand");
        outbox.sent();
        assert!(outbox.is_empty());
    }
}
