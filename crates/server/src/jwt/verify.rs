//! Whether a JWT is one, and what it says.
//!
//! Only the header is parsed before the signature is verified, and nothing in it is believed but which key to try. What is doubtful is refused: a
//! claim that stands there twice, a critical extension, an unknown algorithm, a time that is no number.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use baton_election::time::{Span, WallTime};
use baton_election::tokens::{MAX_JWT_BYTES, MAX_PROOF_BYTES};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::keys::{Algorithm, Key};

/// By how much the clocks of issuer and server may differ.
pub(super) const LEEWAY: Span = Span::secs(10);
/// The latest time that a float has to the second.
const LATEST: f64 = 9_007_199_254_740_992.0;

/// What a JWT must say.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Its `iss`.
    pub issuer: String,
    /// Its `aud`, or one of them.
    pub audience: String,
    /// The longest time between when it was issued and when it expires.
    pub longest: Span,
}

impl Rules {
    /// What a JWT must say, with an hour for the longest life.
    pub fn new(issuer: &str, audience: &str) -> Rules {
        Rules { issuer: issuer.to_string(), audience: audience.to_string(), longest: Span::secs(3_600) }
    }
}

/// Why a JWT is not believed. The words are for the log: whoever shows the JWT learns less.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("it is larger than {} KiB", MAX_JWT_BYTES >> 10)]
    TooLarge,
    #[error("it is not three parts in base64url")]
    Form,
    #[error("its header cannot be read: {0}")]
    Header(String),
    #[error("its algorithm is `{}`; ES256, EdDSA and RS256 are taken", .0.escape_debug())]
    Algorithm(String),
    #[error("its header has critical extensions")]
    Critical,
    #[error("its type is `{}`; JWT and at+jwt are taken", .0.escape_debug())]
    Type(String),
    #[error("no key for its algorithm has the id `{}`", .0.escape_debug())]
    UnknownKey(String),
    #[error("its header names no key, and the file has {0} for its algorithm")]
    NoKeyNamed(usize),
    #[error("its signature is wrong")]
    Signature,
    #[error("its claims cannot be read: {0}")]
    Claims(String),
    #[error("its claim `{0}` is missing or of the wrong kind")]
    Claim(&'static str),
    #[error("its issuer is `{}`", .0.escape_debug())]
    Issuer(String),
    #[error("it is for another audience")]
    Audience,
    #[error("it expired {0} ago")]
    Expired(Span),
    #[error("it is not valid yet")]
    Early,
    #[error("it lives for {0}, which is longer than the server takes")]
    LongLived(Span),
}

/// What a JWT says that was verified.
#[derive(Debug, PartialEq)]
pub(crate) struct Claims {
    pub(crate) subject: String,
    /// Claims that are a text, or a list of texts.
    others: BTreeMap<String, Vec<String>>,
    /// Unix time in seconds.
    expires: f64,
    /// The key that signed it.
    pub(super) key: Arc<Key>,
}

impl Claims {
    /// Whether it has this claim, with this value or with a list that has it.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.others.get(name).is_some_and(|values| values.iter().any(|one| one == value))
    }

    /// Whether it has not expired.
    pub(super) fn is_in_time(&self, now: WallTime) -> bool {
        seconds(now) < self.expires + leeway()
    }
}

/// The header of a JWT. What it does not name is not looked at.
#[derive(serde::Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<IgnoredAny>,
}

/// Verifies a JWT.
pub(super) fn verify(text: &str, keys: &[Arc<Key>], rules: &Rules, now: WallTime) -> Result<Claims, Fault> {
    if text.len() > MAX_JWT_BYTES {
        return Err(Fault::TooLarge);
    }
    let (signed, signature) = text.rsplit_once('.').ok_or(Fault::Form)?;
    let (header, claims) = signed.split_once('.').ok_or(Fault::Form)?;
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Fault::Form);
    let (header, claims, signature) = (decoded(header)?, decoded(claims)?, decoded(signature)?);
    let key = key_for(&header, keys)?;
    if !key.verifies(signed.as_bytes(), &signature) {
        return Err(Fault::Signature);
    }
    let Object(claims) = serde_json::from_slice(&claims).map_err(|error| Fault::Claims(error.to_string()))?;
    judge(&claims, key, rules, now)
}

/// Reads claims as if they had been signed.
#[cfg(feature = "fuzzing")]
pub(super) fn read_claims(text: &[u8]) {
    let _ = serde_json::from_slice::<Object>(text);
}

