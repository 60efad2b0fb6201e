//! `baton serve` on a store that several servers share.

use std::net::SocketAddr;
use std::sync::Arc;

use baton::election::time::Span;
use baton::election::{command, policy};
use baton::store::{Access, Durability};
use baton_server::{GiveBackError, Listeners, Membership, Options, RoleChange, Server, StartError};
use clap::Args;
use serde_json::json;

use crate::commands::serve::{ServeFailure, ServerParts};
use crate::exit::{Exit, Speaker};
use crate::options::founders::FounderOptions;
use crate::output::{Failure, Outcome, Output};
use crate::state_folder::state_root;

/// The servers' own lease if nobody says.
const SERVER_TTL: Span = Span::secs(3);

/// How one of several servers takes part.
#[derive(Args, Debug)]
pub(crate) struct ClusterOptions {
    /// Serve a store that others can write. The first command that changes an election takes it over; from then on, clients that use the store directly are refused
    #[arg(long)]
    take_over: bool,
    /// Return all elections to clients that use the store directly, and end; no server may be active
    #[arg(long, conflicts_with_all = ["take_over", "advertise"])]
    release: bool,
    /// The URL at which clients reach this server, if several serve one store [default: where it listens]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// The servers' own lease, if several serve one store: how long nobody is active after the active one died [default: 3s]
    #[arg(long, value_name = "DURATION")]
    server_ttl: Option<Span>,
}

impl ClusterOptions {
    /// Refuses what makes no sense for one server with a file of its own, and to decide on what others write without being told to.
    pub(crate) fn check(&self, alone: bool, url: &str) -> Result<(), Failure> {
        if !alone {
            return if self.take_over || self.release { Ok(()) } else { Err(not_told_to(url)) };
        }
        let given = [
            (self.take_over, "--take-over"),
            (self.release, "--release"),
            (self.advertise.is_some(), "--advertise"),
            (self.server_ttl.is_some(), "--server-ttl"),
        ];
        match given.into_iter().find(|(given, _)| *given) {
            None => Ok(()),
            Some((_, odd)) => Err(Failure::usage(
                "a file has one server, which shares it with nobody",
                format!("leave out {odd}, or give it a store that servers can share: --store etcd://…"),
            )),
        }
    }

    /// Gives elections back, if that is asked for.
    pub(crate) async fn release(&self, url: &str, output: Output) -> Option<Outcome> {
        if !self.release {
            return None;
        }
        Some(self.give_back(url, output).await)
    }

    async fn give_back(&self, url: &str, output: Output) -> Outcome {
        let fail = |error: &baton::Error| Failure::from_error(error, Speaker::Guard);
        let ttl = self.ttl().map_err(|error| fail(&error))?;
        let store = baton::open_store(url, Access::Write).await.map_err(|error| match error {
            baton::Error::NoStore(location) => Failure::usage(
                format!("{location} has no elections that servers could give back"),
                "name the store that the servers share, not a server",
            ),
            error => fail(&error),
        })?;
        let location = store.location();
        let given_back = baton_server::give_back(store, ttl).await.map_err(|error| match error {
            GiveBackError::Failed(error) => fail(&error),
            GiveBackError::Active(_) => Failure::new(
                Exit::Held,
                "held",
                error.to_string(),
                "stop all servers of this store first; clients of theirs lead until their own deadlines",
            ),
            GiveBackError::Lost(_) => {
                Failure::new(Exit::Error, "unavailable", error.to_string(), "run it again")
            }
        })?;
        let data = json!({ "outcome": "given-back", "store": location, "elections": given_back });
        let text = match given_back.len() {
            0 => format!("no server decides on any election of {location}"),
            1 => format!("1 election of {location} was given back; clients of the store decide again"),
            many => {
                format!("{many} elections of {location} were given back; clients of the store decide again")
            }
        };
        output.say(&data, &text)?;
        Ok(Exit::Done)
    }

    /// The servers' own lease.
    fn ttl(&self) -> Result<Span, baton::Error> {
        let ttl = self.server_ttl.unwrap_or(SERVER_TTL);
        policy::check_ttl(ttl)?;
        Ok(ttl)
    }

    /// Takes part among the servers of a store that they share.
    pub(crate) async fn join(
        &self,
        listening: Listeners,
        url: &str,
        options: &Options,
        founding: &FounderOptions,
        output: Output,
    ) -> Result<ServerParts, ServeFailure> {
        let fail = |error: baton::Error| ServeFailure::Failed(Failure::from_error(&error, Speaker::Guard));
        let ttl = self.ttl().map_err(fail)?;
        let contact =
            self.contact(listening.address(), options.tls.is_some()).map_err(ServeFailure::Failed)?;
        let store = match baton::open_store(url, Access::Write).await {
            Err(baton::Error::NoStore(location)) => return Err(StartError::NoRecords(location).into()),
            opened => opened.map_err(fail)?,
        };
        if store.properties().durability == Durability::Process {
            return Err(StartError::NoRecords(store.location()).into());
        }
        let location = store.location();
        let code =
            state_root().map_err(ServeFailure::Failed)?.join(format!("operator-code-{}", std::process::id()));
        let founded = founding.prepare(&store, &code, output).await.map_err(ServeFailure::Failed)?;
        let options = Options { founders: Arc::clone(&founded.founders), ..options.clone() };
        let membership = Membership { contact: contact.clone(), ttl };
        let tell = move |change: RoleChange| {
            output.talk(&match change {
                RoleChange::Active(epoch) => format!("active with token {epoch} of the servers"),
                RoleChange::Standby(why) => format!("standing by: {why}"),
                RoleChange::Failed(why) => format!("baton: cannot be the active server: {why}"),
            });
        };
        let server = Server::join(listening, store, options, membership, tell).await?;
        Ok(ServerParts { server, location, contact: Some(contact), embedded: None, founded })
    }

    /// Where this server says that it is reached: a scheme, a host and a port, and nothing else.
    fn contact(&self, address: Option<SocketAddr>, secure: bool) -> Result<String, Failure> {
        let scheme = if secure { "https" } else { "http" };
        let Some(address) = address else {
            return Err(Failure::usage(
                "servers that share a store send clients to each other, and nobody can be sent to a Unix socket",
                "listen at an address too: --listen 127.0.0.1:7420",
            ));
        };
        let Some(given) = &self.advertise else {
            if address.ip().is_unspecified() {
                return Err(Failure::usage(
                    "nobody can be sent to an address that means all of them",
                    format!("say where this server is reached: --advertise {scheme}://HOST:PORT"),
                ));
            }
            return Ok(format!("{scheme}://{address}"));
        };
        let url = given.trim_end_matches('/');
        let authority = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let fits = authority.is_some_and(|authority| {
            !authority.is_empty()
                && !authority.contains(['/', '?', '#', '@', ','])
                && !authority.ends_with(':')
        });
        if !fits || command::check_contact(url).is_err() {
            let hint = format!("write {scheme}://HOST:PORT");
            return Err(Failure::usage("--advertise names no server", hint));
        }
        if secure && !url.starts_with("https://") {
            return Err(Failure::usage(
                "--advertise names plain http, while this server speaks TLS",
                "write https://HOST:PORT, with a name in its certificate",
            ));
        }
        Ok(url.to_string())
    }
}

/// Others can write the store, and nobody said that they are to be refused.
fn not_told_to(url: &str) -> Failure {
    Failure::usage(
        format!("others can write {url}, and would be refused once this server decides on its elections"),
        format!(
            "to decide on them here: baton serve --store {url} --take-over; only to look while others work: \
             baton observe --store {url}"
        ),
    )
}
