//! The interface to elections, however they are reached.
//!
//! [`Elections`] has three implementors outside of a server: the executor, which decides in this process on the records of a
//! store; the client of a Baton server; and etcd's own elections. Whatever one of them does not offer, it refuses in one typed way.
//! Every request may be repeated after any error: a command is the same bytes again, and each command is idempotent.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_election::audit::TokensAudit;
use baton_election::bindings::SignedFenceOrder;
use baton_election::command::Acquire;
use baton_election::delegation::SignedDelegation;
use baton_election::document::Transition;
use baton_election::fence::{self, Entry, Fence};
use baton_election::operator::{Act, OperatorKey};
use baton_election::store_order::StoreRequest;
use baton_election::store_quorum::OrderOutcome;
use baton_election::time::{Moment, Span, WallTime};
use baton_election::tokens::SignedTokenOrder;
use baton_election::{
    AgentName, Answer, Candidate, Command, Credential, Document, ElectionName, Epoch, Incarnation, Refusal,
    ResourceName, StoreInfo, TokenId,
};
use baton_store::waiting::Waiters;
use baton_store::{
    BoxFuture, BoxStream, Change, Key, Prefix, Reading, Store, StoreError, StoreProperties, Trace,
};
use baton_toolbox as toolbox;

use crate::alerts::Alerts;
use crate::command::Decided;
use crate::memory::SharedMemory;
use crate::patience::Patience;
use crate::sessions::{
    Announce, EndSession, EndSessionResponse, Heartbeat, HeartbeatReply, NewsRequest, NewsResponse,
    NotifyReport, SessionView,
};
use crate::toolbox::MAX_PAGE;
use crate::uses::TokenUse;

/// Why a command was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommandError {
    /// The election refused it. Nothing was changed.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The store failed; its error says what may be assumed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The operating system failed. Nothing may be assumed.
    #[error("{0}")]
    System(String),
}

impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> CommandError {
        CommandError::System(error.to_string())
    }
}

/// The outcome of a request, to be awaited.
pub type BoxResult<'a, T> = BoxFuture<'a, Result<T, CommandError>>;

/// The part of Baton that decides on elections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decides {
    /// This process, on the records of a store.
    Here,
    /// A Baton server, which has a line in which candidates wait.
    Server,
    /// The store, by a recipe of its own: there are no records, and a candidate keeps its place by asking again.
    Store,
}

/// An election as it was read.
#[derive(Clone, Debug)]
pub struct Sighting {
    /// The document; none if there is no such election.
    pub document: Option<Document>,
    /// A lower bound on the time since its last beat.
    pub age: Span,
    /// When it was asked for.
    pub asked_at: Moment,
    /// The reading behind it: as good as a look of its own for a change right after it.
    pub reading: Option<Box<Reading>>,
}

impl Sighting {
    /// What the store told beside the record.
    pub fn trace(&self) -> Option<Trace> {
        self.reading.as_ref().and_then(|reading| reading.trace)
    }
}

/// What a change of a record begins with. Only who decides here asks.
#[derive(Debug, Default)]
pub enum StartFrom {
    /// A read.
    #[default]
    Read,
    /// A reading that was just made.
    Reading(Box<Reading>),
    /// The record that this client wrote last, if it wrote any.
    LastWrite,
}

/// A command that was carried out.
#[derive(Clone, Debug)]
pub struct Executed {
    /// The answer.
    pub answer: Answer,
    /// The document after it; none where the answer came without one, as a server's to a plain renewal does.
    pub document: Option<Document>,
    /// A moment before the first attempt: a lease is counted from here.
    pub asked_at: Moment,
    /// How long the lease lasts from there, if there is one.
    pub ttl: Option<Span>,
}

impl Executed {
    /// After how much more time a limit is reached, if there is one.
    pub fn limit_in(&self) -> Option<Span> {
        self.document.as_ref()?.limit_in()
    }
}

/// A request for the lease.
#[derive(Debug)]
pub struct AskLease<'a> {
    /// What is asked for.
    pub acquire: &'a Acquire,
    /// The credential that it is asked under.
    pub credential: Credential,
    /// What the change begins with.
    pub start: StartFrom,
    /// How long to wait in line, where there is one. Without it, a candidate that is refused keeps no place in line.
    pub wait: Option<Span>,
}

/// What is asked of the store's knowledge of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskInfo {
    /// Ask the store, also if this client knows already.
    pub fresh: bool,
    /// Make the store if it is not one yet.
    pub make: bool,
}

