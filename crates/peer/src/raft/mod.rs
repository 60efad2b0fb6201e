//! Raft's leader election (Ongaro and Ousterhout 2014; Ongaro's dissertation 2014), without a log.
//!
//! **Assumes** that clocks drift apart by no more than [`Timing::margins`] says, that what is persisted survives, and that all members have
//! the same [`Timing`]. Messages may be lost, late, doubled and out of order; a process may stop for any time.
//!
//! **Guarantees**
//! - at most one leader in a term, whatever the clocks do (with one exception, see below): the term is a fencing token;
//! - at most one valid lease at a time, while clocks drift within the margins;
//! - a leader that cannot reach a majority has stopped before a majority can elect another;
//! - a leader that can talk both ways with a majority is not deposed by members that cannot hear it (pre-vote, and voters' patience);
//! - a leadership that ended does not come back in the same term.
//!
//! **Does not guarantee** that there is a leader: it takes a majority that can talk both ways with one member that may lead. Does not order anything:
//! there is no log, and what a leader does is made safe by the token alone. Where a disk was lost, the uniqueness of terms leans on clocks,
//! see [`memory_recovery`](crate::memory_recovery).
//!
//! **Diverges** from the paper, with reasons in `docs/algorithms/raft.md`: there is no log, hence no check of logs when voting; a term is taken over only by voting, following
//! and stepping down, never from a refusal; a pre-vote asks for no particular term; the leader asks a successor whether it would win before the work stops;
//! lists of members are stamped registers ([`members`](crate::members)).

mod follow;
mod hand_over;
mod lead;
mod message;
mod recovery;
mod saved;
mod stand;
mod vote;

use baton_election::{Moment, Span};

pub use message::Message;
pub use saved::{Saved, Vote};

use crate::memory_recovery::{Founding, MemberIncarnation, MemoryRecovery};
use crate::pending_members::AdmittedMembers;
use crate::{
    Config, Effects, Envelope, Group, Input, Machine, NodeId, Notice, Random, RecoveryRole, Role, Start,
    Term, Timing, View,
};
use lead::Leadership;
use stand::{Candidacy, Poll};

/// A message that names a term so far above the receiver's is nonsense, and is dropped: terms rise by one per election.
pub const MAX_JUMP: u64 = 1 << 32;
/// Above this term nobody stands, so that terms never overflow.
pub const MAX_TERM: Term = Term(1 << 62);

/// One member of a group that elects by Raft.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Raft {
    id: NodeId,
    timing: Timing,
    random: Random,
    /// This member's share of the timeouts: which of how many, the first being the earliest. From the priorities.
    slot: (u64, u64),

    // What is kept, see `Saved`.
    term: Term,
    vote: Vote,
    group: Group,
    founding: Founding,
    admitted: AdmittedMembers,

    /// Until then it neither votes nor stands.
    quarantined_until: Moment,
    /// It has forgotten, and asks.
    forgotten: Option<Forgotten>,
    /// Whom it will not let down.
    promise: Option<Promise>,
    /// The member that was seen to lead the present term. There is only one; another that claims it is not
    /// believed.
    led_by: Option<NodeId>,
    /// Whether that one was heard within this member's patience.
    hears_leader: bool,
    /// The last of its rounds that was heard.
    round: u64,
    /// When its patience ends.
    election_at: Moment,
    read_only: bool,
    /// Counts its pre-votes.
    polls: u64,
    state: State,
}

/// What a member is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    /// It follows, or waits for somebody to follow. It may have been asked by the leader whether it could succeed.
    Follower(Option<Poll>),
    /// It asks whether it would be elected.
    PreCandidate(Poll),
    /// It stands.
    Candidate(Candidacy),
    /// It was elected; the lease may not have begun.
    Leader(Leadership),
}

/// That no other than this leader gets this member's vote before the leader's lease has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Promise {
    to: NodeId,
    term: Term,
    until: Moment,
}

/// A member that has forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Forgotten {
    call: MemoryRecovery,
    ask_at: Moment,
}

/// What a step has produced so far.
#[derive(Debug, Default)]
struct Out {
    effects: Effects<Saved, Message>,
    /// What is kept has changed.
    keep: bool,
}

impl Out {
    fn send(&mut self, to: NodeId, message: Message) {
        self.effects.send.push(Envelope { to, message });
    }

    fn notify(&mut self, notice: Notice) {
        self.effects.notify.push(notice);
    }
}

impl Machine for Raft {
    type Message = Message;
    type Saved = Saved;

    const NAME: &'static str = "raft";
    const TERMS_ARE_TOKENS: bool = true;

