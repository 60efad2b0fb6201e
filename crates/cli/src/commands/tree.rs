//! `baton tree`: elections under each other, who leads each, and from where.

use std::collections::BTreeMap;

use baton::election::document::Leader;
use baton::election::{ElectionName, Refusal};
use baton::{Error, View};
use clap::Args;
use serde_json::{Value, json};

use super::show;
use super::status::{all_failures, of_election};
use crate::context::Context;
use crate::output::{Failure, table};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton tree                                                             all elections
  baton tree fleet                                                       fleet and its regions
  baton tree --json | jq -r 'select(.region.led == false) | .election'   its region is lost

An election below another is a region of it, if the other's policy says so: baton policy fleet --regions yes. If one record cannot be read, the others are still shown, and the exit code is 7.")]
pub(crate) struct Tree {
    /// Only this election and those below it [default: all]
    election: Option<ElectionName>,
}

const HEAD: [&str; 6] = ["ELECTION", "STATE", "LEADER", "TOKEN", "LEASE", "FROM"];

/// By their segments, so that nothing comes between an election and what is below it.
type Segments = Vec<String>;

/// What is known of one place in the tree.
enum Node {
    Seen(Box<View>),
    /// There is no election of that name, only below it.
    Absent,
    /// It cannot be read.
    OutOfReach(Error),
}

impl StoreCommand for Tree {
    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let tree = self.grown(context).await?;
        if let Some(election) = self.election.as_ref().filter(|_| tree.is_empty()) {
            return Err(Refusal::UnknownElection { election: election.to_string() }.into());
        }
        let top = self.election.as_ref().map_or(1, |election| place(election).len());
        if context.output.json {
            for (at, node) in &tree {
                context.output.line(&data(&tree, at, node).to_string())?;
            }
        } else if tree.is_empty() {
            context.output.talk(&context.no_elections().await);
        } else {
            let rows: Vec<Vec<String>> = tree.iter().map(|(at, node)| row(&tree, at, node, top)).collect();
            context.output.line(&table(&HEAD, &rows))?;
        }
        let broken = tree.into_iter().filter_map(|(at, node)| match node {
            Node::OutOfReach(error) => Some(of_election(&at.join("/"), &error)),
            Node::Seen(_) | Node::Absent => None,
        });
        all_failures(context, broken.collect())
    }
}

impl Tree {
    async fn grown(&self, context: &Context) -> Result<BTreeMap<Segments, Node>, Error> {
        let mut tree = BTreeMap::new();
        let top = self.election.as_ref().map(place).unwrap_or_default();
        for election in context.coordinator.elections().await? {
            let at = place(&election);
            if !at.starts_with(&top) {
                continue;
            }
            let node = match context.coordinator.view(&election).await {
                Ok(View { document: None, .. }) => continue,
                Ok(view) => Node::Seen(Box::new(view)),
                Err(error) => Node::OutOfReach(error),
            };
            for above in top.len().max(1)..at.len() {
                tree.entry(at[..above].to_vec()).or_insert(Node::Absent);
            }
            tree.insert(at, node);
        }
        Ok(tree)
    }
}

fn place(election: &ElectionName) -> Segments {
    election.as_str().split('/').map(ToString::to_string).collect()
}

fn leader(node: &Node) -> Option<&Leader> {
    if let Node::Seen(view) = node { view.document.as_ref()?.leader.as_ref() } else { None }
}

/// Whether a leader still leads the region from which it leads; none if that cannot be seen here.
fn still_led(tree: &BTreeMap<Segments, Node>, node: &Node) -> Option<bool> {
    let (leader, Node::Seen(view)) = (leader(node)?, node) else { return None };
    let region = leader.region.as_ref()?;
    if view.document.as_ref()?.store != region.store {
        return None;
    }
    match tree.get(&place(&region.election)) {
        Some(Node::Seen(below)) => Some(below.leader().is_some_and(|now| {
            now.agent == leader.agent && (now.granted..=now.epoch).contains(&region.epoch)
        })),
        None | Some(Node::Absent) => Some(false),
        Some(Node::OutOfReach(_)) => None,
    }
}

fn row(tree: &BTreeMap<Segments, Node>, at: &Segments, node: &Node, top: usize) -> Vec<String> {
    let indent = "  ".repeat(at.len().saturating_sub(top));
    let name = if at.len() > top { at.last().cloned().unwrap_or_default() } else { at.join("/") };
    let known = match node {
        Node::Seen(view) => show::row(view),
        Node::Absent => Vec::new(),
        Node::OutOfReach(_) => vec![String::new(), "out of reach".to_string()],
    };
    let cell = |column: usize| known.get(column).cloned().unwrap_or_else(|| "-".to_string());
    vec![format!("{indent}{name}"), cell(1), cell(2), cell(3), cell(4), from(tree, node)]
}

fn from(tree: &BTreeMap<Segments, Node>, node: &Node) -> String {
    let Node::Seen(view) = node else { return String::new() };
    let Some(document) = &view.document else { return String::new() };
    match document.leader.as_ref().and_then(|leader| leader.region.as_ref()) {
        Some(region) => {
            let how = match still_led(tree, node) {
                Some(true) => "",
                Some(false) => ", which it has lost",
                None => ", out of reach here",
            };
            format!("{} (token {}){how}", region.election, region.epoch)
        }
        None if document.policy.regions => "its regions only".to_string(),
        None => String::new(),
    }
}

fn data(tree: &BTreeMap<Segments, Node>, at: &Segments, node: &Node) -> Value {
    let shown = match node {
        Node::Seen(view) => show::data(view),
        Node::Absent | Node::OutOfReach(_) => Value::Null,
    };
    let region = leader(node).and_then(|leader| leader.region.as_ref()).map(
        |region| json!({"election": region.election, "token": region.epoch, "led": still_led(tree, node)}),
    );
    json!({
        "election": at.join("/"),
        "parent": (at.len() > 1).then(|| at[..at.len() - 1].join("/")),
        "depth": at.len(),
        "regions": shown["policy"]["regions"].as_bool().unwrap_or(false),
        "state": shown["state"],
        "token": shown["token"],
        "leader": shown["leader"],
        "region": region,
        "out_of_reach": if let Node::OutOfReach(error) = node { json!(error.to_string()) } else { Value::Null },
    })
}