/// The one key that may have signed it.
fn key_for(header: &[u8], keys: &[Arc<Key>]) -> Result<Arc<Key>, Fault> {
    // An array would be taken for an object whose fields come in their order.
    if header.first() != Some(&b'{') {
        return Err(Fault::Header("it is not an object".to_string()));
    }
    let header: Header = serde_json::from_slice(header).map_err(|error| Fault::Header(error.to_string()))?;
    let Some(algorithm) = Algorithm::named(&header.alg) else { return Err(Fault::Algorithm(header.alg)) };
    if header.crit.is_some() {
        return Err(Fault::Critical);
    }
    if let Some(kind) = header.typ
        && !["jwt", "at+jwt"].contains(&kind.to_ascii_lowercase().trim_start_matches("application/"))
    {
        return Err(Fault::Type(kind));
    }
    let mut fitting = keys.iter().filter(|key| key.algorithm == algorithm);
    match header.kid {
        Some(id) => fitting.find(|key| key.id.as_ref() == Some(&id)).cloned().ok_or(Fault::UnknownKey(id)),
        None => match (fitting.next(), fitting.count()) {
            (Some(key), 0) => Ok(Arc::clone(key)),
            (first, others) => Err(Fault::NoKeyNamed(usize::from(first.is_some()) + others)),
        },
    }
}

/// Whether what it says lets it in here.
fn judge(
    claims: &BTreeMap<String, Value>,
    key: Arc<Key>,
    rules: &Rules,
    now: WallTime,
) -> Result<Claims, Fault> {
    let text = |name: &'static str| claims.get(name).and_then(Value::as_str).ok_or(Fault::Claim(name));
    let issuer = text("iss")?;
    if issuer != rules.issuer {
        return Err(Fault::Issuer(issuer.to_string()));
    }
    let audiences = claims.get("aud").and_then(texts).ok_or(Fault::Claim("aud"))?;
    if !audiences.contains(&rules.audience) {
        return Err(Fault::Audience);
    }
    let subject = text("sub")?.to_string();
    if subject.is_empty() || subject.len() > MAX_PROOF_BYTES {
        return Err(Fault::Claim("sub"));
    }
    let time =
        |name: &'static str| claims.get(name).map(|value| date(value).ok_or(Fault::Claim(name))).transpose();
    let expires = time("exp")?.ok_or(Fault::Claim("exp"))?;
    let (issued, earliest, now) = (time("iat")?, time("nbf")?, seconds(now));
    if now >= expires + leeway() {
        return Err(Fault::Expired(span(now - expires)));
    }
    if [issued, earliest].into_iter().flatten().any(|from| from > now + leeway()) {
        return Err(Fault::Early);
    }
    // One that does not say since when it lives could have begun at any time: what is left is what counts.
    let (from, room) = issued.or(earliest).map_or((now, leeway()), |from| (from, 0.0));
    if expires - from > seconds_of(rules.longest) + room {
        return Err(Fault::LongLived(span(expires - from)));
    }
    let others = claims.iter().filter_map(|(name, value)| Some((name.clone(), texts(value)?))).collect();
    Ok(Claims { subject, others, expires, key })
}

/// A text, or a list of texts.
fn texts(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(vec![text.clone()]),
        Value::Array(all) => all.iter().map(|one| one.as_str().map(str::to_string)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// A time, which may have a fraction.
fn date(value: &Value) -> Option<f64> {
    value.as_f64().filter(|date| (0.0..LATEST).contains(date))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "it is exact to the millisecond for longer than this program lives"
)]
fn seconds(time: WallTime) -> f64 {
    time.as_unix_millis() as f64 / 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "as above")]
fn seconds_of(span: Span) -> f64 {
    span.as_millis() as f64 / 1_000.0
}

fn leeway() -> f64 {
    seconds_of(LEEWAY)
}

/// A time that is shown, to the second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below 2^53")]
fn span(seconds: f64) -> Span {
    Span::secs(seconds.clamp(0.0, LATEST) as u64)
}

/// An object that has each name once.
struct Object(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object, D::Error> {
        struct Claims;

        impl<'de> Visitor<'de> for Claims {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if all.insert(name, value).is_some() {
                        return Err(A::Error::custom("a claim stands there twice"));
                    }
                }
                Ok(Object(all))
            }
        }

        deserializer.deserialize_map(Claims)
    }
}
