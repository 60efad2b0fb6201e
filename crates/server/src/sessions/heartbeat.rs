//! A heartbeat: a renewal of each lease that rides on the session.

use std::collections::HashMap;

use baton_api::CommandError;
use baton_api::command::Decided;
use baton_api::describe::Description;
use baton_api::sessions::{
    EndSessionResponse, Heartbeat, HeartbeatReply, LeaseChange, LeaseFailure, LeaseRef, MAX_AT_ONCE,
    MAX_SESSION_LEASES, MAX_WORD_BYTES, SessionLease,
};
use baton_election::command::{Ending, Finding, Release, Renew, Report};
use baton_election::time::Span;
use baton_election::{Answer, Command, Credential, ElectionName, LeaseKey, Refusal, TokenId};
use baton_store::StoreError;
use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::{LeaseEntry, Session, Sessions, Trouble, load};

/// How many leases of one session are renewed at once: only those that must be written wait for each other's disk.
const AT_ONCE: usize = 64;
/// After so many others are served.
const IN_A_ROW: usize = 256;
/// How many lost leases of one session are remembered. Each was named once; whoever did not hear of the others counts fewer than it
/// expects, and announces all of its leases anew.
const MAX_LOST: usize = 64;

/// What came of the renewal of one lease.
enum RenewalOutcome {
    Yes { ttl: Option<Span>, changed: Option<LeaseChange> },
    Lost(String),
    Failed(String),
}

impl Sessions {
    /// A session lives, and so do its leases.
    pub(crate) async fn heartbeat(
        &self,
        heartbeat: Heartbeat,
        by: Option<TokenId>,
    ) -> Result<HeartbeatReply, Trouble> {
        let Heartbeat { credential, number, add, drop, follows, health, progress, description, leads } =
            heartbeat;
        check_number(add.len().max(drop.len()))?;
        check_word("health", health.as_ref())?;
        check_word("progress", progress.as_ref())?;
        description.as_ref().map_or(Ok(()), Description::check)?;
        super::claims::check(leads.as_deref())?;
        let follows = follows.map(super::checked_follows).transpose()?;
        let unfollowed = {
            let mut state = self.state();
            let session = self.alive(&mut state, &credential, by)?;
            session.in_turn(number)?;
            session.heard(&self.engine);
            session.leave(&drop);
            session.take_on(add)?;
            session.health = health.or(session.health.take());
            session.progress = progress.or(session.progress.take());
            session.description = description.or(session.description.take());
            session.avow(leads);
            let follows = follows.map(|follows| self.follow(&mut state, credential.incarnation, follows));
            follows.unwrap_or_default()
        };
        self.touch();
        self.end_what_depends(&credential, by).await?;
        Ok(HeartbeatReply { unfollowed, ..self.renew_all(credential, by).await? })
    }

    /// Ends each leadership of a session, by the agent's own word, whose policy says that a leader needs what fails.
    async fn end_what_depends(&self, credential: &Credential, by: Option<TokenId>) -> Result<(), Trouble> {
        let (agent, failing, rides) = {
            let mut state = self.state();
            let session = self.alive(&mut state, credential, by)?;
            let failing = session.description.as_ref().map(Description::failing).unwrap_or_default();
            if failing.is_empty() {
                return Ok(());
            }
            let running = session.rides.iter().filter(|(_, ride)| ride.lost.is_none());
            let rides: Vec<(ElectionName, LeaseEntry)> =
                running.map(|(election, ride)| (election.clone(), ride.clone())).collect();
            (session.agent.clone(), failing, rides)
        };
        for (election, ride) in rides {
            let view = self.engine.view(&election).await.map_err(Trouble::Store)?;
            let policy = view.document.as_ref().map(|document| &document.policy);
            let Some(needed) =
                policy.and_then(|policy| policy.depends.iter().find(|name| failing.contains(*name)).cloned())
            else {
                continue;
            };
            let credential = Credential { incarnation: ride.incarnation, key: credential.key };
            let report = Report {
                epoch: ride.token,
                finding: Finding::Dependency,
                detail: format!("its dependency `{needed}` is failing"),
                by: agent.clone(),
                credential: Some(credential),
                number: None,
                checkpoint: None,
                open: None,
            };
            // What is refused is over already; the renewal that follows says so.
            match self.engine.execute(&election, &Command::Report(report)).await {
                Ok(_) | Err(CommandError::Refused(_)) => {}
                Err(CommandError::Store(error)) => return Err(Trouble::Store(error)),
                Err(CommandError::System(why)) => {
                    let location = self.engine.store().location();
                    return Err(Trouble::Store(StoreError::Unknown { location, why }));
                }
            }
        }
        Ok(())
    }

