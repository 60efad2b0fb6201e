//! Operators' orders on the store as a whole and on its access tokens.

use baton_api::Patience;
use baton_api::elections::{BoxResult, Orders};
use baton_election::store_order::StoreRequest;
use baton_election::store_quorum::OrderOutcome;
use baton_election::tokens::SignedTokenOrder;
use baton_election::{Refusal, StoreInfo, Tokens};
use baton_store::{AgeStamp, Key, Persistence, Record, boot};

use crate::executor::{Executor, Step};

impl Orders for Executor {
    /// It ends no leadership by itself.
    fn order_store<'a>(
        &'a self,
        patience: Patience,
        request: &'a StoreRequest,
    ) -> BoxResult<'a, OrderOutcome> {
        Box::pin(async move {
            self.change(&Key::Store, patience, |look| {
                let info = known(look.record)?;
                let (next, outcome) = request.order.carry_out(info, boot::wall())?;
                Ok(if next == *info {
                    Step::Done(outcome)
                } else {
                    Step::Write(Record::Store(next), AgeStamp::Preserve, Persistence::Durable, outcome)
                })
            })
            .await
        })
    }

    fn order_tokens<'a>(
        &'a self,
        patience: Patience,
        order: &'a SignedTokenOrder,
    ) -> BoxResult<'a, OrderOutcome> {
        Box::pin(async move {
            // Who the operators are is asked anew: one who was removed orders nothing.
            let info = self.fresh_info(patience, false).await?;
            self.change(&Key::Tokens, patience, |look| {
                let tokens = match look.record {
                    Some(Record::Tokens(tokens)) => tokens.clone(),
                    Some(_) | None => Tokens::default(),
                };
                let (next, outcome) = order.carry_out(&tokens, &info, boot::wall())?;
                Ok(if next == tokens {
                    Step::Done(outcome)
                } else {
                    Step::Write(Record::Tokens(next), AgeStamp::Preserve, Persistence::Durable, outcome)
                })
            })
            .await
        })
    }
}

/// What a store knows of itself.
fn known(record: Option<&Record>) -> Result<&StoreInfo, Refusal> {
    match record {
        Some(Record::Store(info)) => Ok(info),
        Some(_) | None => Err(Refusal::invalid("the store's own record is gone", "run baton init again")),
    }
}
