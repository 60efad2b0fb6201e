//! The one door to elections, however they are reached.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_api::elections::{
    AskInfo, AskLease, Decides, Elections, Executed, Settlement, Sighting, StartFrom,
};
use baton_api::{Memory, Patience, retried};
use baton_election::command::{
    Acknowledge, Acquire, Ending, Finding, Pass, Release, Renew, Report, WriteCheckpoint,
};
use baton_election::document::{Checkpoint, Leader, Reference, Transition};
use baton_election::manifest::Coverage;
use baton_election::operator::{Act, OperatorKey, SignedAct};
use baton_election::policy::Limits;
use baton_election::time::{Moment, Span};
use baton_election::{
    AgentName, Answer, Command, Credential, Document, ElectionName, Epoch, Incarnation, LeaseKey, Refusal,
    StoreInfo, fence,
};
use baton_executor::Executor;
use baton_store::{Access, Key, Prefix, Store, StoreError, boot};

use crate::connect::{self, Opened};
use crate::error::Error;
use crate::grant::{Answered, Grant};
use crate::region::Region;

/// A client of elections, however they are reached. Clones share what they have seen.
#[derive(Clone)]
pub struct Coordinator {
    pub(crate) backend: Arc<dyn Elections>,
    pub(crate) patience: Patience,
}

/// An election as it stands, with what this client can tell of its lease.
#[derive(Clone, Debug)]
pub struct View {
    /// The document; none if there is no such election.
    pub document: Option<Document>,
    /// A lower bound on the time since its last beat.
    pub age: Span,
    /// The store itself told that age. Otherwise it is what this client has watched, and what is left of a lease is the most
    /// that can be left: at the first look, all of it.
    pub exact: bool,
    /// It is one of the store's own elections. The store shows the leader, its token and its lease. All else
    /// in the document is as in a new one, since the store knows nothing of it.
    pub native: bool,
}

impl View {
    /// The leader whose lease runs, as far as this client can tell.
    pub fn leader(&self) -> Option<&baton_election::document::Leader> {
        self.document.as_ref()?.current_leader(self.age)
    }

    /// Since when nobody leads what somebody led.
    pub fn leaderless(&self) -> Option<baton_election::handover::Leaderless> {
        self.document.as_ref()?.leaderless(self.age)
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
    /// Where it is reached while it leads.
    pub contact: Option<String>,
    /// The region that it leads, an election right below: it leads only while it leads that.
    pub region: Option<Region>,
    /// What fails of all that it depends on: bars it where the policy says that a leader needs it.
    pub failing: BTreeSet<String>,
}

impl Bid {
    /// What is asked for, under a credential.
    pub(crate) fn acquire(&self, credential: Credential) -> Acquire {
        Acquire {
            ttl: self.ttl,
            task: self.task.clone(),
            capabilities: self.capabilities.clone(),
            limits: self.limits.clone(),
            contact: self.contact.clone(),
            region: self.region.as_ref().map(Region::proof),
            failing: self.failing.clone(),
            ..Acquire::new(self.agent.clone(), credential.incarnation, credential.key.hash())
        }
    }

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
            contact: None,
            region: None,
            failing: BTreeSet::new(),
        }
    }
}

/// A renewal that was answered.
#[derive(Clone, Debug)]
pub struct Renewed {
    /// The answer.
    pub answer: Answer,
    /// When it was asked for: what the lease is counted from.
    pub asked_at: Moment,
    /// How long the lease lasts from there; none if it was ended.
    pub ttl: Option<Span>,
    /// After how much more time a limit is reached, if there is one: a renewal then shows it.
    pub limit_in: Option<Span>,
}

/// A credential that nobody else has.
pub fn mint_credential() -> Result<Credential, Error> {
    let (mut incarnation, mut key) = ([0; 8], [0; 16]);
    getrandom::fill(&mut incarnation).map_err(std::io::Error::other)?;
    getrandom::fill(&mut key).map_err(std::io::Error::other)?;
    Ok(Credential { incarnation: Incarnation(incarnation), key: LeaseKey(key) })
}

impl Coordinator {
    /// Opens the elections that a URL names, to take part.
    pub async fn connect(url: &str) -> Result<Coordinator, Error> {
        Coordinator::connect_for(url, Access::Write, Memory::new()).await
    }

    /// Opens the elections that a URL names, with what was seen of them before.
    pub async fn connect_for(url: &str, access: Access, memory: Memory) -> Result<Coordinator, Error> {
        Ok(match connect::open(&url.parse()?, access).await? {
            Opened::Store(store) => Coordinator::with_store(store, memory),
            Opened::Elections(elections) => Coordinator::over(elections).remembering(memory),
        })
    }

