//! Sessions, as they are spoken of.

use std::time::Duration;

use baton_api::command::{CommandResponse, Decided};
use baton_api::elections::{BoxResult, CommandError, Sessions};
use baton_api::endpoints::Endpoint;
use baton_api::sessions::{
    Announce, EndSession, EndSessionResponse, Heartbeat, HeartbeatReply, NewsRequest, NewsResponse,
    NotifyReport, SessionView,
};
use baton_election::time::Span;
use baton_election::{Command, ElectionName};
use serde::Serialize;

use crate::client::Reply;
use crate::records::{AT_ONCE, HttpElections};

/// What a server says if it does not know a session.
const NO_SUCH_SESSION: &str = "no-such-session";

impl HttpElections {
    /// What the session is answered, or nothing if there is no such session.
    async fn of_session<T: Reply>(
        &self,
        endpoint: Endpoint,
        body: &(impl Serialize + Sync),
        longer: Duration,
    ) -> Result<Option<T>, CommandError> {
        match self.client.post(&endpoint.target(&[]), body, longer).await {
            Ok(answer) => Ok(Some(answer)),
            Err(fault) if fault.code() == Some(NO_SUCH_SESSION) => Ok(None),
            Err(fault) => Err(fault.of_command(&self.client.base)),
        }
    }
}

impl Sessions for HttpElections {
    fn announce<'a>(&'a self, announce: &'a Announce) -> BoxResult<'a, HeartbeatReply> {
        Box::pin(async move { self.send(&Endpoint::Announce.target(&[]), announce, AT_ONCE).await })
    }

    fn heartbeat<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxResult<'a, Option<HeartbeatReply>> {
        Box::pin(async move { self.of_session(Endpoint::Heartbeat, heartbeat, AT_ONCE).await })
    }

    fn news<'a>(&'a self, ask: &'a NewsRequest) -> BoxResult<'a, Option<NewsResponse>> {
        Box::pin(
            async move { self.of_session(Endpoint::News, ask, Duration::from_millis(ask.wait_ms)).await },
        )
    }

    fn end<'a>(&'a self, end: &'a EndSession) -> BoxResult<'a, Option<EndSessionResponse>> {
        Box::pin(async move { self.of_session(Endpoint::EndSession, end, AT_ONCE).await })
    }

    fn sessions(&self) -> BoxResult<'_, Vec<SessionView>> {
        Box::pin(async move {
            let shown = self.client.get(&Endpoint::Sessions.target(&[])).await;
            shown.map_err(|fault| fault.of_reading(&self.client.base).into())
        })
    }

    fn leave<'a>(
        &'a self,
        election: &'a ElectionName,
        command: &'a Command,
        notify: Span,
    ) -> BoxResult<'a, (Decided, NotifyReport)> {
        Box::pin(async move {
            assert!(
                matches!(command, Command::Release(_) | Command::Pass(_)),
                "only a release or a pass leaves an election"
            );
            let target = Endpoint::of_command(command).target(&[election]);
            let target = target.with("notify_timeout_ms", &notify.as_millis());
            let longer = Duration::from_millis(notify.as_millis());
            let mut told: CommandResponse = self.send(&target, command, longer).await?;
            let notified = told.notified.take().unwrap_or_default();
            Ok((told.into(), notified))
        })
    }
}
