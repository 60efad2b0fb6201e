//! JWTs in the place of tokens.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support;
use crate::support::issuers::{ISSUER, JwtIssuer, logged, now, secret_file};
use crate::support::secure::{Certificate, create, text, with_token};
use crate::support::server::{Server, said};
use crate::support::{World, until};

/// A server over TLS that takes JWTs of one issuer.
struct Setting {
    world: World,
    issuer: JwtIssuer,
    operator: String,
    keys: PathBuf,
    log: PathBuf,
    url: String,
    server: Server,
}

impl Setting {
    fn new() -> Setting {
        let world = World::folder();
        let file = world.file("server.redb");
        let store = format!("embedded:{}", file.display());
        let (issuer, certificate) = (JwtIssuer::new("one"), Certificate::write(world.path()));
        let (keys, log) = (world.file("jwks.json"), world.file("access.log"));
        JwtIssuer::write(&[&issuer], &keys);
        world.ok(&["init", "--store", &store]);
        let operator = text(&create(&world, &store, &["--role", "operator"]), "token");
        let more = [
            "--jwt-keys",
            keys.to_str().unwrap(),
            "--jwt-issuer",
            ISSUER,
            "--jwt-audience",
            "baton",
            "--access-log",
            log.to_str().unwrap(),
        ];
        let server = Server::start_with(&file, &[&certificate.arguments()[..], &more].concat());
        let url = certificate.checked(&server.url());
        Setting { world, issuer, operator, keys, log, url, server }
    }

    fn by(&self, token: &str, arguments: &[&str]) -> support::Done {
        with_token(&self.world, token, &[arguments, &["--store", &self.url]].concat())
    }

    fn operate(&self, arguments: &[&str]) -> support::Done {
        self.by(&self.operator, arguments)
    }

    fn hang_up(&self) {
        support::processes::signal(self.server.pid(), rustix::process::Signal::HUP);
    }

    /// What the server said on stderr.
    fn told(&self) -> String {
        fs::read_to_string(said(&self.world.file("server.redb"))).unwrap()
    }

    /// Whether the log has this as the reason of a refusal.
    fn logs(&self, why: &str) -> bool {
        logged(&self.log)
            .iter()
            .any(|line| line["status"] == 401 && line["why"].as_str().is_some_and(|said| said.contains(why)))
    }
}

