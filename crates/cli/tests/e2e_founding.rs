//! The first operator of a served store: a code, a named key, or the user that starts the server makes one. A client never makes itself one.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support;
use crate::support::server::Server;
use crate::support::{World, finish};

fn init(url: &str, more: &[&str]) -> support::Done {
    // Each has a key of its own, and none was told where the code is.
    let world = World::on(url);
    let mut command = world.command(&[&["init"], more].concat());
    command.env_remove("BATON_OPERATOR_CODE_FILE");
    finish(command, None)
}

fn has_operator(url: &str) -> bool {
    let listed = World::on(url).ok(&["operator", "list", "--json"]);
    listed.stdout.contains("\"operator\"")
}

fn code_in(file: &Path) -> String {
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::read_to_string(file).unwrap().trim().to_string()
}

#[test]
fn who_comes_first_is_not_the_operator_for_that() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("server.redb");
    let file = folder.path().join("server.redb.operator-code");
    let mut server = Server::start(&database);
    let url = server.url();
    World::on(&url).ok(&["acquire", "job", "--as", "agent"]);
    let refused = init(&url, &[]).expect(6);
    assert!(refused.stderr.contains("--code CODE"), "{}", refused.stderr);
    let refused = init(&url, &["--code", "0123456789abcdef0123456789abcdef"]).expect(6);
    assert!(refused.stderr.contains("not the code"), "{}", refused.stderr);
    assert!(!has_operator(&url));
    let (status, alerts) = server.ask("GET", "/v1/alerts");
    assert!(status == 200 && alerts.contains("\"no_operator\":true"), "{alerts}");
    let told = World::on(&url).ok(&["alerts"]);
    assert!(told.stderr.contains("nobody is the operator"), "{}", told.stderr);
    let told = World::on(&url).call(&["doctor"]);
    assert!(told.stdout.contains("nobody is the operator"), "{}", told.stdout);

    // Another run has another code.
    let old = code_in(&file);
    server.stop();
    assert!(!file.exists());
    let server = Server::start(&database);
    let url = server.url();
    init(&url, &["--code", &old]).expect(6);
    let code = code_in(&file);
    assert_ne!(old, code);
    init(&url, &["--code", &code]).expect(0);
    assert!(has_operator(&url) && !file.exists());
    let refused = init(&url, &["--code", &code]).expect(6);
    assert!(refused.stderr.contains("has an operator already"), "{}", refused.stderr);
    assert!(server.ask("GET", "/v1/alerts").1.contains("\"no_operator\":false"));
}

#[test]
fn a_key_that_was_named_needs_no_code() {
    let folder = tempfile::tempdir().unwrap();
    let person = World::folder();
    let key = person.ok(&["operator", "key"]).stdout.trim().to_string();
    let server = Server::start_with(&folder.path().join("server.redb"), &["--operator", &key]);
    init(&server.url(), &[]).expect(6);
    let mut command = person.command(&["init", "--store", &server.url()]);
    command.env_remove("BATON_OPERATOR_CODE_FILE");
    finish(command, None).expect(0);
    assert!(has_operator(&server.url()));
}

#[test]
fn who_starts_a_server_may_be_its_operator() {
    let folder = tempfile::tempdir().unwrap();
    let person = World::folder();
    let config = person.file("config");
    let server = Server::start_by(&folder.path().join("server.redb"), |mut command| {
        command.arg("--operator-self").env("BATON_CONFIG_DIR", &config);
        command
    });
    person.ok(&["pause", "job", "--reason", "to try it", "--store", &server.url()]);
    init(&server.url(), &[]).expect(6);
    let shared = format!("file:{}", person.store().display());
    let refused = person.call(&["serve", "--take-over", "--operator-self", "--store", &shared]).expect(2);
    assert!(refused.stderr.contains("--operator"), "{}", refused.stderr);
}
