//! `baton completions`: a completion script for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::context::Global;
use crate::exit::Exit;
use crate::output::{Outcome, Output};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  baton completions bash > /etc/bash_completion.d/baton")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) async fn perform(&self, _: &Global) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Cli::command(), "baton", &mut script);
        Output { json: false }.line(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
