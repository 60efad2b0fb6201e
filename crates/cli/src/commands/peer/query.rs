//! `baton peer transfer` and `members`: asking something of a member that runs, and how members are asked.
//!
//! Guarantees that all that can be asked are asked at once, and that one that is stopped keeps nobody waiting for longer than its own bound.

use std::path::PathBuf;

use baton_election::ElectionName;
use baton_node::{
    AskError, Change, ControlReply, ControlRequest, ListedMember, PilotAddress, Remote, Status as How,
    ask_folder,
};
use baton_peer::NodeId;
use clap::{Args, Subcommand};
use serde_json::json;
use tokio::task::JoinSet;

use super::options::{Authentication, group_folder};
use crate::exit::Exit;
use crate::output::{Failure, Outcome, Output};

/// Which member is asked.
#[derive(Args, Clone, Debug)]
pub(super) struct MemberSelector {
    /// The folder of the member [default: those of the group below the user's state folder]
    #[arg(long, value_name = "DIR", conflicts_with = "connect")]
    data: Option<PathBuf>,
    /// A member elsewhere, over TCP
    #[arg(long, value_name = "ID=HOST:PORT")]
    connect: Option<ListedMember>,
    /// The group's name
    #[arg(long, value_name = "NAME", default_value = "peers")]
    group: ElectionName,
    #[command(flatten)]
    known: Authentication,
}

/// One member that can be asked.
#[derive(Clone)]
enum MemberTarget {
    /// The member of a folder; which, if its name says so.
    Folder(Option<NodeId>, PathBuf),
    Elsewhere(Remote),
}

/// Why there is no answer.
enum QueryFailure {
    /// It is there, and says nothing.
    Silent(Failure),
    /// Nobody is there, or one does not believe the other.
    Failed(Failure),
}

impl QueryFailure {
    fn failure(self) -> Failure {
        match self {
            QueryFailure::Silent(failure) | QueryFailure::Failed(failure) => failure,
        }
    }
}

/// What the members that can be asked say of themselves.
pub(super) struct MemberReplies {
    pub(super) statuses: Vec<How>,
    /// Those that are there and say nothing, as people call them.
    pub(super) silent: Vec<(Option<NodeId>, String)>,
}

impl MemberSelector {
    /// The members that can be asked, in the order of their ids.
    fn targets(&self) -> Result<Vec<MemberTarget>, Failure> {
        if let Some(folder) = &self.data {
            return Ok(vec![MemberTarget::Folder(None, folder.clone())]);
        }
        if let Some(listed) = &self.connect {
            if listed.address.parse::<PilotAddress>().is_ok() {
                return Err(Failure::usage(
                    "members on the Pilot network are asked where they run",
                    "on that machine, name the member's folder: --data DIR; --connect is for TCP",
                ));
            }
            return Ok(vec![MemberTarget::Elsewhere(Remote {
                id: listed.member.id,
                address: listed.address.clone(),
                group: self.group.to_string(),
                trust: self.known.trust()?,
            })]);
        }
        let root = group_folder(self.group.as_str())?;
        let entries = std::fs::read_dir(&root).into_iter().flatten().flatten();
        let mut found: Vec<(NodeId, PathBuf)> = entries
            .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
            .collect();
        found.sort();
        Ok(found.into_iter().map(|(id, folder)| MemberTarget::Folder(Some(id), folder)).collect())
    }

    /// Asks all at once how they are. The answers come as they are given, with the place of the member among all.
    fn ask_all(targets: &[MemberTarget]) -> JoinSet<(usize, Result<ControlReply, QueryFailure>)> {
        let mut asked = JoinSet::new();
        for (place, target) in targets.iter().cloned().enumerate() {
            asked.spawn(async move { (place, target.ask(&ControlRequest::Status).await) });
        }
        asked
    }

    /// Asks each that runs; those that do not are passed over if there are several, those that do not answer are named.
    pub(super) async fn look(&self) -> Result<MemberReplies, Failure> {
        let targets = self.targets()?;
        let mut asked = MemberSelector::ask_all(&targets);
        let (mut statuses, mut silent, mut failed) = (Vec::new(), Vec::new(), None);
        while let Some(answer) = asked.join_next().await {
            match answer.map_err(std::io::Error::from)? {
                (place, Ok(answer)) => match status(answer) {
                    Ok(status) => statuses.push((place, status)),
                    Err(failure) => failed = Some(failure),
                },
                (place, Err(QueryFailure::Silent(failure))) => silent.push((place, failure)),
                (_, Err(QueryFailure::Failed(failure))) => failed = Some(failure),
            }
        }
        if statuses.is_empty() {
            let silent = silent.into_iter().next().map(|(_, failure)| failure);
            return Err(silent.or(failed).unwrap_or_else(|| self.nobody()));
        }
        statuses.sort_by_key(|(place, _)| *place);
        silent.sort_by_key(|(place, _)| *place);
        Ok(MemberReplies {
            statuses: statuses.into_iter().map(|(_, status)| status).collect(),
            silent: silent
                .into_iter()
                .map(|(place, _)| (targets[place].id(), targets[place].name()))
                .collect(),
        })
    }

