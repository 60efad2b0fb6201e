//! JWTs of one issuer, in the place of tokens (RFC 7519).
//!
//! Assumes that whoever can write the file of keys may name everybody, and that the wall clock is right to within [`verify::LEEWAY`]. Guarantees
//! that a JWT was signed by a key of the file, with one of three asymmetric algorithms, for this server, and that it has not expired; none lives
//! longer than the server was told. Does not fetch keys: an operator puts the file there, and SIGHUP has it read again. Does not know of
//! JWTs that the issuer took back: the entry that one opens is revoked, or the key is taken out of the file.

mod keys;
mod verify;

use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use baton_election::ContentHash;
use baton_election::time::WallTime;
use baton_store::boot;

use keys::Key;
pub use verify::Rules;
pub(crate) use verify::{Claims, Fault};

/// The largest file of keys.
const MAX_FILE: u64 = 256 * 1024;
/// How many JWTs are remembered that were verified. Only whoever has a valid one gets in here.
const REMEMBERED: usize = 1_024;

/// Why the file of keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{file} cannot be used: {why}", file = file.display())]
pub struct JwtError {
    /// Which file.
    pub file: PathBuf,
    /// Why not.
    pub why: String,
    /// What to do.
    pub hint: String,
}

/// The keys of an issuer, the file that they come from, and what else a JWT must say.
pub struct Jwt {
    file: PathBuf,
    rules: Rules,
    current: RwLock<Arc<Keys>>,
}

/// The keys of a file, and what was verified by them: another file begins anew.
struct Keys {
    keys: Vec<Arc<Key>>,
    verified: Mutex<HashMap<ContentHash, Arc<Claims>>>,
}

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jwt({})", self.file.display())
    }
}

impl Jwt {
    /// Reads the keys of an issuer.
    pub fn load(file: &Path, rules: Rules) -> Result<Jwt, JwtError> {
        let current = RwLock::new(Arc::new(read(file)?));
        Ok(Jwt { file: file.to_path_buf(), rules, current })
    }

    /// Reads them again. If that fails, the former ones stay in use.
    pub fn reload(&self) -> Result<(), JwtError> {
        let fresh = Arc::new(read(&self.file)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// How many keys are in use.
    pub fn count(&self) -> usize {
        self.current().keys.len()
    }

    fn current(&self) -> Arc<Keys> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a JWT says that was verified before.
    pub(crate) fn remembered(&self, hash: &ContentHash) -> Option<Arc<Claims>> {
        let claims = self.current().verified().get(hash).cloned();
        claims.filter(|claims| claims.is_in_time(boot::wall()))
    }

    /// Verifies a JWT, and remembers it.
    pub(crate) fn verify(&self, text: &str, hash: ContentHash) -> Result<Arc<Claims>, Fault> {
        let (keys, now) = (self.current(), boot::wall());
        let claims = Arc::new(verify::verify(text, &keys.keys, &self.rules, now)?);
        keys.remember(hash, &claims, now);
        Ok(claims)
    }

    /// Whether what was verified before would be now: it is in time, and its key is still in the file.
    pub(crate) fn holds(&self, claims: &Claims) -> bool {
        claims.is_in_time(boot::wall()) && self.current().keys.iter().any(|key| **key == *claims.key)
    }
}

impl Keys {
    fn verified(&self) -> MutexGuard<'_, HashMap<ContentHash, Arc<Claims>>> {
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, hash: ContentHash, claims: &Arc<Claims>, now: WallTime) {
        let mut verified = self.verified();
        if verified.len() >= REMEMBERED {
            verified.retain(|_, claims| claims.is_in_time(now));
        }
        if verified.len() >= REMEMBERED {
            // Those that are still used come again, and are verified again.
            verified.clear();
        }
        verified.insert(hash, Arc::clone(claims));
    }
}

fn read(file: &Path) -> Result<Keys, JwtError> {
    let failed = |why: String, hint: &str| JwtError { file: file.to_path_buf(), why, hint: hint.to_string() };
    let jwks = "it must be a JWKS: {\"keys\":[…]} with the issuer's public keys, as its jwks_uri serves them";
    let unreadable = |error: std::io::Error| failed(error.to_string(), jwks);
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    if opened.metadata().map_err(unreadable)?.permissions().mode() & 0o002 != 0 {
        let hint = format!("chmod o-w {}", file.display());
        return Err(failed("everybody on this machine can change it".to_string(), &hint));
    }
    let mut text = Vec::new();
    opened.take(MAX_FILE + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_FILE {
        return Err(failed(format!("it is larger than {} KiB", MAX_FILE >> 10), jwks));
    }
    let keys = keys::parse(&text).map_err(|why| failed(why, jwks))?;
    Ok(Keys { keys: keys.into_iter().map(Arc::new).collect(), verified: Mutex::default() })
}

/// Verifies whatever was sent, by the keys of a small file, and reads it as such a file.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(data: &[u8]) {
    const KEYS: &str = r#"{"keys":[
        {"kty":"EC","crv":"P-256","kid":"e","x":"axfR8uEsQkf4vOblY6RA8ncDfYEt6zOg9KE5RdiYwpY","y":"T-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU"},
        {"kty":"OKP","crv":"Ed25519","kid":"o","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    let keys: Vec<Arc<Key>> =
        keys::parse(KEYS.as_bytes()).unwrap_or_default().into_iter().map(Arc::new).collect();
    assert_eq!(keys.len(), 2, "the keys are good");
    let rules = Rules::new("issuer", "audience");
    if let Ok(text) = std::str::from_utf8(data) {
        let verified = verify::verify(text, &keys, &rules, WallTime::from_unix_millis(0));
        assert!(verified.is_err(), "nobody has the keys");
    }
    verify::read_claims(data);
    let _ = keys::parse(data);
}

#[cfg(test)]
mod tests;
