//! etcd's own elections as [`Elections`]: commands become moves of etcd's recipe, and what etcd shows becomes a document.
//!
//! There is no document to decide on: etcd's own order decides who leads, its own counter gives the token, and it ends leases by
//! its own clock. What needs records (policies, checkpoints, operators, fences) is refused in one way.

use std::sync::Arc;

use baton_api::elections::{
    AskInfo, AskLease, BoxResult, CommandError, Decides, Elections, Executed, QueuedCandidate, Sighting,
    StartFrom,
};
use baton_api::{Patience, SharedMemory};
use baton_election::command::{Release, Renew};
use baton_election::document::{Cause, Leader, Phase, State, Transition};
use baton_election::policy::Limits;
use baton_election::removal_rules::Verdicts;
use baton_election::time::Span;
use baton_election::{
    Answer, Command, Credential, Document, ElectionName, Epoch, Incarnation, KeyHash, Refusal, StoreId,
    StoreInfo,
};
use baton_store::{
    BoxFuture, BoxStream, Change, Cost, Deletion, Durability, HistoryKept, Key, Prefix, Reading, StoreError,
    StoreProperties, Watching, boot,
};

use super::{EtcdElections, candidate};

/// How long a lease lasts if nobody says: as long as that of a document's policy.
const DEFAULT_TTL: Span = Span::secs(30);

impl EtcdElections {
    fn no_records(&self) -> StoreError {
        StoreError::Refused {
            place: EtcdElections::location(self),
            why: "etcd's own elections keep no records of Baton's".to_string(),
            hint: "run, acquire, renew, release, status and watch work here; for all else use another prefix without ?election=etcd".to_string(),
        }
    }

    /// Stands, or goes on standing. Refused while another leads; the place in line is kept if the candidate waits.
    async fn acquire_now(
        &self,
        election: &ElectionName,
        ask: AskLease<'_>,
    ) -> Result<Executed, CommandError> {
        let AskLease { acquire, credential, wait, .. } = ask;
        let ttl = acquire.ttl.unwrap_or(DEFAULT_TTL);
        let standing = self.stand(election, &acquire.agent, &credential, ttl).await?;
        if !standing.leads {
            if wait.is_none() {
                // A candidate that asks once does not wait in line. If this fails, its place expires, and the
                // answer still names the leader.
                let _ = self.leave(election, &credential).await;
            }
            return Err(Refusal::Held {
                by: Some(standing.leader.agent),
                epoch: standing.leader.epoch,
                remaining: standing.leader.left.or(standing.leader.ttl).unwrap_or(standing.ttl),
                ending: None,
            }
            .into());
        }
        let mut document = shown(election, &standing.leader, standing.ttl);
        if let Some(leader) = &mut document.leader {
            (leader.agent, leader.incarnation) = (acquire.agent.clone(), credential.incarnation);
        }
        let answer = Answer::Granted {
            epoch: standing.epoch,
            ttl: standing.ttl,
            cause: Cause::First,
            offer: false,
            repeated: standing.stood,
        };
        let (document, ttl) = (Some(document), Some(standing.ttl));
        Ok(Executed { answer, document, asked_at: standing.asked_at, ttl })
    }

    async fn renew_now(&self, election: &ElectionName, renew: &Renew) -> Result<Executed, CommandError> {
        let stale = |current| Refusal::Stale {
            shown: renew.epoch,
            current,
            leader: None,
            why: "the lease ended, or its key was deleted".to_string(),
        };
        match self.keep_alive(election, &renew.credential).await? {
            Some(kept) if kept.epoch == renew.epoch => Ok(Executed {
                answer: Answer::Renewed {
                    epoch: kept.epoch,
                    awaiting_approval: false,
                    approval_wanted: false,
                },
                document: None,
                asked_at: kept.asked_at,
                ttl: Some(kept.ttl),
            }),
            Some(kept) => Err(stale(kept.epoch).into()),
            None => Err(stale(renew.epoch).into()),
        }
    }

    /// Gives up the lead of this token, or the place in line. Refused if another leads by now: there was nothing to give up.
    async fn release_now(
        &self,
        election: &ElectionName,
        release: &Release,
    ) -> Result<Executed, CommandError> {
        let (asked_at, token) = (boot::now(), release.epoch);
        let stood = self.leave(election, &release.credential).await?;
        if !stood
            && token > Epoch(0)
            && let Some(leader) = self.leader(election).await?
        {
            return Err(Refusal::Stale {
                shown: token,
                current: leader.epoch,
                leader: Some(leader.agent),
                why: "another leadership has begun".to_string(),
            }
            .into());
        }
        let answer = Answer::Released { reserved_for: None };
        Ok(Executed { answer, document: None, asked_at, ttl: None })
    }
}

