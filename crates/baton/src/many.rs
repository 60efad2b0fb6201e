//! Many elections at once: where the store is a server, in one message.

use baton_api::command::Decided;
use baton_election::command::Renew;
use baton_election::{Command, ElectionName, Epoch};
use baton_store::{Decider, StoreError, Undecided, boot};

use crate::coordinator::{Coordinator, Renewed};
use crate::error::Error;
use crate::local::Pace;

/// What is said of a command that was left out.
const NO_ANSWER: &str = "it gave no answer to this one";

impl Coordinator {
    /// Renews many leases. There is one outcome for each, in their order, and what comes of one says nothing of the others.
    ///
    /// Where the store is a server they travel together; elsewhere they are renewed one after the other.
    pub async fn renew_many(&self, renewals: &[(ElectionName, Renew)]) -> Vec<Result<Renewed, Error>> {
        let Some(decider) = self.store().decider() else {
            let mut outcomes = Vec::with_capacity(renewals.len());
            for (election, renewal) in renewals {
                outcomes.push(self.renew(election, renewal).await);
            }
            return outcomes;
        };
        let asked_at = boot::now();
        let info = match self.local.info(self.patience, true).await {
            Ok(info) => info,
            Err(error) => {
                let why = error.to_string();
                return renewals.iter().map(|_| Err(untold(self, &why))).collect();
            }
        };
        let command =
            |(election, renewal): &(ElectionName, Renew)| (election.clone(), Command::Renew(renewal.clone()));
        let commands: Vec<(ElectionName, Command)> = renewals.iter().map(command).collect();
        let outcomes = self.insist_on_many(decider, &commands).await;
        let renewed = |(outcome, (election, _)): (Result<Decided, Error>, &(ElectionName, Renew))| {
            let Decided { answer, document, ttl } = outcome?;
            let document = self.local.known_by(election, info.id, &answer, document, asked_at)?;
            Ok(Renewed { answer, asked_at, ttl, limit_in: document.limit_in() })
        };
        outcomes.into_iter().zip(renewals).map(renewed).collect()
    }

    /// Whether tokens may act, each as its election stands. There is one outcome for each, in their order.
    pub async fn check_many(&self, tokens: &[(ElectionName, Epoch)]) -> Vec<Result<(), Error>> {
        if let Some(decider) = self.store().decider() {
            return decider.check_many(tokens).await.into_iter().map(|checked| Ok(checked?)).collect();
        }
        let mut outcomes = Vec::with_capacity(tokens.len());
        for (election, token) in tokens {
            outcomes.push(self.check(election, *token).await.map(|_| ()));
        }
        outcomes
    }

    /// Sends those again that had no answer, until there is one or the store has failed too often.
    async fn insist_on_many(
        &self,
        decider: &dyn Decider,
        commands: &[(ElectionName, Command)],
    ) -> Vec<Result<Decided, Error>> {
        let mut pace = Pace::new(self.patience);
        let mut outcomes: Vec<Option<Result<Decided, Error>>> = commands.iter().map(|_| None).collect();
        let mut open: Vec<usize> = (0..commands.len()).collect();
        while !open.is_empty() {
            let asked: Vec<_> = open.iter().filter_map(|at| commands.get(*at).cloned()).collect();
            let answered = decider.execute_many(&asked).await;
            let (mut again, mut failure) = (Vec::new(), None);
            for (at, outcome) in open.into_iter().zip(answered) {
                match outcome {
                    Err(Undecided::Store(error)) if error.is_passing() => {
                        failure.get_or_insert_with(|| error.clone());
                        again.push((at, error));
                    }
                    outcome => outcomes[at] = Some(outcome.map_err(Error::from)),
                }
            }
            let given_up = match failure {
                Some(failure) => pace.wait_after(failure).await.is_err(),
                None => false,
            };
            open = again.iter().map(|(at, _)| *at).collect();
            if given_up {
                open.clear();
                again.into_iter().for_each(|(at, error)| outcomes[at] = Some(Err(error.into())));
            }
        }
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(untold(self, NO_ANSWER)))).collect()
    }
}

/// It was not told what became of it.
fn untold(coordinator: &Coordinator, why: &str) -> Error {
    StoreError::Unknown { location: coordinator.store().location(), why: why.to_string() }.into()
}
