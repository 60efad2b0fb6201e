//! `baton sessions`: see who is known to be there.

use baton::Error;
use baton::api::sessions::SessionView;
use baton::election::time::Span;
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, table};

/// How many names are shown before the rest is counted.
const NAMES: usize = 4;

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton sessions --store http://127.0.0.1:7420

An agent with a session sends the server heartbeats, and each one renews all its leases. `baton release --notify-timeout` waits until the sessions that follow the election acknowledge the change. A server keeps sessions in memory only.")]
pub(crate) struct Sessions {}

impl Sessions {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let context = Context::open(global, Access::Read).await?;
        let fail = |error: Error| Failure::from_error(&error, Speaker::Guard);
        let sessions = context.coordinator.sessions().await.map_err(fail)?;
        if context.output.json {
            for session in &sessions {
                context.output.line(&json!(session).to_string())?;
            }
        } else if sessions.is_empty() {
            context.output.talk(&format!("no sessions at {}", context.coordinator.backend().location()));
        } else {
            let rows: Vec<Vec<String>> = sessions.iter().map(row).collect();
            context.output.line(&table(&["AGENT", "SINCE", "HEARD", "LEASES", "FOLLOWS"], &rows))?;
        }
        Ok(Exit::Done)
    }
}

fn row(session: &SessionView) -> Vec<String> {
    let ago = |ms: u64| match ms / 1_000 {
        0 => "under 1s ago".to_string(),
        seconds => format!("{} ago", Span::secs(seconds)),
    };
    let mut follows: Vec<String> = session.follows.iter().take(NAMES).map(ToString::to_string).collect();
    if session.follows.len() > NAMES {
        follows.push(format!("and {} more", session.follows.len() - NAMES));
    }
    vec![
        session.agent.to_string(),
        ago(session.age_ms),
        ago(session.silent_ms),
        session.leases.to_string(),
        if follows.is_empty() { "-".to_string() } else { follows.join(", ") },
    ]
}
