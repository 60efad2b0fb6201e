//! `baton lab`: the laboratory, one file per subcommand. It touches no store and no network.

mod compare;
mod progress;
mod replay;
mod report_files;
mod run;
mod scale;
mod setup_options;
mod tune;

use clap::{Args, Subcommand};

use crate::context::{Global, NoStore};
use crate::output::Outcome;

#[derive(Args, Debug)]
pub(crate) struct Lab {
    #[command(subcommand)]
    experiment: Experiment,
    #[command(flatten)]
    store: NoStore,
}

/// The laboratory's commands.
#[derive(Subcommand, Debug)]
enum Experiment {
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
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        self.store.refuse("baton lab")?;
        match &self.experiment {
            Experiment::Run(command) => command.perform(global),
            Experiment::Replay(command) => command.perform(global),
            Experiment::Compare(command) => command.perform(global),
            Experiment::Tune(command) => command.perform(global),
            Experiment::Scale(command) => command.perform(global),
        }
    }
}
