//! What is counted of single elections, of a bounded number of them.
//!
//! Of so many elections each has series of its own; all others are summed under one name, which no election can have. Nothing is counted
//! of single agents. Elections that were quiet for an hour make room for others; what was counted of them goes to the sum.

use std::collections::HashMap;

use baton_election::ElectionName;
use baton_election::document::{Cause, Transition};
use baton_election::handover::Handover;
use baton_election::time::{Moment, Span};

use super::recent::Recent;
use crate::alerts::Thresholds;

/// The most elections that have series of their own.
pub(crate) const SHOWN: usize = 1_000;
/// The most elections of which anything is remembered, for alerts.
pub(crate) const REMEMBERED: usize = 10_000;
/// The name under which all others are summed.
pub(crate) const OTHERS: &str = "(others)";
/// An election that was quiet for so long makes room for others. The last change of leader is told of for the
/// same time.
pub(crate) const QUIET: Span = Span::secs(3_600);
/// An agent that was barred asks again sooner than this, as long as it wants to lead.
const BARRED: Span = Span::secs(60);

/// What is remembered of one election.
pub(crate) struct Note {
    pub(super) shown: bool,
    /// When anything was last noted.
    pub(crate) touched: Moment,
    pub(super) counts: Counts,
    /// Changes of leader in the window of flapping, and unplanned ones in that of elections.
    pub(crate) changes: Recent,
    pub(crate) elections: Recent,
    pub(crate) refused: Recent,
    /// Those of them whom the rules bar: they stand in no line.
    pub(crate) barred: Recent,
    /// How long the last change of leader took so far, and when it was.
    pub(crate) took: Option<(Moment, Span)>,
}

/// What kind of change of leader it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// A new epoch of the same leader, after an approval: no election.
    Approval,
    /// A person ordered it, or the former leader's work was done: no sign of trouble.
    Planned,
    /// Neither.
    Unplanned,
}

impl Change {
    pub(super) fn of(transition: &Transition) -> Change {
        let same = transition.from.as_ref() == Some(&transition.to);
        match (transition.cause.handover(), transition.cause) {
            (_, Cause::Approval) if same => Change::Approval,
            (Handover::Human, _) | (_, Cause::Finished) => Change::Planned,
            (_, _) => Change::Unplanned,
        }
    }
}

/// What only rises.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) transitions: u64,
    /// Those of them that nobody planned.
    pub(super) unplanned: u64,
    pub(super) refused: u64,
    pub(super) leaderless: Span,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.transitions += other.transitions;
        self.unplanned += other.unplanned;
        self.refused += other.refused;
        self.leaderless = self.leaderless.plus(other.leaderless);
    }
}

/// All elections of which something is remembered.
pub(crate) struct Notes {
    by_name: HashMap<ElectionName, Note>,
    shown: usize,
    /// What was counted of those that made room, and of those that found none.
    rest: Counts,
    windows: Windows,
    /// When those that were quiet were last looked for.
    looked: Moment,
}

/// Over what time is counted.
struct Windows {
    changes: Span,
    elections: Span,
    refused: Span,
}

impl Notes {
    pub(super) fn new(limits: &Thresholds) -> Notes {
        let window = |rate: Option<crate::alerts::Rate>| rate.map_or(QUIET, |rate| rate.window);
        Notes {
            by_name: HashMap::new(),
            shown: 0,
            rest: Counts::default(),
            windows: Windows {
                changes: window(limits.flapping),
                elections: window(limits.elections),
                refused: window(limits.contention),
            },
            looked: Moment::default(),
        }
    }

    /// From here on counted over other windows.
    pub(super) fn judge_by(&mut self, limits: &Thresholds) {
        let Notes { windows, .. } = Notes::new(limits);
        self.windows = windows;
    }

