//! The candidates that wait in a server's lines. The server knows them: nobody need tell it.

use baton_api::waiting::WaitingCandidate;
use baton_election::{AgentName, ElectionName, Incarnation};
use baton_store::waiting::Waiters;
use baton_store::{BoxFuture, StoreError};

use crate::client::segment;
use crate::records::HttpElections;

impl Waiters for HttpElections {
    fn note<'a>(
        &'a self,
        _election: &'a ElectionName,
        _waiting: &'a WaitingCandidate,
        _life: Incarnation,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn leave<'a>(
        &'a self,
        _election: &'a ElectionName,
        _agent: &'a AgentName,
        _life: Incarnation,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn waiting<'a>(
        &'a self,
        election: &'a ElectionName,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<WaitingCandidate>, StoreError>> {
        Box::pin(async move {
            let path = format!("/v1/elections/{}/waiting?limit={limit}", segment(election));
            self.client.get(&path).await.map_err(|fault| fault.of_reading(&self.client.base))
        })
    }
}