    fn nobody(&self) -> Failure {
        Failure::new(
            Exit::Error,
            "not-running",
            format!("no member of group {} runs here", self.group),
            "name its folder: --data DIR, or where it is: --connect ID=HOST:PORT",
        )
    }

    /// Asks the member that leads, if it is among those that can be asked; else the first. Nobody is waited for once the leader is found.
    pub(super) async fn ask_leader(&self, ask: &ControlRequest) -> Result<(How, Option<String>), Failure> {
        let targets = self.targets()?;
        let mut asked = MemberSelector::ask_all(&targets);
        let (mut chosen, mut failed) = (None, None);
        while let Some(answer) = asked.join_next().await {
            let (place, answer) = answer.map_err(std::io::Error::from)?;
            let status = match answer.map_err(QueryFailure::failure).and_then(status) {
                Ok(status) => status,
                Err(failure) => {
                    failed = Some(failure);
                    continue;
                }
            };
            let (rank, leads) = ((!status.leads, place), status.leads);
            if chosen.as_ref().is_none_or(|(best, _)| rank < *best) {
                chosen = Some((rank, status));
            }
            if leads {
                break;
            }
        }
        let Some(((_, place), asked)) = chosen else {
            return Err(failed.unwrap_or_else(|| self.nobody()));
        };
        let answer = targets[place].ask(ask).await.map_err(QueryFailure::failure)?;
        match answer {
            ControlReply::Begun => Ok((asked, None)),
            ControlReply::Warned(warning) => Ok((asked, Some(warning))),
            ControlReply::Refused(why) => Err(refused(&why, leader_elsewhere(&asked))),
            ControlReply::NotAllowed => Err(refused(
                "this certificate may only ask how things are",
                Some("show one with the DNS name `operator`: --tls-cert and --tls-key".to_string()),
            )),
            ControlReply::InFile(file) => Err(refused(
                "a file says who the members are",
                Some(format!("change {file} where each member runs; it is read again every second")),
            )),
            ControlReply::Status(_) => Err(nonsense()),
        }
    }
}

impl MemberTarget {
    async fn ask(&self, ask: &ControlRequest) -> Result<ControlReply, QueryFailure> {
        match self {
            MemberTarget::Folder(_, folder) => {
                ask_folder(folder, ask).await.map_err(|error| self.unheard(&error))
            }
            MemberTarget::Elsewhere(remote) => {
                remote.ask(ask).await.map_err(|error| self.unreached(remote, &error))
            }
        }
    }

    fn id(&self) -> Option<NodeId> {
        match self {
            MemberTarget::Folder(id, _) => *id,
            MemberTarget::Elsewhere(remote) => Some(remote.id),
        }
    }

    /// As people call it.
    fn name(&self) -> String {
        match self {
            MemberTarget::Folder(Some(id), folder) => format!("member {id} in {}", folder.display()),
            MemberTarget::Folder(None, folder) => format!("the member in {}", folder.display()),
            MemberTarget::Elsewhere(remote) => format!("member {} at {}", remote.id, remote.address),
        }
    }

    fn unheard(&self, error: &std::io::Error) -> QueryFailure {
        let name = self.name();
        if error.kind() == std::io::ErrorKind::TimedOut {
            let text = format!("{name} does not answer");
            return QueryFailure::Silent(Failure::new(Exit::Error, "no-answer", text, SILENT_HINT));
        }
        QueryFailure::Failed(Failure::new(
            Exit::Error,
            "not-running",
            format!("{name} does not run: {error}"),
            "name the folder of a running member: --data DIR, or --connect ID=HOST:PORT",
        ))
    }

    fn unreached(&self, remote: &Remote, error: &AskError) -> QueryFailure {
        let proofs = "as the members have";
        let hint = match error {
            AskError::Unreachable(_) => "see whether it runs, and whether the address is right".to_string(),
            AskError::HungUp => format!(
                "it may want certificates: --tls-cert, --tls-key and --tls-ca, {proofs}; or something else than a member listens there"
            ),
            AskError::Other(id) => format!("name it so: --connect {id}={}", remote.address),
            AskError::Unshown => {
                format!("give --secret-file, or --tls-cert, --tls-key and --tls-ca, {proofs}")
            }
            AskError::Stranger(_) | AskError::Nonsense => {
                "see --group, --secret-file, --tls-cert, and whether both are of one version".to_string()
            }
        };
        let failure = Failure::new(Exit::Error, "not-reached", format!("{}: {error}", self.name()), hint);
        match error {
            AskError::Unreachable(error) if error.kind() == std::io::ErrorKind::TimedOut => {
                QueryFailure::Silent(failure)
            }
            AskError::Unreachable(_)
            | AskError::HungUp
            | AskError::Other(_)
            | AskError::Unshown
            | AskError::Stranger(_)
            | AskError::Nonsense => QueryFailure::Failed(failure),
        }
    }
}

