//! The names, keys and commands that the simulated agents show to the shipped decisions.

use std::sync::Arc;

use baton_election::command::{Acquire, Finding, Report};
use baton_election::{
    AgentName, Command, Credential, Document, ElectionName, Epoch, Evidence, Incarnation, LeaseKey, Policy,
    ResourceName, Span, StoreId, WallTime,
};

const STORE: StoreId = StoreId([0xba; 8]);

/// All names of one run.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) election: ElectionName,
    pub(super) resource: ResourceName,
    agents: Vec<AgentName>,
    watcher: AgentName,
}

impl Names {
    pub(super) fn new(agents: usize) -> Names {
        let agent = |name: String| AgentName::new(&name).unwrap_or_else(|_| unreachable!("{name} is lawful"));
        Names {
            election: ElectionName::new("lab").unwrap_or_else(|_| unreachable!("it is lawful")),
            resource: ResourceName::new("lab/resource").unwrap_or_else(|_| unreachable!("it is lawful")),
            agents: (0..agents).map(|place| agent(format!("agent-{}", place + 1))).collect(),
            watcher: agent("watcher".to_string()),
        }
    }

    pub(super) fn agent(&self, place: usize) -> &AgentName {
        &self.agents[place % self.agents.len()]
    }

    /// An election that nobody has led, in which the watcher's word counts.
    pub(super) fn founded(&self) -> Document {
        let mut document = Document::new(self.election.clone(), STORE, Epoch(0), &[]);
        document.policy = Arc::new(Policy { watchers: vec![self.watcher.clone()], ..Policy::default() });
        document
    }

    /// What is known when a command is decided.
    pub(super) fn evidence(&self, age: Span, wall: WallTime) -> Evidence<'_> {
        Evidence {
            election: &self.election,
            store: STORE,
            age,
            wall,
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &[],
        }
    }

    pub(super) fn acquire(&self, place: usize, credential: &Credential, ttl: Span) -> Command {
        let bid = Acquire::new(self.agent(place).clone(), credential.incarnation, credential.key.hash());
        Command::Acquire(Acquire { ttl: Some(ttl), ..bid })
    }

    /// The watcher's word that the leader of that epoch is not useful.
    pub(super) fn report(&self, epoch: Epoch) -> Command {
        Command::Report(Report {
            epoch,
            finding: Finding::Validation,
            detail: "drill".to_string(),
            by: self.watcher.clone(),
            credential: None,
            number: None,
            checkpoint: None,
            open: None,
        })
    }
}

/// The credential of one life of an agent; no two are alike.
pub(super) fn credential(place: usize, incarnation: u32) -> Credential {
    let number = ((place as u64 + 1) << 32) | u64::from(incarnation);
    let mut key = [0x5a; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    Credential { incarnation: Incarnation(number.to_be_bytes()), key: LeaseKey(key) }
}

/// The number that an incarnation was made of.
pub(super) fn number(incarnation: Incarnation) -> u64 {
    u64::from_be_bytes(incarnation.0)
}

/// The place of the agent whose life it is.
pub(super) fn place_of(incarnation: Incarnation) -> Option<u8> {
    u8::try_from((number(incarnation) >> 32).checked_sub(1)?).ok()
}