impl Elections for EtcdElections {
    fn location(&self) -> String {
        EtcdElections::location(self)
    }

    fn properties(&self) -> StoreProperties {
        StoreProperties {
            age: "etcd itself ends a lease that is not kept alive",
            stamped: false,
            watch: Watching::Pushed,
            durability: Durability::Synced,
            deletion: Deletion::Survives,
            history: HistoryKept::Beside,
            partition: "a client that reaches no majority of etcd's members can neither be a candidate nor stay leader",
            // A keep-alive and a linearizable read.
            cost: Cost { per_renewal: 2, looks_per_hour: 0 },
        }
    }

    fn decides(&self) -> Decides {
        Decides::Store
    }

    fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    fn read<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(async { Err(self.no_records()) })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        match prefix {
            Prefix::Elections => Box::pin(self.elections_now()),
            Prefix::Candidates(_) | Prefix::Fences | Prefix::Audits | Prefix::Items(..) => {
                Box::pin(async { Err(self.no_records()) })
            }
        }
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        match key.as_election() {
            Some(election) => EtcdElections::watch(self, election),
            None => Box::pin(async { Err(self.no_records()) }),
        }
    }

    fn info(&self, _patience: Patience, _ask: AskInfo) -> BoxResult<'_, Arc<StoreInfo>> {
        Box::pin(async { Err(self.unsupported()) })
    }

    fn view<'a>(&'a self, election: &'a ElectionName) -> BoxResult<'a, Sighting> {
        Box::pin(async move {
            let asked_at = boot::now();
            let leader = self.leader(election).await?;
            let document =
                leader.as_ref().map(|leader| shown(election, leader, leader.ttl.unwrap_or(DEFAULT_TTL)));
            // What is left is told in whole seconds, rounded down.
            let age =
                leader.as_ref().and_then(|leader| Some(leader.ttl?.minus(leader.left?.plus(Span::secs(1)))));
            let age = age.unwrap_or(Span::ZERO);
            let location = || EtcdElections::location(self);
            match self.memory.accept(&location, document.as_ref(), age, asked_at, None) {
                // Another task saw a later leader meanwhile; this one was not to be believed long anyway.
                Ok(()) | Err(StoreError::Conflict) => Ok(Sighting { document, age, asked_at, reading: None }),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// etcd keeps none: only the leader that is there is known.
    fn history<'a>(&'a self, _election: &'a ElectionName, _limit: usize) -> BoxResult<'a, Vec<Transition>> {
        Box::pin(async { Err(self.unsupported()) })
    }

    fn execute<'a>(
        &'a self,
        _patience: Patience,
        election: &'a ElectionName,
        command: &'a Command,
        _start: StartFrom,
    ) -> BoxResult<'a, Executed> {
        if let Command::Renew(renew) = command {
            return Box::pin(self.renew_now(election, renew));
        }
        if let Command::Release(release) = command {
            return Box::pin(self.release_now(election, release));
        }
        Box::pin(async { Err(self.unsupported()) })
    }

    fn acquire<'a>(
        &'a self,
        _patience: Patience,
        election: &'a ElectionName,
        ask: AskLease<'a>,
    ) -> BoxResult<'a, Executed> {
        Box::pin(self.acquire_now(election, ask))
    }

    fn line<'a>(&'a self, election: &'a ElectionName, limit: usize) -> BoxResult<'a, Vec<QueuedCandidate>> {
        Box::pin(async move { Ok(self.line_now(election, limit).await?) })
    }

    fn incarnation_of(&self, election: &ElectionName, credential: &Credential) -> Incarnation {
        candidate::incarnation(self.lease_of(election, credential))
    }

    fn unsupported(&self) -> CommandError {
        self.no_records().into()
    }
}

/// What the store shows, in the form that everything else is shown in.
fn shown(election: &ElectionName, leader: &QueuedCandidate, ttl: Span) -> Document {
    let mut document = Document::new(election.clone(), StoreId([0; 8]), leader.epoch, &[]);
    let wall = boot::wall();
    document.state = State::Held;
    document.leader = Some(Leader {
        agent: leader.agent.clone(),
        incarnation: leader.incarnation,
        key_hash: KeyHash([0; 32]),
        epoch: leader.epoch,
        granted: leader.epoch,
        ttl,
        renewals: 0,
        offered: false,
        contact: None,
        region: None,
        through: None,
        phase: Phase::Serving,
        limits: Limits::default(),
        held: Span::ZERO,
        idle: Span::ZERO,
        spent_tokens: 0,
        verdicts: Verdicts::default(),
        acquired: wall,
        expires: wall + leader.left.unwrap_or(ttl),
    });
    document
}
