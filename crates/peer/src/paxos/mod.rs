//! Paxos leader election: a majority of acceptors grants the lease, one instance of the Synod after the other.
//!
//! Written from Lamport, *Paxos Made Simple* (2001) and *The Part-Time Parliament* (1998), with the lease of Trencseni,
//! Gazso, Reinhardt, *PaxosLease: Diskless Paxos for Leases* (2012). Each member is an acceptor; each that is no witness is a proposer as well.
//! A proposer that hears no leader asks whether it would be welcome (the query), gets a majority's promises for its ballot
//! (phase 1), and then has one instance after the other accepted (phase 2). The value of an instance is the token of the leadership whose lease it grants.
//!
//! **Assumes** that what was kept survives a crash, or that the member is started as [`Start::Forgotten`]; that clocks drift less than
//! [`Timing::margins`] says; that all members have the same [`Timing`]; that the transport does not let anybody speak in another member's name, and that
//! members do not lie.
//!
//! **Guarantees**
//! - *One leader per token*, and tokens rise: the token is the ballot under which the leadership began, and a ballot has one owner.
//!   This does not lean on clocks, except for members that have forgotten.
//! - *What is chosen in an instance stays chosen* (P2a–P2c).
//! - *Leases do not overlap*: acceptors that accepted promise nobody else anything for `timeout_min`, and the leader counts less than that from
//!   when it asked. This leans on clocks.
//! - A leader that a majority answers stays, whoever else cannot hear it: a query changes nothing, and a majority answers it with no.
//! - A leadership that ended does not revive under the same token.
//!
//! **Does not guarantee** that there is a leader: no algorithm can (§2.4). With a majority whose members can all talk to each
//! other there is one after a few timeouts. Does not guarantee anything about work that goes on after its deadline; for that there are fences.
//!
//! **Where it differs from the papers**, and why:
//! - Of all instances only the last vote is kept. A leader begins an instance only when the one before is chosen, so
//!   that earlier ones are never asked for again.
//! - Acceptors refuse a prepare request while they wait for a leader. P1 lets them ignore any; that is what makes a lease.
//! - Unlike PaxosLease, promises and votes are kept on disk, and a lease is renewed without a new prepare request. So a restart can only
//!   lose patience, which a member makes good by its silence for [`Timing::quarantine`], and tokens rise for ever.
//! - The query: without it a member that hears nobody would push the ballots up and depose a leader.
//! - A leader that is refused because of a higher promise *raises* its ballot: phase 1 again, under the same token and lease. Else the
//!   acceptors that promised to the loser of a duel could not accept anything for as long as the leadership lasts.
//! - Ballots that name nobody, that another than their owner uses, or that lie absurdly far ahead are ignored.
//! - Members change one at a time, by the shared rules in [`crate::members`].

mod acceptor;
pub mod ballot;
mod leader;
mod message;
mod orders;
mod proposer;
mod recovery;
mod saved;

use baton_election::Moment;

pub use message::Message;
pub use saved::{Saved, Vote};

use crate::memory_recovery::{Founding, MemberIncarnation, MemoryRecovery};
use crate::pending_members::AdmittedMembers;
use crate::{
    Config, Effects, Envelope, Group, Input, LossCause, Machine, NodeId, Random, RecoveryRole, Role, Start,
    Term, Timing, View,
};
use acceptor::Patience;
use leader::Leadership;
use proposer::{Asking, PreparePhase};
use recovery::Recovery;

type Out = Effects<Saved, Message>;

/// One member of a group that elects by Paxos.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Paxos {
    id: NodeId,
    timing: Timing,
    random: Random,
    saved: Saved,
    /// What is in `saved` differs from what was kept.
    unsaved: bool,
    /// The highest ballot that anybody is known to have promised.
    seen: Term,
    /// It neither promises nor stands before.
    waits_until: Moment,
    recovery: Option<Recovery>,
    patience: Option<Patience>,
    /// When it stands, if it hears nobody until then.
    stands_at: Moment,
    /// The leader, and its token.
    follows: Option<(NodeId, Term)>,
    phase: Phase,
    /// How many duels it lost one after the other.
    duels: u8,
    read_only: bool,
}

