//! Ring: a message goes round, collects the living, and comes back; the one with the highest rank leads.
//!
//! G. LeLann, *Distributed Systems: Towards a Formal Approach*, 1977, and E. Chang, R. Roberts, *An Improved Algorithm for
//! Decentralized Extrema-Finding in Circular Configurations of Processes*, CACM 22(5), 1979, in the form of Tanenbaum & van
//! Steen, *Distributed Systems*, "A ring algorithm". The ring is the order of the ids. Who does not hear the leader sends an ELECTION with its id
//! to its successor, and to the next one if that is dead. Everybody adds its id and passes it on. When it is back, the
//! highest rank of the list leads, and a COORDINATOR goes round once to tell. n living members: n + n messages.
//!
//! **Assumes** that a message and its answer take less than [`Timing::heartbeat`] together, always: a successor that
//! answers later is skipped. Assumes that all members have the same list.
//!
//! **Guarantees**, while that holds: at most one leader, also when one crashes and comes back, and that everybody learns of it.
//!
//! **Does not guarantee** that there is one leader at a time. *A split network has a leader on each side, and a late or lost message
//! makes two as well*, since no majority is asked; a leader that was paused goes on leading when it wakes. There is no
//! lease: [`Notice::Leads`] has no end. **The term is not a fencing token**: two leaders may have the same one. Nor that the leader is
//! the highest: whoever comes back follows whom it hears, and a skipped member is not counted.
//!
//! Where it diverges from the textbook:
//! - *Terms.* A counter, raised when an ELECTION has come round and kept before it is spoken of, goes with each message, and
//!   messages of older terms go no further (the ACK tells the present one).
//! - *A dead successor* is one that does not answer with an ACK in time: one ACK for each ELECTION and COORDINATOR, so that 4n messages are
//!   sent where the textbook counts 2n. It assumes that the sender just knows.
//! - *Failure detection* is by heartbeats of the leader straight to all members, n − 1 in each interval; a heartbeat that goes
//!   round would take n hops to be missed.
//! - *Of two elections at once* only that of the higher origin goes on, as with Chang and Roberts; Tanenbaum lets both go round.
//! - *Whoever finds itself in the list* ends the round, not only the origin: a message whose origin has died would go round for ever.
//! - *The leader stops* an ELECTION that comes to it, with a heartbeat to its origin, and keeps its term.
//! - *Rank* is (priority, id). Witnesses pass messages on; they neither lead nor begin an election.
//! - *Hand-over* is a COORDINATOR round that names the successor.

mod hear;
mod lap;
mod message;
mod orders;
mod saved;

use alloc::vec::Vec;

use baton_election::{Moment, Span};

pub use message::{Lap, Message};
pub use saved::Saved;

use crate::told;
use crate::{
    Config, Effects, Envelope, Group, Input, Machine, NodeId, Notice, Random, Role, Start, Term, Timing,
    View, Why,
};
use lap::Hop;

/// One member of a ring.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ring {
    id: NodeId,
    group: Group,
    timing: Timing,
    random: Random,
    /// The highest seen.
    term: Term,
    office: Office,
    /// When it acts if nothing happens before, apart from `hops`.
    due: Moment,
    /// What was passed on and not answered yet; at most [`lap::MAX_HOPS`].
    hops: Vec<Hop>,
}

/// What a member does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Office {
    /// It has just started and listens whether somebody leads.
    Arriving,
    /// It knows of no leader and has no election on its way.
    Idle,
    /// It heard of this leader of its term not long ago.
    Following(NodeId),
    /// Its ELECTION is on its way.
    Standing,
    /// It leads.
    Leading {
        /// Its work was asked to stop, so that this one can lead.
        successor: Option<NodeId>,
    },
}

type Out = Effects<Saved, Message>;

impl Machine for Ring {
    type Message = Message;
    type Saved = Saved;

