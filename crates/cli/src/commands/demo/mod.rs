//! `baton demo`: see it all.

use clap::Args;

use crate::context::Global;
use crate::exit::Exit;
use crate::output::Outcome;

#[derive(Args, Debug)]
pub(crate) struct Demo {}

impl Demo {
    pub(crate) async fn perform(&self, _global: &Global) -> Outcome {
        Ok(Exit::Done)
    }
}
