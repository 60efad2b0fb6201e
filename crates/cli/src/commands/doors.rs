//! Who reaches a server of `baton serve`, and how.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;

use baton_server::{Limits, Options, StartError};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::certificate::Certificate;
use crate::output::Failure;

/// Descriptors that are not for connections: the store, snapshots, standard streams.
const OWN_DESCRIPTORS: u64 = 128;

#[derive(Args, Debug)]
pub(crate) struct Doors {
    #[command(flatten, next_help_heading = "Who may")]
    certificate: Certificate,
    /// Let nobody in without a token, not even on a loopback address; with TLS nobody is let in without one anyway
    #[arg(long, help_heading = "Who may")]
    require_tokens: bool,
    /// A name that the server is called by, beside localhost and those in its certificate; may be repeated
    #[arg(long, value_name = "HOST", value_parser = host, help_heading = "Who may")]
    name: Vec<String>,
    /// The most durable commands of one identity in a second, after as many at once; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().commands, help_heading = "Who may")]
    limit_commands: u32,
    /// The most streams of one token at once
    #[arg(long, value_name = "N", default_value_t = at_least_one(Limits::default().streams), help_heading = "Who may")]
    limit_streams: NonZeroUsize,
    /// The most connections of one address at once, unless it is a loopback one
    #[arg(long, value_name = "N", default_value_t = at_least_one(Limits::default().peer_connections), help_heading = "Who may")]
    limit_connections: NonZeroUsize,
}

impl Doors {
    /// What the server is told.
    pub(super) fn options(&self) -> Result<Options, Failure> {
        let tls = self.certificate.load()?;
        let limits = Limits {
            commands: self.limit_commands,
            streams: self.limit_streams.get(),
            peer_connections: self.limit_connections.get(),
            connections: descriptors(),
            ..Limits::default()
        };
        let (require_tokens, names) = (self.require_tokens, self.name.clone());
        Ok(Options { tls, require_tokens, names, limits, ..Options::default() })
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
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
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
pub(super) fn closed(error: &StartError, store: &str, listen: SocketAddr) -> Failure {
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
