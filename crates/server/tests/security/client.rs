//! A client that can say anything.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// A bound on a hang, not an expectation.
pub(crate) const HANG: Duration = Duration::from_secs(180);

/// What was answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a problem; empty if it is none.
    pub(crate) fn code(&self) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["code"].as_str().unwrap_or_default().to_string()
    }
}

/// The text of a request.
pub(crate) fn request(method: &str, path: &str, token: Option<&str>, body: Option<&Value>) -> String {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    if let Some(token) = token {
        text.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    let body = body.map(Value::to_string).unwrap_or_default();
    if method == "POST" {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    format!("{text}\r\n{body}")
}

/// Sends a text, and returns what is answered: of a stream, only what comes with its head.
pub(crate) async fn send(address: SocketAddr, text: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    tokio::time::timeout(HANG, receive(&mut stream)).await.unwrap()
}

/// The same over a Unix socket.
pub(crate) async fn send_locally(socket: &Path, text: &str) -> Answer {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    tokio::time::timeout(HANG, receive(&mut stream)).await.unwrap()
}

/// One answer.
pub(crate) async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Answer {
    let mut bytes = Vec::new();
    loop {
        if let Some(answer) = whole(&bytes) {
            return answer;
        }
        let mut more = [0; 16 * 1024];
        let count = stream.read(&mut more).await.unwrap_or(0);
        assert!(count > 0, "it broke off after {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&more[..count]);
    }
}

fn whole(bytes: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if length.is_some_and(|length| body.len() < length) {
        return None;
    }
    Some(Answer { status, head: head.to_ascii_lowercase(), body: body.to_string() })
}

pub(crate) async fn get(address: SocketAddr, path: &str, token: Option<&str>) -> Answer {
    send(address, &request("GET", path, token, None)).await
}

pub(crate) async fn post(address: SocketAddr, path: &str, token: Option<&str>, body: &Value) -> Answer {
    send(address, &request("POST", path, token, Some(body))).await
}
