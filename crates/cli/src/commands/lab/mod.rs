//! `baton lab`: the laboratory, one file per subcommand. It touches no store and no network.

mod compare;
mod paper;
mod progress;
mod replay;
mod run;
mod scale;
mod tune;
mod wishes;

use clap::Subcommand;

use crate::context::Global;
use crate::output::Outcome;

/// The laboratory's commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Lab {
    /// Play many seeds, each with its own faults, and check every promise after every event
    Run(run::Run),
    /// See one seed's run, event by event, or as a picture
    Replay(replay::Replay),
    /// See all algorithms under the same faults: two leaders, none, fail-over, messages
    Compare(compare::Compare),
    /// Find lease, renewal, heartbeat and timeout for a network
    Tune(tune::Tune),
    /// See what a leader costs a fleet of up to a million agents, flat and regional
    Scale(scale::Scale),
}

impl Lab {
    pub(crate) fn perform(&self, global: &Global) -> Outcome {
        match self {
            Lab::Run(command) => command.perform(global),
            Lab::Replay(command) => command.perform(global),
            Lab::Compare(command) => command.perform(global),
            Lab::Tune(command) => command.perform(global),
            Lab::Scale(command) => command.perform(global),
        }
    }
}
