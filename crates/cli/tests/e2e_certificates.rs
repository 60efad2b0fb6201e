//! Client certificates in the place of tokens, over TLS.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use crate::support;
use crate::support::issuers::{Authority, logged, now, secret_file};
use crate::support::secure::{Certificate, create, text, with_token};
use crate::support::server::{Server, said};
use crate::support::{World, until};

/// A server that takes client certificates.
struct Setting {
    world: World,
    authority: Authority,
    certificate: Certificate,
    operator: String,
    log: PathBuf,
    server: Server,
}

impl Setting {
    fn new() -> Setting {
        let world = World::folder();
        let file = world.file("server.redb");
        let store = format!("embedded:{}", file.display());
        let (authority, certificate) = (Authority::new(), Certificate::write(world.path()));
        authority.write(&world.file("clients.pem"));
        world.ok(&["init", "--store", &store]);
        let operator = text(&create(&world, &store, &["--role", "operator"]), "token");
        let (clients, log) = (world.file("clients.pem"), world.file("access.log"));
        let more = ["--client-ca", clients.to_str().unwrap(), "--access-log", log.to_str().unwrap()];
        let server = Server::start_with(&file, &[&certificate.arguments()[..], &more].concat());
        Setting { world, authority, certificate, operator, log, server }
    }

    /// The URL of the server, for whoever has this certificate.
    fn url(&self, own: &str) -> String {
        format!("{}&{own}", self.plain())
    }

    fn plain(&self) -> String {
        self.certificate.checked(&self.server.url())
    }

    fn operate(&self, arguments: &[&str]) -> support::Done {
        with_token(&self.world, &self.operator, &[arguments, &["--store", &self.plain()]].concat())
    }
}

#[test]
fn a_client_certificate_opens_the_entry_for_its_name() {
    let setting = Setting::new();
    let world = &setting.world;
    let builder = setting.authority.sign(world.path(), "builder", &["spiffe://acme/agents/builder"]);
    let builder = setting.url(&builder);
    // A good certificate alone opens nothing.
    let refused = world.call(&["status", "--store", &builder]).expect(7);
    assert!(
        refused.stderr.contains("no entry") && refused.stderr.contains("--certificate"),
        "{}",
        refused.stderr
    );
    let made = setting.operate(&[
        "token",
        "create",
        "--role",
        "agent",
        "--agent",
        "ci-*",
        "--elections",
        "fleet/*",
        "--certificate",
        "spiffe://acme/agents/*",
        "--json",
    ]);
    let made = made.expect(0).json();
    assert!(made.get("token").is_none(), "there is no secret: {made}");
    assert_eq!(made["proof"], serde_json::json!({"kind": "certificate", "name": "spiffe://acme/agents/*"}));
    let acquire = ["acquire", "fleet/eu", "--as", "ci-1", "--store", &builder, "--json"];
    assert_eq!(world.call(&acquire).expect(0).json()["token"], 1);
    world.call(&["renew", "fleet/eu", "--as", "ci-1", "--store", &builder]).expect(0);
    // It is bound by its entry as by a token.
    let other = world.call(&["acquire", "fleet/eu", "--as", "alice", "--store", &builder]).expect(7);
    assert!(other.stderr.contains("not for the agent"), "{}", other.stderr);
    world.call(&["acquire", "deploy", "--as", "ci-1", "--store", &builder]).expect(7);
    world.call(&["token", "list", "--store", &builder]).expect(7);
    let listed = setting.operate(&["token", "list"]).expect(0).stdout;
    let row = listed.lines().find(|line| line.contains("certificate spiffe://acme/agents/*")).unwrap();
    assert!(row.contains("from 127.0.0.1"), "its last use is known: {listed}");
    // A name beside the prefix, and one that only looks as if it were below.
    for (name, uri) in [("ops", "spiffe://acme/operators/a"), ("dots", "spiffe://acme/agents/../operators/a")]
    {
        let own = setting.authority.sign(world.path(), name, &[uri]);
        let refused = world.call(&["status", "--store", &setting.url(&own)]).expect(7);
        assert!(refused.stderr.contains("no entry"), "{uri}: {}", refused.stderr);
    }
    let why = logged(&setting.log).into_iter().filter_map(|line| line["why"].as_str().map(str::to_string));
    assert!(why.into_iter().any(|why| why.contains("`spiffe://acme/operators/a`")), "the log has the name");
    // A client that shows a token beside the certificate is bound by the token.
    with_token(world, &setting.operator, &["token", "list", "--store", &builder]).expect(0);
    // The same name twice is refused, and a revoked entry opens nothing.
    let twice = ["token", "create", "--role", "operator", "--certificate", "spiffe://acme/agents/*"];
    assert!(setting.operate(&twice).expect(2).stderr.contains("token revoke"), "one entry for one name");
    setting.operate(&["token", "revoke", made["id"].as_str().unwrap()]).expect(0);
    world.call(&["renew", "fleet/eu", "--as", "ci-1", "--store", &builder]).expect(7);
}