    /// Renews what rides on a session, and says what is not renewed.
    pub(super) async fn renew_all(
        &self,
        credential: Credential,
        by: Option<TokenId>,
    ) -> Result<HeartbeatReply, Trouble> {
        let rides: Vec<(ElectionName, LeaseEntry)> = {
            let mut state = self.state();
            let session = self.alive(&mut state, &credential, by)?;
            session.rides.iter().map(|(election, ride)| (election.clone(), ride.clone())).collect()
        };
        let renewals = rides.into_iter().enumerate().map(|(number, (election, ride))| async move {
            if number % IN_A_ROW == IN_A_ROW - 1 {
                tokio::task::yield_now().await;
            }
            let renewed = match &ride.lost {
                Some(why) => RenewalOutcome::Lost(why.clone()),
                None => self.renew(&election, &ride, credential.key).await,
            };
            (election, ride, renewed)
        });
        let mut renewals = stream::iter(renewals).buffer_unordered(AT_ONCE);
        let (mut beat, mut noted, mut shortest) = (HeartbeatReply::default(), Vec::new(), None);
        while let Some((election, ride, renewed)) = renewals.next().await {
            let not = |why| LeaseFailure { election: election.clone(), token: ride.token, why };
            match renewed {
                RenewalOutcome::Yes { ttl, changed } => {
                    beat.riding += 1;
                    beat.changed.extend(changed);
                    shortest = shortest.into_iter().chain(ttl).min();
                    noted.push((election, LeaseEntry { ttl, ..ride }));
                }
                RenewalOutcome::Lost(why) => {
                    beat.lost.push(not(why.clone()));
                    noted.push((election, LeaseEntry { lost: Some(why), ..ride }));
                }
                RenewalOutcome::Failed(why) => {
                    beat.failed.push(not(why));
                    shortest = shortest.into_iter().chain(ride.ttl).min();
                }
            }
        }
        drop(renewals);
        self.answered(credential, by, beat, noted, shortest)
    }

    /// Notes what came of it, and tells when to come again.
    fn answered(
        &self,
        credential: Credential,
        by: Option<TokenId>,
        beat: HeartbeatReply,
        noted: Vec<(ElectionName, LeaseEntry)>,
        shortest: Option<Span>,
    ) -> Result<HeartbeatReply, Trouble> {
        let mut state = self.state();
        let session = self.alive(&mut state, &credential, by)?;
        for (election, ride) in noted {
            // Unless it has changed meanwhile.
            if let Some(known) = session.rides.get_mut(&election).filter(|known| known.token == ride.token) {
                *known = ride;
            }
        }
        let mut lost = 0;
        session.rides.retain(|_, ride| {
            lost += usize::from(ride.lost.is_some());
            ride.lost.is_none() || lost <= MAX_LOST
        });
        let wanted = self.load.wanted(shortest);
        // It may not hear this answer, and go by the last.
        session.lasts = session.told.max(wanted.lasts());
        session.told = wanted.lasts();
        Ok(HeartbeatReply {
            heartbeat_ms: wanted.after.as_millis(),
            jitter_ms: wanted.jitter.as_millis(),
            missed: load::MISSED,
            ..beat
        })
    }

