//! Counters and histograms: atomic numbers, without a lock and without an allocation.
//!
//! Assumes that whoever reads them bears that two of them were read at two moments. Guarantees that nothing that is counted is lost and
//! that no number falls. A histogram's sum and its count may differ by what was observed while it was read.

use std::sync::atomic::{AtomicU64, Ordering};

use baton_election::time::Span;

/// A number that rises.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, many: u64) {
        self.0.fetch_add(many, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many there are, which rises and falls.
#[derive(Default)]
pub(crate) struct Gauge(AtomicU64);

impl Gauge {
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// One more, until what is returned is dropped.
    pub(crate) fn enter(gauge: &std::sync::Arc<Gauge>) -> Present {
        gauge.0.fetch_add(1, Ordering::Relaxed);
        Present(std::sync::Arc::clone(gauge))
    }
}

/// One of those that a gauge counts.
pub(crate) struct Present(std::sync::Arc<Gauge>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The upper ends of the buckets of something that takes moments: 50 µs to 5 s.
pub(crate) const MOMENTS: &[Span] = &[
    Span::nanos(50_000),
    Span::nanos(100_000),
    Span::nanos(250_000),
    Span::nanos(500_000),
    Span::millis(1),
    Span::nanos(2_500_000),
    Span::millis(5),
    Span::millis(10),
    Span::millis(25),
    Span::millis(50),
    Span::millis(100),
    Span::millis(250),
    Span::secs(1),
    Span::secs(5),
];

/// The same of a phase of a transition: 10 ms to 5 min. 30 s is among them, since that is where a transition is called slow.
pub(crate) const PHASES: &[Span] = &[
    Span::millis(10),
    Span::millis(50),
    Span::millis(100),
    Span::millis(250),
    Span::millis(500),
    Span::secs(1),
    Span::millis(2_500),
    Span::secs(5),
    Span::secs(10),
    Span::secs(30),
    Span::secs(60),
    Span::secs(300),
];

/// The same of a leadership: a second to a week.
pub(crate) const LEADERSHIPS: &[Span] = &[
    Span::secs(1),
    Span::secs(10),
    Span::secs(30),
    Span::secs(60),
    Span::secs(300),
    Span::secs(900),
    Span::secs(3_600),
    Span::secs(4 * 3_600),
    Span::secs(12 * 3_600),
    Span::secs(24 * 3_600),
    Span::secs(7 * 24 * 3_600),
];

/// How long things took.
pub(crate) struct Histogram {
    pub(super) ends: &'static [Span],
    /// One for each end, and one for what lies above the last.
    buckets: Box<[AtomicU64]>,
    nanos: AtomicU64,
}

/// A histogram as it was read: how many took at most as long as each end, in all, and all their time.
pub(super) struct Read {
    pub(super) up_to: Vec<u64>,
    pub(super) count: u64,
    pub(super) sum: Span,
}

impl Histogram {
    pub(crate) fn of(ends: &'static [Span]) -> Histogram {
        Histogram {
            ends,
            buckets: (0..=ends.len()).map(|_| AtomicU64::new(0)).collect(),
            nanos: AtomicU64::new(0),
        }
    }

    pub(crate) fn observe(&self, took: Span) {
        let place = self.ends.iter().position(|end| took <= *end).unwrap_or(self.ends.len());
        self.buckets[place].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(took.as_nanos(), Ordering::Relaxed);
    }

    /// The same for what was measured by the monotonic clock.
    pub(crate) fn since(&self, begun: std::time::Instant) {
        self.observe(Span::nanos(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)));
    }

    pub(super) fn read(&self) -> Read {
        let mut count = 0;
        let mut up_to = Vec::with_capacity(self.ends.len());
        for (number, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            if number < self.ends.len() {
                up_to.push(count);
            }
        }
        Read { up_to, count, sum: Span::nanos(self.nanos.load(Ordering::Relaxed)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_counts_what_is_at_most_its_end() {
        let histogram = Histogram::of(PHASES);
        for took in [Span::ZERO, Span::millis(10), Span::nanos(10_000_001), Span::secs(30), Span::secs(301)] {
            histogram.observe(took);
        }
        let read = histogram.read();
        assert_eq!(read.count, 5);
        assert_eq!(read.up_to[..2], [2, 3]);
        assert_eq!(read.up_to[9], 4, "30 s is not slower than 30 s");
        assert_eq!(read.up_to[11], 4);
        assert_eq!(read.sum.as_millis(), 10 + 10 + 30_000 + 301_000);
    }

    #[test]
    fn who_has_left_is_not_counted() {
        let gauge = std::sync::Arc::new(Gauge::default());
        let (one, two) = (Gauge::enter(&gauge), Gauge::enter(&gauge));
        assert_eq!(gauge.value(), 2);
        drop((one, two));
        assert_eq!(gauge.value(), 0);
    }
}
