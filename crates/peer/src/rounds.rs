//! The rounds of heartbeats that a leader's lease is counted from.
//!
//! A lease counts from when a round was sent, once a majority has answered it or a later one. How long an answer takes has nothing to do with how many
//! rounds are sent meanwhile: so rounds are kept for as long as a lease could be counted from them, and where many fit into a lease, not each of
//! them. The latest is always kept; of the others, those that are a share of the lease apart. A lease then ends at most that share
//! sooner than the answers would allow.
//!
//! **Guarantees** that whatever answer comes while the lease of its round would still run finds a round that it answers.
//! **Bound**: at most [`SHARES`] + 2 rounds.

use alloc::vec::Vec;

use baton_election::Moment;

use crate::{Group, NodeId, Tally, Timing};

/// Into how many shares a lease is divided by the rounds that are kept.
const SHARES: u64 = 16;

/// The rounds that no majority has answered yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Rounds {
    /// The number of the last round.
    latest: u64,
    /// The oldest first.
    open: Vec<Round>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Round {
    number: u64,
    sent: Moment,
    answered: Tally,
}

impl Rounds {
    pub(crate) const NONE: Rounds = Rounds { latest: 0, open: Vec::new() };

    /// A round is sent; its sender has answered it. Returns its number.
    pub(crate) fn begin(&mut self, now: Moment, timing: &Timing, group: &Group, me: NodeId) -> u64 {
        self.open.retain(|round| timing.lease_until(round.sent) > now);
        let share = timing.margins.usable(timing.timeout_min).scaled(1, SHARES);
        if let [.., before, last] = self.open.as_slice()
            && last.sent.since(before.sent) < share
        {
            self.open.pop();
        }
        self.latest += 1;
        let mut answered = Tally::NONE;
        answered.add(group, me);
        self.open.push(Round { number: self.latest, sent: now, answered });
        self.latest
    }

    /// The number of the last round.
    pub(crate) const fn latest(&self) -> u64 {
        self.latest
    }

    /// Who answers a round has answered all before it: it keeps its promise for longer than those ask for.
    pub(crate) fn count(&mut self, group: &Group, from: NodeId, number: u64) {
        if number <= self.latest {
            let before = self.open.iter_mut().filter(|round| round.number <= number);
            before.for_each(|round| round.answered.add(group, from));
        }
    }

    /// When the newest round was sent that a majority has answered. It and those before it are done with.
    pub(crate) fn take_answered(&mut self, group: &Group) -> Option<Moment> {
        let newest = self.open.iter().rposition(|round| round.answered.is_majority(group))?;
        self.open.drain(..=newest).next_back().map(|round| round.sent)
    }

    /// No answer to what was sent so far counts.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use baton_election::Span;

    use super::*;
    use crate::Member;

    fn group() -> Group {
        let member = |number| Member::plain(NodeId::new(number).unwrap());
        Group::founded((1..=3).map(member).collect()).unwrap()
    }

    /// The answer to each round comes so many heartbeats after it was sent: how much of a lease the worst of them leaves, in permille.
    fn worst_lease_permille(timing: &Timing, late: u64) -> u64 {
        let (group, mut rounds) = (group(), Rounds::NONE);
        let [me, other, _] = group.members() else { panic!("three") };
        let usable = timing.margins.usable(timing.timeout_min);
        let mut until = None;
        let mut worst = u64::MAX;
        for number in 1..2_000_u64 {
            let now = Moment::from_nanos(0) + timing.heartbeat.scaled(number, 1);
            assert_eq!(rounds.begin(now, timing, &group, me.id), number);
            assert!(rounds.open.len() <= usize::try_from(SHARES).unwrap() + 2);
            if let Some(answered) = number.checked_sub(late).filter(|answered| *answered > 0) {
                rounds.count(&group, other.id, answered);
                until = rounds.take_answered(&group).map(|sent| timing.lease_until(sent)).max(until);
                let due = Moment::from_nanos(0) + timing.heartbeat.scaled(answered, 1);
                if answered > 1_000 {
                    let lost = timing.lease_until(due).since(until.unwrap());
                    worst = worst.min(1_000 - lost.scaled(1_000, 1).as_nanos() / usable.as_nanos());
                }
            }
        }
        worst
    }

    #[test]
    fn an_answer_counts_however_many_rounds_were_sent_since() {
        let timing = Timing { timeout_min: Span::secs(10), timeout_max: Span::secs(15), ..Timing::LAN };
        for late in [1, 9, 20, 100, 180] {
            assert!(worst_lease_permille(&timing, late) >= 1_000 - 1_000 / SHARES, "{late} heartbeats late");
        }
    }

    #[test]
    fn where_few_rounds_fit_into_a_lease_each_is_kept() {
        for late in [0, 1, 2] {
            assert_eq!(worst_lease_permille(&Timing::AGENTS, late), 1_000, "{late} heartbeats late");
        }
    }
}
