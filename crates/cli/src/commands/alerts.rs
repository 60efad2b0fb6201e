//! `baton alerts`: see what is wrong with elections, as a server sees it.

use baton::Error;
use baton::api::alerts::Alert;
use baton::election::time::Span;
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, table};

/// What is wrong with a server without an operator.
const NO_OPERATOR: &str =
    "nobody is the operator of this server's store: nobody can appoint, depose, pause or approve";
/// How somebody becomes one.
const BECOME_ONE: &str = "baton init --code CODE, with the code that the server printed at its start";

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton alerts --store http://127.0.0.1:7420

Exits 0 whether there are alerts or not. A server looks once a second for elections without a leader, changes of leader that are too \
many or too slow, two members that both claim to lead, too many candidates, followers that do not answer, and many refused requests; see `baton serve --help` \
for the thresholds. Webhooks get a message when an alert begins and when it ends.")]
pub(crate) struct Alerts {}

impl Alerts {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let fail = |error: Error| Failure::from_error(&error, Speaker::Guard);
        let told = context.coordinator.alerts().await.map_err(fail)?;
        let output = &context.output;
        if output.json {
            for alert in &told.alerts {
                output.line(&json!(alert).to_string())?;
            }
            if told.no_operator {
                let alert = json!({
                    "alert": "no-operator", "severity": "warning", "election": null, "what": NO_OPERATOR, "hint": BECOME_ONE,
                });
                output.line(&alert.to_string())?;
            }
            return Ok(Exit::Done);
        }
        if told.no_operator {
            output.talk(&format!("warning: {NO_OPERATOR}"));
            output.talk(&format!("hint: {BECOME_ONE}"));
        }
        if told.alerts.is_empty() && told.no_operator {
            return Ok(Exit::Done);
        }
        if told.alerts.is_empty() {
            output.talk(&format!("nothing is wrong at {}", context.coordinator.backend().location()));
            return Ok(Exit::Done);
        }
        let rows: Vec<Vec<String>> = told.alerts.iter().map(row).collect();
        output.line(&table(&["ALERT", "SEVERITY", "ELECTION", "SINCE", "WHAT", "DO"], &rows))?;
        if told.more > 0 {
            output.talk(&format!("and {} more", told.more));
        }
        Ok(Exit::Done)
    }
}

fn row(alert: &Alert) -> Vec<String> {
    vec![
        alert.alert.to_string(),
        alert.severity.to_string(),
        alert.election.as_ref().map(ToString::to_string).unwrap_or_else(|| "-".to_string()),
        format!("{} ago", Span::secs(alert.age_ms / 1_000)),
        alert.what.clone(),
        format!("{}; {}", alert.hint, alert.runbook),
    ]
}
