//! A candidacy: put, kept alive and withdrawn, and the leader of an election.

use baton_api::elections::QueuedCandidate;
use baton_election::{AgentName, Credential, ElectionName, Span};
use baton_store::{Key, StoreError};

use super::lease::Held;
use super::{Candidacy, EtcdElections, RenewedLease, candidate};
use crate::client::Effect;
use crate::fault::Meaning;
use crate::shape::{self, Area};
use crate::store::ranges;
use crate::wire::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::wire::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::wire::etcdserverpb::request_op::Request;
use crate::wire::etcdserverpb::response_op::Response;
use crate::wire::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, TxnResponse,
};
use crate::wire::mvccpb::KeyValue;

/// How often a request is made anew because etcd's leader changed under it.
const ROUNDS: u32 = 4;

/// The keys that a candidate found when it put its own.
struct CandidateKeys {
    own: KeyValue,
    lowest: KeyValue,
}

impl EtcdElections {
    pub(super) async fn stand_now(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        credential: &Credential,
        ttl: Span,
    ) -> Result<Candidacy, StoreError> {
        let path = self.keys.election(election);
        let lease = self.lease_of(election, credential);
        let mut stood = None;
        for _ in 0..ROUNDS {
            let held = self.hold(lease, ttl).await?;
            let mut answer = Some(self.look(&path, lease).await?);
            let stands = !answer.as_ref().is_some_and(stands_nowhere);
            // What a later round finds may be of an earlier one.
            let stood = *stood.get_or_insert(stands);
            if !stands {
                answer = self.put(&path, lease, agent).await?;
            }
            let Some(answer) = answer.filter(|answer| held.is_confirmed_by(answer.header.as_ref())) else {
                continue;
            };
            let found = match self.keys_found(&path, lease, &answer) {
                Err(error @ StoreError::Refused { .. }) => {
                    // Whoever may not stand does not stay: its lease would only wait for its end.
                    let _ = self.revoke(lease).await;
                    return Err(error);
                }
                found => found?,
            };
            return Ok(self.candidacy(held, &found, stood).await);
        }
        Err(self.unsettled())
    }

    async fn candidacy(&self, held: Held, found: &CandidateKeys, stood: bool) -> Candidacy {
        let leads = found.lowest.key == found.own.key;
        let leader = if leads {
            QueuedCandidate { ttl: Some(held.ttl), left: Some(held.ttl), ..candidate::leader(&found.lowest) }
        } else {
            // It stands by now, whether etcd tells how long the leader's lease is or not.
            let told = self.with_length(&found.lowest).await;
            told.unwrap_or_else(|_| candidate::leader(&found.lowest))
        };
        let epoch = candidate::epoch(found.own.create_revision);
        Candidacy { leads, stood, epoch, leader, ttl: held.ttl, asked_at: held.asked_at }
    }

    /// What there is, without a write: one who waits looks often.
    async fn look(&self, path: &str, lease: i64) -> Result<TxnResponse, StoreError> {
        let request = TxnRequest { success: self.sights(path, lease), ..TxnRequest::default() };
        let answer = self.client.txn(Effect::Repeatable, &request).await;
        answer.map_err(|fault| fault.of_reading(&self.client.location))
    }

    /// Puts the key of a candidate if it is not there, unless Baton's own records are. None if the lease has ended.
    async fn put(
        &self,
        path: &str,
        lease: i64,
        agent: &AgentName,
    ) -> Result<Option<TxnResponse>, StoreError> {
        let key = candidate::key(path, lease);
        let put =
            PutRequest { key: key.clone().into_bytes(), value: agent.as_str().as_bytes().to_vec(), lease };
        let mut success = vec![shape::operation(Request::RequestPut(put))];
        success.extend(self.sights(path, lease));
        let request = TxnRequest {
            compare: vec![shape::is_absent(&key), shape::is_absent(path), shape::is_absent(&self.info())],
            success,
            failure: self.sights(path, lease),
        };
        // Twice is as good as once: the second time the key is there.
        match self.client.txn(Effect::Repeatable, &request).await {
            Ok(answer) => Ok(Some(answer)),
            Err(fault) if fault.meaning() == Meaning::LeaseIsGone => Ok(None),
            Err(fault) => Err(fault.of_writing(&self.client.location)),
        }
    }

    /// What is looked at: the own key, the leader's, and two records that Baton would have written.
    fn sights(&self, path: &str, lease: i64) -> Vec<RequestOp> {
        vec![
            shape::look(Area::only(&candidate::key(path, lease)).request()),
            shape::look(lowest(path)),
            shape::look(Area::only(path).keys(1)),
            shape::look(Area::only(&self.info()).keys(1)),
        ]
    }

    /// The key of what a store of Baton's knows of itself.
    fn info(&self) -> String {
        self.keys.text(&Key::Store)
    }

    /// What the transaction that puts a key found, if it is as the recipe has it.
    fn keys_found(&self, path: &str, lease: i64, answer: &TxnResponse) -> Result<CandidateKeys, StoreError> {
        let mut ranges = ranges(answer).map(|range| range.kvs.first());
        let (own, lowest) = (ranges.next().flatten(), ranges.next().flatten());
        if let Some(record) = ranges.flatten().next() {
            return Err(self.mixed(record));
        }
        let (Some(own), Some(lowest)) = (own, lowest) else {
            return Err(StoreError::Unknown {
                location: self.location(),
                why: format!("the candidacy in `{path}` is neither there nor refused"),
            });
        };
        if own.lease != lease {
            return Err(StoreError::Corrupt {
                place: self.keys.place(&own.key),
                why: "it is not bound to the lease that it is named after, and would never end".to_string(),
                hint: "somebody wrote it by hand; delete it: etcdctl del KEY".to_string(),
            });
        }
        if !is_direct(path, lowest) {
            return Err(self.foreign(lowest));
        }
        Ok(CandidateKeys { own: own.clone(), lowest: lowest.clone() })
    }

