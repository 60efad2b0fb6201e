//! One host of a simulated world, whatever elects there: a machine with its clock, and a process that starts, stands still and dies.

use baton_election::Moment;
use baton_peer::Random;

use crate::clock::HostClock;
use crate::setup::Setup;

/// A simulated machine and its process.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) clock: HostClock,
    /// Counts the starts of its process.
    pub(crate) life: u32,
    /// Whether the process stands still.
    pub(crate) paused: bool,
    /// The number of the last pause.
    pause: u32,
    /// When the process wants to be woken, in true time; never while it cannot be.
    pub(crate) alarm_at: u64,
    /// Work of a process that died, which its own clock has yet to stop.
    pub(crate) orphan: Option<Orphan>,
    drift_ppm: i32,
}

/// Work that has outlived its process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orphan {
    pub(crate) number: u64,
    /// When it must have stopped, on the place's clock.
    pub(crate) until: Moment,
}

impl Host {
    pub(crate) fn new(setup: &Setup, place: usize, random: &mut Random) -> Host {
        let drift_ppm = setup.drift_ppm.get(place).copied().unwrap_or(0);
        Host {
            clock: HostClock::new(0, booted(random), drift_ppm),
            life: 0,
            paused: false,
            pause: 0,
            alarm_at: u64::MAX,
            orphan: None,
            drift_ppm,
        }
    }

    /// The process stands still from here on; returns the number of the pause.
    pub(crate) fn stand_still(&mut self) -> u32 {
        self.paused = true;
        self.pause += 1;
        self.pause
    }

    /// That pause ends, unless it has ended already.
    pub(crate) fn go_on(&mut self, pause: u32) -> bool {
        let ends = self.paused && self.pause == pause;
        self.paused &= !ends;
        ends
    }

    /// The pause that lasts, if one does.
    pub(crate) fn pause(&self) -> Option<u32> {
        self.paused.then_some(self.pause)
    }

    /// The whole machine restarts: another boot clock, at the rate that it began with. Returns the work that dies with it.
    pub(crate) fn reboot(&mut self, now: u64, random: &mut Random) -> Option<Orphan> {
        self.clock = HostClock::new(now, booted(random), self.drift_ppm);
        self.orphan.take()
    }
}

/// What a boot clock shows: a machine has been up for seconds or for weeks.
fn booted(random: &mut Random) -> u64 {
    let longest = [20, 3_600, 2_000_000][usize::try_from(random.below(3)).unwrap_or(0)];
    random.between(1, longest * 1_000_000_000)
}

/// When the next alarm rings, and at which place. The first place of several.
pub(crate) fn next_alarm<'p>(places: impl Iterator<Item = &'p Host>) -> (u64, usize) {
    let mut first = (u64::MAX, 0);
    for (at, place) in places.enumerate() {
        if place.alarm_at < first.0 {
            first = (place.alarm_at, at);
        }
    }
    first
}
