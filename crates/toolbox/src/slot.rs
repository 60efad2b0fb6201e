//! Runs that happen once in each slot of time: a slot is marked, durably, before its run begins.
//!
//! Slots are counted in UTC from 1970, so that daylight saving does not move them. The mark is a value of the leader's state, changed by
//! compare-and-swap. Guarantees that of all runs in one slot one is marked; with [`Again::IfNotDone`], that each later one was marked after a run that
//! is not known to have succeeded. Assumes that the clocks that name the slot agree on it: a clock that is behind names an earlier slot, which is
//! refused, and one that is ahead marks a slot that has not begun, which is told apart ([`SlotStanding::Ahead`]). Does not guarantee that a marked
//! run did anything: its process may have died right after the mark.

use alloc::format;
use alloc::string::String;

use baton_election::time::{Span, WallTime, as_millis};
use baton_election::{AgentName, Incarnation, Refusal};
use serde::{Deserialize, Serialize};

/// The name of the value that holds the mark.
pub const SLOT_VALUE: &str = "baton.slot";
/// The shortest slot: a mark takes a write.
pub const MIN_SLOT: Span = Span::secs(1);

/// How time is cut into slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    every: Span,
    offset: Span,
}

impl Slots {
    /// Slots of this length; the first begins so long after midnight of 1970-01-01 UTC.
    pub fn new(every: Span, offset: Span) -> Result<Slots, Refusal> {
        if every < MIN_SLOT {
            return Err(Refusal::invalid(
                format!("a slot of {every} is too short"),
                format!("use at least {MIN_SLOT}"),
            ));
        }
        if offset >= every {
            return Err(Refusal::invalid(
                format!("an offset of {offset} is not shorter than the slot of {every}"),
                "an offset moves the beginning of every slot; write what is left after whole slots",
            ));
        }
        Ok(Slots { every: every.whole_millis(), offset: offset.whole_millis() })
    }

    /// How long each slot is.
    pub fn every(&self) -> Span {
        self.every
    }

    /// When the slot began that this moment is in.
    pub fn slot_at(&self, wall: WallTime) -> WallTime {
        let (every, offset) = (self.every.as_millis(), self.offset.as_millis());
        let since = wall.as_unix_millis().saturating_sub(offset);
        WallTime::from_unix_millis(offset.saturating_add(since - since % every))
    }
}

/// The last run that was marked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRun {
    /// When its slot began.
    pub slot: WallTime,
    /// How long that slot is.
    #[serde(rename = "lasts_ms", with = "as_millis")]
    pub lasts: Span,
    /// Which leadership marked it.
    pub run: Incarnation,
    /// The agent that ran it.
    pub by: AgentName,
    /// When it was marked, by the clock that named the slot.
    pub at: WallTime,
    /// How it ended, as its runner said; none while it runs, and for ever if its runner died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunEnd>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// Its exit code.
    pub code: u8,
    /// The exit code was 0, and no validator had anything against it.
    pub success: bool,
    /// When, for people.
    pub at: WallTime,
}

impl SlotRun {
    /// What the value says; none if the leader emptied it.
    pub fn parse(text: &str) -> Result<Option<SlotRun>, Refusal> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        serde_json::from_str(text).map(Some).map_err(|error| {
            Refusal::invalid(
                format!("the value `{SLOT_VALUE}` is not a slot's mark: {error}"),
                format!("use another name for a value of your own; a leader empties this one: baton state put ELECTION {SLOT_VALUE} ''"),
            )
        })
    }

    /// As it is written.
    pub fn to_json(&self) -> String {
        match serde_json::to_string(self) {
            Ok(text) => text,
            Err(error) => unreachable!("a mark has no map with odd keys: {error}"),
        }
    }

    /// Whether the run is known to have succeeded.
    pub fn succeeded(&self) -> bool {
        self.ended.is_some_and(|ended| ended.success)
    }
}

/// Whether a slot that is marked may be run once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Never: at most once.
    Never,
    /// If its run is not known to have succeeded: at least once, while somebody tries.
    IfNotDone,
}

/// How a slot stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotStanding {
    /// It may be run.
    Free,
    /// It was run, or a later one.
    Over(SlotRun),
    /// A slot is marked that has not begun by more than one slot's length: one of the clocks is wrong.
    Ahead(SlotRun),
}

