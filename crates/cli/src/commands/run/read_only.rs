//! CMD goes on without leadership, while run campaigns again beside it.
//!
//! Assumes that CMD obeys its mode file. Guarantees that CMD is shown another leadership only once the warden has its
//! deadline, and that none is taken over from before: each campaign is a new incarnation.

use std::time::Duration;

use baton::Grant;
use baton::election::{Credential, Epoch};
use baton_warden::{Report, WardenEvent, WardenHandle};
use tokio::task::JoinHandle;

use super::Runner;
use super::events::trouble;
use super::lead::{CommandRun, Ending, StopReason};
use super::leadership::LeadershipRun;
use crate::exit::Speaker;
use crate::output::Failure;

/// Between two campaigns, if one failed for a reason that does not pass by itself.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// The longest that is spent on giving back what nobody works under.
const GIVE_BACK: Duration = Duration::from_secs(2);

/// How the time without leadership ended.
pub(super) enum Outage {
    /// It is granted a lease again, of which the warden has been told.
    Over(Box<LeadershipRun>),
    /// With CMD, whose exit code this is. Nothing of it is left.
    Ended(u8),
}

impl CommandRun<'_, '_> {
    /// Until nothing of CMD is left, or it is to lead again. `token` is of the leadership that is over.
    pub(super) async fn go_on_read_only(
        &mut self,
        warden: &mut WardenHandle,
        token: Epoch,
        lost: &str,
    ) -> Result<Outage, Failure> {
        let (agent, election) = (&self.runner.bid.agent, &self.runner.options.election);
        let text = format!("{agent} does not lead {election} any more ({lost}): CMD goes on read-only");
        self.runner.events.tell("read-only", Some(token), &text)?;
        let mut comeback = match self.runner.options.once {
            true => None,
            false => Some(Recampaign::begin(self.runner, Duration::ZERO)?),
        };
        let mut told = String::new();
        loop {
            tokio::select! {
                news = warden.next_report() => {
                    let code = match news {
                        Ok(WardenEvent::Told(Report::Ended { how, why })) => self.ended(&how, why, lost.to_string())?,
                        Ok(WardenEvent::Told(Report::Unkillable { pid, name })) => {
                            self.unkillable(pid, &name)?;
                            continue;
                        }
                        Ok(WardenEvent::Told(Report::Validated { how, why, said })) => {
                            self.validated(how, why, said);
                            continue;
                        }
                        Ok(WardenEvent::Told(
                            Report::Started { .. }
                            | Report::Kept { .. }
                            | Report::Terminating { .. }
                            | Report::ReadOnly
                            | Report::Leading
                            | Report::Suspended,
                        )) => continue,
                        Ok(WardenEvent::Asked(request)) => {
                            self.heed_request(warden, None, request);
                            if let Some(comeback) = &comeback {
                                comeback.task.abort();
                            }
                            continue;
                        }
                        Ok(WardenEvent::Overdue | WardenEvent::Gone) | Err(_) => self.seize(warden).await?,
                    };
                    if let Some(comeback) = comeback {
                        comeback.give_up(self.runner).await;
                    }
                    return Ok(Outage::Ended(code));
                }
                granted = Recampaign::of(&mut comeback), if self.stopping.is_none() => {
                    comeback = None;
                    match granted {
                        Ok(grant) => if let Some(leadership) = self.take_office_again(warden, grant)? {
                            return Ok(Outage::Over(Box::new(leadership)));
                        },
                        Err(why) if why == told => {}
                        Err(why) => {
                            self.runner.events.tell("store", None, &format!("still waiting: {why}"))?;
                            told = why;
                        }
                    }
                    if self.stopping.is_none() {
                        comeback = Some(Recampaign::begin(self.runner, TRY_AGAIN)?);
                    }
                }
                _ = self.runner.signals.next() => {
                    self.stop_as_asked(warden, None);
                    if let Some(comeback) = &comeback {
                        comeback.task.abort();
                    }
                }
            }
        }
    }

    /// CMD is to lead again; none if it is not, and the lease is given back: nothing was done under it.
    fn take_office_again(
        &mut self,
        warden: &mut WardenHandle,
        grant: Grant,
    ) -> Result<Option<LeadershipRun>, Failure> {
        let credential = grant.credential;
        if let Err(failure) = self.runner.options.check_grace(Some(grant.lasts())) {
            tokio::spawn(self.runner.give_back(credential, "the grace does not fit the lease"));
            self.stop_losing(warden, failure.message);
            return Ok(None);
        }
        let too_late = |runner: &Runner<'_>| {
            tokio::spawn(runner.give_back(credential, "the grant was heard of too late"));
            Ok(None)
        };
        let leadership = match LeadershipRun::take(self.runner, self.folder, &self.files, grant) {
            Ok(leadership) => leadership,
            Err(baton::Error::Lost(_)) => return too_late(self.runner),
            Err(error) => return Err(Failure::from_error(&error, Speaker::Holder)),
        };
        self.files.write_handover(leadership.lead.inherited())?;
        // What CMD wrote while it did not lead is not the leader's word.
        self.file_watch.disregard(&self.files, &leadership.judge.left);
        match warden.lead(leadership.resume(&self.files)) {
            Ok(()) => Ok(Some(leadership)),
            Err(_) => too_late(self.runner),
        }
    }

    /// Nothing of CMD is left, and there is nothing to give back.
    pub(super) fn finish_read_only(&mut self, code: u8, why: String) -> Result<Ending, Failure> {
        let events = &self.runner.events;
        if self.file_watch.last(&self.files).is_some() {
            let text = "the checkpoint is not published: CMD did not lead when it ended";
            events.tell("checkpoint-failed", None, text)?;
        }
        match self.stopping.take() {
            Some(StopReason::Lost(why)) => Ok(Ending::Lost(why)),
            None | Some(StopReason::Asked | StopReason::Suspended) if self.runner.options.once => {
                Ok(Ending::Lost(why))
            }
            Some(StopReason::Suspended) => Ok(Ending::Suspended),
            None | Some(StopReason::Asked) => {
                events.tell("ended", None, "CMD ended read-only: there is nothing to release")?;
                Ok(Ending::Finished(code))
            }
        }
    }
}

/// A campaign beside a CMD that runs.
struct Recampaign {
    credential: Credential,
    task: JoinHandle<Result<Grant, baton::Error>>,
}

impl Drop for Recampaign {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Recampaign {
    /// Waits in line as a new incarnation, however long it takes.
    fn begin(runner: &Runner<'_>, after: Duration) -> Result<Recampaign, Failure> {
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Candidate);
        let credential = baton::mint_credential().map_err(fail)?;
        let turn = runner.turn(None, credential);
        let (coordinator, events) = (runner.context.coordinator.clone(), runner.events.clone());
        let task = tokio::spawn(async move {
            tokio::time::sleep(after).await;
            tokio::select! {
                granted = turn => granted,
                never = trouble(&coordinator, &events) => match never {},
            }
        });
        Ok(Recampaign { credential, task })
    }

    /// Waits for it, for ever if there is none. An error says why it has to begin anew; no store is given up.
    async fn of(comeback: &mut Option<Recampaign>) -> Result<Grant, String> {
        match comeback {
            None => std::future::pending().await,
            Some(comeback) => match (&mut comeback.task).await {
                Ok(granted) => granted.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// Ends it. What it may have been granted is given back, if the store can be reached.
    async fn give_up(self, runner: &Runner<'_>) {
        self.task.abort();
        let given_back = runner.give_back(self.credential, "the wait for it was broken off");
        let _ = tokio::time::timeout(GIVE_BACK, given_back).await;
    }
}
