//! `baton proposal`: agents propose, the leader decides, the record stays.

use baton::Error;
use baton::election::{AgentName, ElectionName, ItemName};
use baton::store::Access;
use baton::toolbox::{self, Item, Kind, Propose, Query, Ruling};
use clap::{Args, Subcommand};
use serde_json::json;

use super::task::{mandate, minted};
use crate::context::{Context, Global, Who};
use crate::exit::{Exit, Speaker};
use crate::input::text_of;
use crate::output::{Failure, Outcome, clean, table};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton proposal make refactor-auth 'Use a parser generator' --about parser --as agent-b
  baton proposal list refactor-auth
  baton proposal accept refactor-auth p-1f0c --reason 'saves a week' --as agent-a

The first decision is final, even if the leader changes.")]
pub(crate) struct Proposal {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Propose something
    Make(Make),
    /// List proposals
    List(List),
    /// Show one proposal
    Show(Show),
    /// Leader: accept a proposal
    Accept(Rule),
    /// Leader: reject a proposal
    Reject(Rule),
}

#[derive(Args, Debug)]
struct Make {
    /// The election whose leader decides
    election: ElectionName,
    /// A title of one line
    title: String,
    #[command(flatten)]
    who: Who,
    /// Its id [default: random]
    #[arg(long)]
    id: Option<ItemName>,
    /// The proposal, at most 16 KiB; @FILE or - to read it
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    body: String,
    /// Its subject: a task, a file, a value
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    about: String,
}

#[derive(Args, Debug)]
struct List {
    /// The election whose leader decides
    election: ElectionName,
    /// Only those of this agent
    #[arg(long, value_name = "AGENT")]
    by: Option<AgentName>,
    /// Only proposals without a decision
    #[arg(long)]
    open: bool,
}

#[derive(Args, Debug)]
struct Show {
    /// The election whose leader decides
    election: ElectionName,
    /// The proposal's id
    proposal: ItemName,
}

#[derive(Args, Debug)]
struct Rule {
    /// The election
    election: ElectionName,
    /// The proposal's id
    proposal: ItemName,
    #[command(flatten)]
    who: Who,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

impl Proposal {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.what {
            What::Make(make) => make.perform(global).await,
            What::List(list) => list.perform(global).await,
            What::Show(show) => show.perform(global).await,
            What::Accept(rule) => rule.perform(global, true).await,
            What::Reject(rule) => rule.perform(global, false).await,
        }
    }
}

fn standing(proposal: &toolbox::Proposal) -> &'static str {
    match &proposal.ruling {
        None => "open",
        Some(ruled) if ruled.accepted => "accepted",
        Some(_) => "rejected",
    }
}

impl Make {
    async fn perform(&self, global: &Global) -> Outcome {
        let propose = Propose {
            id: self.id.clone().map_or_else(|| minted("p"), Ok)?,
            by: self.who.agent()?,
            title: self.title.clone(),
            body: text_of(&self.body, "body")?,
            about: self.about.clone(),
        };
        let context = Context::open(global, Access::Write).await?;
        let made = context.coordinator.toolbox(&self.election).propose(propose).await;
        context.remember();
        let made = made.map_err(|error| Failure::from_error(&error, Speaker::Guard))?;
        let data = json!({
            "outcome": standing(&made), "election": self.election, "id": made.id, "by": made.by,
        });
        context.output.say(
            &data,
            &format!("proposal {} to the leader of {} is {}", made.id, self.election, standing(&made)),
        )?;
        Ok(Exit::Done)
    }
}

impl List {
    async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let query = Query { agent: self.by.clone(), ..Query::default() };
        let found = context.coordinator.toolbox(&self.election).all(Kind::Proposal, &query).await;
        let found = found.map_err(|error: Error| Failure::from_error(&error, Speaker::Guard))?;
        let mut rows = Vec::new();
        for item in &found {
            let Item::Proposal(proposal) = item else { continue };
            if self.open && proposal.ruling.is_some() {
                continue;
            }
            if context.output.json {
                context.output.line(&json!(proposal).to_string())?;
            }
            let (id, by) = (proposal.id.to_string(), proposal.by.to_string());
            rows.push(vec![
                id,
                standing(proposal).to_string(),
                by,
                proposal.about.clone(),
                proposal.title.clone(),
            ]);
        }
        match (context.output.json, rows.is_empty()) {
            (true, _) => {}
            (false, true) => {
                context.output.talk(&format!("no such proposal to the leader of {}", self.election))
            }
            (false, false) => {
                context.output.line(&table(&["PROPOSAL", "STATE", "BY", "ABOUT", "TITLE"], &rows))?;
            }
        }
        Ok(Exit::Done)
    }
}

impl Show {
    async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let found = context.coordinator.toolbox(&self.election).proposal(&self.proposal).await;
        let found = found.map_err(|error| Failure::from_error(&error, Speaker::Guard))?;
        context.output.say(&json!(found), &described(&found))?;
        Ok(Exit::Done)
    }
}

fn described(proposal: &toolbox::Proposal) -> String {
    let mut lines = vec![format!("{}: {} ({})", proposal.id, proposal.title, standing(proposal))];
    let about = if proposal.about.is_empty() { String::new() } else { format!(", about {}", proposal.about) };
    lines.push(format!("  by {} at {}{about}", proposal.by, proposal.made));
    if let Some(ruled) = &proposal.ruling {
        let colon = if ruled.reason.is_empty() { "" } else { ": " };
        lines.push(format!(
            "  {} by {} (epoch {}) at {}{colon}{}",
            standing(proposal),
            ruled.by,
            ruled.epoch,
            ruled.at,
            ruled.reason
        ));
    }
    if !proposal.body.is_empty() {
        lines.push(String::new());
        lines.extend(proposal.body.lines().map(|line| format!("  {line}")));
    }
    lines.iter().map(|line| clean(line)).collect::<Vec<_>>().join("\n")
}

impl Rule {
    async fn perform(&self, global: &Global, accept: bool) -> Outcome {
        let context = Context::open(global, Access::Write).await?;
        let mandate = mandate(&context, &self.election, &self.who)?;
        let ruling = Ruling { mandate, accept, reason: self.reason.clone() };
        let ruled = context.coordinator.toolbox(&self.election).rule(&self.proposal, ruling).await;
        context.remember();
        let ruled = ruled.map_err(|error| Failure::from_error(&error, Speaker::Holder))?;
        let data = json!({"outcome": standing(&ruled), "election": self.election, "id": ruled.id});
        context.output.say(&data, &format!("proposal {} is {}", ruled.id, standing(&ruled)))?;
        Ok(Exit::Done)
    }
}
