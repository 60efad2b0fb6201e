//! `baton lab`: the laboratory, one file per subcommand. It touches no store and no network.

mod progress;
mod replay;
mod run;
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
}

impl Lab {
    pub(crate) fn perform(&self, global: &Global) -> Outcome {
        match self {
            Lab::Run(command) => command.perform(global),
            Lab::Replay(command) => command.perform(global),
        }
    }
}