/// A candidate in the line of a store's own elections. The first leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedCandidate {
    /// What it says of itself.
    pub said: String,
    /// The same if it is a name, else `foreign-` and a hash of it.
    pub agent: AgentName,
    /// What tells this candidacy from others. See [`Elections::incarnation_of`].
    pub incarnation: Incarnation,
    /// The token.
    pub epoch: Epoch,
    /// The length of its lease, if the store told.
    pub ttl: Option<Span>,
    /// What was left of it when the store told.
    pub left: Option<Span>,
    /// Where it stands in the store.
    pub key: String,
}

/// Elections, however they are reached.
pub trait Elections: Send + Sync {
    /// Where this is, for people: no secrets.
    fn location(&self) -> String;

    /// What this can and cannot do.
    fn properties(&self) -> StoreProperties;

    /// The part of Baton that decides.
    fn decides(&self) -> Decides;

    /// What this client has seen.
    fn memory(&self) -> &SharedMemory;

    /// The store behind it, where this process decides.
    fn store(&self) -> Option<&dyn Store> {
        None
    }

    /// The record under a key.
    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>>;

    /// The keys under a prefix, in order.
    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>>;

    /// Tells of changes under a key, from the call on.
    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>>;

    /// Whether this client could write under a key at this moment, as far as that can be tried without a change.
    fn writable<'a>(&'a self, _key: &'a Key) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    /// What must be laid out in the store before its first use; none if nothing must.
    fn layout(&self) -> Option<String> {
        None
    }

    /// Lays that out, unless it is there already.
    fn prepare(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    /// The wall clock that all clients share, if there is one. It names slots of time, and decides nothing about leases.
    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    /// The notes of candidates that wait to lead, where they are shown.
    fn waiters(&self) -> Option<&dyn Waiters> {
        None
    }

    /// Has this called when this client makes the store: when it is the first to write into it.
    fn when_made(&self, _tell: Box<dyn Fn() + Send + Sync>) {}

    /// What the store knows of itself.
    fn info(&self, patience: Patience, ask: AskInfo) -> BoxResult<'_, Arc<StoreInfo>>;

    /// An election as it stands.
    fn view<'a>(&'a self, election: &'a ElectionName) -> BoxResult<'a, Sighting>;

    /// What the last change showed that a watch of this client told of; once, and good for a change right after it only.
    fn last_pushed(&self, _election: &ElectionName) -> Option<Sighting> {
        None
    }

    /// The last changes of leader, the oldest first; at most `limit`.
    fn history<'a>(&'a self, election: &'a ElectionName, limit: usize) -> BoxResult<'a, Vec<Transition>>;

    /// Puts the leadership that stands into the history, where its leader does that, so that its successor need not.
    fn enter_history<'a>(&'a self, _election: &'a ElectionName) -> BoxResult<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Whether a change of leader is known to stand in the history, so that whoever pushes it out of the document need not look.
    fn is_in_history<'a>(
        &'a self,
        _election: &'a ElectionName,
        _transition: &'a Transition,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async { true })
    }

