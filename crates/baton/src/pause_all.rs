//! What concerns everything at once, and what operators say beside their acts: pauses of the whole store, notes, votes, second signatures on acts.
//!
//! To pause everything is an order on the store, so that nobody is granted anything new, and then a signed act on each election that exists, which ends
//! whoever leads. Guarantees that once it has returned without a failure, every election that existed is paused, and that nobody who looks at the
//! store afterwards begins one. Does not stop one that was being made at that very moment by a client that had looked before: the same call
//! again finds it, as `baton status` does.

use baton_api::elections::Decides;
use baton_election::operator::{Act, OperatorKey};
use baton_election::quorum::Gathering;
use baton_election::store_order::{StoreChange, StoreOrder};
use baton_election::store_quorum::PendingOrder;
use baton_election::{AgentName, Answer, ElectionName, Refusal, StoreInfo};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::operators::{MAX_ATTEMPTS, Spread};
use crate::store_orders::StoreOrders;

impl StoreOrders<'_> {
    /// Whoever leads anything, stops, and nobody may lead anything.
    pub async fn pause_all(self, by: &OperatorKey, reason: &str) -> Result<Spread, Error> {
        self.pause_all_urgently(by, reason, None).await
    }

    /// The same; with a reason to, without waiting for the other operators that a policy asks for, wherever it lets one act alone.
    pub async fn pause_all_urgently(
        self,
        by: &OperatorKey,
        reason: &str,
        break_glass: Option<&str>,
    ) -> Result<Spread, Error> {
        let pause = StoreChange::Pause { reason: reason.to_string() };
        // A call before this one was broken off, or somebody else's: elections may be left. A resumption that waits for signatures is of the pause that
        // was there, so another pause voids it.
        let ordered = self.change(by, break_glass, None, |info| {
            let resumes =
                |waiting: &PendingOrder<StoreOrder>| matches!(waiting.order.change, StoreChange::Resume);
            let needed = info.paused.is_none() || info.waiting.iter().any(resumes);
            needed.then(|| Ok(pause.clone()))
        });
        if let Some(signed) = Spread::waiting_for(ordered.await?) {
            return Ok(signed);
        }
        self.halt_all(by, break_glass).await
    }

    /// The part of a pause of everything that is an act on each election.
    pub(crate) async fn halt_all(self, by: &OperatorKey, break_glass: Option<&str>) -> Result<Spread, Error> {
        let info = self.0.fresh_info(false).await?;
        let Some(pause) = &info.paused else { return Ok(Spread::default()) };
        let act = Act::Halt { reason: pause.reason.clone(), since: Some(pause.at) };
        self.0.operators().spread(by, &act, break_glass).await
    }

    /// That is over. What was paused by itself before stays so.
    pub async fn resume_all(self, by: &OperatorKey) -> Result<Spread, Error> {
        self.resume_all_urgently(by, None).await
    }

    /// The same; with a reason to, without waiting for the other operators that a policy asks for, wherever it lets one act alone.
    pub async fn resume_all_urgently(
        self,
        by: &OperatorKey,
        break_glass: Option<&str>,
    ) -> Result<Spread, Error> {
        let resume = |info: &StoreInfo| info.paused.is_some().then_some(Ok(StoreChange::Resume));
        let ordered = self.change(by, break_glass, None, resume).await?;
        match Spread::waiting_for(ordered) {
            Some(signed) => Ok(signed),
            None => self.0.operators().spread(by, &Act::Resume, break_glass).await,
        }
    }
}

impl Coordinator {
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
        if matches!(gathering.order.act, Act::Halt { .. }) && self.decides() != Decides::Store {
            // It counts only in the pause of everything that it is of, which may have changed since this client looked.
            self.fresh_info(false).await?;
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
