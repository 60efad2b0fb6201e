//! Orders on the store as a whole: they are signed, carried out, or wait until as many operators have signed as the store asks for.
//!
//! Guarantees that an order is signed for the store as it stands, and anew as often as another one comes first. What an order on the store means for the
//! elections that exist (its operators, a pause of everything) is an act on each of them, signed by whoever's signature completed the order; a
//! call that is broken off in between is completed by the same call again.

use baton_election::operator::{Act, OperatorKey, PublicKey};
use baton_election::store_order::{SignedStoreOrder, StoreChange, StoreOrder, StoreRequest};
use baton_election::store_quorum::{OrderOutcome, PendingOrder, StoreQuorum};
use baton_election::tokens::TokenOrder;
use baton_election::{Refusal, StoreInfo};
use baton_store::boot;

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::operators::{MAX_ATTEMPTS, Spread};

/// The orders that wait for more signatures.
#[derive(Debug, Default)]
pub struct WaitingOrders {
    /// On the store as a whole.
    pub store: Vec<PendingOrder<StoreOrder>>,
    /// On its access tokens, if this caller may see them.
    pub tokens: Vec<PendingOrder<TokenOrder>>,
}

/// The orders on a store as a whole.
#[derive(Clone, Copy)]
pub struct StoreOrders<'a>(pub(crate) &'a Coordinator);

impl Coordinator {
    /// The orders on the store as a whole: its quorum, a pause of everything, and those that wait for signatures.
    pub fn orders(&self) -> StoreOrders<'_> {
        StoreOrders(self)
    }
}

impl StoreOrders<'_> {
    /// Carries out a signed order on the store, or has it wait for more signatures. It ends no leadership by itself. A server asks the first operator for
    /// a code.
    pub async fn submit(self, order: &SignedStoreOrder, code: Option<&str>) -> Result<OrderOutcome, Error> {
        let request = StoreRequest { order: order.clone(), code: code.map(ToString::to_string) };
        Ok(self.0.backend.orders()?.order_store(self.0.patience, &request).await?)
    }

    /// Says how many operators an order on the store takes.
    pub async fn set_quorum(
        self,
        by: &OperatorKey,
        rules: &StoreQuorum,
        break_glass: Option<&str>,
    ) -> Result<OrderOutcome, Error> {
        let change = StoreChange::Quorum { rules: rules.clone() };
        self.change(by, break_glass, None, |info| (*info.quorum != *rules).then(|| Ok(change.clone()))).await
    }

    /// Orders a change of the store, as often as another order comes first. Nothing is ordered where nothing is to be changed.
    pub(crate) async fn change(
        self,
        by: &OperatorKey,
        break_glass: Option<&str>,
        code: Option<&str>,
        change: impl Fn(&StoreInfo) -> Option<Result<StoreChange, Refusal>>,
    ) -> Result<OrderOutcome, Error> {
        let mut attempt = 1;
        loop {
            let info = self.0.fresh_info(false).await?;
            let Some(change) = change(&info) else { return Ok(OrderOutcome::Done) };
            let alone = break_glass.map(ToString::to_string);
            let order = by.sign_store_urgently(&info, change?, alone, boot::wall());
            match self.submit(&order, code).await {
                Err(Error::Refused(Refusal::Invalid { .. }))
                    if attempt < MAX_ATTEMPTS && self.is_changed(&info).await? =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether another order on the store came first.
    async fn is_changed(self, info: &StoreInfo) -> Result<bool, Error> {
        Ok(self.0.fresh_info(false).await?.orders != info.orders)
    }

    /// The orders that wait for more signatures and to which one more would count.
    pub async fn waiting(self) -> Result<WaitingOrders, Error> {
        let (info, at) = (self.0.fresh_info(false).await?, boot::wall());
        let store = info.waiting.iter().filter(|one| one.is_live(&info, at)).cloned().collect();
        let tokens = match self.0.tokens().known().await {
            Ok(tokens) => tokens.waiting.into_iter().filter(|one| one.is_live(&info, at)).collect(),
            // Tokens are shown to operators only.
            Err(Error::Store(error)) if !error.is_passing() => Vec::new(),
            Err(error) => return Err(error),
        };
        Ok(WaitingOrders { store, tokens })
    }

    /// Signs an order on the store that another operator has signed. The signature that completes it also carries it into every election. An order for another
    /// store, or for what has not come to pass, is not signed; whoever wants to see what it is looks before.
    pub async fn cosign(self, by: &OperatorKey, waiting: &PendingOrder<StoreOrder>) -> Result<Spread, Error> {
        let info = self.0.fresh_info(false).await?;
        waiting.check(&info, info.number_after(info.orders), boot::wall())?;
        let outcome = self.submit(&by.cosign_order(waiting), None).await?;
        if let Some(signed) = Spread::waiting_for(outcome) {
            return Ok(signed);
        }
        match &waiting.order.change {
            StoreChange::Operators { after, .. } => {
                self.spread_operators(by, &info.operator_keys, after).await
            }
            StoreChange::Pause { .. } => self.halt_all(by, None).await,
            StoreChange::Resume => self.0.operators().spread(by, &Act::Resume, None).await,
            StoreChange::Quorum { .. } => Ok(Spread::default()),
        }
    }

    /// Carries a changed list of operators into every election.
    async fn spread_operators(
        self,
        by: &OperatorKey,
        before: &[PublicKey],
        after: &[PublicKey],
    ) -> Result<Spread, Error> {
        let mut spread = Spread::default();
        for key in after.iter().filter(|key| !before.contains(key)) {
            spread = spread.and(self.0.operators().spread(by, &Act::Enrol { key: *key }, None).await?);
        }
        for key in before.iter().filter(|key| !after.contains(key)) {
            spread = spread.and(self.0.operators().spread(by, &Act::Dismiss { key: *key }, None).await?);
        }
        Ok(spread)
    }
}
