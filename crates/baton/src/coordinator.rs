//! The one door to elections, whatever the store.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use baton_election::command::{
    Acknowledge, Acquire, Ending, Finding, Pass, Release, Renew, Report, WriteCheckpoint,
};
use baton_election::document::{Checkpoint, Leader, Reference, Transition};
use baton_election::manifest::Coverage;
use baton_election::operator::{Act, OperatorKey, SignedAct};
use baton_election::policy::Limits;
use baton_election::removal_rules::OpenBreaker;
use baton_election::time::{Moment, Span};
use baton_election::{
    AgentName, Answer, Command, Credential, Document, ElectionName, Epoch, Incarnation, LeaseKey, Refusal,
    StoreId, StoreInfo, fence,
};
use baton_store::{Access, Key, NativeLeader, Prefix, Store, StoreError, boot};

use crate::backoff::Patience;
use crate::connect;
use crate::error::Error;
use crate::grant::{Answered, Grant};
use crate::local::{Executed, First, Local};
use crate::memory::Memory;
use crate::region::Region;

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
    /// The store itself told that age. Otherwise it is what this client has watched, and what is left of a lease is the most
    /// that can be left: at the first look, all of it.
    pub exact: bool,
    /// It is one of the store's own elections. The store shows the leader, its token and its lease. All else
    /// in the document is made up, since the store knows nothing of it.
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

    /// Has this called when this client makes the store: when it is the first to write into it.
    pub fn when_made(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.local.when_made.set(Box::new(tell));
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

    /// An election as it stands. One that an operator retired is shown as if there were none.
    pub async fn view(&self, election: &ElectionName) -> Result<View, Error> {
        let view = self.view_of_record(election).await?;
        Ok(View { document: view.document.filter(|document| !document.is_retired()), ..view })
    }

    /// The same as its record has it, also of one that an operator retired.
    pub(crate) async fn view_of_record(&self, election: &ElectionName) -> Result<View, Error> {
        let seen = self.local.see(election).await?;
        let served = seen.document.as_ref().is_some_and(|document| document.server.is_some());
        let (exact, native) = (self.tells_ages() && !served, self.store().native().is_some());
        Ok(View { document: seen.document, age: seen.age, exact, native })
    }

    /// Whether the store itself tells how old a lease is; see [`View::exact`].
    pub fn tells_ages(&self) -> bool {
        self.store().native().is_some() || self.store().properties().stamped
    }

    /// The candidates in the store's own line for an election, the leader first, each with what is left of
    /// its lease: a candidate whose process has died stands until its lease expires. At most `limit`; nobody
    /// where the store has no elections of its own.
    pub async fn line(&self, election: &ElectionName, limit: usize) -> Result<Vec<NativeLeader>, Error> {
        match self.store().native() {
            Some(elections) => Ok(elections.line(election, limit).await?),
            None => Ok(Vec::new()),
        }
    }

    /// All elections that have a record, also those that an operator retired: [`Self::view`] shows nothing of those.
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
            // A candidate that asks once does not wait in line. If this fails, its place expires, and the
            // answer still names the leader.
            let _ = self.hasty().release(election, Epoch(0), credential, None).await;
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
        let region = match &bid.region {
            Some(region) => Some(region.shown_to(self).await?),
            None => None,
        };
        let seen = self.known_before_asking(election);
        let ask = |open: Option<Vec<OpenBreaker>>| {
            let (reason, region) = (reason.clone(), region.clone());
            let noticed = noticed_at.map(|noticed| boot::now().since(noticed));
            Command::Acquire(Acquire { reason, noticed, region, open, seen, ..bid.acquire(credential) })
        };
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| ask(None);
        let executed = match self.local.execute(election, self.patience, first, &make).await {
            Err(Error::Refused(refusal)) if refusal.asks_for_breakers() => {
                // Apart: most policies do not look at them.
                let open = Box::pin(self.look_at_breakers(election, Some(&bid.agent))).await?;
                let make = |_: Option<&Document>, _: StoreId, _: Epoch| ask(Some(open.clone()));
                self.local.execute(election, self.patience, First::Look, &make).await
            }
            executed => executed,
        };
        let answered = Answered::new(executed?, credential, bid.region.clone());
        self.confirmed(election, answered).await
    }

    /// The lease that an acquire was answered with, counted from a request that is known to have begun or renewed it.
    pub(crate) async fn confirmed(
        &self,
        election: &ElectionName,
        answered: Answered,
    ) -> Result<Grant, Error> {
        let unconfirmed = match answered.judged_at(boot::now()) {
            Answered::Begun(grant) => return Ok(grant),
            answered if self.store().native().is_some() => return Ok(answered.renewed_by_the_store()),
            Answered::Unconfirmed(unconfirmed) => unconfirmed,
        };
        let shown = match unconfirmed.region() {
            Some(region) => Some(region.shown_to(self).await?),
            None => None,
        };
        let renewal = Command::Renew(unconfirmed.renewal(shown));
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| renewal.clone();
        unconfirmed.confirmed(self.local.execute(election, self.patience, First::Look, &make).await?)
    }

    /// The highest epoch that this client knows of, where requests travel and may be late. A decision made here is made on a look.
    pub(crate) fn known_before_asking(&self, election: &ElectionName) -> Option<Epoch> {
        self.store().decider().map(|_| self.local.memory().vanished(election, boot::now()).0)
    }

    /// Whether decisions are made in this process, not by the store.
    pub(crate) fn decides_here(&self) -> bool {
        self.store().decider().is_none() && self.store().native().is_none()
    }

    /// Renews a lease.
    pub async fn renew(&self, election: &ElectionName, renewal: &Renew) -> Result<Renewed, Error> {
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| Command::Renew(renewal.clone());
        let Executed { answer, document, asked_at, ttl } =
            self.local.execute(election, self.patience, First::Own, &make).await?;
        Ok(Renewed { answer, asked_at, ttl, limit_in: document.limit_in() })
    }

    /// Gives the lease back. The work under it has stopped.
    pub async fn release(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        reason: Option<String>,
    ) -> Result<Document, Error> {
        self.leave(election, Release { epoch, credential, reason, ending: Ending::Stopped }).await
    }

    /// The same in the place of a leader that is gone, by whoever ended its work.
    pub async fn release_orphaned(
        &self,
        election: &ElectionName,
        epoch: Epoch,
        credential: Credential,
        reason: &str,
    ) -> Result<Document, Error> {
        let reason = Some(reason.to_string());
        self.leave(election, Release { epoch, credential, reason, ending: Ending::Orphaned }).await
    }

    /// Gives the lease back, and says how the work under it ended.
    pub async fn leave(&self, election: &ElectionName, release: Release) -> Result<Document, Error> {
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| Command::Release(release.clone());
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
                covers: content.covers.clone(),
            })
        };
        self.prime(election, &make).await?;
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
        let looks = finding == Finding::Breaker && self.decides_here();
        let open = if looks { Some(Box::pin(self.look_at_breakers(election, None)).await?) } else { None };
        let detail = detail.to_string();
        let (by, checkpoint) = (by.clone(), None);
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
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| Command::Report(report.clone());
        Ok(self.local.execute(election, self.patience, First::Look, &make).await?.answer)
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

    /// Where the store decides, a command that depends on the document is made by a look before it is sent.
    async fn prime(
        &self,
        election: &ElectionName,
        make: &(dyn Fn(Option<&Document>, StoreId, Epoch) -> Command + Send + Sync),
    ) -> Result<(), Error> {
        if self.store().decider().is_some() {
            let info = self.local.info(self.patience, true).await?;
            let document = self.view_of_record(election).await?.document;
            make(document.as_ref(), info.id, Epoch(0));
        }
        Ok(())
    }

    /// Carries out an act that an operator has signed, where it still fits; with the election after it.
    pub async fn carry_out(
        &self,
        election: &ElectionName,
        signed: &SignedAct,
    ) -> Result<(Answer, Document), Error> {
        let make = |_: Option<&Document>, _: StoreId, _: Epoch| Command::Operate(signed.clone());
        let executed = self.local.execute(election, self.patience, First::Look, &make).await?;
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
        // Signed for what the first look shows, so that a retry after a lost reply is known as the same act, and so that an
        // act meant for one leadership does not hit the next.
        let signed: OnceLock<SignedAct> = OnceLock::new();
        let make = |document: Option<&Document>, store: StoreId, floor: Epoch| {
            let why = break_glass.map(str::to_string);
            let sign = || match document {
                Some(document) => key.sign_urgently(document, act.clone(), why.clone()),
                None => {
                    let blank = Document::new(election.clone(), store, floor, &[]);
                    key.sign_urgently(&blank, act.clone(), why.clone())
                }
            };
            Command::Operate(signed.get_or_init(sign).clone())
        };
        self.prime(election, &make).await?;
        match self.local.execute(election, self.patience, First::Look, &make).await {
            Err(Error::Store(error @ StoreError::Diverged { .. })) => {
                self.settle(election, key, (act, break_glass), error).await
            }
            outcome => Ok(outcome?.answer),
        }
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
    /// What it covers beside itself: [`crate::covers`].
    pub covers: Option<Coverage>,
}
