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

use crate::address_file;
use crate::context::{Context, Global, name};
use crate::exit::{Exit, Speaker};
use crate::options::certificate::{self, Certificate};
use crate::output::{Failure, Outcome};

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  baton guard --listen 127.0.0.1:8080 --upstream http://127.0.0.1:9000 --election refactor-auth &
  curl http://127.0.0.1:8080/orders                                      reads pass
  curl -X PUT -H \"Baton-Token: $BATON_TOKEN\" http://127.0.0.1:8080/o/1   409 if it is stale

GET, HEAD and OPTIONS without a body pass. Every other request needs the header Baton-Token with the current leader's token. The guard finishes one leader's requests before it passes on any of the next leader. If the store does not answer, the last leader's writes pass for up to 5s more, while no other guard can be open; after that the guard refuses them (503).")]
pub(crate) struct Guard {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// The service to guard: http://HOST[:PORT][/PATH] or https://…
    #[arg(long, value_name = "URL")]
    upstream: String,
    /// The election whose leader may write
    #[arg(long, value_name = "ELECTION")]
    election: ElectionName,
    /// The fence to check; all guards of one upstream must name the same [default: the election's name]
    #[arg(long, value_name = "NAME")]
    resource: Option<ResourceName>,
    /// How long a new leader's write waits for the previous leader's writes, before the reply is to retry
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    drain: Span,
    /// The time limit of one request; choose it longer than the upstream's own
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    timeout: Span,
    /// The authorities (PEM) that verify an https upstream's certificate [default: the system's]
    #[arg(long, value_name = "FILE")]
    upstream_ca: Option<PathBuf>,
    /// The most connections of one address at once (IPv6: of one /64); raise it behind a proxy
    #[arg(long, value_name = "N", default_value = "1024")]
    limit_connections: NonZeroUsize,
    /// Once listening, write the address into this file
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
        address_file::announce(self.address_file.as_deref(), &address.to_string())?;
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
