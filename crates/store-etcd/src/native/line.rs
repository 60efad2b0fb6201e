//! The candidates in all elections of a prefix, or in the line of one. For people: nothing is decided by it.

use std::collections::BTreeSet;

use baton_api::elections::QueuedCandidate;
use baton_election::ElectionName;
use baton_store::{Key, StoreError};

use super::candidacy::is_direct;
use super::{EtcdElections, candidate};
use crate::shape::Area;
use crate::wire::etcdserverpb::RangeRequest;
use crate::wire::etcdserverpb::range_request::{SortOrder, SortTarget};

/// How many keys are asked for at a time.
const PAGE: i64 = 1_000;

impl EtcdElections {
    /// The elections that somebody stands for.
    pub(super) async fn elections_now(&self) -> Result<Vec<Key>, StoreError> {
        let mut area = self.keys.all();
        let mut elections = BTreeSet::new();
        loop {
            let answer = self.client.range(&area.keys(PAGE)).await;
            let answer = answer.map_err(|fault| fault.of_reading(&self.client.location))?;
            for found in answer.kvs.iter().filter(|found| candidate::is_one(found)) {
                let end = found.key.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                let election = self.keys.key_of(&found.key[..end]);
                elections.extend(election.filter(|key| matches!(key, Key::Election(_))));
            }
            match answer.kvs.last() {
                Some(last) if answer.more => area.from = [last.key.as_slice(), &[0]].concat(),
                Some(_) | None => return Ok(elections.into_iter().collect()),
            }
        }
    }

    /// The candidates of an election, the leader first.
    pub(super) async fn line_now(
        &self,
        election: &ElectionName,
        limit: usize,
    ) -> Result<Vec<QueuedCandidate>, StoreError> {
        let path = self.keys.election(election);
        let request = RangeRequest {
            limit: i64::try_from(limit).unwrap_or(i64::MAX),
            sort_order: SortOrder::Ascend.into(),
            sort_target: SortTarget::Create.into(),
            ..Area::below(&path).request()
        };
        let answer = self.client.range(&request).await;
        let answer = answer.map_err(|fault| fault.of_reading(&self.client.location))?;
        let mut line = Vec::new();
        for found in answer.kvs.iter().filter(|found| is_direct(&path, found)) {
            line.push(self.with_length(found).await?);
        }
        Ok(line)
    }
}
