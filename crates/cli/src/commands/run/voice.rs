//! What `baton run` says of itself while CMD has stdout.

use std::convert::Infallible;
use std::time::Duration;

use baton::Coordinator;
use baton::election::{AgentName, ElectionName, Epoch};
use serde_json::json;

use crate::output::{Failure, Output, clean};

/// How often a waiting candidate looks whether the store can be reached at all.
const LOOK_AT_STORE: Duration = Duration::from_secs(5);

/// Who speaks, of what.
#[derive(Clone)]
pub(super) struct Voice {
    output: Output,
    election: ElectionName,
    agent: AgentName,
}

impl Voice {
    pub(super) fn new(output: Output, election: &ElectionName, agent: &AgentName) -> Voice {
        Voice { output, election: election.clone(), agent: agent.clone() }
    }

    /// Tells how things go: to people on stderr, to programs as events on stderr too, since stdout is CMD's.
    pub(super) fn tell(&self, event: &str, token: Option<Epoch>, text: &str) -> Result<(), Failure> {
        if self.output.json {
            let (election, agent) = (&self.election, &self.agent);
            let data = json!({
                "event": event, "election": election, "agent": agent, "token": token, "message": text,
            });
            self.output.event(&data);
        } else {
            self.output.talk(&format!("baton: {}", clean(text)));
        }
        Ok(())
    }
}

/// While a candidate waits: says so if the store is out of reach, once for each reason.
pub(super) async fn trouble(coordinator: &Coordinator, voice: &Voice) -> Infallible {
    let mut told = String::new();
    loop {
        tokio::time::sleep(LOOK_AT_STORE).await;
        let seen = match coordinator.view(&voice.election).await {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        if seen != told {
            let text = if seen.is_empty() { "the store answers again" } else { &seen };
            let _ = voice.tell("store", None, &format!("still waiting: {text}"));
            told = seen;
        }
    }
}
