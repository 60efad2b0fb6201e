//! The page of a server, and who may sign in there.

use baton_api::elections::{BoxResult, Page};
use baton_api::endpoints::Endpoint;
use baton_api::server::EmptyResponse;
use baton_api::sign_ins::PageStatus;
use baton_election::delegation::SignedDelegation;

use crate::records::{AT_ONCE, HttpElections};

impl Page for HttpElections {
    /// Of several servers the one that answered last: the link is good for that one, and another process may listen where a dead one did.
    fn address(&self) -> String {
        self.client.address()
    }

    fn run(&self) -> BoxResult<'_, String> {
        Box::pin(async move {
            let me: Result<PageStatus, _> = self.client.get(&Endpoint::Me.target(&[])).await;
            me.map(|me| me.server).map_err(|fault| fault.of_reading(&self.client.base).into())
        })
    }

    fn begin_sign_in<'a>(&'a self, given: &'a SignedDelegation) -> BoxResult<'a, ()> {
        Box::pin(async move {
            let target = Endpoint::BeginSignIn.target(&[]);
            self.send::<EmptyResponse>(&target, given, AT_ONCE).await.map(|_| ())
        })
    }
}
