//! How a leadership ends from this side: its work has stopped, or the member goes.

use baton_election::Moment;
use baton_peer::{Input, LossCause, Machine, Start};
use baton_store::boot;

use super::{FAREWELL_MAX, Shell};
use crate::node::{LeadershipSnapshot, LeadershipStatus, NodeError, WorkMessage};

/// How far a member is in giving up a leadership whose work has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resignation {
    /// It lasts until then; whether it goes on is not known yet.
    Waits { until: Option<Moment> },
    /// It goes on, and somebody shall take it.
    Offered,
    /// Nobody can.
    Refused,
}

impl<M: Machine> Shell<M> {
    /// The one who does the work says something.
    pub(super) async fn heed(&mut self, word: WorkMessage) -> Result<(), NodeError> {
        match word {
            WorkMessage::Stopped { serial } => {
                let asked = self.leadership.borrow().current.is_some_and(|o| o.serial == serial && o.stop);
                if asked { self.step(Input::Stopped).await } else { Ok(()) }
            }
            WorkMessage::Resign { serial } => {
                let current = self.leadership.borrow().current.filter(|current| current.serial == serial);
                self.resigning = current.map(|current| Resignation::Waits { until: current.until });
                match current {
                    Some(LeadershipSnapshot { stop: true, .. }) => self.step(Input::Stopped).await,
                    Some(_) | None => Ok(()),
                }
            }
            WorkMessage::Leave => {
                self.leaving = Some(boot::now() + FAREWELL_MAX.min(self.options.config.timing.timeout_max));
                let current = self.leadership.borrow().current;
                match current {
                    Some(LeadershipSnapshot { stop: true, .. }) => self.step(Input::Stopped).await,
                    Some(_) => {
                        // If it is refused, the lease runs out by itself.
                        self.step(Input::Transfer { to: None }).await
                    }
                    None => Ok(()),
                }
            }
        }
    }

    pub(super) fn has_left(&self) -> bool {
        let gone = self.refused.is_some() || self.leadership.borrow().current.is_none();
        self.leaving.is_some_and(|until| gone || boot::now() >= until)
    }

    /// Gives up a leadership that goes on without its work. One that ends by itself, since no majority answers, is left to that: the
    /// machine then knows why, and is read-only.
    pub(super) async fn go_on_resigning(&mut self) -> Result<(), NodeError> {
        let until = self.leadership.borrow().current.map(|current| current.until);
        match (self.resigning, until) {
            (Some(Resignation::Waits { until: before }), Some(until)) if until > before => {
                self.resigning = Some(Resignation::Offered);
                self.step(Input::Transfer { to: None }).await
            }
            (Some(Resignation::Refused), Some(_)) => {
                self.begin_anew();
                Ok(())
            }
            (Some(_), None) => {
                self.resigning = None;
                Ok(())
            }
            (Some(Resignation::Waits { .. } | Resignation::Offered) | None, _) => Ok(()),
        }
    }

    /// The machine starts again from what it kept, as after a crash, which ends its leadership. Others, or this member after the wait of
    /// every start, are elected in a later term.
    fn begin_anew(&mut self) {
        self.resigning = None;
        self.leadership.send_modify(|leadership| {
            if let Some(current) = leadership.current {
                *leadership =
                    LeadershipStatus { current: None, ended: Some((current.serial, LossCause::HandedOver)) };
            }
        });
        let start = self.kept.clone().map_or(Start::Forgotten, Start::Restarted);
        self.machine = M::start(self.options.config.clone(), start, boot::now());
        self.group = self.machine.group().clone();
    }
}
