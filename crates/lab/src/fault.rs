//! What goes wrong, and when: a plan that is made before the run and is part of its setup.

use std::fmt;

use baton_election::Span;

use crate::network::{Links, Network};

/// Whom a fault befalls. Who that is, is found out when it happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultTarget {
    /// That place, counted from zero.
    Place(u8),
    /// The leader; if nobody leads, the place with that number.
    Leader(u8),
    /// The first place from this one on that does not lead.
    Follower(u8),
}

impl FaultTarget {
    /// Which of so many places that is, if such a one leads. A place beyond them is not there: a plan that all algorithms meet may have one
    /// end more, the store.
    pub(crate) fn among(self, places: usize, leader: Option<u8>) -> Option<usize> {
        let place = match self {
            FaultTarget::Place(place) => usize::from(place),
            FaultTarget::Leader(otherwise) => usize::from(leader.unwrap_or(otherwise)),
            FaultTarget::Follower(first) if Some(first) == leader => (usize::from(first) + 1) % places,
            FaultTarget::Follower(first) => usize::from(first),
        };
        (place < places).then_some(place)
    }
}

/// What a crash does to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFate {
    /// What was kept is there after the restart.
    Kept,
    /// Nothing is left: the member restarts as one that has forgotten.
    Lost,
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// These links are the ones that are open.
    Cut(Links),
    /// One is cut off: nobody hears it, it hears nobody, or both. The other links stay as they are.
    Isolate {
        /// The place that it befalls.
        target: FaultTarget,
        /// Nobody hears it.
        outbound: bool,
        /// It hears nobody.
        inbound: bool,
    },
    /// All links are open.
    Mend,
    /// The network behaves like this.
    Network(Network),
    /// A process dies and is started again after a while. What the disk was writing is there or not.
    Crash {
        /// The place that it befalls.
        target: FaultTarget,
        /// What is left on the disk.
        disk: DiskFate,
        /// The whole machine restarts, with another boot clock. Otherwise only the process does, and work that it had started goes
        /// on, orphaned, until its lease ends.
        reboot: bool,
        /// How long it is gone.
        down: Span,
    },
    /// A process does nothing for a while, and then goes on where it was.
    Pause {
        /// The place that it befalls.
        target: FaultTarget,
        /// How long.
        span: Span,
    },
    /// A boot clock runs at another rate from here on, faster than true time by so many millionths.
    Rate {
        /// The place that it befalls.
        target: FaultTarget,
        /// Within ±ρ for every promise to hold.
        drift_ppm: i32,
    },
    /// A wall clock jumps. The boot clock does not: it cannot.
    WallJump {
        /// The place that it befalls.
        target: FaultTarget,
        /// Forwards or back.
        by_ms: i64,
    },
    /// A disk is slow for a while: each thing takes so long to be kept.
    SlowDisk {
        /// The place that it befalls.
        target: FaultTarget,
        /// How long it stays slow.
        span: Span,
        /// The longest that one thing takes.
        each: Span,
    },
    /// Somebody asks the leader to hand over. On a store the leader releases, or passes on.
    HandOver {
        /// To that place, or to whom it finds best.
        to: Option<u8>,
    },
    /// An operator or a watcher ends the leadership from outside. Only on a store.
    Depose,
    /// The store answers nobody for a while. It may have done what it was asked.
    StoreDown {
        /// How long.
        span: Span,
    },
    /// The store starts anew: every running lease gets its full length.
    StoreRestart,
    /// A spare place starts, and waits to be taken in. Only in Raft and Paxos.
    Waits {
        /// The place.
        place: u8,
    },
    /// The list of members changes by one: a spare place joins, or a member leaves. Only in Raft and Paxos.
    Members {
        /// The place that joins or leaves, whichever it can.
        place: u8,
    },
    /// A member is changed in the list of members. Only in Raft and Paxos.
    Alter {
        /// The member that changes.
        place: u8,
        /// It gets this priority; without one it becomes a witness, or ceases to be one.
        priority: Option<u8>,
    },
}

/// When something goes wrong, in true time from the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    /// The time since the beginning.
    pub at: Span,
    /// The fault that begins then.
    pub fault: Fault,
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultTarget::Place(place) => write!(f, "{}", u16::from(*place) + 1),
            FaultTarget::Leader(_) => f.write_str("the leader"),
            FaultTarget::Follower(_) => f.write_str("a follower"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Cut(links) => {
                f.write_str("links cut:")?;
                let places = links.places();
                for from in 0..places {
                    for to in (0..places).filter(|to| *to != from && !links.open(from, *to)) {
                        write!(f, " {}>{}", from + 1, to + 1)?;
                    }
                }
                Ok(())
            }
            Fault::Isolate { target, outbound, inbound } => {
                let how = match (outbound, inbound) {
                    (true, true) => "is cut off",
                    (true, false) => "is not heard",
                    (false, true) => "hears nobody",
                    (false, false) => "is cut off from nobody",
                };
                write!(f, "{target} {how}")
            }
            Fault::Mend => f.write_str("all links are mended"),
            Fault::Network(network) => write!(
                f,
                "the network: {} to {}, {}‰ up to {} late, {}‰ lost, {}‰ twice",
                network.delay_min,
                network.delay_max,
                network.late_permille,
                network.late_max,
                network.loss_permille,
                network.twice_permille
            ),
            Fault::Crash { target, disk, reboot, down } => {
                let what = if *reboot { "its machine reboots" } else { "its process dies" };
                let disk = match disk {
                    DiskFate::Kept => "",
                    DiskFate::Lost => " and its disk is lost",
                };
                write!(f, "{target} crashes: {what}{disk}, back in {down}")
            }
            Fault::Pause { target, span } => write!(f, "{target} is paused for {span}"),
            Fault::Rate { target, drift_ppm } => write!(f, "{target}'s clock runs {drift_ppm:+} ppm"),
            Fault::WallJump { target, by_ms } => write!(f, "{target}'s wall clock jumps by {by_ms:+}ms"),
            Fault::SlowDisk { target, span, each } => {
                write!(f, "{target}'s disk takes up to {each} for {span}")
            }
            Fault::HandOver { to: Some(to) } => {
                write!(f, "the leader shall hand over to {}", u16::from(*to) + 1)
            }
            Fault::HandOver { to: None } => f.write_str("the leader shall hand over"),
            Fault::Depose => f.write_str("the leader is deposed"),
            Fault::StoreDown { span } => write!(f, "the store is out of reach for {span}"),
            Fault::StoreRestart => f.write_str("the store restarts"),
            Fault::Waits { place } => write!(f, "{} starts and waits to join", u16::from(*place) + 1),
            Fault::Members { place } => write!(f, "{} joins or leaves", u16::from(*place) + 1),
            Fault::Alter { place, priority: Some(priority) } => {
                write!(f, "{} gets priority {priority}", u16::from(*place) + 1)
            }
            Fault::Alter { place, priority: None } => {
                write!(f, "{} becomes a witness or none", u16::from(*place) + 1)
            }
        }
    }
}
