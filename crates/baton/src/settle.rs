//! Two histories of one record, and the operator's word on which one holds.

use baton_election::document::Leader;
use baton_election::operator::{Act, OperatorKey};
use baton_election::{
    Answer, Command, Document, ElectionName, Evidence, Incarnation, KeyHash, Span, State, StoreInfo, decide,
};
use baton_store::{Claim, Key, Record, StoreError, boot};

use crate::coordinator::Coordinator;
use crate::error::Error;

impl Coordinator {
    /// An operator's appointment, made on top of the claim with the highest epoch, ends a divergence.
    pub(crate) async fn settle(
        &self,
        election: &ElectionName,
        key: &OperatorKey,
        act: &Act,
        diverged: StoreError,
    ) -> Result<Answer, Error> {
        let StoreError::Diverged { claims, settles, .. } = &diverged else { return Err(diverged.into()) };
        if !matches!(act, Act::Appoint { .. }) {
            return Err(diverged.into());
        }
        let info = self.local.info(self.patience, true).await?;
        let Some(base) = common_ground(claims, &info) else { return Err(diverged.into()) };
        let evidence = Evidence {
            election,
            store: info.id,
            age: Span::ZERO,
            wall: boot::wall(),
            floor: base.epoch,
            vanished_lease: Span::ZERO,
            operator_keys: &info.operator_keys,
        };
        let decision = decide(Some(&base), &Command::Operate(key.sign(&base, act.clone())), &evidence)?;
        if let Some(next) = decision.next {
            let record = Record::Election(Box::new(next));
            self.local.settle(&Key::Election(election.clone()), settles, &record).await?;
        }
        Ok(decision.answer)
    }
}

/// A vacant document above every claim. Either claimant may be at work, so that the longest of their leases is waited for,
/// and neither can shorten the wait for the other by releasing.
///
/// Who the operators are is the store's word: a claim that was made up may name others.
fn common_ground(claims: &[Claim], info: &StoreInfo) -> Option<Document> {
    let documents: Vec<&Document> = claims
        .iter()
        .filter_map(|claim| match claim.record.as_deref() {
            Some(Record::Election(document)) => Some(&**document),
            Some(_) | None => None,
        })
        .collect();
    let newest = documents.iter().max_by_key(|document| document.epoch)?;
    let holders = documents.iter().filter_map(|document| document.lease_holder());
    let outgoing = holders.max_by_key(|holder| holder.ttl).map(|holder| Leader {
        incarnation: Incarnation([0; 8]),
        key_hash: KeyHash([0; 32]),
        ..holder.clone()
    });
    let mut ground = (*newest).clone();
    ground.epoch = ground.epoch.next();
    ground.beat = documents.iter().map(|document| document.beat).max().unwrap_or(0) + 1;
    ground.acts = documents.iter().map(|document| document.acts).max().unwrap_or(0);
    ground.checkpoint =
        documents.iter().filter_map(|document| document.checkpoint.clone()).max_by_key(|left| left.seq);
    if !info.operator_keys.is_empty() {
        ground.operator_keys = info.operator_keys.clone().into();
    }
    ground.leader = None;
    ground.outgoing = outgoing;
    ground.state = State::Vacant;
    Some(ground)
}
