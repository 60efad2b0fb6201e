//! `baton serve --webhook`: another program is told of every change of leader.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::mpsc::Receiver;

use crate::support::receiver::{Delivery, TAKEN, receiver, secret_file};
use crate::support::server::Server;
use crate::support::{HANG, World};

const SECRET: &str = "a secret that only the two of them know";

/// The next change of leader that was posted. The server's own warnings, of which there may be some, are signed as well.
fn next_change(posted: &Receiver<Delivery>) -> Delivery {
    loop {
        let told = posted.recv_timeout(HANG).unwrap();
        assert!(told.is_signed_with(SECRET), "{}", told.json());
        if told.json()["type"] == "transition" {
            return told;
        }
    }
}

#[test]
fn every_change_of_leader_is_posted_and_signed_also_the_last_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let secret = secret_file(&folder.path().join("secret"), SECRET);
    let (url, posted) = receiver(|_| TAKEN.to_string());
    let arguments = ["--webhook", &url, "--webhook-secret-file", &secret];
    let mut server = Server::start_with(&folder.path().join("server.redb"), &arguments);
    let world = World::on(&server.url());
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.ok(&["renew", "e", "--as", "a"]);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "half of it"]);
    world.ok(&["release", "e", "--to", "b", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "1h"]);
    let mut runs = Vec::new();
    for (epoch, cause, leader) in [(1, "first", "a"), (2, "pass", "b")] {
        let told = next_change(&posted).json();
        assert_eq!((&told["election"], &told["token"]), (&"e".into(), &epoch.into()), "{told}");
        assert_eq!((&told["cause"], &told["leader"]), (&cause.into(), &leader.into()), "{told}");
        runs.push(told["server"].clone());
    }
    assert_eq!(runs[0], runs[1]);
    world.ok(&["acquire", "last", "--as", "c"]);
    server.stop();
    assert_eq!(next_change(&posted).json()["election"], "last");
}

#[test]
fn each_receiver_can_have_a_secret_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let secrets = ["only the first knows it", "only the second knows it"];
    let file = |number: usize| secret_file(&folder.path().join(number.to_string()), secrets[number]);
    let (receivers, files) = ([0, 1].map(|_| receiver(|_| TAKEN.to_string())), [file(0), file(1)]);
    let hook = |number: usize| {
        ["--webhook", receivers[number].0.as_str(), "--webhook-secret-file", files[number].as_str()]
    };
    let arguments = [hook(0), hook(1)].concat();
    let server = Server::start_with(&folder.path().join("server.redb"), &arguments);
    let world = World::on(&server.url());
    world.ok(&["acquire", "e", "--as", "a"]);
    for (number, (_, posted)) in receivers.iter().enumerate() {
        let told = posted.recv_timeout(HANG).unwrap();
        assert!(told.is_signed_with(secrets[number]) && !told.is_signed_with(secrets[1 - number]));
    }
    let url = receivers[0].0.as_str();
    let three = [&["serve"], &arguments[..], &["--webhook", url]].concat();
    let refused = world.call(&three).expect(2);
    assert!(refused.stderr.contains("3 webhooks do not fit 2 secrets"), "{}", refused.stderr);
}
