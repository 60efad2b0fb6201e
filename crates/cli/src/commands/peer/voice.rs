//! What `baton peer` says of itself while CMD has stdout.
//!
//! Assumes nothing of whoever reads stderr: a terminal that is held, or a pipe that nobody empties, must not keep a heartbeat or a warden
//! waiting. So a thread of its own writes. Guarantees that nothing here waits but [`Voice::finish`], which is bounded, and a bound on what
//! waits to be written. Does not guarantee that everything is read: what does not fit is left out, and how much that was is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use baton_election::ElectionName;
use baton_node::Event;
use baton_peer::{NodeId, Term};
use serde_json::json;

use crate::output::{Output, clean, say_at_once};

/// Lines that wait to be written.
const WAITING_MAX: usize = 256;
/// How long the last words may take.
const LAST_WORDS_MAX: Duration = Duration::from_secs(1);

/// Who speaks.
#[derive(Clone)]
pub(super) struct Voice {
    output: Output,
    group: ElectionName,
    id: NodeId,
    lines: SyncSender<Word>,
    /// Lines that were left out and not told of yet.
    missed: Arc<AtomicU64>,
}

enum Word {
    Line(String),
    /// Everything before it is written.
    Done(SyncSender<()>),
}

impl Voice {
    pub(super) fn new(output: Output, group: &ElectionName, id: NodeId) -> std::io::Result<Voice> {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        // It ends with the last of those who speak; at the end of the process it may still hang.
        std::thread::Builder::new().name("voice".to_string()).spawn(move || write(waiting))?;
        Ok(Voice { output, group: group.clone(), id, lines, missed: Arc::default() })
    }

    /// Waits until everything is written, or soon.
    pub(super) fn finish(&self) {
        let (done, written) = sync_channel(1);
        if self.lines.try_send(Word::Done(done)).is_ok() {
            let _ = written.recv_timeout(LAST_WORDS_MAX);
        }
    }

    /// Whether a program listens.
    pub(super) fn is_json(&self) -> bool {
        self.output.json
    }

    /// Tells how things go: to people on stderr, to programs as events on stderr too, since stdout is CMD's.
    pub(super) fn tell(&self, event: &str, term: Option<Term>, text: &str) {
        let missed = self.missed.swap(0, Ordering::Relaxed);
        if missed > 0 {
            let text = format!("{missed} lines were left out: nobody read what was written");
            self.say(missed, self.line("left-out", None, &text));
        }
        self.say(1, self.line(event, term, text));
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

    /// Leaves a line to be written that stands for so many; without room they are missed.
    fn say(&self, lines: u64, line: String) {
        match self.lines.try_send(Word::Line(line)) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
            Err(TrySendError::Full(_)) => {
                self.missed.fetch_add(lines, Ordering::Relaxed);
            }
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

/// Writes what is said, for as long as somebody speaks.
fn write(waiting: Receiver<Word>) {
    for word in waiting {
        match word {
            Word::Line(line) => say_at_once(&line),
            Word::Done(done) => {
                let _ = done.send(());
            }
        }
    }
}
