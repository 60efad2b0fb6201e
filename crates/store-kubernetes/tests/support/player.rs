//! An agent that plays by the rules: the shipped decisions over this store, and nothing more.

use std::collections::BTreeSet;

use baton_election::command::{Acquire, Ending, Release, Renew};
use baton_election::id::{Credential, Incarnation, LeaseKey};
use baton_election::operator::{Act, OperatorKey};
use baton_election::policy::Limits;
use baton_election::time::Moment;
use baton_election::{
    AgentName, Command, Document, ElectionName, Epoch, Evidence, Observer, Refusal, Span, StoreId, decide,
};
use baton_store::{AgeStamp, Change, Key, Persistence, Record, Store, StoreError, boot};
use baton_store_kubernetes::KubernetesStore;
use futures_util::StreamExt;

pub(crate) struct Player {
    pub(crate) store: KubernetesStore,
    pub(crate) epoch: Epoch,
    election: ElectionName,
    agent: AgentName,
    ttl: Span,
    credential: Credential,
    observer: Observer,
}

impl Player {
    pub(crate) fn new(store: KubernetesStore, election: &str, agent: &str, ttl: Span) -> Player {
        Player {
            store,
            epoch: Epoch(0),
            election: ElectionName::new(election).unwrap(),
            agent: AgentName::new(agent).unwrap(),
            ttl,
            credential: fresh_credential(),
            observer: Observer::default(),
        }
    }

    /// Reads, decides and swaps until it is done or refused.
    pub(crate) async fn ask(&mut self, command: &Command) -> Result<Document, Refusal> {
        self.ask_with(&|_| command.clone()).await
    }

    async fn ask_with(&mut self, make: &dyn Fn(Option<&Document>) -> Command) -> Result<Document, Refusal> {
        let key = Key::Election(self.election.clone());
        loop {
            let reading = self.store.read(&key).await.unwrap();
            let document = match reading.record() {
                Some(Record::Election(document)) => Some(&**document),
                Some(_) | None => None,
            };
            let age = document.map_or(Span::ZERO, |document| {
                self.observer.observe(document.pulse(), reading.asked_at, reading.received_at)
            });
            let evidence = Evidence {
                election: &self.election,
                store: StoreId([7; 8]),
                age,
                wall: boot::wall(),
                floor: reading.trace.map_or(Epoch(0), |trace| trace.epoch),
                vanished_lease: Span::ZERO,
                operator_keys: &[operator().public()],
            };
            let Some(next) = decide(document, &make(document), &evidence)?.next else {
                return Ok(document.unwrap().clone());
            };
            let restarts = document.is_none_or(|document| document.beat != next.beat);
            let clock = if restarts { AgeStamp::Reset } else { AgeStamp::Preserve };
            let record = Record::Election(Box::new(next.clone()));
            match self.store.swap(&key, reading.expect(), &record, clock, Persistence::Durable).await {
                Ok(_) => return Ok(next),
                Err(StoreError::Conflict) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Asks once to lead, as a new incarnation. Returns from when the lease counts.
    pub(crate) async fn acquire(&mut self) -> Result<Moment, Refusal> {
        let asked_at = boot::now();
        self.credential = fresh_credential();
        let acquire = Acquire {
            ttl: Some(self.ttl),
            task: Some("refactor authentication".to_string()),
            ..Acquire::new(self.agent.clone(), self.credential.incarnation, self.credential.key.hash())
        };
        self.epoch = self.ask(&Command::Acquire(acquire)).await?.epoch;
        Ok(asked_at)
    }

    /// Waits until it leads, told by the watch.
    pub(crate) async fn campaign(&mut self) -> Moment {
        let key = Key::Election(self.election.clone());
        let mut changes = self.store.watch(&key).await.unwrap();
        loop {
            let wait = match self.acquire().await {
                Ok(asked_at) => return asked_at,
                Err(Refusal::Held { remaining, .. }) => remaining,
                Err(Refusal::Paused { .. }) => Span::secs(1),
                Err(other) => panic!("{other}"),
            };
            tokio::select! {
                change = changes.next() => assert!(matches!(change, Some(Change::Changed | Change::Gap))),
                slept = boot::sleep(wait) => slept.unwrap(),
            }
        }
    }

    pub(crate) async fn renew(&mut self) -> Result<Document, Refusal> {
        let renew = Renew {
            epoch: self.epoch,
            credential: self.credential,
            progress: true,
            spent_tokens: None,
            phase: None,
            promotion: None,
            region: None,
        };
        self.ask(&Command::Renew(renew)).await
    }

    pub(crate) async fn release(&mut self) -> Result<Document, Refusal> {
        let release =
            Release { epoch: self.epoch, credential: self.credential, reason: None, ending: Ending::Stopped };
        self.ask(&Command::Release(release)).await
    }

    /// An operator's act.
    pub(crate) async fn operate(&mut self, act: Act) -> Result<Document, Refusal> {
        let (store, election) = (StoreId([7; 8]), self.election.clone());
        self.ask_with(&move |document| {
            let begun = Document::new(election.clone(), store, Epoch(0), &[]);
            Command::Operate(operator().sign(document.unwrap_or(&begun), act.clone()))
        })
        .await
    }
}

fn operator() -> OperatorKey {
    OperatorKey::from_seed([3; 32])
}

fn fresh_credential() -> Credential {
    let (mut incarnation, mut key) = ([0; 8], [0; 16]);
    getrandom::fill(&mut incarnation).unwrap();
    getrandom::fill(&mut key).unwrap();
    Credential { incarnation: Incarnation(incarnation), key: LeaseKey(key) }
}
