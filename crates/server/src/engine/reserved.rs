//! The election in which servers elect the active one. They take part in it as everybody does, through the store; here it is shown, and
//! who its operators are is changed, so that they are the same as everywhere.

use std::sync::Arc;

use baton::{Memory, Patience};
use baton_api::command::Decided;
use baton_api::elections::{Elections, StartFrom};
use baton_election::operator::Act;
use baton_election::time::Span;
use baton_election::{Command, ElectionName, Refusal};
use baton_executor::Executor;
use baton_store::{Key, Reading, Record, StoreError};

use super::{Outcome, Shared, View};

/// Whether it is that one.
pub(super) fn is_reserved(election: &ElectionName) -> bool {
    election.as_str() == baton::SERVERS
}

impl Shared {
    /// An election that is not decided here, as its store shows it.
    pub(super) async fn look_at(&self, election: &ElectionName) -> Result<View, StoreError> {
        let Reading { found, age, .. } = self.store.read(&Key::Election(election.clone())).await?;
        let document = match found {
            Some((Record::Election(document), _)) => Some(*document),
            Some(_) | None => None,
        };
        Ok(View { document, age: age.unwrap_or(Span::ZERO) })
    }

    /// Carries out, in the store, what changes its operators. Everything else is refused: whoever ended the active server's leadership
    /// through that server would get no answer.
    pub(super) async fn execute_reserved(&self, election: &ElectionName, command: &Command) -> Outcome {
        let of_operators = |act: &Act| matches!(act, Act::Enrol { .. } | Act::Dismiss { .. });
        let Command::Operate(signed) = command else { return refused(election) };
        if self.term().is_none() || !of_operators(&signed.order.act) {
            return refused(election);
        }
        let is_known = |info: &baton_election::StoreInfo| info.operator_keys.contains(&signed.by);
        let info = Arc::clone(&self.info.read().unwrap_or_else(std::sync::PoisonError::into_inner));
        if matches!(signed.order.act, Act::Enrol { key } if key == signed.by) && !is_known(&info) {
            let why = format!("the key {} is not an operator's of this store", signed.by);
            return Err(Refusal::WrongKey { why }.into());
        }
        let once = Patience { retries: Some(2), ..Patience::default() };
        let executor = Executor::new(Arc::clone(&self.store), Memory::new());
        let executed = executor.execute(once, election, command, StartFrom::Read).await?;
        Ok(Decided { answer: executed.answer, document: executed.document.map(Box::new), ttl: None })
    }
}

fn refused(election: &ElectionName) -> Outcome {
    let why = format!("the servers themselves are elected in `{election}`");
    Err(Refusal::invalid(why, "choose another name; an operator acts on it in the store").into())
}
