//! Decides which writes pass, and with which token.
//!
//! Assumes that every write reaches the upstream through guards of one resource, and that clocks drift by less than 1 %. Guarantees:
//!
//! - A token is let in first by the [fence](baton::election::fence) of the resource, in the store: it was current then, and not below
//!   any that the fence let in before, through whichever guard and in whichever run of it.
//! - From then on the guard has a *hold* on the fence, which it keeps and by its own clock never overstays, and lets the
//!   same token in without asking. While it has the hold, no other guard and no `baton fence` lets any token in.
//! - A lower token is refused from the moment at which a higher one was let in. Before that a token whose leadership has
//!   ended is let in for as long as it takes to hear of the end: pushed by the store, at the latest with the next keeping of the hold.
//!   Nothing of the successor was let in by then, so that the order of the writes is the order of the tokens.
//! - A higher token is let in only when all requests of lower ones that went through this guard have ended: the upstream has
//!   answered them whole, or they were given up because they took longer than the limit on one request. Of a request that is
//!   answered before it has arrived whole nothing more is passed on.
//! - Without the store a token that was let in is let in until the hold ends, some five seconds; then every write is refused.
//!
//! Does not guarantee that the upstream has stopped working on a request that was given up, or reads no more of one that it has
//! answered and that is in its connection's buffers, nor anything about a guard that is itself killed or stopped while requests are
//! under way: others wait for the end of its hold, and not for those.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton::election::fence::{self, Entry, HoldRequest};
use baton::election::time::{Moment, Span};
use baton::election::{Credential, ElectionName, Epoch, Margins, Refusal, ResourceName};
use baton::store::boot;
use baton::{Coordinator, Error, Follower};
use baton_http_listener::Problem;
use tokio::time::{Duration, Instant, timeout_at};

use crate::cohort::{AdmittedRequest, Cohort, Order};
use crate::keeper;
use crate::look::Looks;
use crate::problem;

/// How long a hold lasts after it was last kept: how long others wait if this guard is killed.
pub(crate) const HOLD: Span = Span::secs(5);
/// How often the fence is asked again while another has a hold on it.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// Decides which writes pass.
pub(crate) struct Gate {
    pub(crate) coordinator: Coordinator,
    pub(crate) election: ElectionName,
    pub(crate) resource: ResourceName,
    follower: Follower,
    /// How long a higher token waits for the requests of lower ones.
    drain: Duration,
    state: Mutex<State>,
    /// Who lets another token in, or gives the hold back, does so alone.
    pub(crate) turn: tokio::sync::Mutex<()>,
    looks: Looks,
}

struct State {
    /// Whose the hold is. Another once it was given back: what was sent late to give back one hold must not end the next.
    holder: Credential,
    /// The highest epoch that is known of.
    known: Epoch,
    open: Option<Open>,
    /// Those that no more requests join, with some under way.
    leaving: Vec<Arc<Cohort>>,
}

/// The token that is let in without asking.
struct Open {
    cohort: Arc<Cohort>,
    /// The end of the hold, by this machine's clock.
    until: Moment,
    used: Moment,
}

impl State {
    /// Those with requests under way that no more join, of other tokens than this.
    fn others(&self, token: Epoch) -> impl Iterator<Item = &Arc<Cohort>> {
        self.leaving.iter().filter(move |cohort| cohort.token != token && cohort.under_way() > 0)
    }
}

/// What the follower says of a token that was let in before.
enum Hint {
    /// Nothing against it.
    Fine,
    /// It has been superseded.
    Past(Refusal),
    /// Something has changed: the store is to be asked.
    Doubt,
}

impl Gate {
    pub(crate) async fn new(
        coordinator: Coordinator,
        election: ElectionName,
        resource: ResourceName,
        holder: Credential,
        drain: Duration,
    ) -> Gate {
        let follower = coordinator.follow(&election).await;
        Gate {
            coordinator,
            election,
            resource,
            follower,
            drain,
            state: Mutex::new(State { holder, known: Epoch(0), open: None, leaving: Vec::new() }),
            turn: tokio::sync::Mutex::default(),
            looks: Looks::default(),
        }
    }

