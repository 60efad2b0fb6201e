//! The algorithms by name, and what is true of each: the one list that the command line, the laboratory and the model share.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use crate::Machine;
use crate::bully::Bully;
use crate::paxos::Paxos;
use crate::raft::Raft;
use crate::ring::Ring;

/// How the members of a group elect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Terms and votes.
    Raft,
    /// Ballots and promises.
    Paxos,
    /// The highest id that answers.
    Bully,
    /// A list that goes round.
    Ring,
}

/// Something that can be done with the machine of any algorithm.
pub trait MachineVisitor {
    /// What it gives.
    type Output;

    /// Does it with this machine.
    fn visit<M: Machine>(self) -> Self::Output;
}

impl Algorithm {
    /// In the order in which people are offered them.
    pub const ALL: [Algorithm; 4] = [Algorithm::Raft, Algorithm::Paxos, Algorithm::Bully, Algorithm::Ring];

    /// The name that people write on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Raft => Raft::NAME,
            Algorithm::Paxos => Paxos::NAME,
            Algorithm::Bully => Bully::NAME,
            Algorithm::Ring => Ring::NAME,
        }
    }

    /// The name in titles and legends.
    pub const fn title(self) -> &'static str {
        match self {
            Algorithm::Raft => "Raft",
            Algorithm::Paxos => "Paxos",
            Algorithm::Bully => "Bully",
            Algorithm::Ring => "Ring",
        }
    }

    /// Whether its terms are fencing tokens: never two leaders at once, since a majority must agree to each. Members without a
    /// majority elect nobody.
    pub const fn terms_are_tokens(self) -> bool {
        match self {
            Algorithm::Raft => Raft::TERMS_ARE_TOKENS,
            Algorithm::Paxos => Paxos::TERMS_ARE_TOKENS,
            Algorithm::Bully => Bully::TERMS_ARE_TOKENS,
            Algorithm::Ring => Ring::TERMS_ARE_TOKENS,
        }
    }

    /// Does something with its machine.
    pub fn visit<V: MachineVisitor>(self, visitor: V) -> V::Output {
        match self {
            Algorithm::Raft => visitor.visit::<Raft>(),
            Algorithm::Paxos => visitor.visit::<Paxos>(),
            Algorithm::Bully => visitor.visit::<Bully>(),
            Algorithm::Ring => visitor.visit::<Ring>(),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Algorithm, String> {
        let named = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text);
        named.ok_or_else(|| {
            format!(
                "`{text}` is not an algorithm; there are {}",
                Algorithm::ALL.map(Algorithm::name).join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Facts;

    impl MachineVisitor for Facts {
        type Output = (&'static str, bool);

        fn visit<M: Machine>(self) -> (&'static str, bool) {
            (M::NAME, M::TERMS_ARE_TOKENS)
        }
    }

    #[test]
    fn each_name_leads_to_its_own_machine() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
            assert_eq!(algorithm.visit(Facts), (algorithm.name(), algorithm.terms_are_tokens()));
        }
        assert!("Raft".parse::<Algorithm>().is_err_and(|error| error.contains("raft, paxos, bully, ring")));
    }
}
