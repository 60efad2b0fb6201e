//! The boot-time clock and a timer on it.
//!
//! Assumes `CLOCK_BOOTTIME`. Guarantees that time spent suspended counts. Does not guarantee to wake a
//! suspended machine.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use serde::{Deserialize, Serialize};

const NS_PER_S: u64 = 1_000_000_000;

/// An instant of `CLOCK_BOOTTIME`, in nanoseconds; comparable between the processes of one boot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime(u64);

impl BootTime {
    /// Reads the clock.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        // The kernel never gives a negative boot time; were it to, the largest time ends work rather than
        // prolongs it.
        let whole_s = u64::try_from(time.tv_sec).unwrap_or(u64::MAX);
        let rest_ns = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(whole_s.saturating_mul(NS_PER_S).saturating_add(rest_ns))
    }

    /// The instant with this many nanoseconds since boot.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since boot.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The instant `by` later.
    #[must_use]
    pub fn later(self, by: Duration) -> Self {
        Self(self.0.saturating_add(ns(by)))
    }

    /// The instant `by` earlier, or boot.
    #[must_use]
    pub fn earlier(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(ns(by)))
    }
}

impl fmt::Debug for BootTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "boot+{}.{:09}s", self.0 / NS_PER_S, self.0 % NS_PER_S)
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A timer on the boot-time clock, readable once its instant has come.
pub(crate) struct BootTimer(OwnedFd);

impl BootTimer {
    pub(crate) fn new() -> rustix::io::Result<Self> {
        timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK).map(Self)
    }

    /// Becomes readable at `at` (at once if that has passed), or never.
    pub(crate) fn arm(&self, at: Option<BootTime>) -> rustix::io::Result<()> {
        // All zeros disarms a timerfd, so that boot itself has to be one nanosecond later.
        let value = at.map_or(0, |at| at.0.max(1));
        // A time beyond what the kernel can hold is never reached; the far future stands in for it.
        let value = value.min(u64::MAX / 4);
        let spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(value / NS_PER_S).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(value % NS_PER_S).unwrap_or(0),
            },
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &spec).map(drop)
    }
}

impl AsFd for BootTimer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for BootTimer {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl From<BootTimer> for OwnedFd {
    fn from(timer: BootTimer) -> Self {
        timer.0
    }
}
