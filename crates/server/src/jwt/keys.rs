//! The keys of an issuer: a JWKS (RFC 7517), of which those are used that verify signatures by one of three algorithms.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// The most keys of a file.
const MAX_KEYS: usize = 64;
/// The longest id of a key.
const MAX_ID_BYTES: usize = 256;
/// How much of an id is shown.
const MAX_SHOWN: usize = 64;
/// The largest RSA key, in bits: to verify by a larger one takes too long.
const MAX_RSA_BITS: usize = 4_096;
/// The smallest.
const MIN_RSA_BITS: usize = 2_048;

/// How a JWT is signed. There is nothing else: neither `none`, nor what a public key could be the secret of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Es256,
    EdDsa,
    Rs256,
}

impl Algorithm {
    pub(super) fn named(name: &str) -> Option<Algorithm> {
        match name {
            "ES256" => Some(Algorithm::Es256),
            "EdDSA" | "Ed25519" => Some(Algorithm::EdDsa),
            "RS256" => Some(Algorithm::Rs256),
            _ => None,
        }
    }
}

/// A public key.
pub(super) struct Key {
    pub(super) id: Option<String>,
    pub(super) algorithm: Algorithm,
    /// As it stands in the file.
    parts: Vec<Vec<u8>>,
    parsed: ParsedPublicKey,
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        (&self.id, self.algorithm, &self.parts) == (&other.id, other.algorithm, &other.parts)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({:?}, {:?})", self.id, self.algorithm)
    }
}

impl Key {
    /// Whether it signed this.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.parsed.verify_sig(message, signature).is_ok()
    }
}

#[derive(Deserialize)]
struct File {
    keys: Vec<Box<RawValue>>,
}

/// One key of a file. What it does not name is not looked at.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    /// The secret part of a key.
    d: Option<IgnoredAny>,
}

/// The keys of a file that can be used; at least one.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Key>, String> {
    let File { keys: written } = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    if written.len() > MAX_KEYS {
        return Err(format!("it has more than {MAX_KEYS} keys"));
    }
    let mut keys: Vec<Key> = Vec::new();
    for (number, written) in (1..).zip(&written) {
        let nameless = |error: serde_json::Error| format!("key {number}: {error}");
        let jwk: Jwk = serde_json::from_str(written.get()).map_err(nameless)?;
        let id = jwk.kid.as_ref().map(|id| id.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect());
        let failed = |why: String| match &id {
            Some::<String>(id) => format!("key {number} (kid `{id}`): {why}"),
            None => format!("key {number}: {why}"),
        };
        let Some(key) = key(jwk).map_err(failed)? else { continue };
        let is_twice = |other: &Key| other.id == key.id && other.algorithm == key.algorithm;
        if key.id.is_some() && keys.iter().any(is_twice) {
            return Err(failed("another key has the same id".to_string()));
        }
        keys.push(key);
    }
    match keys.is_empty() {
        true => Err("it has no key for ES256, EdDSA or RS256".to_string()),
        false => Ok(keys),
    }
}

