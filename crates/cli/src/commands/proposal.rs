//! `baton proposal`: agents propose, the leader decides, the record stays.

use baton::election::{AgentName, ElectionName, ItemName};
use baton::store::Access;
use baton::toolbox::{self, Item, Kind, Propose, Query, Ruling};
use clap::{Args, Subcommand};
use serde_json::json;

use super::task::{mandate, minted};
use crate::context::{AgentOption, Context, Global};
use crate::exit::Speaker;
use crate::input::text_of;
use crate::output::{Failure, Outcome, clean};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton proposal make refactor-auth 'Use a parser generator' --about parser --as agent-b
  baton proposal list refactor-auth
  baton proposal accept refactor-auth p-1f0c --reason 'saves a week' --as agent-a

The first decision is final, even if the leader changes.")]
pub(crate) struct Proposal {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
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
    who: AgentOption,
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
    who: AgentOption,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

impl Proposal {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.action {
            Action::Make(make) => make.perform(global).await,
            Action::List(list) => list.perform(global).await,
            Action::Show(show) => show.perform(global).await,
            Action::Accept(rule) => Decision(rule, true).perform(global).await,
            Action::Reject(rule) => Decision(rule, false).perform(global).await,
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

impl StoreCommand for Make {
    const ACCESS: Access = Access::Write;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let propose = Propose {
            id: self.id.clone().map_or_else(|| minted("p"), Ok)?,
            by: self.who.agent()?,
            title: self.title.clone(),
            body: text_of(&self.body, "body")?,
            about: self.about.clone(),
        };
        let made = context.coordinator.toolbox(&self.election).propose(propose).await?;
        let data = json!({
            "outcome": standing(&made), "election": self.election, "id": made.id, "by": made.by,
        });
        let state = standing(&made);
        Ok(Screen::new(data, format!("proposal {} to the leader of {} is {state}", made.id, self.election)))
    }
}

impl StoreCommand for List {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let query = Query { agent: self.by.clone(), ..Query::default() };
        let found = context.coordinator.toolbox(&self.election).all(Kind::Proposal, &query).await?;
        let found: Vec<&toolbox::Proposal> = found
            .iter()
            .filter_map(|item| if let Item::Proposal(proposal) = item { Some(proposal) } else { None })
            .filter(|proposal| !self.open || proposal.ruling.is_none())
            .collect();
        let row = |proposal: &&toolbox::Proposal| {
            let (id, state, by) = (&proposal.id, standing(proposal), &proposal.by);
            vec![
                id.to_string(),
                state.to_string(),
                by.to_string(),
                proposal.about.clone(),
                proposal.title.clone(),
            ]
        };
        let data = found.iter().map(|proposal| json!(proposal)).collect();
        let rows: Vec<Vec<String>> = found.iter().map(row).collect();
        let none = format!("no such proposal to the leader of {}", self.election);
        Ok(Screen::table(data, &["PROPOSAL", "STATE", "BY", "ABOUT", "TITLE"], &rows, none))
    }
}

impl StoreCommand for Show {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let found = context.coordinator.toolbox(&self.election).proposal(&self.proposal).await?;
        Ok(Screen::new(json!(found), described(&found)))
    }
}

fn described(proposal: &toolbox::Proposal) -> String {
    let mut lines = vec![format!("{}: {} ({})", proposal.id, proposal.title, standing(proposal))];
    let about = if proposal.about.is_empty() { String::new() } else { format!(", about {}", proposal.about) };
    lines.push(format!("  by {} at {}{about}", proposal.by, proposal.made));
    if let Some(ruled) = &proposal.ruling {
        let colon = if ruled.reason.is_empty() { "" } else { ": " };
        lines.push(format!(
            "  {} by {} (token {}) at {}{colon}{}",
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

/// A proposal, and whether it is accepted.
struct Decision<'a>(&'a Rule, bool);

impl StoreCommand for Decision<'_> {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Holder;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let Decision(rule, accept) = *self;
        let mandate = mandate(context, &rule.election, &rule.who)?;
        let ruling = Ruling { mandate, accept, reason: rule.reason.clone() };
        let ruled = context.coordinator.toolbox(&rule.election).rule(&rule.proposal, ruling).await?;
        let data = json!({"outcome": standing(&ruled), "election": rule.election, "id": ruled.id});
        Ok(Screen::new(data, format!("proposal {} is {}", ruled.id, standing(&ruled))))
    }
}
