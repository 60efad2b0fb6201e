//! `baton alerts`: see what is wrong with elections, as a server sees it.

use baton::api::alerts::Alert;
use baton::election::time::Span;
use clap::Args;
use serde_json::{Value, json};

use crate::context::Context;
use crate::output::Failure;
use crate::screen::{Screen, StoreCommand};

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

impl StoreCommand for Alerts {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let found = context.coordinator.alerts().await?;
        let mut data: Vec<Value> = found.alerts.iter().map(|alert| json!(alert)).collect();
        let rows: Vec<Vec<String>> = found.alerts.iter().map(row).collect();
        let none = format!("nothing is wrong at {}", context.coordinator.backend().location());
        let mut notes = Vec::new();
        if found.no_operator {
            data.push(json!({
                "alert": "no-operator", "severity": "warning", "election": null, "what": NO_OPERATOR, "hint": BECOME_ONE,
            }));
            notes = vec![format!("warning: {NO_OPERATOR}"), format!("hint: {BECOME_ONE}")];
        }
        if found.more > 0 {
            notes.push(format!("and {} more", found.more));
        }
        let head = ["ALERT", "SEVERITY", "ELECTION", "SINCE", "WHAT", "DO"];
        let screen = match (rows.is_empty(), found.no_operator) {
            (true, true) => Screen::list(data),
            _ => Screen::table(data, &head, &rows, none),
        };
        Ok(screen.notes(notes))
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
