//! The proof that opens an entry of the token list: a secret, a name in a client certificate, or claims of a JWT.
//!
//! Assumes that the server has verified a certificate or a JWT before it asks which entry it opens. Guarantees that a name opens an entry
//! only if the operator wrote that name, or a prefix of it that ends at a separator. Does not know authorities, issuers or keys.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::ContentHash;
use crate::refusal::Refusal;

/// The longest name in a certificate, subject, or value of a claim. A SPIFFE id may have 2,048 bytes; nobody writes one that long.
pub const MAX_PROOF_BYTES: usize = 256;
/// The most claims of one entry, beside the subject.
pub const MAX_CLAIMS: usize = 8;
/// The longest name of a claim.
const MAX_CLAIM_NAME_BYTES: usize = 64;
/// Claims that the server itself judges.
const JUDGED: [&str; 6] = ["iss", "sub", "aud", "exp", "nbf", "iat"];

/// The proof that opens an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Proof {
    /// A secret.
    Secret {
        /// SHA-256 of the token. None where the entry is shown to others: such an entry opens nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hash: Option<ContentHash>,
    },
    /// A client certificate.
    Certificate {
        /// The name that the certificate has.
        name: CertificateName,
    },
    /// A JWT of the issuer that the server believes.
    Jwt {
        /// The subject that the JWT has.
        subject: Subject,
        /// Further claims that the JWT has, with their values.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        claims: BTreeMap<String, String>,
    },
}

impl Proof {
    /// The same, to be shown: without a hash.
    #[must_use]
    pub fn shown(&self) -> Proof {
        match self {
            Proof::Secret { hash: _ } => Proof::Secret { hash: None },
            Proof::Certificate { .. } | Proof::Jwt { .. } => self.clone(),
        }
    }

    /// How closely it describes a certificate with this name; none if it does not.
    pub fn fits_certificate(&self, name: &str) -> Option<Closeness> {
        match self {
            Proof::Certificate { name: wanted } => wanted.fits(name),
            Proof::Secret { .. } | Proof::Jwt { .. } => None,
        }
    }

    /// How closely it describes a JWT with this subject; `has` says whether the JWT has a claim with a value. None if it does not.
    pub fn fits_jwt(&self, subject: &str, has: impl Fn(&str, &str) -> bool) -> Option<Closeness> {
        match self {
            Proof::Jwt { subject: wanted, claims } => {
                let closeness = wanted.fits(subject)?;
                let all = claims.iter().all(|(name, value)| has(name, value));
                all.then_some(Closeness { claims: claims.len(), ..closeness })
            }
            Proof::Secret { .. } | Proof::Certificate { .. } => None,
        }
    }

    pub(super) fn text_bytes(&self) -> usize {
        match self {
            Proof::Secret { .. } => 0,
            Proof::Certificate { name } => name.0.len(),
            Proof::Jwt { subject, claims } => {
                subject.0.len() + claims.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Refusal> {
        match self {
            Proof::Secret { hash: None } => {
                Err(Refusal::invalid("the token has no hash", "make it with `baton token create`"))
            }
            Proof::Secret { hash: Some(_) } | Proof::Certificate { .. } => Ok(()),
            Proof::Jwt { claims, .. } if claims.len() > MAX_CLAIMS => Err(Refusal::invalid(
                format!("an entry names at most {MAX_CLAIMS} claims"),
                "name those that tell its bearers apart",
            )),
            Proof::Jwt { claims, .. } => {
                claims.iter().try_for_each(|(name, value)| check_claim(name, value)).map_err(|why| {
                    Refusal::invalid(why, "write --claim NAME=VALUE, such as repository=acme/app")
                })
            }
        }
    }
}

/// What opens it, for people.
impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proof::Secret { .. } => f.pad("secret"),
            Proof::Certificate { name } => write!(f, "certificate {name}"),
            Proof::Jwt { subject, claims } => {
                write!(f, "JWT {subject}")?;
                claims.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
            }
        }
    }
}

/// Whether an entry may name this claim.
pub fn check_claim(name: &str, value: &str) -> Result<(), String> {
    let fits = |text: &str, most: usize| (1..=most).contains(&text.len()) && text.chars().all(is_printable);
    if !fits(name, MAX_CLAIM_NAME_BYTES) || !fits(value, MAX_PROOF_BYTES) {
        return Err(format!(
            "a claim has a name of at most {MAX_CLAIM_NAME_BYTES} and a value of at most {MAX_PROOF_BYTES} printable ASCII characters"
        ));
    }
    match JUDGED.contains(&name) {
        true => Err(format!("the claim `{name}` is judged by the server itself")),
        false => Ok(()),
    }
}

fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~')
}

/// How closely an entry describes a name: an exact entry most closely, then the one with the longest prefix, then the one with the most claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Closeness {
    exact: bool,
    length: usize,
    claims: usize,
}

