//! The cast of every test: one election of one store, agents whose lives and keys follow from their names, and operators.

pub(crate) mod persistence;

use baton_election::operator::OperatorKey;
use baton_election::{
    AgentName, ContentHash, Credential, Document, ElectionName, Epoch, Incarnation, LeaseKey, StoreId,
};

/// The store that everything happens in.
pub(crate) const STORE: StoreId = StoreId([0x5e; 8]);

/// The wall clock when a test begins. It decides nothing.
pub(crate) const DAWN_MS: u64 = 1_767_225_600_000;

/// The election that everything is about.
pub(crate) fn election() -> ElectionName {
    ElectionName::new("deploy").expect("a plain name")
}

/// An agent's name.
pub(crate) fn agent(name: &str) -> AgentName {
    AgentName::new(name).expect("a plain name")
}

/// One life of an agent, and the key that it minted for its lease.
pub(crate) fn credential(name: &str, life: u32) -> Credential {
    let digest = ContentHash::of(format!("{name} {life}").as_bytes()).0;
    let mut incarnation = [0; 8];
    let mut key = [0; 16];
    incarnation.copy_from_slice(&digest[..8]);
    key.copy_from_slice(&digest[8..24]);
    Credential { incarnation: Incarnation(incarnation), key: LeaseKey(key) }
}

/// An operator's secret key.
pub(crate) fn operator(name: &str) -> OperatorKey {
    OperatorKey::from_seed(ContentHash::of(name.as_bytes()).0)
}

/// What an operator sees, and signs for, while there is no document.
pub(crate) fn unwritten(floor: Epoch) -> Document {
    Document::new(election(), STORE, floor, &[operator("root").public()])
}
