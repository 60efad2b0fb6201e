//! `baton history`: see who led when, and why it changed.

use baton::election::document::Transition;
use baton::election::time::Span;
use baton::election::{ElectionName, Refusal};
use baton::store::Access;
use clap::Args;
use serde_json::{Value, json};

use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, table};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  baton history refactor-auth --limit 5")]
pub(crate) struct History {
    /// Which one
    election: ElectionName,
    /// How many of the newest
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

impl History {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Guard);
        let transitions = context.coordinator.history(&self.election, self.limit).await.map_err(fail)?;
        let view = context.coordinator.view(&self.election).await.map_err(fail)?;
        context.remember();
        let Some(document) = &view.document else {
            return Err(fail(Refusal::UnknownElection { election: self.election.to_string() }.into()));
        };
        if context.output.json {
            for transition in &transitions {
                let mut data = serde_json::to_value(transition).unwrap_or(Value::Null);
                data["election"] = json!(self.election);
                context.output.line(&data.to_string())?;
            }
            return Ok(Exit::Done);
        }
        let mut rows: Vec<Vec<String>> = transitions.iter().map(row).collect();
        if let Some(departure) = &document.departure {
            rows.push(vec![
                document.epoch.to_string(),
                departure.at.to_string(),
                departure.cause.to_string(),
                format!("{} → nobody yet", departure.agent),
                "-".to_string(),
                departure.reason.clone(),
            ]);
        }
        context.output.line(&table(&["EPOCH", "AT", "CAUSE", "LEADER", "TOOK", "REASON"], &rows))?;
        Ok(Exit::Done)
    }
}

fn row(transition: &Transition) -> Vec<String> {
    let from = transition.from.as_ref().map_or(String::new(), |from| format!("{from} → "));
    let phases = &transition.phases;
    let took = match (phases.detection, phases.election) {
        (None, None) => "-".to_string(),
        (detection, election) => detection
            .unwrap_or_default()
            .plus(election.unwrap_or_default())
            .plus(phases.promotion.unwrap_or(Span::ZERO))
            .to_string(),
    };
    vec![
        transition.epoch.to_string(),
        transition.at.to_string(),
        transition.cause.to_string(),
        format!("{from}{}", transition.to),
        took,
        transition.reason.clone(),
    ]
}
