//! A server that others may reach: its tokens, its certificate, what it does not start without, and what nobody gets to see.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support;
use crate::support::secure::{Certificate, create, text, with_token};
use crate::support::server::{Server, said};
use crate::support::server_group::ServerGroup;
use crate::support::{World, until};

#[test]
fn an_address_that_others_reach_takes_a_certificate_and_a_token() {
    let world = World::folder();
    let file = world.file("server.redb");
    let store = format!("embedded:{}", file.display());
    let serve = ["serve", "--listen", "0.0.0.0:0", "--store", &store];
    let refused = world.call(&serve).expect(2);
    for part in ["no TLS", "baton init --store", "baton token create --role operator", "--tls-cert"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    let certificate = Certificate::write(world.path());
    let with_tls = [&serve[..], &certificate.arguments()].concat();
    let refused = world.call(&with_tls).expect(2);
    assert!(
        refused.stderr.contains("has none") && refused.stderr.contains("baton token create"),
        "{}",
        refused.stderr
    );
    assert!(!file.exists(), "nothing was made");
    // A store without a token is no better.
    world.ok(&["init", "--store", &store]);
    let refused = world.call(&with_tls).expect(2);
    assert!(refused.stderr.contains("has none"), "{}", refused.stderr);
    world.call(&["serve", "--require-tokens", "--listen", "127.0.0.1:0", "--store", &store]).expect(2);
    // Nor is a key that everybody can read, a certificate that is none, or half of the two.
    fs::set_permissions(&certificate.key, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = world.call(&with_tls).expect(2);
    assert!(refused.stderr.contains("chmod"), "{}", refused.stderr);
    fs::write(&certificate.certificate, "nothing").unwrap();
    world.call(&with_tls).expect(2);
    world.call(&[&serve[..], &["--tls-cert", "x"]].concat()).expect(2);
    let refused = world.call(&["serve", "--listen", "example.com:7420"]).expect(2);
    assert!(refused.stderr.contains("127.0.0.1:7420"), "{}", refused.stderr);
}

#[test]
fn a_fleet_over_tls_with_tokens() {
    let world = World::folder();
    let file = world.file("server.redb");
    let store = format!("embedded:{}", file.display());
    let certificate = Certificate::write(world.path());
    world.ok(&["init", "--store", &store]);
    let operator = text(&create(&world, &store, &["--role", "operator", "--note", "ops"]), "token");
    let mut server = Server::start_with(&file, &certificate.arguments());
    let url = certificate.checked(&server.url());
    assert!(url.starts_with("https://"), "{url}");
    // A client that shows no token, or does not know the server's certificate, gets nothing.
    let refused = world.call(&["status", "--store", &url]).expect(7);
    assert!(refused.stderr.contains("BATON_HTTP_TOKEN"), "{}", refused.stderr);
    let unknown = with_token(&world, &operator, &["status", "--store", &server.url()]).expect(7);
    assert!(
        unknown.stderr.contains("certificate") && unknown.stderr.contains("?ca=FILE"),
        "{}",
        unknown.stderr
    );
    let plain = world.call(&["status", "--store", &server.url().replace("https", "http")]).expect(7);
    assert!(plain.stderr.contains("hint"), "{}", plain.stderr);
    // An operator makes a token for an agent through the server.
    let arguments =
        ["token", "create", "--role", "agent", "--agent", "ci-*", "--elections", "fleet/*", "--json"];
    let made = with_token(&world, &operator, &[&arguments[..], &["--store", &url]].concat()).expect(0).json();
    let (agent, id) = (text(&made, "token"), text(&made, "id"));
    let acquire = ["acquire", "fleet/eu", "--as", "ci-1", "--store", &url, "--json"];
    assert_eq!(with_token(&world, &agent, &acquire).expect(0).json()["token"], 1);
    let others =
        with_token(&world, &agent, &["acquire", "fleet/eu", "--as", "alice", "--store", &url]).expect(7);
    assert!(others.stderr.contains("not for the agent"), "{}", others.stderr);
    with_token(&world, &agent, &["acquire", "deploy", "--as", "ci-1", "--store", &url]).expect(7);
    with_token(&world, &agent, &["token", "list", "--store", &url]).expect(7);
    with_token(&world, &agent, &["renew", "fleet/eu", "--as", "ci-1", "--store", &url]).expect(0);
    let listed = with_token(&world, &operator, &["token", "list", "--store", &url]).expect(0);
    assert!(listed.stdout.contains("ci-*") && listed.stdout.contains("ops"), "{}", listed.stdout);
    // CMD, and the warden that releases in the end, reach it from any folder.
    let relative = format!("{}?ca=cert.pem", server.url());
    let inside = format!("cd / && {} status fleet/us --json", env!("CARGO_BIN_EXE_baton"));
    let run = ["run", "fleet/us", "--once", "--as", "ci-2", "--store", &relative, "--", "sh", "-c", &inside];
    let ran = with_token(&world, &agent, &run).expect(0);
    assert!(ran.stdout.contains("\"ci-2\""), "{}", ran.stdout);
    let after = ["status", "fleet/us", "--json", "--store", &url];
    assert_eq!(with_token(&world, &operator, &after).expect(0).json()["state"], "done");
    // From a file, which only its owner may read.
    let kept = world.file("token");
    fs::write(&kept, format!("{agent}\n")).unwrap();
    let from_file = |mode: u32| {
        fs::set_permissions(&kept, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = world.command(&["status", "fleet/eu", "--store", &url]);
        command.env("BATON_HTTP_TOKEN_FILE", &kept);
        support::finish(command, None)
    };
    from_file(0o600).expect(0);
    assert!(from_file(0o644).expect(7).stderr.contains("chmod 600"));
    // Revoked, it opens nothing, whoever is the leader by it.
    with_token(&world, &operator, &["token", "revoke", &id, "--store", &url]).expect(0);
    let revoked = with_token(&world, &agent, &["status", "--store", &url]).expect(7);
    assert!(revoked.stderr.contains("revoked"), "{}", revoked.stderr);
    // Another certificate comes into use while the server runs.
    Certificate::write(world.path());
    support::processes::signal(server.pid(), rustix::process::Signal::HUP);
    until("the new certificate is shown", || {
        with_token(&world, &operator, &["status", "--store", &url]).code == 0
    });
    server.stop();
    // Nobody got to see a secret: not the log, not the file, not an error.
    let (log, database) = (fs::read(said(&file)).unwrap(), fs::read(&file).unwrap());
    for token in [&operator, &agent] {
        let secret = token.rsplit_once('_').unwrap().1.as_bytes();
        for place in [&log, &database] {
            assert!(!place.windows(secret.len()).any(|window| window == secret));
        }
    }
    let spoken =
        [refused, unknown, plain, others, revoked].map(|done| format!("{}{}", done.stdout, done.stderr));
    assert!(spoken.iter().all(|text| !text.contains(&operator[20..]) && !text.contains(&agent[20..])));
}

#[test]
fn a_token_is_not_sent_where_others_could_read_it() {
    let world = World::folder();
    let store = format!("embedded:{}", world.file("server.redb").display());
    world.ok(&["init", "--store", &store]);
    let token = text(&create(&world, &store, &["--role", "agent"]), "token");
    // An address that nobody has: nothing is sent to it.
    let refused = with_token(&world, &token, &["status", "--store", "http://192.0.2.1:7420"]).expect(7);
    assert!(refused.stderr.contains("https://"), "{}", refused.stderr);
    let mistyped =
        with_token(&world, &token[..40], &["status", "--store", "https://192.0.2.1:7420"]).expect(7);
    assert!(mistyped.stderr.contains("cut off or mistyped"), "{}", mistyped.stderr);
    assert!(!mistyped.stderr.contains(&token[20..40]), "{}", mistyped.stderr);
    let in_url = format!("https://192.0.2.1:7420?token={token}");
    let refused = world.call(&["status", "--store", &in_url]).expect(2);
    assert!(
        refused.stderr.contains("BATON_HTTP_TOKEN") && !refused.stderr.contains(&token[20..]),
        "{}",
        refused.stderr
    );
}

#[test]
fn tokens_are_made_and_revoked_by_operators_in_any_store() {
    for store in ["file:s", "embedded:s.redb"] {
        let world = World::folder();
        let refused = world.call(&["token", "create", "--role", "agent", "--store", store]).expect(6);
        assert!(refused.stderr.contains("baton init"), "{}", refused.stderr);
        world.ok(&["init", "--store", store]);
        let made = create(&world, store, &["--role", "observer", "--expires", "30d", "--note", "dashboard"]);
        let id = text(&made, "id");
        let listed = world.ok(&["token", "list", "--store", store]);
        assert!(listed.stdout.contains("dashboard") && !listed.stdout.contains(&text(&made, "token")));
        let shown = world.ok(&["token", "list", "--store", store, "--json"]).stdout;
        assert!(shown.contains(&id) && !shown.contains("hash"), "{shown}");
        // Another user has a key of its own, which is not an operator's here.
        world.call_elsewhere(&["operator", "key"]).expect(0);
        world.call_elsewhere(&["token", "revoke", &id, "--store", store]).expect(6);
        world.ok(&["token", "revoke", &id, "--store", store]);
        world.call(&["token", "revoke", &id, "--store", store]).expect(2);
        for odd in [["--role", "king"], ["--role", "agent,"]] {
            world.call(&[&["token", "create", "--store", store][..], &odd].concat()).expect(2);
        }
        let odd = ["token", "create", "--store", store, "--role", "agent", "--elections", "Fleet"];
        assert!(world.call(&odd).expect(2).stderr.contains("a-z"));
        world.call(&["token", "create", "--store", store, "--role", "agent", "--expires", "0s"]).expect(2);
        world.call(&["token", "create", "--store", store, "--role", "agent", "--expires", "soon"]).expect(2);
    }
}

#[test]
fn a_token_expires_unless_it_is_told_never_to() {
    let world = World::folder();
    let store = "file:s";
    world.ok(&["init", "--store", store]);
    let lasts = |made: &serde_json::Value| {
        let days = |name: &str| text(made, name)[..10].replace('-', "").parse::<u64>().unwrap();
        (days("created"), days("expires"))
    };
    let usual = create(&world, store, &["--role", "agent", "--note", "usual"]);
    let (created, expires) = lasts(&usual);
    // Some three months later, in the digits of a date.
    assert!(expires > created + 200, "{usual}");
    let forever = create(&world, store, &["--role", "agent", "--expires", "never", "--note", "mine"]);
    assert!(forever["expires"].is_null(), "{forever}");
    create(&world, store, &["--role", "agent", "--expires", "6d", "--note", "mine"]);
    let listed = world.ok(&["token", "list", "--store", store]);
    assert_eq!(listed.stderr.matches("expires soon").count(), 1, "{}", listed.stderr);
    assert!(listed.stdout.contains("never") && listed.stdout.contains("RESOURCES"), "{}", listed.stdout);
    // Several are revoked at once by what they are for.
    let revoked = world.ok(&["token", "revoke", "--note", "mine", "--store", store]);
    assert_eq!(revoked.stdout.lines().count(), 2, "{}", revoked.stdout);
    world.call(&["token", "revoke", "--note", "mine", "--store", store]).expect(2);
    let left = world.ok(&["token", "list", "--store", store, "--json"]).stdout;
    assert!(left.contains(&text(&usual, "id")) && left.lines().count() == 1, "{left}");
}

#[test]
fn a_watch_ends_when_its_token_is_revoked() {
    let world = World::folder();
    let file = world.file("server.redb");
    let store = format!("embedded:{}", file.display());
    world.ok(&["init", "--store", &store]);
    let operator = text(&create(&world, &store, &["--role", "operator"]), "token");
    let made = create(&world, &store, &["--role", "agent"]);
    let server = Server::start_with(&file, &["--require-tokens"]);
    let url = server.url();
    with_token(&world, &operator, &["policy", "e", "--stall", "1h", "--store", &url]).expect(0);
    let talk = fs::File::create(world.file("seen")).unwrap();
    let mut command = world.command(&["watch", "e", "--store", &url]);
    let mut watch = command.env("BATON_HTTP_TOKEN", text(&made, "token")).stdout(talk).spawn().unwrap();
    world.read_soon("seen");
    with_token(&world, &operator, &["token", "revoke", &text(&made, "id"), "--store", &url]).expect(0);
    assert_eq!(support::exit_code(&mut watch), Some(7));
}

#[test]
fn what_was_revoked_stays_so_after_a_restore() {
    let world = World::folder();
    let file = world.file("server.redb");
    let store = format!("embedded:{}", file.display());
    world.ok(&["init", "--store", &store]);
    let kept = create(&world, &store, &["--role", "operator"]);
    let revoked = create(&world, &store, &["--role", "agent"]);
    let mut server = Server::start_with(&file, &["--snapshot-every", "100ms", "--require-tokens"]);
    let snapshots = world.file("server.redb.snapshots");
    let newest = || {
        let entries = fs::read_dir(&snapshots).ok()?.map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "redb")).max()
    };
    until("a snapshot has been taken", || newest().is_some());
    let snapshot = world.file("snapshot.redb");
    fs::copy(newest().unwrap(), &snapshot).unwrap();
    let (operator, agent) = (text(&kept, "token"), text(&revoked, "token"));
    let url = server.url();
    with_token(&world, &agent, &["status", "--store", &url]).expect(0);
    with_token(&world, &operator, &["token", "revoke", &text(&revoked, "id"), "--store", &url]).expect(0);
    server.stop();
    world.ok(&["restore", snapshot.to_str().unwrap(), "--store", &store]);
    server = Server::start_with(&file, &["--require-tokens"]);
    let url = server.url();
    with_token(&world, &operator, &["status", "--store", &url]).expect(0);
    with_token(&world, &agent, &["status", "--store", &url]).expect(7);
    with_token(&world, &operator, &["token", "create", "--role", "agent", "--store", &url]).expect(0);
    server.stop();
}

#[test]
fn several_servers_over_tls_with_tokens() {
    let world = World::folder();
    let store = format!("file:{}", world.store().display());
    let certificate = Certificate::write(world.path());
    let serve = [&["--server-ttl", "2s"], &certificate.arguments()[..]].concat();
    world.ok(&["init", "--store", &store]);
    let operator = text(&create(&world, &store, &["--role", "operator"]), "token");
    let made = create(&world, &store, &["--role", "agent", "--agent", "ci-*"]);
    let (agent, id) = (text(&made, "token"), text(&made, "id"));
    let mut servers = ServerGroup::start(world.path(), &store, 2, &serve);
    let url = certificate.checked(&servers.url());
    assert!(url.starts_with("https://") && url.contains(','), "{url}");
    // Whoever asks is let in by its token at the active one, and is sent there by the other.
    let active = || {
        let mut contact = String::new();
        until("a server is active", || {
            let leader = &world.json(&["status", baton::SERVERS, "--store", &store])["leader"];
            contact = leader["contact"].as_str().unwrap_or_default().to_string();
            !contact.is_empty()
        });
        servers.at(&contact)
    };
    let first = active();
    let standby = certificate.checked(&format!("https://{}", servers.address(1 - first)));
    let asked =
        |token: &str, to: &str, call: &[&str]| with_token(&world, token, &[call, &["--store", to]].concat());
    for (to, election) in [(&url, "e"), (&standby, "f")] {
        let acquire = ["acquire", election, "--as", "ci-1", "--ttl", "1m", "--json"];
        assert_eq!(asked(&agent, to, &acquire).expect(0).json()["token"], 1);
    }
    world.call(&["status", "e", "--store", &url]).expect(7);
    asked(&agent, &url, &["acquire", "g", "--as", "alice"]).expect(7);
    // Who the operators are is changed through them.
    let second = text(&world.call_elsewhere(&["operator", "key", "--json"]).expect(0).json(), "operator");
    asked(&operator, &url, &["operator", "add", &second]).expect(0);
    asked(&agent, &url, &["operator", "remove", &second]).expect(7);
    // A token that was revoked at one is none at the next, and a lease outlives the server.
    let revoked = create(&world, &store, &["--role", "agent"]);
    let revoke = ["token", "revoke", &text(&revoked, "id")];
    asked(&operator, &url, &revoke).expect(0);
    servers.kill(first);
    asked(&agent, &url, &["renew", "e", "--as", "ci-1"]).expect(0);
    until("the other is active", || {
        let leader = &world.json(&["status", baton::SERVERS, "--store", &store])["leader"];
        leader["contact"].as_str().is_some_and(|contact| servers.at(contact) == 1 - first)
    });
    asked(&text(&revoked, "token"), &url, &["status", "e"]).expect(7);
    asked(&agent, &standby, &["release", "f", "--as", "ci-1"]).expect(0);
    asked(&operator, &url, &["token", "revoke", &id]).expect(0);
    asked(&agent, &url, &["status", "e"]).expect(7);
    servers.stop(1 - first);
}
