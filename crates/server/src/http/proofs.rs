//! Which entry of the list a proof opens, beside secrets: the one that describes the proof most closely.
//!
//! This is the only place where the identity of a connection or of a JWT becomes an entry, and with it rights. A proof that two entries describe
//! equally closely opens neither.

use std::sync::Arc;

use baton_door::ClientCertificate;
use baton_election::ContentHash;
use baton_election::tokens::{Closeness, Proof, TokenEntry};
use baton_store::boot;

use super::identity::{Bearer, TokenEntries};
use super::reply::Problem;
use crate::jwt::{Claims, Fault, Jwt};

/// What opened an entry.
#[derive(Clone, Debug)]
pub(crate) enum OpeningProof {
    Secret,
    Certificate(Arc<ClientCertificate>),
    Jwt { claims: Arc<Claims>, by: Arc<Jwt> },
}

impl OpeningProof {
    /// Whether it is still a proof.
    pub(super) fn holds(&self) -> bool {
        match self {
            OpeningProof::Secret => true,
            OpeningProof::Certificate(client) => client.is_valid(),
            OpeningProof::Jwt { claims, by } => by.holds(claims),
        }
    }

    /// Whether it stops being one by itself.
    pub(super) fn ends(&self) -> bool {
        match self {
            OpeningProof::Secret => false,
            OpeningProof::Certificate(_) | OpeningProof::Jwt { .. } => true,
        }
    }
}

/// Why no entry is opened.
enum ProofMismatch {
    /// No entry describes the proof.
    None,
    /// Several entries do, and none more closely than the others.
    Several,
}

/// The entry that describes a proof most closely.
fn closest(
    known: &TokenEntries,
    fits: impl Fn(&Proof) -> Option<Closeness>,
) -> Result<&Arc<TokenEntry>, ProofMismatch> {
    let mut best: Option<(Closeness, Result<&Arc<TokenEntry>, ProofMismatch>)> = None;
    for entry in known.values() {
        let Some(closeness) = fits(&entry.proof) else { continue };
        match &best {
            Some((found, _)) if *found > closeness => {}
            Some((found, _)) if *found == closeness => best = Some((closeness, Err(ProofMismatch::Several))),
            Some(_) | None => best = Some((closeness, Ok(entry))),
        }
    }
    best.map_or(Err(ProofMismatch::None), |(_, entry)| entry)
}

/// A caller that shows a certificate is bound by the one entry that its names open.
pub(super) fn certified(known: &TokenEntries, client: &Arc<ClientCertificate>) -> Result<Bearer, Problem> {
    if !client.is_valid() {
        return Err(refused("the client certificate has expired, or its authority is no longer believed"));
    }
    let Some(names) = client.names() else {
        return Err(refused("the client certificate has too many names, or none that can be read"));
    };
    let entry = named(known, &names)
        .map_err(|why| refused(why).because(format!("the client certificate is for {}", listed(&names))))?;
    Ok(Bearer { entry, shown: OpeningProof::Certificate(Arc::clone(client)) })
}

/// The one entry that the names of a certificate open.
fn named(known: &TokenEntries, names: &[String]) -> Result<Arc<TokenEntry>, &'static str> {
    const SEVERAL: &str = "the names in the client certificate open several entries";
    let mut opened: Option<&Arc<TokenEntry>> = None;
    for name in names {
        match (closest(known, |proof| proof.fits_certificate(name)), opened) {
            (Ok(entry), Some(other)) if entry.id != other.id => return Err(SEVERAL),
            (Ok(entry), _) => opened = Some(entry),
            (Err(ProofMismatch::Several), _) => return Err(SEVERAL),
            (Err(ProofMismatch::None), _) => {}
        }
    }
    match opened {
        None => Err("no entry is for a name in the client certificate"),
        Some(entry) if entry.is_expired(boot::wall()) => {
            Err("the entry for the client certificate has expired")
        }
        Some(entry) => Ok(Arc::clone(entry)),
    }
}

/// What a JWT says, once it was verified: before, or here.
pub(super) fn claims(
    jwt: &Jwt,
    text: &str,
    hash: ContentHash,
    charge: impl FnOnce() -> Result<(), Problem>,
) -> Result<Arc<Claims>, Problem> {
    if let Some(claims) = jwt.remembered(&hash) {
        return Ok(claims);
    }
    charge()?;
    jwt.verify(text, hash).map_err(|fault| {
        // That it expired is told only of one that the issuer did sign.
        let shown = match &fault {
            Fault::Expired(_) => "the JWT has expired",
            _ => "the JWT is not accepted here",
        };
        not_accepted(shown).because(format!("the JWT is not accepted: {fault}"))
    })
}