    /// Lets a write in, or says why not.
    pub(crate) async fn enter(self: &Arc<Self>, token: Epoch) -> Result<AdmittedRequest, Problem> {
        let doubted = match self.hint(token) {
            Hint::Fine => false,
            Hint::Past(refusal) => {
                self.learn(&refusal);
                return Err(problem::refused(&refusal));
            }
            Hint::Doubt => true,
        };
        if let Some(answer) = self.at_once(token).filter(|answer| !doubted || answer.is_err()) {
            return answer;
        }
        let until = Instant::now() + self.drain;
        if doubted || !self.is_open_for(token) {
            // Before anything is closed for it: a token that is not current closes nothing.
            self.check(token, until).await?;
            let Ok(_alone) = timeout_at(until, self.turn.lock()).await else {
                return Err(problem::not_now("busy", "others are being let in", "try again"));
            };
            if let Some(answer) = self.at_once(token) {
                return answer;
            }
            if !self.is_open_for(token) {
                self.admit(token, until).await?;
            }
        }
        self.drained(token, until).await?;
        let late = || problem::not_now("busy", "the store took too long", "try again");
        self.at_once(token).unwrap_or_else(|| Err(late()))
    }

    fn hint(&self, token: Epoch) -> Hint {
        let view = self.follower.leader();
        if view.stale {
            // The hold is what counts.
            Hint::Fine
        } else if view.token > token {
            Hint::Past(Refusal::Stale {
                shown: token,
                current: view.token,
                leader: view.agent.clone().filter(|_| !view.vacant),
                why: "a later leadership has begun".to_string(),
            })
        } else if view.vacant || view.stopped {
            Hint::Doubt
        } else {
            Hint::Fine
        }
    }

    /// What can be said without asking anybody.
    fn at_once(&self, token: Epoch) -> Option<Result<AdmittedRequest, Problem>> {
        let mut state = self.state();
        if token < state.known {
            let refusal = Refusal::Stale {
                shown: token,
                current: state.known,
                leader: None,
                why: "a later leadership has begun".to_string(),
            };
            return Some(Err(problem::refused(&refusal)));
        }
        let now = boot::now();
        if state.others(token).next().is_some() {
            return None;
        }
        let open = state.open.as_mut().filter(|open| open.cohort.token == token && now < open.until)?;
        open.used = now;
        Some(Ok(AdmittedRequest::new(&open.cohort)))
    }

    /// Whether the fence has let this token in, and this guard has its hold.
    fn is_open_for(&self, token: Epoch) -> bool {
        let state = self.state();
        state.open.as_ref().is_some_and(|open| open.cohort.token == token && boot::now() < open.until)
    }

    /// Whether a token is current, as the store says. All who ask at the same time share one look: tokens that are not current, however
    /// many are shown, keep nobody out.
    async fn check(&self, token: Epoch, until: Instant) -> Result<(), Problem> {
        let view = async { self.coordinator.view(&self.election).await.map_err(problem::failed) };
        let looked = timeout_at(until, self.looks.look(view)).await;
        let seen = looked.unwrap_or_else(|_| Err(self.silent()))?;
        let checked = match &seen.document {
            Some(document) => fence::check(token, document, seen.age),
            None => Err(Refusal::UnknownElection { election: self.election.to_string() }),
        };
        checked.map_err(|refusal| {
            self.learn(&refusal);
            problem::refused(&refusal)
        })
    }

    /// Waits for the requests of other tokens.
    async fn drained(&self, token: Epoch, until: Instant) -> Result<(), Problem> {
        let others: Vec<Arc<Cohort>> = self.state().others(token).cloned().collect();
        for cohort in &others {
            cohort.order(Order::Hurry);
        }
        for cohort in &others {
            if timeout_at(until, cohort.empty()).await.is_err() {
                others.iter().for_each(|cohort| cohort.order(Order::Cut));
                return Err(problem::not_now(
                    "draining",
                    format!("{} requests with token {} are under way", cohort.under_way(), cohort.token),
                    "try again: they are waited for until they end",
                ));
            }
        }
        Ok(())
    }

    /// Has the fence let a token in, in this guard's name, and lets nobody in with another. Whoever calls this has the turn.
    pub(crate) async fn admit(self: &Arc<Self>, token: Epoch, until: Instant) -> Result<(), Problem> {
        close(&mut self.state(), |open| open.token != token);
        loop {
            let asked_at = boot::now();
            match timeout_at(until, self.ask_fence(token)).await {
                Ok(Ok(_)) => {
                    let cohort = self.open(token, Margins::STANDARD.deadline(asked_at, HOLD));
                    keeper::start(self, cohort);
                    return Ok(());
                }
                Ok(Err(Error::Refused(refusal @ Refusal::Held { .. }))) => {
                    if Instant::now() + ASK_AGAIN >= until {
                        return Err(problem::refused(&refusal));
                    }
                    tokio::time::sleep(ASK_AGAIN).await;
                }
                Ok(Err(Error::Refused(refusal))) => {
                    self.learn(&refusal);
                    return Err(problem::refused(&refusal));
                }
                Ok(Err(error)) => return Err(problem::failed(error)),
                Err(_) => return Err(self.silent()),
            }
        }
    }

