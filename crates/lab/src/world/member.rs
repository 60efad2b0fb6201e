//! One place of a group: a machine while its process lives, its disk, its clock, what waits for it.

use std::collections::VecDeque;

use baton_election::{Moment, Span};
use baton_peer::{Effects, Group, Machine, Random, Term};

use crate::host::Host;
use crate::setup::Setup;

/// The most messages that wait for a process that stands still; what comes then is lost, as a full socket loses it.
pub(super) const MAX_WAITING: usize = 1_024;

/// A message that waits.
#[derive(Debug)]
pub(super) struct Letter<Message> {
    pub(super) from: u8,
    pub(super) sent: u64,
    /// Whether an election sent it.
    pub(super) elective: bool,
    pub(super) message: Message,
}

/// Effects that wait for the disk, or for a process that is held up.
#[derive(Debug)]
pub(super) struct Pending<M: Machine> {
    pub(super) effects: Effects<M::Saved, M::Message>,
    /// Whether the input that they answer is not a leader's heartbeat.
    pub(super) elective: bool,
    /// The disk is done; only a pause holds them up.
    pub(super) done: bool,
}

/// What a leader does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) number: u64,
    pub(super) term: Term,
    /// When it must have stopped, on the member's clock.
    pub(super) until: Option<Moment>,
}

/// Whom a member has heard since its term began.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HeardPlaces {
    pub(super) term: Term,
    pub(super) since: u64,
    /// A bit for each place.
    pub(super) places: u128,
}

/// One place.
#[derive(Debug)]
pub(super) struct Member<M: Machine> {
    /// None while its process is down.
    pub(super) machine: Option<M>,
    pub(super) saved: Option<M::Saved>,
    /// It knows that it founds the group: as long as it has kept nothing, it has surely never spoken.
    pub(super) founds: bool,
    /// Its disk was lost, and this was the list of members then.
    pub(super) lost: Option<Group>,
    pub(super) host: Host,
    pub(super) busy: Option<Pending<M>>,
    pub(super) waiting: VecDeque<Letter<M::Message>>,
    pub(super) heard: HeardPlaces,
    /// Until when its disk is slow, and how slow.
    pub(super) slow_disk: (u64, Span),
    pub(super) work: Option<Work>,
    /// The list of members that counted there when its process died last.
    pub(super) last_group: Group,
    /// The end that the machine announced last, and its term.
    pub(super) announced: Option<(Term, Moment)>,
}

impl<M: Machine> Member<M> {
    pub(super) fn new(setup: &Setup, place: usize, group: Group, random: &mut Random) -> Member<M> {
        Member {
            machine: None,
            saved: None,
            founds: setup.founded && place < usize::from(setup.members),
            lost: None,
            host: Host::new(setup, place, random),
            busy: None,
            waiting: VecDeque::new(),
            heard: HeardPlaces::default(),
            slow_disk: (0, Span::ZERO),
            work: None,
            last_group: group,
            announced: None,
        }
    }

    /// The list of members that counts there.
    pub(super) fn group(&self) -> &Group {
        self.machine.as_ref().map_or(&self.last_group, Machine::group)
    }

    /// Whether it can take a step at once.
    pub(super) fn is_free(&self) -> bool {
        self.machine.is_some() && !self.host.paused && self.busy.is_none()
    }
}
