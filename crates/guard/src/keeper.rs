//! Keeps the hold of a gate on its fence, and gives it back.

use std::pin::Pin;
use std::sync::Arc;

use baton::Error;
use baton::election::Margins;
use baton::election::fence::MAX_HOLD_WITHOUT_LEASE;
use baton::election::time::{Moment, Span};
use baton::store::boot;
use tokio::time::{Duration, Instant};

use crate::cohort::{Cohort, Order};
use crate::gate::{Gate, HOLD};

/// How often the hold is kept: early enough for a second try.
const BEAT: Span = Span::millis(1_600);
/// A gate that nobody has gone through for so long gives its hold back: others may want it.
const IDLE: Span = Span::secs(3);
/// How long giving back may take.
const GIVING_BACK: Duration = Duration::from_secs(2);
/// How long passing on may take, and how often it is tried.
const PASSING_ON: Duration = Duration::from_millis(500);

/// Keeps the hold of a cohort in the background.
pub(crate) fn start(gate: &Arc<Gate>, cohort: Arc<Cohort>) {
    let gate = Arc::clone(gate);
    let kept: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        keep(&gate, &cohort).await;
        pass_on(&gate, &cohort).await;
        give_back(&gate).await;
    });
    tokio::spawn(kept);
}

/// Goes on while the token of the cohort is let in.
async fn keep(gate: &Gate, cohort: &Arc<Cohort>) {
    let mut admitted_at = boot::now();
    while let Some(until) = gate.open_until(cohort) {
        let next = (boot::now() + BEAT).min(until);
        if boot::sleep_until(next).await.is_err() {
            // There is no timer to be had: nothing is let in that could overstay.
            return gate.close(cohort);
        }
        // Another token may have been let in meanwhile: the hold is that token's.
        if gate.open_until(cohort).is_none() || gate.close_if_idle(cohort, IDLE) {
            return;
        }
        let asked_at = boot::now();
        let holder = gate.holder();
        match before(until, gate.coordinator.fences().keep(&gate.resource, &gate.election, &holder)).await {
            Some(Ok(())) => {
                let until = Margins::STANDARD.deadline(asked_at, HOLD);
                gate.kept(cohort, until);
                if boot::now() >= admitted_at + MAX_HOLD_WITHOUT_LEASE.scaled(1, 2)
                    && before(until, ask_anew(gate, cohort)).await == Some(true)
                {
                    admitted_at = asked_at;
                }
            }
            Some(Err(Error::Refused(refusal))) if boot::now() < until => {
                gate.learn(&refusal);
                gate.close(cohort);
            }
            // The next beat tries again.
            Some(Err(_)) if boot::now() < until => {}
            Some(Err(_)) | None => {
                // Another guard may let a token in from here on: what has not arrived whole does not arrive.
                cohort.order(Order::Cut);
                gate.close(cohort);
            }
        }
    }
}

/// Asks for the same hold anew, early enough for several tries: a guard has no lease to show, so that its hold lasts a minute in all. What is asked
/// for stands in the fence's log. Says whether it was granted.
async fn ask_anew(gate: &Gate, cohort: &Arc<Cohort>) -> bool {
    let Ok(_alone) = gate.turn.try_lock() else { return false };
    gate.open_until(cohort).is_some() && gate.ask_fence(cohort.token).await.is_ok()
}

/// While requests of an ended leadership are under way, the hold is kept in the name of whoever leads, if somebody does: through
/// another guard, too, nobody writes beside them.
async fn pass_on(gate: &Arc<Gate>, cohort: &Cohort) {
    while cohort.under_way() > 0 {
        {
            let _alone = gate.turn.lock().await;
            if !gate.is_closed() {
                return;
            }
            if let Some(token) = gate.leading().filter(|token| *token > cohort.token)
                && gate.admit(token, Instant::now() + PASSING_ON).await.is_ok()
            {
                return;
            }
        }
        let _ = tokio::time::timeout(PASSING_ON, cohort.empty()).await;
    }
}

/// Gives the hold back, if nothing is under way under it. If that fails, it lapses.
pub(crate) async fn give_back(gate: &Gate) {
    let _alone = gate.turn.lock().await;
    if let (true, Ok(next)) = (gate.is_at_rest(), baton::mint_credential()) {
        let holder = gate.holder();
        gate.next_holder(next);
        let given = gate.coordinator.fences().leave(&gate.resource, &holder);
        let _ = tokio::time::timeout(GIVING_BACK, given).await;
    }
}

/// What comes of some work before a moment of the boot-time clock.
async fn before<T>(until: Moment, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        done = work => Some(done),
        _ = boot::sleep_until(until) => None,
    }
}
