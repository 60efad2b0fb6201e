//! `--once-per`: CMD runs once in each slot of time, whichever machine runs it.

use std::time::Duration;

use baton::election::ElectionName;
use baton::election::time::Span;
use baton::toolbox::{Again, Begun, MarkedSlot, SLOT_VALUE, SlotRun, SlotStanding, Slots, Toolbox};
use baton::{Decides, Error, Mandate};
use baton_warden::WardenHandle;
use clap::Args;

use super::Runner;
use super::lead::{CommandRun, StopReason};
use super::leadership::LeadershipRun;
use crate::context::Context;
use crate::exit::{Exit, Speaker};
use crate::output::Failure;
use crate::warden_process::boot_time;

/// How often a candidate that waits looks whether the slot is over.
const LOOK_AT_SLOT: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
pub(super) struct OncePer {
    /// Run CMD at most once in each slot of this length, on whichever machine: the slot is marked before CMD starts, and a
    /// candidate that finds it marked exits 0. Slots are counted in UTC from 1970: those of 1d begin at midnight UTC
    #[arg(long, value_name = "DURATION")]
    once_per: Option<Span>,
    /// Begin every slot so much later: with --once-per 1d, 14h begins it at 14:00 UTC
    #[arg(long, value_name = "DURATION", requires = "once_per")]
    slot_offset: Option<Span>,
    /// Run CMD at least once in each slot: again, by the next candidate, if it did not exit with 0 or its runner died
    #[arg(long, requires = "once_per")]
    retry_failed: bool,
}

/// What `--once-per` asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    slots: Slots,
    again: Again,
}

impl OncePer {
    pub(super) fn rule(&self, context: &Context) -> Result<Option<Rule>, Failure> {
        let Some(every) = self.once_per else { return Ok(None) };
        if context.coordinator.decides() == Decides::Store {
            return Err(Failure::usage(
                "--once-per needs a place for the slot's mark, and etcd's own elections have none",
                "use Baton's own elections: the same URL with another prefix, without ?election=",
            ));
        }
        let offset = self.slot_offset.unwrap_or(Span::ZERO);
        let slots = Slots::new(every, offset)
            .map_err(|refusal| Failure::usage(format!("--once-per: {refusal}"), refusal.hint()))?;
        let again = if self.retry_failed { Again::IfNotDone } else { Again::Never };
        Ok(Some(Rule { slots, again }))
    }
}

/// Whether this leadership may start CMD.
pub(super) enum SlotClaim {
    /// Without `--once-per`.
    Unasked,
    /// The slot is marked as this run's.
    Mine(MarkedSlot),
    /// The slot was run.
    Over(SlotRun),
    /// A signal came first; the exit code that goes with it.
    AskedToStop(u8),
    /// The leadership was lost first; why.
    Lost(String),
}

/// Where the slot is marked, and by which rule.
pub(super) struct SlotCheck {
    tools: Toolbox,
    rule: Option<Rule>,
}

impl SlotCheck {
    pub(super) fn new(context: &Context, election: &ElectionName, rule: Option<Rule>) -> SlotCheck {
        SlotCheck { tools: context.coordinator.toolbox(election), rule }
    }

    /// Whether a run that was lost is not run again by this process: its slot is marked.
    pub(super) fn ends_with_a_loss(&self) -> bool {
        self.rule.is_some_and(|rule| rule.again == Again::Never)
    }

    /// The run of this slot, if there was one and none must follow. A store that fails is asked again when the slot is marked.
    pub(super) async fn over(&self) -> Result<Option<SlotRun>, Failure> {
        let Some(Rule { slots, again }) = self.rule else { return Ok(None) };
        match self.tools.slot_standing(&slots, again).await {
            Ok(SlotStanding::Free) => Ok(None),
            Ok(SlotStanding::Over(run)) => Ok(Some(run)),
            Ok(SlotStanding::Ahead(run)) => Err(ahead(self.tools.election(), &run)),
            Err(Error::Store(error)) if error.is_passing() => Ok(None),
            Err(error) => Err(Failure::from_error(&error, Speaker::Candidate)),
        }
    }

    /// Waits until the slot was run by somebody else.
    pub(super) async fn over_meanwhile(&self) -> Result<SlotRun, Failure> {
        if self.rule.is_none() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(LOOK_AT_SLOT).await;
            if let Some(run) = self.over().await? {
                return Ok(run);
            }
        }
    }
}