    /// Asks the fence for a hold, or for the same one anew.
    pub(crate) async fn ask_fence(&self, token: Epoch) -> Result<(), Error> {
        let view = self.follower.leader();
        let entry = Entry {
            resource: &self.resource,
            token,
            agent: view.agent.as_ref().filter(|_| view.token == token),
            note: "baton guard",
            hold: Some(HoldRequest::short(self.holder(), HOLD)),
        };
        self.coordinator.fences().admit(&entry, Some(&self.election)).await.map(drop)
    }

    fn open(&self, token: Epoch, until: Moment) -> Arc<Cohort> {
        let mut state = self.state();
        close(&mut state, |_| true);
        let cohort = Cohort::new(token);
        state.known = state.known.max(token);
        state.open = Some(Open { cohort: Arc::clone(&cohort), until, used: boot::now() });
        cohort
    }

    /// The token of whoever leads, as far as that is known.
    pub(crate) fn leading(&self) -> Option<Epoch> {
        let view = self.follower.leader();
        (!view.vacant && !view.stopped && !view.stale).then_some(view.token)
    }

    /// Takes in what a refusal says about the election.
    pub(crate) fn learn(&self, refusal: &Refusal) {
        if let Refusal::Stale { current, .. } = refusal {
            let mut state = self.state();
            state.known = state.known.max(*current);
            let known = state.known;
            close(&mut state, |open| open.token < known);
        }
    }

    /// Lets nobody else in without asking the fence anew.
    pub(crate) fn close(&self, cohort: &Arc<Cohort>) {
        close(&mut self.state(), |open| Arc::ptr_eq(open, cohort));
    }

    /// The end of the hold, if this is the token that is let in.
    pub(crate) fn open_until(&self, cohort: &Arc<Cohort>) -> Option<Moment> {
        let state = self.state();
        state.open.as_ref().filter(|open| Arc::ptr_eq(&open.cohort, cohort)).map(|open| open.until)
    }

    /// The hold was kept.
    pub(crate) fn kept(&self, cohort: &Arc<Cohort>, until: Moment) {
        let mut state = self.state();
        if let Some(open) = state.open.as_mut().filter(|open| Arc::ptr_eq(&open.cohort, cohort)) {
            open.until = until;
        }
    }

    /// Closes if nobody has come for so long and nobody is there.
    pub(crate) fn close_if_idle(&self, cohort: &Arc<Cohort>, idle: Span) -> bool {
        let mut state = self.state();
        let is_idle = state.others(cohort.token).next().is_none()
            && state.open.as_ref().is_some_and(|open| {
                Arc::ptr_eq(&open.cohort, cohort)
                    && cohort.under_way() == 0
                    && boot::now().since(open.used) > idle
            });
        if is_idle {
            close(&mut state, |_| true);
        }
        is_idle
    }

    /// Whose the hold is.
    pub(crate) fn holder(&self) -> Credential {
        self.state().holder
    }

    /// Whose the next hold is. Whoever calls this has the turn.
    pub(crate) fn next_holder(&self, holder: Credential) {
        self.state().holder = holder;
    }

    /// Whether no token is let in without asking.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().open.is_none()
    }

    /// Whether, besides, nothing is under way.
    pub(crate) fn is_at_rest(&self) -> bool {
        let state = self.state();
        state.open.is_none() && state.leaving.iter().all(|cohort| cohort.under_way() == 0)
    }

    /// Lets nobody in any more, waits for those under way, and gives the hold back.
    pub(crate) async fn shut(&self, until: Instant) {
        let leaving = {
            let mut state = self.state();
            close(&mut state, |_| true);
            state.leaving.clone()
        };
        for cohort in &leaving {
            cohort.order(Order::Hurry);
            let _ = timeout_at(until, cohort.empty()).await;
        }
        keeper::give_back(self).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> Problem {
        let detail =
            format!("{} did not answer within {:?}", self.coordinator.backend().location(), self.drain);
        let hint = "without the store nobody can say whether the token is current; reads pass";
        problem::not_now("unavailable", detail, hint)
    }
}

/// Ends the joining of requests, if this is to be closed. Those under way are remembered.
fn close(state: &mut State, wanted: impl Fn(&Arc<Cohort>) -> bool) {
    state.leaving.retain(|cohort| cohort.under_way() > 0);
    if let Some(open) = state.open.take_if(|open| wanted(&open.cohort))
        && open.cohort.under_way() > 0
    {
        state.leaving.push(open.cohort);
    }
}