/// What a member is about, beside being an acceptor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "a member has one phase, and most of the time the largest or none"
)]
enum Phase {
    Idle,
    Asking(Asking),
    Preparing(PreparePhase),
    Proposing(Leadership),
}

impl Phase {
    /// Of the attempt that is under way.
    fn ballot(&self) -> Option<Term> {
        match self {
            Phase::Idle => None,
            Phase::Asking(asking) => Some(asking.ballot),
            Phase::Preparing(canvass) => Some(canvass.ballot),
            Phase::Proposing(lead) => Some(lead.ballot()),
        }
    }
}

impl Machine for Paxos {
    type Message = Message;
    type Saved = Saved;

    const NAME: &'static str = "paxos";
    const TERMS_ARE_TOKENS: bool = true;

    fn start(config: Config, start: Start<Saved>, now: Moment) -> Paxos {
        let Config { id, group, timing, seed } = config;
        let (founding, admitted) = (Founding::default(), AdmittedMembers::default());
        let blank = |group| Saved { promised: Term::ZERO, vote: None, group, founding, admitted };
        let waits_until = now + timing.quarantine();
        let (saved, unsaved, recovery) = match start {
            Start::Founded => (blank(group), true, None),
            Start::Restarted(mut saved) => {
                let is_newer = group.stamp() > saved.group.stamp();
                if is_newer {
                    saved.group = group;
                }
                (saved, is_newer, None)
            }
            Start::Forgotten => {
                let call = MemoryRecovery::begun(MemberIncarnation::drawn(seed, now));
                (blank(group), false, Some(Recovery { call, ask_at: waits_until, vote: None }))
            }
        };
        let mut paxos = Paxos {
            id,
            timing,
            random: Random::seeded(seed),
            seen: saved.promised,
            saved,
            unsaved,
            waits_until,
            recovery,
            patience: None,
            stands_at: waits_until,
            follows: None,
            phase: Phase::Idle,
            duels: 0,
            read_only: false,
        };
        // Those that start together shall not all stand together.
        paxos.stands_at = waits_until + paxos.patience().minus(timing.timeout_min);
        paxos
    }

    fn step(&mut self, now: Moment, input: Input<Message>) -> Out {
        let mut out = Effects::none();
        self.look_at_the_clock(now, &mut out);
        match input {
            Input::Tick => {}
            Input::Received { from, message } => self.hear(now, from, message, &mut out),
            Input::Stopped => self.stopped(now, &mut out),
            Input::Transfer { to } => self.transfer(to, &mut out),
            Input::Reconfigure { members } => self.reconfigure(now, members, &mut out),
        }
        self.do_what_is_due(now, &mut out);
        // What is kept says that the member remembers; who does not must not look so after its next start.
        if self.recovery.is_none() && core::mem::take(&mut self.unsaved) {
            out.persist = Some(self.saved.clone());
        }
        out
    }

    fn deadline(&self) -> Moment {
        if let Some(recovery) = &self.recovery {
            return recovery.ask_at.max(self.waits_until);
        }
        match &self.phase {
            Phase::Idle => self.stands_at.max(self.waits_until),
            Phase::Asking(asking) => asking.ends.min(asking.again_at),
            Phase::Preparing(canvass) => canvass.ends.min(canvass.again_at),
            Phase::Proposing(lead) => lead.ends(&self.timing).min(lead.next()),
        }
    }

    fn view(&self, now: Moment) -> View {
        let lease = match &self.phase {
            Phase::Proposing(lead) => {
                lead.until.filter(|until| now < *until).map(|until| (lead.token, until))
            }
            Phase::Idle | Phase::Asking(_) | Phase::Preparing(_) => None,
        };
        let role = match &self.phase {
            Phase::Proposing(_) if lease.is_some() => Role::Leader,
            Phase::Asking(_) | Phase::Preparing(_) | Phase::Proposing(_) => Role::Candidate,
            Phase::Idle if self.takes_part(now) => Role::Follower,
            Phase::Idle => Role::Waiting,
        };
        View {
            role,
            term: lease.map_or(self.saved.promised, |(token, _)| token),
            leader: lease.map(|_| self.id).or(self.follows.map(|(leader, _)| leader)),
            until: lease.map(|(_, until)| until),
            read_only: self.read_only,
        }
    }

