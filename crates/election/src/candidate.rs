//! Candidates that a policy must compare. Each enlists in a record of its own, which lapses like a lease.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use crate::command::MAX_CAPABILITIES;
use crate::document::Pulse;
use crate::id::{Credential, Epoch, Incarnation, KeyHash, TokenId};
use crate::name::{AgentName, ElectionName};
use crate::policy::{check_capability, check_ttl};
use crate::refusal::Refusal;
use crate::time::{Span, WallTime, as_millis};

/// One candidate of one election.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Candidate {
    /// The election that it stands for.
    pub election: ElectionName,
    /// Its name.
    pub agent: AgentName,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// The hash of its key; only it may change this record while it lasts.
    pub key_hash: KeyHash,
    /// Higher is preferred by the policy `priority`.
    pub priority: i64,
    /// What it can do, for the policy `capable`.
    #[cfg_attr(feature = "schema", schemars(with = "alloc::vec::Vec<crate::schema::Capability>", length(max = MAX_CAPABILITIES)))]
    pub capabilities: BTreeSet<String>,
    /// How well it can do it, for the policy `capable`; higher is better.
    pub score: i64,
    /// How much it has to do, for the policy `available`; lower is better.
    pub load: u64,
    /// How long this record counts after its last beat.
    #[serde(rename = "ttl_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub ttl: Span,
    /// Counts its beats.
    pub beat: u64,
    /// It no longer stands.
    pub withdrawn: bool,
    /// When it enlisted, for people.
    pub enlisted: WallTime,
    /// The access token that it showed to the server which keeps this record; nobody else can say it.
    #[serde(skip)]
    pub through: Option<TokenId>,
}

impl Candidate {
    /// Whether it stands, given the age of its last beat.
    pub fn stands(&self, age: Span) -> bool {
        !self.withdrawn && age < self.ttl
    }

    /// What the record's clock is told by.
    pub fn pulse(&self) -> Pulse {
        Pulse { holder: Some(self.incarnation), epoch: Epoch(0), beat: self.beat }
    }
}

/// Enlists, or goes on standing. `age` is that of the record found, if any.
pub fn enlist(found: Option<(&Candidate, Span)>, wanted: &Candidate) -> Result<Candidate, Refusal> {
    check_ttl(wanted.ttl)?;
    if wanted.capabilities.len() > MAX_CAPABILITIES {
        return Err(Refusal::invalid(
            format!("an agent claims at most {MAX_CAPABILITIES} capabilities"),
            "name the ones that matter",
        ));
    }
    wanted.capabilities.iter().try_for_each(|capability| check_capability(capability))?;
    let mut next = Candidate { withdrawn: false, ..wanted.clone() };
    match found {
        Some((other, age)) if other.incarnation != wanted.incarnation && other.stands(age) => {
            Err(Refusal::Held {
                by: Some(other.agent.clone()),
                epoch: Epoch(0),
                remaining: other.ttl.minus(age),
                ending: None,
            })
        }
        Some((mine, _)) if mine.incarnation == wanted.incarnation && mine.key_hash != wanted.key_hash => {
            Err(Refusal::WrongKey { why: "the key does not fit this candidate's record".to_string() })
        }
        Some((former, _)) => {
            next.beat = former.beat + 1;
            if former.incarnation == wanted.incarnation {
                next.enlisted = former.enlisted;
            }
            Ok(next)
        }
        None => Ok(next),
    }
}

/// Stands no longer. None if it did not stand.
pub fn withdraw(found: Option<&Candidate>, credential: &Credential) -> Result<Option<Candidate>, Refusal> {
    match found {
        None => Ok(None),
        Some(candidate) if candidate.withdrawn => Ok(None),
        Some(candidate) if candidate.incarnation != credential.incarnation => Ok(None),
        Some(candidate) if !credential.key.opens(&candidate.key_hash) => {
            Err(Refusal::WrongKey { why: "the key does not fit this candidate's record".to_string() })
        }
        Some(candidate) => {
            Ok(Some(Candidate { withdrawn: true, beat: candidate.beat + 1, ..candidate.clone() }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::LeaseKey;

    fn candidate(life: u8) -> Candidate {
        Candidate {
            election: ElectionName::new("e").unwrap(),
            agent: AgentName::new("a").unwrap(),
            incarnation: Incarnation([life; 8]),
            key_hash: LeaseKey([life; 16]).hash(),
            priority: 0,
            capabilities: BTreeSet::new(),
            score: 0,
            load: 0,
            ttl: Span::secs(10),
            beat: 0,
            withdrawn: false,
            enlisted: WallTime::default(),
            through: None,
        }
    }

    #[test]
    fn another_life_waits_until_the_record_has_lapsed() {
        let (mine, other) = (candidate(1), candidate(2));
        assert!(matches!(enlist(Some((&mine, Span::secs(9))), &other), Err(Refusal::Held { .. })));
        let taken = enlist(Some((&mine, Span::secs(10))), &other).unwrap();
        assert_eq!((taken.incarnation, taken.beat), (other.incarnation, 1));
    }

    #[test]
    fn only_its_own_key_withdraws_it() {
        let mine = candidate(1);
        let forged = Credential { incarnation: mine.incarnation, key: LeaseKey([9; 16]) };
        assert!(matches!(withdraw(Some(&mine), &forged), Err(Refusal::WrongKey { .. })));
        let own = Credential { incarnation: mine.incarnation, key: LeaseKey([1; 16]) };
        let gone = withdraw(Some(&mine), &own).unwrap().unwrap();
        assert!(!gone.stands(Span::ZERO));
        assert_eq!(withdraw(Some(&gone), &own), Ok(None), "a second time changes nothing");
    }
}
