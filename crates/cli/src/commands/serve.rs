//! `baton serve`: one place for a team's elections.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use baton::election::lease::MIN_TTL;
use baton::election::time::Span;
use baton::embedded::EmbeddedStore;
use baton::store::{Access, Store};
use baton_server::{Listeners, Options, Server, StartError, Tell};
use clap::Args;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use super::snapshots;
use crate::address_file;
use crate::context::Global;
use crate::exit::{Exit, Speaker};
use crate::options::certificate;
use crate::options::cluster::ClusterOptions;
use crate::options::founders::{self, FounderAccess, FounderOptions};
use crate::options::jwt;
use crate::options::listen::{ListenFailure, ListenOptions};
use crate::options::server_access::{self, ServerAccess};
use crate::options::storage_limits::StorageLimits;
use crate::options::thresholds::AlertThresholds;
use crate::options::webhooks::WebhookOptions;
use crate::output::{Failure, Outcome, Output};
use crate::unserved_store;

/// Where a server keeps its elections if nobody says.
pub(crate) const STORE: &str = "embedded:baton.redb";

/// How long the file may take to be closed, once nobody is served any more: a snapshot that is being written is finished.
const CLOSING: Duration = Duration::from_secs(10);
/// How long webhooks that are still to be delivered are waited for at the end.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton serve &
  baton run refactor-auth --store http://127.0.0.1:7420 -- ./coordinate.sh
  baton serve --listen unix:$XDG_RUNTIME_DIR/baton.sock     for this user's agents alone

Elections are kept in the file of --store embedded:FILE [default: embedded:baton.redb]; a server does not read $BATON_STORE and \
does not look for a .baton folder.
Several servers share any other store, --store etcd://… or postgres://… or a folder, with --take-over: one of them is active at a time, and \
the others send clients to it. Clients name them all: --store http://HOST:PORT,HOST:PORT. To look at a folder in which agents work: baton \
observe.")]
pub(crate) struct Serve {
    #[command(flatten)]
    store: StoreOption,
    #[command(flatten)]
    listen: ListenOptions,
    /// Once listening, write the address into this file; without an address, the URL of the socket
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    /// The time between two snapshots of FILE, written into FILE.snapshots; 0s for none. Baton keeps the newest 12, and one for each of the 12 hours before them [default: 1h]
    #[arg(long, value_name = "DURATION")]
    snapshot_every: Option<Span>,
    /// The longest lease to grant; an agent that asks for a longer one is refused [default: 7d, the longest there is]
    #[arg(long, value_name = "DURATION")]
    max_lease: Option<Span>,
    #[command(flatten)]
    cluster: ClusterOptions,
    #[command(flatten)]
    webhook_options: WebhookOptions,
    #[command(flatten)]
    limits: StorageLimits,
    #[command(flatten)]
    thresholds: AlertThresholds,
    #[command(flatten)]
    founders: FounderOptions,
    // The last: what comes after it would stand under its heading.
    #[command(flatten)]
    access: ServerAccess,
}