/// What is known of a process that takes a question and does not answer it.
pub(super) const SILENT_HINT: &str = "it is stopped (kill -CONT lets it go on), or its disk hangs";

fn status(answer: ControlReply) -> Result<How, Failure> {
    match answer {
        ControlReply::Status(status) => Ok(*status),
        ControlReply::Refused(why) => Err(refused(&why, None)),
        ControlReply::Begun
        | ControlReply::Warned(_)
        | ControlReply::NotAllowed
        | ControlReply::InFile(_) => Err(nonsense()),
    }
}

fn nonsense() -> Failure {
    Failure::new(Exit::Error, "system", "the answer made no sense", "use the same version of baton for both")
}

/// What was asked for is not done.
fn refused(why: &str, hint: Option<String>) -> Failure {
    let hint = hint.unwrap_or_else(|| "see baton peer status".to_string());
    Failure::new(Exit::Held, "not-done", format!("it is not done: {why}"), hint)
}

/// Where the leader is to be asked, if another one was.
fn leader_elsewhere(asked: &How) -> Option<String> {
    let leader = asked.leader.filter(|leader| *leader != asked.id)?;
    let address = asked.members.iter().find(|member| member.id == leader)?.address.clone();
    // Only over TCP a member can be asked from elsewhere.
    let address = address.filter(|address| address.parse::<PilotAddress>().is_err());
    Some(match address {
        Some(address) => format!("member {leader} leads: ask it by --connect {leader}={address}"),
        None => format!("member {leader} leads: ask it where it runs, by --data DIR"),
    })
}

#[derive(Args, Debug)]
pub(super) struct Transfer {
    /// The new leader [default: the leader chooses]
    #[arg(long, value_name = "ID")]
    to: Option<NodeId>,
    #[command(flatten)]
    place: MemberSelector,
}

impl Transfer {
    pub(super) async fn perform(&self, output: Output) -> Outcome {
        let (asked, _) = self.place.ask_leader(&ControlRequest::Transfer { to: self.to }).await?;
        let data = json!({"outcome": "begun", "from": asked.id, "to": self.to, "term": asked.term});
        let to = self.to.map_or_else(|| "the best of the others".to_string(), |to| format!("member {to}"));
        output.say(&data, &format!("member {} hands over to {to}, once its work has stopped; its log says if nothing comes of it", asked.id))?;
        Ok(Exit::Done)
    }
}

#[derive(Args, Debug)]
pub(super) struct Members {
    #[command(subcommand)]
    change: MembersChange,
}

#[derive(Subcommand, Debug)]
enum MembersChange {
    /// Add a member, or change whether it is a witness, or its priority
    Add(Add),
    /// Remove a member
    Remove(Remove),
}

#[derive(Args, Debug)]
struct Add {
    /// ID=HOST:PORT, and behind it ,witness or ,priority=N
    #[arg(value_name = "MEMBER")]
    member: ListedMember,
    #[command(flatten)]
    place: MemberSelector,
}

#[derive(Args, Debug)]
struct Remove {
    /// Which
    #[arg(value_name = "ID")]
    id: NodeId,
    #[command(flatten)]
    place: MemberSelector,
}

impl Members {
    pub(super) async fn perform(&self, output: Output) -> Outcome {
        let (place, change) = match &self.change {
            MembersChange::Add(Add { member, place }) => {
                let address = Some(member.address.clone());
                (place, Change::Add { member: member.member, address })
            }
            MembersChange::Remove(Remove { id, place }) => (place, Change::Remove { id: *id }),
        };
        let (asked, warning) = place.ask_leader(&ControlRequest::Members { change: change.clone() }).await?;
        let known = |id: &NodeId| asked.members.iter().any(|member| member.id == *id);
        let text = match &change {
            Change::Add { member, .. } if known(&member.id) => format!("member {} is changed", member.id),
            Change::Add { member, .. } => format!("member {} joins", member.id),
            Change::Remove { id } => format!("member {id} leaves"),
        };
        if let Some(warning) = &warning {
            output.talk(&format!("baton: WARNING: {warning}"));
        }
        let data = json!({"outcome": "begun", "leader": asked.id, "change": change, "warning": warning});
        output.say(&data, &format!("{text}, once a majority knows"))?;
        Ok(Exit::Done)
    }
}
