//! JWTs: what they cost a server, and when they end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use baton_election::tokens::{Proof, Role};
use baton_server::{Jwt, JwtRules, Limits, Options};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{HANG, get, request};
use super::setting::{Setting, token};
use super::tokens::read_to_end;

struct Issuer {
    key: Ed25519KeyPair,
    file: PathBuf,
    jwt: Arc<Jwt>,
    _folder: tempfile::TempDir,
}

fn keys(key: &Ed25519KeyPair) -> String {
    let x = URL_SAFE_NO_PAD.encode(key.public_key());
    json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]}).to_string()
}

fn sign(key: &Ed25519KeyPair, lasts: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({"iss": "issuer", "aud": "baton", "sub": "ci", "iat": now, "exp": now + lasts});
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(json!({"alg": "EdDSA", "kid": "k"})), part(claims));
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes())))
}

impl Issuer {
    fn new() -> Issuer {
        let folder = tempfile::tempdir().unwrap();
        let (key, file) = (Ed25519KeyPair::generate().unwrap(), folder.path().join("jwks.json"));
        std::fs::write(&file, keys(&key)).unwrap();
        let jwt = Arc::new(Jwt::load(&file, JwtRules::new("issuer", "baton")).unwrap());
        Issuer { key, file, jwt, _folder: folder }
    }

    /// A server that takes its JWTs, with an entry for the subject `ci`, once it has heard of that.
    async fn serve(&self, limits: Limits) -> Setting {
        let jwt = Some(Arc::clone(&self.jwt));
        let setting = Setting::new(Options { require_tokens: true, jwt, limits, ..Options::default() }).await;
        let proof = Proof::Jwt { subject: "ci".parse().unwrap(), claims: Default::default() };
        setting.store.tokens().allow(&setting.operator, &token(Role::Agent), proof, None).await.unwrap();
        let good = sign(&self.key, 600);
        let heard = async {
            while get(setting.address, "/v1/elections", Some(&good)).await.status != 200 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(HANG, heard).await.unwrap();
        setting
    }
}

#[tokio::test]
async fn forged_ones_use_up_their_addresses_budget_and_those_that_are_remembered_pass() {
    let issuer = Issuer::new();
    let setting = issuer.serve(Limits { unauthenticated: 20, ..Limits::default() }).await;
    let (at, good) = (setting.address, sign(&issuer.key, 500));
    let let_in = async {
        while get(at, "/v1/elections", Some(&good)).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANG, let_in).await.unwrap();
    let forger = Ed25519KeyPair::generate().unwrap();
    let mut statuses = Vec::new();
    while !statuses.ends_with(&[429, 429, 429]) {
        assert!(statuses.len() < 10_000, "they are never refused for their number");
        let forged = sign(&forger, 60 + statuses.len() as u64);
        statuses.push(get(at, "/v1/elections", Some(&forged)).await.status);
    }
    assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
    // A fresh one that is good waits as well: nobody could tell before it was verified.
    let passed = get(at, "/v1/elections", Some(&good)).await;
    assert_eq!(passed.status, 200, "{passed:?}");
}

#[tokio::test]
async fn streams_end_with_the_key_and_with_the_jwt() {
    let issuer = Issuer::new();
    let setting = issuer.serve(Limits::default()).await;
    let at = setting.address;
    let (long, short) = (sign(&issuer.key, 600), sign(&issuer.key, 1));
    let mut watching = TcpStream::connect(at).await.unwrap();
    watching.write_all(request("GET", "/v1/elections/e/watch", Some(&long), None).as_bytes()).await.unwrap();
    let mut first = [0; 4096];
    let count = tokio::time::timeout(HANG, watching.read(&mut first)).await.unwrap().unwrap();
    assert!(first[..count].starts_with(b"HTTP/1.1 200"));
    // This one ends by itself, some seconds after it expired.
    let mut brief = TcpStream::connect(at).await.unwrap();
    brief.write_all(request("GET", "/v1/elections/e/watch", Some(&short), None).as_bytes()).await.unwrap();
    let all = tokio::time::timeout(HANG, read_to_end(&mut brief)).await.unwrap();
    assert!(all.starts_with("HTTP/1.1 200"), "{all}");
    assert_eq!(get(at, "/v1/elections", Some(&short)).await.status, 401);
    assert_eq!(get(at, "/v1/elections", Some(&long)).await.status, 200);
    std::fs::write(&issuer.file, keys(&Ed25519KeyPair::generate().unwrap())).unwrap();
    issuer.jwt.reload().unwrap();
    assert_eq!(get(at, "/v1/elections", Some(&long)).await.status, 401, "its key is gone");
    tokio::time::timeout(HANG, read_to_end(&mut watching)).await.unwrap();
}
