//! Ring: a message goes round, collects the living, and comes back; the one with the highest rank leads.
//!
//! G. LeLann, *Distributed Systems: Towards a Formal Approach*, 1977, and E. Chang, R. Roberts, *An Improved Algorithm for
//! Decentralized Extrema-Finding in Circular Configurations of Processes*, CACM 22(5), 1979, in the form of Tanenbaum & van
//! Steen, *Distributed Systems*, "A ring algorithm". The ring is the order of the ids. A member that does not
//! hear the leader sends an ELECTION with its id to its successor, and to the next one if that is dead.
//! Everybody adds its id and passes it on. When it is back, the highest rank of the list leads, and a
//! COORDINATOR goes round once to tell. n living members: n + n messages.
//!
//! **Assumes** that a message and its answer take less than [`heartbeat`](crate::Timing::heartbeat) together, always: a successor that
//! answers later is skipped. Assumes that all members have the same list.
//!
//! **Guarantees**, while that holds, nobody comes back, and no two lose patience within one lap: at most one leader, and that everybody learns of
//! it. Of three members with plain ranks one may also crash and come back; with priorities, or with four, two elections at once, of which one overtakes
//! the other, may name two until the next heartbeat.
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

use baton_election::Moment;

pub use message::{Lap, Message};
pub use saved::Saved;

use crate::rank_election;
use crate::{Config, Effects, Envelope, Group, Input, Machine, Member, NodeId, Notice, Start, Term, View};
use lap::Hop;

/// One member of a ring.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ring {
    /// It first listens whether somebody leads. It stands while its ELECTION is on its way, and hands over to a member that was chosen before its work stopped.
    member: rank_election::RankMember<(), NodeId>,
    /// What was passed on and not answered yet; at most [`lap::MAX_HOPS`].
    hops: Vec<Hop>,
}

type RingRole = rank_election::RankRole<(), NodeId>;

type Out = Effects<Saved, Message>;

impl Machine for Ring {
    type Message = Message;
    type Saved = Saved;

    const NAME: &'static str = "ring";
    const TERMS_ARE_TOKENS: bool = false;

    fn start(config: Config, start: Start<Saved>, now: Moment) -> Ring {
        let mut member = rank_election::RankMember::new(config, start, now);
        member.be_patient(now);
        Ring { member, hops: Vec::new() }
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
        self.hops.iter().map(|hop| hop.due).fold(self.member.due, Moment::min)
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

impl Ring {
    fn tick(&mut self, now: Moment, out: &mut Out) {
        self.skip_the_silent(now, out);
        if now < self.member.due {
            return;
        }
        match self.member.role {
            RingRole::Arriving | RingRole::Idle | RingRole::Following(_) | RingRole::Standing(()) => {
                self.stand(now, out)
            }
            RingRole::Leading { .. } => {
                let message = Message::Heartbeat { term: self.member.term };
                let beat = |to| Envelope { to, message: message.clone() };
                out.send.extend(self.member.group.others(self.member.id).map(beat));
                self.member.due = now + self.member.timing.heartbeat;
            }
        }
    }

    /// Sends an ELECTION round. A witness, or who is no member, only knows of no leader.
    fn stand(&mut self, now: Moment, out: &mut Out) {
        self.member.forget_leader(out);
        if !self.member.group.may_lead(self.member.id) {
            return self.member.idle(now);
        }
        self.member.role = RingRole::Standing(());
        // Twice round, with one dead successor after the other, takes so many answers.
        let laps = u64::try_from(2 * self.member.group.size()).unwrap_or(u64::MAX);
        self.member.due = now
            + self
                .member
                .timing
                .patience(&mut self.member.random)
                .plus(self.member.answer_within().scaled(laps, 1));
        let message = Message::Election {
            term: self.member.term,
            origin: self.member.id,
            ids: Vec::from([self.member.id]),
        };
        self.pass_on(now, message, out);
    }

    /// An ELECTION has come round: the best of its list leads in a new term, and a COORDINATOR tells so.
    fn conclude(&mut self, now: Moment, ids: &[NodeId], out: &mut Out) {
        let Some(best) = rank_election::best(ids.iter().filter_map(|&id| self.member.group.member(id)))
        else {
            return;
        };
        let leader = best.id;
        self.raise(rank_election::after(self.member.term), out);
        self.appoint(now, leader, out);
    }

    /// Names the leader of the new term.
    fn appoint(&mut self, now: Moment, leader: NodeId, out: &mut Out) {
        if leader == self.member.id {
            self.lead(now, out);
        } else {
            self.member.follow(now, leader, out);
        }
        let told = Vec::from([self.member.id]);
        self.pass_on(
            now,
            Message::Coordinator { term: self.member.term, origin: self.member.id, leader, told },
            out,
        );
    }

    fn lead(&mut self, now: Moment, out: &mut Out) {
        self.member.role = RingRole::Leading { hand_over: None };
        self.member.due = now + self.member.timing.heartbeat;
        out.notify.push(Notice::Leads { term: self.member.term, until: None });
    }

    /// Takes over a higher term: whatever was the case in the one before is over.
    fn adopt(&mut self, now: Moment, term: Term, out: &mut Out) {
        self.hops.clear();
        self.member.adopt(now, term, out);
    }

    fn raise(&mut self, term: Term, out: &mut Out) {
        self.hops.clear();
        self.member.raise(term, out);
    }

    fn reconfigure(&mut self, now: Moment, members: Vec<Member>, out: &mut Out) {
        if self.member.reconfigure(now, members, out) {
            // How many successors were tried counts places on the ring that was.
            self.hops.clear();
        }
    }
}