/// How closely a text, which may end in `*`, describes a name.
fn closeness(wanted: &str, name: &str, may_follow: impl Fn(&str) -> bool) -> Option<Closeness> {
    let (prefix, exact) = wanted.strip_suffix('*').map_or((wanted, true), |prefix| (prefix, false));
    let fits = match exact {
        true => name == prefix,
        false => name.strip_prefix(prefix).is_some_and(may_follow),
    };
    fits.then_some(Closeness { exact, length: prefix.len(), claims: 0 })
}

/// Whether a text has at most one `*`: its last character, after one of these.
fn star_fits(text: &str, after: &[char]) -> bool {
    match text.split_once('*') {
        None => true,
        Some((prefix, rest)) => rest.is_empty() && prefix.ends_with(after),
    }
}

/// A DNS name, or a URI such as a SPIFFE id, among the subject alternative names of a certificate. A URI has a colon and a DNS name has none,
/// so that neither is taken for the other. A URI may end in `/*`, below its authority: any path below that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CertificateName(String);

impl CertificateName {
    /// How closely it describes this name of a certificate.
    fn fits(&self, name: &str) -> Option<Closeness> {
        closeness(&self.0, name, is_plain_path)
    }
}

/// Whether nothing in a path could mean another path: segments as SPIFFE has them.
fn is_plain_path(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    path.split('/').all(|segment| !matches!(segment, "" | "." | "..") && segment.chars().all(is_plain))
}

impl FromStr for CertificateName {
    type Err = String;
    fn from_str(text: &str) -> Result<CertificateName, String> {
        if text.is_empty() || text.len() > MAX_PROOF_BYTES {
            return Err(format!("a name in a certificate has between 1 and {MAX_PROOF_BYTES} bytes"));
        }
        let dns = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let fits = match text.split_once(':') {
            None => text.chars().all(dns),
            Some((scheme, rest)) => {
                let below =
                    || rest.strip_prefix("//").is_some_and(|rest| rest.trim_start_matches('/').contains('/'));
                !scheme.is_empty()
                    && text.chars().all(|c| c.is_ascii_graphic())
                    && star_fits(text, &['/'])
                    && (!text.ends_with('*') || below())
            }
        };
        match (fits, text.contains(':')) {
            (false, _) => Err(format!(
                "`{}` is no name in a certificate; use a DNS name, or a URI such as spiffe://acme/ci, which may end in /* below its host",
                text.escape_debug()
            )),
            (true, true) => Ok(CertificateName(text.to_string())),
            (true, false) => Ok(CertificateName(text.to_ascii_lowercase())),
        }
    }
}

/// The subject of a JWT. It may end in `*`, after a `/` or a `:`: any subject that begins so.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subject(String);

impl Subject {
    fn fits(&self, subject: &str) -> Option<Closeness> {
        closeness(&self.0, subject, |rest| !rest.is_empty())
    }
}

impl FromStr for Subject {
    type Err = String;
    fn from_str(text: &str) -> Result<Subject, String> {
        let fits = (1..=MAX_PROOF_BYTES).contains(&text.len())
            && text.chars().all(is_printable)
            && text.trim() == text
            && star_fits(text, &['/', ':']);
        match fits {
            true => Ok(Subject(text.to_string())),
            false => Err(format!(
                "`{}` is no subject; write at most {MAX_PROOF_BYTES} printable ASCII characters, and * only at the end, after a / or a :",
                text.escape_debug()
            )),
        }
    }
}

