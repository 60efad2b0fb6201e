//! A member that tells a Baton server what it believes, so that the server can warn: of two leaders, which Bully and Ring do not exclude.
//!
//! Guarantees that the member waits for none of it: a server that is away is tried again. What is told proves nothing and changes nothing.

use std::time::Duration;

use baton::api::sessions::LeadershipClaim;
use baton::election::{AgentName, ElectionName};
use baton::{Coordinator, Session};
use baton_node::LeadershipStatus;
use baton_peer::NodeId;
use clap::Args;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::events::EventPrinter;
use crate::output::Failure;

/// How long a server that is away is left alone.
const AGAIN: Duration = Duration::from_secs(2);

/// The server that gets reports of this member.
#[derive(Args, Clone, Debug)]
pub(super) struct ReportOptions {
    /// Report to the Baton server at this URL whether this member leads, so that it can warn of two leaders
    #[arg(long, value_name = "URL")]
    report: Option<String>,
}

/// Goes on until it is dropped.
pub(super) struct ReportTask(Option<JoinHandle<()>>);

impl Drop for ReportTask {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl ReportOptions {
    /// Refuses what is no server.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.report.as_deref() {
            Some(url) if !["http://", "https://", "unix:"].iter().any(|one| url.starts_with(one)) => {
                Err(Failure::usage(
                    "only a Baton server can be told what a member believes",
                    "write --report http://HOST:PORT, where `baton serve` runs",
                ))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reports the status and each change of it.
    pub(super) fn start(
        &self,
        group: &ElectionName,
        id: NodeId,
        status: watch::Receiver<LeadershipStatus>,
        events: EventPrinter,
    ) -> ReportTask {
        let told = self.report.clone().map(|url| {
            let group = group.clone();
            tokio::spawn(async move { keep_telling(&url, &group, id, status, &events).await })
        });
        ReportTask(told)
    }
}

async fn keep_telling(
    url: &str,
    group: &ElectionName,
    id: NodeId,
    mut status: watch::Receiver<LeadershipStatus>,
    events: &EventPrinter,
) {
    let mut reached = true;
    loop {
        match announce(url, id).await {
            Ok(session) => {
                events.tell("reports", None, &format!("member {id} tells {url} whether it leads"));
                return tell(&session, group, &mut status).await;
            }
            Err(why) => {
                // Once is enough.
                if std::mem::replace(&mut reached, false) {
                    events.tell("unreported", None, &format!("{url} cannot be told who leads: {why}"));
                }
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn announce(url: &str, id: NodeId) -> Result<Session, String> {
    let agent = AgentName::new(&format!("peer-{id}")).map_err(|error| error.to_string())?;
    let coordinator = Coordinator::connect(url).await.map_err(|error| error.to_string())?;
    coordinator.announce(&agent).await.map_err(|error| error.to_string())
}

/// The session says it again with every heartbeat, and is announced anew if the server forgot it.
async fn tell(session: &Session, group: &ElectionName, status: &mut watch::Receiver<LeadershipStatus>) {
    let mut told = None;
    loop {
        let term = status.borrow_and_update().current.map(|snapshot| snapshot.term);
        if told != Some(term) {
            let leads = term.map(|term| LeadershipClaim { election: group.clone(), term: term.0 });
            // One is never too many.
            let _ = session.avow(leads.into_iter().collect());
            told = Some(term);
        }
        if status.changed().await.is_err() {
            let _ = session.avow(Vec::new());
            return;
        }
    }
}
