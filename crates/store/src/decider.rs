//! Stores that decide by themselves: they are sent commands, and documents are only read from them.

use std::collections::BTreeMap;

use baton_api::alerts::Alerts;
use baton_api::command::Decided;
use baton_api::sessions::{
    Announce, EndSession, EndSessionResponse, Heartbeat, HeartbeatReply, NewsRequest, NewsResponse,
    NotifyReport, SessionView,
};
use baton_api::uses::TokenUse;
use baton_election::audit::TokensAudit;
use baton_election::bindings::SignedFenceOrder;
use baton_election::command::Acquire;
use baton_election::delegation::SignedDelegation;
use baton_election::fence::{Entry, Fence};
use baton_election::store_order::StoreRequest;
use baton_election::store_quorum::OrderOutcome;
use baton_election::time::Span;
use baton_election::tokens::SignedTokenOrder;
use baton_election::{
    AgentName, Candidate, Command, Credential, ElectionName, Epoch, Refusal, ResourceName, TokenId,
};
use baton_toolbox as toolbox;

use crate::error::StoreError;
use crate::store::BoxFuture;

/// Why a command was not carried out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Undecided {
    /// The election refused it. Nothing was changed.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The store failed; its error says what may be assumed.
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// What comes of a command.
pub type Decision<'a, T> = BoxFuture<'a, Result<T, Undecided>>;

/// What a store that decides by itself is asked to do. Everything may be repeated after any error.
pub trait Decider: Send + Sync {
    /// Carries out a command.
    fn execute<'a>(&'a self, election: &'a ElectionName, command: &'a Command) -> Decision<'a, Decided>;

    /// Carries out many commands, each on its own: what comes of one says nothing of the others. Those on one election are carried
    /// out in their order. There is one outcome for each.
    fn execute_many<'a>(
        &'a self,
        commands: &'a [(ElectionName, Command)],
    ) -> BoxFuture<'a, Vec<Result<Decided, Undecided>>>;

    /// Whether tokens may act, each as its election stands.
    fn check_many<'a>(
        &'a self,
        tokens: &'a [(ElectionName, Epoch)],
    ) -> BoxFuture<'a, Vec<Result<(), Undecided>>>;

    /// Asks for the lease, and waits in line for it for at most so long. A candidate that has waited gets an
    /// offer, which it claims with a renewal. Where a policy compares candidates there is no line.
    fn acquire<'a>(
        &'a self,
        election: &'a ElectionName,
        acquire: &'a Acquire,
        wait: Span,
    ) -> Decision<'a, Decided>;

    /// Enlists a candidate, or lets it go on standing.
    fn enlist<'a>(&'a self, candidate: &'a Candidate) -> Decision<'a, Candidate>;

    /// Stands no longer. Returns whether it did.
    fn withdraw<'a>(
        &'a self,
        election: &'a ElectionName,
        agent: &'a AgentName,
        credential: &'a Credential,
    ) -> Decision<'a, bool>;

    /// Admits a token to a resource, and logs it. Without an election the one that the resource is bound to is asked.
    fn admit<'a>(&'a self, entry: &'a Entry<'a>, election: Option<&'a ElectionName>) -> Decision<'a, Fence>;

    /// Keeps a hold on a resource.
    fn keep_hold<'a>(
        &'a self,
        resource: &'a ResourceName,
        election: &'a ElectionName,
        mine: &'a Credential,
    ) -> Decision<'a, ()>;

    /// Ends a hold on a resource.
    fn leave_hold<'a>(&'a self, resource: &'a ResourceName, mine: &'a Credential) -> Decision<'a, ()>;

    /// Binds a resource to an election, or frees it.
    fn order_fence<'a>(&'a self, order: &'a SignedFenceOrder) -> Decision<'a, Fence>;

    /// Changes the store as a whole: who its operators are, how many of them an order takes, whether everything is paused. The first
    /// operator shows a code.
    fn order_store<'a>(&'a self, request: &'a StoreRequest) -> Decision<'a, OrderOutcome>;

    /// The newest orders on the access tokens, and whether all of them are as they were.
    fn audit_tokens(&self, limit: usize) -> Decision<'_, TokensAudit>;

    /// Creates or revokes an access token.
    fn order_tokens<'a>(&'a self, order: &'a SignedTokenOrder) -> Decision<'a, OrderOutcome>;

    /// The toolboxes of its elections, if it keeps them.
    fn tools(&self) -> Option<&dyn Tools> {
        None
    }

    /// Its sessions, if it has any.
    fn sessions(&self) -> Option<&dyn Sessions> {
        None
    }

    /// Its page for people, if it has one.
    fn page(&self) -> Option<&dyn Page> {
        None
    }

    /// What it warns of, if it does.
    fn warns(&self) -> Option<&dyn Warns> {
        None
    }

    /// When its access tokens were used, if it knows.
    fn uses(&self) -> Option<&dyn Uses> {
        None
    }
}

/// What a store that has sessions is asked. Everything may be repeated after any error.
pub trait Sessions: Send + Sync {
    /// Announces a session, or announces it anew.
    fn announce<'a>(&'a self, announce: &'a Announce) -> Decision<'a, HeartbeatReply>;

    /// Shows that a session is alive; none if there is no such session: announce it anew.
    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> Decision<'a, Option<HeartbeatReply>>;

    /// Asks for news; none if there is no such session.
    fn news<'a>(&'a self, ask: &'a NewsRequest) -> Decision<'a, Option<NewsResponse>>;

    /// Ends a session; none if there is no such session.
    fn end<'a>(&'a self, end: &'a EndSession) -> Decision<'a, Option<EndSessionResponse>>;

    /// All sessions.
    fn sessions(&self) -> Decision<'_, Vec<SessionView>>;

    /// Carries out a release or a pass, and then waits until its followers know, for at most so long. A successor does not wait.
    fn leave<'a>(
        &'a self,
        election: &'a ElectionName,
        command: &'a Command,
        notify: Span,
    ) -> Decision<'a, (Decided, NotifyReport)>;
}

/// What a store that keeps toolboxes is asked. Everything may be repeated after any error.
pub trait Tools: Send + Sync {
    /// Carries out a command.
    fn carry_out<'a>(
        &'a self,
        election: &'a ElectionName,
        command: &'a toolbox::Command,
    ) -> Decision<'a, toolbox::Answer>;

    /// A part of the items of a kind.
    fn page<'a>(
        &'a self,
        election: &'a ElectionName,
        kind: toolbox::Kind,
        query: &'a toolbox::Query,
    ) -> Decision<'a, toolbox::Page>;

    /// How the board stands.
    fn counts<'a>(&'a self, election: &'a ElectionName) -> Decision<'a, toolbox::Counts>;
}

/// What a server with a page is asked. Everything may be repeated after any error.
pub trait Page: Send + Sync {
    /// Where the page is.
    fn address(&self) -> String;

    /// What tells this run of the server from others: a delegation is signed for it.
    fn run(&self) -> Decision<'_, String>;

    /// Lets a browser sign in.
    fn begin_sign_in<'a>(&'a self, given: &'a SignedDelegation) -> Decision<'a, ()>;
}

/// A store that warns.
pub trait Warns: Send + Sync {
    /// What is wrong.
    fn alerts(&self) -> Decision<'_, Alerts>;
}

/// A store that knows when its access tokens were used.
pub trait Uses: Send + Sync {
    /// The last use of each token that was used.
    fn uses(&self) -> Decision<'_, BTreeMap<TokenId, TokenUse>>;
}
