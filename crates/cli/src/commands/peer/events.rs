//! What `baton peer` says of itself while CMD has stdout. Nothing here waits but [`EventPrinter::finish`], which is bounded.

use baton_election::ElectionName;
use baton_node::Event;
use baton_peer::{NodeId, Term};
use serde_json::json;

use crate::line_writer::LineWriter;
use crate::output::{Output, clean};

/// Prints what happens to this member.
#[derive(Clone)]
pub(super) struct EventPrinter {
    output: Output,
    group: ElectionName,
    id: NodeId,
    writer: LineWriter,
}

impl EventPrinter {
    pub(super) fn new(output: Output, group: &ElectionName, id: NodeId) -> std::io::Result<EventPrinter> {
        Ok(EventPrinter { output, group: group.clone(), id, writer: LineWriter::start()? })
    }

    /// Waits until everything is written, or soon.
    pub(super) fn finish(&self) {
        self.writer.finish();
    }

    /// Whether a program listens.
    pub(super) fn is_json(&self) -> bool {
        self.output.json
    }

    /// Tells how things go: to people on stderr, to programs as events on stderr too, since stdout is CMD's.
    pub(super) fn tell(&self, event: &str, term: Option<Term>, text: &str) {
        self.writer.write(self.line(event, term, text), |left_out| self.line("left-out", None, left_out));
    }

    fn line(&self, event: &str, term: Option<Term>, text: &str) -> String {
        let text = clean(text);
        if self.output.json {
            let (group, id) = (&self.group, self.id);
            let data = json!({"event": event, "group": group, "id": id, "term": term, "message": text});
            format!("{data}\n")
        } else {
            format!("baton: {text}\n")
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
                let ids = listed(group.members().iter().map(|member| &member.id));
                self.tell("members", None, &format!("the members are {ids}"));
            }
            Event::Unwanted(why) => self.tell("members-file", None, why),
            Event::Usable => {
                self.tell("members-file", None, "the file of members can be used again, and counts")
            }
            Event::OtherList { counts, given } => {
                let (counts, given) = (listed(counts.iter()), listed(given.iter()));
                let text = format!(
                    "the members are {counts}, as this one remembers; those that it was started with ({given}) count at the first start only: see `baton peer members`"
                );
                self.tell("other-list", None, &text);
            }
            Event::Stuck(why) => self.tell("stuck", None, &format!("no leader is known: {why}")),
            Event::NotHandedOver { to, why } => {
                let to = to.map_or_else(String::new, |to| format!(" to member {to}"));
                self.tell("not-handed-over", None, &format!("the hand-over{to} came to nothing: {why}"));
            }
            Event::Network(why) => self.tell("network", None, why),
        }
    }
}

fn listed<'a>(ids: impl Iterator<Item = &'a NodeId>) -> String {
    ids.map(ToString::to_string).collect::<Vec<String>>().join(", ")
}
