//! Waiting until an operator has decided on a checkpoint, for `baton checkpoint --wait-approval`.
//!
//! A lease that was acquired by hand is renewed meanwhile; under `baton run` that is run's business.

use std::time::Duration;

use baton::Renewal;
use baton::election::document::{Cause, Question, State};
use baton::election::lease::renewal_interval;
use baton::election::time::{Moment, Span};
use baton::election::{ContentHash, Document, ElectionName, Epoch, Incarnation};
use baton::store::{Key, boot};
use futures_util::StreamExt;
use serde_json::json;

use super::renew::renew;
use crate::context::{AgentOption, Context, HeldLease, current_token};
use crate::exit::Exit;
use crate::output::Failure;
use crate::screen::Screen;

/// The time between two looks, even if nobody tells of a change.
const LOOK_AGAIN: Span = Span::secs(5);

/// How long `baton run` may take to write the token that an approval gave.
const TOKEN_FOLLOWS: Span = Span::secs(10);

/// Waits until the surrounding `baton run` has written this token where the next command of a script reads it.
async fn follow(election: &ElectionName, token: Epoch) {
    let give_up_at = boot::now() + TOKEN_FOLLOWS;
    while current_token(Some(election)).is_ok_and(|shown| shown.is_some_and(|shown| shown < token))
        && boot::now() < give_up_at
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The checkpoint that is waited for.
pub(super) struct ApprovalWait<'a> {
    pub(super) election: &'a ElectionName,
    pub(super) who: &'a AgentOption,
    pub(super) seq: u64,
    pub(super) hash: ContentHash,
    /// For how long.
    pub(super) limit: Span,
}

/// How it stands.
enum ApprovalState {
    Waits,
    /// The token from here on.
    Approved(Epoch),
    /// Why.
    Rejected(String),
    /// The leader wrote another checkpoint.
    Replaced,
    /// The leadership is over for another reason.
    Over(String),
}

impl ApprovalWait<'_> {
    pub(super) async fn decided(&self, context: &Context) -> Result<Screen, Failure> {
        let ApprovalWait { election, hash, limit, .. } = self;
        let give_up_at = boot::now() + *limit;
        context.output.talk(&format!(
            "waits for up to {limit} for an operator: baton approve {election} --checkpoint {hash}"
        ));
        let mut changes = context.coordinator.backend().watch(&Key::Election((*election).clone())).await.ok();
        loop {
            let held = context.lease(election, self.who)?;
            let standing = self.look(context, &held).await?;
            if !matches!(standing, ApprovalState::Waits) {
                return self.outcome(context, &held, standing).await;
            }
            let renew_at =
                held.kept.as_ref().map(|kept| kept.asked_at + renewal_interval(Span::millis(kept.ttl_ms)));
            if renew_at.is_some_and(|at| at <= boot::now()) {
                let renewal = Renewal::new(held.epoch, held.credential);
                if let Err(failure) = renew(context, election, &held, &renewal).await {
                    // Perhaps an operator has decided in this very moment.
                    let standing = self.look(context, &held).await?;
                    return match standing {
                        ApprovalState::Waits => Err(failure),
                        decided => self.outcome(context, &held, decided).await,
                    };
                }
                continue;
            }
            if boot::now() >= give_up_at {
                return Err(Failure::new(
                    Exit::Operator,
                    "awaiting-approval",
                    format!("no operator decided on checkpoint {} of {election} within {limit}", self.seq),
                    format!(
                        "it still waits; an operator decides with `baton approve {election}` or `baton reject {election}`"
                    ),
                ));
            }
            let until = (boot::now() + LOOK_AGAIN).min(give_up_at);
            let until: Moment = renew_at.map_or(until, |at| until.min(at));
            let told = async {
                match &mut changes {
                    Some(changes) => changes.next().await.is_some(),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                going_on = told => if !going_on { changes = None },
                slept = boot::sleep_until(until) => slept?,
            }
        }
    }

    /// How it stands; while the store does not answer, as it stood.
    async fn look(&self, context: &Context, held: &HeldLease) -> Result<ApprovalState, Failure> {
        match context.coordinator.view(self.election).await {
            Ok(view) => Ok(self.standing(view.document.as_ref(), held.credential.incarnation)),
            Err(baton::Error::Store(error)) if error.is_passing() => Ok(ApprovalState::Waits),
            Err(error) => Err(error.into()),
        }
    }

    fn standing(&self, document: Option<&Document>, own: Incarnation) -> ApprovalState {
        let Some(document) = document else { return ApprovalState::Over("its record is gone".to_string()) };
        let leader = document.leader.as_ref().filter(|leader| leader.incarnation == own);
        let stands =
            document.checkpoint.as_ref().is_some_and(|left| left.seq == self.seq && left.hash == self.hash);
        match (leader, document.state) {
            (Some(_), State::Held | State::AwaitingApproval) if !stands => ApprovalState::Replaced,
            (Some(leader), State::Held) => ApprovalState::Approved(leader.epoch),
            (Some(_), State::AwaitingApproval) => match &document.approval.question {
                Some(Question::Checkpoint { .. }) => ApprovalState::Waits,
                Some(Question::MoreTime) | None => ApprovalState::Replaced,
            },
            (Some(_) | None, State::Held | State::AwaitingApproval | State::Vacant | State::Paused) => {
                match document.departure.as_ref().filter(|departure| departure.incarnation == own) {
                    Some(departure) if departure.cause == Cause::Approval => {
                        ApprovalState::Rejected(departure.reason.clone())
                    }
                    Some(departure) => {
                        ApprovalState::Over(format!("{}: {}", departure.cause, departure.reason))
                    }
                    None => ApprovalState::Over("another leads, or nobody".to_string()),
                }
            }
        }
    }

    async fn outcome(
        &self,
        context: &Context,
        held: &HeldLease,
        standing: ApprovalState,
    ) -> Result<Screen, Failure> {
        let ApprovalWait { election, seq, hash, .. } = self;
        match standing {
            ApprovalState::Approved(mut token) => {
                if held.kept.is_some() {
                    // The commands after this one show the token that the approval gave.
                    let renewal = Renewal::new(held.epoch, held.credential);
                    token = renew(context, election, held, &renewal).await?.epoch;
                } else {
                    follow(election, token).await;
                }
                let data = json!({
                    "outcome": "approved", "election": election, "agent": held.agent, "seq": seq, "hash": hash, "token": token,
                });
                let text = format!(
                    "checkpoint {seq} of {election} is approved; {} leads with token {token}",
                    held.agent
                );
                Ok(Screen::new(data, text))
            }
            ApprovalState::Rejected(reason) => {
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                let message = format!("checkpoint {seq} of {election} was rejected{why}");
                Err(Failure::new(
                    Exit::Stale,
                    "rejected",
                    message,
                    "stop this work: the leadership has ended",
                ))
            }
            ApprovalState::Replaced => Err(Failure::new(
                Exit::Error,
                "replaced",
                format!("another checkpoint took the place of checkpoint {seq} of {election}"),
                "wait where that one was written",
            )),
            ApprovalState::Over(why) => Err(Failure::new(
                Exit::Lost,
                "lost",
                format!(
                    "the leadership of {} ended before checkpoint {seq} was approved ({why})",
                    held.agent
                ),
                "stop this work; campaign again",
            )),
            ApprovalState::Waits => unreachable!("it is decided"),
        }
    }
}
