//! The server's clock, which notices when the server itself stood still.
//!
//! While it stands still, renewals wait unread. So the time of a stall does not count: the age of a lease is the *running* time of the server
//! since the lease's last beat. Nothing ends in the second after a stall either, so that the renewals that waited are decided first. A start
//! is like a beat of every lease: it gives each its full length.
//!
//! **Safe**, because an age is never above the true time since the beat: the clock only leaves time out. A lease that is judged younger than
//! it is ends later, and its holder, which counts by its own clock from before it asked, stops no later than before.
//!
//! **Live**, because running time is never left out for good. During the second after a stall the age stands still at what it was when the stall
//! ended, and then includes that second. A lease that nobody renews therefore ends after its length in running time and at most one such second,
//! however often the server stands still. (Stalls are remembered up to a number; a lease that is older than all of them counts from the oldest.)

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use baton_election::time::{Moment, Span};
use baton_store::boot;

/// A server that does not look at the clock for longer than this has stood still.
const STALL: Span = Span::secs(1);
/// How often the clock is looked at if nothing else happens.
const TICK: Duration = Duration::from_millis(200);
/// How long nothing ends after a stall.
const GRACE: Span = Span::secs(1);
/// How many stalls are remembered.
const REMEMBERED: usize = 65_536;

/// The clock of one server.
pub(super) struct Pacemaker {
    /// No lease is older than this.
    start: Moment,
    looked_at: AtomicU64,
    /// When the last stall ended; the start if there was none.
    last_end: AtomicU64,
    stalls: AtomicU64,
    past: Mutex<Past>,
}

/// The stalls that are remembered, in their order.
#[derive(Default)]
struct Past {
    stalls: VecDeque<Stall>,
    /// All that was left out since the start.
    left_out: Span,
}

struct Stall {
    begin: Moment,
    end: Moment,
    /// What was left out before it.
    left_out_before: Span,
}

impl Past {
    /// Notes that the clock stood from one moment to another. A stall that is still going on is noted anew, and gets longer.
    fn note(&mut self, begin: Moment, end: Moment) {
        match self.stalls.back_mut() {
            Some(last) if last.begin == begin => last.end = last.end.max(end),
            _ => {
                let left_out_before = self.left_out;
                self.stalls.push_back(Stall { begin, end, left_out_before });
                if self.stalls.len() > REMEMBERED {
                    self.stalls.pop_front();
                }
            }
        }
        if let Some(Stall { begin, end, left_out_before }) = self.stalls.back() {
            self.left_out = left_out_before.plus(end.since(*begin));
        }
    }

    /// The running time from a beat until a moment that lies in no stall.
    fn running(&self, stamp: Moment, until: Moment) -> Span {
        let later = self.stalls.partition_point(|stall| stall.end <= stamp);
        let Some(first) = self.stalls.get(later) else { return until.since(stamp) };
        // Of a beat within a stall, or before all that are remembered, only what comes after counts.
        let forgotten = later == 0 && first.left_out_before > Span::ZERO;
        let stamp = if forgotten { stamp.max(first.begin) } else { stamp };
        let left_out = self.left_out.minus(first.left_out_before).minus(stamp.since(first.begin));
        until.since(stamp).minus(left_out)
    }
}

impl Pacemaker {
    /// A clock that starts now.
    pub(super) fn start() -> Pacemaker {
        Pacemaker::starting_at(boot::now())
    }

    fn starting_at(start: Moment) -> Pacemaker {
        Pacemaker {
            start,
            looked_at: AtomicU64::new(start.as_nanos()),
            last_end: AtomicU64::new(start.as_nanos()),
            stalls: AtomicU64::new(0),
            past: Mutex::default(),
        }
    }

    /// The time. Whoever asks for it first after a stall notices.
    pub(super) fn now(&self) -> Moment {
        let now = boot::now();
        self.look(now);
        now
    }

    /// Notes a stall, if there was one. Returns whether.
    fn look(&self, now: Moment) -> bool {
        let before = Moment::from_nanos(self.looked_at.load(Ordering::Acquire));
        if now.since(before) <= STALL {
            return false;
        }
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody who looked at the clock long ago may come here late.
        if past.stalls.back().is_none_or(|last| last.begin <= before) {
            past.note(before, now);
            self.last_end.fetch_max(now.as_nanos(), Ordering::AcqRel);
        }
        true
    }

    /// Only the task that ticks moves the hand, since others may be served while it is not. What was missed is noted first.
    fn move_to(&self, now: Moment) {
        if self.look(now) {
            self.stalls.fetch_add(1, Ordering::Relaxed);
        }
        self.looked_at.fetch_max(now.as_nanos(), Ordering::AcqRel);
    }

