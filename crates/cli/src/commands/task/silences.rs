//! Who of the workers is heard of: who has a session at the server. Where there is no server nobody is heard, which says nothing of anybody.

use std::collections::BTreeMap;

use baton::election::AgentName;
use baton::election::time::Span;
use baton::toolbox::Task;

use crate::context::Context;

/// How long ago which agent was last heard of.
pub(super) struct AgentSilences(BTreeMap<AgentName, u64>);

impl AgentSilences {
    pub(super) async fn look(context: &Context) -> AgentSilences {
        let sessions = context.coordinator.sessions().await.unwrap_or_default();
        let mut heard: BTreeMap<AgentName, u64> = BTreeMap::new();
        for session in sessions {
            let silent = heard.entry(session.agent).or_insert(session.silent_ms);
            *silent = session.silent_ms.min(*silent);
        }
        AgentSilences(heard)
    }

    /// How long the worker of a task is silent; none if it is not heard of.
    pub(super) fn silent_ms(&self, task: &Task) -> Option<u64> {
        task.worker().and_then(|agent| self.0.get(agent)).copied()
    }

    /// The agents of these tasks that are not heard of. None where nobody is: then agents do without sessions.
    pub(super) fn missing(&self, tasks: &[Task]) -> Vec<AgentName> {
        let workers = tasks.iter().filter_map(Task::worker);
        let mut missing: Vec<AgentName> =
            workers.filter(|agent| !self.0.is_empty() && !self.0.contains_key(*agent)).cloned().collect();
        missing.sort();
        missing.dedup();
        missing
    }
}

/// How long ago that was, for people.
pub(super) fn ago(silent_ms: u64) -> String {
    format!("{} ago", Span::secs(silent_ms / 1_000))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn task(agent: &str) -> Task {
        serde_json::from_value(json!({
            "election": "e", "id": "t", "title": "t", "size": 1, "state": "assigned", "fence": 1, "by": "a",
            "added": "2026-11-16T13:00:00.000Z",
            "attempts": [{"agent": agent, "epoch": 1, "assigned": "2026-11-16T13:00:00.000Z"}],
        }))
        .unwrap()
    }

    #[test]
    fn who_has_no_session_is_missed_only_where_others_have_one() {
        let tasks = ["here", "gone", "gone"].map(task);
        let heard = AgentSilences(BTreeMap::from([("here".parse().unwrap(), 1_500)]));
        assert_eq!(heard.missing(&tasks).iter().map(AgentName::as_str).collect::<Vec<_>>(), ["gone"]);
        assert_eq!((heard.silent_ms(&tasks[0]), heard.silent_ms(&tasks[1])), (Some(1_500), None));
        assert_eq!(AgentSilences(BTreeMap::new()).missing(&tasks), []);
    }
}
