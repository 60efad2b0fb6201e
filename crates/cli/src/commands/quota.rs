//! `baton quota`: the leader splits a shared budget, and agents draw from their shares.

use std::collections::BTreeMap;

use baton::Error;
use baton::election::time::Span;
use baton::election::{AgentName, ElectionName, ItemName, Refusal};
use baton::store::{Access, boot};
use baton::toolbox::{self, Item, Kind, Query};
use clap::{Args, Subcommand};
use serde_json::json;

use super::task::mandate;
use crate::context::{AgentOption, Context, Global};
use crate::exit::Speaker;
use crate::output::{Failure, Outcome};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton quota set refactor-auth api --amount 600 --per 1m --share agent-b=400,agent-c=200 --as agent-a
  baton quota draw refactor-auth api 10 --as agent-b && curl …
  baton quota draw refactor-auth api 10 --wait 2m --as agent-b && curl …
  baton quota show refactor-auth

A window begins with the first draw after the last one has ended, and is timed by the store. A draw that is more than what is left is refused \
with exit code 3, and says how long to wait. A new leader inherits the split.")]
pub(crate) struct Quota {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Leader: set a budget and its split
    Set(Set),
    /// Show the budgets
    Show(Show),
    /// Draw from your share
    Draw(Draw),
}

#[derive(Args, Debug)]
struct Set {
    /// The election
    election: ElectionName,
    /// The name of the budget
    quota: ItemName,
    #[command(flatten)]
    who: AgentOption,
    /// The amount in each window
    #[arg(long, value_name = "N")]
    amount: u64,
    /// The length of a window
    #[arg(long, value_name = "DURATION")]
    per: Span,
    /// The share of each agent; the sum must not exceed the amount
    #[arg(long, value_name = "AGENT=N,…", value_delimiter = ',', value_parser = share)]
    share: Vec<(AgentName, u64)>,
}

#[derive(Args, Debug)]
struct Show {
    /// The election
    election: ElectionName,
    /// The name of the budget [default: all]
    quota: Option<ItemName>,
}

#[derive(Args, Debug)]
struct Draw {
    /// The election
    election: ElectionName,
    /// The name of the budget
    quota: ItemName,
    /// How much
    #[arg(default_value_t = 1)]
    amount: u64,
    #[command(flatten)]
    who: AgentOption,
    /// How long to wait until there is enough
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true)]
    wait: Span,
}

fn share(text: &str) -> Result<(AgentName, u64), String> {
    let (agent, amount) = text.split_once('=').ok_or("write AGENT=N")?;
    let agent = AgentName::new(agent).map_err(|error| error.to_string())?;
    Ok((agent, amount.parse().map_err(|_| format!("`{amount}` is not a number"))?))
}

impl Quota {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.action {
            Action::Set(set) => set.perform(global).await,
            Action::Show(show) => show.perform(global).await,
            Action::Draw(draw) => draw.perform(global).await,
        }
    }
}

impl StoreCommand for Set {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Holder;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let mut shares = BTreeMap::new();
        for (agent, amount) in &self.share {
            if shares.insert(agent.clone(), *amount).is_some() {
                return Err(Failure::usage(format!("{agent} has two shares"), "give each agent one"));
            }
        }
        let mandate = mandate(context, &self.election, &self.who)?;
        let tools = context.coordinator.toolbox(&self.election);
        let set = tools.set_quota(&self.quota, mandate, self.amount, self.per, shares).await?;
        let data = json!({
            "outcome": "set", "election": self.election, "quota": set.name, "amount": set.amount, "window_ms": set.window.as_millis(),
            "shared": set.shared(),
        });
        let text = format!(
            "{} of {}: {} per {}, {} of it shared",
            set.name,
            self.election,
            set.amount,
            set.window,
            set.shared()
        );
        let note = "nobody can draw from it yet: say who may with --share AGENT=N";
        Ok(Screen::new(data, text).notes((set.shared() == 0).then_some(note)))
    }
}

impl StoreCommand for Show {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let tools = context.coordinator.toolbox(&self.election);
        let quotas = match &self.quota {
            Some(name) => vec![Item::Quota(tools.quota(name).await?)],
            None => tools.all(Kind::Quota, &Query::default()).await?,
        };
        let quotas: Vec<&toolbox::Quota> = quotas
            .iter()
            .filter_map(|item| if let Item::Quota(quota) = item { Some(quota) } else { None })
            .collect();
        let rows: Vec<Vec<String>> = quotas.iter().flat_map(|quota| rows_of(quota)).collect();
        let data = quotas.iter().map(|quota| json!(quota)).collect();
        let head = ["QUOTA", "PER WINDOW", "AGENT", "SHARE", "DRAWN"];
        Ok(Screen::table(data, &head, &rows, format!("{} has no quota", self.election)))
    }
}

/// One for each share. What was drawn is of the window that began last, which may have ended.
fn rows_of(quota: &toolbox::Quota) -> Vec<Vec<String>> {
    let whole = format!("{} per {}", quota.amount, quota.window);
    let row = |agent: String, share: u64, drawn: u64| {
        vec![quota.name.to_string(), whole.clone(), agent, share.to_string(), drawn.to_string()]
    };
    if quota.shares.is_empty() {
        return vec![row("-".to_string(), 0, quota.drawn())];
    }
    let drawn = |agent: &AgentName| quota.drawn.get(agent).map_or(0, |taken| taken.amount);
    quota.shares.iter().map(|(agent, share)| row(agent.to_string(), *share, drawn(agent))).collect()
}

impl StoreCommand for Draw {
    const ACCESS: Access = Access::Write;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let agent = self.who.agent()?;
        let tools = context.coordinator.toolbox(&self.election);
        let until = boot::now() + self.wait;
        let drawn = loop {
            match tools.draw(&self.quota, &agent, self.amount).await {
                Err(Error::Refused(Refusal::Exhausted { retry_in: Some(span), .. }))
                    if boot::now() + span <= until =>
                {
                    boot::sleep(span).await.map_err(Failure::from)?;
                }
                outcome => break outcome,
            }
        };
        let drawn = drawn?;
        let data = json!({
            "outcome": "drawn", "election": self.election, "quota": self.quota, "amount": drawn.amount, "left": drawn.left,
            "window_left_ms": drawn.window_left_ms,
        });
        let text = format!(
            "{} of {} drawn; {} left for {}",
            drawn.amount,
            self.quota,
            drawn.left,
            Span::millis(drawn.window_left_ms)
        );
        Ok(Screen::new(data, text))
    }
}
