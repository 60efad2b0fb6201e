//! `baton peer status`, `transfer` and `members`: asking a member that runs.

use std::path::PathBuf;

use baton_election::ElectionName;
use baton_election::time::Span;
use baton_node::{Answer, Ask, AskError, Change, Listed, Remote, Standing, Status as How, ask_folder};
use baton_peer::NodeId;
use clap::{Args, Subcommand};
use serde_json::json;

use super::options::{Known, group_folder};
use crate::exit::Exit;
use crate::output::{Failure, Outcome, Output, table};

/// Which member is asked.
#[derive(Args, Clone, Debug)]
struct Place {
    /// The folder of the member [default: those of the group below the user's state folder]
    #[arg(long, value_name = "DIR", conflicts_with = "connect")]
    data: Option<PathBuf>,
    /// A member elsewhere
    #[arg(long, value_name = "ID=HOST:PORT")]
    connect: Option<Listed>,
    /// The group's name
    #[arg(long, value_name = "NAME", default_value = "peers")]
    group: ElectionName,
    #[command(flatten)]
    known: Known,
}

/// One member that can be asked.
enum Door {
    Folder(PathBuf),
    Elsewhere(Remote),
}

impl Place {
    /// The members that can be asked, in the order of their ids.
    fn doors(&self) -> Result<Vec<Door>, Failure> {
        if let Some(folder) = &self.data {
            return Ok(vec![Door::Folder(folder.clone())]);
        }
        if let Some(listed) = &self.connect {
            return Ok(vec![Door::Elsewhere(Remote {
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
        Ok(found.into_iter().map(|(_, folder)| Door::Folder(folder)).collect())
    }

    /// Asks each that runs; those that do not are passed over if there are several.
    async fn ask_all(&self, ask: &Ask) -> Result<Vec<Answer>, Failure> {
        let (mut answers, mut failed) = (Vec::new(), None);
        for door in self.doors()? {
            match door.ask(ask).await {
                Ok(answer) => answers.push(answer),
                Err(failure) => failed = Some(failure),
            }
        }
        if answers.is_empty() {
            return Err(failed.unwrap_or_else(|| {
                Failure::new(
                    Exit::Error,
                    "not-running",
                    format!("no member of group {} runs here", self.group),
                    "name its folder: --data DIR, or where it is: --connect ID=HOST:PORT",
                )
            }));
        }
        Ok(answers)
    }

    async fn statuses(&self) -> Result<Vec<How>, Failure> {
        let answers = self.ask_all(&Ask::Status).await?;
        answers
            .into_iter()
            .map(|answer| match answer {
                Answer::Status(status) => Ok(*status),
                Answer::Refused(why) => Err(refused(&why, None)),
                Answer::Begun => Err(nonsense()),
            })
            .collect()
    }

    /// Asks the member that leads, if it is among those that can be asked; else the first.
    async fn ask_leader(&self, ask: &Ask) -> Result<How, Failure> {
        let (mut chosen, mut failed) = (None, None);
        for door in self.doors()? {
            match door.ask(&Ask::Status).await {
                Ok(Answer::Status(status)) if chosen.is_none() || status.leads => {
                    let leads = status.leads;
                    chosen = Some((door, *status));
                    if leads {
                        break;
                    }
                }
                Ok(Answer::Status(_)) => {}
                Ok(Answer::Refused(why)) => failed = Some(refused(&why, None)),
                Ok(Answer::Begun) => failed = Some(nonsense()),
                Err(failure) => failed = Some(failure),
            }
        }
        let Some((door, status)) = chosen else {
            // With the right words for why there is none.
            return Err(match failed {
                Some(failure) => failure,
                None => match self.ask_all(ask).await {
                    Err(failure) => failure,
                    Ok(_) => nonsense(),
                },
            });
        };
        match door.ask(ask).await? {
            Answer::Begun => Ok(status),
            Answer::Refused(why) => Err(refused(&why, Some(&status))),
            Answer::Status(_) => Err(nonsense()),
        }
    }
}

impl Door {
    async fn ask(&self, ask: &Ask) -> Result<Answer, Failure> {
        match self {
            Door::Folder(folder) => ask_folder(folder, ask).await.map_err(|error| {
                Failure::new(
                    Exit::Error,
                    "not-running",
                    format!("no member that answers runs in {}: {error}", folder.display()),
                    "name the folder of a running member: --data DIR, or --connect ID=HOST:PORT",
                )
            }),
            Door::Elsewhere(remote) => remote.ask(ask).await.map_err(|error| {
                let hint = match &error {
                    AskError::Unreachable(_) => "see whether it runs, and whether the address is right",
                    AskError::Stranger(_) | AskError::Nonsense => {
                        "see --group, --secret-file, --tls-cert, and whether both are of one version"
                    }
                };
                let text = format!("member {} at {}: {error}", remote.id, remote.address);
                Failure::new(Exit::Error, "not-reached", text, hint)
            }),
        }
    }
}

fn nonsense() -> Failure {
    Failure::new(Exit::Error, "system", "the answer made no sense", "use the same version of baton for both")
}

/// What was asked for is not done.
fn refused(why: &str, asked: Option<&How>) -> Failure {
    let leader = asked.and_then(|status| {
        let leader = status.leader.filter(|leader| *leader != status.id)?;
        let address = status.members.iter().find(|member| member.id == leader)?.address.clone();
        Some(format!("member {leader} leads: ask it by --connect {leader}={}", address.unwrap_or_default()))
    });
    let hint = leader.unwrap_or_else(|| "see baton peer status".to_string());
    Failure::new(Exit::Held, "not-done", format!("it is not done: {why}"), hint)
}

#[derive(Args, Debug)]
pub(super) struct Status {
    #[command(flatten)]
    place: Place,
}

impl Status {
    pub(super) async fn perform(&self, output: Output) -> Outcome {
        for (number, status) in self.place.statuses().await?.iter().enumerate() {
            if number > 0 && !output.json {
                output.line("")?;
            }
            output.say(&json!(status), &shown(status))?;
        }
        Ok(Exit::Done)
    }
}

/// How a member is, for people.
fn shown(status: &How) -> String {
    let what = match status.role {
        Standing::Waiting => "has just started and does not vote yet",
        Standing::Follower if status.read_only => "lost its majority: read-only",
        Standing::Candidate if status.read_only => "lost its majority and stands: read-only",
        Standing::Follower => "follows",
        Standing::Candidate => "stands for election",
        Standing::Leader => "leads",
    };
    let token = if status.terms_are_tokens { "" } else { ", which is no token: two may lead" };
    let lease = status.lease_left_ms.map(|left| format!(", its lease lasts {}", Span::millis(left)));
    let leader = match status.leader {
        Some(leader) if leader == status.id => "itself".to_string(),
        Some(leader) => format!("member {leader}"),
        None => "nobody known".to_string(),
    };
    let head = format!(
        "member {} of group {} ({}): {what}{}\nterm {}{token}; leader: {leader}",
        status.id,
        status.group,
        status.algorithm,
        lease.unwrap_or_default(),
        status.term,
    );
    let rows: Vec<Vec<String>> = status
        .members
        .iter()
        .map(|member| {
            let here = member.id == status.id;
            let link = if here {
                "itself"
            } else if member.connected {
                "connected"
            } else {
                "out of reach"
            };
            vec![
                member.id.to_string(),
                if member.witness { "witness" } else { "member" }.to_string(),
                member.priority.to_string(),
                member.address.clone().unwrap_or_else(|| "-".to_string()),
                link.to_string(),
            ]
        })
        .collect();
    let network = &status.network;
    let tail = format!(
        "sent {}, received {}, dropped {}, refused {}, malformed {}, oversized {}",
        network.sent,
        network.received,
        network.dropped,
        network.refused,
        network.malformed + status.machine.malformed,
        network.oversized,
    );
    format!("{head}\n\n{}\n\n{tail}", table(&["ID", "KIND", "PRIORITY", "ADDRESS", "LINK"], &rows))
}

#[derive(Args, Debug)]
pub(super) struct Transfer {
    /// To whom [default: to whom the leader finds best]
    #[arg(long, value_name = "ID")]
    to: Option<NodeId>,
    #[command(flatten)]
    place: Place,
}

impl Transfer {
    pub(super) async fn perform(&self, output: Output) -> Outcome {
        let asked = self.place.ask_leader(&Ask::Transfer { to: self.to }).await?;
        let data = json!({"outcome": "begun", "from": asked.id, "to": self.to, "term": asked.term});
        let to = self.to.map_or_else(|| "the best of the others".to_string(), |to| format!("member {to}"));
        output.say(&data, &format!("member {} hands over to {to}, once its work has stopped", asked.id))?;
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
    /// Let a member join, or make it a witness or give it a priority
    Add(Add),
    /// Let a member leave
    Remove(Remove),
}

#[derive(Args, Debug)]
struct Add {
    /// ID=HOST:PORT, and behind it ,witness or ,priority=N
    #[arg(value_name = "MEMBER")]
    member: Listed,
    #[command(flatten)]
    place: Place,
}

#[derive(Args, Debug)]
struct Remove {
    /// Which
    #[arg(value_name = "ID")]
    id: NodeId,
    #[command(flatten)]
    place: Place,
}

impl Members {
    pub(super) async fn perform(&self, output: Output) -> Outcome {
        let (place, change, text) = match &self.change {
            MembersChange::Add(Add { member, place }) => {
                let address = Some(member.address.clone());
                let text = format!("member {} joins, once a majority knows", member.member.id);
                (place, Change::Add { member: member.member, address }, text)
            }
            MembersChange::Remove(Remove { id, place }) => {
                (place, Change::Remove { id: *id }, format!("member {id} leaves, once a majority knows"))
            }
        };
        let asked = place.ask_leader(&Ask::Members { change: change.clone() }).await?;
        output.say(&json!({"outcome": "begun", "leader": asked.id, "change": change}), &text)?;
        Ok(Exit::Done)
    }
}
