//! The laboratory: how much simulated time passes in a second, on one core.

use std::num::NonZeroUsize;
use std::time::Instant;

use baton_lab::{Algorithm, Wishes, campaign};

use crate::figures::Figure;

/// Runs per measurement, of which the median of five counts.
const SEEDS: u64 = 400;

/// Five members that elect by Raft, under the mixed faults, in both rhythms.
pub(crate) fn measure() -> Vec<Figure> {
    let raft = Wishes { nodes: Some(5), ..Wishes::new(Algorithm::Raft) };
    let lan = Wishes { lan: true, ..raft };
    vec![
        speed("lab: 5-node Raft with faults, agents' timing, on one core", &raft, 5_000.0),
        speed("lab: 5-node Raft with faults, LAN timing, on one core", &lan, 1_000.0),
    ]
}

fn speed(what: &str, wishes: &Wishes, bar: f64) -> Figure {
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
