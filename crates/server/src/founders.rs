//! Decides whether a key may become the first operator's key of a store, through a server.
//!
//! A person who can write the store's folder could add an operator anyway; a client that can only reach a
//! server could not. So a server believes nobody on its own word: the first operator has a key that was named
//! when the server was started, or shows a code that only the person who started it can read. Guarantees that
//! a code is used once. Wrong codes void nothing, so that nobody keeps the right person out by guessing: a
//! code has 128 random bits, and at a server's route commands are counted, so that guessing is hopeless.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use baton_election::ContentHash;
use baton_election::operator::PublicKey;

/// The keys and the code that make a first operator of a store: by default none.
#[derive(Default)]
pub struct Founders {
    keys: Vec<PublicKey>,
    /// The hash of the code; none if there is none, or it is void.
    code: Mutex<Option<ContentHash>>,
    founded: Option<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Founders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Founders").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Founders {
    /// Admits the holders of these keys.
    pub fn with_keys(keys: Vec<PublicKey>) -> Founders {
        Founders { keys, ..Founders::default() }
    }

    /// Also admits the first operator that shows this code; it must be too long to be guessed. `founded` is
    /// called once there is an operator.
    pub fn or_by_code(self, code: &str, founded: impl Fn() + Send + Sync + 'static) -> Founders {
        let hash = ContentHash::of(code.as_bytes());
        Founders { code: Mutex::new(Some(hash)), founded: Some(Box::new(founded)), ..self }
    }

    /// Whether this key may be the first operator's. If not, why.
    pub(crate) fn admit(&self, key: &PublicKey, shown: Option<&str>) -> Result<(), &'static str> {
        if self.keys.contains(key) {
            return Ok(());
        }
        let code = self.code.lock().unwrap_or_else(PoisonError::into_inner);
        match (code.as_ref(), shown) {
            (Some(right), Some(shown)) if right.same(&ContentHash::of(shown.as_bytes())) => Ok(()),
            (Some(_), Some(_)) => Err("this is not the code that the server printed at its start"),
            (Some(_), None) => {
                Err("the first operator must show the code that the server printed at its start")
            }
            (None, _) => Err("this server takes no first operator by a code"),
        }
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
    fn wrong_codes_do_not_void_the_right_one() {
        let founders = Founders::default().or_by_code("right", || {});
        for number in 0..10_000 {
            assert!(founders.admit(&key(1), Some(&format!("wrong-{number}"))).is_err());
        }
        assert!(founders.admit(&key(1), Some("right")).is_ok());
    }
}
