//! `baton doctor`: check the store, its file system, clocks, keys and leftovers.
//!
//! Looks only. `--write` tries a commit that changes nothing, `--fix` removes what nobody can need any more. What needs a store that
//! does not answer is not tried twice.

mod keys;
mod leases;
mod leftovers;
mod locks;
mod machine;
mod native;
mod store;
mod watching;
mod write;

use std::io::{self, IsTerminal};

use clap::Args;
use serde_json::json;

use crate::context::Global;
use crate::exit::{self, Exit, Speaker};
use crate::output::{Failure, Outcome, Output, clean_lines};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton doctor                          look at everything, change nothing
  baton doctor --fix                    and remove what crashed processes left
  baton doctor --json | jq 'select(.verdict != \"ok\")'

Exits 0 if nothing failed (a warning is not a failure), 2 if the store's name is none, 7 if the store is bad, else 1.")]
pub(crate) struct Doctor {
    /// Remove what crashed processes left behind
    #[arg(long)]
    fix: bool,
    /// Try a commit: with a file of its own in a folder, else by writing the store's own record once more as it is
    #[arg(long)]
    write: bool,
}

/// What a check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// What was found so far.
struct CheckReport {
    output: Output,
    colour: bool,
    misnamed: bool,
    store_failed: bool,
    other_failed: bool,
}

impl Doctor {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        let colour = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let mut chart =
            CheckReport { output, colour, misnamed: false, store_failed: false, other_failed: false };
        machine::check(&mut chart)?;
        let opened = store::check(&mut chart, global, self.write).await?;
        keys::check(&mut chart, opened.as_ref()).await?;
        if let Some(opened) = &opened {
            leases::check(&mut chart, opened, self.fix).await?;
        }
        leftovers::check(&mut chart, opened.as_ref(), self.fix)?;
        Ok(match (chart.misnamed, chart.store_failed, chart.other_failed) {
            (true, _, _) => Exit::Usage,
            (false, true, _) => Exit::Store,
            (false, false, true) => Exit::Error,
            (false, false, false) => Exit::Done,
        })
    }
}

impl CheckReport {
    fn ok(&mut self, check: &str, detail: impl AsRef<str>) -> Result<(), Failure> {
        self.note(check, Verdict::Ok, detail.as_ref(), None)
    }

    fn warn(&mut self, check: &str, detail: impl AsRef<str>, hint: impl Into<String>) -> Result<(), Failure> {
        self.note(check, Verdict::Warn, detail.as_ref(), Some(hint.into()))
    }

    fn fail(&mut self, check: &str, detail: impl AsRef<str>, hint: impl Into<String>) -> Result<(), Failure> {
        self.other_failed = true;
        self.note(check, Verdict::Fail, detail.as_ref(), Some(hint.into()))
    }

    /// The store cannot be relied on.
    fn fail_store(
        &mut self,
        check: &str,
        detail: impl AsRef<str>,
        hint: impl Into<String>,
    ) -> Result<(), Failure> {
        self.store_failed = true;
        self.note(check, Verdict::Fail, detail.as_ref(), Some(hint.into()))
    }

    fn fail_with(&mut self, check: &str, error: &baton::Error) -> Result<(), Failure> {
        match exit::of(error, Speaker::Guard) {
            Exit::Usage => self.misnamed = true,
            _ => self.store_failed = true,
        }
        self.note(check, Verdict::Fail, &error.to_string(), error.hint())
    }

    fn note(
        &mut self,
        check: &str,
        verdict: Verdict,
        detail: &str,
        hint: Option<String>,
    ) -> Result<(), Failure> {
        let (word, ink) = match verdict {
            Verdict::Ok => ("ok", "\x1b[32m"),
            Verdict::Warn => ("warn", "\x1b[33m"),
            Verdict::Fail => ("fail", "\x1b[1;31m"),
        };
        let hint = hint.filter(|hint| !hint.is_empty());
        let data = json!({"check": check, "verdict": word, "detail": detail, "hint": hint});
        let (ink, dim, off) = if self.colour { (ink, "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
        let mut text = format!("{ink}{word:<4}{off}  {check:<11}  {}", clean_lines(detail));
        if let Some(hint) = &hint {
            text.push_str(&format!("\n{:19}{dim}hint: {}{off}", "", clean_lines(hint)));
        }
        if self.output.json { self.output.line(&data.to_string()) } else { self.output.painted(&text) }
    }
}

/// So many of something.
fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}
