//! Who reaches a server of `baton serve`, and how.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_server::{AccessLog, Limits, Options, StartError};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::certificate::Certificate;
use super::jwt::JwtFlags;
use crate::output::{Failure, Output};

/// How often it is looked whether the access log can be written.
const LOOK: Duration = Duration::from_secs(10);
/// Descriptors that are not for connections: the store, snapshots, standard streams.
const OWN_DESCRIPTORS: u64 = 128;

#[derive(Args, Debug)]
pub(crate) struct ServerAccess {
    #[command(flatten, next_help_heading = "Access and limits")]
    certificate: Certificate,
    /// Accept client certificates that these authorities (PEM) signed, instead of a token; SIGHUP reads the file again
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Access and limits")]
    client_ca: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Access and limits")]
    jwt: JwtFlags,
    /// Require a token at the address, even on loopback; with TLS a token is always required. Users of the Unix socket need none
    #[arg(long, help_heading = "Access and limits")]
    require_tokens: bool,
    /// A host name of this server, besides localhost and those in its certificate; repeatable
    #[arg(long, value_name = "HOST", value_parser = host, help_heading = "Access and limits")]
    name: Vec<String>,
    /// Log each request to this file as a line of JSON, `-` for standard output; SIGHUP reopens the file
    #[arg(long, value_name = "FILE", help_heading = "Access and limits")]
    access_log: Option<PathBuf>,
    /// The most durable commands of one identity in a second, after as many at once; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().commands, help_heading = "Access and limits")]
    limit_commands: u32,
    /// The most requests without a token of one address or user in a second, after as many at once; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().unauthenticated, help_heading = "Access and limits")]
    limit_unauthenticated: u32,
    /// The most rows that one token looks at in a second, after as many at once; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().reads, help_heading = "Access and limits")]
    limit_reads: u32,
    /// The most leases that the streams of one token watch, all together
    #[arg(long, value_name = "N", default_value_t = at_least_one(Limits::default().watched), help_heading = "Access and limits")]
    limit_watched: NonZeroUsize,
    /// The most streams of one token at once
    #[arg(long, value_name = "N", default_value_t = at_least_one(Limits::default().streams), help_heading = "Access and limits")]
    limit_streams: NonZeroUsize,
    /// The most connections of one address at once; loopback addresses, and the server's own user and root at the Unix socket, have no limit
    #[arg(long, value_name = "N", default_value_t = at_least_one(Limits::default().peer_connections), help_heading = "Access and limits")]
    limit_connections: NonZeroUsize,
}

impl ServerAccess {
    /// What the server is told.
    pub(crate) fn options(&self) -> Result<Options, Failure> {
        let jwt = self.jwt.load()?;
        let tls = self.certificate.load(self.client_ca.as_deref())?;
        let limits = Limits {
            commands: self.limit_commands,
            unauthenticated: self.limit_unauthenticated,
            reads: self.limit_reads,
            watched: self.limit_watched.get(),
            streams: self.limit_streams.get(),
            peer_connections: self.limit_connections.get(),
            connections: descriptors(),
            ..Limits::default()
        };
        let (require_tokens, names) = (self.require_tokens, self.name.clone());
        let access_log = self.access_log()?;
        Ok(Options { tls, jwt, require_tokens, names, limits, access_log, ..Options::default() })
    }

    fn access_log(&self) -> Result<Option<Arc<AccessLog>>, Failure> {
        let Some(path) = &self.access_log else { return Ok(None) };
        let log = if path.as_os_str() == "-" { AccessLog::to_stdout() } else { AccessLog::to_file(path) };
        let failed = |error| {
            let why = format!("cannot write the access log {}: {error}", path.display());
            Failure::usage(why, "name a file that this user can write, or - for standard output")
        };
        log.map(|log| Some(Arc::new(log))).map_err(failed)
    }
}

/// Begins the access log anew whenever it is told to, for ever, and tells if it cannot be written. Without a log the signal keeps its meaning.
pub(crate) async fn keep_log(log: Option<Arc<AccessLog>>, output: Output) -> std::io::Result<()> {
    let Some(log) = log else { return std::future::pending().await };
    let mut told = signal(SignalKind::hangup())?;
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            signal = told.recv() => match signal {
                Some(()) => log.reopen(),
                None => return Ok(()),
            },
            _ = look.tick() => {
                if let Some(why) = log.trouble() {
                    output.talk(&format!("baton: the access log cannot be written: {why}"));
                }
            }
        }
    }
}

fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN)
}

/// A name, without a port.
fn host(text: &str) -> Result<String, String> {
    let odd = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    if text.parse::<IpAddr>().is_err() && (text.is_empty() || text.contains(odd)) {
        return Err("write the name or the address alone, such as baton.example".to_string());
    }
    Ok(text.to_string())
}

/// Where to listen: an address and a port, or `localhost`.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    match text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
        Some((host, Ok(port))) if host.eq_ignore_ascii_case("localhost") => {
            Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        }
        Some((_, Ok(port))) => {
            Err(format!("a server listens at an address, not at a name; write 127.0.0.1:{port}"))
        }
        Some((_, Err(_))) | None => Err("write ADDRESS:PORT, such as 127.0.0.1:7420".to_string()),
    }
}

/// Why a server that others could reach did not start, and the commands that mend it.
pub(crate) fn closed(error: &StartError, store: &str, listen: SocketAddr) -> Failure {
    let serve =
        format!("baton serve --store {store} --listen {listen} --tls-cert CERT.pem --tls-key KEY.pem");
    let create = format!("baton init --store {store} && baton token create --role operator --store {store}");
    let hint = match error {
        StartError::NoTokens(_) => format!("make the first one while no server runs: {create}"),
        _ => format!(
            "{create}, then {serve}; or listen at 127.0.0.1:{}, and let others in through a tunnel of yours",
            listen.port()
        ),
    };
    Failure::usage(error.to_string(), hint)
}

/// How many connections there can be at once: each, and everybody in line, takes a descriptor. As many as this process can
/// have are asked for.
fn descriptors() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let most = Limits::default().connections;
    let Rlimit { current, .. } = getrlimit(Resource::Nofile);
    current.map_or(most, |current| {
        usize::try_from(current.saturating_sub(OWN_DESCRIPTORS)).unwrap_or(most).clamp(16, most)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_port() {
        for fine in ["baton.example", "10.0.0.1", "::1", "host_1"] {
            assert_eq!(host(fine), Ok(fine.to_string()));
        }
        for odd in ["", "baton.example:7420", "http://baton.example", "[::1]", "a b"] {
            assert!(host(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_place_to_listen_at_is_an_address_or_localhost() {
        assert_eq!(address("localhost:7420"), Ok("127.0.0.1:7420".parse().unwrap()));
        assert_eq!(address("LocalHost:0"), Ok("127.0.0.1:0".parse().unwrap()));
        assert_eq!(address("[::1]:7"), Ok("[::1]:7".parse().unwrap()));
        assert!(address("example.com:7420").unwrap_err().contains("127.0.0.1:7420"));
        for odd in ["7420", ":x", "localhost", "1.2.3.4", "localhost:99999"] {
            assert!(address(odd).unwrap_err().contains("ADDRESS:PORT"), "{odd}");
        }
    }
}
