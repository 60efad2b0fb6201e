//! What happens next: a wheel of slots of about a millisecond, which a million waiting events do not slow down.

/// A slot is so many bits of microseconds wide: 1,024 µs.
const SLOT_BITS: u32 = 10;
/// How many slots there are; a power of two. Together they are 134 s, longer than anything is planned ahead.
const SLOTS: usize = 1 << 17;

/// Events by their time, in microseconds; a run may last for an hour.
///
/// What is planned for the slot that is being carried out moves to the next one, which is the wheel's only imprecision.
pub(super) struct Wheel<E> {
    slots: Vec<Vec<(u32, E)>>,
    /// Rooms of slots that were carried out: each is used again, so that there are no more than slots with something in them.
    spare: Vec<Vec<(u32, E)>>,
    /// The slot that is carried out.
    current: u64,
    waiting: usize,
}

impl<E> Wheel<E> {
    pub(super) fn new() -> Wheel<E> {
        Wheel { slots: (0..SLOTS).map(|_| Vec::new()).collect(), spare: Vec::new(), current: 0, waiting: 0 }
    }

    /// Plans an event; at the latest at the far end of the wheel.
    pub(super) fn plan(&mut self, at: u64, event: E) {
        let farthest = self.current + u64::try_from(SLOTS).unwrap_or(u64::MAX) - 1;
        let slot = (at >> SLOT_BITS).clamp(self.current + 1, farthest);
        let place = self.place(slot);
        if self.slots[place].capacity() == 0 {
            self.slots[place] = self.spare.pop().unwrap_or_default();
        }
        self.slots[place].push((short(at.max(slot << SLOT_BITS)), event));
        self.waiting += 1;
    }

    /// The events of the next slot that has any, in the order of their times; `into` is emptied first. Whether there are any.
    pub(super) fn take(&mut self, into: &mut Vec<(u32, E)>) -> bool {
        into.clear();
        if into.capacity() > 0 {
            self.spare.push(std::mem::take(into));
        }
        while self.waiting > 0 {
            self.current += 1;
            let place = self.place(self.current);
            if !self.slots[place].is_empty() {
                *into = std::mem::take(&mut self.slots[place]);
                self.waiting -= into.len();
                into.sort_by_key(|&(at, _)| at);
                return true;
            }
        }
        false
    }

    fn place(&self, slot: u64) -> usize {
        usize::try_from(slot).unwrap_or(0) & (SLOTS - 1)
    }
}

/// A time in half the room, for an hour.
pub(super) fn short(at: u64) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_times() {
        let mut wheel = Wheel::new();
        for (at, name) in [(5_000_000, 'c'), (70, 'x'), (2_048, 'b'), (2_047, 'a'), (2_048, 'd')] {
            wheel.plan(at, name);
        }
        let (mut seen, mut batch) = (Vec::new(), Vec::new());
        while wheel.take(&mut batch) {
            for (at, name) in batch.drain(..) {
                seen.push((at, name));
                if name == 'b' {
                    wheel.plan(u64::from(at), 'e');
                }
            }
        }
        let names: String = seen.iter().map(|&(_, name)| name).collect();
        assert_eq!(names, "xabdec");
        assert!(seen.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{seen:?}");
        assert_eq!(seen[0].0, 1_024, "the first slot is being carried out");
    }

    #[test]
    fn what_is_too_far_ahead_comes_at_the_end_of_the_wheel() {
        let mut wheel = Wheel::new();
        wheel.plan(u64::MAX, ());
        let mut batch = Vec::new();
        assert!(wheel.take(&mut batch) && batch.len() == 1 && !wheel.take(&mut batch));
    }
}
