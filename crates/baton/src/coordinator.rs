//! The one door to elections, whatever the store.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use baton_election::command::{Acknowledge, Acquire, Finding, Pass, Release, Renew, Report, WriteCheckpoint};
use baton_election::document::{Checkpoint, Reference, Transition};
use baton_election::operator::{Act, OperatorKey, PublicKey, Signed};
use baton_election::policy::Limits;
use baton_election::time::{Moment, Span};
use baton_election::{
    AgentName, Answer, Command, Credential, Document, ElectionName, Epoch, Incarnation, LeaseKey, Margins,
    Refusal, StoreId, StoreInfo, fence,
};
use baton_store::{Access, Clock, Key, Prefix, Record, Store, StoreError, boot};

use crate::backoff::Patience;
use crate::connect;
use crate::error::Error;
use crate::local::{Executed, First, Local, Step};
use crate::memory::Memory;

/// A client of one store. Clones share what they have seen.
#[derive(Clone)]
pub struct Coordinator {
    pub(crate) local: Arc<Local>,
    pub(crate) patience: Patience,
}

/// An election as it stands, with what this client can tell of its lease.
#[derive(Clone, Debug)]
pub struct View {
    /// The document; none if there is no such election.
    pub document: Option<Document>,
    /// A lower bound on the time since its last beat.
    pub age: Span,
}

impl View {
    /// Who leads and whose lease runs, as far as this client can tell.
    pub fn leader(&self) -> Option<&baton_election::document::Leader> {
        self.document.as_ref()?.current_leader(self.age)
    }
}

/// What an agent asks for when it wants to lead.
#[derive(Clone, Debug)]
pub struct Bid {
    /// Who.
    pub agent: AgentName,
    /// How long the lease shall last; without it, as long as the policy says.
    pub ttl: Option<Span>,
    /// What will be coordinated, in words.
    pub task: Option<String>,
    /// For the policy `priority`.
    pub priority: i64,
    /// For the policy `capable`.
    pub capabilities: BTreeSet<String>,
    /// For the policy `capable`: how well.
    pub score: i64,
    /// For the policy `available`.
    pub load: u64,
    /// Limits of its own, beside the policy's.
    pub limits: Limits,
}

impl Bid {
    /// A plain bid.
    pub fn new(agent: AgentName) -> Bid {
        Bid {
            agent,
            ttl: None,
            task: None,
            priority: 0,
            capabilities: BTreeSet::new(),
            score: 0,
            load: 0,
            limits: Limits::default(),
        }
    }
}

/// A lease that was granted.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The token.
    pub epoch: Epoch,
    /// What proves to be its holder.
    pub credential: Credential,
    /// How long the lease lasts after each renewal.
    pub ttl: Span,
    /// When the request was first sent, on this machine's boot-time clock.
    pub asked_at: Moment,
    /// The document as granted.
    pub document: Document,
    /// It had been granted before.
    pub repeated: bool,
}

impl Grant {
    /// When the holder must have stopped, unless it renews.
    pub fn deadline(&self) -> Moment {
        Margins::STANDARD.deadline(self.asked_at, self.ttl)
    }
}

/// A credential that nobody else has.
pub fn mint_credential() -> Result<Credential, Error> {
    let (mut incarnation, mut key) = ([0; 8], [0; 16]);
    getrandom::fill(&mut incarnation).map_err(std::io::Error::other)?;
    getrandom::fill(&mut key).map_err(std::io::Error::other)?;
    Ok(Credential { incarnation: Incarnation(incarnation), key: LeaseKey(key) })
}

impl Coordinator {
    /// Opens the store that a URL names, to take part.
    pub async fn connect(url: &str) -> Result<Coordinator, Error> {
        Coordinator::connect_for(url, Access::Write, Memory::new()).await
    }

    /// Opens the store that a URL names, with what was seen of it before.
    pub async fn connect_for(url: &str, access: Access, memory: Memory) -> Result<Coordinator, Error> {
        Ok(Coordinator::with_store(connect::open(&url.parse()?, access).await?, memory))
    }

    /// Uses a store that is open already.
    pub fn with_store(store: Arc<dyn Store>, memory: Memory) -> Coordinator {
        Coordinator { local: Arc::new(Local::new(store, memory)), patience: Patience::default() }
    }

    /// The same, knowing what an earlier client has seen of this store.
    #[must_use]
    pub fn remembering(self, memory: Memory) -> Coordinator {
        *self.local.memory() = memory.taken_up();
        self
    }

    /// The same, more or less patient with a store that fails.
    #[must_use]
    pub fn patient(mut self, patience: Patience) -> Coordinator {
        self.patience = patience;
        self
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.local.store
    }