    /// Carries out a command that is no request for the lease. The same command is sent again after a failure that may pass.
    fn execute<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        command: &'a Command,
        start: StartFrom,
    ) -> BoxResult<'a, Executed>;

    /// Asks for the lease. A candidate that was granted it after a wait claims it with a renewal.
    fn acquire<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        ask: AskLease<'a>,
    ) -> BoxResult<'a, Executed>;

    /// Carries out many commands, each on its own; those on one election in their order. There is one outcome for each.
    fn execute_many<'a>(
        &'a self,
        patience: Patience,
        commands: &'a [(ElectionName, Command)],
    ) -> BoxFuture<'a, Vec<Result<Executed, CommandError>>> {
        Box::pin(async move {
            let mut outcomes = Vec::with_capacity(commands.len());
            for (election, command) in commands {
                outcomes.push(self.execute(patience, election, command, StartFrom::LastWrite).await);
            }
            outcomes
        })
    }

    /// Whether tokens may act, each as its election stands. There is one outcome for each.
    fn check_many<'a>(
        &'a self,
        tokens: &'a [(ElectionName, Epoch)],
    ) -> BoxFuture<'a, Vec<Result<(), CommandError>>> {
        Box::pin(async move {
            let mut outcomes = Vec::with_capacity(tokens.len());
            for (election, token) in tokens {
                outcomes.push(self.view(election).await.and_then(|seen| checked(election, *token, &seen)));
            }
            outcomes
        })
    }

    /// The candidates in the store's own line, the leader first; at most `limit`. Nobody where there is no such line.
    fn line<'a>(&'a self, _election: &'a ElectionName, _limit: usize) -> BoxResult<'a, Vec<QueuedCandidate>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    /// The incarnation by which the leader of an election is known that holds this credential.
    fn incarnation_of(&self, _election: &ElectionName, credential: &Credential) -> Incarnation {
        credential.incarnation
    }

    /// Ends a divergence by an operator's appointment on top of both histories, where there can be one.
    fn settle<'a>(&'a self, _patience: Patience, settlement: Settlement<'a>) -> BoxResult<'a, Answer> {
        Box::pin(async move { Err(settlement.diverged.into()) })
    }

    /// The refusal of everything that this does not offer.
    fn unsupported(&self) -> CommandError {
        StoreError::Refused {
            place: self.location(),
            why: "the elections here do not offer this".to_string(),
            hint: "use a store on which Baton decides".to_string(),
        }
        .into()
    }

    /// Candidacies, where policies compare candidates.
    ///
    /// # Errors
    /// [`Self::unsupported`], as for the other groups.
    fn candidacies(&self) -> Result<&dyn Candidacies, CommandError> {
        Err(self.unsupported())
    }

    /// The fences of resources.
    fn fences(&self) -> Result<&dyn Fences, CommandError> {
        Err(self.unsupported())
    }

    /// Operators' orders on the store as a whole and on its access tokens.
    fn orders(&self) -> Result<&dyn Orders, CommandError> {
        Err(self.unsupported())
    }

    /// The toolboxes of the elections' leaders.
    fn tools(&self) -> Result<&dyn Tools, CommandError> {
        Err(self.unsupported())
    }

    /// The sessions of a server.
    fn sessions(&self) -> Option<&dyn Sessions> {
        None
    }

    /// A server's page for people.
    fn page(&self) -> Option<&dyn Page> {
        None
    }

    /// The alerts of a server.
    fn warns(&self) -> Option<&dyn Warns> {
        None
    }

    /// The last use of each access token, where a server knows.
    fn uses(&self) -> Option<&dyn Uses> {
        None
    }
}

/// A history as it is shown: with the last change of leader from the document, without the forgotten ones, the oldest first; at
/// most `limit` of the newest.
pub fn merged_history(
    document: Option<Document>,
    mut entries: Vec<Transition>,
    limit: usize,
) -> Vec<Transition> {
    let forgotten = document.as_ref().and_then(|document| document.forgotten);
    if let Some(newest) = document.and_then(|document| document.last_transition) {
        match entries.iter_mut().find(|entry| entry.epoch == newest.epoch) {
            Some(entry) => *entry = (*newest).clone(),
            None => entries.push((*newest).clone()),
        }
    }
    entries.retain(|entry| forgotten.is_none_or(|forgotten| entry.epoch > forgotten));
    entries.sort_by_key(|entry| entry.epoch);
    let surplus = entries.len().saturating_sub(limit);
    entries.split_off(surplus)
}

/// Whether a token may act, as the election was seen.
pub fn checked(election: &ElectionName, token: Epoch, seen: &Sighting) -> Result<(), CommandError> {
    match &seen.document {
        None => Err(Refusal::UnknownElection { election: election.to_string() }.into()),
        Some(document) => Ok(fence::check(token, document, seen.age)?),
    }
}

/// An operator's appointment that ends a divergence.
#[derive(Debug)]
pub struct Settlement<'a> {
    /// The election.
    pub election: &'a ElectionName,
    /// The operator.
    pub key: &'a OperatorKey,
    /// The appointment.
    pub act: &'a Act,
    /// The reason not to wait for other operators, if there is one.
    pub break_glass: Option<&'a str>,
    /// The divergence.
    pub diverged: StoreError,
}

/// Candidacies, where policies compare candidates.
pub trait Candidacies: Send + Sync {
    /// Enlists a candidate, or prolongs its candidacy.
    fn enlist<'a>(&'a self, patience: Patience, candidate: &'a Candidate) -> BoxResult<'a, Candidate>;

    /// Ends a candidacy. Returns whether there was one.
    fn withdraw<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        agent: &'a AgentName,
        credential: &'a Credential,
    ) -> BoxResult<'a, bool>;
}

/// The fences of resources.
pub trait Fences: Send + Sync {
    /// Admits a token to a resource, and logs it. Without an election the one that the resource is bound to is asked.
    fn admit<'a>(
        &'a self,
        patience: Patience,
        entry: &'a Entry<'a>,
        election: Option<&'a ElectionName>,
    ) -> BoxResult<'a, Fence>;

    /// Keeps a hold on a resource.
    fn keep_hold<'a>(
        &'a self,
        patience: Patience,
        resource: &'a ResourceName,
        election: &'a ElectionName,
        mine: &'a Credential,
    ) -> BoxResult<'a, ()>;

    /// Ends a hold on a resource.
    fn leave_hold<'a>(
        &'a self,
        patience: Patience,
        resource: &'a ResourceName,
        mine: &'a Credential,
    ) -> BoxResult<'a, ()>;

    /// Binds a resource to an election, or frees it.
    fn order_fence<'a>(&'a self, patience: Patience, order: &'a SignedFenceOrder) -> BoxResult<'a, Fence>;
}