    /// What is remembered of an election, to be changed. None if there is no room.
    fn of(&mut self, election: &ElectionName, now: Moment) -> Option<&mut Note> {
        if !self.by_name.contains_key(election) {
            if self.by_name.len() >= REMEMBERED {
                self.make_room(now);
            }
            if self.by_name.len() >= REMEMBERED {
                return None;
            }
            let shown = self.shown < SHOWN;
            self.shown += usize::from(shown);
            let Windows { changes, elections, refused } = &self.windows;
            let note = Note {
                shown,
                touched: now,
                counts: Counts::default(),
                changes: Recent::over(*changes),
                elections: Recent::over(*elections),
                refused: Recent::over(*refused),
                barred: Recent::over(BARRED),
                took: None,
            };
            self.by_name.insert(election.clone(), note);
        }
        let note = self.by_name.get_mut(election)?;
        note.touched = now;
        Some(note)
    }

    /// Forgets who was quiet. Not more often than every second, since it looks at all.
    fn make_room(&mut self, now: Moment) {
        if now.since(self.looked) < Span::secs(1) {
            return;
        }
        self.looked = now;
        let (rest, shown) = (&mut self.rest, &mut self.shown);
        self.by_name.retain(|_, note| {
            let stays = now.since(note.touched) < QUIET;
            if !stays {
                rest.add(note.counts);
                *shown -= usize::from(note.shown);
            }
            stays
        });
    }

    /// The leader changed.
    pub(super) fn transition(&mut self, election: &ElectionName, now: Moment, took: Span, change: Change) {
        let unplanned = u32::from(change == Change::Unplanned);
        let counts = Counts { transitions: 1, unplanned: unplanned.into(), ..Counts::default() };
        let Some(note) = self.of(election, now) else { return self.rest.add(counts) };
        note.counts.add(counts);
        if change != Change::Approval {
            note.changes.add(now, 1);
            note.elections.add(now, unplanned);
            note.took = Some((now, took));
        }
    }

    /// The last change of leader took so long by now: another phase of it has ended.
    pub(super) fn took(&mut self, election: &ElectionName, so_far: Span) {
        if let Some(note) = self.by_name.get_mut(election)
            && let Some((_, took)) = &mut note.took
        {
            *took = so_far;
        }
    }

    /// A candidate was refused, perhaps since the rules bar it.
    pub(super) fn refused(&mut self, election: &ElectionName, now: Moment, barred: bool) {
        match self.of(election, now) {
            Some(note) => {
                note.counts.refused += 1;
                note.refused.add(now, 1);
                note.barred.add(now, u32::from(barred));
            }
            None => self.rest.refused += 1,
        }
    }

    /// Nobody led it for so much longer, and somebody waited.
    pub(super) fn leaderless(&mut self, election: &ElectionName, now: Moment, more: Span) {
        match self.of(election, now) {
            Some(note) => note.counts.leaderless = note.counts.leaderless.plus(more),
            None => self.rest.leaderless = self.rest.leaderless.plus(more),
        }
    }

    /// An operator retired it: it has no series of its own.
    pub(crate) fn forget(&mut self, election: &ElectionName) {
        if let Some(note) = self.by_name.remove(election) {
            self.rest.add(note.counts);
            self.shown -= usize::from(note.shown);
        }
    }

    /// Everything that is remembered.
    pub(crate) fn all(&mut self) -> impl Iterator<Item = (&ElectionName, &mut Note)> {
        self.by_name.iter_mut()
    }

    /// Whether an election has series of its own.
    pub(super) fn is_shown(&self, election: &ElectionName) -> bool {
        self.by_name.get(election).is_some_and(|note| note.shown)
    }

