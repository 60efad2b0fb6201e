//! The candidates that wait in a server's lines. The server knows them: nobody need tell it.

use baton_api::endpoints::Endpoint;
use baton_api::waiting::WaitingCandidate;
use baton_election::{AgentName, ElectionName, Incarnation};
use baton_store::waiting::Waiters;
use baton_store::{BoxFuture, StoreError};

use crate::records::HttpElections;

impl Waiters for HttpElections {
    fn note<'a>(
        &'a self,
        _election: &'a ElectionName,
        _waiting: &'a WaitingCandidate,
        _incarnation: Incarnation,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn leave<'a>(
        &'a self,
        _election: &'a ElectionName,
        _agent: &'a AgentName,
        _incarnation: Incarnation,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn waiting<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<WaitingCandidate>, StoreError>> {
        Box::pin(async move {
            let target = Endpoint::Waiting.target(&[election]).with("limit", &limit);
            self.client.get(&target).await.map_err(|fault| fault.of_reading(&self.client.base))
        })
    }
}
