//! When CMD is asked to end (or told that it does not lead), made to end, and taken away from a warden that does
//! neither. Pure: time is input.
//!
//! Assumes that a sweep takes less than half of the kill margin. Guarantees the orders
//! `term_at ≤ kill_at ≤ seize_at ≤ deadline` and `term_at ≤ doubt_at ≤ seize_at`. Does not guarantee that
//! CMD gets its whole grace: the last part of it belongs to the sweep.

use std::time::Duration;

use crate::clock::BootTime;
use crate::order::EndCause;

/// Least and most time kept for the sweep. A sweep of hundreds of processes takes milliseconds; the rest is for
/// a machine so busy that a process which has been woken, or killed, waits for a processor (2 s were seen).
const MARGIN_MIN: Duration = Duration::from_millis(50);
const MARGIN_MAX: Duration = Duration::from_secs(2);

/// What happens when, for one deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// SIGTERM to the tree; or, to a CMD that outlives its lease, the notice that it does not lead.
    pub term_at: BootTime,
    /// Run takes a warden that has reported neither for stopped, and does as at `seize_at`.
    pub doubt_at: BootTime,
    /// SIGKILL to the tree, by the warden.
    pub kill_at: BootTime,
    /// SIGKILL to the warden and the tree, by run, if the warden has not reported the end.
    pub seize_at: BootTime,
    /// The tree is gone.
    pub deadline: BootTime,
}

impl Schedule {
    /// Half of the grace, within bounds, is kept for killing; the last half of that for run to step in.
    #[must_use]
    pub fn new(deadline: BootTime, grace: Duration) -> Self {
        let margin = (grace / 2).clamp(MARGIN_MIN, MARGIN_MAX);
        let notice = grace.max(margin);
        Self {
            term_at: deadline.earlier(notice),
            doubt_at: deadline.earlier((notice + margin / 2) / 2),
            kill_at: deadline.earlier(margin),
            seize_at: deadline.earlier(margin / 2),
            deadline,
        }
    }
}

/// What the warden owes a running CMD at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wait { until: Option<BootTime> },
    Terminate,
    StandDown,
    Kill(EndCause),
}

/// The warden's view of a running CMD: its deadline, and whether CMD has been told to end.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    grace: Duration,
    /// None while CMD goes on without a lease.
    schedule: Option<Schedule>,
    outlives_lease: bool,
    stopping: Option<(EndCause, BootTime)>,
}

impl Watch {
    pub(crate) fn new(deadline: BootTime, grace: Duration, outlives_lease: bool) -> Self {
        let schedule = Some(Schedule::new(deadline, grace));
        Self { grace, schedule, outlives_lease, stopping: None }
    }

    /// When the lease ends; none while there is none.
    pub(crate) fn deadline(&self) -> Option<BootTime> {
        self.schedule.map(|schedule| schedule.deadline)
    }

    pub(crate) fn leads(&self) -> bool {
        self.schedule.is_some()
    }

    /// A renewal; says whether there is a lease for it. It does not take back a SIGTERM, but lets the grace
    /// that began with it run on, and does not bring back a lease that CMD was told is over.
    pub(crate) fn renew(&mut self, deadline: BootTime) -> bool {
        self.schedule = self.schedule.map(|_| Schedule::new(deadline, self.grace));
        self.leads()
    }

    /// CMD has been told that its lease is over.
    pub(crate) fn stand_down(&mut self) {
        self.schedule = None;
    }

    /// Another lease.
    pub(crate) fn lead(&mut self, deadline: BootTime, grace: Duration) {
        self.grace = grace;
        self.schedule = Some(Schedule::new(deadline, grace));
    }

    /// CMD has been told to end. The first reason stands.
    pub(crate) fn stop(&mut self, why: EndCause, now: BootTime) {
        self.stopping.get_or_insert((why, now.later(self.grace)));
    }

    pub(crate) fn stopping(&self) -> Option<EndCause> {
        self.stopping.map(|(why, _)| why)
    }

