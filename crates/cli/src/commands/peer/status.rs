//! `baton peer status`: how the members that run here are, or one elsewhere.

use baton_election::time::Span;
use baton_node::{MemberRole, MemberStatus, Status as How};
use clap::Args;
use serde_json::json;

use super::query::{MemberSelector, SILENT_HINT};
use crate::exit::Exit;
use crate::output::{Outcome, Output, table};

#[derive(Args, Debug)]
pub(super) struct Status {
    #[command(flatten)]
    place: MemberSelector,
}

impl Status {
    pub(super) async fn perform(&self, output: Output) -> Outcome {
        let looked = self.place.look().await?;
        for (number, status) in looked.statuses.iter().enumerate() {
            if number > 0 && !output.json {
                output.line("")?;
            }
            output.say(&json!(status), &shown(status))?;
        }
        for (id, name) in &looked.silent {
            let text = format!("\n{name} does not answer: {SILENT_HINT}");
            output.say(&json!({"id": id, "answers": false, "message": text.trim_start()}), &text)?;
        }
        Ok(Exit::Done)
    }
}

/// How a member is, for people.
fn shown(status: &How) -> String {
    let is_member = status.members.iter().any(|member| member.id == status.id);
    let what = match status.role {
        MemberRole::Waiting | MemberRole::Follower | MemberRole::Candidate if !is_member => "is no member",
        MemberRole::Waiting if status.trouble.is_some() => "waits and does not vote",
        MemberRole::Waiting => "has just started and does not vote yet",
        MemberRole::Follower if status.read_only => "lost its majority: read-only",
        MemberRole::Candidate if status.read_only => "lost its majority and stands: read-only",
        MemberRole::Follower if status.leader.is_none() => "follows nobody",
        MemberRole::Follower => "follows",
        MemberRole::Candidate => "stands for election",
        MemberRole::Leader => "leads",
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
    let head = [Some(head), status.trouble.clone()].into_iter().flatten().collect::<Vec<_>>().join("\n");
    let rows: Vec<Vec<String>> = status
        .members
        .iter()
        .map(|member| {
            vec![
                member.id.to_string(),
                if member.witness { "witness" } else { "member" }.to_string(),
                member.priority.to_string(),
                member.address.clone().unwrap_or_else(|| "-".to_string()),
                if member.id == status.id { "itself".to_string() } else { link(member) },
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

/// How another member is reached.
fn link(member: &MemberStatus) -> String {
    match member.silent_ms {
        _ if !member.connected => "out of reach".to_string(),
        Some(silent) => format!("connected, silent for {}", Span::millis(silent / 1_000 * 1_000)),
        None if member.forgetful => "connected, without memory".to_string(),
        None => "connected".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(id: u16, connected: bool, silent_ms: Option<u64>, forgetful: bool) -> MemberStatus {
        let id = baton_peer::NodeId::new(id).unwrap();
        MemberStatus { id, witness: false, priority: 0, address: None, connected, silent_ms, forgetful }
    }

    #[test]
    fn a_link_says_whether_the_other_one_is_there() {
        assert_eq!(link(&one(2, false, Some(9_000), true)), "out of reach");
        assert_eq!(link(&one(2, true, Some(9_500), true)), "connected, silent for 9s");
        assert_eq!(link(&one(2, true, None, true)), "connected, without memory");
        assert_eq!(link(&one(2, true, None, false)), "connected");
    }
}