    /// How often the server stood still.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// A lower bound on the time since a beat that was stamped by this clock.
    pub(super) fn age(&self, stamp: Moment, now: Moment) -> Span {
        let stamp = stamp.max(self.start);
        let last_end = Moment::from_nanos(self.last_end.load(Ordering::Acquire));
        if stamp >= last_end {
            return now.since(stamp);
        }
        let until = if now < last_end + GRACE { now.min(last_end) } else { now };
        self.past.lock().unwrap_or_else(PoisonError::into_inner).running(stamp, until)
    }

    /// Looks at the clock for ever.
    pub(super) async fn tick(&self) {
        loop {
            tokio::time::sleep(TICK).await;
            self.move_to(boot::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Moment = Moment::from_nanos(1_000_000_000_000);

    fn at(millis: u64) -> Moment {
        START + Span::millis(millis)
    }

    #[test]
    fn a_stall_does_not_count() {
        let clock = Pacemaker::starting_at(START);
        clock.move_to(at(900));
        assert_eq!(clock.age(START, at(900)), Span::millis(900));
        clock.look(at(1_950));
        clock.look(at(2_000));
        clock.move_to(at(2_000));
        assert_eq!(clock.stalls(), 1);
        assert_eq!(clock.age(START, at(2_000)), Span::millis(900), "it stood still for 1.1 s");
        assert_eq!(clock.age(START, at(2_999)), Span::millis(900), "what waited is decided first");
        assert_eq!(clock.age(START, at(3_000)), Span::millis(1_900), "and then that second counts");
        assert_eq!(
            clock.age(at(2_100), at(2_500)),
            Span::millis(400),
            "a beat after the stall is not concerned"
        );
        assert_eq!(
            clock.age(at(1_500), at(3_000)),
            Span::millis(1_000),
            "nor what a beat in it did not live through"
        );
    }

    #[test]
    fn stalls_more_often_than_a_lease_is_long_do_not_keep_it_for_ever() {
        let (clock, lease) = (Pacemaker::starting_at(START), Span::secs(6));
        let mut now = 0;
        let ended = (0..20).find_map(|_| {
            // It runs for 3.8 s, and then stands still for 1.2 s.
            let ended = (0..19).find_map(|_| {
                now += 200;
                clock.move_to(at(now));
                (clock.age(START, at(now)) >= lease).then_some(now)
            });
            now += 1_200;
            ended
        });
        // 3.8 s of the first round, and 2.2 s of the second, which begins when the clock is first looked at.
        assert_eq!(ended, Some(5_200 + 2_200), "in {now} ms with {} stalls", clock.stalls());
    }

    #[test]
    fn nothing_is_older_than_the_start() {
        let clock = Pacemaker::start();
        assert!(clock.age(Moment::from_nanos(0), clock.now()) < Span::secs(1));
    }

    #[test]
    fn what_is_older_than_all_that_is_remembered_counts_from_there() {
        let mut past = Past::default();
        let all = REMEMBERED as u64 + 10;
        for number in 0..all {
            past.note(at(number * 3_000), at(number * 3_000 + 2_000));
        }
        assert_eq!(past.stalls.len(), REMEMBERED);
        let end = at(all * 3_000);
        assert_eq!(past.running(START, end), Span::secs(REMEMBERED as u64));
        assert_eq!(past.running(at((all - 2) * 3_000), end), Span::secs(2));
    }

    proptest! {
        /// For whatever pattern of running and standing still.
        #[test]
        fn an_age_is_never_too_high_never_falls_and_counts_what_ran(
            rounds in prop::collection::vec((1_u64..50, 1_001_u64..5_000), 1..40),
            stamp in 0_u64..20_000,
        ) {
            let clock = Pacemaker::starting_at(START);
            let (mut now, mut before, mut running) = (0, Span::ZERO, 0);
            for (ticks, stall) in rounds {
                for step in (0..ticks).map(|_| 200).chain([stall]) {
                    let ran = step == 200;
                    running += if ran { (now + step).saturating_sub(stamp.max(now)) } else { 0 };
                    now += step;
                    clock.move_to(at(now));
                    if now >= stamp {
                        let age = clock.age(at(stamp), at(now));
                        prop_assert!(age <= at(now).since(at(stamp)), "older than it is");
                        prop_assert!(age >= before, "younger than before");
                        prop_assert!(age.plus(GRACE) >= Span::millis(running), "running time was left out");
                        prop_assert!(age <= Span::millis(running), "a stall was counted");
                        before = age;
                    }
                }
            }
        }
    }
}
