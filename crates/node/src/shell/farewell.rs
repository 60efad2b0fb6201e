//! How a leadership ends from this side: its work has stopped, or the member goes.

use baton_election::Moment;
use baton_peer::{Input, LossCause, Machine, Start};
use baton_store::boot;

use super::{FAREWELL_MAX, Shell};
use crate::node::{Desk, NodeError, Office, Word};

/// How far a member is in giving up a leadership whose work has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resigning {
    /// It lasts until then; whether it goes on is not known yet.
    Waits { until: Option<Moment> },
    /// It goes on, and somebody shall take it.
    Offered,
    /// Nobody can.
    Refused,
}

impl<M> Shell<M>
where
    M: Machine + Send + 'static,
    M::Message: Send,
    M::Saved: Send + 'static,
{
    /// The one who does the work says something.
    pub(super) async fn heed(&mut self, word: Word) -> Result<(), NodeError> {
        match word {
            Word::Stopped { serial } => {
                let asked = self.desk.borrow().office.is_some_and(|o| o.serial == serial && o.stop);
                if asked { self.step(Input::Stopped).await } else { Ok(()) }
            }
            Word::Resign { serial } => {
                let office = self.desk.borrow().office.filter(|office| office.serial == serial);
                self.resigning = office.map(|office| Resigning::Waits { until: office.until });
                match office {
                    Some(Office { stop: true, .. }) => self.step(Input::Stopped).await,
                    Some(_) | None => Ok(()),
                }
            }
            Word::Leave => {
                self.leaving = Some(boot::now() + FAREWELL_MAX.min(self.options.config.timing.timeout_max));
                let office = self.desk.borrow().office;
                match office {
                    Some(Office { stop: true, .. }) => self.step(Input::Stopped).await,
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
        let gone = self.refused.is_some() || self.desk.borrow().office.is_none();
        self.leaving.is_some_and(|until| gone || boot::now() >= until)
    }

    /// Gives up a leadership that goes on without its work. One that ends by itself, since no majority answers, is left to that: the
    /// machine then knows why, and is read-only.
    pub(super) async fn go_on_resigning(&mut self) -> Result<(), NodeError> {
        let until = self.desk.borrow().office.map(|office| office.until);
        match (self.resigning, until) {
            (Some(Resigning::Waits { until: before }), Some(until)) if until > before => {
                self.resigning = Some(Resigning::Offered);
                self.step(Input::Transfer { to: None }).await
            }
            (Some(Resigning::Refused), Some(_)) => {
                self.begin_anew();
                Ok(())
            }
            (Some(_), None) => {
                self.resigning = None;
                Ok(())
            }
            (Some(Resigning::Waits { .. } | Resigning::Offered) | None, _) => Ok(()),
        }
    }

    /// The machine starts again from what it kept, as after a crash, which ends its leadership. Others, or this member after the wait of
    /// every start, are elected in a later term.
    fn begin_anew(&mut self) {
        self.resigning = None;
        self.desk.send_modify(|desk| {
            if let Some(office) = desk.office {
                *desk = Desk { office: None, ended: Some((office.serial, LossCause::HandedOver)) };
            }
        });
        let start = self.kept.clone().map_or(Start::Forgotten, Start::Restarted);
        self.machine = M::start(self.options.config.clone(), start, boot::now());
        self.group = self.machine.group().clone();
    }
}