    /// What this client has seen so far, to be taken up by a later one.
    pub fn memory(&self) -> Memory {
        self.local.memory().clone()
    }

    /// What the store knows of itself; an error if it is not one yet.
    pub async fn info(&self) -> Result<Arc<StoreInfo>, Error> {
        self.local.info(self.patience, false).await
    }

    /// An election as it stands.
    pub async fn view(&self, election: &ElectionName) -> Result<View, Error> {
        let seen = self.local.see(election).await?;
        Ok(View { document: seen.document, age: seen.age })
    }

    /// All elections.
    pub async fn elections(&self) -> Result<Vec<ElectionName>, Error> {
        let keys = self.local.store.list(&Prefix::Elections).await?;
        let name = |key| if let Key::Election(name) = key { Some(name) } else { None };
        Ok(keys.into_iter().filter_map(name).collect())
    }

    /// The last changes of leader, the oldest first.
    pub async fn history(&self, election: &ElectionName, limit: usize) -> Result<Vec<Transition>, Error> {
        self.local.history(election, limit).await
    }

    /// Asks for the lease once.
    pub async fn acquire(
        &self,
        election: &ElectionName,
        bid: &Bid,
        credential: Credential,
        reason: Option<String>,
        noticed_at: Option<Moment>,
    ) -> Result<Grant, Error> {
        if self.store().native().is_none() {
            return self.acquire_from(First::Look, election, bid, credential, reason, noticed_at).await;
        }
        let line = First::Line(credential);
        let asked = self.acquire_from(line, election, bid, credential, reason, noticed_at).await;
        if matches!(asked, Err(Error::Refused(Refusal::Held { .. }))) {
            // Who asks once does not wait in line.
            self.release(election, Epoch(0), credential, None).await?;
        }
        asked
    }

    /// Gives back what was granted to this credential, if anything, and its place in line: the answer may have been lost.
    /// Nothing was done under it.
    pub async fn give_up(
        &self,
        election: &ElectionName,
        credential: Credential,
        reason: &str,
    ) -> Result<(), Error> {
        let epoch = if self.store().native().is_some() {
            Some(Epoch(0))
        } else {
            let leader = self.view(election).await?.document.and_then(|document| document.leader);
            leader.filter(|leader| leader.incarnation == credential.incarnation).map(|leader| leader.epoch)
        };
        if let Some(epoch) = epoch {
            self.release(election, epoch, credential, Some(reason.to_string())).await?;
        }
        Ok(())
    }

    /// The same, right after a look.
    pub(crate) async fn acquire_from(
        &self,
        first: First,
        election: &ElectionName,
        bid: &Bid,
        credential: Credential,
        reason: Option<String>,
        noticed_at: Option<Moment>,
    ) -> Result<Grant, Error> {
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| {
            Command::Acquire(Acquire {
                agent: bid.agent.clone(),
                incarnation: credential.incarnation,
                key_hash: credential.key.hash(),
                ttl: bid.ttl,
                task: bid.task.clone(),
                capabilities: bid.capabilities.clone(),
                limits: bid.limits.clone(),
                reason: reason.clone(),
                noticed: noticed_at.map(|noticed| boot::now().since(noticed)),
                offer: false,
            })
        };
        let Executed { answer, document, asked_at } =
            self.local.execute(election, self.patience, first, &make).await?;
        match answer {
            Answer::Granted { epoch, ttl, repeated, .. } => {
                Ok(Grant { epoch, credential, ttl, asked_at, document, repeated })
            }
            other => unreachable!("an acquire is granted or refused, not {other:?}"),
        }
    }

    /// Renews a lease. Returns the answer and when it was asked for.
    pub async fn renew(&self, election: &ElectionName, renewal: &Renew) -> Result<(Answer, Moment), Error> {
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| Command::Renew(renewal.clone());
        let executed = self.local.execute(election, self.patience, First::Own, &make).await?;
        Ok((executed.answer, executed.asked_at))
    }

    /// Gives the lease back. The work under it has stopped.
    pub async fn release(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        reason: Option<String>,
    ) -> Result<Document, Error> {
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| {
            Command::Release(Release { epoch, credential, reason: reason.clone() })
        };
        Ok(self.local.execute(election, self.patience, First::Own, &make).await?.document)
    }

    /// Gives the lease back and keeps the election for a successor for one lease. The work under it has stopped.
    pub async fn pass(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        to: &AgentName,
        reason: Option<String>,
    ) -> Result<Document, Error> {
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| {
            Command::Pass(Pass { epoch, credential, to: to.clone(), reason: reason.clone() })
        };
        Ok(self.local.execute(election, self.patience, First::Own, &make).await?.document)
    }

