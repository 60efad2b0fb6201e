//! `baton serve`: one place for a team's elections.

use std::net::SocketAddr;
use std::path::PathBuf;

use baton::store::Access;
use baton_server::{Server, StartError};
use clap::Args;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::context::Global;
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome, Output};

/// Where a server keeps its elections if nobody says.
const STORE: &str = "embedded:baton.redb";

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  baton serve &\n  baton run refactor-auth --store http://127.0.0.1:7420 -- ./coordinate.sh"
)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Write the address that it listens at into this file, once it does
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
}

impl Serve {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        let url = global.store.as_deref().unwrap_or(STORE);
        let store = baton::open_store(url, Access::Write)
            .await
            .map_err(|error| Failure::from_error(&error, Speaker::Guard))?;
        let location = store.location();
        let server = Server::start(self.listen, store).await.map_err(|error| self.failed(error))?;
        let address = server.address();
        let (stopping, stop) = watch::channel(false);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        if let Some(file) = &self.address_file {
            std::fs::write(file, format!("{address}\n"))?;
        }
        let text = format!("serving {location} at http://{address}");
        output
            .say(&json!({"outcome": "serving", "address": address.to_string(), "store": location}), &text)?;
        let serving = server.serve(stop);
        let mut serving = std::pin::pin!(serving);
        tokio::select! {
            () = serving.as_mut() => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stopping.send_replace(true);
        serving.await;
        output.talk("stopped");
        Ok(Exit::Done)
    }

    fn failed(&self, error: StartError) -> Failure {
        match error {
            StartError::Store(error) => Failure::from_error(&error.into(), Speaker::Guard),
            StartError::Listen { .. } => Failure::new(
                Exit::Error,
                "system",
                error.to_string(),
                "is another server running there? use --listen 127.0.0.1:0 for any free port",
            ),
            StartError::NotLoopback(_) => Failure::usage(
                error.to_string(),
                format!(
                    "listen at 127.0.0.1:{}, and let others in through a tunnel of yours",
                    self.listen.port()
                ),
            ),
        }
    }
}
