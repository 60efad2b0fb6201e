//! `baton renew`: stay the leader.

use baton::Renewal;
use baton::election::document::Phase;
use baton::election::time::Span;
use baton::election::{Answer, ElectionName, Epoch};
use baton::store::Access;
use clap::Args;
use serde_json::json;

use crate::context::{AgentOption, Context, HeldLease, usable_under};
use crate::exit::{Exit, Speaker};
use crate::output::Failure;
use crate::region;
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton renew refactor-auth --as agent-a                     exits 4 if the leadership is lost
  baton renew refactor-auth --as agent-a --spent 120000      report the use of the budget
  baton renew refactor-auth --as agent-a --phase draining    the work is being stopped, to hand over

A leader is serving only after it has acknowledged its predecessor's checkpoint (baton handover). Until then its phase stays synchronising.")]
pub(crate) struct Renew {
    /// The election
    election: ElectionName,
    #[command(flatten)]
    who: AgentOption,
    /// The total of model tokens used since the grant
    #[arg(long, value_name = "N")]
    spent: Option<u64>,
    /// Report that there was no progress since the last renewal
    #[arg(long)]
    no_progress: bool,
    /// The leader's phase: synchronising, serving or draining
    #[arg(long, value_name = "PHASE", value_parser = phase)]
    phase: Option<Phase>,
}

fn phase(text: &str) -> Result<Phase, String> {
    match text {
        "synchronising" => Ok(Phase::Synchronising),
        "serving" => Ok(Phase::Serving),
        "draining" => Ok(Phase::Draining),
        _ => Err("a leader is synchronising, serving or draining".to_string()),
    }
}

impl StoreCommand for Renew {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Holder;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let held = context.lease(&self.election, &self.who)?;
        let renewal = Renewal {
            progress: !self.no_progress,
            spent_tokens: self.spent,
            phase: self.phase,
            ..Renewal::new(held.epoch, held.credential)
        };
        let renewed = renew(context, &self.election, &held, &renewal).await?;
        let data = json!({
            "outcome": if renewed.awaiting_approval { "awaiting-approval" } else { "renewed" },
            "election": self.election,
            "agent": held.agent,
            "token": renewed.epoch,
            "expires_in_ms": renewed.left.map(Span::as_millis),
            "approval_wanted": renewed.approval_wanted,
        });
        let left = renewed.left.map_or(String::new(), |left| format!("; renew within {left}"));
        let text = format!("{} leads {} with token {}{left}", held.agent, self.election, renewed.epoch);
        let screen = Screen::new(data, text);
        if renewed.awaiting_approval {
            let note = "an operator must approve before the token is accepted again";
            return Ok(screen.note(note).exit(Exit::Operator));
        }
        let note = "an operator should approve soon: baton approve";
        Ok(screen.notes(renewed.approval_wanted.then_some(note)))
    }
}

/// A renewal that was accepted.
pub(crate) struct RenewalReport {
    pub(crate) epoch: Epoch,
    pub(crate) awaiting_approval: bool,
    approval_wanted: bool,
    left: Option<Span>,
}

/// Renews the lease of a holder, and keeps what it learns. What the holder does is a sign of life.
pub(crate) async fn renew(
    context: &Context,
    election: &ElectionName,
    held: &HeldLease,
    renewal: &Renewal,
) -> Result<RenewalReport, Failure> {
    let region = region::of_held(context, election, held).await?;
    let asked = async {
        let shown = match &region {
            Some(region) => Some(region.shown_to(&context.coordinator).await?),
            None => None,
        };
        context.coordinator.renew(election, &Renewal { region: shown, ..renewal.clone() }).await
    };
    let outcome = held.while_it_lasts(asked).await;
    // A renewal that is answered later is worth nothing.
    let outcome = outcome.ok_or_else(|| lost_unanswered(context, held))?;
    let baton::Renewed { answer, asked_at, ttl, .. } =
        outcome.map_err(|error| Failure::from_error(&error, Speaker::Holder))?;
    match answer {
        Answer::Renewed { epoch, awaiting_approval, approval_wanted } => {
            let left = match &held.kept {
                None => None,
                Some(kept) => {
                    let ttl = ttl.unwrap_or(Span::millis(kept.ttl_ms));
                    context.keep(election, held, epoch, asked_at, ttl)?;
                    Some(usable_under(region.as_ref(), asked_at, ttl))
                }
            };
            Ok(RenewalReport { epoch, awaiting_approval, approval_wanted, left })
        }
        Answer::Ended { cause, reason } => Err(Failure::new(
            Exit::Lost,
            "lost",
            format!("the leadership of {} was ended ({cause}): {reason}", held.agent),
            "stop this work; campaign again",
        )),
        other => unreachable!("a renewal is answered as one, not with {other:?}"),
    }
}

fn lost_unanswered(context: &Context, held: &HeldLease) -> Failure {
    let location = context.coordinator.backend().location();
    Failure::new(
        Exit::Lost,
        "lost",
        format!("the lease of {} ended before {location} answered", held.agent),
        "stop this work; see what ails the store with `baton doctor`, then campaign again",
    )
}
