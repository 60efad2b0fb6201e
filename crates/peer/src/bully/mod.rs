//! Bully: of those that are there, the one with the highest rank leads.
//!
//! H. Garcia-Molina, *Elections in a Distributed Computing System*, IEEE Transactions on Computers C-31(1), 1982, in the
//! form that the textbooks give it (Tanenbaum & van Steen, *Distributed Systems*, "The bully algorithm"; Coulouris et al.,
//! §15.3). A member that does not hear the leader asks all of a higher rank (ELECTION). If one answers (OK),
//! it sees to the rest. If none answers in time, the asker leads and tells all of a lower rank (COORDINATOR).
//! A member that comes back with a higher rank holds an election and takes over.
//!
//! **Assumes** that a message and its answer take less than [`heartbeat`](crate::Timing::heartbeat) together, always: a member that
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
//! - *Hand-over* (RESIGN) is ours. All others are asked, and the highest that is there takes over; the one that resigned stays aside until its
//!   successor is silent, or it restarts.
//! - *No reorganisation state*: the paper's coordinator asks all members to agree before it leads (its §III), which needs
//!   answers of all; the textbooks leave that out, and so does this.

mod hear;
mod message;
mod orders;
mod saved;

use baton_election::Moment;

pub use message::Message;
pub use saved::Saved;

use crate::rank_election;
use crate::{Config, Effects, Envelope, Group, Input, Machine, Member, NodeId, Notice, Start, View};

/// One member of a group that elects by rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bully {
    /// It holds an election at its first step, as who recovers does in the paper.
    member: rank_election::RankMember<Asks, HandOver>,
    /// It resigned: it does not stand while somebody else is heard to lead.
    aside: bool,
}

type BullyRole = rank_election::RankRole<Asks, HandOver>;

/// How a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Asks {
    /// It has asked those of a higher rank and waits for an answer.
    Unanswered,
    /// It was answered and waits for a leader to be named.
    Answered,
}

/// To whom a leader hands over: to that member, or to the highest that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct HandOver {
    to: Option<NodeId>,
}

type Out = Effects<Saved, Message>;

impl Machine for Bully {
    type Message = Message;
    type Saved = Saved;

    const NAME: &'static str = "bully";
    const TERMS_ARE_TOKENS: bool = false;

    fn start(config: Config, start: Start<Saved>, now: Moment) -> Bully {
        Bully { member: rank_election::RankMember::new(config, start, now), aside: false }
    }

    fn step(&mut self, now: Moment, input: Input<Message>) -> Out {
        let mut out = Effects::none();
        match input {
            Input::Tick => self.tick(now, &mut out),
            Input::Received { from, message } => self.hear(now, from, message, &mut out),
            Input::Stopped => self.stopped(now, &mut out),
            Input::Transfer { to } => self.transfer(to, &mut out),
            Input::Reconfigure { members } => {
                self.member.reconfigure(now, members, &mut out);
            }
        }
        out
    }

    fn deadline(&self) -> Moment {
        self.member.due
    }

    fn view(&self, _now: Moment) -> View {
        self.member.view()
    }

    fn group(&self) -> &Group {
        &self.member.group
    }

    fn kind(message: &Message) -> &'static str {
        message.kind()
    }
}

impl Bully {
    fn tick(&mut self, now: Moment, out: &mut Out) {
        if now < self.member.due {
            return;
        }
        match self.member.role {
            BullyRole::Arriving
            | BullyRole::Idle
            | BullyRole::Following(_)
            | BullyRole::Standing(Asks::Answered) => {
                self.aside = false;
                self.stand(now, out);
            }
            BullyRole::Standing(Asks::Unanswered) => self.lead(now, out),
            BullyRole::Leading { .. } => {
                let heartbeat = Message::Heartbeat { term: self.member.term };
                out.send.extend(
                    self.member.group.others(self.member.id).map(|to| Envelope { to, message: heartbeat }),
                );
                self.member.due = now + self.member.timing.heartbeat;
            }
        }
    }

    /// Asks all of a higher rank; leads if there is none. A witness, or who is no member, only knows of no leader.
    fn stand(&mut self, now: Moment, out: &mut Out) {
        self.member.forget_leader(out);
        if !self.member.group.may_lead(self.member.id) {
            return self.member.idle(now);
        }
        let election = Message::Election { term: self.member.term };
        let asked = out.send.len();
        out.send.extend(self.higher().map(|member| Envelope { to: member.id, message: election }));
        if out.send.len() == asked {
            return self.lead(now, out);
        }
        self.member.role = BullyRole::Standing(Asks::Unanswered);
        self.member.due = now + self.member.answer_within();
    }

    fn lead(&mut self, now: Moment, out: &mut Out) {
        self.member.term = rank_election::after(self.member.term);
        self.member.keep(out);
        self.member.role = BullyRole::Leading { hand_over: None };
        self.member.due = now + self.member.timing.heartbeat;
        let coordinator = Message::Coordinator { term: self.member.term };
        let told = self.member.group.others(self.member.id).filter(|&other| !self.is_outranked_by(other));
        out.send.extend(told.map(|to| Envelope { to, message: coordinator }));
        out.notify.push(Notice::Leads { term: self.member.term, until: None });
    }

    /// Those of a higher rank that may lead.
    fn higher(&self) -> impl Iterator<Item = &Member> {
        self.member.group.members().iter().filter(|member| self.is_outranked_by(member.id))
    }

    /// Whether that member shall lead rather than this one.
    fn is_outranked_by(&self, other: NodeId) -> bool {
        other != self.member.id && self.member.group.outranks(other, self.member.id)
    }
}