    pub(super) async fn keep_alive_now(
        &self,
        election: &ElectionName,
        credential: &Credential,
    ) -> Result<Option<RenewedLease>, StoreError> {
        let path = self.keys.election(election);
        let lease = self.lease_of(election, credential);
        let key = candidate::key(&path, lease);
        for _ in 0..ROUNDS {
            let Some(held) = self.renew(lease).await? else { return Ok(None) };
            let answer = self.client.range(&lowest(&path)).await;
            let answer = answer.map_err(|fault| fault.of_reading(&self.client.location))?;
            let ours = answer.kvs.first().filter(|found| found.key == key.as_bytes() && found.lease == lease);
            match ours {
                None => return Ok(None),
                Some(found) if held.is_confirmed_by(answer.header.as_ref()) => {
                    let epoch = candidate::epoch(found.create_revision);
                    return Ok(Some(RenewedLease { epoch, ttl: held.ttl, asked_at: held.asked_at }));
                }
                Some(_) => {}
            }
        }
        Err(self.unsettled())
    }

    pub(super) async fn leave_now(
        &self,
        election: &ElectionName,
        credential: &Credential,
    ) -> Result<bool, StoreError> {
        let path = self.keys.election(election);
        let lease = self.lease_of(election, credential);
        let key = candidate::key(&path, lease).into_bytes();
        let request = TxnRequest {
            compare: vec![is_bound(&key, lease)],
            success: vec![shape::operation(Request::RequestDeleteRange(DeleteRangeRequest { key }))],
            failure: Vec::new(),
        };
        let answer = self.client.txn(Effect::Repeatable, &request).await;
        let answer = answer.map_err(|fault| fault.of_writing(&self.client.location))?;
        let stood = answer.responses.iter().any(
            |part| matches!(&part.response, Some(Response::ResponseDeleteRange(gone)) if gone.deleted > 0),
        );
        // The key is gone, and that is what counts; a lease that stays runs out.
        let revoked = self.revoke(lease).await;
        if stood { Ok(true) } else { revoked.map(|()| false) }
    }

    pub(super) async fn leader_now(
        &self,
        election: &ElectionName,
    ) -> Result<Option<QueuedCandidate>, StoreError> {
        let path = self.keys.election(election);
        // A candidate that nobody is: only the leader is asked for.
        let answer = self.look(&path, 0).await?;
        let lowest = {
            let mut ranges = ranges(&answer).map(|range| range.kvs.first()).skip(1);
            let lowest = ranges.next().flatten();
            match ranges.flatten().next() {
                Some(record) => return Err(self.mixed(record)),
                None => lowest,
            }
        };
        match lowest {
            None => Ok(None),
            Some(found) if is_direct(&path, found) => Ok(Some(self.with_length(found).await?)),
            Some(found) => Err(self.foreign(found)),
        }
    }

    pub(super) async fn with_length(&self, found: &KeyValue) -> Result<QueuedCandidate, StoreError> {
        let (ttl, left) = self.length(found.lease).await?.unwrap_or((Span::ZERO, Span::ZERO));
        Ok(QueuedCandidate { ttl: Some(ttl), left: Some(left), ..candidate::leader(found) })
    }

    /// Baton's own records are there.
    fn mixed(&self, record: &KeyValue) -> StoreError {
        StoreError::Refused {
            place: self.keys.place(&record.key),
            why: "it is where Baton keeps records of its own, which etcd's elections know nothing of"
                .to_string(),
            hint: "leave out ?election=etcd, or use another prefix".to_string(),
        }
    }

    /// Something else is there.
    fn foreign(&self, found: &KeyValue) -> StoreError {
        StoreError::Refused {
            place: self.keys.place(&found.key),
            why: "etcd's recipe takes it for the leader, but it is no candidate of this election".to_string(),
            hint: "use a name that is not the beginning of another election's path, and a prefix of its own"
                .to_string(),
        }
    }

    fn unsettled(&self) -> StoreError {
        StoreError::Unavailable {
            location: self.location(),
            why: "etcd's own leader changes again and again".to_string(),
            hint: "look at the members: etcdctl endpoint status --cluster".to_string(),
        }
    }
}

/// Whether there is neither the own key nor a record of Baton's.
fn stands_nowhere(answer: &TxnResponse) -> bool {
    ranges(answer).enumerate().all(|(place, range)| place == 1 || range.kvs.is_empty())
}

/// A request for the candidate that leads.
fn lowest(path: &str) -> RangeRequest {
    RangeRequest {
        limit: 1,
        sort_order: SortOrder::Ascend.into(),
        sort_target: SortTarget::Create.into(),
        ..Area::below(path).request()
    }
}

/// Whether this is a candidate of the election itself, as the recipe makes it.
pub(super) fn is_direct(path: &str, found: &KeyValue) -> bool {
    candidate::is_one(found) && found.key == candidate::key(path, found.lease).as_bytes()
}

/// The condition that a key is there and bound to a lease.
fn is_bound(key: &[u8], lease: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Lease.into(),
        key: key.to_vec(),
        range_end: Vec::new(),
        target_union: Some(TargetUnion::Lease(lease)),
    }
}
