//! How a run goes: what happens next happens, then every promise is looked at; chaos, then healing, then the end.

use crate::fault::{Fault, PlannedFault};
use crate::invariants::Fact;
use crate::ledger::Ledger;
use crate::setup::{Outcome, Setup};
use crate::timeline::Timeline;

/// What is simulated.
pub(crate) trait Simulation {
    /// When something happens by itself next.
    fn next_at(&self) -> u64;
    /// It is that instant.
    fn set_now(&mut self, now: u64);
    /// What happens by itself at this instant: one thing of it.
    fn happen(&mut self);
    /// Something goes wrong.
    fn befall(&mut self, fault: &Fault);
    /// All faults end.
    fn heal(&mut self);
    /// How many of how many think that somebody else leads than who acts, or that nobody does.
    fn astray(&self) -> (usize, usize);
    /// Whether a leader may hand over without being asked, to whom it prefers.
    fn has_preferences(&self) -> bool;
    /// Whether the faults have left enough for a leader to be demanded after the healing.
    fn demands_a_leader(&self) -> bool;
    /// The book.
    fn ledger(&mut self) -> &mut Ledger;
}

/// Plays a stage to its end, or until a promise breaks.
pub(crate) fn play(mut simulation: impl Simulation, setup: &Setup) -> (Outcome, Timeline) {
    let mut planned = setup.plan.iter().peekable();
    let chaos = setup.chaos.as_nanos();
    let due = chaos.saturating_add(setup.healing.as_nanos());
    let (mut healed, mut overdue_seen, mut demands) = (false, false, true);
    let (mut end, mut postponed) = (u64::MAX, false);
    while simulation.ledger().broken.is_none() {
        let next = simulation.next_at();
        let fault_at = planned.peek().map_or(u64::MAX, |next| next.at.as_nanos());
        let turn = match (healed, overdue_seen) {
            (false, _) => chaos,
            (true, false) => due,
            (true, true) => u64::MAX,
        };
        let at = next.min(fault_at).min(turn).min(end);
        simulation.ledger().advance(at);
        simulation.set_now(at);
        if at >= end {
            // Where one is preferred to another the end may fall into a hand-over, which is given a longest timeout to be done.
            let settled = simulation.ledger().actors() == 1 && simulation.astray().0 == 0;
            if settled || postponed || !simulation.has_preferences() {
                break;
            }
            postponed = true;
            end = at.saturating_add(setup.timing.timeout_max.as_nanos());
            continue;
        }
        if at == turn && healed {
            overdue_seen = true;
            // Who demands no leader waits no longer for one.
            end = if demands { end } else { at };
        } else if at == turn {
            healed = true;
            simulation.heal();
            demands = simulation.demands_a_leader();
            simulation.ledger().statistics.undemanded += u64::from(!demands);
            simulation.ledger().healed(if demands { due } else { u64::MAX });
        } else if at == fault_at {
            if let Some(PlannedFault { fault, .. }) = planned.next().filter(|_| !healed) {
                simulation.befall(fault);
            }
        } else {
            simulation.happen();
        }
        simulation.ledger().check_instant();
        if healed && end == u64::MAX && simulation.ledger().actors() == 1 {
            end = at.saturating_add(setup.steady.as_nanos());
        }
    }
    if demands {
        let (astray, all) = simulation.astray();
        simulation.ledger().see(&Fact::Over { astray, all });
    }
    let ledger = simulation.ledger();
    let outcome =
        Outcome { statistics: std::mem::take(&mut ledger.statistics), broken: ledger.broken.take() };
    (outcome, ledger.timeline.take().unwrap_or_default())
}