    pub(crate) fn step(&self, now: BootTime) -> Step {
        match (self.stopping, self.schedule) {
            (Some((why, grace_ends)), schedule) => {
                let until = schedule.map_or(grace_ends, |schedule| grace_ends.min(schedule.kill_at));
                if now >= until { Step::Kill(why) } else { Step::Wait { until: Some(until) } }
            }
            (None, None) => Step::Wait { until: None },
            (None, Some(schedule)) if now < schedule.term_at => Step::Wait { until: Some(schedule.term_at) },
            (None, Some(_)) if self.outlives_lease => Step::StandDown,
            (None, Some(schedule)) if now < schedule.kill_at => Step::Terminate,
            (None, Some(_)) => Step::Kill(EndCause::Deadline),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Schedule, Step, Watch};
    use crate::clock::BootTime;
    use crate::order::EndCause;
    use std::time::Duration;

    fn at(ms: u64) -> BootTime {
        BootTime::from_ns(ms * 1_000_000)
    }

    /// A deadline at 10 s and a grace of 1 s.
    fn watch() -> Watch {
        Watch::new(at(10_000), Duration::from_millis(1_000), false)
    }

    fn outliving() -> Watch {
        Watch::new(at(10_000), Duration::from_millis(1_000), true)
    }

    fn check(grace_ms: u64, term: u64, kill: u64, seize: u64) {
        let schedule = Schedule::new(at(100_000), Duration::from_millis(grace_ms));
        assert_eq!(schedule.term_at, at(term), "term_at for a grace of {grace_ms} ms");
        assert_eq!(schedule.kill_at, at(kill), "kill_at for a grace of {grace_ms} ms");
        assert_eq!(schedule.seize_at, at(seize), "seize_at for a grace of {grace_ms} ms");
    }

    #[test]
    fn margins_follow_the_grace_within_bounds() {
        check(5_000, 95_000, 98_000, 99_000);
        check(240, 99_760, 99_880, 99_940);
        check(0, 99_950, 99_950, 99_975);
        check(60, 99_940, 99_950, 99_975);
    }

    #[test]
    fn a_stopped_warden_is_doubted_halfway_between_the_signal_and_the_seizure() {
        let doubt = |grace_ms| Schedule::new(at(100_000), Duration::from_millis(grace_ms)).doubt_at;
        assert_eq!(doubt(5_000), at(97_000));
        assert_eq!(doubt(240), at(99_850));
        assert_eq!(doubt(0), at(99_963).earlier(Duration::from_micros(500)));
    }

    #[test]
    fn the_order_holds_for_any_grace_and_for_a_deadline_right_after_boot() {
        for grace_ms in [0, 1, 49, 50, 51, 99, 100, 101, 999, 1_000, 1_001, 60_000] {
            for deadline_ms in [0, 1, 40, 1_000, 1_000_000] {
                let s = Schedule::new(at(deadline_ms), Duration::from_millis(grace_ms));
                assert!(
                    s.term_at <= s.kill_at && s.kill_at <= s.seize_at && s.seize_at <= s.deadline,
                    "{s:?}"
                );
            }
        }
    }

    #[test]
    fn unrenewed_work_is_asked_then_killed() {
        let mut watch = watch();
        assert_eq!(watch.step(at(8_999)), Step::Wait { until: Some(at(9_000)) });
        assert_eq!(watch.step(at(9_000)), Step::Terminate);
        watch.stop(EndCause::Deadline, at(9_000));
        assert_eq!(watch.step(at(9_499)), Step::Wait { until: Some(at(9_500)) });
        assert_eq!(watch.step(at(9_500)), Step::Kill(EndCause::Deadline));
    }

    #[test]
    fn a_warden_that_wakes_too_late_to_ask_kills_at_once() {
        let watch = watch();
        assert_eq!(watch.step(at(20_000)), Step::Kill(EndCause::Deadline));
    }

    #[test]
    fn a_stop_gives_the_grace_but_never_beyond_the_kill_time() {
        let mut early = watch();
        early.stop(EndCause::Stopped, at(2_000));
        assert_eq!(early.step(at(2_000)), Step::Wait { until: Some(at(3_000)) });
        assert_eq!(early.step(at(3_000)), Step::Kill(EndCause::Stopped));
        let mut late = watch();
        late.stop(EndCause::Stopped, at(8_900));
        assert_eq!(late.step(at(8_900)), Step::Wait { until: Some(at(9_500)) });
    }

    #[test]
    fn a_renewal_moves_the_times_and_does_not_take_back_a_stop() {
        let mut watch = watch();
        watch.renew(at(20_000));
        assert_eq!(watch.step(at(18_999)), Step::Wait { until: Some(at(19_000)) });
        watch.stop(EndCause::Deadline, at(19_000));
        watch.stop(EndCause::Stopped, at(19_100));
        watch.renew(at(40_000));
        assert_eq!(watch.stopping(), Some(EndCause::Deadline));
        assert_eq!(watch.step(at(20_000)), Step::Kill(EndCause::Deadline));
    }
    #[test]
    fn work_that_outlives_its_lease_stands_down_when_other_work_would_be_asked() {
        let mut watch = outliving();
        assert_eq!(watch.step(at(8_999)), Step::Wait { until: Some(at(9_000)) });
        assert_eq!(watch.step(at(9_000)), Step::StandDown);
        assert_eq!(watch.step(at(20_000)), Step::StandDown, "late is better than never");
        watch.stand_down();
        assert_eq!(watch.step(at(20_000)), Step::Wait { until: None });
        assert_eq!(watch.deadline(), None);
    }

    #[test]
    fn only_another_lease_brings_the_deadline_back() {
        let mut watch = outliving();
        watch.stand_down();
        assert!(!watch.renew(at(40_000)), "a renewal that was answered late");
        assert_eq!(watch.step(at(9_000)), Step::Wait { until: None });
        watch.lead(at(60_000), Duration::from_millis(2_000));
        assert_eq!(watch.step(at(50_000)), Step::Wait { until: Some(at(58_000)) });
        assert!(watch.renew(at(70_000)));
        assert_eq!(watch.step(at(68_000)), Step::StandDown);
    }

    #[test]
    fn a_stop_without_a_lease_gives_the_whole_grace_and_one_with_a_lease_does_not_outlive_it() {
        let mut without = outliving();
        without.stand_down();
        without.stop(EndCause::Stopped, at(50_000));
        assert_eq!(without.step(at(50_000)), Step::Wait { until: Some(at(51_000)) });
        assert_eq!(without.step(at(51_000)), Step::Kill(EndCause::Stopped));
        let mut with = outliving();
        with.stop(EndCause::Stopped, at(8_900));
        assert_eq!(with.step(at(9_000)), Step::Wait { until: Some(at(9_500)) });
        assert_eq!(with.step(at(9_500)), Step::Kill(EndCause::Stopped));
    }
}
