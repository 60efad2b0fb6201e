//! `baton guard`: a reverse proxy that refuses writes without a current token.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use baton::election::time::Span;
use baton::election::{ElectionName, ResourceName};
use baton::store::Access;
use baton_guard::{Guard as Guarding, Settings, StartError};
use clap::Args;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use super::address;
use super::certificate::{self, Certificate};
use crate::context::{Context, Global, name};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton guard --listen 127.0.0.1:8080 --upstream http://127.0.0.1:9000 --election refactor-auth &
  curl http://127.0.0.1:8080/orders                                      reads pass
  curl -X PUT -H \"Baton-Token: $BATON_TOKEN\" http://127.0.0.1:8080/o/1   409 if it is stale

GET, HEAD and OPTIONS without a body pass. All else needs the header Baton-Token with the token of whoever leads. What is under way for one \
leader ends before anything is passed on for the next. If the store does not answer, writes of the leader that was let in last pass for up \
to 5s more, while no other guard can be open, and are refused from then on (503).")]
pub(crate) struct Guard {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// What to guard: http://HOST[:PORT][/PATH] or https://…
    #[arg(long, value_name = "URL")]
    upstream: String,
    /// Whose leader may write
    #[arg(long, value_name = "ELECTION")]
    election: ElectionName,
    /// The fence that is asked; guards of one upstream name the same [default: the election's name]
    #[arg(long, value_name = "NAME")]
    resource: Option<ResourceName>,
    /// How long a write of a new leader waits for those of the former, before it is told to try again
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    drain: Span,
    /// How long one request may take; longer than the upstream's own limit
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: Span,
    /// The certificates that an https upstream's is checked by [default: the system's]
    #[arg(long, value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    /// How many connections one address may have at once, of IPv6 one /64; raise it behind a proxy
    #[arg(long, value_name = "N", default_value = "1024")]
    limit_connections: NonZeroUsize,
    /// Write the address that it listens at into this file, once it does
    #[arg(long, value_name = "FILE")]
    address_file: Option<PathBuf>,
    #[command(flatten)]
    certificate: Certificate,
}

impl Guard {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        if self.drain == Span::ZERO || self.timeout == Span::ZERO {
            return Err(Failure::usage(
                "--drain and --timeout are longer than nothing",
                "such as --drain 10s",
            ));
        }
        let resource = match &self.resource {
            Some(resource) => resource.clone(),
            None => name(ResourceName::new(self.election.as_str()))?,
        };
        let tls = self.certificate.load(None)?;
        let listener = Guarding::listen(self.listen).await.map_err(|error| self.failed(error))?;
        let context = Context::open(global, Access::Write).await?;
        let settings = Settings {
            upstream: self.upstream.clone(),
            authority: self.upstream_ca.clone(),
            election: self.election.clone(),
            resource: resource.clone(),
            drain: Duration::from_millis(self.drain.as_millis()),
            limit: Duration::from_millis(self.timeout.as_millis()),
            tls: tls.clone(),
            peer_connections: self.limit_connections.get(),
        };
        let guard = Guarding::start(listener, context.coordinator.clone(), settings).await;
        let guard = guard.map_err(|error| self.failed(error))?;
        let address = guard.address();
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        address::announce(self.address_file.as_deref(), &address.to_string())?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let text =
            format!("guarding {} at {scheme}://{address} for the leader of {}", self.upstream, self.election);
        let data = json!({
            "outcome": "guarding", "address": address.to_string(), "upstream": self.upstream,
            "election": self.election, "resource": resource,
        });
        context.output.say(&data, &text)?;
        let asked = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                Err(error) = certificate::reload(tls, context.output) => {
                    context.output.talk(&format!("baton: cannot listen for SIGHUP: {error}"));
                }
            }
        };
        guard.serve(asked).await;
        context.remember();
        context.output.talk("stopped");
        Ok(Exit::Done)
    }

    fn failed(&self, error: StartError) -> Failure {
        let message = error.to_string();
        match error {
            StartError::Other(error) => Failure::from_error(&error, Speaker::Guard),
            StartError::Listen { .. } => Failure::new(
                Exit::Error,
                "system",
                message,
                "is another program listening there? use --listen 127.0.0.1:0 for any free port",
            ),
            StartError::Upstream { .. } => {
                Failure::usage(message, "such as --upstream http://127.0.0.1:9000")
            }
            StartError::Certificates(_) => {
                Failure::usage(message, "name a file in PEM form: --upstream-ca FILE")
            }
            StartError::Bound { election, .. } => {
                Failure::usage(message, format!("use --election {election}, or another --resource"))
            }
            StartError::NoFences(_) => Failure::usage(
                message,
                "etcd's own elections have no fences; use the store without ?election=etcd",
            ),
        }
    }
}
