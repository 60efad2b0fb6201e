//! What `baton peer` says of itself while CMD has stdout.

use baton_election::ElectionName;
use baton_node::Event;
use baton_peer::{NodeId, Term};
use serde_json::json;

use crate::output::{Output, clean};

/// Who speaks.
#[derive(Clone)]
pub(super) struct Voice {
    output: Output,
    group: ElectionName,
    id: NodeId,
}

impl Voice {
    pub(super) fn new(output: Output, group: &ElectionName, id: NodeId) -> Voice {
        Voice { output, group: group.clone(), id }
    }

    /// Whether a program listens.
    pub(super) fn is_json(&self) -> bool {
        self.output.json
    }

    /// Tells how things go: to people on stderr, to programs as events on stderr too, since stdout is CMD's.
    pub(super) fn tell(&self, event: &str, term: Option<Term>, text: &str) {
        let text = clean(text);
        if self.output.json {
            let (group, id) = (&self.group, self.id);
            let data = json!({"event": event, "group": group, "id": id, "term": term, "message": text});
            self.output.event(&data);
        } else {
            self.output.talk(&format!("baton: {text}"));
        }
    }

    /// Tells what the member noticed.
    pub(super) fn pass_on(&self, event: &Event) {
        match event {
            Event::Follows { leader, term } => {
                self.tell("follows", Some(*term), &format!("member {leader} leads in term {term}"));
            }
            Event::Leaderless { term } => self.tell("leaderless", Some(*term), "nobody is known to lead"),
            Event::Members(group) => {
                let ids: Vec<String> = group.members().iter().map(|member| member.id.to_string()).collect();
                self.tell("members", None, &format!("the members are {}", ids.join(", ")));
            }
            Event::Unwanted(why) => self.tell("members-file", None, why),
            Event::Network(why) => self.tell("network", None, why),
        }
    }
}
