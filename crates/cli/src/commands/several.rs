//! `baton serve` on a store that several servers share.

use baton::election::time::Span;
use baton::election::{command, policy};
use baton::store::{Access, Durability};
use baton_server::{Membership, Options, Server, StartError, Turned};
use clap::Args;
use tokio::net::TcpListener;

use super::serve::{Serving, Stop};
use crate::exit::Speaker;
use crate::output::{Failure, Output};

/// The servers' own lease if nobody says.
const SERVER_TTL: Span = Span::secs(3);

/// How one of several servers takes part.
#[derive(Args, Debug)]
pub(super) struct Several {
    /// Where others reach this server, if several serve one store [default: where it listens]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// The servers' own lease, if several serve one store: how long nobody is active after the active one died [default: 3s]
    #[arg(long, value_name = "DURATION")]
    server_ttl: Option<Span>,
}

impl Several {
    /// Refuses what makes no sense for one server with a file of its own.
    pub(super) fn check(&self, alone: bool) -> Result<(), Failure> {
        let odd = match (self.advertise.is_some(), self.server_ttl.is_some()) {
            (true, _) => "--advertise",
            (false, true) => "--server-ttl",
            (false, false) => return Ok(()),
        };
        if alone {
            return Err(Failure::usage(
                "a file has one server, and nobody is sent to it",
                format!("leave out {odd}, or give it a store that servers can share: --store etcd://…"),
            ));
        }
        Ok(())
    }

    /// Takes part among the servers of a store that they share.
    pub(super) async fn join(
        &self,
        listener: TcpListener,
        url: &str,
        options: &Options,
        output: Output,
    ) -> Result<Serving, Stop> {
        let fail = |error: baton::Error| Stop::Failed(Failure::from_error(&error, Speaker::Guard));
        let ttl = self.server_ttl.unwrap_or(SERVER_TTL);
        policy::check_ttl(ttl).map_err(|refusal| fail(refusal.into()))?;
        let contact = self.contact(&listener, options.tls.is_some()).map_err(Stop::Failed)?;
        let store = baton::open_store(url, Access::Write).await.map_err(fail)?;
        if store.strengths().durability == Durability::Process {
            return Err(StartError::NoRecords(store.location()).into());
        }
        let location = store.location();
        let membership = Membership { contact: contact.clone(), ttl };
        let tell = move |turned: Turned| {
            output.talk(&match turned {
                Turned::Active(epoch) => format!("active in epoch {epoch} of the servers"),
                Turned::Standby(why) => format!("standing by: {why}"),
                Turned::Failed(why) => format!("baton: cannot be the active server: {why}"),
            });
        };
        let server = Server::join(listener, store, options.clone(), membership, tell).await?;
        Ok(Serving { server, location, contact: Some(contact), embedded: None })
    }

    /// Where this server says that it is reached: a scheme, a host and a port, and nothing else.
    fn contact(&self, listener: &TcpListener, secure: bool) -> Result<String, Failure> {
        let scheme = if secure { "https" } else { "http" };
        let Some(given) = &self.advertise else {
            let address = listener.local_addr()?;
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