    async fn renew(&self, election: &ElectionName, ride: &LeaseEntry, key: LeaseKey) -> RenewalOutcome {
        let credential = Credential { incarnation: ride.incarnation, key };
        let renewal = Renew::new(ride.token, credential);
        let at_once = self.engine.renew_at_once(election.as_str(), &renewal, self.engine.now());
        let renewed = match at_once {
            Some((answer, ttl)) => Ok(Decided { answer, document: None, ttl: Some(ttl) }),
            None => self.engine.execute(election, &Command::Renew(renewal)).await,
        };
        match renewed {
            Ok(Decided { answer: Answer::Renewed { epoch, awaiting_approval, .. }, ttl, .. }) => {
                let (election, token) = (election.clone(), ride.token);
                let changed = epoch != token || awaiting_approval;
                let changed = changed.then_some(LeaseChange { election, token, epoch, awaiting_approval });
                RenewalOutcome::Yes { ttl, changed }
            }
            Ok(Decided { answer: Answer::Ended { cause, reason }, .. }) => {
                RenewalOutcome::Lost(format!("it was ended ({cause}): {reason}"))
            }
            Ok(Decided { answer, .. }) => unreachable!("a renewal is answered as one, not with {answer:?}"),
            Err(CommandError::Refused(Refusal::Stale { why, .. })) => RenewalOutcome::Lost(why),
            Err(CommandError::Refused(refusal)) => RenewalOutcome::Lost(refusal.to_string()),
            Err(error @ (CommandError::Store(_) | CommandError::System(_))) => {
                RenewalOutcome::Failed(error.to_string())
            }
        }
    }

    /// Releases what rode on a session that has ended.
    pub(super) async fn release_all(
        &self,
        rides: HashMap<ElectionName, LeaseEntry>,
        key: LeaseKey,
    ) -> EndSessionResponse {
        let running = rides.into_iter().filter(|(_, ride)| ride.lost.is_none());
        let releases = running.map(|(election, ride)| async move {
            let credential = Credential { incarnation: ride.incarnation, key };
            let reason = Some("its session ended".to_string());
            let release = Release { epoch: ride.token, credential, reason, ending: Ending::Stopped };
            let released = self.engine.execute(&election, &Command::Release(release)).await;
            (election, ride.token, released)
        });
        let mut releases = stream::iter(releases).buffer_unordered(AT_ONCE);
        let mut ended = EndSessionResponse::default();
        while let Some((election, token, released)) = releases.next().await {
            match released {
                Ok(_) => ended.released += 1,
                Err(error) => ended.failed.push(LeaseFailure { election, token, why: error.to_string() }),
            }
        }
        ended
    }
}

impl Session {
    /// More leases ride on it. One of an older token than is known came late.
    pub(super) fn take_on(&mut self, rides: Vec<SessionLease>) -> Result<(), Refusal> {
        for SessionLease { election, token, incarnation } in rides {
            let riding = LeaseEntry { token, incarnation, ttl: None, lost: None };
            let full = self.rides.len() >= MAX_SESSION_LEASES;
            match self.rides.get_mut(&election) {
                Some(known) if known.token < token => *known = riding,
                Some(_) => {}
                None if full => {
                    return Err(Refusal::invalid(
                        format!("at most {MAX_SESSION_LEASES} leases ride on one session"),
                        "announce another session for the others",
                    ));
                }
                None => {
                    self.rides.insert(election, riding);
                }
            }
        }
        Ok(())
    }

    fn leave(&mut self, dropped: &[LeaseRef]) {
        for LeaseRef { election, token } in dropped {
            if self.rides.get(election).is_some_and(|known| known.token == *token) {
                self.rides.remove(election);
            }
        }
    }
}

pub(super) fn check_number(leases: usize) -> Result<(), Refusal> {
    if leases > MAX_AT_ONCE {
        return Err(Refusal::invalid(
            format!("{leases} leases in one request are too many"),
            format!("send at most {MAX_AT_ONCE}, and the others with the next heartbeat"),
        ));
    }
    Ok(())
}

fn check_word(what: &str, word: Option<&Value>) -> Result<(), Refusal> {
    if word.is_some_and(|word| word.to_string().len() > MAX_WORD_BYTES) {
        return Err(Refusal::invalid(
            format!("the word on {what} is longer than {MAX_WORD_BYTES} bytes"),
            "say it shorter; a checkpoint takes more",
        ));
    }
    Ok(())
}
