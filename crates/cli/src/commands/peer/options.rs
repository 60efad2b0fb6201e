//! What a member is told on the command line, put together.

use std::path::PathBuf;

use baton_election::lease;
use baton_election::time::Span;
use baton_node::{
    CertificateFiles, Certificates, ListedMember, NodeOptions, Peer, Secret, Trust, check_places, parse_file,
};
use baton_peer::{Config, Group, Member, NodeId, Timing};
use clap::Args;

use super::Lead;
use super::network::NetworkSetup;
use crate::output::Failure;
use crate::secrets;
use crate::state_folder::state_root;

/// How members know each other.
#[derive(Args, Clone, Debug)]
pub(super) struct Authentication {
    /// A file with a secret that all members share and that authenticates them
    #[arg(long, value_name = "FILE", help_heading = "Authentication", conflicts_with = "tls_cert")]
    secret_file: Option<PathBuf>,
    /// This member's certificate chain (PEM), with the DNS name peer-ID
    #[arg(long, value_name = "FILE", help_heading = "Authentication", requires_all = ["tls_key", "tls_ca"])]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", help_heading = "Authentication", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The authority of all members' certificates (PEM)
    #[arg(long, value_name = "FILE", help_heading = "Authentication", requires = "tls_cert")]
    tls_ca: Option<PathBuf>,
}

impl Authentication {
    pub(super) fn trust(&self) -> Result<Trust, Failure> {
        if let Some(file) = &self.secret_file {
            let text = secrets::read(file)?;
            return Secret::new(&text).map(Trust::Secret).ok_or_else(|| {
                match text.trim().len() > Secret::MAX_BYTES {
                    true => secrets::too_long(file, Secret::MAX_BYTES),
                    false => secrets::too_short(file),
                }
            });
        }
        let (Some(certificate), Some(key), Some(authority)) = (&self.tls_cert, &self.tls_key, &self.tls_ca)
        else {
            return Ok(Trust::Loopback);
        };
        let files = CertificateFiles {
            certificate: certificate.clone(),
            key: key.clone(),
            authority: authority.clone(),
        };
        let certificates = Certificates::load(&files);
        certificates.map(Trust::Certificates).map_err(|error| Failure::usage(error.to_string(), error.hint))
    }
}

/// How often the leader is heard, and how long its silence is borne. The same for all members.
#[derive(Args, Clone, Debug)]
pub(super) struct TimingOptions {
    /// For machines on one network: heartbeats every 50ms, timeouts of 150ms to 300ms
    #[arg(long, help_heading = "Rhythm, the same for all members")]
    lan: bool,
    /// The time between two heartbeats of the leader [default: 5s]
    #[arg(long, value_name = "DURATION", help_heading = "Rhythm, the same for all members")]
    heartbeat: Option<Span>,
    /// The election timeout: how long members wait for a silent leader [default: 15s..20s]
    #[arg(long, value_name = "MIN..MAX", value_parser = range, help_heading = "Rhythm, the same for all members")]
    timeout: Option<(Span, Span)>,
}

fn range(text: &str) -> Result<(Span, Span), String> {
    let (min, max) = text.split_once("..").ok_or("write the shortest and the longest, such as 15s..20s")?;
    let span = |text: &str| text.parse::<Span>().map_err(|error| error.to_string());
    Ok((span(min)?, span(max)?))
}

impl TimingOptions {
    pub(super) fn timing(&self) -> Result<Timing, Failure> {
        let mut timing = if self.lan { Timing::LAN } else { Timing::AGENTS };
        timing.heartbeat = self.heartbeat.unwrap_or(timing.heartbeat);
        (timing.timeout_min, timing.timeout_max) =
            self.timeout.unwrap_or((timing.timeout_min, timing.timeout_max));
        let wrong = |error: baton_peer::InvalidTiming| {
            Failure::usage(error.to_string(), "such as --heartbeat 5s --timeout 15s..20s, or --lan")
        };
        timing.check().map(|()| timing).map_err(wrong)
    }
}

/// Everything that the member is told.
pub(super) struct MemberSetup {
    pub(super) node: NodeOptions,
    pub(super) reached: NetworkSetup,
    pub(super) grace: Span,
}

