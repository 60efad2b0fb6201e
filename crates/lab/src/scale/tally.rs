//! Counting what happens in each second.

use super::Load;

/// Counts of one second.
#[derive(Debug, Clone, Copy, Default)]
struct Second {
    messages: u64,
    operations: u64,
    refusals: u64,
    lost: u64,
    busiest: u64,
}

/// Counts by the second, in microseconds from the beginning.
pub(super) struct Tally {
    seconds: Vec<Second>,
    /// What each process received in the second that is being counted.
    received: Vec<u32>,
    touched: Vec<u32>,
    counting: usize,
}

impl Tally {
    pub(super) fn new(processes: u32) -> Tally {
        let processes = usize::try_from(processes).unwrap_or(0);
        Tally { seconds: Vec::new(), received: vec![0; processes], touched: Vec::new(), counting: 0 }
    }

    fn second(&mut self, at: u64) -> &mut Second {
        let place = usize::try_from(at / 1_000_000).unwrap_or(0);
        if place >= self.seconds.len() {
            self.seconds.resize(place + 1, Second::default());
        }
        &mut self.seconds[place]
    }

    pub(super) fn message(&mut self, at: u64) {
        self.second(at).messages += 1;
    }

    pub(super) fn operation(&mut self, at: u64) {
        self.second(at).operations += 1;
    }

    pub(super) fn refusal(&mut self, at: u64) {
        self.second(at).refusals += 1;
    }

    pub(super) fn lost(&mut self, at: u64) {
        self.second(at).lost += 1;
    }

    /// A message reached a process.
    pub(super) fn received(&mut self, at: u64, process: u32) {
        let place = usize::try_from(at / 1_000_000).unwrap_or(0);
        if place != self.counting {
            for process in self.touched.drain(..) {
                self.received[usize::try_from(process).unwrap_or(0)] = 0;
            }
            self.counting = place;
        }
        let count = &mut self.received[usize::try_from(process).unwrap_or(0)];
        if *count == 0 {
            self.touched.push(process);
        }
        *count += 1;
        let count = u64::from(*count);
        let second = self.second(at);
        second.busiest = second.busiest.max(count);
    }

    /// The average of these seconds; of the busiest process, the highest.
    pub(super) fn average(&self, from: u64, to: u64) -> Load {
        let seconds = self.between(from, to);
        let count = u32::try_from(seconds.len().max(1)).map_or(1.0, f64::from);
        let sum =
            |of: fn(&Second) -> u64| seconds.iter().map(|second| number(of(second))).sum::<f64>() / count;
        Load {
            messages: sum(|second| second.messages),
            store_operations: sum(|second| second.operations),
            store_refusals: sum(|second| second.refusals),
            store_asked: sum(|second| second.operations + second.refusals),
            busiest_process: highest(seconds, |second| second.busiest),
            reports_lost: sum(|second| second.lost),
        }
    }

    /// The highest of each among these seconds.
    pub(super) fn worst(&self, from: u64, to: u64) -> Load {
        let seconds = self.between(from, to);
        Load {
            messages: highest(seconds, |second| second.messages),
            store_operations: highest(seconds, |second| second.operations),
            store_refusals: highest(seconds, |second| second.refusals),
            store_asked: highest(seconds, |second| second.operations + second.refusals),
            busiest_process: highest(seconds, |second| second.busiest),
            reports_lost: highest(seconds, |second| second.lost),
        }
    }

    fn between(&self, from: u64, to: u64) -> &[Second] {
        let place = |at: u64| usize::try_from(at / 1_000_000).unwrap_or(0).min(self.seconds.len());
        &self.seconds[place(from)..place(to).max(place(from))]
    }
}

fn highest(seconds: &[Second], of: fn(&Second) -> u64) -> f64 {
    seconds.iter().map(|second| number(of(second))).fold(0.0, f64::max)
}

fn number(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_second_is_one_second() {
        let mut tally = Tally::new(1);
        let second = |number: u64| number * 1_000_000;
        (0..5).for_each(|_| tally.operation(second(1)));
        (0..7).for_each(|_| tally.refusal(second(2)));
        tally.operation(second(2));
        let worst = tally.worst(second(0), second(3));
        assert_eq!((worst.store_operations, worst.store_refusals, worst.store_asked), (5.0, 7.0, 8.0));
    }
}