    const NAME: &'static str = "ring";
    const TERMS_ARE_TOKENS: bool = false;

    fn start(config: Config, start: Start<Saved>, now: Moment) -> Ring {
        let Saved { term, group } = told::at_start(&config, start);
        let mut random = Random::seeded(config.seed);
        let due = now + config.timing.patience(&mut random);
        Ring {
            id: config.id,
            group,
            timing: config.timing,
            random,
            term,
            office: Office::Arriving,
            due,
            hops: Vec::new(),
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
        self.hops.iter().map(|hop| hop.due).fold(self.due, Moment::min)
    }

    fn view(&self, _now: Moment) -> View {
        let (role, leader) = match self.office {
            Office::Arriving => (Role::Waiting, None),
            Office::Idle => (Role::Follower, None),
            Office::Following(leader) => (Role::Follower, Some(leader)),
            Office::Standing => (Role::Candidate, None),
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

impl Ring {
    fn tick(&mut self, now: Moment, out: &mut Out) {
        self.skip_the_silent(now, out);
        if now < self.due {
            return;
        }
        match self.office {
            Office::Arriving | Office::Idle | Office::Following(_) | Office::Standing => self.stand(now, out),
            Office::Leading { .. } => {
                let message = Message::Heartbeat { term: self.term };
                let beat = |to| Envelope { to, message: message.clone() };
                out.send.extend(self.group.others(self.id).map(beat));
                self.due = now + self.timing.heartbeat;
            }
        }
    }

    /// Sends an ELECTION round. A witness, or who is no member, only knows of no leader.
    fn stand(&mut self, now: Moment, out: &mut Out) {
        self.forget_leader(out);
        if !self.group.may_lead(self.id) {
            return self.idle(now);
        }
        self.office = Office::Standing;
        // Twice round, with one dead successor after the other, takes so many answers.
        let laps = u64::try_from(2 * self.group.size()).unwrap_or(u64::MAX);
        self.due = now + self.timing.patience(&mut self.random).plus(self.answer_within().scaled(laps, 1));
        let message = Message::Election { term: self.term, origin: self.id, ids: Vec::from([self.id]) };
        self.pass_on(now, message, out);
    }

    /// An ELECTION has come round: the best of its list leads in a new term, and a COORDINATOR tells so.
    fn conclude(&mut self, now: Moment, ids: &[NodeId], out: &mut Out) {
        let Some(best) = told::best(ids.iter().filter_map(|&id| self.group.member(id))) else {
            return;
        };
        let leader = best.id;
        self.raise(told::after(self.term), out);
        self.appoint(now, leader, out);
    }

    /// Names the leader of the new term.
    fn appoint(&mut self, now: Moment, leader: NodeId, out: &mut Out) {
        if leader == self.id {
            self.lead(now, out);
        } else {
            self.follow(now, leader, out);
        }
        let told = Vec::from([self.id]);
        self.pass_on(now, Message::Coordinator { term: self.term, origin: self.id, leader, told }, out);
    }

    fn lead(&mut self, now: Moment, out: &mut Out) {
        self.office = Office::Leading { successor: None };
        self.due = now + self.timing.heartbeat;
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
        self.raise(term, out);
        self.forget_leader(out);
        self.idle(now);
    }

    fn raise(&mut self, term: Term, out: &mut Out) {
        self.lose(Why::HigherTerm(term), out);
        self.term = term;
        self.hops.clear();
        self.keep(out);
    }

    fn idle(&mut self, now: Moment) {
        self.office = Office::Idle;
        self.due = now + self.timing.patience(&mut self.random);
    }

    /// Ends its own leadership, if there is one.
    fn lose(&mut self, why: Why, out: &mut Out) {
        if matches!(self.office, Office::Leading { .. }) {
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

    /// How long an answer may take until whoever was sent something counts as dead.
    fn answer_within(&self) -> Span {
        self.timing.heartbeat
    }
}