/// A caller that shows a JWT is bound by the entry that its subject and claims open.
pub(super) fn claimed(known: &TokenEntries, jwt: &Arc<Jwt>, claims: Arc<Claims>) -> Result<Bearer, Problem> {
    let found =
        closest(known, |proof| proof.fits_jwt(&claims.subject, |name, value| claims.has(name, value)));
    let why = match found {
        Ok(entry) if entry.is_expired(boot::wall()) => "the entry for the JWT has expired",
        Ok(entry) => {
            let entry = Arc::clone(entry);
            return Ok(Bearer { entry, shown: OpeningProof::Jwt { claims, by: Arc::clone(jwt) } });
        }
        Err(ProofMismatch::None) => "no entry is for the subject and the claims of the JWT",
        Err(ProofMismatch::Several) => "the JWT opens several entries equally well",
    };
    let subject = format!("{why}; its subject is `{}`", claims.subject.escape_debug());
    Err(Problem::unauthorized(
        why,
        "an operator lets it in: baton token create --role ROLE --subject SUBJECT, with the subject of the JWT",
    )
    .because(subject))
}

fn not_accepted(why: &str) -> Problem {
    Problem::unauthorized(
        why,
        "show a fresh one of the server's issuer, for its audience, that lives for an hour at most; the server's access log says more",
    )
}

/// Names for the log, which nobody believes yet.
fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("`{}`", name.escape_debug())).collect::<Vec<_>>().join(", ")
}

fn refused(why: &str) -> Problem {
    Problem::unauthorized(
        why,
        "an operator lets it in: baton token create --role ROLE --certificate NAME, with a name of the certificate; or show a token",
    )
}

/// A caller that shows the secret of an entry.
#[cfg(test)]
pub(super) fn bearer_of_secret(entry: TokenEntry) -> super::identity::Identity {
    super::identity::Identity::Bearer(Bearer { entry: Arc::new(entry), shown: OpeningProof::Secret })
}

#[cfg(test)]
mod tests {
    use baton_election::operator::PublicKey;
    use baton_election::tokens::Role;
    use baton_election::{TokenId, WallTime};

    use super::*;

    fn entry(number: u8, proof: Proof) -> TokenEntry {
        TokenEntry {
            id: TokenId([number; 6]),
            proof,
            role: Role::Agent,
            agents: Vec::new(),
            elections: Vec::new(),
            resources: Vec::new(),
            note: String::new(),
            created: WallTime::from_unix_millis(0),
            expires: None,
            by: PublicKey([0; 32]),
        }
    }

    fn known(entries: Vec<TokenEntry>) -> TokenEntries {
        entries.into_iter().map(|entry| (entry.id, Arc::new(entry))).collect()
    }

    fn certificates(names: &[&str]) -> TokenEntries {
        let proof = |name: &&str| Proof::Certificate { name: name.parse().unwrap() };
        known((1..).zip(names).map(|(number, name)| entry(number, proof(name))).collect())
    }