#[test]
fn a_jwt_opens_the_entry_for_its_subject_and_claims() {
    let setting = Setting::new();
    let main = setting.issuer.sign("repo:acme/app:push", json!({"ref": "main", "groups": ["dev", "ops"]}));
    let refused = setting.by(&main, &["status"]).expect(7);
    assert!(
        refused.stderr.contains("no entry") && refused.stderr.contains("--subject"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains(&main[20..40]), "it is not repeated: {}", refused.stderr);
    let made = setting.operate(&[
        "token",
        "create",
        "--role",
        "agent",
        "--agent",
        "ci-*",
        "--elections",
        "fleet/*",
        "--subject",
        "repo:acme/*",
        "--claim",
        "ref=main",
        "--claim",
        "groups=ops",
        "--json",
    ]);
    let made = made.expect(0).json();
    assert!(made.get("token").is_none(), "there is no secret: {made}");
    assert_eq!(made["proof"]["claims"], json!({"groups": "ops", "ref": "main"}));
    let acquire = ["acquire", "fleet/eu", "--as", "ci-1", "--json"];
    assert_eq!(setting.by(&main, &acquire).expect(0).json()["token"], 1);
    setting.by(&main, &["renew", "fleet/eu", "--as", "ci-1"]).expect(0);
    // It is bound by its entry as by a token.
    setting.by(&main, &["acquire", "fleet/eu", "--as", "alice"]).expect(7);
    setting.by(&main, &["acquire", "deploy", "--as", "ci-1"]).expect(7);
    setting.by(&main, &["token", "list"]).expect(7);
    for (subject, claims) in [
        ("repo:acme-2/app", json!({"ref": "main", "groups": ["ops"]})),
        ("repo:acme/app", json!({"ref": "main", "groups": ["dev"]})),
        ("repo:acme/app", json!({"ref": ["other"], "groups": "ops"})),
        ("repo:acme/", json!({"ref": "main", "groups": "ops"})),
    ] {
        let other = setting.issuer.sign(subject, claims);
        assert!(setting.by(&other, &["status"]).expect(7).stderr.contains("no entry"), "{subject}");
    }
    let listed = setting.operate(&["token", "list"]).expect(0).stdout;
    let row = listed.lines().find(|line| line.contains("JWT repo:acme/* groups=ops ref=main")).unwrap();
    assert!(row.contains("from 127.0.0.1"), "its last use is known: {listed}");
    setting.operate(&["token", "revoke", made["id"].as_str().unwrap()]).expect(0);
    setting.by(&main, &["renew", "fleet/eu", "--as", "ci-1"]).expect(7);
    for odd in [["--subject", "*"], ["--subject", "repo:acme*"], ["--claim", "ref=main"]] {
        setting.operate(&[&["token", "create", "--role", "agent"], &odd[..]].concat()).expect(2);
    }
    let judged = ["token", "create", "--role", "agent", "--subject", "a", "--claim", "exp=1"];
    setting.operate(&judged).expect(2);
}

#[test]
fn what_is_wrong_with_a_jwt_is_in_the_log_and_not_in_the_answer() {
    let setting = Setting::new();
    setting.operate(&["token", "create", "--role", "agent", "--subject", "a"]).expect(0);
    let sign = |claims: Value| setting.issuer.sign("a", claims);
    setting.by(&sign(json!({})), &["status"]).expect(0);
    let none = {
        let good = sign(json!({}));
        let (_, rest) = good.split_once('.').unwrap();
        // {"alg":"none"}
        format!("eyJhbGciOiJub25lIn0.{rest}")
    };
    let foreign = JwtIssuer::new("one").sign("a", json!({}));
    let unknown = JwtIssuer::new("two").sign("a", json!({}));
    for (bad, why) in [
        (none, "its algorithm is `none`"),
        (foreign, "its signature is wrong"),
        (unknown, "has the id `two`"),
        (sign(json!({"aud": ["other"]})), "another audience"),
        (sign(json!({"iss": "https://evil.example"})), "its issuer is"),
        (sign(json!({"exp": null})), "its claim `exp`"),
        (sign(json!({"exp": now() + 100_000})), "longer than the server takes"),
        (sign(json!({"nbf": now() + 1_000})), "not valid yet"),
    ] {
        let refused = setting.by(&bad, &["status"]).expect(7);
        assert!(refused.stderr.contains("the JWT is not accepted here"), "{why}: {}", refused.stderr);
        assert!(!refused.stderr.contains(why), "{}", refused.stderr);
        until(why, || setting.logs(why));
    }
    // Of one that the issuer signed it is told.
    let expired = sign(json!({"iat": now() - 1_000, "exp": now() - 500}));
    assert!(setting.by(&expired, &["status"]).expect(7).stderr.contains("the JWT has expired"));
    until("the log has it", || setting.logs("it expired"));
    let log = fs::read_to_string(&setting.log).unwrap();
    assert!(!log.contains("eyJ"), "no JWT is logged");
}

#[test]
fn a_server_does_not_start_with_bad_keys() {
    let world = World::folder();
    let store = format!("embedded:{}", world.file("server.redb").display());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--jwt-keys", "jwks.json"];
    let whole = [&serve[..], &["--jwt-issuer", ISSUER, "--jwt-audience", "baton"]].concat();
    assert!(world.call(&serve).expect(2).stderr.contains("--jwt-issuer"));
    for (keys, why) in [
        ("", "EOF"),
        (r#"{"keys":[]}"#, "no key for"),
        (r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#, "shared secret"),
        (r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","d":"AA"}]}"#, "private half"),
        (
            r#"{"keys":[{"kty":"RSA","kid":"old","n":"_____w","e":"AQAB"}]}"#,
            "key 1 (kid `old`): it has 32 bits",
        ),
        (
            r#"{"keys":[{"kty":"EC","kid":"odd","alg":"ES256","crv":"P-384","x":"AA","y":"AA"}]}"#,
            "key 1 (kid `odd`): its `alg` takes the curve P-256",
        ),
    ] {
        fs::write(world.file("jwks.json"), keys).unwrap();
        let refused = world.call(&whole).expect(2);
        assert!(refused.stderr.contains(why) && refused.stderr.contains("JWKS"), "{}", refused.stderr);
    }
    JwtIssuer::write(&[&JwtIssuer::new("one")], &world.file("jwks.json"));
    assert!(world.call(&[&whole[..], &["--jwt-longest", "0s"]].concat()).expect(2).stderr.contains("hint"));
    // A server without keys says that it takes none.
    let plain = Server::start(&world.file("plain.redb"));
    let jwt = JwtIssuer::new("one").sign("a", json!({}));
    let refused = with_token(&world, &jwt, &["status", "--store", &plain.url()]).expect(7);
    assert!(refused.stderr.contains("takes no JWT"), "{}", refused.stderr);
}

/// The key of an issuer is replaced while an agent works, and so is the JWT in its file.
#[test]
fn a_run_survives_the_rotation_of_its_jwt_and_of_the_keys() {
    let mut setting = Setting::new();
    setting.operate(&["token", "create", "--role", "agent", "--subject", "ci"]).expect(0);
    let file = setting.world.file("ci.jwt");
    let old = setting.issuer.sign("ci", json!({}));
    secret_file(&file, &old);
    let run = ["run", "e", "--as", "ci", "--ttl", "60s", "--store", &setting.url, "--", "sleep", "600"];
    let mut running = setting.world.command(&run);
    running.env("BATON_HTTP_TOKEN_FILE", &file).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = running.spawn().unwrap();
    let leads = || {
        let status = setting.operate(&["status", "e", "--json"]).json();
        (status["leader"]["agent"] == "ci").then(|| status["token"].as_u64().unwrap())
    };
    until("it leads", || leads().is_some());
    let epoch = leads();
    // A bad file changes nothing, and is told.
    fs::write(&setting.keys, "{}").unwrap();
    setting.hang_up();
    until("it says so", || setting.told().contains("former keys of JWTs stay in use"));
    setting.by(&old, &["status"]).expect(0);
    let fresh = JwtIssuer::new("two");
    secret_file(&file, &fresh.sign("ci", json!({})));
    JwtIssuer::write(&[&fresh], &setting.keys);
    setting.hang_up();
    until("the keys are read", || setting.told().contains("keys of JWTs were read again"));
    setting.by(&old, &["status"]).expect(7);
    let refused = logged(&setting.log).len();
    until("the agent is let in by its new JWT", || {
        logged(&setting.log)[refused..].iter().any(|line| line["role"] == "agent" && line["status"] == 200)
    });
    assert_eq!(leads(), epoch, "it leads all the time");
    assert!(running.try_wait().unwrap().is_none());
    support::processes::signal(running.id(), rustix::process::Signal::TERM);
    running.wait().unwrap();
    setting.server.stop();
}
