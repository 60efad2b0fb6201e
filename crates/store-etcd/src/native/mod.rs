//! A place in etcd's own elections: `?election=etcd`.
//!
//! The recipe is that of `concurrency.NewElection` and `etcdctl elect`: a candidate puts a key
//! `<prefix>/<election>/<lease in hexadecimal>`, bound to its lease; whoever's key has the lowest create revision leads,
//! and that revision is its token. etcd ends the lease of whoever does not keep it alive, and with it the key.
//!
//! Assumes that all candidates follow the recipe, and that no election's name is the beginning of another's path: the
//! recipe takes what is below `a/b` for candidates of `a` as well. That is refused where it is seen.
//!
//! Guarantees that tokens rise strictly, and that a holder that stops at the deadline which follows from `asked_at` and
//! the *returned* length of the lease has stopped before etcd lets anybody else lead. A keep-alive is not believed by
//! itself: a member that was etcd's leader until a moment ago may answer it while another has begun to count. It is
//! believed if a linearizable read after it shows no later term than the member had before it was forwarded; then whoever
//! renewed the lease was still etcd's leader at the time of the read, and any later one begins by giving every lease its
//! whole length again.
//!
//! Does not guarantee anything if somebody deletes a leader's key by hand: the next leads at once, and the former learns of it by
//! its watch or at its next keep-alive. Behind fences that is harmless.

mod candidacy;
pub(crate) mod candidate;
mod elections;
mod lease;
mod line;
mod predecessor;

use std::sync::Arc;

use baton_api::elections::QueuedCandidate;
use baton_api::{Memory, SharedMemory};
use baton_election::time::Moment;
use baton_election::{AgentName, Credential, ElectionName, Epoch, Span};
use baton_store::{BoxFuture, BoxStream, Change, StoreError, StoreUrl};

use crate::client::Client;
use crate::open::{PASSWORD, Settings};
use crate::shape::{Area, Keys};
use crate::watch;

/// The elections that etcd's own recipe runs under a prefix. Clones share its connections.
///
/// A value belongs to the tokio runtime that it is first used in. All of its operations may be repeated after any error.
#[derive(Clone)]
pub struct EtcdElections {
    client: Arc<Client>,
    keys: Keys,
    memory: Arc<SharedMemory>,
}

impl EtcdElections {
    /// The elections that `etcd://HOSTS/PREFIX?election=etcd` names. Asks nothing of etcd.
    pub async fn open(url: &StoreUrl) -> Result<EtcdElections, StoreError> {
        let settings = Settings::of(url, std::env::var(PASSWORD).ok())?;
        if !settings.native {
            return Err(StoreError::Refused {
                place: settings.location(),
                why: "it does not name etcd's own elections".to_string(),
                hint: "add ?election=etcd".to_string(),
            });
        }
        EtcdElections::of(&settings)
    }

    pub(crate) fn of(settings: &Settings) -> Result<EtcdElections, StoreError> {
        let client = Client::of(settings)?;
        let keys = Keys::of(&settings.prefix, &client.location);
        let memory = Arc::new(SharedMemory::new(Memory::new()));
        Ok(EtcdElections { client: Arc::new(client), keys, memory })
    }

    /// Where this is, for people: no secrets.
    pub fn location(&self) -> String {
        self.client.location.clone()
    }

    /// Tells of every change of an election: who stands, who leaves, what they say.
    pub fn watch<'a>(
        &'a self,
        election: &'a ElectionName,
    ) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(watch::watch(Arc::clone(&self.client), Area::below(&self.keys.election(election)), None))
    }

    /// Tells a candidate when to look again, and does not wake it for anything else: whoever is just ahead of it leaves,
    /// or its own key goes. Tells at once if there is nobody to wait for.
    pub fn watch_predecessor<'a>(
        &'a self,
        election: &'a ElectionName,
        credential: &'a Credential,
    ) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(predecessor::watch(self, election, credential))
    }

    /// The id of the lease that this credential has in an election.
    pub fn lease_of(&self, election: &ElectionName, credential: &Credential) -> i64 {
        candidate::lease_of(&self.keys.election(election), credential)
    }

    /// Whether a URL names etcd's own elections, and not a store of Baton's records.
    pub fn is_named_by(url: &StoreUrl) -> bool {
        url.parameters.contains_key("election")
    }

    /// Stands for an election, or goes on standing, and tells who leads. One who waits calls this again, well before its lease
    /// ends.
    ///
    /// A lease of a credential has the id that [`EtcdElections::lease_of`] tells. What this and [`EtcdElections::keep_alive`] give
    /// counts from before the request that etcd granted or renewed it by, and has the length that etcd returned, which may be more
    /// than was asked for.
    pub async fn stand(
        &self,
        election: &ElectionName,
        agent: &AgentName,
        credential: &Credential,
        ttl: Span,
    ) -> Result<Candidacy, StoreError> {
        self.stand_now(election, agent, credential, ttl).await
    }

    /// Keeps a leadership alive. None if it is lost.
    pub async fn keep_alive(
        &self,
        election: &ElectionName,
        credential: &Credential,
    ) -> Result<Option<RenewedLease>, StoreError> {
        self.keep_alive_now(election, credential).await
    }

    /// Leads, or stands, no longer. Returns whether it did.
    pub async fn leave(&self, election: &ElectionName, credential: &Credential) -> Result<bool, StoreError> {
        self.leave_now(election, credential).await
    }

    /// The leader, if there is one.
    pub async fn leader(&self, election: &ElectionName) -> Result<Option<QueuedCandidate>, StoreError> {
        self.leader_now(election).await
    }

    /// The candidates for an election in the order in which they lead, at most `limit` of them.
    pub async fn line(
        &self,
        election: &ElectionName,
        limit: usize,
    ) -> Result<Vec<QueuedCandidate>, StoreError> {
        self.line_now(election, limit).await
    }
}

/// A candidate's place in an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidacy {
    /// Whether it leads.
    pub leads: bool,
    /// Whether it stood before this call, by the same credential.
    pub stood: bool,
    /// Its token, if it leads or once it does.
    pub epoch: Epoch,
    /// The leader.
    pub leader: QueuedCandidate,
    /// The length of its own lease, as the store granted it.
    pub ttl: Span,
    /// When the lease was asked for, or to be kept alive: the deadline counts from here.
    pub asked_at: Moment,
}

/// A lease that was kept alive under a leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewedLease {
    /// The token. Another than before is another leadership.
    pub epoch: Epoch,
    /// The length of the lease, as the store granted it.
    pub ttl: Span,
    /// When it was asked to be kept alive: the deadline counts from here.
    pub asked_at: Moment,
}
