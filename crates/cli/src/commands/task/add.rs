//! `baton task add`.

use std::io::Read;

use baton::Mandate;
use baton::election::{AgentName, ElectionName, ItemName};
use baton::store::Access;
use baton::toolbox::{Added, NewTask};
use clap::Args;
use serde_json::json;

use super::mandate;
use crate::context::{AgentOption, Context};
use crate::exit::Speaker;
use crate::input::{object_of, text_of};
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

/// The most that is read from a file of tasks.
const MAX_FILE_BYTES: u64 = 1 << 30;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton task add refactor-auth 'Rewrite the parser' --id parser --needs rust,parsing --size 2
  baton task add refactor-auth 'Fix issue 17' --key https://example.com/issues/17    the same key is the same task
  baton task add refactor-auth --from tasks.jsonl       one object per line: title, and id or key, body, needs, size")]
pub(crate) struct Add {
    /// The election whose board it is
    election: ElectionName,
    /// A title of one line
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    title: Option<String>,
    #[command(flatten)]
    who: AgentOption,
    /// Its id [default: derived from the key, else random]
    #[arg(long, conflicts_with = "key")]
    id: Option<ItemName>,
    /// A key that identifies the task: adding the same key again changes nothing
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,
    /// The instructions, at most 16 KiB; @FILE or - to read it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    body: String,
    /// The capabilities that a worker needs for it
    #[arg(long, value_name = "CAPABILITY,…", value_delimiter = ',')]
    needs: Vec<String>,
    /// How much of a worker's capacity it takes
    #[arg(long, value_name = "N", default_value_t = 1)]
    size: u64,
    /// Add the tasks of a file, or - for stdin: JSON, one object per line
    #[arg(long, value_name = "FILE")]
    from: Option<String>,
}

impl StoreCommand for Add {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Holder;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let tasks = self.tasks()?;
        let (mandate, by) = self.standing(context)?;
        let tools = context.coordinator.toolbox(&self.election);
        let added = tools.add(mandate, by.as_ref(), &tasks).await?;
        let screen = match (added.as_slice(), &self.from) {
            ([one], None) => {
                let data = json!({
                    "outcome": "added", "election": self.election, "id": one.id, "repeated": one.repeated, "state": one.state,
                });
                let repeated = if one.repeated { " (it was there)" } else { "" };
                Screen::new(data, format!("task {} of {} is {}{repeated}", one.id, self.election, one.state))
            }
            (all, _) => {
                let new = all.iter().filter(|added: &&Added| !added.repeated).count();
                let data =
                    json!({"outcome": "added", "election": self.election, "tasks": all.len(), "new": new});
                let (many, election) = (all.len(), &self.election);
                Screen::new(data, format!("{many} tasks on the board of {election}, {new} of them new"))
            }
        };
        Ok(screen.notes(mandate.is_none().then_some("nobody leads: it waits for the next leader")))
    }
}

impl Add {
    /// As the leader if the caller has a lease; else as an agent, while nobody leads.
    fn standing(&self, context: &Context) -> Result<(Option<Mandate>, Option<AgentName>), Failure> {
        match mandate(context, &self.election, &self.who) {
            Ok(mandate) => Ok((Some(mandate), None)),
            Err(failure) if failure.code == "no-lease" => Ok((None, Some(self.who.agent()?))),
            Err(failure) => Err(failure),
        }
    }

    fn tasks(&self) -> Result<Vec<NewTask>, Failure> {
        if let Some(from) = &self.from {
            return tasks_of(from);
        }
        Ok(vec![NewTask {
            id: self.id.clone().map_or_else(|| self.minted(), |id| Ok(Some(id)))?,
            key: self.key.clone(),
            title: self.title.clone().unwrap_or_default(),
            body: text_of(&self.body, "body")?,
            needs: self.needs.iter().cloned().collect(),
            size: self.size,
        }])
    }

    /// A name of its own, where neither an id nor a key is given: a request that is sent again adds nothing.
    fn minted(&self) -> Result<Option<ItemName>, Failure> {
        if self.key.is_some() {
            return Ok(None);
        }
        minted("t").map(Some)
    }
}

/// A name that nobody else uses.
pub(crate) fn minted(what: &str) -> Result<ItemName, Failure> {
    let mut random = [0; 6];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    crate::context::name(ItemName::new(&format!("{what}-{}", baton::election::hex::encode(&random))))
}

fn tasks_of(from: &str) -> Result<Vec<NewTask>, Failure> {
    let mut text = String::new();
    match from {
        "-" => std::io::stdin().take(MAX_FILE_BYTES).read_to_string(&mut text)?,
        path => std::fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text))
            .map_err(|error| {
                Failure::usage(format!("cannot read {path}: {error}"), "give a file of JSON lines")
            })?,
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let parse = |(number, line): (usize, &str)| {
        let hint = "write {\"id\": \"parser\", \"title\": \"Rewrite the parser\"}";
        let task: NewTask = object_of(line)
            .map_err(|error| Failure::usage(format!("line {} is no task: {error}", number + 1), hint))?;
        task.id().map_err(|refusal| Failure::usage(format!("line {}: {refusal}", number + 1), hint))?;
        Ok(task)
    };
    lines.map(parse).collect()
}
