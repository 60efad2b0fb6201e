//! The requests that were let in with one token, and what they are told when others wait for their end.

use std::sync::Arc;

use baton::election::Epoch;
use tokio::sync::watch;

/// What those under way are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Nobody waits.
    AtEase,
    /// Somebody waits: an answer is not held up by a client that does not take it.
    Hurry,
    /// A request that has not arrived whole is cut off. What the upstream has whole, it is waited for.
    Cut,
}

/// The requests of one token.
#[derive(Debug)]
pub(crate) struct Cohort {
    pub(crate) token: Epoch,
    under_way: watch::Sender<usize>,
    order: watch::Sender<Order>,
}

impl Cohort {
    pub(crate) fn new(token: Epoch) -> Arc<Cohort> {
        Arc::new(Cohort { token, under_way: watch::Sender::new(0), order: watch::Sender::new(Order::AtEase) })
    }

    pub(crate) fn under_way(&self) -> usize {
        *self.under_way.borrow()
    }

    /// Waits until none is under way.
    pub(crate) async fn empty(&self) {
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }

    /// Orders are not taken back.
    pub(crate) fn order(&self, order: Order) {
        self.order.send_if_modified(|standing| {
            let stricter = order > *standing;
            *standing = order.max(*standing);
            stricter
        });
    }
}

/// One request under way. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct AdmittedRequest {
    cohort: Arc<Cohort>,
}

impl AdmittedRequest {
    pub(crate) fn new(cohort: &Arc<Cohort>) -> AdmittedRequest {
        cohort.under_way.send_modify(|count| *count += 1);
        AdmittedRequest { cohort: Arc::clone(cohort) }
    }

    /// Waits for an order at least as strict.
    pub(crate) async fn told(&self, order: Order) {
        let _ = self.cohort.order.subscribe().wait_for(|standing| *standing >= order).await;
    }
}

impl Drop for AdmittedRequest {
    fn drop(&mut self) {
        self.cohort.under_way.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_empty_when_the_last_has_ended() {
        let cohort = Cohort::new(Epoch(1));
        cohort.empty().await;
        let (first, second) = (AdmittedRequest::new(&cohort), AdmittedRequest::new(&cohort));
        drop(first);
        assert_eq!(cohort.under_way(), 1);
        let waiting = tokio::spawn({
            let cohort = Arc::clone(&cohort);
            async move { cohort.empty().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn an_order_is_not_taken_back() {
        let cohort = Cohort::new(Epoch(1));
        let place = AdmittedRequest::new(&cohort);
        cohort.order(Order::Cut);
        cohort.order(Order::Hurry);
        place.told(Order::Cut).await;
        assert_eq!(*cohort.order.borrow(), Order::Cut);
    }
}
