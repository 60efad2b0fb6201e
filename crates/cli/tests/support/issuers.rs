//! Authorities and issuers of a test's own: client certificates, and JWTs with the keys that verify them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};

/// An authority of client certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = parameters.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(parameters, key), pem }
    }

    pub(crate) fn write(&self, file: &Path) {
        fs::write(file, &self.pem).unwrap();
    }

    /// Writes a certificate with these URIs, and its key, as `NAME.pem` and `NAME.key`. Returns what a URL says of them.
    pub(crate) fn sign(&self, folder: &Path, name: &str, uris: &[&str]) -> String {
        self.sign_until(folder, name, uris, 2_100)
    }

    /// The same, until this year.
    pub(crate) fn sign_until(&self, folder: &Path, name: &str, uris: &[&str], year: i32) -> String {
        self.sign_to(folder, name, uris, (year, 0))
    }

    /// The same, for so many seconds from now on. Replaces the files as one that rotates certificates does. Returns when it expires, in Unix time.
    pub(crate) fn rotate(&self, folder: &Path, name: &str, uris: &[&str], seconds: u64) -> u64 {
        let (expires, fresh) = (now() + seconds, format!("{name}-fresh"));
        self.sign_to(folder, &fresh, uris, (1970, expires));
        for file in ["pem", "key"] {
            fs::rename(folder.join(format!("{fresh}.{file}")), folder.join(format!("{name}.{file}")))
                .unwrap();
        }
        expires
    }

    /// Valid until so many seconds after this year has begun.
    fn sign_to(&self, folder: &Path, name: &str, uris: &[&str], (year, seconds): (i32, u64)) -> String {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        let uri = |uri: &&str| SanType::URI((*uri).try_into().unwrap());
        parameters.subject_alt_names = uris.iter().map(uri).collect();
        parameters.not_after = rcgen::date_time_ymd(year, 1, 1) + Duration::from_secs(seconds);
        let (certificate, secret) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
        fs::write(&certificate, parameters.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        secret_file(&secret, &key.serialize_pem());
        format!("cert={}&key={}", certificate.display(), secret.display())
    }
}

/// Writes a file that only its owner can read, all at once.
pub(crate) fn secret_file(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&beside, file).unwrap();
}

/// The lines of an access log.
pub(crate) fn logged(file: &PathBuf) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Unix time in seconds.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// An issuer of JWTs, with one key for EdDSA.
pub(crate) struct JwtIssuer {
    key: KeyPair,
    id: String,
}

/// The name of every issuer here.
pub(crate) const ISSUER: &str = "https://issuer.example";

impl JwtIssuer {
    pub(crate) fn new(id: &str) -> JwtIssuer {
        JwtIssuer { key: KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap(), id: id.to_string() }
    }

    /// Writes the keys of these issuers into one file.
    pub(crate) fn write(issuers: &[&JwtIssuer], file: &Path) {
        let jwk = |issuer: &&JwtIssuer| {
            let x = encoded(issuer.key.public_key_raw());
            serde_json::json!({"kty": "OKP", "crv": "Ed25519", "kid": issuer.id, "x": x})
        };
        let keys: Vec<_> = issuers.iter().map(jwk).collect();
        fs::write(file, serde_json::json!({ "keys": keys }).to_string()).unwrap();
    }

    /// A JWT for the audience `baton`, for ten minutes, with these claims besides.
    pub(crate) fn sign(&self, subject: &str, more: serde_json::Value) -> String {
        let mut claims = serde_json::json!({
            "iss": ISSUER, "aud": "baton", "sub": subject, "iat": now(), "exp": now() + 600,
        });
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let header = serde_json::json!({"alg": "EdDSA", "kid": self.id});
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = rcgen::SigningKey::sign(&self.key, signed.as_bytes()).unwrap();
        format!("{signed}.{}", encoded(signature))
    }
}

/// Base64 for URLs, without padding.
fn encoded(bytes: impl AsRef<[u8]>) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.as_ref().chunks(3) {
        let number =
            (0..3).fold(0_usize, |number, at| number << 8 | usize::from(*three.get(at).unwrap_or(&0)));
        (0..=three.len()).for_each(|at| text.push(char::from(LETTERS[number >> (18 - 6 * at) & 63])));
    }
    text
}
