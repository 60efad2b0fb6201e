//! What the tests of the shell share.
#![allow(clippy::unwrap_used, reason = "a helper of tests")]
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod toy;
pub(crate) mod wires;

use std::time::{Duration, Instant};

use baton_election::Span;
use baton_node::{Event, Node, NodeError, NodeOptions, RunningNode, StateError, control_channel};
use baton_peer::{Config, Group, Machine, Member, NodeId, Timing};
use tempfile::TempDir;

use wires::Wires;

/// A bound on a hang.
pub(crate) const HANG: Duration = Duration::from_secs(180);

pub(crate) fn id(number: u16) -> NodeId {
    NodeId::new(number).unwrap()
}

/// A lease that a machine which stands still for a while does not cost.
pub(crate) const TIMING: Timing =
    Timing { timeout_min: Span::secs(4), timeout_max: Span::secs(6), ..Timing::LAN };

/// Of a member of a group that is being founded.
pub(crate) fn options(place: &TempDir, number: u16, of: u16) -> NodeOptions {
    let members = (1..=of).map(|number| Member::plain(id(number))).collect();
    NodeOptions {
        config: Config {
            id: id(number),
            group: Group::founded(members).unwrap(),
            timing: TIMING,
            seed: u64::from(number),
        },
        group: "test".to_string(),
        folder: place.path().join(number.to_string()),
        found: true,
        peers: Vec::new(),
        members_file: None,
        never_leads: false,
    }
}

pub(crate) fn run<M: Machine>(options: NodeOptions, wires: &Wires) -> RunningNode {
    let transport = wires.end(options.config.id);
    let (control_handle, questions) = control_channel();
    open::<M>(&options).run(Box::new(transport), control_handle, questions)
}

/// What a member was writing when it ended is written to the end, and its folder is its own until then.
fn open<M: Machine>(options: &NodeOptions) -> Node<M> {
    let begun = Instant::now();
    loop {
        match Node::open(options.clone()) {
            Err(NodeError::State(StateError::InUse(_))) if begun.elapsed() < HANG => {
                std::thread::sleep(Duration::from_millis(2));
            }
            opened => return opened.unwrap(),
        }
    }
}

/// Waits until the member tells of such a thing.
pub(crate) async fn told<T>(
    member: &mut RunningNode,
    what: &str,
    mut find: impl FnMut(Event) -> Option<T>,
) -> T {
    let told = async {
        loop {
            let event = member.events.recv().await.unwrap_or_else(|| panic!("it ended before: {what}"));
            if let Some(found) = find(event) {
                return found;
            }
        }
    };
    tokio::time::timeout(HANG, told).await.unwrap_or_else(|_| panic!("never told: {what}"))
}
