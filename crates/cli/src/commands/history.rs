//! `baton history`: see who led when, and why it changed.

use baton::election::document::Transition;
use baton::election::time::Span;
use baton::election::{ElectionName, Refusal};
use clap::Args;
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

const NONE: &str = "nobody has led it yet";

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton history refactor-auth --limit 5
  baton history refactor-auth --phases        where the time went

A hand-over is voluntary (release, pass), a failover, a takeover (budget, stall, validation, dependency, breaker, region) or human (depose, appoint, pause, approval). TOOK is the measured time from the end of one leadership until the next leader was serving.")]
pub(crate) struct History {
    /// The election
    election: ElectionName,
    /// How many of the newest
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// How long each of the five phases took
    #[arg(long)]
    phases: bool,
}

impl StoreCommand for History {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let transitions = context.coordinator.history(&self.election, self.limit).await?;
        let view = context.coordinator.view(&self.election).await?;
        let Some(document) = &view.document else {
            return Err(Refusal::UnknownElection { election: self.election.to_string() }.into());
        };
        let data = |transition: &Transition| {
            let mut data = serde_json::to_value(transition).unwrap_or(Value::Null);
            data["election"] = json!(self.election);
            data["kind"] = json!(transition.cause.handover());
            data["took_ms"] = json!(transition.phases.took().map(Span::as_millis));
            data
        };
        let data = transitions.iter().map(data).collect();
        if self.phases {
            let rows: Vec<Vec<String>> = transitions.iter().map(phases_row).collect();
            return Ok(Screen::table(data, &PHASES_HEAD, &rows, NONE));
        }
        let mut rows: Vec<Vec<String>> = transitions.iter().map(row).collect();
        if let Some(departure) = &document.departure {
            rows.push(vec![
                document.epoch.to_string(),
                departure.at.to_string(),
                departure.cause.handover().to_string(),
                departure.cause.to_string(),
                format!("{} → nobody yet", departure.agent),
                "-".to_string(),
                departure.reason.clone(),
            ]);
        }
        let head = ["TOKEN", "AT", "KIND", "CAUSE", "LEADER", "TOOK", "REASON"];
        Ok(Screen::table(data, &head, &rows, NONE))
    }
}

fn row(transition: &Transition) -> Vec<String> {
    vec![
        transition.epoch.to_string(),
        transition.at.to_string(),
        transition.cause.handover().to_string(),
        transition.cause.to_string(),
        who(transition),
        length(transition.phases.took()),
        transition.reason.clone(),
    ]
}

/// The head of the rows that say where the time went.
const PHASES_HEAD: [&str; 9] = [
    "TOKEN",
    "KIND",
    "LEADER",
    "DETECTION",
    "ELECTION",
    "PROMOTION",
    "SYNCHRONISATION",
    "NOTIFICATION",
    "TOOK",
];

fn phases_row(transition: &Transition) -> Vec<String> {
    let kind = transition.cause.handover().to_string();
    let mut cells = vec![transition.epoch.to_string(), kind, who(transition)];
    cells.extend(transition.phases.named().map(|(_, span)| length(span)));
    cells.push(length(transition.phases.took()));
    cells
}

fn who(transition: &Transition) -> String {
    let from = transition.from.as_ref().map_or(String::new(), |from| format!("{from} → "));
    format!("{from}{}", transition.to)
}

fn length(span: Option<Span>) -> String {
    span.map_or_else(|| "-".to_string(), |span| span.to_string())
}