impl MemberSetup {
    pub(super) fn of(lead: &Lead, id: NodeId) -> Result<MemberSetup, Failure> {
        let listed = listed(lead)?;
        let own = listed.iter().find(|listed| listed.member.id == id);
        let members = members(lead, id, &listed, own)?;
        let timing = lead.timing_options.timing()?;
        let grace = grace(lead, timing.timeout_min)?;
        let others: Vec<Peer> =
            listed.iter().filter(|listed| listed.member.id != id).map(ListedMember::peer).collect();
        let reached = NetworkSetup::of(lead, id, own, &others, timing)?;
        let group = Group::founded(members)
            .map_err(|error| Failure::usage(error.to_string(), "see --peer, --members and --witness"))?;
        let folder = lead.data.clone().map_or_else(|| default_folder(lead.group.as_str(), id), Ok)?;
        let node = NodeOptions {
            config: Config { id, group, timing, seed: seed()? },
            group: lead.group.to_string(),
            folder,
            found: lead.found,
            peers: others,
            members_file: lead.members.clone(),
            never_leads: lead.witness,
        };
        Ok(MemberSetup { node, reached, grace })
    }
}

fn listed(lead: &Lead) -> Result<Vec<ListedMember>, Failure> {
    let Some(file) = &lead.members else {
        let hint = "each member has an address of its own: --peer ID=HOST:PORT";
        check_places(&lead.peers).map_err(|error| Failure::usage(error.to_string(), hint))?;
        return Ok(lead.peers.clone());
    };
    let hint = "one member to a line: ID=HOST:PORT, and behind it ,witness or ,priority=N";
    let place = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{place} cannot be read: {error}"), hint))?;
    parse_file(&text).map_err(|error| Failure::usage(format!("{place}: {error}"), hint))
}

/// The list, with what this member is told of itself.
fn members(
    lead: &Lead,
    id: NodeId,
    listed: &[ListedMember],
    own: Option<&ListedMember>,
) -> Result<Vec<Member>, Failure> {
    let mut members: Vec<Member> = listed.iter().map(|listed| listed.member).collect();
    let Some(own) = own else {
        if lead.members.is_none() {
            let (witness, priority) = (lead.witness, lead.priority.unwrap_or(0));
            members.push(Member { id, witness, priority });
        }
        // A file that does not name this member yet: it runs, and takes part once it does.
        return Ok(members);
    };
    let differs = lead.priority.is_some_and(|priority| priority != own.member.priority)
        || (lead.witness && !own.member.witness);
    if differs {
        return Err(Failure::usage(
            format!("the list says otherwise what member {} is than --witness and --priority do", id),
            format!("all members need the same list: {}=HOST:PORT,witness,priority=N", id),
        ));
    }
    if own.member.witness && !lead.witness && lead.command.is_empty() {
        return Err(Failure::usage("a witness without a CMD needs --witness", "add --witness"));
    }
    Ok(members)
}

fn grace(lead: &Lead, shortest: Span) -> Result<Span, Failure> {
    match lead.grace {
        Some(grace) if grace > lease::max_grace(shortest) => Err(Failure::usage(
            format!("a grace of {grace} is over a third of the shortest timeout of {shortest}"),
            format!("use at most {}, or a longer --timeout", lease::max_grace(shortest)),
        )),
        Some(grace) => Ok(grace),
        None => Ok(lease::default_grace(shortest)),
    }
}

/// Where the members of a group keep their memory, if nothing else is said.
pub(super) fn group_folder(group: &str) -> Result<PathBuf, Failure> {
    Ok(state_root()?.join("peers").join(group.replace('/', "+")))
}

fn default_folder(group: &str, id: NodeId) -> Result<PathBuf, Failure> {
    Ok(group_folder(group)?.join(id.to_string()))
}

fn seed() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_lengths_of_time() {
        assert_eq!(range("150ms..300ms"), Ok((Span::millis(150), Span::millis(300))));
        for odd in ["15s", "15..20", "..", "15s..", "15s-20s"] {
            assert!(range(odd).is_err(), "{odd}");
        }
    }
}
