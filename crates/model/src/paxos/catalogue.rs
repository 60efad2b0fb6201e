//! The worlds that are explored.

use baton_election::{Margins, Span};
use baton_peer::Timing;

use super::check::{CHOSEN, LEASES};
use crate::clock::{Rate, TICK};

const SLOW: Rate = Rate(800);
const FAST: Rate = Rate(1_200);

/// What the members' clocks do.
#[derive(Clone, Debug)]
pub enum Clocks {
    /// Each goes on by itself.
    Free,
    /// In these rates; every combination is a world of its own.
    Drifting(Vec<[Rate; 3]>),
}

/// How often each thing happens in a run at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// How often true time goes on by half a lease, after all have ended their quarantine; with free clocks, how many prepare requests arrive
    /// after all patience.
    pub ticks: u8,
    /// How often members are woken.
    pub wakes: u8,
    /// How many messages are delivered a second time.
    pub repeats: u8,
    /// How many restarts there are.
    pub restarts: u8,
}

/// A rule that is broken on purpose, by whoever runs the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenRule {
    /// A member is started as if it had never spoken, though it has.
    Amnesia,
    /// The shell sends before it has kept what must be kept, and the crash comes in between.
    SpeakFirst,
    /// A member that restarts does not keep still.
    NoQuarantine,
    /// Clocks drift more than the timing allows for.
    WildClocks,
}

/// One bounded world.
#[derive(Clone, Debug)]
pub struct Scope {
    /// What it is called in reports.
    pub name: &'static str,
    /// The third member is a witness.
    pub witness: bool,
    /// Time.
    pub clocks: Clocks,
    /// How long, and how often.
    pub bounds: Bounds,
    /// The run begins with the first member as leader, accepted by the third, while the second has promised itself more; and refusals arrive.
    /// Elsewhere all refusals are lost.
    pub outbid: bool,
    /// The rhythm.
    pub timing: Timing,
    /// What is broken, if anything.
    pub fault: Option<BrokenRule>,
}

/// A lease of eight ticks on a slow leader's clock are ten of true time, and so are the twelve that a fast acceptor waits.
const TIGHT: Timing = Timing {
    heartbeat: TICK.scaled(6, 1),
    timeout_min: TICK.scaled(12, 1),
    timeout_max: TICK.scaled(12, 1),
    margins: Margins { drift_permille: 200, guard_cap: Span::ZERO },
};

fn free(name: &'static str, witness: bool, bounds: Bounds) -> Scope {
    Scope { name, witness, clocks: Clocks::Free, bounds, outbid: false, timing: TIGHT, fault: None }
}

fn drifting(name: &'static str, witness: bool, rates: Vec<[Rate; 3]>, bounds: Bounds) -> Scope {
    Scope {
        name,
        witness,
        clocks: Clocks::Drifting(rates),
        bounds,
        outbid: false,
        timing: TIGHT,
        fault: None,
    }
}

/// A slow first leader beside fast acceptors strains the lease most.
fn worst() -> Vec<[Rate; 3]> {
    vec![[SLOW, FAST, FAST]]
}

impl Scope {
    /// Where every promise must be kept. `wide` is for a campaign of many minutes.
    pub fn promises(wide: bool) -> Vec<Scope> {
        let more = u8::from(wide);
        let bounds =
            |ticks, wakes, repeats, restarts| Bounds { ticks, wakes: wakes + more, repeats, restarts };
        let mut scenes = vec![
            free("free clocks", false, bounds(1, 2, 0, 0)),
            free("free clocks, repeats", false, bounds(1, 2, 1, 0)),
            free("free clocks, restarts", false, bounds(1, 2, 0, 1)),
            free("free clocks, witness, repeats", true, bounds(1, 2, 1, 0)),
            free("free clocks, witness, restarts", true, bounds(1, 2, 0, 1)),
            Scope { outbid: true, ..free("free clocks, witness, outbid", true, bounds(1, 1, 0, 0)) },
            drifting("drifting clocks", false, worst(), bounds(2, 2, 0, 0)),
            drifting("drifting clocks, witness, restarts", true, worst(), bounds(2, 2, 0, 1)),
        ];
        if wide {
            scenes.push(drifting("drifting clocks, restarts", false, worst(), bounds(2, 2, 0, 1)));
        }
        scenes
    }

    /// What must be found, with the promise that it breaks.
    pub fn faults() -> Vec<(Scope, &'static str)> {
        let bounds = |ticks, restarts| Bounds { ticks, wakes: 2, repeats: 0, restarts };
        let broken = |fault, scene: Scope| Scope { fault: Some(fault), ..scene };
        let wild = vec![[Rate(700), Rate(1_300), Rate(1_300)]];
        vec![
            (broken(BrokenRule::Amnesia, free("a disk lost unnoticed", false, bounds(1, 1))), CHOSEN),
            (broken(BrokenRule::SpeakFirst, free("spoken before kept", false, bounds(1, 1))), CHOSEN),
            (
                broken(BrokenRule::NoQuarantine, drifting("no quarantine", false, worst(), bounds(1, 1))),
                LEASES,
            ),
            (broken(BrokenRule::WildClocks, drifting("wild clocks", false, wild, bounds(2, 0))), LEASES),
        ]
    }
}
