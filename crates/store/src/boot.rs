//! The clock of this machine that counts through a suspend, and timers on it.
//!
//! `CLOCK_BOOTTIME` is not set by anybody and stands still for nobody. `Instant` and the timers of tokio stop during
//! a suspend; what must not outlive a lease uses these.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_election::time::{Moment, Span, WallTime};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe;

/// How often the clock is looked at where no timer can be had.
const LOOK_AGAIN: Span = Span::millis(50);

/// The time since this machine was started.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Boottime);
    let nanos = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000);
    Moment::from_nanos(nanos.saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0)))
}

/// The wall clock, for people. It decides nothing.
pub fn wall() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_unix_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Waits until a moment on the boot-time clock. Returns at once if it is past.
pub async fn sleep_until(moment: Moment) -> io::Result<()> {
    if now() >= moment {
        return Ok(());
    }
    match timer_at(moment).and_then(readable) {
        Ok(timer) => timer.readable().await,
        Err(_) => {
            look_until(moment).await;
            Ok(())
        }
    }
}

/// Waits without a descriptor of its own: a process that has used up all that it may have must not lose its leases for it.
async fn look_until(moment: Moment) {
    while now() < moment {
        let left = moment.since(now()).min(LOOK_AGAIN);
        tokio::time::sleep(Duration::from_nanos(left.as_nanos())).await;
    }
}

/// Waits for a length of time on the boot-time clock.
pub async fn sleep(span: Span) -> io::Result<()> {
    sleep_until(now() + span).await
}

/// A descriptor that is waited for and read like a pipe: a timer, a notifier. It must not block.
///
/// The pipe's type only waits and reads, which these descriptors do as well, so nothing unsafe is needed.
pub fn readable(descriptor: OwnedFd) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_file_unchecked(std::fs::File::from(descriptor))
}

/// A descriptor that becomes readable at a moment on the boot-time clock.
fn timer_at(moment: Moment) -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
    let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
    // A time of zero would disarm the timer.
    let nanos = moment.as_nanos().max(1);
    let value = Timespec {
        tv_sec: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(nanos % 1_000_000_000).unwrap_or(0),
    };
    let interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    timerfd_settime(
        &timer,
        TimerfdTimerFlags::ABSTIME,
        &Itimerspec { it_interval: interval, it_value: value },
    )?;
    Ok(timer)
}

/// When this run of the machine began, in seconds since 1970. A step of the wall clock moves it along.
pub fn began() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

/// Which machine this is, and which of its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The machine.
    pub machine: String,
    /// The run, from start to reboot.
    pub boot: String,
    /// The namespace in which the boot-time clock is read; another has its own offset.
    pub time_namespace: String,
}

impl Boot {
    /// This machine's.
    pub fn current() -> Boot {
        let text = |path: &str| {
            std::fs::read_to_string(path).map(|text| text.trim().to_string()).unwrap_or_default()
        };
        let id = text("/etc/machine-id");
        let machine = if id.is_empty() { format!("host:{}", text("/proc/sys/kernel/hostname")) } else { id };
        let time_namespace = std::fs::read_link("/proc/self/ns/time")
            .map(|link| link.to_string_lossy().into_owned())
            .unwrap_or_default();
        Boot { machine, boot: text("/proc/sys/kernel/random/boot_id"), time_namespace }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_sleep_ends_after_its_moment_and_not_before() {
        let until = now() + Span::millis(20);
        sleep_until(until).await.unwrap();
        assert!(now() >= until);
        sleep_until(until).await.unwrap();
        let until = now() + Span::millis(70);
        look_until(until).await;
        assert!(now() >= until);
    }

    #[test]
    fn the_boot_is_the_same_twice() {
        assert_eq!(Boot::current(), Boot::current());
        assert!(!Boot::current().boot.is_empty());
        let wall = wall().as_unix_millis() / 1_000;
        assert!(began().is_some_and(|began| 0 < began && began <= wall + 60), "the run began before now");
    }
}
