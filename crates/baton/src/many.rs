//! Many elections at once: where the store is a server, in one message.

use baton_election::command::Renew;
use baton_election::{Command, ElectionName, Epoch};

use crate::coordinator::{Coordinator, Renewed};
use crate::error::Error;

impl Coordinator {
    /// Renews many leases. There is one outcome for each, in their order, and what comes of one says nothing of the others.
    ///
    /// Where the store is a server they travel together; elsewhere they are renewed one after the other.
    pub async fn renew_many(&self, renewals: &[(ElectionName, Renew)]) -> Vec<Result<Renewed, Error>> {
        let command =
            |(election, renewal): &(ElectionName, Renew)| (election.clone(), Command::Renew(renewal.clone()));
        let commands: Vec<(ElectionName, Command)> = renewals.iter().map(command).collect();
        let outcomes = self.backend.execute_many(self.patience, &commands).await;
        outcomes.into_iter().map(|outcome| Ok(outcome?.into())).collect()
    }

    /// Whether tokens may act, each as its election stands. There is one outcome for each, in their order.
    pub async fn check_many(&self, tokens: &[(ElectionName, Epoch)]) -> Vec<Result<(), Error>> {
        self.backend.check_many(tokens).await.into_iter().map(|checked| Ok(checked?)).collect()
    }
}
