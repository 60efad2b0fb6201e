//! `baton demo`: three real agents, everything that can happen to them, and what Baton makes of it.
//!
//! Every agent is a real `baton run` of this very program on a store of its own. What is shown is measured or read from that
//! store; nothing is played back.

mod acts;
mod place;
mod processes;
mod scene;
mod stage;
mod troupe;
mod verdict;
mod worker;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::context::Global;
use crate::exit::Exit;
use crate::output::{Failure, Outcome, Output};
use place::Place;
use scene::Scene;
use stage::Stage;

pub(crate) use place::{PREFIX, parent};
pub(crate) use worker::{WORKER, worker};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton demo                 at a terminal, with pauses to read
  baton demo --fast          without them
  baton demo --json          one object for every event

It takes place in a temporary folder and leaves nothing behind. Exits 1 if anything is not as it must be.")]
pub(crate) struct Demo {
    /// No pauses to read
    #[arg(long)]
    fast: bool,
}

/// Why the demo does not go on.
enum Stop {
    /// A signal asked for it: the exit code that a shell expects.
    Interrupted(u8),
    /// Nobody listens any more.
    Deaf,
    /// It cannot.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        Stop::Failed(error.into())
    }
}

impl From<baton::Error> for Stop {
    fn from(error: baton::Error) -> Stop {
        Stop::Failed(Failure::from_error(&error, crate::exit::Speaker::Candidate))
    }
}

impl Demo {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        if global.store.is_some() {
            return Err(Failure::usage("the demo has a store of its own", "remove --store"));
        }
        let output = Output { json: global.json };
        let mut interrupts = Interrupts::listen()?;
        // What an agent leaves behind when it is killed becomes this process's child, to be swept at the end.
        baton_warden::become_subreaper()?;
        let stage = Stage::open(output, self.fast);
        let ended = tokio::select! {
            biased;
            code = interrupts.next() => Err(Stop::Interrupted(code)),
            ended = play(stage) => ended,
        };
        match ended {
            Ok(exit) => Ok(exit),
            Err(Stop::Deaf) => Ok(Exit::Done),
            Err(Stop::Interrupted(code)) => {
                output.talk("interrupted; nothing is left behind");
                Ok(Exit::Command(code))
            }
            Err(Stop::Failed(failure)) => Err(failure),
        }
    }
}

/// Plays it all. Whether it ends or is dropped, no process and no file is left.
async fn play(mut stage: Stage) -> Result<Exit, Stop> {
    stage.open_curtain()?;
    let place = Place::make()?;
    // Dropped before the place, which the agents use to their last moment.
    let _broom = Broom;
    let mut scene = Scene::set(stage, &place).await?;
    acts::play(&mut scene).await?;
    verdict::give(&mut scene).await
}

/// Ends all agents when it is dropped.
struct Broom;

impl Drop for Broom {
    fn drop(&mut self) {
        processes::dismiss_all();
    }
}

/// The signals that end the demo.
struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Interrupts {
    fn listen() -> Result<Interrupts, Failure> {
        Ok(Interrupts {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next of them; returns the exit code that a shell expects.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = self.hang_up.recv() => 129,
        }
    }
}