    /// Leaves something for the successor.
    pub async fn checkpoint(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        content: &CheckpointContent,
    ) -> Result<Answer, Error> {
        // The number is fixed by the first look, so that a retry after a lost reply is known as the same checkpoint.
        let seq: OnceLock<u64> = OnceLock::new();
        let make = |document: Option<&Document>, _: StoreId, _: Epoch| {
            let last = document.and_then(|document| document.checkpoint.as_ref()).map_or(0, |last| last.seq);
            Command::Checkpoint(WriteCheckpoint {
                epoch,
                credential,
                seq: *seq.get_or_init(|| last + 1),
                summary: content.summary.clone(),
                state: content.state.clone(),
                reference: content.reference.clone(),
            })
        };
        Ok(self.local.execute(election, self.patience, First::Own, &make).await?.answer)
    }

    /// What the predecessor left, if anything.
    pub async fn handover(&self, election: &ElectionName) -> Result<Option<Checkpoint>, Error> {
        let document = self.view(election).await?.document;
        Ok(document.and_then(|document| document.checkpoint).map(|checkpoint| (*checkpoint).clone()))
    }

    /// Takes on what the predecessor left.
    pub async fn acknowledge(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        checkpoint: &Checkpoint,
    ) -> Result<Answer, Error> {
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| {
            Command::Acknowledge(Acknowledge { epoch, credential, hash: checkpoint.hash })
        };
        Ok(self.local.execute(election, self.patience, First::Look, &make).await?.answer)
    }

    /// Says that the leader is not useful.
    pub async fn report(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        finding: Finding,
        detail: &str,
        by: &AgentName,
        credential: Option<Credential>,
    ) -> Result<Answer, Error> {
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| {
            let (by, detail) = (by.clone(), detail.to_string());
            Command::Report(Report { epoch, finding, detail, by, credential })
        };
        Ok(self.local.execute(election, self.patience, First::Look, &make).await?.answer)
    }

    /// Whether a token may act, as the election stands.
    pub async fn check(&self, election: &ElectionName, token: Epoch) -> Result<View, Error> {
        let view = self.view(election).await?;
        match &view.document {
            None => Err(Refusal::UnknownElection { election: election.to_string() }.into()),
            Some(document) => {
                fence::check(token, document, view.age)?;
                Ok(view)
            }
        }
    }

    /// Carries out an operator's act, signed for the election as it stands.
    pub async fn operate(
        &self,
        election: &ElectionName,
        key: &OperatorKey,
        act: &Act,
    ) -> Result<Answer, Error> {
        // Signed for what the first look shows, so that a retry after a lost reply is known as the same act, and so that an
        // act meant for one leadership does not hit the next.
        let signed: OnceLock<Signed> = OnceLock::new();
        let make = |document: Option<&Document>, store: StoreId, floor: Epoch| {
            let sign = || match document {
                Some(document) => key.sign(document, act.clone()),
                None => key.sign(&Document::new(election.clone(), store, floor, &[]), act.clone()),
            };
            Command::Operate(signed.get_or_init(sign).clone())
        };
        match self.local.execute(election, self.patience, First::Look, &make).await {
            Err(Error::Store(error @ StoreError::Diverged { .. })) => {
                self.settle(election, key, act, error).await
            }
            outcome => Ok(outcome?.answer),
        }
    }

    /// Makes this key an operator's, in the store and in every election that exists. Returns how many those are.
    pub async fn enrol(&self, key: &OperatorKey) -> Result<usize, Error> {
        self.local.info(self.patience, true).await?;
        let public = key.public();
        self.enrol_in_store(public).await?;
        self.local.fresh_info(self.patience, true).await?;
        let elections = self.elections().await?;
        for election in &elections {
            self.operate(election, key, &Act::Enrol { key: public }).await?;
        }
        Ok(elections.len())
    }

    async fn enrol_in_store(&self, public: PublicKey) -> Result<(), Error> {
        self.local
            .change(&Key::Store, self.patience, |look| {
                let Some(Record::Store(info)) = look.record else {
                    return Err(
                        Refusal::invalid("the store's own record is gone", "run baton init again").into()
                    );
                };
                if info.operator_keys.contains(&public) {
                    return Ok(Step::Done(()));
                }
                let mut next = info.clone();
                next.operator_keys.push(public);
                Ok(Step::Write(Record::Store(next), Clock::Keep, ()))
            })
            .await
    }
}

/// What a leader leaves for its successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointContent {
    /// One line for people.
    pub summary: String,
    /// The state, as JSON text.
    pub state: String,
    /// Where a larger state lies.
    pub reference: Option<Reference>,
}