    fn start(config: Config, start: Start<Saved>, now: Moment) -> Raft {
        let Config { id, group, timing, seed } = config;
        let quarantined_until = now + timing.quarantine();
        let (founding, admitted) = (Founding::default(), AdmittedMembers::default());
        let blank = Saved { term: Term::ZERO, vote: Vote::Free, group, founding, admitted };
        let (saved, forgotten) = match start {
            Start::Founded => (blank, None),
            Start::Restarted(mut saved) => {
                if blank.group.stamp() > saved.group.stamp() {
                    saved.group = blank.group;
                }
                (saved, None)
            }
            Start::Forgotten => {
                let call = MemoryRecovery::begun(MemberIncarnation::drawn(seed, now));
                (blank, Some(Forgotten { call, ask_at: quarantined_until }))
            }
        };
        let slot = stand::slot(&saved.group, id);
        let mut raft = Raft {
            id,
            timing,
            random: Random::seeded(seed ^ (u64::from(id.number()) << 48)),
            slot,
            term: saved.term,
            vote: saved.vote,
            group: saved.group,
            founding: saved.founding,
            admitted: saved.admitted,
            quarantined_until,
            forgotten,
            promise: None,
            led_by: None,
            hears_leader: false,
            round: 0,
            election_at: quarantined_until,
            read_only: false,
            polls: 0,
            state: State::Follower(None),
        };
        raft.election_at = quarantined_until + raft.impatience();
        raft
    }

    fn step(&mut self, now: Moment, input: Input<Message>) -> Effects<Saved, Message> {
        let mut out = Out::default();
        // Any time may have passed since the last step: what has ended has ended, whatever the input says.
        self.lapse(now, &mut out);
        match input {
            Input::Tick => {}
            Input::Received { from, message } => self.receive(now, from, message, &mut out),
            Input::Stopped => self.stopped(now, &mut out),
            Input::Transfer { to } => self.transfer(now, to, &mut out),
            Input::Reconfigure { members } => self.reconfigure(now, members, &mut out),
        }
        self.act(now, &mut out);
        // What a member that has forgotten would keep would look like memory after a restart.
        if out.keep && self.forgotten.is_none() {
            out.effects.persist = Some(self.saved());
        }
        out.effects
    }

    fn deadline(&self) -> Moment {
        match (&self.state, &self.forgotten) {
            (State::Leader(leadership), _) => leadership.deadline(),
            (State::Follower(_) | State::PreCandidate(_) | State::Candidate(_), Some(forgotten)) => {
                forgotten.ask_at
            }
            (State::Follower(_) | State::PreCandidate(_), None) => {
                self.election_at.max(self.quarantined_until)
            }
            (State::Candidate(standing), None) => standing.until,
        }
    }

    fn view(&self, now: Moment) -> View {
        let lease = match &self.state {
            State::Leader(leadership) => leadership.lease(now),
            State::Follower(_) | State::PreCandidate(_) | State::Candidate(_) => None,
        };
        let role = match &self.state {
            _ if lease.is_some() => Role::Leader,
            _ if self.forgotten.is_some() || now < self.quarantined_until => Role::Waiting,
            State::PreCandidate(_) | State::Candidate(_) | State::Leader(_) => Role::Candidate,
            State::Follower(_) => Role::Follower,
        };
        let leader = if lease.is_some() {
            Some(self.id)
        } else {
            self.led_by.filter(|&leader| self.hears_leader && leader != self.id)
        };
        View { role, term: self.term, leader, until: lease, read_only: self.read_only && lease.is_none() }
    }

    fn group(&self) -> &Group {
        &self.group
    }

    fn kind(message: &Message) -> &'static str {
        message.kind()
    }

    fn memory_recovery(&self) -> Option<&MemoryRecovery> {
        self.forgotten.as_ref().map(|forgotten| &forgotten.call)
    }

    fn recovery_role(message: &Message) -> RecoveryRole {
        match message {
            Message::Ask(_) => RecoveryRole::Asks,
            Message::Answer(_) => RecoveryRole::Answers,
            Message::AppendEntries { .. }
            | Message::AppendAnswer { .. }
            | Message::PreVote { .. }
            | Message::PreVoteAnswer { .. }
            | Message::RequestVote { .. }
            | Message::VoteAnswer { .. }
            | Message::Offer { .. }
            | Message::Ready { .. }
            | Message::TimeoutNow { .. } => RecoveryRole::Apart,
        }
    }

    fn founding(saved: &Saved) -> Option<&Founding> {
        Some(&saved.founding)
    }
}

impl Raft {
    /// Ends what its time has passed for.
    fn lapse(&mut self, now: Moment, out: &mut Out) {
        match &self.state {
            State::Leader(leadership) if now >= leadership.until => {
                self.lose(now, crate::LossCause::NoMajority, out);
            }
            // Nobody counts votes for longer than the longest timeout; memory recovery leans on it.
            State::Candidate(standing) if now >= standing.until => self.state = State::Follower(None),
            State::Leader(_) | State::Candidate(_) | State::PreCandidate(_) | State::Follower(_) => {}
        }
    }

