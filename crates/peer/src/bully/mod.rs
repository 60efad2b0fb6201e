//! Bully: of those that are there, the one with the highest rank leads.
//!
//! H. Garcia-Molina, *Elections in a Distributed Computing System*, IEEE Transactions on Computers C-31(1), 1982, in the
//! form that the textbooks give it (Tanenbaum & van Steen, *Distributed Systems*, "The bully algorithm"; Coulouris et al.,
//! §15.3). Who does not hear the leader asks all of a higher rank (ELECTION). If one answers (OK), it sees to the rest. If none
//! answers in time, the asker leads and tells all of a lower rank (COORDINATOR). Whoever comes back with a higher rank holds
//! an election and takes over.
//!
//! **Assumes** that a message and its answer take less than [`Timing::heartbeat`] together, always: a member that
//! answers later counts as dead. Assumes that all members have the same list.
//!
//! **Guarantees**, while that holds and nobody comes back: at most one leader, and that it has the highest rank of
//! those that may lead.
//!
//! **Does not guarantee** that there is one leader at a time. *A split network has a leader on each side, and a late or lost message
//! makes two as well*, since no majority is asked; a leader that was paused goes on leading when it wakes, and one that comes back leads while
//! its COORDINATOR is still on its way to the one it displaces. There is no lease: [`Notice::Leads`] has no end. **The term is not a fencing
//! token**: two leaders may have the same one.
//!
//! Where it diverges from the paper:
//! - *Terms.* A counter, raised by whoever becomes leader and kept before it is spoken of, goes with each message, and
//!   messages of older terms are refused (REFUSED tells the present one). The paper has no such number; its group numbers
//!   are unordered.
//! - *Rank* is (priority, id), not the id alone. Witnesses never stand and are not asked.
//! - *Failure detection* is by HEARTBEAT from the leader to all; the paper leaves it to timeouts of the application.
//! - *The silent leader is asked too* by whoever suspects it, one message more than in Coulouris' best case: so a late heartbeat
//!   does not make a second leader by itself. A leader that is asked says COORDINATOR again and keeps its term.
//! - *Hand-over* (RESIGN) is ours. Only the next in rank can take over, and the one that resigned stays aside until its successor
//!   is silent, or it restarts.
//! - *No reorganisation state*: the paper's coordinator asks all members to agree before it leads (its §III), which needs
//!   answers of all; the textbooks leave that out, and so does this.

mod hear;
mod message;
mod orders;
mod saved;

use baton_election::{Moment, Span};

pub use message::Message;
pub use saved::Saved;

use crate::told;
use crate::{
    Config, Effects, Envelope, Group, Input, Machine, Member, NodeId, Notice, Random, Role, Start, Term,
    Timing, View, Why,
};

/// One member of a group that elects by rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bully {
    id: NodeId,
    group: Group,
    timing: Timing,
    random: Random,
    /// The highest seen.
    term: Term,
    office: Office,
    /// It resigned: it does not stand while somebody else is heard to lead.
    aside: bool,
    /// When it acts if nothing happens before.
    due: Moment,
}

/// What a member does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Office {
    /// It has just started, and holds an election at its first step, as who recovers does in the paper.
    Arriving,
    /// It knows of no leader and does not stand.
    Idle,
    /// It heard this leader of its term not long ago.
    Following(NodeId),
    /// It has asked those of a higher rank and waits for an answer.
    Asking,
    /// It was answered and waits for a leader to be named.
    Answered,
    /// It leads.
    Leading {
        /// Its work was asked to stop, so that the next in rank can lead.
        stopping: bool,
    },
}

type Out = Effects<Saved, Message>;

impl Machine for Bully {
    type Message = Message;
    type Saved = Saved;

    const NAME: &'static str = "bully";
    const TERMS_ARE_TOKENS: bool = false;

    fn start(config: Config, start: Start<Saved>, now: Moment) -> Bully {
        let Saved { term, group } = told::at_start(&config, start);
        Bully {
            id: config.id,
            group,
            timing: config.timing,
            random: Random::seeded(config.seed),
            term,
            office: Office::Arriving,
            aside: false,
            due: now,
        }
    }

    fn step(&mut self, now: Moment, input: Input<Message>) -> Out {
        let mut out = Effects::none();
        match input {
            Input::Tick => self.tick(now, &mut out),
            Input::Received { from, message } => self.hear(now, from, message, &mut out),
            Input::Stopped => self.stopped(now, &mut out),
            Input::Transfer { to } => self.transfer(to, &mut out),
            Input::Reconfigure { members } => self.reconfigure(now, members, &mut out),
        }
        out
    }

