//! The server under load: what it does in a second, and what CPU each operation costs it.
//!
//! The load comes from this process, which shares the cores with the server: rates are lower than they would be with clients
//! elsewhere, and the CPU of the server beside them is the steadier figure.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use baton_election::{Credential, Incarnation, LeaseKey};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::calibrate;
use crate::figures::{Figure, short};

/// How long each kind of load lasts.
const LASTS: Duration = Duration::from_secs(3);
/// Clients at the same time.
const CLIENTS: usize = 64;
/// Leases that are renewed.
const LEASES: usize = 10_000;
/// Entries of a batch.
const BATCH: usize = 1_000;

/// A server of our own.
struct Server {
    child: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(baton: &Path, folder: &Path) -> std::io::Result<Server> {
        let announced = folder.join("address");
        let store = format!("embedded:{}", folder.join("server.redb").display());
        let mut command = Command::new(baton);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--store", &store, "--address-file"])
            .arg(&announced);
        let child = command.stdout(Stdio::null()).spawn()?;
        let mut server = Server { child, address: String::new() };
        let begun = Instant::now();
        while server.address.is_empty() {
            if begun.elapsed() > Duration::from_secs(20) {
                return Err(std::io::Error::other("the server does not start"));
            }
            std::thread::sleep(Duration::from_millis(10));
            server.address = std::fs::read_to_string(&announced).unwrap_or_default().trim().to_string();
        }
        Ok(server)
    }

    /// What CPU it has used.
    fn cpu(&self) -> std::io::Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
        Ok(Duration::from_millis(ticks * 10))
    }

    /// What memory it has, in bytes.
    fn memory(&self) -> std::io::Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
        Ok(kilobytes.unwrap_or(0) * 1024)
    }
}

/// One connection, one request at a time.
struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Line {
    async fn open(address: &str) -> std::io::Result<Line> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Line { stream, buffer: Vec::with_capacity(64 * 1024) })
    }

    async fn post(&mut self, path: &str, body: &str) -> std::io::Result<(u16, &[u8])> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.ask(&[head.as_bytes(), body.as_bytes()].concat()).await
    }

    async fn get(&mut self, path: &str) -> std::io::Result<(u16, &[u8])> {
        self.ask(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await
    }

    async fn ask(&mut self, request: &[u8]) -> std::io::Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let mut end = None;
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            if end.is_none() {
                end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
            }
            let Some(end) = end else { continue };
            let head = String::from_utf8_lossy(&self.buffer[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            if self.buffer.len() >= end + length {
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
                return Ok((status, &self.buffer[end..]));
            }
        }
    }
}

fn credential(number: usize) -> Credential {
    let mut key = [7; 16];
    key[..8].copy_from_slice(&(number as u64).to_le_bytes());
    Credential { incarnation: Incarnation((number as u64 + 1).to_le_bytes()), key: LeaseKey(key) }
}

fn acquire(number: usize) -> Value {
    let credential = credential(number);
    json!({ "agent": format!("agent-{number}"), "incarnation": credential.incarnation,
            "key_hash": credential.key.hash(), "ttl_ms": 600_000 })
}

/// What came of a load.
struct Rate {
    count: u64,
    took: Duration,
    cpu: Duration,
}

impl Rate {
    fn figure(&self, what: &str) -> Figure {
        let each = self.cpu.div_f64((self.count as f64).max(1.0));
        let rate = self.count as f64 / self.took.as_secs_f64();
        Figure::note(what, format!("{rate:.0}/s, {} of the server's CPU each", short(each)))
    }
}

