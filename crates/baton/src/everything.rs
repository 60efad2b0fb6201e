//! What concerns everything at once, and what operators say beside their acts: pauses of the whole store, notes, votes, second signatures.
//!
//! To pause everything is an order on the store, so that nobody is granted anything new, and then a signed act on each election that exists, which ends
//! whoever leads. Guarantees that once it has returned without a failure, every election that existed is paused, and that nobody who looks at the
//! store afterwards begins one. Does not stop one that was being made at that very moment by a client that had looked before: the same call
//! again finds it, as `baton status` does.

use std::sync::Arc;

use baton_election::everything::SignedStop;
use baton_election::operator::{Act, OperatorKey};
use baton_election::quorum::Gathering;
use baton_election::{AgentName, Answer, ElectionName, Refusal, StoreInfo};
use baton_store::boot;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::operators::{MAX_ATTEMPTS, Spread};
use crate::there::insist;

impl Coordinator {
    /// Carries out a signed order to pause everything, or to go on. It ends no leadership by itself.
    pub async fn order_stop(&self, order: &SignedStop) -> Result<(), Error> {
        if let Some(decider) = self.store().decider() {
            return insist(self.patience, || decider.order_stop(order)).await;
        }
        self.change_store(|info| order.carry_out(info, boot::wall())).await
    }

    /// Whoever leads anything, stops, and nobody may lead anything.
    pub async fn pause_everything(&self, by: &OperatorKey, reason: &str) -> Result<Spread, Error> {
        self.pause_everything_urgently(by, reason, None).await
    }

    /// The same; with a reason to, without waiting for the other operators that a policy asks for, wherever it lets one act alone.
    pub async fn pause_everything_urgently(
        &self,
        by: &OperatorKey,
        reason: &str,
        break_glass: Option<&str>,
    ) -> Result<Spread, Error> {
        let since = self.change_stop(by, Some(reason)).await?.paused.as_ref().map(|pause| pause.at);
        self.spread(by, &Act::Halt { reason: reason.to_string(), since }, break_glass).await
    }

    /// That is over. What was paused by itself before stays so.
    pub async fn resume_everything(&self, by: &OperatorKey) -> Result<Spread, Error> {
        self.resume_everything_urgently(by, None).await
    }

    /// The same; with a reason to, without waiting for the other operators that a policy asks for, wherever it lets one act alone.
    pub async fn resume_everything_urgently(
        &self,
        by: &OperatorKey,
        break_glass: Option<&str>,
    ) -> Result<Spread, Error> {
        self.change_stop(by, None).await?;
        self.spread(by, &Act::Resume, break_glass).await
    }

    /// Orders it, as often as another order comes first. Returns what the store knows of itself then.
    async fn change_stop(&self, by: &OperatorKey, pause: Option<&str>) -> Result<Arc<StoreInfo>, Error> {
        for attempt in 1.. {
            let info = self.local.fresh_info(self.patience, false).await?;
            if info.paused.is_some() == pause.is_some() {
                // A call before this one was broken off, or somebody else's: elections may be left.
                break;
            }
            match self.order_stop(&by.sign_stop(&info, pause.map(str::to_string))).await {
                Err(Error::Refused(Refusal::Invalid { .. }))
                    if attempt < MAX_ATTEMPTS
                        && self.local.fresh_info(self.patience, false).await?.orders != info.orders => {}
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        self.local.fresh_info(self.patience, false).await
    }

    /// Has something remembered, which changes nothing.
    pub async fn note(&self, election: &ElectionName, by: &OperatorKey, text: &str) -> Result<Answer, Error> {
        self.operate_surely(election, by, &Act::Note { text: text.to_string() }).await
    }

    /// Votes for a candidate, where the policy lets operators vote.
    pub async fn vote(
        &self,
        election: &ElectionName,
        by: &OperatorKey,
        agent: &AgentName,
    ) -> Result<Answer, Error> {
        self.operate_surely(election, by, &Act::Vote { agent: agent.clone() }).await
    }

    /// Signs what another operator has signed and what takes several. An order for another place than this election, or for what has not come to pass, is not
    /// signed; whoever wants to see what it is looks before.
    pub async fn cosign(
        &self,
        election: &ElectionName,
        by: &OperatorKey,
        gathering: &Gathering,
    ) -> Result<Answer, Error> {
        let document = self.view(election).await?.document;
        let unknown = || Refusal::UnknownElection { election: election.to_string() };
        gathering.check(election, document.as_ref().ok_or_else(unknown)?)?;
        if matches!(gathering.order.act, Act::Halt { .. }) && self.store().native().is_none() {
            // It counts only in the pause of everything that it is of, which may have changed since this client looked.
            self.local.fresh_info(self.patience, false).await?;
        }
        Ok(self.carry_out(election, &by.cosign(gathering)).await?.0)
    }

    /// Carries out an act that is meant whatever else happened: it is signed anew as often as something comes before it.
    pub(crate) async fn operate_surely(
        &self,
        election: &ElectionName,
        by: &OperatorKey,
        act: &Act,
    ) -> Result<Answer, Error> {
        let mut attempts = 1;
        loop {
            match self.operate(election, by, act).await {
                Err(Error::Refused(Refusal::Stale { .. })) if attempts < MAX_ATTEMPTS => attempts += 1,
                outcome => return outcome,
            }
        }
    }
}
