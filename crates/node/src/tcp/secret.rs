//! A secret that all members share: who knows it is one of them.
//!
//! Assumes that nobody else knows it and that it cannot be guessed: whoever can watch or accept a connection can try secrets
//! at leisure, so that a password is not enough. Guarantees that a proof is good for one connection, one direction, one
//! pair of members, one group and one version, and a sealed message for one place in one connection: nothing can be
//! forged, repeated, reflected, left out or moved unnoticed. Does **not** encrypt: who is elected can be read on the way. Use
//! TLS where that matters.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How long a proof or a seal is.
pub(crate) const SEAL_BYTES: usize = 32;

/// The shared secret.
#[derive(Clone)]
pub struct Secret(Hmac<Sha256>);

impl Secret {
    /// The shortest that is taken.
    pub const MIN_BYTES: usize = 16;
    /// The longest that is taken.
    pub const MAX_BYTES: usize = 4_096;

    /// The secret in this text, without white space around it; none if it is too short or too long.
    pub fn new(text: &str) -> Option<Secret> {
        let bytes = text.trim().as_bytes();
        if !(Secret::MIN_BYTES..=Secret::MAX_BYTES).contains(&bytes.len()) {
            return None;
        }
        Hmac::new_from_slice(bytes).ok().map(Secret)
    }

    /// What proves to know it, on one connection: `said` is all that both have said on it.
    pub(crate) fn proof(&self, side: Side, said: &[u8]) -> [u8; SEAL_BYTES] {
        self.mac(b"baton peer proof ", side, said).finalize().into_bytes().into()
    }

    /// Whether the other side has proved it. Takes the same time wherever a wrong proof differs.
    pub(crate) fn proves(&self, side: Side, said: &[u8], proof: &[u8]) -> bool {
        self.mac(b"baton peer proof ", side, said).verify_slice(proof).is_ok()
    }

    /// The seal of what one side says on one connection.
    pub(crate) fn sealer(&self, side: Side, said: &[u8]) -> Option<Sealer> {
        let key = self.mac(b"baton peer session ", side, said).finalize().into_bytes();
        Hmac::new_from_slice(&key).ok().map(|key| Sealer { key, next: 0 })
    }

    /// The label tells what for and which side, and has a fixed end, so that no two inputs can be taken for each other.
    fn mac(&self, label: &[u8], side: Side, said: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(label);
        mac.update(match side {
            Side::Dials => b"dials;",
            Side::Accepts => b"accepts;",
        });
        mac.update(said);
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// One of the two sides of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The side that opened the connection.
    Dials,
    /// The side that accepted it.
    Accepts,
}

/// Seals messages one after the other, or checks their seals. Each is good for one place only.
#[derive(Clone)]
pub(crate) struct Sealer {
    key: Hmac<Sha256>,
    next: u64,
}

impl Sealer {
    /// The seal of the next message.
    pub(crate) fn seal(&mut self, content: &[u8]) -> [u8; SEAL_BYTES] {
        self.mac(content).finalize().into_bytes().into()
    }

    /// Whether this is the next message. After a no, nothing more of this connection can be believed.
    pub(crate) fn opens(&mut self, content: &[u8], seal: &[u8]) -> bool {
        self.mac(content).verify_slice(seal).is_ok()
    }

    fn mac(&mut self, content: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.key.clone();
        mac.update(&self.next.to_be_bytes());
        mac.update(content);
        // 2^64 messages are not sent on one connection; were they, the seals would fail rather than repeat.
        self.next = self.next.saturating_add(1);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text).unwrap()
    }

    #[test]
    fn short_and_huge_secrets_are_refused_and_none_is_printed() {
        assert!(Secret::new("  0123456789abcde \n").is_none());
        assert!(Secret::new(&"x".repeat(5_000)).is_none());
        assert!(!format!("{:?}", secret("0123456789abcdef")).contains("0123"));
    }

    #[test]
    fn white_space_around_a_secret_does_not_count() {
        let (a, b) = (secret("0123456789abcdef\n"), secret(" 0123456789abcdef"));
        assert_eq!(a.proof(Side::Dials, b"x"), b.proof(Side::Dials, b"x"));
    }

    #[test]
    fn a_proof_is_of_one_side_one_talk_and_one_secret() {
        let ours = secret("0123456789abcdef");
        let proof = ours.proof(Side::Dials, b"said");
        assert!(ours.proves(Side::Dials, b"said", &proof));
        assert!(!ours.proves(Side::Accepts, b"said", &proof), "reflected");
        assert!(!ours.proves(Side::Dials, b"said otherwise", &proof));
        assert!(!secret("fedcba9876543210").proves(Side::Dials, b"said", &proof));
        assert!(!ours.proves(Side::Dials, b"said", &proof[..31]), "cut off");
        assert!(!ours.proves(Side::Dials, b"said", b""));
    }

    #[test]
    fn a_seal_is_of_one_place() {
        let ours = secret("0123456789abcdef");
        let (mut sender, mut receiver) =
            (ours.sealer(Side::Dials, b"t").unwrap(), ours.sealer(Side::Dials, b"t").unwrap());
        let (first, second) = (sender.seal(b"one"), sender.seal(b"two"));
        assert!(receiver.clone().opens(b"one", &first));
        assert!(!receiver.clone().opens(b"two", &second), "out of turn");
        assert!(!receiver.clone().opens(b"won", &first), "changed");
        assert!(receiver.opens(b"one", &first));
        assert!(!receiver.clone().opens(b"one", &first), "repeated");
        assert!(receiver.opens(b"two", &second));
        let mut other = ours.sealer(Side::Accepts, b"t").unwrap();
        assert!(!other.opens(b"one", &first), "of the other direction");
        let mut elsewhere = ours.sealer(Side::Dials, b"u").unwrap();
        assert!(!elsewhere.opens(b"one", &first), "of another connection");
    }
}
