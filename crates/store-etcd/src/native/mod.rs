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

pub(crate) mod candidate;
mod lease;
mod line;
mod stand;
mod store;
mod turn;

use std::sync::Arc;

use baton_election::{AgentName, Credential, ElectionName, Incarnation, Span};
use baton_store::{
    BoxFuture, BoxStream, Change, Kept, NativeElections, NativeLeader, Standing, Store, StoreError, StoreUrl,
};

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
        Ok(EtcdElections { client: Arc::new(client), keys })
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
    pub fn watch_turn<'a>(
        &'a self,
        election: &'a ElectionName,
        credential: &'a Credential,
    ) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(turn::watch(self, election, credential))
    }

    /// The id of the lease that this credential has in an election.
    pub fn lease_of(&self, election: &ElectionName, credential: &Credential) -> i64 {
        candidate::lease_of(&self.keys.election(election), credential)
    }

    /// The same prefix as a store, which can be watched and says how strong it is; it holds no records.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::new(store::NativeStore { elections: self.clone() })
    }
}

/// A lease of a credential has the id that [`EtcdElections::lease_of`] tells. What [`stand`](NativeElections::stand) and
/// [`keep_alive`](NativeElections::keep_alive) give counts from before the request that etcd granted or renewed it by, and
/// has the length that etcd returned, which may be more than was asked for.
impl NativeElections for EtcdElections {
    fn stand<'a>(
        &'a self,
        election: &'a ElectionName,
        agent: &'a AgentName,
        credential: &'a Credential,
        ttl: Span,
    ) -> BoxFuture<'a, Result<Standing, StoreError>> {
        Box::pin(self.stand_now(election, agent, credential, ttl))
    }

    fn keep_alive<'a>(
        &'a self,
        election: &'a ElectionName,
        credential: &'a Credential,
    ) -> BoxFuture<'a, Result<Option<Kept>, StoreError>> {
        Box::pin(self.keep_alive_now(election, credential))
    }

    fn leave<'a>(
        &'a self,
        election: &'a ElectionName,
        credential: &'a Credential,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(self.leave_now(election, credential))
    }

    fn leader<'a>(
        &'a self,
        election: &'a ElectionName,
    ) -> BoxFuture<'a, Result<Option<NativeLeader>, StoreError>> {
        Box::pin(self.leader_now(election))
    }

    fn line<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<NativeLeader>, StoreError>> {
        Box::pin(self.line_now(election, limit))
    }

    fn incarnation_of(&self, election: &ElectionName, credential: &Credential) -> Incarnation {
        candidate::incarnation(self.lease_of(election, credential))
    }
}
