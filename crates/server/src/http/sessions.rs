//! What agents with a session ask, and releases that wait until followers know.

use baton_api::command::CommandResponse;
use baton_api::sessions::{Announce, EndSession, Heartbeat, NewsRequest};
use baton_election::time::Span;
use baton_election::{Command, LeaseKey, TokenId};
use http::StatusCode;
use serde::de::DeserializeOwned;

use super::Service;
use super::calls::Call;
use super::identity::Identity;
use super::limits::{self, ThrottleKey};
use super::reply::{Problem, Reply, json as answer};
use crate::sessions::Trouble;

impl From<Trouble> for Problem {
    fn from(trouble: Trouble) -> Problem {
        match trouble {
            Trouble::NoSuchSession => Problem::new(
                StatusCode::NOT_FOUND,
                "no-such-session",
                "there is no such session: it was not heard of in time, has ended, or the server was started anew",
                "announce it anew, with all that rides on it: POST /v1/sessions",
            ),
            Trouble::TooMany => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "unavailable",
                "there are too many sessions",
                "end those that are not needed, or use one for several elections",
            ),
            Trouble::TooManyOfOne => limits::too_many_sessions(),
            Trouble::Refused(refusal) => refusal.into(),
            Trouble::Store(error) => error.into(),
        }
    }
}

impl Service {
    pub(super) async fn announce(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let announce: Announce = call.json().await?;
        let identity = &call.who.identity;
        call.who.acts_as(&announce.agent)?;
        announce.follows.iter().try_for_each(|election| identity.check_election(election))?;
        announce.leases.iter().try_for_each(|ride| identity.check_election(&ride.election))?;
        // To go on is not counted: who is kept from it loses its leases.
        if !self.sessions.knows(announce.credential.incarnation) {
            self.throttle.take(call.who, ThrottleKey::Agent(&announce.agent))?;
        }
        answer(&self.sessions.announce(announce, token(identity)).await?)
    }

    pub(super) async fn heartbeat(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let heartbeat: Heartbeat = call.json().await?;
        let identity = &call.who.identity;
        let follows = heartbeat.follows.iter().flatten();
        follows
            .chain(heartbeat.add.iter().map(|ride| &ride.election))
            .chain(heartbeat.leads.iter().flatten().map(|avowal| &avowal.election))
            .try_for_each(|election| identity.check_election(election))?;
        answer(&self.sessions.heartbeat(heartbeat, token(identity)).await?)
    }

    pub(super) async fn end_session(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let end: EndSession = call.json().await?;
        if end.stopped {
            self.throttle.take(call.who, ThrottleKey::Lease(&end.credential))?;
        }
        answer(&self.sessions.end(&end, token(&call.who.identity)).await?)
    }

    pub(super) async fn list_sessions(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let shown = self.sessions.shown().await;
        self.reads.looked_at(call.who, shown.len());
        self.parsers.apart(move || answer(&shown)).await
    }

    pub(super) async fn news(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let ask: NewsRequest = call.json().await?;
        self.reads.may_look(call.who)?;
        tokio::select! {
            news = self.sessions.news(&ask, token(&call.who.identity)) => {
                let news = news?;
                self.reads.looked_at(call.who, news.news.len());
                answer(&news)
            }
            () = self.stops() => Err(Trouble::NoSuchSession.into()),
        }
    }

    /// Carries out a release or a pass. It is durable before anybody waits, and a successor does not wait.
    pub(super) async fn leave<T>(&self, call: &Call<'_>, of: fn(T) -> Command) -> Result<Reply, Problem>
    where
        T: DeserializeOwned + Send + 'static,
    {
        let command = of(call.json().await?);
        let wait = call.number("notify_timeout_ms")?.map(Span::millis);
        let election = call.election()?;
        self.allow(call.who, &command)?;
        let decided = self.engine.execute(&election, &command).await?;
        let mut response = CommandResponse::from(decided);
        if let (Some(wait), Some(document)) = (wait, &response.document) {
            let told_of = self.sessions.told_of(&election, document.beat, key(&command), wait, self.stops());
            response.notified = Some(Box::pin(told_of).await);
        }
        answer(&response)
    }
}

/// The access token that was shown, if one was.
fn token(identity: &Identity) -> Option<TokenId> {
    match identity {
        Identity::Bearer(entry) => Some(entry.id),
        Identity::Anybody | Identity::User(_) | Identity::Onlooker => None,
    }
}

/// Whose key it is. Nobody has the one of zeros: those who could be told are told.
fn key(command: &Command) -> LeaseKey {
    command.credential().map_or(LeaseKey([0; 16]), |credential| credential.key)
}
