//! This program, this machine, its clocks.

use std::fs;

use baton::election::time::Span;
use baton::store::boot::{self, Boot};
use rustix::fs::inotify;
use rustix::time::{ClockId, clock_gettime};

use super::CheckReport;
use crate::output::Failure;

/// 2024-01-01 and 2100-01-01: a wall clock outside was never set.
const PLAUSIBLE_MS: std::ops::Range<u64> = 1_704_067_200_000..4_102_444_800_000;
/// Fewer inotify instances than this are used up by a desktop alone.
const FEW_INSTANCES: u64 = 64;
/// How many looks the boot-time clock has to move.
const MAX_LOOKS: u32 = 1_000_000;

pub(super) fn check(chart: &mut CheckReport) -> Result<(), Failure> {
    let system = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    chart.ok("version", format!("baton {}, Linux {}", env!("CARGO_PKG_VERSION"), system.trim()))?;
    machine(chart)?;
    clocks(chart)?;
    notification(chart)
}

fn machine(chart: &mut CheckReport) -> Result<(), Failure> {
    let here = Boot::current();
    let detail =
        format!("machine {}, boot {}, clock namespace {}", here.machine, here.boot, here.time_namespace);
    if here.boot.is_empty() {
        return chart.fail(
            "machine",
            "the kernel does not say which boot this is",
            "mount /proc; without it, leases cannot be told from those before a reboot",
        );
    }
    if here.machine.starts_with("host:") {
        return chart.warn(
            "machine",
            format!("{detail}: there is no /etc/machine-id, so the host's name stands for the machine"),
            "systemd-machine-id-setup, or: dbus-uuidgen > /etc/machine-id; records written before are then another machine's",
        );
    }
    chart.ok("machine", detail)
}

fn clocks(chart: &mut CheckReport) -> Result<(), Failure> {
    let start = boot::now();
    let runs = (0..MAX_LOOKS).any(|_| boot::now() > start);
    if !runs {
        return chart.fail(
            "clocks",
            "the boot-time clock stands still",
            "leases cannot be kept on this machine",
        );
    }
    let awake = clock_gettime(ClockId::Monotonic);
    let awake = Span::secs(u64::try_from(awake.tv_sec).unwrap_or(0))
        .plus(Span::nanos(u64::try_from(awake.tv_nsec).unwrap_or(0)));
    let up = Span::nanos(boot::now().as_nanos());
    let (up_s, asleep_s) = (up.as_millis() / 1_000, up.minus(awake).as_millis() / 1_000);
    let asleep = match asleep_s {
        0 => "never suspended".to_string(),
        seconds => format!("suspended for {} of it", Span::secs(seconds)),
    };
    let wall = boot::wall();
    let detail =
        format!("up {}, {asleep}; the wall clock, which decides nothing, shows {wall}", Span::secs(up_s));
    if PLAUSIBLE_MS.contains(&wall.as_unix_millis()) {
        return chart.ok("clocks", detail);
    }
    chart.warn("clocks", detail, "set the date: the times in histories are for people, and will mislead them")
}

/// Whether changes of files can be waited for.
fn notification(chart: &mut CheckReport) -> Result<(), Failure> {
    let limit = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let (instances, watches) = (limit("max_user_instances"), limit("max_user_watches"));
    let words = |number: Option<u64>| number.map_or("an unknown number of".to_string(), |n| n.to_string());
    let detail = format!("inotify gives {} instances and {} watches", words(instances), words(watches));
    let hint =
        "raise it: sysctl fs.inotify.max_user_instances=512; until then waiting agents look again and again";
    match inotify::init(inotify::CreateFlags::CLOEXEC) {
        Err(error) => chart.warn("inotify", format!("{detail}, but no more at the moment: {error}"), hint),
        Ok(_) if instances.is_some_and(|number| number < FEW_INSTANCES) => {
            chart.warn("inotify", detail, hint)
        }
        Ok(_) => chart.ok("inotify", detail),
    }
}
