//! Everything that a run depends on. The same setup gives the same run, to the last event.

use std::fmt;
use std::str::FromStr;

use baton_election::Span;
use baton_peer::{Algorithm, Timing};

use crate::fault::PlannedFault;
use crate::invariants::Broken;
use crate::network::Network;
use crate::statistics::Statistics;

/// What elects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Elector {
    /// The members of a group, by messages.
    Group(Algorithm),
    /// The lease engine on a store that stamps.
    Lease,
    /// The lease engine on a store that is only watched.
    LeaseObserved,
}

impl Elector {
    /// A group that elects by Raft.
    pub const RAFT: Elector = Elector::Group(Algorithm::Raft);
    /// A group that elects by Paxos.
    pub const PAXOS: Elector = Elector::Group(Algorithm::Paxos);
    /// A group that elects by the Bully algorithm.
    pub const BULLY: Elector = Elector::Group(Algorithm::Bully);
    /// A group that elects on a ring.
    pub const RING: Elector = Elector::Group(Algorithm::Ring);

    /// Every algorithm of a group, then the lease engine.
    pub fn all() -> impl DoubleEndedIterator<Item = Elector> {
        Algorithm::ALL.into_iter().map(Elector::Group).chain([Elector::Lease, Elector::LeaseObserved])
    }

    /// The name that people write on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Elector::Group(algorithm) => algorithm.name(),
            Elector::Lease => "lease",
            Elector::LeaseObserved => "lease-observed",
        }
    }

    /// Whether its members ask a store instead of each other.
    pub const fn has_store(self) -> bool {
        matches!(self, Elector::Lease | Elector::LeaseObserved)
    }

    /// Whether it promises that no two lead at once. For the others two leaders are counted.
    pub const fn is_exclusive(self) -> bool {
        match self {
            Elector::Group(algorithm) => algorithm.terms_are_tokens(),
            Elector::Lease | Elector::LeaseObserved => true,
        }
    }
}

impl fmt::Display for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Elector {
    type Err = String;

    fn from_str(text: &str) -> Result<Elector, String> {
        Elector::all().find(|elector| elector.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Elector::all().map(Elector::name).collect();
            format!("`{text}` is not an algorithm of the laboratory; there are {}", names.join(", "))
        })
    }
}

/// Everything that a run depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// What elects.
    pub algorithm: Elector,
    /// Of all chance that is left: delays, losses, the machines' own dice.
    pub seed: u64,
    /// How many members there are at the beginning, witnesses included. The agents, on a store.
    pub members: u8,
    /// How many of them, the last ones, only vote.
    pub witnesses: u8,
    /// The priority of each place. A place without an entry has none.
    pub priorities: Vec<u8>,
    /// How many places there are besides, whose members may join later.
    pub spares: u8,
    /// The rhythm of a group.
    pub timing: Timing,
    /// The length of a lease, on a store.
    pub ttl: Span,
    /// How messages travel until the healing.
    pub network: Network,
    /// How they travel from the healing on.
    pub calm: Network,
    /// How much faster than true time each place's clock runs, in millionths; the last one is the store's. A
    /// place without an entry has a true clock.
    pub drift_ppm: Vec<i32>,
    /// The longest that something takes to be kept on a disk that is well.
    pub disk: Span,
    /// The longest that a step is held up between its decision and its effects, and how many of a thousand are.
    pub stumble: (Span, u16),
    /// Whether the first members know that the group is being founded. Otherwise they start like members that have forgotten.
    pub founded: bool,
    /// What goes wrong, in the order of time.
    pub plan: Vec<PlannedFault>,
    /// How long things go wrong.
    pub chaos: Span,
    /// How long after the healing there must be a leader.
    pub healing: Span,
    /// How long the run goes on once there is one.
    pub steady: Span,
    /// How often a leader writes to the guarded resource.
    pub write_every: Span,
    /// The longest that work takes to stop when it is asked to.
    pub stop_takes: Span,
    /// Whether more disks may be lost at once than a group can recover from. A leader is demanded after the healing if enough remember all the
    /// same.
    pub any_disk_may_go: bool,
    /// Whether who is not in the list, or not any more, may lose its disk. It is then told the list of that time when it starts again.
    pub outsiders_may_forget: bool,
}

impl Setup {
    /// Members that nothing befalls, on a network whose delays are short beside the rhythm.
    pub fn quiet(algorithm: Elector, members: u8, timing: Timing) -> Setup {
        let beat = timing.heartbeat;
        let calm = Network::calm(beat.scaled(1, 1_000), beat.scaled(1, 20));
        Setup {
            algorithm,
            seed: 0,
            members,
            witnesses: 0,
            priorities: Vec::new(),
            spares: 0,
            timing,
            ttl: timing.timeout_min.max(baton_election::lease::MIN_TTL).whole_millis(),
            network: calm,
            calm,
            drift_ppm: Vec::new(),
            disk: beat.scaled(1, 500),
            stumble: (Span::ZERO, 0),
            founded: true,
            plan: Vec::new(),
            chaos: timing.timeout_max.scaled(10, 1),
            healing: Setup::due(algorithm, timing),
            // Long enough for everybody to have looked again.
            steady: if algorithm.has_store() {
                Setup::due(algorithm, timing).scaled(1, 3)
            } else {
                timing.timeout_max.scaled(3, 1)
            },
            write_every: beat,
            stop_takes: beat.scaled(1, 10),
            any_disk_may_go: false,
            outsiders_may_forget: false,
        }
    }

    /// By when a leader must be there after the healing: some waits for restarted members, and some elections without a winner.
    pub fn due(algorithm: Elector, timing: Timing) -> Span {
        let round = if algorithm.has_store() {
            timing.timeout_max.max(baton_election::lease::MIN_TTL).max(Span::secs(10))
        } else {
            timing.timeout_max
        };
        round.scaled(12, 1)
    }

    /// All places that members can be at.
    pub fn places(&self) -> usize {
        usize::from(self.members) + usize::from(self.spares)
    }
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What it measured.
    pub statistics: Statistics,
    /// The first promise that was broken, if one was. The run ended there.
    pub broken: Option<Broken>,
}