    fn opened(known: &TokenEntries, names: &[&str]) -> Result<u8, &'static str> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        named(known, &names).map(|entry| entry.id.0[0])
    }

    #[test]
    fn the_closest_entry_counts_and_two_open_nothing() {
        let known = certificates(&["spiffe://a/*", "spiffe://a/ci/*", "spiffe://a/ci/1", "host.example"]);
        assert_eq!(opened(&known, &["spiffe://a/x"]), Ok(1));
        assert_eq!(opened(&known, &["spiffe://a/ci/2"]), Ok(2));
        assert_eq!(opened(&known, &["spiffe://a/ci/1"]), Ok(3));
        assert_eq!(opened(&known, &["unknown.example", "host.example"]), Ok(4), "one name is enough");
        assert_eq!(
            opened(&known, &["spiffe://a/ci/2", "spiffe://a/ci/3"]),
            Ok(2),
            "both are the same entry's"
        );
        assert!(opened(&known, &["spiffe://a/ci/1", "host.example"]).unwrap_err().contains("several"));
        for none in [&["spiffe://b/ci/1"][..], &["spiffe://a/ci/../x"], &["example"], &[]] {
            assert!(opened(&known, none).unwrap_err().starts_with("no entry"), "{none:?}");
        }
    }

    #[test]
    fn an_expired_entry_is_not_replaced_by_a_wider_one() {
        let mut known = certificates(&["spiffe://a/*", "spiffe://a/ci"]);
        let expired = entry(2, known[&TokenId([2; 6])].proof.clone());
        let expired = TokenEntry { expires: Some(WallTime::from_unix_millis(1)), ..expired };
        known.insert(expired.id, Arc::new(expired));
        assert!(opened(&known, &["spiffe://a/ci"]).unwrap_err().contains("expired"));
        assert_eq!(opened(&known, &["spiffe://a/x"]), Ok(1));
    }

    /// An issuer, and a JWT of its with the subject `repo:acme/app` and the claim `ref`.
    fn issued() -> (Arc<Jwt>, String, ContentHash) {
        use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD;
        use serde_json::json;

        let (folder, key) = (tempfile::tempdir().unwrap(), Ed25519KeyPair::generate().unwrap());
        let file = folder.path().join("jwks.json");
        let x = URL_SAFE_NO_PAD.encode(key.public_key());
        std::fs::write(&file, json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": x}]}).to_string())
            .unwrap();
        let jwt = Jwt::load(&file, crate::jwt::Rules::new("issuer", "baton")).unwrap();
        let now = boot::wall().as_unix_millis() / 1_000;
        let claims =
            json!({"iss": "issuer", "aud": "baton", "sub": "repo:acme/app", "ref": "main", "exp": now + 60});
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(json!({"alg": "EdDSA"})), part(claims));
        let text = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes())));
        let hash = ContentHash::of(text.as_bytes());
        (Arc::new(jwt), text, hash)
    }

    #[test]
    fn a_signature_is_verified_only_once_and_only_if_it_is_paid_for() {
        let (jwt, text, hash) = issued();
        let broke = || Err(Problem::too_many("too many", std::time::Duration::from_secs(1)));
        let refused = claims(&jwt, &text, hash, broke).unwrap_err();
        assert_eq!(refused.status(), http::StatusCode::TOO_MANY_REQUESTS);
        assert!(jwt.remembered(&hash).is_none(), "nothing was verified");
        assert!(claims(&jwt, &text, hash, || Ok(())).is_ok());
        assert!(claims(&jwt, &text, hash, broke).is_ok(), "it is remembered, and costs nothing");
        // What was not accepted is told to the log only.
        let mut refused = claims(&jwt, "a.b.c", ContentHash([0; 32]), || Ok(())).unwrap_err();
        assert_eq!(refused.to_value()["detail"], "the JWT is not accepted here");
        assert!(refused.take_why().unwrap().contains("base64url"));
    }

    #[test]
    fn a_jwt_opens_the_closest_entry_and_two_open_nothing() {
        let (jwt, text, hash) = issued();
        let shown = claims(&jwt, &text, hash, || Ok(())).unwrap();
        let proof = |subject: &str, name: &str, value: &str| {
            let claims =
                [(name.to_string(), value.to_string())].into_iter().filter(|(name, _)| !name.is_empty());
            Proof::Jwt { subject: subject.parse().unwrap(), claims: claims.collect() }
        };
        let opened = |proofs: &[Proof]| {
            let entries = (1..).zip(proofs).map(|(number, proof)| entry(number, proof.clone())).collect();
            claimed(&known(entries), &jwt, Arc::clone(&shown)).map(|bearer| bearer.id.0[0])
        };
        let (wide, narrow) = (proof("repo:*", "", ""), proof("repo:acme/*", "", ""));
        let (main, other) = (proof("repo:acme/*", "ref", "main"), proof("repo:acme/*", "ref", "other"));
        let issuer = proof("repo:acme/*", "iss2", "issuer");
        assert_eq!(opened(&[wide.clone(), narrow.clone()]).unwrap(), 2);
        assert_eq!(opened(&[wide.clone(), narrow.clone(), main.clone(), other.clone()]).unwrap(), 3);
        assert_eq!(opened(&[proof("repo:acme/app", "", ""), main.clone()]).unwrap(), 1);
        assert!(
            opened(&[other, issuer]).unwrap_err().to_value()["detail"]
                .as_str()
                .unwrap()
                .starts_with("no entry")
        );
        // Only if they are made in another way than by orders.
        let several = opened(&[main.clone(), main]).unwrap_err();
        assert!(several.to_value()["detail"].as_str().unwrap().contains("several"));
    }
}