macro_rules! text {
    ($($type:ident)*) => {$(
        impl TryFrom<String> for $type {
            type Error = String;
            fn try_from(text: String) -> Result<$type, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(text: $type) -> String {
                text.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )*};
}

text! { CertificateName Subject }

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(text: &str) -> Proof {
        Proof::Certificate { name: text.parse().unwrap() }
    }

    fn jwt(subject: &str, claims: &[(&str, &str)]) -> Proof {
        let claims = claims.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Proof::Jwt { subject: subject.parse().unwrap(), claims }
    }

    #[test]
    fn a_name_in_a_certificate_is_a_dns_name_or_a_uri() {
        let parsed = |text: &str| text.parse::<CertificateName>().map(String::from);
        assert_eq!(parsed("Agent.Example"), Ok("agent.example".to_string()));
        assert_eq!(parsed("spiffe://acme/Ci"), Ok("spiffe://acme/Ci".to_string()));
        assert_eq!(parsed("spiffe://acme/agents/*"), Ok("spiffe://acme/agents/*".to_string()));
        assert_eq!(parsed("urn:agent:1"), Ok("urn:agent:1".to_string()));
        let long = "x".repeat(257);
        for odd in ["", "a b", "*.example", "a/b", ":x", "spiffe://a b", "\u{e9}.example", &long] {
            assert!(parsed(odd).is_err(), "{odd}");
        }
        // A star that would cover another trust domain, part of a segment, or the middle.
        for odd in [
            "spiffe://*",
            "spiffe:///*",
            "spiffe://acme*",
            "spiffe://acme/a*",
            "spiffe://*/a",
            "urn:*",
            "urn:a/*",
            "*",
        ] {
            assert!(parsed(odd).is_err(), "{odd}");
        }
        assert!(parsed("spiffe://acme/*").is_ok());
    }

    #[test]
    fn a_prefix_covers_plain_paths_below_it_and_nothing_else() {
        let agents = certificate("spiffe://acme/agents/*");
        for name in ["spiffe://acme/agents/a", "spiffe://acme/agents/a/b", "spiffe://acme/agents/A.b-c_1"] {
            assert!(agents.fits_certificate(name).is_some(), "{name}");
        }
        for name in [
            "spiffe://acme/agents/",
            "spiffe://acme/agents",
            "spiffe://acme/agents-2/a",
            "spiffe://acme/agents/../operators/a",
            "spiffe://acme/agents/./a",
            "spiffe://acme/agents//a",
            "spiffe://acme/agents/a/",
            "spiffe://acme/agents/%2e%2e/a",
            "spiffe://acme/agents/a?b",
            "spiffe://acme/agents/a#b",
            "spiffe://acme/agents/*",
            "spiffe://acme2/agents/a",
            "Spiffe://acme/agents/a",
        ] {
            assert_eq!(agents.fits_certificate(name), None, "{name}");
        }
        assert!(certificate("ci.example").fits_certificate("ci.example").is_some());
        assert_eq!(certificate("ci.example").fits_certificate("a.ci.example"), None);
        assert_eq!(agents.fits_jwt("spiffe://acme/agents/a", |_, _| true), None, "it is no JWT");
    }

    #[test]
    fn a_subject_may_end_in_a_star_after_a_separator() {
        for fine in ["repo:acme/app:ref:refs/heads/main", "repo:acme/*", "system:serviceaccount:ci:*", "a b"]
        {
            assert!(fine.parse::<Subject>().is_ok(), "{fine}");
        }
        let long = "x".repeat(257);
        for odd in ["", "*", "repo:acme*", "a*b", "repo:*/app", " a", "a ", "a\nb", "\u{e9}", "a:**", &long] {
            assert!(odd.parse::<Subject>().is_err(), "{odd}");
        }
        let any = |_: &str, _: &str| true;
        assert!(jwt("repo:acme/*", &[]).fits_jwt("repo:acme/app", any).is_some());
        for other in ["repo:acme/", "repo:acme-2/app", "repo:acme", "xrepo:acme/app"] {
            assert_eq!(jwt("repo:acme/*", &[]).fits_jwt(other, any), None, "{other}");
        }
        assert_eq!(jwt("a", &[("k", "v")]).fits_jwt("a", |_, _| false), None);
        assert_eq!(jwt("a", &[]).fits_certificate("a"), None, "it is no certificate");
    }

    #[test]
    fn the_closest_is_exact_then_long_then_has_the_most_claims() {
        let any = |_: &str, _: &str| true;
        let closeness = |proof: Proof| proof.fits_jwt("repo:acme/app", any).unwrap();
        let [wide, narrow, exact] =
            ["repo:*", "repo:acme/*", "repo:acme/app"].map(|text| closeness(jwt(text, &[])));
        assert!(wide < narrow && narrow < exact);
        let claimed = closeness(jwt("repo:acme/*", &[("k", "v")]));
        assert!(narrow < claimed && claimed < exact);
    }

    #[test]
    fn claims_have_bounds_and_are_not_those_that_the_server_judges() {
        assert!(jwt("a", &[("repository", "acme/app")]).check().is_ok());
        for name in ["exp", "sub", "iss", "aud", "nbf", "iat", "", "\u{e9}", &"x".repeat(65)] {
            assert!(jwt("a", &[(name, "v")]).check().is_err(), "{name}");
        }
        for value in ["", "\n", &"x".repeat(257)] {
            assert!(jwt("a", &[("k", value)]).check().is_err(), "{value}");
        }
        let names: [String; 9] = core::array::from_fn(|number| format!("k{number}"));
        let many: alloc::vec::Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
        assert!(jwt("a", &many).check().is_err() && jwt("a", &many[1..]).check().is_ok());
    }

    #[test]
    fn a_proof_survives_its_text_and_is_of_one_kind() {
        for proof in [certificate("spiffe://a/b"), jwt("a:*", &[("k", "v")]), Proof::Secret { hash: None }] {
            let text = serde_json::to_string(&proof).unwrap();
            assert_eq!(serde_json::from_str::<Proof>(&text).unwrap(), proof, "{text}");
        }
        for odd in [
            r#"{"kind":"certificate","name":"*"}"#,
            r#"{"kind":"jwt","subject":"*"}"#,
            r#"{"kind":"certificate","name":"a","hash":"00"}"#,
            r#"{"kind":"nothing"}"#,
            "{}",
        ] {
            assert!(serde_json::from_str::<Proof>(odd).is_err(), "{odd}");
        }
    }
}