#[test]
fn a_bad_certificate_ends_at_the_handshake() {
    let setting = Setting::new();
    let world = &setting.world;
    let name = ["spiffe://acme/ci"];
    setting.operate(&["token", "create", "--role", "agent", "--certificate", name[0]]).expect(0);
    let good = setting.authority.sign(world.path(), "good", &name);
    world.call(&["status", "--store", &setting.url(&good)]).expect(0);
    let foreign = Authority::new().sign(world.path(), "foreign", &name);
    let expired = setting.authority.sign_until(world.path(), "expired", &name, 2_001);
    // The foreign authority has the name of ours.
    for (bad, reason) in [(foreign, "BadSignature"), (expired, "expired")] {
        let before = logged(&setting.log).len();
        let refused = world.call(&["status", "--store", &setting.url(&bad)]).expect(7);
        assert!(refused.stderr.contains("the certificate of this client"), "{}", refused.stderr);
        until("the log says why", || {
            let said = |line: &serde_json::Value| line["handshake"].as_str().map(str::to_string);
            logged(&setting.log)[before..].iter().filter_map(said).any(|why| why.contains(reason))
        });
    }
    // Not even a token helps beside a bad one; without any, it does.
    let foreign = Authority::new().sign(world.path(), "foreign", &name);
    with_token(world, &setting.operator, &["status", "--store", &setting.url(&foreign)]).expect(7);
    with_token(world, &setting.operator, &["status", "--store", &setting.plain()]).expect(0);
    // The client's own files.
    let half = format!("{}&cert=good.pem", setting.plain());
    assert!(world.call(&["status", "--store", &half]).expect(2).stderr.contains("key=FILE"));
    fs::set_permissions(world.file("good.key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(world.call(&["status", "--store", &setting.url(&good)]).expect(7).stderr.contains("chmod 600"));
    // The server's.
    let store = format!("embedded:{}", world.file("server.redb").display());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--client-ca", "clients.pem"];
    world.call(&serve).expect(2);
    fs::write(world.file("none.pem"), "nothing").unwrap();
    let none = world.file("none.pem");
    let serve = [&serve[..6], &[none.to_str().unwrap()], &setting.certificate.arguments()].concat();
    assert!(world.call(&serve).expect(2).stderr.contains("authorities"), "a file without a certificate");
}

/// Another authority comes into use while an agent works: it connects again with the certificate that lies there by then. A stream that was begun
/// with a certificate of the former one ends.
#[test]
fn a_run_survives_the_rotation_of_its_certificate() {
    let mut setting = Setting::new();
    let world = &setting.world;
    setting.operate(&["token", "create", "--role", "agent", "--certificate", "spiffe://acme/ci"]).expect(0);
    let own = setting.authority.sign(world.path(), "ci", &["spiffe://acme/ci"]);
    let run = ["run", "e", "--as", "ci", "--ttl", "60s", "--store", &setting.url(&own), "--", "sleep", "600"];
    let mut running = world.command(&run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let leads = || {
        let status = setting.operate(&["status", "e", "--json"]).json();
        (status["leader"]["agent"] == "ci").then(|| status["token"].as_u64().unwrap())
    };
    until("it leads", || leads().is_some());
    let epoch = leads();
    let former = setting.authority.sign(world.path(), "former", &["spiffe://acme/watcher"]);
    let entry = ["token", "create", "--role", "observer", "--certificate", "spiffe://acme/watcher"];
    setting.operate(&entry).expect(0);
    let watch = ["watch", "e", "--json", "--store", &setting.url(&former)];
    let shown = fs::File::create(world.file("watched")).unwrap();
    let mut watching = world.command(&watch).stdout(shown).stderr(Stdio::null()).spawn().unwrap();
    let watched = |line: &serde_json::Value| line["route"] == "watch" && line["role"] == "observer";
    until("it is watched", || logged(&setting.log).iter().any(watched));
    // A bad file changes nothing.
    fs::write(world.file("clients.pem"), "nothing").unwrap();
    support::processes::signal(setting.server.pid(), rustix::process::Signal::HUP);
    let told = || fs::read_to_string(said(&world.file("server.redb"))).unwrap();
    until("it says so", || told().contains("former certificate stays in use"));
    assert_eq!(leads(), epoch);
    let fresh = Authority::new();
    fresh.sign(world.path(), "fresh", &["spiffe://acme/ci"]);
    for file in ["pem", "key"] {
        let text = fs::read_to_string(world.file(&format!("fresh.{file}"))).unwrap();
        secret_file(&world.file(&format!("ci.{file}")), &text);
    }
    fresh.write(&world.file("clients.pem"));
    support::processes::signal(setting.server.pid(), rustix::process::Signal::HUP);
    // A kept connection is refused, which ends the watcher. A new connection fails at its handshake, which may pass.
    let is_stale = || fs::read_to_string(world.file("watched")).unwrap().contains(r#""stale":true"#);
    until("the stream ends", || watching.try_wait().unwrap().is_some() || is_stale());
    let _ = watching.kill();
    watching.wait().unwrap();
    let ended = logged(&setting.log).len();
    until("the agent is let in by its new certificate", || {
        logged(&setting.log)[ended..].iter().any(|line| line["role"] == "agent" && line["status"] == 200)
    });
    assert_eq!(leads(), epoch, "it leads all the time");
    assert!(running.try_wait().unwrap().is_none());
    support::processes::signal(running.id(), rustix::process::Signal::TERM);
    running.wait().unwrap();
    setting.server.stop();
}

/// Certificates that live for less than a minute are replaced while an agent leads. It keeps its lease, also after each of them has expired.
#[test]
fn a_leader_with_short_lived_certificates_keeps_its_lease() {
    let setting = Setting::new();
    let (world, name) = (&setting.world, ["spiffe://acme/ci"]);
    setting.operate(&["token", "create", "--role", "agent", "--certificate", name[0]]).expect(0);
    let rotate = |seconds| setting.authority.rotate(world.path(), "ci", &name, seconds);
    let mut expires = rotate(20);
    let own = format!("cert={}&key={}", world.file("ci.pem").display(), world.file("ci.key").display());
    let run = ["run", "e", "--as", "ci", "--ttl", "30s", "--once", "--store", &setting.url(&own)];
    let run = [&run[..], &["--", "sleep", "600"]].concat();
    let mut running = world.command(&run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let leader = || setting.operate(&["status", "e", "--json"]).json()["leader"].clone();
    until("it leads", || leader()["agent"] == "ci");
    let token = leader()["token"].clone();
    for seconds in [40, 600] {
        let former = std::mem::replace(&mut expires, rotate(seconds));
        until("the former certificate has expired", || now() > former);
        let renewals = leader()["renewals"].as_u64();
        // The second one began surely after it had expired.
        until("it is renewed by the new one", || {
            assert_eq!(running.try_wait().unwrap(), None, "it has lost its lease");
            leader()["renewals"].as_u64() > renewals.map(|renewals| renewals + 1)
        });
        assert_eq!(leader()["token"], token, "it led all the time");
    }
    support::processes::signal(running.id(), rustix::process::Signal::TERM);
    running.wait().unwrap();
}

/// A certificate that one of both does not trust is no outage that passes: the command says so, and ends.
#[test]
fn a_run_whose_certificate_is_not_trusted_says_so_and_ends() {
    let setting = Setting::new();
    let (world, name) = (&setting.world, ["spiffe://acme/ci"]);
    setting.operate(&["token", "create", "--role", "agent", "--certificate", name[0]]).expect(0);
    let run =
        |url: &str| world.call(&["run", "e", "--as", "ci", "--store", url, "--", "true"]).expect(7).stderr;
    let foreign = Authority::new().sign(world.path(), "foreign", &name);
    let told = run(&setting.url(&foreign));
    assert!(told.contains("does not accept the certificate of this client"), "{told}");
    assert!(told.contains("--client-ca"), "{told}");
    let expired = setting.authority.sign_until(world.path(), "expired", &name, 2_001);
    let told = run(&setting.url(&expired));
    assert!(told.contains("the certificate of this client has expired"), "{told}");
    // The server's own.
    let good = setting.authority.sign(world.path(), "good", &name);
    Authority::new().write(&world.file("others.pem"));
    let others = format!("{}?ca={}&{good}", setting.server.url(), world.file("others.pem").display());
    let told = run(&others);
    assert!(
        told.contains("an authority that this client does not trust") && told.contains("?ca=FILE"),
        "{told}"
    );
}

/// For a leader it is an outage: it goes on until its deadline, and says why it lost the lease.
#[test]
fn a_leader_whose_certificate_expires_says_so_when_it_loses_the_lease() {
    let setting = Setting::new();
    let (world, name) = (&setting.world, ["spiffe://acme/ci"]);
    setting.operate(&["token", "create", "--role", "agent", "--certificate", name[0]]).expect(0);
    setting.authority.rotate(world.path(), "ci", &name, 20);
    let own = format!("cert={}&key={}", world.file("ci.pem").display(), world.file("ci.key").display());
    let run = ["run", "e", "--as", "ci", "--ttl", "10s", "--once", "--store", &setting.url(&own)];
    let lost = world.call(&[&run[..], &["--", "sleep", "600"]].concat()).expect(4);
    assert!(lost.stderr.contains("ci leads e"), "{}", lost.stderr);
    assert!(lost.stderr.contains("the certificate of this client has expired"), "{}", lost.stderr);
}
