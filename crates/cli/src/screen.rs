//! The frame of every command that uses a store: open it, do the work, keep what was seen, print.

use baton::store::Access;
use serde_json::Value;

use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, Output, table};

/// What a command shows: objects for programs, lines for people.
pub(crate) struct Screen {
    data: Vec<Value>,
    text: Option<String>,
    /// What people are told beside it, on stderr.
    notes: Vec<String>,
    exit: Exit,
}

impl Screen {
    /// One result.
    pub(crate) fn new(data: Value, text: impl Into<String>) -> Screen {
        Screen { data: vec![data], text: Some(text.into()), ..Screen::ended(Exit::Done) }
    }

    /// A list: an object and a row for each. An empty one is said to be so.
    pub(crate) fn table(
        data: Vec<Value>,
        head: &[&str],
        rows: &[Vec<String>],
        none: impl Into<String>,
    ) -> Screen {
        let screen = Screen::list(data);
        match rows {
            [] => screen.note(none),
            rows => Screen { text: Some(table(head, rows)), ..screen },
        }
    }

    /// Objects for programs, and nothing for people.
    pub(crate) fn list(data: Vec<Value>) -> Screen {
        Screen { data, ..Screen::ended(Exit::Done) }
    }

    /// Nothing more than was printed already.
    pub(crate) fn ended(exit: Exit) -> Screen {
        Screen { data: Vec::new(), text: None, notes: Vec::new(), exit }
    }

    /// Adds a line for people, on stderr.
    pub(crate) fn note(self, text: impl Into<String>) -> Screen {
        self.notes([text])
    }

    /// Adds as many lines as there are.
    pub(crate) fn notes(mut self, lines: impl IntoIterator<Item: Into<String>>) -> Screen {
        self.notes.extend(lines.into_iter().map(Into::into));
        self
    }

    /// Sets the exit code.
    pub(crate) fn exit(self, exit: Exit) -> Screen {
        Screen { exit, ..self }
    }

    /// Prints it.
    pub(crate) fn print(self, output: Output) -> Outcome {
        if output.json {
            self.data.iter().try_for_each(|data| output.line(&data.to_string()))?;
        } else if let Some(text) = &self.text {
            output.line(text)?;
        }
        self.notes.iter().for_each(|note| output.talk(note));
        Ok(self.exit)
    }
}

/// A command that uses the store. One that only looks says nothing of its access and its speaker.
pub(crate) trait StoreCommand {
    const ACCESS: Access = Access::Read;
    /// Decides between the exit codes of a stale token and of a wrong key.
    const SPEAKER: Speaker = Speaker::Guard;

    /// How it opens the store.
    fn access(&self) -> Access {
        Self::ACCESS
    }

    /// What can be refused before the store is opened, which may make it.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Does the work.
    async fn screen(&self, context: &Context) -> Result<Screen, Failure>;

    /// Opens the store, does the work, keeps what was seen, and prints.
    async fn perform(&self, global: &Global) -> Outcome {
        self.check()?;
        let context = Context::open(global, self.access()).await?;
        let screen = self.screen(&context).await;
        context.remember();
        screen.map_err(|failure| failure.told_to(Self::SPEAKER))?.print(context.output)
    }
}