    /// Decides on the elections of a store that is open already.
    pub fn with_store(store: Arc<dyn Store>, memory: Memory) -> Coordinator {
        Coordinator::over(Arc::new(Executor::new(store, memory)))
    }

    /// Uses elections that are open already.
    pub fn over(backend: Arc<dyn Elections>) -> Coordinator {
        Coordinator { backend, patience: Patience::default() }
    }

    /// The same, knowing what an earlier client has seen.
    #[must_use]
    pub fn remembering(self, memory: Memory) -> Coordinator {
        *self.backend.memory().lock() = memory.taken_up();
        self
    }

    /// The same, more or less patient with a store that fails.
    #[must_use]
    pub fn patient(mut self, patience: Patience) -> Coordinator {
        self.patience = patience;
        self
    }

    /// Has this called when this client makes the store: when it is the first to write into it.
    pub fn when_made(&self, tell: impl Fn() + Send + Sync + 'static) {
        self.backend.when_made(Box::new(tell));
    }

    /// The elections behind it.
    pub fn backend(&self) -> &dyn Elections {
        &*self.backend
    }

    /// What this client has seen so far, to be taken up by a later one.
    pub fn memory(&self) -> Memory {
        self.backend.memory().lock().clone()
    }

    /// What the store knows of itself; an error if it is not one yet.
    pub async fn info(&self) -> Result<Arc<StoreInfo>, Error> {
        Ok(self.backend.info(self.patience, AskInfo { fresh: false, make: false }).await?)
    }

    /// The same, as it is at this moment; with `make` the store is made if it is not one yet.
    pub(crate) async fn fresh_info(&self, make: bool) -> Result<Arc<StoreInfo>, Error> {
        Ok(self.backend.info(self.patience, AskInfo { fresh: true, make }).await?)
    }

    /// An election as it stands. One that an operator retired is shown as if there were none.
    pub async fn view(&self, election: &ElectionName) -> Result<View, Error> {
        let view = self.view_of_record(election).await?;
        Ok(View { document: view.document.filter(|document| !document.is_retired()), ..view })
    }

    /// The same as its record has it, also of one that an operator retired.
    pub(crate) async fn view_of_record(&self, election: &ElectionName) -> Result<View, Error> {
        let seen = self.backend.view(election).await?;
        let served = seen.document.as_ref().is_some_and(|document| document.server.is_some());
        let (exact, native) = (self.tells_ages() && !served, self.decides() == Decides::Store);
        Ok(View { document: seen.document, age: seen.age, exact, native })
    }

    /// The part of Baton that decides on these elections.
    pub fn decides(&self) -> Decides {
        self.backend.decides()
    }

    /// Whether the store itself tells how old a lease is; see [`View::exact`].
    pub fn tells_ages(&self) -> bool {
        self.decides() == Decides::Store || self.backend.properties().stamped
    }

    /// All elections that have a record, also those that an operator retired: [`Self::view`] shows nothing of those.
    pub async fn elections(&self) -> Result<Vec<ElectionName>, Error> {
        let keys = self.backend.list(&Prefix::Elections).await?;
        let name = |key| if let Key::Election(name) = key { Some(name) } else { None };
        Ok(keys.into_iter().filter_map(name).collect())
    }

    /// The last changes of leader, the oldest first.
    pub async fn history(&self, election: &ElectionName, limit: usize) -> Result<Vec<Transition>, Error> {
        Ok(self.backend.history(election, limit).await?)
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
        self.acquire_from(StartFrom::Read, election, bid, credential, reason, noticed_at, None).await
    }

