//! What happens later, in the order of time; of two things at one instant, what was put in first.
//!
//! The heap orders small keys; what they stand for lies in slots that are used again, so that a run allocates only while its
//! queue is longer than it ever was.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The most that is under way at once. What would be more is dropped, as a full network does.
const MAX_QUEUED: usize = 1 << 20;

/// A queue of things that happen at instants of true time, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    slots: Vec<Option<E>>,
    free: Vec<u32>,
    put: u64,
}

impl<E> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue {
            heap: BinaryHeap::with_capacity(256),
            slots: Vec::with_capacity(256),
            free: Vec::new(),
            put: 0,
        }
    }

    /// Puts something in; says whether there was room.
    pub(crate) fn put(&mut self, at: u64, event: E) -> bool {
        if self.heap.len() >= MAX_QUEUED {
            return false;
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(event);
                slot
            }
            None => {
                self.slots.push(Some(event));
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.put += 1;
        self.heap.push(Reverse((at, self.put, slot)));
        true
    }

    /// When the next thing happens.
    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes the next thing out.
    pub(crate) fn take(&mut self) -> Option<(u64, E)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        let event = self.slots[slot as usize].take()?;
        self.free.push(slot);
        Some((at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_order_of_time_then_of_putting() {
        let mut queue = Queue::new();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            assert!(queue.put(at, name));
        }
        assert_eq!(queue.next_at(), Some(1));
        let order: String = std::iter::from_fn(|| queue.take()).map(|(_, name)| name).collect();
        assert_eq!(order, "abcd");
    }

    #[test]
    fn slots_are_used_again() {
        let mut queue = Queue::new();
        for round in 0..1_000 {
            queue.put(round, round);
            queue.put(round, round);
            queue.take();
            queue.take();
        }
        assert_eq!(queue.slots.len(), 2);
    }
}
