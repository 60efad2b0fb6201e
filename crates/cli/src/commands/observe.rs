//! `baton observe`: the page of a server on a store that others decide, read-only.

use std::net::SocketAddr;
use std::path::PathBuf;

use baton::store::{Access, StoreUrl};
use baton_server::{Options, Server, StartError};
use clap::Args;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::address_file;
use crate::context::Global;
use crate::exit::{Exit, Speaker};
use crate::options::server_access;
use crate::output::{Failure, Outcome, Output};

/// Stores in which a look may write: the first that finds a record deleted notes the moment.
const LOOKS_WRITE: [&str; 2] = ["firestore", "spanner"];

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton observe                       the page of this project's .baton, at http://127.0.0.1:7421/
  baton observe --store file:/srv/team/.baton

The page is read-only: it writes nothing, and nobody loses a lease. Agents and operators continue to use the store itself. The page \
and the read-only part of the HTTP interface are those of `baton serve`. Every user of this machine can read them.")]
pub(crate) struct Observe {
    /// Where to listen: a loopback address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7421", value_parser = server_access::address)]
    listen: SocketAddr,
    /// Once listening, write the address into this file
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
}

impl Observe {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        let fail = |error: baton::Error| Failure::from_error(&error, Speaker::Guard);
        let url = global.store()?.url;
        let scheme = url.parse::<StoreUrl>().map_err(|error| fail(error.into()))?.scheme;
        if LOOKS_WRITE.contains(&scheme.as_str()) {
            return Err(Failure::usage(
                format!("a look at {scheme}: may write, and this command writes nothing"),
                format!("serve it, and look at the server's page: baton serve --store {url} --take-over"),
            ));
        }
        let options = Options::default();
        let listener = Server::listen(self.listen, &options).await.map_err(|error| self.failed(&error))?;
        let store = match baton::open_store(&url, Access::Read).await {
            Err(baton::Error::NoStore(location)) => return Err(self.failed(&StartError::NoRecords(location))),
            opened => opened.map_err(fail)?,
        };
        let location = store.location();
        let server = Server::observe(listener, store, options).await.map_err(|error| self.failed(&error))?;
        let address = server.listening().address().unwrap_or(self.listen);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        address_file::announce(self.address_file.as_deref(), &address.to_string())?;
        let data = json!({ "outcome": "observing", "address": address.to_string(), "store": location });
        output.say(&data, &format!("observing {location} at http://{address}"))?;
        server
            .serve(async {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            })
            .await;
        output.talk("stopped");
        Ok(Exit::Done)
    }

    fn failed(&self, error: &StartError) -> Failure {
        match error {
            StartError::Store(error) => Failure::from_error(&error.clone().into(), Speaker::Guard),
            StartError::Listen { .. } => Failure::new(
                Exit::Error,
                "system",
                error.to_string(),
                "is another program listening there? use --listen 127.0.0.1:0 for any free port",
            ),
            StartError::NoRecords(_) => {
                Failure::usage(error.to_string(), "a server shows its own page at its own address")
            }
            StartError::NoTls(_) | StartError::NoTokens(_) | StartError::Shared(_) => Failure::usage(
                format!("an observer listens at a loopback address only, and {} is none", self.listen),
                "let others in through a tunnel of yours, such as ssh -L 7421:127.0.0.1:7421",
            ),
        }
    }
}
