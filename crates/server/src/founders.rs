//! Who may become the first operator of a store through a server.
//!
//! Whoever can write a folder could add an operator anyway; whoever can only reach a server could not. So a server believes nobody on its own
//! word: the first operator has a key that was named when the server was started, or shows a code that only the person who started it can
//! read. Guarantees that a code is used once, and that no more than [`TRIES`] are tried in one run. Does not keep a local user from using those up: then
//! the server must be started again, or with a key.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use baton_election::ContentHash;
use baton_election::operator::PublicKey;

/// How many wrong codes are tried before the right one is void.
const TRIES: u32 = 100;

/// Who may found the operators of a store: by default nobody.
#[derive(Default)]
pub struct Founders {
    keys: Vec<PublicKey>,
    code: Mutex<Option<Code>>,
    founded: Option<Box<dyn Fn() + Send + Sync>>,
}

/// A code, as far as it is known here.
struct Code {
    hash: ContentHash,
    tries: u32,
}

impl fmt::Debug for Founders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Founders").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Founders {
    /// Those who have one of these keys.
    pub fn with_keys(keys: Vec<PublicKey>) -> Founders {
        Founders { keys, ..Founders::default() }
    }

    /// Also whoever shows this code first. `founded` is called once there is an operator.
    pub fn or_by_code(self, code: &str, founded: impl Fn() + Send + Sync + 'static) -> Founders {
        let hash = ContentHash::of(code.as_bytes());
        Founders { code: Mutex::new(Some(Code { hash, tries: 0 })), founded: Some(Box::new(founded)), ..self }
    }

    /// Whether this key may be the first operator's. If not, why.
    pub(crate) fn admit(&self, key: &PublicKey, shown: Option<&str>) -> Result<(), &'static str> {
        if self.keys.contains(key) {
            return Ok(());
        }
        let mut code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(right), Some(shown)) = (code.as_mut(), shown) else {
            return Err(match (code.is_some(), shown) {
                (true, None) => "the first operator must show the code that the server printed at its start",
                (_, _) => "this server takes no first operator by a code",
            });
        };
        if right.hash.same(&ContentHash::of(shown.as_bytes())) {
            return Ok(());
        }
        right.tries += 1;
        if right.tries >= TRIES {
            *code = None;
        }
        Err("this is not the code that the server printed at its start")
    }

    /// There is an operator: the code is void.
    pub(crate) fn founded(&self) {
        let used = self.code.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(_), Some(founded)) = (used, &self.founded) {
            founded();
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_election::operator::OperatorKey;

    use super::*;

    fn key(seed: u8) -> PublicKey {
        OperatorKey::from_seed([seed; 32]).public()
    }

    #[test]
    fn nobody_is_believed_on_its_own_word() {
        let nobody = Founders::default();
        assert!(nobody.admit(&key(1), None).is_err() && nobody.admit(&key(1), Some("")).is_err());
        let founders = Founders::with_keys(vec![key(1)]);
        assert!(founders.admit(&key(1), None).is_ok() && founders.admit(&key(2), None).is_err());
    }

    #[test]
    fn a_code_is_good_until_there_is_an_operator() {
        let founders = Founders::default().or_by_code("right", || {});
        assert!(founders.admit(&key(1), None).is_err() && founders.admit(&key(1), Some("wrong")).is_err());
        assert!(founders.admit(&key(1), Some("right")).is_ok());
        founders.founded();
        assert!(founders.admit(&key(2), Some("right")).is_err(), "a code that was used is void");
    }

    #[test]
    fn a_code_cannot_be_guessed_at_without_end() {
        let founders = Founders::default().or_by_code("right", || {});
        for _ in 0..TRIES {
            assert!(founders.admit(&key(1), Some("wrong")).is_err());
        }
        assert!(founders.admit(&key(1), Some("right")).is_err());
    }
}
