//! When run stops trusting its warden. Pure: time is input.
//!
//! Assumes that a working warden answers within seconds. Guarantees an overdue time before the deadline,
//! whatever the warden says or does not say. Does not guarantee that an overdue warden is dead: seizing is
//! right either way.

use std::time::Duration;

use crate::clock::BootTime;
use crate::schedule::Schedule;

/// A warden that has not answered a deadline for this long is stopped. It cannot end CMD then, nor report
/// that CMD has ended.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// What a sweep may take on top of the grace.
const SWEEP_PATIENCE: Duration = Duration::from_secs(3);

/// What run waits for.
#[derive(Debug, Default)]
pub(crate) struct WardenWatchdog {
    schedule: Option<Schedule>,
    grace: Duration,
    /// Since when the newest deadline is unanswered.
    unanswered_since: Option<BootTime>,
    /// The warden has sent SIGTERM.
    terminating: bool,
    /// When an order to stop should have been obeyed.
    end_by: Option<BootTime>,
    /// When an order to end the validator should have been obeyed.
    validated_by: Option<BootTime>,
}

impl WardenWatchdog {
    /// CMD has a lease: its first, or another.
    pub(crate) fn started(&mut self, deadline: BootTime, grace: Duration, now: BootTime) {
        self.grace = grace;
        self.renewed(deadline, now);
    }

    pub(crate) fn renewed(&mut self, deadline: BootTime, now: BootTime) {
        self.schedule = Some(Schedule::new(deadline, self.grace));
        self.unanswered_since.get_or_insert(now);
    }

    pub(crate) fn stopped(&mut self, now: BootTime) {
        self.end_by.get_or_insert(now.later(self.grace + SWEEP_PATIENCE));
    }

    pub(crate) fn killed(&mut self, now: BootTime) {
        let by = now.later(SWEEP_PATIENCE);
        self.end_by = Some(self.end_by.map_or(by, |end_by| end_by.min(by)));
    }

    /// The warden answered. An answer to an older deadline shows that it works through them, and earns new
    /// patience.
    pub(crate) fn kept(&mut self, deadline: BootTime, now: BootTime) {
        let newest = self.schedule.is_some_and(|schedule| schedule.deadline == deadline);
        self.unanswered_since = if newest { None } else { self.unanswered_since.map(|_| now) };
    }

    pub(crate) fn terminating(&mut self) {
        self.terminating = true;
    }

    /// CMD goes on without a lease: there is nothing to act on in time.
    pub(crate) fn stood_down(&mut self) {
        (self.schedule, self.unanswered_since) = (None, None);
    }

    /// The validator has to end.
    pub(crate) fn validation_stopped(&mut self, now: BootTime) {
        self.validated_by.get_or_insert(now.later(ANSWER_PATIENCE));
    }

    pub(crate) fn validated(&mut self) {
        self.validated_by = None;
    }

    /// CMD has ended, and the validator works on until it has answered or the lease ends.
    pub(crate) fn outlived_by_validator(&mut self) {
        (self.end_by, self.terminating) = (None, false);
    }

    pub(crate) fn ended(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn overdue_at(&self) -> Option<BootTime> {
        let seize_at = self
            .schedule
            .map(|schedule| if self.terminating { schedule.seize_at } else { schedule.doubt_at });
        let answer_by = self.unanswered_since.map(|since| since.later(ANSWER_PATIENCE));
        [seize_at, answer_by, self.end_by, self.validated_by].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::WardenWatchdog;
    use crate::clock::BootTime;
    use std::time::Duration;

    const GRACE: Duration = Duration::from_secs(5);

    fn at(ms: u64) -> BootTime {
        BootTime::from_ns(ms * 1_000_000)
    }

    fn started() -> WardenWatchdog {
        let mut watchdog = WardenWatchdog::default();
        watchdog.started(at(30_000), GRACE, at(0));
        watchdog
    }

    #[test]
    fn nothing_is_overdue_before_the_start_and_after_the_end() {
        assert_eq!(WardenWatchdog::default().overdue_at(), None);
        let mut watchdog = started();
        watchdog.stopped(at(1_000));
        watchdog.ended();
        assert_eq!(watchdog.overdue_at(), None);
    }

    #[test]
    fn a_silent_warden_is_overdue_long_before_the_deadline() {
        assert_eq!(started().overdue_at(), Some(at(5_000)));
    }

    #[test]
    fn a_warden_that_does_not_send_the_signal_is_doubted() {
        let mut watchdog = started();
        watchdog.kept(at(30_000), at(1));
        assert_eq!(watchdog.overdue_at(), Some(at(27_000)));
    }

    #[test]
    fn a_warden_that_sent_the_signal_is_overdue_just_before_the_deadline() {
        let mut watchdog = started();
        watchdog.kept(at(30_000), at(1));
        watchdog.terminating();
        assert_eq!(watchdog.overdue_at(), Some(at(29_000)));
    }

    #[test]
    fn renewals_do_not_hide_that_an_earlier_one_is_unanswered() {
        let mut watchdog = started();
        watchdog.renewed(at(40_000), at(4_000));
        assert_eq!(watchdog.overdue_at(), Some(at(5_000)));
        watchdog.kept(at(30_000), at(4_500));
        assert_eq!(watchdog.overdue_at(), Some(at(9_500)));
        watchdog.kept(at(40_000), at(4_600));
        assert_eq!(watchdog.overdue_at(), Some(at(37_000)));
    }

    #[test]
    fn an_order_to_stop_that_is_not_obeyed_is_noticed_though_the_lease_is_renewed() {
        let mut watchdog = started();
        watchdog.stopped(at(10_000));
        watchdog.renewed(at(60_000), at(11_000));
        watchdog.kept(at(60_000), at(11_001));
        assert_eq!(watchdog.overdue_at(), Some(at(18_000)));
        watchdog.killed(at(12_000));
        assert_eq!(watchdog.overdue_at(), Some(at(15_000)));
    }
    #[test]
    fn a_warden_that_does_not_show_that_the_lease_is_over_is_doubted_like_one_that_does_not_signal() {
        let mut watchdog = started();
        watchdog.kept(at(30_000), at(1));
        assert_eq!(watchdog.overdue_at(), Some(at(27_000)));
        watchdog.stood_down();
        assert_eq!(watchdog.overdue_at(), None, "without a lease there is no hurry");
        watchdog.started(at(90_000), GRACE, at(60_000));
        assert_eq!(watchdog.overdue_at(), Some(at(65_000)), "another lease must be answered");
        watchdog.stood_down();
        watchdog.stopped(at(70_000));
        assert_eq!(watchdog.overdue_at(), Some(at(78_000)), "an order to stop is one without a lease too");
    }
}
