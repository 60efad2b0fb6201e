//! `baton serve`: one place for a team's elections.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use baton::election::time::Span;
use baton::embedded::EmbeddedStore;
use baton::store::{Access, Store};
use baton_server::{Options, Server, StartError, Tell};
use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::address;
use super::certificate;
use super::doors::{self, Doors};
use super::hooks::Hooks;
use super::several::Several;
use super::snapshots;
use super::thresholds::Watching;
use crate::context::Global;
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, Output};

/// Where a server keeps its elections if nobody says.
pub(super) const STORE: &str = "embedded:baton.redb";

/// How long the file may take to be closed, once nobody is served any more: a snapshot that is being written is finished.
const CLOSING: Duration = Duration::from_secs(10);
/// How long webhooks that are still to be delivered are waited for at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton serve &
  baton run refactor-auth --store http://127.0.0.1:7420 -- ./coordinate.sh

Elections are kept in the file of --store embedded:FILE [default: embedded:baton.redb]; $BATON_STORE is for clients.
Several servers share any other store, --store etcd://… or postgres://… or a folder: one of them is active at a time, and the \
others send whoever asks to it. Clients name them all: --store http://HOST:PORT,HOST:PORT.")]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420", value_parser = doors::address)]
    listen: SocketAddr,
    /// Write the address that it listens at into this file, once it does
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// How often to write a snapshot of FILE into FILE.snapshots, where the newest 12 are kept, and the last of each of 12 hours before
    /// them; 0s for never [default: 1h]
    #[arg(long, value_name = "DURATION")]
    snapshot_every: Option<Span>,
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    hooks: Hooks,
    #[command(flatten)]
    watching: Watching,
    // The last: what comes after it would stand under its heading.
    #[command(flatten)]
    doors: Doors,
}

impl Serve {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        let (warnings, collector) = (self.watching.warnings(), self.watching.collector()?);
        let options = Options { warnings, collector, ..self.doors.options()? };
        let url = global.store.as_deref().unwrap_or(STORE);
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Guard);
        let file = baton::embedded_file(url).map_err(fail)?;
        self.several.check(file.is_some())?;
        let snapshot_every = snapshots::interval(self.snapshot_every)?;
        if file.is_none() && self.snapshot_every.is_some() {
            return Err(Failure::usage(
                "only a file of the server's own is copied into snapshots",
                "leave out --snapshot-every, and back that store up by its own means; or use --store embedded:FILE",
            ));
        }
        let webhooks = self.hooks.receivers()?;
        // Before anything is made: an address that cannot be had leaves nothing behind.
        let listener =
            Server::listen(self.listen, &options).await.map_err(|error| self.failed(error, url))?;
        let mut serving = match file {
            Some(file) => self.alone(&file, listener, &options, snapshot_every, output).await,
            None => self.several.join(listener, url, &options, output).await,
        }
        .map_err(|stop| match stop {
            Stop::Start(error) => self.failed(error, url),
            Stop::Failed(failure) => failure,
        })?;
        let deliveries = webhooks.and_then(|receivers| {
            let tell: Tell = Arc::new(move |text| {
                output.talk(&format!("baton: {text}"));
                if output.json {
                    output.event(&json!({"event": "webhook", "message": text}));
                }
            });
            serving.server.tell(receivers, tell)
        });
        let Serving { server, location, contact, embedded } = serving;
        let address = server.address();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        address::announce(self.address_file.as_deref(), address)?;
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let text = format!("serving {location} at {scheme}://{address}");
        let data = json!({
            "outcome": "serving", "address": address.to_string(), "store": location, "contact": contact,
        });
        output.say(&data, &text)?;
        let asked = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                Err(error) = certificate::reload(options.tls, output) => {
                    output.talk(&format!("baton: cannot listen for SIGHUP: {error}"));
                }
            }
        };
        server.serve(asked).await;
        if let Some(deliveries) = deliveries {
            deliveries.finish(LAST_WORDS).await;
        }
        if let Some(embedded) = embedded {
            embedded.close(output).await;
        }
        output.talk("stopped");
        Ok(Exit::Done)
    }

    /// Serves a file of its own.
    async fn alone(
        &self,
        file: &Path,
        listener: TcpListener,
        options: &Options,
        snapshot_every: Option<Span>,
        output: Output,
    ) -> Result<Serving, Stop> {
        let fail = |error: baton::Error| Stop::Failed(Failure::from_error(&error, Speaker::Guard));
        if options.needs_tokens(self.listen) && !file.exists() {
            return Err(StartError::NoTokens(format!("embedded:{}", file.display())).into());
        }
        let store = EmbeddedStore::open(file, Access::Write).map_err(|error| fail(error.into()))?;
        let (location, closed) = (store.location(), Box::pin(store.closed()));
        let server = Server::start(listener, Arc::new(store.clone()), options.clone()).await?;
        let snapshots = snapshot_every.map(|every| tokio::spawn(snapshots::take(store, every, output)));
        Ok(Serving { server, location, contact: None, embedded: Some(Embedded { snapshots, closed }) })
    }

    fn failed(&self, error: StartError, store: &str) -> Failure {
        match error {
            StartError::Store(error) => Failure::from_error(&error.into(), Speaker::Guard),
            StartError::Listen { .. } => Failure::new(
                Exit::Error,
                "system",
                error.to_string(),
                "is another server running there? use --listen 127.0.0.1:0 for any free port",
            ),
            StartError::Shared(_) => {
                Failure::usage(error.to_string(), "give it a file of its own: --store embedded:FILE")
            }
            StartError::NoRecords(_) => Failure::usage(
                error.to_string(),
                "give it a file of its own: --store embedded:FILE, or a store that servers can share: --store etcd://…",
            ),
            StartError::NoTls(_) | StartError::NoTokens(_) => doors::closed(&error, store, self.listen),
        }
    }
}

/// A server, and what goes with it.
pub(super) struct Serving {
    pub(super) server: Server,
    pub(super) location: String,
    /// What others are told of it, if several serve the store.
    pub(super) contact: Option<String>,
    pub(super) embedded: Option<Embedded>,
}

/// Why it does not serve.
pub(super) enum Stop {
    Start(StartError),
    Failed(Failure),
}

impl From<StartError> for Stop {
    fn from(error: StartError) -> Stop {
        Stop::Start(error)
    }
}

/// What must end before the file is closed.
pub(super) struct Embedded {
    snapshots: Option<JoinHandle<()>>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Embedded {
    /// The file is closed when all that had to do with it has ended.
    async fn close(self, output: Output) {
        if let Some(snapshots) = self.snapshots {
            snapshots.abort();
        }
        if tokio::time::timeout(CLOSING, self.closed).await.is_err() {
            output.talk(
                "baton: the file could not be closed in time; nothing is lost, and the next start checks it",
            );
        }
    }
}
