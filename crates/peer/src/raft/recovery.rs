//! A member that has forgotten, and those that it asks.

use baton_election::Moment;

use super::{Message, Out, Raft, State, Vote};
use crate::memory_recovery::{self, Answer, Ask, Founding, Verdict};
use crate::{NodeId, Term};

impl Raft {
    /// Anybody is answered: an asker that is no member finds out from the list.
    pub(super) fn answer(&mut self, now: Moment, from: NodeId, ask: &Ask, out: &mut Out) {
        if let State::Leader(leadership) = &mut self.state {
            leadership.pending_members.note(now, &self.group, from, ask);
        }
        let answer = match &self.forgotten {
            Some(forgotten) => forgotten.call.tell(ask, &self.group),
            None => {
                memory_recovery::tell(from, ask, self.term, &self.group, (&self.founding, &self.admitted))
            }
        };
        out.send(from, Message::Answer(answer));
    }

    /// Asks, when it is time.
    pub(super) fn recover(&mut self, now: Moment, out: &mut Out) {
        let Some(forgotten) = &mut self.forgotten else { return };
        if now < forgotten.ask_at {
            return;
        }
        if let Some(founding) = forgotten.call.alone(self.id, &self.group) {
            self.found(now, founding, out);
            return;
        }
        forgotten.ask_at = now + self.timing.heartbeat;
        let ask = forgotten.call.ask(self.group.stamp());
        for other in self.group.others(self.id) {
            out.send(other, Message::Ask(ask));
        }
    }

    pub(super) fn hear_answer(&mut self, now: Moment, from: NodeId, mut answer: Answer, out: &mut Out) {
        if let Some(group) = answer.group.take_if(|group| group.stamp() > self.group.stamp()) {
            self.adopt(group, out);
        }
        let Some(forgotten) = &mut self.forgotten else { return };
        if let Some(list) = forgotten.call.put_right(&answer, &self.group) {
            out.send(from, Message::Answer(list));
        }
        match forgotten.call.hear(self.id, &self.group, from, &answer) {
            Verdict::Unknown => {}
            Verdict::AskAgain => forgotten.ask_at = now,
            Verdict::Above(term) => self.remember(now, term, out),
            Verdict::Founded(founding) => self.found(now, founding, out),
        }
    }

    /// Somebody that calls the roll has a newer list. A leader has the newest, or is about to hear that it does not lead.
    pub(super) fn be_put_right(&mut self, from: NodeId, answer: Answer, out: &mut Out) {
        let is_free = matches!(self.state, State::Follower(_)) && self.group.member(from).is_some();
        if let Some(group) = answer.group.filter(|group| is_free && group.stamp() > self.group.stamp()) {
            self.adopt(group, out);
        }
    }

    fn remember(&mut self, now: Moment, term: Term, out: &mut Out) {
        self.forgotten = None;
        self.enter(term, Vote::Barred, out);
        self.election_at = now + self.patience();
    }

    fn found(&mut self, now: Moment, founding: Founding, out: &mut Out) {
        self.forgotten = None;
        self.founding = founding;
        self.election_at = now + self.impatience();
        out.keep = true;
    }
}
