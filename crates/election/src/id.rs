//! Numbers and secrets that identify: epochs, incarnations, lease keys, stores.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::{hex, text};

/// The number of a leadership, and the fencing token that its leader shows. Rises strictly, is never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The highest that there can be.
    pub const LAST: Epoch = Epoch(u64::MAX);

    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Epoch {
        assert!(self.0 < u64::MAX, "the epochs are used up");
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Epoch {
    type Err = core::num::ParseIntError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Epoch)
    }
}

/// Why a hexadecimal identifier was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidId {
    /// What it should have been.
    pub expected: &'static str,
    /// How many hexadecimal digits that takes.
    pub digits: usize,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not {}: expected {} hexadecimal digits", self.expected, self.digits)
    }
}

impl core::error::Error for InvalidId {}

macro_rules! hex_type {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $bytes]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&hex::encode(&self.0))
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                hex::decode(text).map(Self).ok_or(InvalidId { expected: $what, digits: 2 * $bytes })
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.to_string()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                hex::with_digits(&self.0, |digits| serializer.serialize_str(digits))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text::read(deserializer, $what, |text| text.parse::<Self>())
            }
        }
    };
}

hex_type!(
    /// One life of an agent: random, minted at its start.
    Incarnation,
    8,
    "an incarnation"
);
hex_type!(
    /// The secret that proves to be the holder of a lease. Only its hash stands in the document.
    LeaseKey,
    16,
    "a lease key"
);
hex_type!(
    /// What the document holds of a lease key.
    KeyHash,
    32,
    "the hash of a lease key"
);
hex_type!(
    /// Which store this is: random, minted when the store is made. A wiped and remade store has another.
    StoreId,
    8,
    "a store's id"
);
hex_type!(
    /// By what an access token is known; not a secret.
    TokenId,
    6,
    "a token's id"
);
hex_type!(
    /// SHA-256 of some content.
    ContentHash,
    32,
    "a SHA-256"
);

macro_rules! plain_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    )*};
}

plain_debug!(Incarnation, KeyHash, StoreId, TokenId, ContentHash);

impl fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseKey(…)")
    }
}

impl LeaseKey {
    /// The hash under which this key is known to the document.
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(self.0).into())
    }

    /// Whether this key has that hash; takes the same time wherever they differ.
    pub fn opens(&self, hash: &KeyHash) -> bool {
        same(&self.hash().0, &hash.0)
    }
}

impl ContentHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> ContentHash {
        ContentHash(Sha256::digest(bytes).into())
    }

    /// Whether they are the same; takes the same time wherever they differ.
    pub fn same(&self, other: &ContentHash) -> bool {
        same(&self.0, &other.0)
    }
}

/// The hash of bytes that come in parts.
#[derive(Clone, Debug, Default)]
pub struct ContentHasher(Sha256);

impl ContentHasher {
    /// Takes in the next part.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all of them.
    pub fn finish(self) -> ContentHash {
        ContentHash(self.0.finalize().into())
    }
}

/// The compiler is not to know when the outcome is certain.
fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    one.iter().zip(other).fold(0_u8, |seen, (a, b)| core::hint::black_box(seen | (a ^ b))) == 0
}

/// What a holder shows: which life of the agent it is, and the key to its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Credential {
    /// The life of the agent that was granted the lease.
    pub incarnation: Incarnation,
    /// The secret whose hash the document holds.
    pub key: LeaseKey,
}

impl fmt::Display for Credential {
    /// The form of `BATON_KEY`: `INCARNATION:KEY`. It is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.incarnation, self.key)
    }
}

impl FromStr for Credential {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (incarnation, key) =
            text.split_once(':').ok_or_else(|| "a lease credential is INCARNATION:KEY".to_string())?;
        Ok(Credential {
            incarnation: incarnation.parse().map_err(|e: InvalidId| format!("{e}"))?,
            key: key.parse().map_err(|e: InvalidId| format!("{e}"))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_opens_its_own_hash_only() {
        let key = LeaseKey([7; 16]);
        assert!(key.opens(&key.hash()));
        assert!(!LeaseKey([8; 16]).opens(&key.hash()));
    }

    #[test]
    fn a_credential_survives_its_text_and_never_shows_in_debug() {
        let credential = Credential { incarnation: Incarnation([1; 8]), key: LeaseKey([0xab; 16]) };
        assert_eq!(credential.to_string().parse(), Ok(credential));
        assert!(!format!("{credential:?}").contains("abab"));
        assert!("xyz".parse::<Credential>().is_err());
        assert!("0101010101010101:ab".parse::<Credential>().is_err());
    }

    #[test]
    fn parts_hash_to_what_the_whole_does() {
        let mut hasher = ContentHasher::default();
        hasher.update(b"one ");
        hasher.update(b"whole");
        assert_eq!(hasher.finish(), ContentHash::of(b"one whole"));
    }

    #[test]
    #[should_panic(expected = "used up")]
    fn the_last_epoch_has_no_successor() {
        let _ = Epoch(u64::MAX).next();
    }
}
