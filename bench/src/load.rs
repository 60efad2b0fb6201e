//! What else the machine does meanwhile, and chance.

use std::fs;
use std::time::Duration;

use crate::process::stat;

/// From which share of its cores the machine counts as busy. Waiting for a lease to end takes next to nothing.
const BUSY: f64 = 0.3;

/// A span below the bound, each as likely as the other.
pub(crate) fn random(bound: Duration) -> Duration {
    let mut bytes = [0; 4];
    let drawn =
        getrandom::fill(&mut bytes).map_or(0.5, |()| f64::from(u32::from_le_bytes(bytes)) / 2f64.powi(32));
    bound.mul_f64(drawn)
}

/// The load averages over the last 1, 5 and 15 minutes, and what they are to be compared with.
pub(crate) fn averages() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let averages = text.split(' ').take(3).collect::<Vec<_>>().join(" ");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{averages} on {cores} cores")
}

/// How many of some rounds were measured while the machine was busy.
#[derive(Default)]
pub(crate) struct Busy {
    rounds: usize,
    busy: usize,
}

impl Busy {
    /// Carries out a round, and notes how busy the cores were, with whatever.
    pub(crate) fn during<T>(&mut self, round: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
        let before = ticks();
        let done = round()?;
        let after = ticks();
        let share = (after.0 - before.0) / (after.1 - before.1).max(1.0);
        self.rounds += 1;
        self.busy += usize::from(share > BUSY);
        Ok(done)
    }

    /// Such as `3 of 80`.
    pub(crate) fn count(&self) -> String {
        format!("{} of {}", self.busy, self.rounds)
    }
}

/// The clock ticks of all cores since boot: those at work, and all.
fn ticks() -> (f64, f64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
    // The guests that follow are part of the first two.
    let numbers: Vec<f64> = numbers.take(8).filter_map(|number| number.parse().ok()).collect();
    let all: f64 = numbers.iter().sum();
    let idle: f64 = numbers.iter().skip(3).take(2).sum();
    (all - idle, all)
}

/// The clock ticks that this process, what it started and what of that has ended have used: all of one session.
fn own_ticks() -> f64 {
    let me = fs::read_to_string("/proc/self/stat").ok().and_then(|text| stat(&text));
    let Some(me) = me else { return 0.0 };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let texts = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let ours = texts.filter_map(|text| stat(&text)).filter(|other| other.session == me.session);
    ours.map(|process| process.own).sum::<u64>() as f64 + me.children as f64
}

/// What others do meanwhile. Rounds in which that is too much are carried out again, as long as there is patience.
pub(crate) struct Quiet {
    shares: Vec<f64>,
    dropped: usize,
    busy: usize,
    patience: usize,
}

impl Quiet {
    /// Up to so many rounds are carried out again.
    pub(crate) fn new(patience: usize) -> Quiet {
        Quiet { shares: Vec::new(), dropped: 0, busy: 0, patience }
    }

    /// So many rounds, each told its number.
    pub(crate) fn rounds<T>(
        &mut self,
        wanted: usize,
        mut round: impl FnMut(usize) -> std::io::Result<T>,
    ) -> std::io::Result<Vec<T>> {
        let mut outcomes = Vec::new();
        for number in 0.. {
            if outcomes.len() == wanted {
                break;
            }
            let (before, own) = (ticks(), own_ticks());
            let outcome = round(number)?;
            let (after, own) = (ticks(), own_ticks() - own);
            let foreign = (after.0 - before.0 - own).max(0.0) / (after.1 - before.1).max(1.0);
            if foreign > BUSY && self.patience > 0 {
                self.patience -= 1;
                self.dropped += 1;
                continue;
            }
            self.busy += usize::from(foreign > BUSY);
            self.shares.push(foreign);
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// In words.
    pub(crate) fn account(&self) -> String {
        let mut shares = self.shares.clone();
        shares.sort_unstable_by(f64::total_cmp);
        let share = |at: Option<&f64>| at.map_or(0.0, |share| share * 100.0);
        let (half, most) = (share(shares.get(shares.len() / 2)), share(shares.last()));
        let busy = match self.busy {
            0 => String::new(),
            busy => {
                format!(" **{busy} of those that count were above it: this run is not to be relied on.**")
            }
        };
        format!(
            "Other processes took {half:.0} % of the cores in the median round and {most:.0} % in the worst of {} that \
             count; {} rounds above {:.0} % were dropped and carried out again.{busy}",
            shares.len(),
            self.dropped,
            BUSY * 100.0
        )
    }
}
