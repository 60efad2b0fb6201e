//! Over which network members talk, and how this one is reached there.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use baton_node::{
    ControlHandle, GroupSettings, ListedMember, Peer, Pilot, PilotAddress, PilotError, PilotOptions, Secret,
    Tcp, TcpError, TcpOptions, Transport, Trust,
};
use baton_peer::{NodeId, Timing};
use clap::{Args, ValueEnum};

use super::Lead;
use crate::output::Failure;

/// The network, the same for all members.
#[derive(Args, Clone, Debug)]
pub(super) struct Network {
    /// The network between members; on the Pilot network a member is ID=0:0000.0000.0002
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Kind::Tcp, help_heading = "Network")]
    transport: Kind,
    /// The socket of the Pilot daemon beside this member
    #[arg(
        long,
        value_name = "PATH",
        env = "PILOT_SOCKET",
        hide_env_values = true,
        default_value = "/tmp/pilot.sock",
        help_heading = "Network"
    )]
    pilot_socket: PathBuf,
    /// The Pilot port, the same for all members of a group and another one for each group
    #[arg(long, value_name = "PORT", default_value_t = 7_117, help_heading = "Network")]
    pilot_port: u16,
}

/// Over which network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Tcp,
    Pilot,
}

/// How a member is reached, but for what depends on the algorithm.
pub(super) enum NetworkSetup {
    Tcp {
        id: NodeId,
        group: String,
        timing: Timing,
        listen: SocketAddr,
        advertise: Option<String>,
        trust: Trust,
    },
    Pilot {
        id: NodeId,
        group: String,
        priority: u8,
        network: Network,
        address: Option<PilotAddress>,
        secret: Option<Secret>,
    },
}

impl NetworkSetup {
    /// How member `id` is reached; `own` is what the list says of it.
    pub(super) fn of(
        lead: &Lead,
        id: NodeId,
        own: Option<&ListedMember>,
        others: &[Peer],
        timing: Timing,
    ) -> Result<NetworkSetup, Failure> {
        let (network, trust, group) = (lead.network.clone(), lead.known.trust()?, lead.group.to_string());
        all_of(network.transport, own.map(ListedMember::peer).iter().chain(others))?;
        match network.transport {
            Kind::Tcp => {
                let listen = listen(lead, id, own)?;
                if matches!(trust, Trust::Loopback) {
                    refuse_outside(others)?;
                }
                let advertise = own.map(|own| own.address.clone());
                Ok(NetworkSetup::Tcp { id, group, timing, listen, advertise, trust })
            }
            Kind::Pilot => {
                let secret = match trust {
                    Trust::Loopback => None,
                    Trust::Secret(secret) => Some(secret),
                    Trust::Certificates(_) => {
                        return Err(Failure::usage(
                            "certificates are for TCP",
                            "Pilot's tunnels are encrypted and bound to the nodes' keys; see also --secret-file",
                        ));
                    }
                };
                if lead.listen.is_some() {
                    return Err(Failure::usage("--listen is for TCP", "see --pilot-socket and --pilot-port"));
                }
                let priority = own.map(|own| own.member.priority).or(lead.priority).unwrap_or(0);
                let address = own.and_then(|own| own.address.parse().ok());
                Ok(NetworkSetup::Pilot { id, group, priority, network, address, secret })
            }
        }
    }

    /// Goes on the network; says also where that is.
    pub(super) async fn open(
        self,
        terms: GroupSettings,
        control: ControlHandle,
    ) -> Result<(Box<dyn Transport>, String), Failure> {
        match self {
            NetworkSetup::Tcp { id, group, timing, listen, advertise, trust } => {
                let options = TcpOptions { id, group, terms, timing, listen, advertise, trust };
                let tcp = Tcp::open(options, control).await.map_err(|error| closed(&error))?;
                let local = tcp.local().to_string();
                Ok((Box::new(tcp), local))
            }
            NetworkSetup::Pilot { id, group, priority, network, address, secret } => {
                let (socket, port) = (network.pilot_socket, network.pilot_port);
                let options = PilotOptions { id, priority, group, terms, socket, port, address, secret };
                let pilot = Pilot::open(options).await.map_err(|error| not_on_pilot(&error))?;
                let local = format!("{} port {port} of the Pilot network", pilot.local());
                Ok((Box::new(pilot), local))
            }
        }
    }
}

/// Refuses addresses of another network than the one that was chosen.
fn all_of<'a>(kind: Kind, mut peers: impl Iterator<Item = &'a Peer>) -> Result<(), Failure> {
    let foreign = |peer: &&Peer| peer.address.parse::<PilotAddress>().is_ok() != (kind == Kind::Pilot);
    let Some(peer) = peers.find(foreign) else { return Ok(()) };
    let (id, address) = (peer.id, &peer.address);
    Err(match kind {
        Kind::Tcp => Failure::usage(
            format!("member {id} at {address} is on the Pilot network"),
            "add --transport pilot, or write ID=HOST:PORT",
        ),
        Kind::Pilot => Failure::usage(
            format!("member {id} at {address} is not on the Pilot network"),
            "write ID=0:0000.0000.0002; `pilotctl info` shows a node's address, `pilotctl find NAME` another one's",
        ),
    })
}

fn listen(lead: &Lead, id: NodeId, own: Option<&ListedMember>) -> Result<SocketAddr, Failure> {
    let text = lead.listen.as_deref().or(own.map(|own| own.address.as_str())).ok_or_else(|| {
        let hint = format!("name it in the list: --peer {id}=HOST:PORT, or say --listen ADDRESS:PORT");
        Failure::usage(format!("where does member {id} listen?"), hint)
    })?;
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        Failure::usage(format!("`{text}` is no address to listen at"), "such as --listen 127.0.0.1:7001")
    })
}

/// Without a secret or certificates nobody outside this machine is dialled. Names are looked at again when they are dialled.
fn refuse_outside(others: &[Peer]) -> Result<(), Failure> {
    let outside =
        |peer: &&Peer| peer.address.parse::<SocketAddr>().is_ok_and(|address| !address.ip().is_loopback());
    match others.iter().find(outside) {
        None => Ok(()),
        Some(peer) => Err(Failure::usage(
            format!("member {} at {} would not have to prove who it is", peer.id, peer.address),
            "give all members a --secret-file, or --tls-cert, --tls-key and --tls-ca",
        )),
    }
}

/// Why a member cannot be reached.
fn closed(error: &TcpError) -> Failure {
    let hint = match error {
        TcpError::Unguarded(_) => {
            "give all members a --secret-file, or --tls-cert, --tls-key and --tls-ca".to_string()
        }
        TcpError::Listen(..) => "another process may listen there; see --listen".to_string(),
        TcpError::Certificate(error) => error.hint.clone(),
    };
    Failure::usage(error.to_string(), hint)
}

/// Why a member is not on the Pilot network.
fn not_on_pilot(error: &PilotError) -> Failure {
    let hint = match error {
        PilotError::Unreachable { .. } => "start it: `pilotctl daemon start`; see --pilot-socket",
        PilotError::Daemon(_) => "see `pilotctl info`; daemons of version 1.18 are known to work",
        PilotError::Port(..) => {
            "another group's member may have it: each group has a --pilot-port of its own"
        }
        PilotError::Elsewhere { .. } => {
            "each member has the daemon beside it: see --pilot-socket and the list"
        }
    };
    Failure::usage(error.to_string(), hint)
}
