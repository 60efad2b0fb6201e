//! A receiver of webhooks, as a program without a library would be one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, channel};

use serde_json::Value;

/// What takes a delivery.
pub(crate) const TAKEN: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// What was posted: two of its headers, and the body as it came.
#[derive(Clone)]
pub(crate) struct Delivery {
    pub(crate) delivery: String,
    signature: String,
    body: String,
}

impl Delivery {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// As openssl has it.
    pub(crate) fn is_signed_with(&self, secret: &str) -> bool {
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

/// The file of a secret, which nobody else can read.
pub(crate) fn secret_file(path: &Path, secret: &str) -> String {
    std::fs::write(path, format!("{secret}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.display().to_string()
}

/// An answer with this status, such as `200 OK`, and body.
pub(crate) fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Listens at any free port of this machine. What is posted is told of, and then answered.
pub(crate) fn receiver(
    answer: impl Fn(&Delivery) -> String + Send + Sync + 'static,
) -> (String, mpsc::Receiver<Delivery>) {
    receive_at(TcpListener::bind("127.0.0.1:0").unwrap(), answer)
}

/// The same, at the port of a listener.
pub(crate) fn receive_at(
    listener: TcpListener,
    answer: impl Fn(&Delivery) -> String + Send + Sync + 'static,
) -> (String, mpsc::Receiver<Delivery>) {
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (sender, posted) = channel();
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (sender, answer) = (sender.clone(), Arc::clone(&answer));
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                while let Some(posted) = receive(&stream) {
                    // Nobody may want to know.
                    let _ = sender.send(posted.clone());
                    if stream.write_all(answer(&posted).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, posted)
}

fn receive(stream: &TcpStream) -> Option<Delivery> {
    let mut reader = BufReader::new(stream);
    let (mut delivery, mut signature, mut length) = (String::new(), String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("baton-delivery", value)) => delivery = value.to_string(),
            Some(("baton-signature", value)) => signature = value.to_string(),
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Delivery { delivery, signature, body: String::from_utf8(body).unwrap() })
}
