//! `baton serve --webhook`: another program is told of every change of leader.
#![allow(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;
use support::server::Server;
use support::{HANG, World};

const SECRET: &str = "a secret that only the two of them know";

/// What was posted: the signature, and the body as it came.
struct Posted {
    signature: String,
    body: String,
}

impl Posted {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// As a receiver without a library would: with openssl.
    fn is_signed(&self) -> bool {
        self.is_signed_with(SECRET)
    }

    fn is_signed_with(&self, secret: &str) -> bool {
        let (seconds, signature) = self.signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
        let mut openssl = Command::new("openssl")
            .args(["dgst", "-sha256", "-hmac", secret])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        write!(openssl.stdin.take().unwrap(), "{seconds}.{}", self.body).unwrap();
        let said = String::from_utf8(openssl.wait_with_output().unwrap().stdout).unwrap();
        said.trim().ends_with(signature)
    }
}

/// A receiver that takes everything.
fn receiver() -> (String, Receiver<Posted>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, posted) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                while let Some(posted) = receive(stream.as_ref().unwrap()) {
                    if sender.send(posted).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, posted)
}

/// The next change of leader that was posted. The server's own warnings, of which there may be some, are signed as well.
fn next_change(posted: &Receiver<Posted>) -> Posted {
    loop {
        let told = posted.recv_timeout(HANG).unwrap();
        assert!(told.is_signed(), "{}", told.signature);
        if told.json()["type"] == "transition" {
            return told;
        }
    }
}

fn receive(mut stream: &TcpStream) -> Option<Posted> {
    let mut reader = BufReader::new(stream);
    let (mut signature, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("baton-signature", value)) => signature = value.to_string(),
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").ok()?;
    Some(Posted { signature, body: String::from_utf8(body).unwrap() })
}

#[test]
fn every_change_of_leader_is_posted_and_signed_also_the_last_before_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, format!("{SECRET}\n")).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let (url, posted) = receiver();
    let arguments = ["--webhook", &url, "--webhook-secret-file", secret.to_str().unwrap()];
    let mut server = Server::start_with(&folder.path().join("server.redb"), &arguments);
    let world = World::on(&server.url());
    world.ok(&["acquire", "e", "--as", "a", "--ttl", "1h"]);
    world.ok(&["renew", "e", "--as", "a"]);
    world.ok(&["checkpoint", "e", "--as", "a", "--summary", "half of it"]);
    world.ok(&["pass", "e", "b", "--as", "a"]);
    world.ok(&["acquire", "e", "--as", "b", "--ttl", "1h"]);
    let mut runs = Vec::new();
    for (epoch, cause, leader) in [(1, "first", "a"), (2, "pass", "b")] {
        let told = next_change(&posted).json();
        assert_eq!((&told["election"], &told["epoch"]), (&"e".into(), &epoch.into()), "{told}");
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
    let files = ["first", "second"].map(|name| folder.path().join(name));
    for (file, secret) in files.iter().zip(secrets) {
        fs::write(file, secret).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let (receivers, files) = ([receiver(), receiver()], files.map(|file| file.display().to_string()));
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