    fn deadline(&self) -> Moment {
        self.due
    }

    fn view(&self, _now: Moment) -> View {
        let (role, leader) = match self.office {
            Office::Arriving => (Role::Waiting, None),
            Office::Idle => (Role::Follower, None),
            Office::Following(leader) => (Role::Follower, Some(leader)),
            Office::Asking | Office::Answered => (Role::Candidate, None),
            Office::Leading { .. } => (Role::Leader, Some(self.id)),
        };
        View { role, term: self.term, leader, until: None, read_only: false }
    }

    fn group(&self) -> &Group {
        &self.group
    }

    fn kind(message: &Message) -> &'static str {
        message.kind()
    }
}

impl Bully {
    fn tick(&mut self, now: Moment, out: &mut Out) {
        if now < self.due {
            return;
        }
        match self.office {
            Office::Arriving | Office::Idle | Office::Following(_) | Office::Answered => {
                self.aside = false;
                self.stand(now, out);
            }
            Office::Asking => self.lead(now, out),
            Office::Leading { .. } => {
                let heartbeat = Message::Heartbeat { term: self.term };
                out.send.extend(self.group.others(self.id).map(|to| Envelope { to, message: heartbeat }));
                self.due = now + self.timing.heartbeat;
            }
        }
    }

    /// Asks all of a higher rank; leads if there is none. A witness, or who is no member, only knows of no leader.
    fn stand(&mut self, now: Moment, out: &mut Out) {
        self.forget_leader(out);
        if !self.group.may_lead(self.id) {
            return self.idle(now);
        }
        let election = Message::Election { term: self.term };
        let asked = out.send.len();
        out.send.extend(self.higher().map(|member| Envelope { to: member.id, message: election }));
        if out.send.len() == asked {
            return self.lead(now, out);
        }
        self.office = Office::Asking;
        self.due = now + self.answer_within();
    }

    fn lead(&mut self, now: Moment, out: &mut Out) {
        self.term = told::after(self.term);
        self.keep(out);
        self.office = Office::Leading { stopping: false };
        self.due = now + self.timing.heartbeat;
        let coordinator = Message::Coordinator { term: self.term };
        let told = self.group.others(self.id).filter(|&other| !self.is_outranked_by(other));
        out.send.extend(told.map(|to| Envelope { to, message: coordinator }));
        out.notify.push(Notice::Leads { term: self.term, until: None });
    }

    fn follow(&mut self, now: Moment, leader: NodeId, out: &mut Out) {
        if self.office != Office::Following(leader) {
            self.lose(Why::Outranked(leader), out);
            self.office = Office::Following(leader);
            // That the one before is forgotten is no news beside who comes after it.
            out.notify.pop_if(|notice| matches!(notice, Notice::Leaderless { .. }));
            out.notify.push(Notice::Follows { leader, term: self.term });
        }
        self.due = now + self.timing.patience(&mut self.random);
    }

    /// Takes over a higher term: whatever was the case in the one before is over.
    fn adopt(&mut self, now: Moment, term: Term, out: &mut Out) {
        self.lose(Why::HigherTerm(term), out);
        self.term = term;
        self.keep(out);
        self.forget_leader(out);
        self.idle(now);
    }

    fn idle(&mut self, now: Moment) {
        self.office = Office::Idle;
        self.due = now + self.timing.patience(&mut self.random);
    }

    /// Ends its own leadership, if there is one.
    fn lose(&mut self, why: Why, out: &mut Out) {
        if self.is_leading() {
            self.office = Office::Idle;
            out.notify.push(Notice::Lost { term: self.term, why });
        }
    }

    fn forget_leader(&mut self, out: &mut Out) {
        if matches!(self.office, Office::Following(_)) {
            self.office = Office::Idle;
            out.notify.push(Notice::Leaderless { term: self.term });
        }
    }

    fn keep(&self, out: &mut Out) {
        out.persist = Some(Saved { term: self.term, group: self.group.clone() });
    }

    /// How long an answer may take until whoever was asked counts as dead.
    fn answer_within(&self) -> Span {
        self.timing.heartbeat
    }

    fn is_leading(&self) -> bool {
        matches!(self.office, Office::Leading { .. })
    }

    /// Those of a higher rank that may lead.
    fn higher(&self) -> impl Iterator<Item = &Member> {
        self.group.members().iter().filter(|member| self.is_outranked_by(member.id))
    }

    /// Whether that member shall lead rather than this one.
    fn is_outranked_by(&self, other: NodeId) -> bool {
        other != self.id && self.group.outranks(other, self.id)
    }
}
