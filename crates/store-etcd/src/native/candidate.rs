//! A candidate of etcd's recipe: a key named after its lease, with the candidate's own words as value.

use baton_api::elections::QueuedCandidate;
use baton_election::{AgentName, ContentHash, Credential, Epoch, Incarnation};

use crate::wire::mvccpb::KeyValue;

/// What distinguishes this use of a credential from any other.
const PURPOSE: &str = "baton: lease in etcd";

/// What a candidate's key says of it.
pub(super) fn leader(found: &KeyValue) -> QueuedCandidate {
    let said = String::from_utf8_lossy(&found.value).into_owned();
    QueuedCandidate {
        agent: agent(&said, &found.value),
        said,
        incarnation: incarnation(found.lease),
        epoch: epoch(found.create_revision),
        ttl: None,
        left: None,
        key: String::from_utf8_lossy(&found.key).into_owned(),
    }
}

/// The id of the lease that a credential has in an election: the same for every process that holds it.
///
/// It is not a secret: whoever reads etcd sees it. It does not tell the credential either.
pub(super) fn lease_of(election: &str, credential: &Credential) -> i64 {
    let mut text = format!("{PURPOSE}\0{election}\0").into_bytes();
    text.extend_from_slice(&credential.incarnation.0);
    text.extend_from_slice(&credential.key.0);
    let hash = ContentHash::of(&text).0;
    let number = hash.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    // etcd's own ids are positive, and zero lets etcd choose.
    i64::try_from(number >> 1).unwrap_or(i64::MAX).max(1)
}

/// The key of a candidate.
pub(super) fn key(election: &str, lease: i64) -> String {
    format!("{election}/{lease:x}")
}

/// Whether a key is what etcd's recipe makes: bound to the lease that it is named after.
pub(crate) fn is_one(found: &KeyValue) -> bool {
    let name = found.key.rsplit(|byte| *byte == b'/').next();
    found.lease != 0 && name == Some(format!("{:x}", found.lease).as_bytes())
}

/// What tells the candidacy of a lease from others.
pub(super) fn incarnation(lease: i64) -> Incarnation {
    Incarnation(lease.to_be_bytes())
}

pub(super) fn epoch(revision: i64) -> Epoch {
    Epoch(u64::try_from(revision).unwrap_or(0))
}

fn agent(said: &str, bytes: &[u8]) -> AgentName {
    let hash = ContentHash::of(bytes).to_string();
    match AgentName::new(said).or_else(|_| AgentName::new(&format!("foreign-{}", &hash[..16]))) {
        Ok(agent) => agent,
        Err(error) => unreachable!("hexadecimal digits make a name: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use baton_election::LeaseKey;

    use super::*;

    fn credential(incarnation: u8, key: u8) -> Credential {
        Credential { incarnation: Incarnation([incarnation; 8]), key: LeaseKey([key; 16]) }
    }

    #[test]
    fn a_lease_is_known_by_its_credential_and_election() {
        let one = lease_of("p/e", &credential(1, 2));
        assert_eq!(one, lease_of("p/e", &credential(1, 2)));
        assert!(one > 0);
        for other in [
            lease_of("p/f", &credential(1, 2)),
            lease_of("p/e", &credential(2, 2)),
            lease_of("p/e", &credential(1, 3)),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn only_what_is_named_after_its_lease_is_a_candidate() {
        let found =
            |key: &str, lease| KeyValue { key: key.as_bytes().to_vec(), lease, ..KeyValue::default() };
        assert!(is_one(&found("e/32695b1", 0x0326_95b1)));
        for (key, lease) in [("e/32695b1", 0), ("e/32695b1", 7), ("e/abc", 0), ("e/x32695b1", 0x0326_95b1)] {
            assert!(!is_one(&found(key, lease)), "{key}");
        }
    }

    #[test]
    fn whatever_a_leader_says_it_has_a_name() {
        let found = |value: &[u8]| leader(&KeyValue { value: value.to_vec(), ..KeyValue::default() });
        assert_eq!(found(b"agent-a").agent.as_str(), "agent-a");
        let foreign = found(b"Host 1:80");
        assert!(foreign.agent.as_str().starts_with("foreign-"), "{foreign:?}");
        assert_eq!(foreign.said, "Host 1:80");
        assert_ne!(foreign.agent, found(b"Host 2:80").agent);
        assert_ne!(found(&[0xff]).agent, found(&[0xfe]).agent);
    }
}
