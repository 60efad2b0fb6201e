//! The laboratory: how much simulated time passes in a second, on one core, and what a million agents take.

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use baton_lab::{Elector, SeedOptions, campaign};

use crate::figures::Figure;
use crate::process::peak_of;

/// Runs per measurement, of which the median of five counts.
const SEEDS: u64 = 400;

/// How long a million agents may take, flat and regional together.
const SCALE_TIME: Duration = Duration::from_secs(60);
/// What memory they may take.
const SCALE_MEMORY: u64 = 8 << 30;
/// How often that memory is looked at; the kernel keeps its peak.
const LOOK: Duration = Duration::from_millis(20);

/// Five members that elect by Raft, under the mixed faults, in both rhythms; a million agents.
pub(crate) fn measure(baton: &Path) -> std::io::Result<Vec<Figure>> {
    let raft = SeedOptions { nodes: Some(5), ..SeedOptions::new(Elector::RAFT) };
    let lan = SeedOptions { lan: true, ..raft };
    let mut figures = vec![
        speed("lab: 5-node Raft with faults, agents' timing, on one core", &raft, 5_000.0),
        speed("lab: 5-node Raft with faults, LAN timing, on one core", &lan, 1_000.0),
    ];
    figures.extend(scale(baton)?);
    Ok(figures)
}

/// `baton lab scale` with a million agents, from the outside.
fn scale(baton: &Path) -> std::io::Result<[Figure; 2]> {
    let begun = Instant::now();
    let mut command = Command::new(baton);
    command.args(["lab", "scale", "--agents", "1000000"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::null()).spawn()?;
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak = peak.max(peak_of(child.id()).unwrap_or(0));
        std::thread::sleep(LOOK);
    };
    let took = begun.elapsed();
    if !status.success() {
        return Err(std::io::Error::other(format!("`baton lab scale` has ended: {status}")));
    }
    Ok([
        Figure::at_most("lab scale: a million agents, flat and regional", took, SCALE_TIME, String::new()),
        Figure::memory("lab scale: the most memory it had", peak, SCALE_MEMORY),
    ])
}

fn speed(what: &str, wishes: &SeedOptions, bar: f64) -> Figure {
    let mut speeds: Vec<(f64, u64)> = (0..5)
        .map(|round| {
            let begun = Instant::now();
            let played = campaign(wishes, round * SEEDS, SEEDS, NonZeroUsize::MIN, &|_| {});
            assert!(played.broken.is_none(), "a promise broke: {:?}", played.broken);
            let took = begun.elapsed().as_secs_f64();
            #[expect(clippy::cast_precision_loss, reason = "for people")]
            let simulated = played.statistics.simulated.as_millis() as f64 / 1_000.0;
            (simulated / took, played.statistics.steps)
        })
        .collect();
    speeds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (median, steps) = speeds[2];
    Figure::times_real_time(what, median, bar, format!("{SEEDS} runs, {steps} steps"))
}