    /// Gives back what was granted to this credential, if anything, and its place in line: the answer may have been lost.
    /// Nothing was done under it.
    pub async fn give_up(
        &self,
        election: &ElectionName,
        credential: Credential,
        reason: &str,
    ) -> Result<(), Error> {
        let epoch = if self.decides() == Decides::Store {
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

    /// The same, right after a look; with a wait, in line where there is one.
    #[expect(clippy::too_many_arguments, reason = "two callers, one of which has all of it at hand")]
    pub(crate) async fn acquire_from(
        &self,
        start: StartFrom,
        election: &ElectionName,
        bid: &Bid,
        credential: Credential,
        reason: Option<String>,
        noticed_at: Option<Moment>,
        wait: Option<Span>,
    ) -> Result<Grant, Error> {
        let region = match &bid.region {
            Some(region) => Some(region.shown_to(self).await?),
            None => None,
        };
        let seen = self.known_before_asking(election);
        let noticed = noticed_at.map(|noticed| boot::now().since(noticed));
        let acquire = Acquire { reason, noticed, region, seen, ..bid.acquire(credential) };
        let ask = AskLease { acquire: &acquire, credential, start, wait };
        let executed = self.backend.acquire(self.patience, election, ask).await?;
        self.confirmed(election, Answered::new(executed, credential, bid.region.clone())).await
    }

    /// The lease that an acquire was answered with, counted from a request that is known to have begun or renewed it.
    pub(crate) async fn confirmed(
        &self,
        election: &ElectionName,
        answered: Answered,
    ) -> Result<Grant, Error> {
        let unconfirmed = match answered.judged_at(boot::now()) {
            Answered::Begun(grant) => return Ok(grant),
            Answered::Unconfirmed(unconfirmed) => unconfirmed,
        };
        let shown = match unconfirmed.region() {
            Some(region) => Some(region.shown_to(self).await?),
            None => None,
        };
        let renewal = Command::Renew(unconfirmed.renewal(shown));
        unconfirmed.confirmed(self.backend.execute(self.patience, election, &renewal, StartFrom::Read).await?)
    }

    /// The highest epoch that this client knows of, where requests travel and may be late. A decision made here is made on a look.
    pub(crate) fn known_before_asking(&self, election: &ElectionName) -> Option<Epoch> {
        (self.decides() == Decides::Server).then(|| self.backend.memory().highest(election))
    }

    /// Takes in a document that a server showed.
    pub(crate) fn accept(
        &self,
        document: Option<&Document>,
        age: Span,
        asked_at: Moment,
    ) -> Result<(), StoreError> {
        self.backend.memory().accept(&|| self.backend.location(), document, age, asked_at, None)
    }

    /// Renews a lease.
    pub async fn renew(&self, election: &ElectionName, renewal: &Renew) -> Result<Renewed, Error> {
        let command = Command::Renew(renewal.clone());
        Ok(self.backend.execute(self.patience, election, &command, StartFrom::LastWrite).await?.into())
    }

    /// Gives the lease back. The work under it has stopped.
    pub async fn release(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        reason: Option<String>,
    ) -> Result<Option<Document>, Error> {
        self.leave(election, Release { epoch, credential, reason, ending: Ending::Stopped }).await
    }

    /// The same in the place of a leader that is gone, by whoever ended its work.
    pub async fn release_orphaned(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        reason: &str,
    ) -> Result<Option<Document>, Error> {
        let reason = Some(reason.to_string());
        self.leave(election, Release { epoch, credential, reason, ending: Ending::Orphaned }).await
    }

    /// Gives the lease back, and says how the work under it ended.
    pub async fn leave(&self, election: &ElectionName, release: Release) -> Result<Option<Document>, Error> {
        let command = Command::Release(release);
        Ok(self.backend.execute(self.patience, election, &command, StartFrom::LastWrite).await?.document)
    }

    /// Gives the lease back and keeps the election for a successor for one lease. The work under it has stopped.
    pub async fn pass(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        to: &AgentName,
        reason: Option<String>,
    ) -> Result<Option<Document>, Error> {
        let command = Command::Pass(Pass { epoch, credential, to: to.clone(), reason });
        Ok(self.backend.execute(self.patience, election, &command, StartFrom::LastWrite).await?.document)
    }

    /// Leaves something for the successor.
    pub async fn checkpoint(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        content: &CheckpointContent,
    ) -> Result<Answer, Error> {
        // The number is fixed by one look, so that a retry after a lost reply is known as the same checkpoint.
        let seen = retried(self.patience, || self.backend.view(election)).await?;
        let last = seen.document.as_ref().and_then(|document| document.checkpoint.as_ref());
        let command = Command::Checkpoint(WriteCheckpoint {
            epoch,
            credential,
            seq: last.map_or(0, |last| last.seq) + 1,
            summary: content.summary.clone(),
            state: content.state.clone(),
            reference: content.reference.clone(),
            covers: content.covers.clone(),
        });
        Ok(self.backend.execute(self.patience, election, &command, start_from(seen)).await?.answer)
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
        let command = Command::Acknowledge(Acknowledge { epoch, credential, hash: checkpoint.hash });
        Ok(self.backend.execute(self.patience, election, &command, StartFrom::Read).await?.answer)
    }

    /// Says that the leader is not useful, or that somebody should look at its circuit breakers, or gives a verdict on its output: where the policy counts verdicts it is this judge's next one, and if
    /// its answer is lost it still counts once. Asked for again after an error, it is another: then give it its number, as [`Self::due_verdict`]
    /// told it before the first time, by [`Self::report_numbered`].
    pub async fn report(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        finding: Finding,
        detail: &str,
        by: &AgentName,
        credential: Option<Credential>,
    ) -> Result<Answer, Error> {
        let number = match finding.verdict() {
            Some(_) => {
                let leader = self.leader_in(election, epoch).await?;
                // A caller that shows that it leads judges itself, by whatever name.
                let judge =
                    leader.as_ref().filter(|_| credential.is_some()).map_or(by, |leader| &leader.agent);
                leader.as_ref().map(|leader| leader.verdicts.given_by(judge).saturating_add(1))
            }
            None => None,
        };
        let detail = detail.to_string();
        let (by, checkpoint, open) = (by.clone(), None, None);
        let report = Report { epoch, finding, detail, by, credential, number, checkpoint, open };
        self.report_numbered(election, report).await
    }

    /// The number of this judge's next verdict on whoever leads in this epoch; none if nobody does.
    pub async fn due_verdict(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        judge: &AgentName,
    ) -> Result<Option<u64>, Error> {
        let leader = self.leader_in(election, epoch).await?;
        Ok(leader.map(|leader| leader.verdicts.given_by(judge).saturating_add(1)))
    }

    async fn leader_in(&self, election: &ElectionName, epoch: Epoch) -> Result<Option<Leader>, Error> {
        let leader = self.view(election).await?.document.and_then(|document| document.leader);
        Ok(leader.filter(|leader| leader.epoch == epoch))
    }

    /// The same as [`Self::report`], word for word.
    pub async fn report_numbered(&self, election: &ElectionName, report: Report) -> Result<Answer, Error> {
        let command = Command::Report(report);
        Ok(self.backend.execute(self.patience, election, &command, StartFrom::Read).await?.answer)
    }

    /// Whether a token may act, as the election stands.
    pub async fn check(&self, election: &ElectionName, token: Epoch) -> Result<View, Error> {
        let view = self.view_of_record(election).await?;
        match &view.document {
            None => Err(Refusal::UnknownElection { election: election.to_string() }.into()),
            Some(document) => {
                fence::check(token, document, view.age)?;
                Ok(view)
            }
        }
    }

    /// Carries out an act that an operator has signed, where it still fits; with the election after it.
    pub async fn carry_out(
        &self,
        election: &ElectionName,
        signed: &SignedAct,
    ) -> Result<(Answer, Option<Document>), Error> {
        let command = Command::Operate(signed.clone());
        let executed = self.backend.execute(self.patience, election, &command, StartFrom::Read).await?;
        Ok((executed.answer, executed.document))
    }

    /// Carries out an operator's act, signed for the election as it stands.
    pub async fn operate(
        &self,
        election: &ElectionName,
        key: &OperatorKey,
        act: &Act,
    ) -> Result<Answer, Error> {
        self.operate_urgently(election, key, act, None).await
    }

    /// The same; with a reason, without waiting for the other operators that the policy asks for, if it lets one act alone.
    pub async fn operate_urgently(
        &self,
        election: &ElectionName,
        key: &OperatorKey,
        act: &Act,
        break_glass: Option<&str>,
    ) -> Result<Answer, Error> {
        match self.operate_as_seen(election, key, act, break_glass).await {
            Err(Error::Store(diverged @ StoreError::Diverged { .. })) => {
                let settlement = Settlement { election, key, act, break_glass, diverged };
                Ok(self.backend.settle(self.patience, settlement).await?)
            }
            outcome => outcome,
        }
    }

    /// Signed for what one look shows, so that a retry after a lost reply is known as the same act, and so that an
    /// act meant for one leadership does not hit the next.
    async fn operate_as_seen(
        &self,
        election: &ElectionName,
        key: &OperatorKey,
        act: &Act,
        break_glass: Option<&str>,
    ) -> Result<Answer, Error> {
        let seen = retried(self.patience, || self.backend.view(election)).await?;
        let why = break_glass.map(str::to_string);
        let signed = match &seen.document {
            Some(document) => key.sign_urgently(document, act.clone(), why),
            None => {
                let store = self.fresh_info(true).await?.id;
                let floor = match self.decides() {
                    Decides::Here => self.backend.memory().highest(election),
                    Decides::Server | Decides::Store => Epoch(0),
                };
                let blank = Document::new(election.clone(), store, floor, &[]);
                key.sign_urgently(&blank, act.clone(), why)
            }
        };
        let command = Command::Operate(signed);
        Ok(self.backend.execute(self.patience, election, &command, start_from(seen)).await?.answer)
    }
}

/// A change right after a look begins with what was seen.
pub(crate) fn start_from(seen: Sighting) -> StartFrom {
    seen.reading.map_or(StartFrom::Read, StartFrom::Reading)
}

impl From<Executed> for Renewed {
    fn from(executed: Executed) -> Renewed {
        let limit_in = executed.limit_in();
        let Executed { answer, asked_at, ttl, .. } = executed;
        Renewed { answer, asked_at, ttl, limit_in }
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
    /// What it covers beside itself: [`crate::manifest`].
    pub covers: Option<Coverage>,
}
