//! Who votes, and the number of an election.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// The number by which a member of a group is known, from 1 to [`NodeId::MAX`].
///
/// The order of the numbers breaks ties: of two members that are alike otherwise the higher one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct NodeId(u16);

/// A number that is no [`NodeId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidNodeId;

impl NodeId {
    /// The highest number: Paxos packs it into its ballots.
    pub const MAX: u16 = 1_023;

    /// The member with this number.
    pub const fn new(number: u16) -> Result<NodeId, InvalidNodeId> {
        if number == 0 || number > NodeId::MAX { Err(InvalidNodeId) } else { Ok(NodeId(number)) }
    }

    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for NodeId {
    type Error = InvalidNodeId;

    fn try_from(number: u16) -> Result<NodeId, InvalidNodeId> {
        NodeId::new(number)
    }
}

impl From<NodeId> for u16 {
    fn from(node: NodeId) -> u16 {
        node.0
    }
}

impl FromStr for NodeId {
    type Err = InvalidNodeId;

    fn from_str(text: &str) -> Result<NodeId, InvalidNodeId> {
        // `parse` takes a leading plus sign, which would give one member two spellings.
        if text.starts_with('+') {
            return Err(InvalidNodeId);
        }
        text.parse().map_err(|_| InvalidNodeId).and_then(NodeId::new)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for InvalidNodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a member's id is a number from 1 to {}", NodeId::MAX)
    }
}

impl core::error::Error for InvalidNodeId {}

/// The number of an election: Raft's term, Paxos' ballot. It only rises. Zero is before the first election.
///
/// With Raft and Paxos at most one member ever leads in a term, so that the term is a fencing token. With Bully and Ring
/// it is a counter for people and for the refusal of old messages, and two may lead under the same one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Term(pub u64);

impl Term {
    /// Before the first election.
    pub const ZERO: Term = Term(0);

    /// The one after this.
    pub const fn next(self) -> Term {
        Term(self.0 + 1)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers_from_one_to_the_highest() {
        assert_eq!("7".parse::<NodeId>().map(NodeId::number), Ok(7));
        assert_eq!("1023".parse::<NodeId>().map(NodeId::number), Ok(1_023));
        for wrong in ["0", "1024", "70000", "-1", "+1", "one", ""] {
            assert_eq!(wrong.parse::<NodeId>(), Err(InvalidNodeId), "{wrong}");
        }
    }
}
