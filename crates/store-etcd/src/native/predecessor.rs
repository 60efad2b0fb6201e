//! Wakes a candidate when its predecessor in line changes, and not before.
//!
//! Of a thousand that wait, one is woken when the leader goes: each watches whoever is just ahead of it.

use baton_election::{Credential, ElectionName};
use baton_store::{BoxStream, Change, StoreError};
use futures_util::stream;

use super::{EtcdElections, candidate};
use crate::fault::Fault;
use crate::shape::Area;
use crate::watch::{Feed, WatchRange, pause};
use crate::wire::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::wire::etcdserverpb::{RangeRequest, ResponseHeader};

/// A candidate that watches its predecessor in line.
struct PredecessorWatch {
    elections: EtcdElections,
    path: String,
    key: String,
    feed: Option<Feed>,
    /// What is to be told at once.
    due: Option<Change>,
    /// Whether the feed broke off.
    broken: bool,
    failures: u32,
}

pub(super) async fn watch(
    elections: &EtcdElections,
    election: &ElectionName,
    credential: &Credential,
) -> Result<BoxStream<Change>, StoreError> {
    let path = elections.keys.election(election);
    let key = candidate::key(&path, elections.lease_of(election, credential));
    let elections = elections.clone();
    let mut watch =
        PredecessorWatch { elections, path, key, feed: None, due: None, broken: false, failures: 0 };
    watch.subscribe().await.map_err(|fault| fault.of_reading(&watch.elections.client.location))?;
    let changes = stream::unfold(watch, |mut watch| async move {
        let change = watch.change().await;
        Some((change, watch))
    });
    Ok(Box::pin(changes))
}

impl PredecessorWatch {
    async fn change(&mut self) -> Change {
        loop {
            if let Some(change) = self.due.take() {
                return change;
            }
            match &mut self.feed {
                Some(feed) => {
                    let told = feed.event().await.is_some();
                    // Whoever is ahead has changed: the next feed is another.
                    self.feed = None;
                    self.broken = !told;
                    if told {
                        self.failures = 0;
                        return Change::Changed;
                    }
                }
                None => {
                    if self.broken {
                        tokio::time::sleep(pause(self.failures)).await;
                        self.failures = self.failures.saturating_add(1);
                    }
                    self.broken |= self.subscribe().await.is_err();
                }
            }
        }
    }

    /// Finds out for whom to wait, and waits for it from that very revision on.
    async fn subscribe(&mut self) -> Result<(), Fault> {
        let client = &self.elections.client;
        let own = client.range(&Area::only(&self.key).request()).await?;
        let created = own.kvs.first().map(|found| found.create_revision);
        let mut ranges = vec![WatchRange {
            area: Area::only(&self.key),
            from: after(own.header.as_ref()),
            deletions: created.is_some(),
        }];
        let mut alone = true;
        if let Some(created) = created {
            let answer = client.range(&just_ahead(&self.path, created)).await?;
            if let Some(ahead) = answer.kvs.first() {
                alone = false;
                let area = Area { from: ahead.key.clone(), to: Vec::new() };
                ranges.push(WatchRange { area, from: after(answer.header.as_ref()), deletions: true });
            }
        }
        self.feed = Some(Feed::open(client, &ranges).await?);
        self.due = match (self.broken, alone) {
            (true, _) => Some(Change::Gap),
            (false, true) => Some(Change::Changed),
            (false, false) => None,
        };
        self.broken = false;
        Ok(())
    }
}

/// The revision after the one that an answer was given at.
fn after(header: Option<&ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision.saturating_add(1))
}

/// A request for the last candidate before the one whose key was made at this revision.
fn just_ahead(path: &str, created: i64) -> RangeRequest {
    RangeRequest {
        limit: 1,
        sort_order: SortOrder::Descend.into(),
        sort_target: SortTarget::Create.into(),
        max_create_revision: created.saturating_sub(1),
        keys_only: true,
        ..Area::below(path).request()
    }
}
