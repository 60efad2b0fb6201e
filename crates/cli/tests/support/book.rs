//! What programs that campaign were granted, and that no token was given twice and no two led at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use baton::store::boot;

/// A leadership, as who led knows it, on the boot-time clock.
#[derive(Clone, Debug)]
pub(crate) struct LedSpan {
    pub(crate) token: u64,
    from: u64,
    /// The last moment at which it surely led; none yet is before everything.
    to: u64,
}

/// What everybody was granted, by election. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Book {
    led: Arc<Mutex<BTreeMap<String, Vec<LedSpan>>>>,
}

impl Book {
    fn led(&self) -> MutexGuard<'_, BTreeMap<String, Vec<LedSpan>>> {
        self.led.lock().unwrap()
    }

    /// Somebody was granted this. Returns its place.
    pub(crate) fn granted(&self, election: &str, token: u64) -> usize {
        let now = boot::now().as_nanos();
        let mut led = self.led();
        let all = led.entry(election.to_string()).or_default();
        all.push(LedSpan { token, from: now, to: 0 });
        all.len() - 1
    }

    /// Whether it still leads, by its own clock. The moment is taken before it is asked: who says yes later led then.
    pub(crate) fn still(&self, election: &str, place: usize, leads: impl FnOnce() -> bool) -> bool {
        let now = boot::now().as_nanos();
        let leads = leads();
        if leads && let Some(mine) = self.led().get_mut(election).and_then(|all| all.get_mut(place)) {
            mine.to = now;
        }
        leads
    }

    /// The highest token of an election.
    pub(crate) fn highest(&self, election: &str) -> u64 {
        self.led().get(election).and_then(|all| all.iter().map(|led| led.token).max()).unwrap_or(0)
    }

    /// How many elections somebody has led.
    pub(crate) fn elections(&self) -> usize {
        self.led().len()
    }

    /// How many leaderships there were.
    pub(crate) fn grants(&self) -> usize {
        self.led().values().map(Vec::len).sum()
    }

    /// Fails if a token was given twice, or two led at the same time. Returns what was led, in the order of the tokens.
    pub(crate) fn checked(&self) -> BTreeMap<String, Vec<LedSpan>> {
        let mut all = self.led().clone();
        for (election, led) in &mut all {
            led.sort_by_key(|led| led.token);
            for pair in led.windows(2) {
                assert!(pair[0].token < pair[1].token, "{election}: token {} was given twice", pair[0].token);
                assert!(pair[0].to < pair[1].from, "{election}: {pair:?} led at the same time");
            }
        }
        all
    }
}