    fn group(&self) -> &Group {
        &self.saved.group
    }

    fn kind(message: &Message) -> &'static str {
        message.kind()
    }

    fn memory_recovery(&self) -> Option<&MemoryRecovery> {
        self.recovery.as_ref().map(|recovery| &recovery.call)
    }

    fn recovery_role(message: &Message) -> RecoveryRole {
        match message {
            Message::Ask(_) => RecoveryRole::Asks,
            Message::Told { .. } => RecoveryRole::Answers,
            Message::Query { .. }
            | Message::Open { .. }
            | Message::Prepare { .. }
            | Message::Promise { .. }
            | Message::Accept { .. }
            | Message::Accepted { .. }
            | Message::Refused { .. }
            | Message::HandOver { .. } => RecoveryRole::Apart,
        }
    }

    fn founding(saved: &Saved) -> Option<&Founding> {
        Some(&saved.founding)
    }
}

impl Paxos {
    /// Other chance from here on. For a model checker, to which worlds that differ in nothing but chance are one.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::seeded(seed);
    }

    /// The first thing in each step, since any time may have passed since the last one: what has ended is not counted on.
    fn look_at_the_clock(&mut self, now: Moment, out: &mut Out) {
        match &self.phase {
            Phase::Idle => {}
            Phase::Asking(Asking { ends, .. }) | Phase::Preparing(PreparePhase { ends, .. }) => {
                if now >= *ends {
                    self.stand_back(now);
                }
            }
            Phase::Proposing(lead) => {
                if now >= lead.ends(&self.timing) {
                    self.end_phase(now, LossCause::NoMajority, out);
                }
            }
        }
    }

    fn hear(&mut self, now: Moment, from: NodeId, message: Message, out: &mut Out) {
        if from == self.id {
            return;
        }
        let is_member = self.saved.group.member(from).is_some();
        match message {
            // Strangers may have a newer list, need one, be about to join, or be leaving.
            Message::Query { ballot, stamp } => self.hear_query(now, from, ballot, stamp, out),
            Message::Prepare { ballot, released, stamp } => {
                self.hear_prepare(now, from, ballot, (released, stamp), out);
            }
            Message::Accept { vote, token, beat, group } => {
                self.hear_accept(now, from, vote, (token, beat, group), out);
            }
            Message::HandOver { released } => self.hear_hand_over(now, from, released, out),
            Message::Ask(ask) => self.hear_ask(now, from, &ask, out),
            Message::Open { ballot, promised } if is_member => {
                self.hear_open(now, from, ballot, promised, out);
            }
            Message::Promise { ballot, vote } if is_member => self.hear_promise(now, from, ballot, vote, out),
            Message::Accepted { ballot, instance, beat, stamp } if is_member => {
                self.hear_accepted(now, from, (ballot, instance, beat), stamp, out);
            }
            Message::Refused { ballot, promised, group } if is_member => {
                self.hear_refused(now, from, (ballot, promised), group, out);
            }
            Message::Told { answer, vote } if is_member => self.hear_told(now, from, answer, vote, out),
            Message::Open { .. }
            | Message::Promise { .. }
            | Message::Accepted { .. }
            | Message::Refused { .. }
            | Message::Told { .. } => {}
        }
    }

    fn do_what_is_due(&mut self, now: Moment, out: &mut Out) {
        if self.recovery.is_some() {
            return self.recover(now, out);
        }
        match &self.phase {
            Phase::Idle if self.takes_part(now) && now >= self.stands_at => self.lose_patience(now, out),
            Phase::Idle => {}
            Phase::Asking(_) => self.go_on_asking(now, out),
            Phase::Preparing(_) => self.go_on_preparing(now, out),
            Phase::Proposing(_) => self.go_on_leading(now, out),
        }
    }

    /// Whether it promises and stands: it remembers, and all that it may have promised before its start is over.
    fn takes_part(&self, now: Moment) -> bool {
        self.recovery.is_none() && now >= self.waits_until
    }
}

fn say(to: NodeId, message: Message, out: &mut Out) {
    out.send.push(Envelope { to, message });
}