/// How the slot that began at `slot` stands.
pub fn standing(last: Option<&SlotRun>, slots: &Slots, slot: WallTime, again: Again) -> SlotStanding {
    let Some(last) = last else { return SlotStanding::Free };
    if last.slot < slot {
        return SlotStanding::Free;
    }
    if last.slot > slot + slots.every {
        return SlotStanding::Ahead(last.clone());
    }
    let may_run_again = last.slot == slot && again == Again::IfNotDone && !last.succeeded();
    if may_run_again { SlotStanding::Free } else { SlotStanding::Over(last.clone()) }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn at(text: &str) -> WallTime {
        text.parse().unwrap()
    }

    fn slots(every: &str, offset: &str) -> Slots {
        Slots::new(every.parse().unwrap(), offset.parse().unwrap()).unwrap()
    }

    fn run(slot: &str, ended: Option<u8>) -> SlotRun {
        SlotRun {
            slot: at(slot),
            lasts: Span::secs(86_400),
            run: Incarnation([1; 8]),
            by: AgentName::new("host-a").unwrap(),
            at: at(slot),
            ended: ended.map(|code| RunEnd { code, success: code == 0, at: at(slot) }),
        }
    }

    #[test]
    fn a_slot_begins_at_whole_lengths_since_1970_and_the_offset_moves_it() {
        let begins = |every, offset, wall| slots(every, offset).slot_at(at(wall));
        assert_eq!(begins("1d", "0", "2026-03-29T00:59:59.999Z"), at("2026-03-29T00:00:00Z"));
        assert_eq!(begins("12h", "0", "2026-03-29T12:00:00Z"), at("2026-03-29T12:00:00Z"));
        assert_eq!(begins("1d", "14h", "2026-03-29T02:00:00Z"), at("2026-03-28T14:00:00Z"));
        assert_eq!(begins("1d", "14h", "2026-03-29T14:00:00Z"), at("2026-03-29T14:00:00Z"));
        assert_eq!(begins("1d", "14h", "1970-01-01T02:00:00Z"), at("1970-01-01T14:00:00Z"));
    }

    #[test]
    fn what_is_no_cut_of_time_is_refused() {
        let refused = |every: Span, offset: Span| Slots::new(every, offset).unwrap_err().to_string();
        assert_eq!(refused(Span::ZERO, Span::ZERO), "a slot of 0ms is too short");
        let day = Span::secs(86_400);
        assert_eq!(refused(day, day), "an offset of 1d is not shorter than the slot of 1d");
    }

    #[test]
    fn a_marked_slot_is_over_whatever_became_of_its_run() {
        let (day, today) = (slots("1d", "0"), at("2026-03-29T00:00:00Z"));
        let stands = |last: &SlotRun, again| standing(Some(last), &day, today, again);
        for ended in [None, Some(0), Some(1)] {
            let last = run("2026-03-29T00:00:00Z", ended);
            assert_eq!(stands(&last, Again::Never), SlotStanding::Over(last.clone()), "{ended:?}");
        }
        let (died, done) = (run("2026-03-29T00:00:00Z", None), run("2026-03-29T00:00:00Z", Some(0)));
        assert_eq!(stands(&died, Again::IfNotDone), SlotStanding::Free);
        assert_eq!(stands(&run("2026-03-29T00:00:00Z", Some(7)), Again::IfNotDone), SlotStanding::Free);
        assert_eq!(stands(&done, Again::IfNotDone), SlotStanding::Over(done.clone()));
        assert_eq!(stands(&run("2026-03-28T00:00:00Z", None), Again::Never), SlotStanding::Free);
        assert_eq!(standing(None, &day, today, Again::Never), SlotStanding::Free);
    }

    #[test]
    fn a_clock_that_is_behind_runs_no_earlier_slot_and_one_far_ahead_is_noticed() {
        let (day, today) = (slots("1d", "0"), at("2026-03-29T00:00:00Z"));
        for again in [Again::Never, Again::IfNotDone] {
            let next = run("2026-03-30T00:00:00Z", None);
            assert_eq!(standing(Some(&next), &day, today, again), SlotStanding::Over(next.clone()));
            let far = run("2031-01-01T00:00:00Z", None);
            assert_eq!(standing(Some(&far), &day, today, again), SlotStanding::Ahead(far.clone()));
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_anything_else_is_refused() {
        for ended in [None, Some(3)] {
            let run = run("2026-03-29T00:00:00Z", ended);
            assert_eq!(SlotRun::parse(&run.to_json()).unwrap(), Some(run));
        }
        assert_eq!(SlotRun::parse("  \n").unwrap(), None);
        let refusal = SlotRun::parse("my own").unwrap_err();
        assert!(refusal.to_string().starts_with("the value `baton.slot` is not a slot's mark"), "{refusal}");
    }
}