impl Serve {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        let (warnings, collector) = (self.thresholds.warnings(), self.thresholds.collector()?);
        let mut options = Options { warnings, collector, ..self.access.options()? };
        options.limits.lease = self.longest_lease()?;
        options.limits.quotas = self.limits.quotas();
        let given = self.store.store.as_ref().or(global.store.as_ref());
        let url = given.map_or(STORE, String::as_str);
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Guard);
        let file = baton::embedded_file(url).map_err(fail)?;
        self.cluster.check(file.is_some(), url)?;
        self.founders.check(file.is_some())?;
        if let Some(released) = self.cluster.release(url, output).await {
            return released;
        }
        let snapshot_every = self.interval(file.is_some())?;
        let webhooks = self.webhook_options.receivers()?;
        // Before anything is made: an address that cannot be had leaves nothing behind.
        let listening = self.listen.take(&options).await.map_err(|error| match error {
            ListenFailure::Start(error) => self.failed(error, url),
            ListenFailure::Failed(failure) => failure,
        })?;
        let mut serving = match file {
            Some(file) => self.alone(&file, listening, &options, snapshot_every, output).await,
            None => self.cluster.join(listening, url, &options, &self.founders, output).await,
        }
        .map_err(|stop| match stop {
            ServeFailure::Start(error) => self.failed(error, url),
            ServeFailure::Failed(failure) => failure,
        })?;
        let deliveries = webhooks.and_then(|receivers| serving.server.tell(receivers, teller(output)));
        let ServerParts { server, location, contact, embedded, founded } = serving;
        let (address, socket) = (server.listening().address(), server.listening().socket());
        let places = server.listening().places(options.tls.is_some());
        let address = address.map(|address| address.to_string());
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let announced = address.as_deref().or(places.first().map(String::as_str)).unwrap_or_default();
        address_file::announce(self.address_file.as_deref(), announced)?;
        let text = format!("serving {location} at {}", places.join(" and "));
        let data = json!({
            "outcome": "serving", "address": address, "socket": socket, "store": location, "contact": contact,
        });
        output.say(&data, &text)?;
        // At the socket nobody needs a token for it.
        founders::tell(&founded, places.last().map_or("", String::as_str), output);
        if given.is_none() {
            unserved_store::mention(output).await;
        }
        let asked = until_asked(options, [terminate, interrupt], output);
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

    fn longest_lease(&self) -> Result<Option<Span>, Failure> {
        if self.max_lease.is_some_and(|longest| longest < MIN_TTL) {
            return Err(Failure::usage(
                format!("no lease is shorter than {MIN_TTL}, so nobody could lead"),
                "give leases some time: --max-lease 1h",
            ));
        }
        Ok(self.max_lease)
    }

    /// How often a snapshot is written, of a file of its own.
    fn interval(&self, alone: bool) -> Result<Option<Span>, Failure> {
        let interval = snapshots::interval(self.snapshot_every)?;
        if !alone && self.snapshot_every.is_some() {
            return Err(Failure::usage(
                "only a file of the server's own is copied into snapshots",
                "leave out --snapshot-every, and back that store up by its own means; or use --store embedded:FILE",
            ));
        }
        Ok(interval)
    }

    /// Serves a file of its own.
    async fn alone(
        &self,
        file: &Path,
        listening: Listeners,
        options: &Options,
        snapshot_every: Option<Span>,
        output: Output,
    ) -> Result<ServerParts, ServeFailure> {
        let fail = |error: baton::Error| ServeFailure::Failed(Failure::from_error(&error, Speaker::Guard));
        let needed = self.listen.address().is_some_and(|address| options.needs_tokens(address));
        if needed && !file.exists() {
            return Err(StartError::NoTokens(format!("embedded:{}", file.display())).into());
        }
        if !file.exists()
            && let Some(newest) = snapshots::newest(file)
        {
            let (file, newest) = (file.display(), newest.display());
            output.talk(&format!(
                "warning: there is no {file}, so a new store is made, and its tokens begin at 1. There are snapshots of a former one. To go on with that, stop the \
                 server, remove {file} and run: baton restore {newest} --store embedded:{file}"
            ));
        }
        let store = EmbeddedStore::open(file, Access::Write).map_err(|error| fail(error.into()))?;
        let (location, closed) = (store.location(), Box::pin(store.closed()));
        let shared: Arc<dyn Store> = Arc::new(store.clone());
        let code = founders::beside(file);
        let founded = self.founders.prepare(&shared, &code, output).await.map_err(ServeFailure::Failed)?;
        let options = Options { founders: Arc::clone(&founded.founders), ..options.clone() };
        let server = Server::start(listening, shared, options).await?;
        let snapshots = snapshot_every.map(|every| tokio::spawn(snapshots::take(store, every, output)));
        let embedded = Some(DatabaseFile { snapshots, closed });
        Ok(ServerParts { server, location, contact: None, embedded, founded })
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
            StartError::NoTls(_) | StartError::NoTokens(_) => {
                server_access::closed(&error, store, self.listen.hinted())
            }
        }
    }
}

/// Waits until the server is asked to stop. SIGHUP has it read again what it came with.
async fn until_asked(options: Options, stop: [Signal; 2], output: Output) {
    let Options { tls, jwt, access_log, .. } = options;
    let [mut terminate, mut interrupt] = stop;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        Err(error) = certificate::reload(tls, output) => {
            output.talk(&format!("baton: cannot listen for SIGHUP: {error}"));
        }
        Err(error) = jwt::reload(jwt, output) => {
            output.talk(&format!("baton: cannot listen for SIGHUP: {error}"));
        }
        Err(error) = server_access::keep_log(access_log, output) => {
            output.talk(&format!("baton: cannot listen for SIGHUP: {error}"));
        }
    }
}

/// Says what becomes of webhooks.
fn teller(output: Output) -> Tell {
    Arc::new(move |text| {
        output.talk(&format!("baton: {text}"));
        if output.json {
            output.event(&json!({"event": "webhook", "message": text}));
        }
    })
}

/// Where a server keeps its elections. It has the name of what every command has, and another default.
#[derive(Args, Clone, Debug)]
struct StoreOption {
    /// The store: embedded:FILE, or with --take-over one that others can write, such as etcd://… [default: embedded:baton.redb]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
}

/// A server, and what goes with it.
pub(crate) struct ServerParts {
    pub(crate) server: Server,
    pub(crate) location: String,
    /// What others are told of it, if several serve the store.
    pub(crate) contact: Option<String>,
    pub(crate) embedded: Option<DatabaseFile>,
    pub(crate) founded: FounderAccess,
}

/// Why it does not serve.
pub(crate) enum ServeFailure {
    Start(StartError),
    Failed(Failure),
}

impl From<StartError> for ServeFailure {
    fn from(error: StartError) -> ServeFailure {
        ServeFailure::Start(error)
    }
}

/// What must end before the file is closed.
pub(crate) struct DatabaseFile {
    snapshots: Option<JoinHandle<()>>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl DatabaseFile {
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
