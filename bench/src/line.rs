//! HTTP/1.1 on one connection, as cheap as it can be had: the load shares the cores with the server that is measured.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// One connection.
pub(crate) struct Line {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    /// How much of the buffer was taken.
    taken: usize,
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// Where an answer stands in the buffer.
struct Found {
    status: u16,
    body: std::ops::Range<usize>,
}

impl Line {
    /// To `ADDRESS:PORT`, or to `unix:/PATH`.
    pub(crate) async fn open(place: &str) -> std::io::Result<Line> {
        let stream: Box<dyn Stream> = match place.strip_prefix("unix:") {
            Some(path) => Box::new(UnixStream::connect(path).await?),
            None => {
                let stream = TcpStream::connect(place).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        Ok(Line { stream, buffer: Vec::with_capacity(8 * 1024), taken: 0 })
    }

    /// Sends one request or several.
    pub(crate) async fn send(&mut self, requests: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(requests).await
    }

    /// Sends a request, and waits for its answer.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> std::io::Result<(u16, &[u8])> {
        self.send(request).await?;
        self.answer().await
    }

    /// Sends a request that must succeed.
    pub(crate) async fn done(&mut self, request: &[u8]) -> std::io::Result<&[u8]> {
        match self.ask(request).await? {
            (200, body) => Ok(body),
            (status, body) => Err(failed(status, body)),
        }
    }

    /// Waits for the next answer.
    pub(crate) async fn answer(&mut self) -> std::io::Result<(u16, &[u8])> {
        loop {
            if let Some(Found { status, body }) = self.take() {
                return Ok((status, &self.buffer[body]));
            }
            self.read().await?;
        }
    }

    /// Waits for answers, and takes all that are there. Each must be a success.
    pub(crate) async fn answers(&mut self) -> std::io::Result<usize> {
        let mut count = 0;
        loop {
            while let Some(Found { status, body }) = self.take() {
                if status != 200 {
                    return Err(failed(status, &self.buffer[body]));
                }
                count += 1;
            }
            if count > 0 {
                return Ok(count);
            }
            self.read().await?;
        }
    }

    /// Waits until a stream has said this since it was last asked.
    #[cfg(feature = "etcd")]
    pub(crate) async fn hears(&mut self, text: &[u8]) -> std::io::Result<()> {
        loop {
            let said = &self.buffer[self.taken..];
            if let Some(at) = said.windows(text.len()).position(|part| part == text) {
                self.taken += at + text.len();
                return Ok(());
            }
            // What was looked at already is not looked at again, but for a part at its end.
            self.taken = self.buffer.len().saturating_sub(text.len()).max(self.taken);
            self.read().await?;
        }
    }

    async fn read(&mut self) -> std::io::Result<()> {
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
        }
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    fn take(&mut self) -> Option<Found> {
        let rest = &self.buffer[self.taken..];
        let begins = rest.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&rest[..begins]).ok()?;
        let status = head.get(9..12)?.parse().ok()?;
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
        });
        let ends = begins + length.unwrap_or(0);
        if rest.len() < ends {
            return None;
        }
        let body = self.taken + begins..self.taken + ends;
        self.taken += ends;
        Some(Found { status, body })
    }
}

fn failed(status: u16, body: &[u8]) -> std::io::Error {
    std::io::Error::other(format!("{status}: {}", String::from_utf8_lossy(body)))
}

/// A request that says what is to be done.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A request that only asks.
pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}