/// Lets so many clients ask until the time is over. Each counts what it got done.
async fn load<F>(
    server: &Server,
    clients: usize,
    work: impl Fn(usize, Line, Arc<AtomicU64>) -> F,
) -> std::io::Result<Rate>
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    let done = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for client in 0..clients {
        tasks.spawn(work(client, Line::open(&server.address).await?, Arc::clone(&done)));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (cpu, count, begun) = (server.cpu()?, done.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(LASTS).await;
    let rate = Rate {
        count: done.load(Ordering::Relaxed) - count,
        took: begun.elapsed(),
        cpu: server.cpu()?.saturating_sub(cpu),
    };
    tasks.shutdown().await;
    Ok(rate)
}

fn expect(answer: (u16, &[u8])) -> std::io::Result<&[u8]> {
    match answer {
        (200, body) => Ok(body),
        (status, body) => Err(std::io::Error::other(format!("{status}: {}", String::from_utf8_lossy(body)))),
    }
}

fn epoch(body: &[u8]) -> Value {
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    told["answer"]["epoch"].clone()
}

async fn acquire_and_release(client: usize, mut line: Line, done: Arc<AtomicU64>) -> std::io::Result<()> {
    let path = format!("/v1/elections/pair-{client}");
    // Each time a new life: the same one is not granted twice what it gave back.
    for number in (1_000_000 * (client + 1)).. {
        let body = expect(line.post(&format!("{path}/acquire"), &acquire(number).to_string()).await?)?;
        let epoch = epoch(body);
        let release = json!({ "epoch": epoch, "credential": credential(number) }).to_string();
        expect(line.post(&format!("{path}/release"), &release).await?)?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// All of it.
pub(crate) fn measure(baton: &Path) -> std::io::Result<Vec<Figure>> {
    let folder = calibrate::scratch()?;
    let server = Server::start(baton, folder.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut figures = Vec::new();
        let many = load(&server, CLIENTS, acquire_and_release).await?;
        figures.push(many.figure("server: durable acquire + release, 64 clients"));
        let one = load(&server, 1, acquire_and_release).await?;
        figures.push(one.figure("server: durable acquire + release, 1 client"));
        fill(&server, 0..LEASES).await?;
        let next = Arc::new(AtomicUsize::new(0));
        let renewals = load(&server, CLIENTS, |_, mut line, done| {
            let next = Arc::clone(&next);
            async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed) % LEASES;
                    let body = json!({ "epoch": 1, "credential": credential(number) }).to_string();
                    expect(line.post(&format!("/v1/elections/lease-{number}/renew"), &body).await?)?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        figures.push(renewals.await?.figure("server: renewals, one per message, 10,000 leases"));
        let batches: Arc<Vec<String>> = Arc::new((0..LEASES / BATCH).map(batch).collect());
        let batched = load(&server, 4, |client, mut line, done| {
            let batches = Arc::clone(&batches);
            async move {
                for number in client.. {
                    expect(line.post("/v1/batch", &batches[number % batches.len()]).await?)?;
                    done.fetch_add(BATCH as u64, Ordering::Relaxed);
                }
                Ok(())
            }
        });
        figures.push(batched.await?.figure("server: renewals, 1,000 per message"));
        let leaders = load(&server, CLIENTS, |client, mut line, done| async move {
            loop {
                expect(line.get(&format!("/v1/elections/lease-{client}/leader")).await?)?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        figures.push(leaders.await?.figure("server: who leads"));
        fill(&server, LEASES..100_000).await?;
        let megabytes = server.memory()? as f64 / 1e6;
        figures.push(Figure::note("server: memory at 100,000 leases", format!("{megabytes:.0} MB")));
        Ok(figures)
    })
}

fn batch(number: usize) -> String {
    let item = |number: usize| json!({ "election": format!("lease-{number}"), "renew": { "epoch": 1, "credential": credential(number) } });
    Value::Array((number * BATCH..(number + 1) * BATCH).map(item).collect()).to_string()
}

/// Takes so many leases.
async fn fill(server: &Server, leases: std::ops::Range<usize>) -> std::io::Result<()> {
    let next = Arc::new(AtomicUsize::new(leases.start));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (next, end) = (Arc::clone(&next), leases.end);
        let mut line = Line::open(&server.address).await?;
        tasks.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return Ok::<_, std::io::Error>(());
                }
                let body = acquire(number).to_string();
                expect(line.post(&format!("/v1/elections/lease-{number}/acquire"), &body).await?)?;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(std::io::Error::other)??;
    }
    Ok(())
}
