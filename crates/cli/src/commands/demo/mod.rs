//! `baton demo`: three real agents, everything that can happen to them, and what Baton makes of it.
//!
//! Every agent is a real `baton run` of this very program on a store of its own. What is shown is measured or read from that
//! store; nothing is played back.

mod agent;
mod fleet;
mod folder;
mod printer;
mod processes;
mod report;
mod steps;
mod worker;

use baton::election::policy;
use baton::election::time::Span;
use clap::Args;

use crate::commands::run::signals::Signals;
use crate::context::Global;
use crate::exit::Exit;
use crate::output::{Failure, Outcome, Output};
use fleet::Fleet;
use folder::DemoFolder;
use printer::Printer;
use processes::Sweeper;

pub(crate) use folder::{PREFIX, parent};
pub(crate) use worker::{WORKER, worker};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton demo                 at a terminal, with pauses to read
  baton demo --fast          without them
  baton demo --json          one object for every event
  baton demo --ttl 10s       on a very busy machine

It takes place in a temporary folder and leaves nothing behind. Exits 1 if anything is not as it must be.")]
pub(crate) struct Demo {
    /// No pauses to read
    #[arg(long)]
    fast: bool,
    /// How long the agents' leases last: longer ones outlast the pauses of a busy machine
    #[arg(long, value_name = "DURATION", default_value_t = Span::secs(2))]
    ttl: Span,
}

impl Demo {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        if global.store.is_some() {
            return Err(Failure::usage("the demo has a store of its own", "remove --store"));
        }
        policy::check_ttl(self.ttl).map_err(baton::Error::from)?;
        let mut signals = Signals::listen()?;
        // What an agent leaves behind when it is killed becomes this process's child, to be swept at the end.
        baton_warden::become_subreaper()?;
        let mut printer = Printer::new(Output { json: global.json }, self.fast);
        let ended = tokio::select! {
            biased;
            code = signals.next() => {
                printer.wipe()?;
                Output { json: global.json }.talk("interrupted; nothing is left behind");
                return Ok(Exit::Command(code));
            }
            ended = run(&mut printer, self.ttl) => ended,
        };
        // A reader that has enough ends the demo, and that is no failure.
        if printer.closed { Ok(Exit::Done) } else { ended }
    }
}

/// Whether it ends or is dropped, no process and no file is left.
async fn run(printer: &mut Printer, ttl: Span) -> Outcome {
    printer.open()?;
    let folder = DemoFolder::make()?;
    // Dropped before the folder, which the agents use to their last moment.
    let _sweeper = Sweeper;
    let mut fleet = Fleet::new(printer, &folder, ttl).await?;
    steps::take(&mut fleet).await?;
    report::print(&mut fleet).await
}