    fn receive(&mut self, now: Moment, from: NodeId, message: Message, out: &mut Out) {
        let highest = self.term.0.saturating_add(MAX_JUMP).min(MAX_TERM.0);
        if from == self.id || message.highest_term().0 > highest {
            return;
        }
        match (&self.forgotten, message) {
            (_, Message::Ask(ask)) => self.answer(now, from, &ask, out),
            (Some(_), Message::Answer(answer)) => self.hear_answer(now, from, answer, out),
            (None, Message::AppendEntries { term, round, stamp, group }) => {
                self.append(now, from, follow::Heartbeat { term, round, stamp }, group, out);
            }
            (None, Message::AppendAnswer { term, round, stamp, followed }) => {
                let answer = lead::Answer { term, round, stamp, followed };
                self.append_answer(now, from, answer, out);
            }
            (None, Message::PreVote { poll, stamp, offered }) => {
                self.pre_vote(now, from, vote::PreVoteRequest { poll, stamp, offered }, out);
            }
            (None, Message::PreVoteAnswer { term, poll, granted, group }) => {
                self.pre_vote_answer(now, from, stand::PreVoteAnswer { term, poll, granted }, group, out);
            }
            (None, Message::RequestVote { term, stamp, released }) => {
                self.request_vote(now, from, vote::VoteRequest { term, stamp, released }, out);
            }
            (None, Message::VoteAnswer { term, granted, group }) => {
                self.vote_answer(now, from, term, granted, group, out);
            }
            (None, Message::Offer { term }) => self.offered(now, from, term, out),
            (None, Message::Ready { term }) => self.ready(from, term, out),
            (None, Message::TimeoutNow { term }) => self.timeout_now(now, from, term, out),
            (None, Message::Answer(answer)) => self.be_put_right(from, answer, out),
            // A member that has forgotten must neither vote nor follow: it might have voted in a later term
            // already.
            (
                Some(_),
                Message::AppendEntries { .. }
                | Message::AppendAnswer { .. }
                | Message::PreVote { .. }
                | Message::PreVoteAnswer { .. }
                | Message::RequestVote { .. }
                | Message::VoteAnswer { .. }
                | Message::Offer { .. }
                | Message::Ready { .. }
                | Message::TimeoutNow { .. },
            ) => {}
        }
    }

    /// Does what is due.
    fn act(&mut self, now: Moment, out: &mut Out) {
        if self.forgotten.is_some() {
            self.recover(now, out);
            return;
        }
        match &self.state {
            State::Leader(_) => self.lead(now, out),
            State::Candidate(_) => {}
            State::Follower(_) | State::PreCandidate(_) => self.lose_patience(now, out),
        }
    }

    fn saved(&self) -> Saved {
        let (founding, admitted) = (self.founding.clone(), self.admitted.clone());
        Saved { term: self.term, vote: self.vote, group: self.group.clone(), founding, admitted }
    }

    /// Goes to a higher term, as a follower of nobody.
    fn enter(&mut self, term: Term, vote: Vote, out: &mut Out) {
        self.term = term;
        self.vote = vote;
        self.led_by = None;
        self.round = 0;
        self.state = State::Follower(None);
        out.keep = true;
    }

    /// Takes a newer list over. Whatever was counted was counted for the older one.
    fn adopt(&mut self, group: Group, out: &mut Out) {
        let is_other = group.members() != self.group.members();
        self.group = group;
        out.keep = true;
        if is_other {
            self.slot = stand::slot(&self.group, self.id);
            out.notify(Notice::Members(self.group.clone()));
        }
    }

    /// Nobody is known to lead.
    fn miss_leader(&mut self, out: &mut Out) {
        if self.hears_leader {
            self.hears_leader = false;
            out.notify(Notice::Leaderless { term: self.term });
        }
    }

    /// How long it waits for answers before it tries again: shorter than its patience, since nobody is known to lead.
    fn retry(&mut self) -> Span {
        self.timing.timeout_min.scaled(1, 2).plus(self.impatience())
    }

    /// How long it bears silence this time: the higher its priority, the shorter.
    fn patience(&mut self) -> Span {
        self.timing.timeout_min.plus(self.impatience())
    }

    /// The random part of that.
    fn impatience(&mut self) -> Span {
        let (which, of) = self.slot;
        let share = self.timing.timeout_max.minus(self.timing.timeout_min).as_nanos() / of;
        // Where there is no choice no dice are rolled, so that members that differ in nothing else are alike.
        let drawn = if share > 0 { self.random.between(0, share) } else { 0 };
        Span::nanos(share * which + drawn)
    }
}