    /// The counts of those that have series of their own, by name, and of all others.
    pub(super) fn counts(&self) -> (Vec<(&ElectionName, Counts)>, Counts) {
        let mut shown = Vec::new();
        let mut rest = self.rest;
        for (election, note) in &self.by_name {
            match note.shown {
                true => shown.push((election, note.counts)),
                false => rest.add(note.counts),
            }
        }
        shown.sort_unstable_by_key(|(election, _)| election.as_str());
        (shown, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> ElectionName {
        ElectionName::new(&format!("e-{number}")).unwrap()
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn so_many_are_shown_and_nothing_is_lost_of_the_others() {
        let mut notes = Notes::new(&Thresholds::default());
        let many = REMEMBERED + 500;
        for number in 0..many {
            notes.transition(&name(number), at(10_000), Span::ZERO, Change::Unplanned);
            notes.refused(&name(number), at(10_000), false);
        }
        let (shown, rest) = notes.counts();
        assert_eq!(shown.len(), SHOWN);
        assert!(shown.iter().all(|(_, counts)| counts.transitions == 1 && counts.refused == 1));
        assert_eq!(rest.transitions, (many - SHOWN) as u64);
        assert_eq!(rest.refused, (many - SHOWN) as u64);
    }

    #[test]
    fn who_was_quiet_makes_room_and_is_counted_all_the_same() {
        let mut notes = Notes::new(&Thresholds::default());
        for number in 0..REMEMBERED {
            notes.transition(&name(number), at(10_000), Span::ZERO, Change::Unplanned);
        }
        notes.transition(&name(7), at(14_000), Span::secs(1), Change::Unplanned);
        notes.transition(&name(REMEMBERED), at(14_001), Span::ZERO, Change::Unplanned);
        assert_eq!(notes.by_name.len(), 2, "only who was not quiet is left, and the new one");
        let (shown, rest) = notes.counts();
        assert_eq!(shown.len(), 2);
        assert_eq!(shown.iter().map(|(_, counts)| counts.transitions).sum::<u64>(), 3);
        assert_eq!(rest.transitions, REMEMBERED as u64 - 1);
        assert!(!notes.is_shown(&name(8)) && notes.is_shown(&name(7)));
    }

    #[test]
    fn what_is_forgotten_is_shown_no_longer_and_counted_all_the_same() {
        let mut notes = Notes::new(&Thresholds::default());
        notes.transition(&name(1), at(10), Span::ZERO, Change::Unplanned);
        notes.forget(&name(1));
        notes.forget(&name(2));
        let (shown, rest) = notes.counts();
        assert_eq!((shown.len(), rest.transitions, notes.shown), (0, 1, 0));
    }

    #[test]
    fn what_goes_on_at_the_same_time_is_not_added_up() {
        let mut notes = Notes::new(&Thresholds::default());
        notes.transition(&name(1), at(10), Span::secs(4), Change::Unplanned);
        notes.took(&name(1), Span::secs(6));
        notes.took(&name(1), Span::secs(9));
        notes.took(&name(2), Span::secs(9));
        let took: Vec<_> = notes.all().map(|(_, note)| note.took).collect();
        assert_eq!(took, [Some((at(10), Span::secs(9)))]);
    }

    #[test]
    fn what_a_person_ordered_and_what_followed_finished_work_is_planned() {
        let agent = |name: &str| baton_election::AgentName::new(name).unwrap();
        let change = |cause, from: &str| {
            Change::of(&Transition {
                epoch: baton_election::Epoch(2),
                cause,
                from: Some(agent(from)),
                to: agent("b"),
                reason: String::new(),
                at: baton_election::time::WallTime::default(),
                phases: baton_election::document::PhaseTimes::default(),
            })
        };
        for cause in [Cause::Depose, Cause::Appoint, Cause::Pause, Cause::Approval, Cause::Finished] {
            assert_eq!(change(cause, "a"), Change::Planned, "{cause}");
        }
        for cause in [Cause::Failover, Cause::Release, Cause::Pass, Cause::Stall] {
            assert_eq!(change(cause, "a"), Change::Unplanned, "{cause}");
        }
        assert_eq!(change(Cause::Approval, "b"), Change::Approval);
        let mut notes = Notes::new(&Thresholds::default());
        for change in [Change::Unplanned, Change::Planned, Change::Approval] {
            notes.transition(&name(1), at(10), Span::ZERO, change);
        }
        let counted = notes
            .all()
            .map(|(_, note)| (note.changes.sum(at(11)), note.elections.sum(at(11)), note.counts.unplanned));
        assert_eq!(counted.collect::<Vec<_>>(), [(2, 1, 1)]);
    }

    #[test]
    fn the_name_of_the_others_is_no_elections() {
        assert!(ElectionName::new(OTHERS).is_err());
    }
}