impl Runner<'_> {
    /// Says that CMD is not run in this slot.
    pub(super) fn tell_over(&self, run: &SlotRun) -> Result<Exit, Failure> {
        let (election, SlotRun { slot, lasts, by, at, .. }) = (&self.options.election, run);
        let ended = end_of(run);
        let text = format!(
            "{election} ran in this slot at {at} by {by} ({lasts} from {slot}); {ended}. CMD was not run here"
        );
        self.events.tell("slot-over", None, &text)?;
        Ok(Exit::Done)
    }

    /// Marks the slot, before CMD starts.
    pub(super) async fn mark(&mut self, leadership: &LeadershipRun) -> Result<SlotClaim, Failure> {
        let SlotCheck { tools, rule: Some(Rule { slots, again }) } = &self.slots else {
            return Ok(SlotClaim::Unasked);
        };
        let mandate = Mandate { token: leadership.lead.token(), credential: leadership.lead.credential() };
        let begun = tokio::select! {
            begun = tools.begin_slot(mandate, &self.bid.agent, slots, *again) => begun,
            code = self.signals.next() => return Ok(SlotClaim::AskedToStop(code)),
            why = leadership.lead.lost() => return Ok(SlotClaim::Lost(why)),
        };
        match begun {
            Ok(Begun::Run(marked)) => Ok(SlotClaim::Mine(marked)),
            Ok(Begun::Not(SlotStanding::Over(run))) => Ok(SlotClaim::Over(run)),
            Ok(Begun::Not(SlotStanding::Ahead(run))) => Err(ahead(&self.options.election, &run)),
            Ok(Begun::Not(SlotStanding::Free)) => unreachable!("a free slot is marked"),
            Err(error) => Err(Failure::from_error(&error, Speaker::Holder)),
        }
    }
}

impl CommandRun<'_, '_> {
    /// Notes how the run of the slot ended, while the lease is kept. Without the note the run counts as not done.
    pub(super) async fn note_end(
        &mut self,
        leadership: &LeadershipRun,
        warden: &mut WardenHandle,
        code: u8,
        sound: bool,
    ) -> Result<(), Failure> {
        let Some(marked) = self.marked.take() else { return Ok(()) };
        if matches!(self.stopping, Some(StopReason::Lost(_))) {
            return Ok(());
        }
        let success = code == 0 && sound && self.stopping.is_none();
        let mandate = Mandate { token: leadership.lead.token(), credential: leadership.lead.credential() };
        let tools = self.runner.context.coordinator.toolbox(leadership.lead.election());
        let mut terms = leadership.lead.validity();
        let mut noting = std::pin::pin!(tools.end_slot(mandate, &marked, code, success));
        let noted = loop {
            tokio::select! {
                noted = &mut noting => break noted.map_err(|error| error.to_string()),
                why = leadership.lead.lost() => break Err(why),
                // The warden would release what is not renewed.
                Ok(()) = terms.changed() => {
                    let _ = warden.deadline(boot_time(terms.borrow_and_update().deadline));
                }
            }
        };
        match noted {
            Ok(_) => Ok(()),
            Err(why) => {
                let text =
                    format!("the slot's run ended with exit code {code}, which could not be noted: {why}");
                self.runner.events.tell("slot-unnoted", None, &text)
            }
        }
    }
}

/// How the run of a slot ended, for people.
fn end_of(run: &SlotRun) -> String {
    match run.ended {
        None => "its end is not known".to_string(),
        Some(end) if end.success => "it ended with exit code 0".to_string(),
        Some(end) if end.code == 0 => "it was stopped, or its validator refused it".to_string(),
        Some(end) => format!("it ended with exit code {}", end.code),
    }
}

/// The last slot, as `baton status` shows it.
pub(crate) fn shown(run: &SlotRun) -> String {
    let SlotRun { slot, lasts, by, at, .. } = run;
    format!("  last slot   {slot} for {lasts}: {by} ran it at {at}; {}", end_of(run))
}

fn ahead(election: &ElectionName, run: &SlotRun) -> Failure {
    let SlotRun { slot, by, .. } = run;
    Failure::new(
        Exit::Error,
        "clock",
        format!("{by} marked the slot of {slot} of {election}, which has not begun: a clock is wrong"),
        format!(
            "compare the clocks; if that one was wrong, forget its mark: baton run {election} --once -- sh -c \"baton state put {election} {SLOT_VALUE} ''\""
        ),
    )
}
