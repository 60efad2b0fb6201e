//! What other processes do while something is measured.

use std::fs;
use std::path::Path;

use crate::load::{BUSY, ticks};
use crate::process::{OWN, stat};

/// Where [`stat`] has the session.
const SESSION: usize = 3;
/// Where it has what children that have ended had used, in themselves and in the kernel.
const OF_CHILDREN: usize = 13;

/// The clock ticks that this process, what it started and what of that has ended have used: all of one session.
fn own_ticks() -> f64 {
    let numbers = |path: &Path| fs::read_to_string(path).map(|text| stat(&text)).ok();
    let Some(me) = numbers(Path::new("/proc/self/stat")) else { return 0.0 };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| numbers(&entry.path().join("stat")));
    let ours = all.filter(|other| other.get(SESSION) == me.get(SESSION));
    let used = |numbers: &[u64], from: usize| numbers.iter().skip(from).take(2).sum::<u64>() as f64;
    ours.map(|process| used(&process, OWN)).sum::<f64>() + used(&me, OF_CHILDREN)
}

/// What others do meanwhile. Rounds in which that is too much are carried out again, as long as there is patience.
pub(super) struct Quiet {
    shares: Vec<f64>,
    dropped: usize,
    busy: usize,
    patience: usize,
}

impl Quiet {
    /// Up to so many rounds are carried out again.
    pub(super) fn new(patience: usize) -> Quiet {
        Quiet { shares: Vec::new(), dropped: 0, busy: 0, patience }
    }

    /// So many rounds, each told its number.
    pub(super) fn rounds<T>(
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
    pub(super) fn account(&self) -> String {
        let mut shares = self.shares.clone();
        shares.sort_unstable_by(f64::total_cmp);
        let share = |at: Option<&f64>| at.map_or(0.0, |share| share * 100.0);
        let (half, most) = (share(shares.get(shares.len() / 2)), share(shares.last()));
        let busy = match self.busy {
            0 => String::new(),
            busy => {
                format!(" **{busy} of the rounds that count were above it: do not rely on this run.**")
            }
        };
        format!(
            "Other processes took {half:.0} % of the cores in the median round and {most:.0} % in the worst of the {} \
             that count.\n{} rounds above {:.0} % were dropped and repeated.{busy}",
            shares.len(),
            self.dropped,
            BUSY * 100.0
        )
    }
}
