//! Elections that a store runs by a recipe of its own, where programs that know nothing of Baton stand too.

use baton_election::time::{Moment, Span};
use baton_election::{AgentName, Credential, ElectionName, Epoch, Incarnation};

use crate::error::StoreError;
use crate::store::BoxFuture;

/// The leader of one of the store's own elections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeLeader {
    /// What it says of itself.
    pub said: String,
    /// The same if it is a name, else `foreign-` and a hash of it.
    pub agent: AgentName,
    /// What tells this candidacy from others. See [`NativeElections::incarnation_of`].
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

/// How a candidate stands in an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether it leads.
    pub leads: bool,
    /// Whether it stood before this call, by the same credential.
    pub stood: bool,
    /// Its token, if it leads or once it does.
    pub epoch: Epoch,
    /// The leader.
    pub leader: NativeLeader,
    /// The length of its own lease, as the store granted it.
    pub ttl: Span,
    /// When the lease was asked for, or to be kept alive: the deadline counts from here.
    pub asked_at: Moment,
}

/// A lease that was kept alive under a leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The token. Another than before is another leadership.
    pub epoch: Epoch,
    /// The length of the lease, as the store granted it.
    pub ttl: Span,
    /// When it was asked to be kept alive: the deadline counts from here.
    pub asked_at: Moment,
}

/// The elections of a store's own. All operations may be repeated after any error.
pub trait NativeElections: Send + Sync {
    /// Stands for an election, or goes on standing, and tells who leads. One who waits calls this again, well before its lease
    /// ends.
    fn stand<'a>(
        &'a self,
        election: &'a ElectionName,
        agent: &'a AgentName,
        credential: &'a Credential,
        ttl: Span,
    ) -> BoxFuture<'a, Result<Standing, StoreError>>;

    /// Keeps a leadership alive. None if it is lost.
    fn keep_alive<'a>(
        &'a self,
        election: &'a ElectionName,
        credential: &'a Credential,
    ) -> BoxFuture<'a, Result<Option<Kept>, StoreError>>;

    /// Leads, or stands, no longer. Returns whether it did.
    fn leave<'a>(
        &'a self,
        election: &'a ElectionName,
        credential: &'a Credential,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// The leader, if there is one.
    fn leader<'a>(
        &'a self,
        election: &'a ElectionName,
    ) -> BoxFuture<'a, Result<Option<NativeLeader>, StoreError>>;

    /// The candidates for an election in the order in which they lead, at most `limit` of them.
    fn line<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NativeLeader>, StoreError>>;

    /// By what the leader of an election is known that holds this credential.
    fn incarnation_of(&self, election: &ElectionName, credential: &Credential) -> Incarnation;
}
