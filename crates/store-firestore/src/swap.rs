//! One swap: one commit, tried again only while it surely was not applied.

use std::time::Duration;

use baton_election::{Document, ElectionName};
use baton_pubsub::jitter::Backoff;
use baton_store::{AgeStamp, Expect, Key, Record, StoreError, Swapped, boot};
use gcloud_sdk::google::firestore::v1 as api;
use gcloud_sdk::prost_types::Timestamp;
use gcloud_sdk::tonic::Code;
use tokio::time::Instant;

use crate::election_cache::{CachedDocument, CachedElection};
use crate::fault::{Failure, refused, writing};
use crate::mark::{self, Mark};
use crate::pace::{self, Beat};
use crate::store::Inner;
use crate::{shape, time};

/// How often a commit that the server gave up for others' sake is tried again.
const RETRIES: u32 = 5;
/// The waits before that.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_millis(800);

impl Inner {
    /// Puts `next` under the key if what is there is what is expected.
    pub(crate) async fn swap(
        &self,
        key: &Key,
        expect: &Expect,
        next: &Record,
        clock: AgeStamp,
    ) -> Result<Swapped, StoreError> {
        self.check_lease(next)?;
        let write = shape::write(self.place.document(key), key, next, expect, clock)?;
        let update_time = match (key, next) {
            (Key::Election(election), Record::Election(document)) => {
                self.swap_election(election, expect, document, clock, write).await?
            }
            (_, _) => self.commit(vec![write]).await?.0,
        };
        Ok(Swapped { version: time::version(&update_time) })
    }

    /// Refuses leases whose renewals would come faster than Firestore bears.
    fn check_lease(&self, next: &Record) -> Result<(), StoreError> {
        match pace::lease(next).filter(|lease| *lease < self.shortest) {
            None => Ok(()),
            Some(lease) => Err(refused(
                &self.place.location,
                format!(
                    "a lease of {lease} is renewed faster than once a second, which Firestore does not bear"
                ),
                &format!("use a lease of {} or more", self.shortest),
            )),
        }
    }

    /// Swaps an election, along with its mark if that must change.
    async fn swap_election(
        &self,
        election: &ElectionName,
        expect: &Expect,
        next: &Document,
        clock: AgeStamp,
        write: api::Write,
    ) -> Result<Timestamp, StoreError> {
        let known = self.known(election, expect).await?;
        if *expect == Expect::Absent && !Mark::lets_begin(known.mark.as_ref(), next) {
            // Decided on a trace that is out of date: there was a leader meanwhile.
            return Err(StoreError::Conflict);
        }
        let beat = Beat::of(next);
        if let (Some(seen), Some(written)) = (&known.document, known.written)
            && seen.beat.is_renewed_by(&beat)
        {
            let lease = next.lease_remaining(baton_election::Span::ZERO);
            // Waiting is good manners: whatever keeps it from being done, the renewal is sent.
            let _ = boot::sleep(pace::pause(boot::now(), written, seen.beaten, lease)).await;
        }
        let marked = Mark::must_change(known.mark.as_ref(), next);
        let mut writes = vec![write];
        if marked {
            writes.push(mark::write(self.place.mark(election), known.mark.as_ref(), next));
        }
        let sent = boot::now();
        let (update_time, mark_time) = self.commit(writes).await?;
        let beaten = match (clock, known.document) {
            (AgeStamp::Preserve, Some(seen)) => seen.beaten,
            (AgeStamp::Reset, Some(_)) | (AgeStamp::Reset | AgeStamp::Preserve, None) => sent,
        };
        let mark = match mark_time.filter(|_| marked) {
            Some(mark_time) => Some(Mark::after(known.mark.as_ref(), next, mark_time)),
            None => known.mark,
        };
        let seen = CachedDocument { version: time::version(&update_time), beat, beaten };
        self.memory
            .wrote(election, CachedElection { document: Some(seen), mark, written: Some(boot::now()) });
        Ok(update_time)
    }

    /// What is known of the election that is about to be swapped; read if need be.
    async fn known(&self, election: &ElectionName, expect: &Expect) -> Result<CachedElection, StoreError> {
        if let Some(known) = self.memory.expected(election, expect) {
            return Ok(known);
        }
        let _ = self.read(&Key::Election(election.clone())).await?;
        self.memory.expected(election, expect).ok_or(StoreError::Conflict)
    }

    /// Commits the writes. The version after the first, and after the second if there is one.
    ///
    /// `ABORTED` says that nothing was applied, so a retry cannot meet its own former self.
    async fn commit(&self, writes: Vec<api::Write>) -> Result<(Timestamp, Option<Timestamp>), StoreError> {
        let deadline = Instant::now() + self.client.limit;
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        let mut retries = 0;
        loop {
            let failure = match self.client.commit(writes.clone()).await {
                Ok(times) => match times.first() {
                    Some(first) => return Ok((*first, times.get(1).copied())),
                    None => Failure::Silence,
                },
                Err(failure) => failure,
            };
            let aborted = matches!(&failure, Failure::Status(status) if status.code() == Code::Aborted);
            let wait = backoff.wait();
            if !aborted || retries == RETRIES || Instant::now() + wait >= deadline {
                return Err(writing(&self.place.location, &failure));
            }
            retries += 1;
            tokio::time::sleep(wait).await;
        }
    }
}