/// Operators' orders on the store as a whole and on its access tokens.
pub trait Orders: Send + Sync {
    /// Changes the store as a whole: its operators, how many of them an order takes, whether everything is paused. A server asks
    /// the first operator for a code.
    fn order_store<'a>(
        &'a self,
        patience: Patience,
        request: &'a StoreRequest,
    ) -> BoxResult<'a, OrderOutcome>;

    /// Creates or revokes an access token.
    fn order_tokens<'a>(
        &'a self,
        patience: Patience,
        order: &'a SignedTokenOrder,
    ) -> BoxResult<'a, OrderOutcome>;

    /// The newest orders on the access tokens and whether all of them are as they were, where the records of them are not shown.
    fn audit_tokens(&self, _patience: Patience, _limit: usize) -> BoxResult<'_, Option<TokensAudit>> {
        Box::pin(async { Ok(None) })
    }
}

/// The toolboxes of the elections' leaders.
pub trait Tools: Send + Sync {
    /// Carries out a command.
    fn carry_out<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        command: &'a toolbox::Command,
    ) -> BoxResult<'a, toolbox::Answer>;

    /// A part of the items of a kind.
    fn page<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        kind: toolbox::Kind,
        query: &'a toolbox::Query,
    ) -> BoxResult<'a, toolbox::Page>;

    /// All items of a kind that are wanted, however many pages it takes.
    fn all<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        kind: toolbox::Kind,
        query: &'a toolbox::Query,
    ) -> BoxResult<'a, Vec<toolbox::Item>> {
        Box::pin(async move {
            let mut items = Vec::new();
            let mut next = toolbox::Query { limit: MAX_PAGE, ..query.clone() };
            loop {
                let page = self.page(patience, election, kind, &next).await?;
                next.after = page.items.last().map(|item| item.place().1.clone());
                items.extend(page.items);
                if !page.more || next.after.is_none() {
                    return Ok(items);
                }
            }
        })
    }

    /// How the board stands; none if more than so many tasks had to be read for it.
    fn counts<'a>(
        &'a self,
        patience: Patience,
        election: &'a ElectionName,
        most: usize,
    ) -> BoxResult<'a, Option<toolbox::Counts>>;
}

/// The sessions of a server. Each request is sent once.
pub trait Sessions: Send + Sync {
    /// Announces a session, or announces it anew.
    fn announce<'a>(&'a self, announce: &'a Announce) -> BoxResult<'a, HeartbeatReply>;

    /// Shows that a session is alive; none if there is no such session: announce it anew.
    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxResult<'a, Option<HeartbeatReply>>;

    /// Asks for news; none if there is no such session.
    fn news<'a>(&'a self, ask: &'a NewsRequest) -> BoxResult<'a, Option<NewsResponse>>;

    /// Ends a session; none if there is no such session.
    fn end<'a>(&'a self, end: &'a EndSession) -> BoxResult<'a, Option<EndSessionResponse>>;

    /// All sessions.
    fn sessions(&self) -> BoxResult<'_, Vec<SessionView>>;

    /// Carries out a release or a pass, and then waits until its followers know, for at most so long. A successor does not wait.
    fn leave<'a>(
        &'a self,
        election: &'a ElectionName,
        command: &'a Command,
        notify: Span,
    ) -> BoxResult<'a, (Decided, NotifyReport)>;
}

/// A server's page for people. Each request is sent once.
pub trait Page: Send + Sync {
    /// Where the page is.
    fn address(&self) -> String;

    /// What tells this run of the server from others: a delegation is signed for it.
    fn run(&self) -> BoxResult<'_, String>;

    /// Lets a browser sign in.
    fn begin_sign_in<'a>(&'a self, given: &'a SignedDelegation) -> BoxResult<'a, ()>;
}

/// The alerts of a server.
pub trait Warns: Send + Sync {
    /// What is wrong.
    fn alerts(&self) -> BoxResult<'_, Alerts>;
}

/// The uses of access tokens, as a server knows them.
pub trait Uses: Send + Sync {
    /// The last use of each token that was used.
    fn uses(&self) -> BoxResult<'_, BTreeMap<TokenId, TokenUse>>;
}