/// The key that an entry is; none if it is for something else.
fn key(jwk: Jwk) -> Result<Option<Key>, String> {
    if jwk.d.is_some() {
        return Err("it has the private half; only the public one belongs into this file".to_string());
    }
    if jwk.kty == "oct" {
        return Err("it is a shared secret, by which everybody who verifies could sign".to_string());
    }
    if jwk.kid.as_ref().is_some_and(|id| id.len() > MAX_ID_BYTES) {
        return Err(format!("its id is longer than {MAX_ID_BYTES} bytes"));
    }
    let signs = jwk.r#use.as_deref().is_none_or(|purpose| purpose == "sig")
        && jwk.key_ops.as_ref().is_none_or(|acts| acts.iter().any(|act| act == "verify"));
    if let (Some(wanted), curve) = (jwk.alg.as_deref().and_then(curve_of), jwk.crv.as_deref())
        && curve != Some(wanted)
    {
        let shown = curve.map_or("none".to_string(), |curve| curve.escape_debug().to_string());
        return Err(format!("its `alg` takes the curve {wanted}, and its `crv` is {shown}"));
    }
    let algorithm = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("EC", Some("P-256")) => Algorithm::Es256,
        ("OKP", Some("Ed25519")) => Algorithm::EdDsa,
        ("RSA", _) => Algorithm::Rs256,
        (_, _) => return Ok(None),
    };
    // One that says that it is for another algorithm is for another algorithm; see `curve_of` for one that contradicts itself.
    let agrees = jwk.alg.as_deref().is_none_or(|name| Algorithm::named(name) == Some(algorithm));
    if !signs || !agrees {
        return Ok(None);
    }
    let part = |name: &str, text: &Option<String>| {
        let text = text.as_ref().ok_or_else(|| format!("it has no `{name}`"))?;
        URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("its `{name}` is not base64url"))
    };
    let (parts, parsed) = match algorithm {
        Algorithm::Es256 => {
            let parts = vec![sized("x", part("x", &jwk.x)?, 32)?, sized("y", part("y", &jwk.y)?, 32)?];
            let point = [&[4], &parts[0][..], &parts[1][..]].concat();
            let parsed = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
            (parts, parsed.map_err(|_| "it is no point of P-256".to_string())?)
        }
        Algorithm::EdDsa => {
            let x = sized("x", part("x", &jwk.x)?, 32)?;
            let parsed = ParsedPublicKey::new(&ED25519, &x);
            (vec![x], parsed.map_err(|_| "it is no key of Ed25519".to_string())?)
        }
        Algorithm::Rs256 => {
            let (n, e) = (part("n", &jwk.n)?, part("e", &jwk.e)?);
            check_rsa(&n, &e)?;
            let components = RsaPublicKeyComponents { n: n.as_slice(), e: e.as_slice() };
            let parsed = components.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256);
            let parsed = parsed.map_err(|_| "it is no RSA key".to_string())?;
            (vec![n, e], parsed)
        }
    };
    Ok(Some(Key { id: jwk.kid, algorithm, parts, parsed }))
}

/// The curve that an algorithm of ours takes.
fn curve_of(algorithm: &str) -> Option<&'static str> {
    match Algorithm::named(algorithm)? {
        Algorithm::Es256 => Some("P-256"),
        Algorithm::EdDsa => Some("Ed25519"),
        Algorithm::Rs256 => None,
    }
}

/// Refuses an RSA key by which others could sign, or which takes too long to verify by.
fn check_rsa(n: &[u8], e: &[u8]) -> Result<(), String> {
    let length = bits(n);
    if !(MIN_RSA_BITS..=MAX_RSA_BITS).contains(&length) {
        return Err(format!(
            "it has {length} bits; an RSA key has between {MIN_RSA_BITS} and {MAX_RSA_BITS}"
        ));
    }
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    if !is_odd(n) {
        return Err("its `n` is even, so everybody knows a factor of it".to_string());
    }
    // With the exponent 1 everybody could sign. More than 33 bits are slow, and aws-lc takes no more.
    if !(2..=33).contains(&bits(e)) || !is_odd(e) {
        return Err("its exponent `e` is an odd number from 3 to 2^33; 65537 is usual".to_string());
    }
    Ok(())
}

/// The length of a number without leading zeros.
fn bits(number: &[u8]) -> usize {
    let digits = &number[number.iter().take_while(|byte| **byte == 0).count()..];
    let unused = digits.first().map_or(0, |first| first.leading_zeros() as usize);
    8 * digits.len() - unused
}

fn sized(name: &str, bytes: Vec<u8>, length: usize) -> Result<Vec<u8>, String> {
    match bytes.len() == length {
        true => Ok(bytes),
        false => Err(format!("its `{name}` has {} bytes, not {length}", bytes.len())),
    }
}
