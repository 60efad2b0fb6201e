//! Where `baton serve` listens: an address, a Unix socket, or both.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use baton_server::{Listeners, Options, Server, Socket, SocketError, StartError};
use clap::Args;

use super::server_access;
use crate::exit::Exit;
use crate::output::Failure;

/// What hints name if the server was given no address.
const USUAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7420);

#[derive(Args, Debug)]
pub(crate) struct ListenOptions {
    /// Where to listen: ADDRESS:PORT, or unix:/PATH for a Unix socket, at which the server's own user and root need no token; both may
    /// be given
    #[arg(long, value_name = "WHERE", default_value = "127.0.0.1:7420", value_parser = place)]
    listen: Vec<ListenAddress>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ListenAddress {
    Address(SocketAddr),
    Socket(PathBuf),
}

/// Why it does not listen.
pub(crate) enum ListenFailure {
    Start(StartError),
    Failed(Failure),
}

impl ListenOptions {
    /// The address, if it is given one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listen.iter().find_map(|place| match place {
            ListenAddress::Address(address) => Some(*address),
            ListenAddress::Socket(_) => None,
        })
    }

    fn socket(&self) -> Option<&Path> {
        self.listen.iter().find_map(|place| match place {
            ListenAddress::Address(_) => None,
            ListenAddress::Socket(path) => Some(path.as_path()),
        })
    }

    /// An address for hints.
    pub(crate) fn hinted(&self) -> SocketAddr {
        self.address().unwrap_or(USUAL)
    }

    /// Takes the address and the socket.
    pub(crate) async fn take(&self, options: &Options) -> Result<Listeners, ListenFailure> {
        self.check(options).map_err(ListenFailure::Failed)?;
        let address = match self.address() {
            Some(address) => Some(Server::listen(address, options).await.map_err(ListenFailure::Start)?),
            None => None,
        };
        let socket = match self.socket() {
            Some(path) => {
                let bound = Socket::bind(path).await;
                Some(bound.map_err(|error| ListenFailure::Failed(not_bound(path, &error)))?)
            }
            None => None,
        };
        match (address, socket) {
            (Some(address), Some(socket)) => Ok(Listeners::from(address).and(socket)),
            (Some(address), None) => Ok(address.into()),
            (None, Some(socket)) => Ok(socket.into()),
            (None, None) => unreachable!("--listen has a default"),
        }
    }

    /// Refuses what would be passed over in silence.
    fn check(&self, options: &Options) -> Result<(), Failure> {
        let most = usize::from(self.address().is_some()) + usize::from(self.socket().is_some());
        if self.listen.len() > most {
            return Err(Failure::usage(
                "a server listens at one address and one Unix socket at most",
                "leave out the other --listen, or start another server",
            ));
        }
        let only_for_addresses = match options {
            _ if self.address().is_some() => None,
            options if options.require_tokens => Some("--require-tokens"),
            options if options.tls.is_some() => Some("--tls-cert"),
            _ => None,
        };
        match only_for_addresses {
            Some(flag) => Err(Failure::usage(
                format!("{flag} is for an address, and this server listens only at a Unix socket"),
                format!("leave out {flag}, or listen at an address too: --listen {USUAL}"),
            )),
            None => Ok(()),
        }
    }
}

fn not_bound(path: &Path, error: &SocketError) -> Failure {
    let shown = path.display();
    let folder = path.parent().unwrap_or(Path::new("/")).display();
    let hint = match error {
        SocketError::TooLong(_) => "use a shorter path, such as unix:/run/user/1000/baton.sock".to_string(),
        SocketError::NotASocket => "use another path; nothing but a socket is ever replaced".to_string(),
        SocketError::InUse => format!("use that server: --store unix:{shown}; or another path"),
        SocketError::Locked => format!("see which process of this user or root starts there: fuser {folder}"),
        SocketError::OthersWrite(_) => {
            format!(
                "make a folder of your own: mkdir -m 700 {folder}/baton; or use unix:/run/user/UID/baton.sock"
            )
        }
        SocketError::Nobody(_) => "run the server as a user of its own, or listen at an address".to_string(),
        SocketError::Io(_) => format!("{folder} must exist, and this user must be able to write it"),
    };
    Failure::new(Exit::Error, "system", format!("cannot listen at unix:{shown}: {error}"), hint)
}

/// `ADDRESS:PORT`, or `unix:/PATH`. More slashes than one mean the same.
fn place(text: &str) -> Result<ListenAddress, String> {
    match text.strip_prefix("unix:") {
        None => server_access::address(text).map(ListenAddress::Address),
        Some(path) if path.starts_with('/') && path.trim_start_matches('/').contains(|c| c != '/') => {
            Ok(ListenAddress::Socket(format!("/{}", path.trim_start_matches('/')).into()))
        }
        Some(_) => {
            Err("write the whole path of the socket, such as unix:/run/user/1000/baton.sock".to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_address_or_the_whole_path_of_a_socket() {
        let socket = |path: &str| Ok(ListenAddress::Socket(path.into()));
        assert_eq!(place("unix:/run/b.sock"), socket("/run/b.sock"));
        assert_eq!(place("unix:///run/b.sock"), socket("/run/b.sock"));
        assert_eq!(place("127.0.0.1:7"), Ok(ListenAddress::Address("127.0.0.1:7".parse().unwrap())));
        for odd in ["unix:", "unix:/", "unix:b.sock", "unix:./b.sock", "unix:~/b.sock"] {
            assert!(place(odd).unwrap_err().contains("the whole path"), "{odd}");
        }
        assert!(place("/run/b.sock").unwrap_err().contains("ADDRESS:PORT"));
    }
}
