//! The server under load: what it does in a second, and what CPU each operation costs it.
//!
//! The load comes from this process, which shares the cores with the server: rates are lower than they would be with clients
//! elsewhere, and the CPU of the server beside them is the steadier figure. [`crate::peers`] measures the same beside others.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_election::{Credential, Incarnation, LeaseKey};
use serde_json::{Value, json};

use crate::calibrate;
use crate::figures::{Figure, short};
use crate::line::{Line, get, post};
use crate::process::Process;
use crate::rounds::{Clients, Rate, Tally, load};

/// Clients at the same time.
pub(crate) const CLIENTS: usize = 64;
/// Leases that are renewed.
pub(crate) const LEASES: usize = 10_000;
/// Renewals that are under way on one connection.
pub(crate) const UNDER_WAY: usize = 16;
/// Entries of a batch.
pub(crate) const BATCH: usize = 1_000;
/// Connections that send batches.
const BATCHERS: usize = 4;
/// Connections that take leases: the more there are, the more of them share a sync.
const FILLERS: usize = 512;
/// So long that no lease ends while it is measured.
const TTL_MS: u64 = 7_200_000;

/// A server of our own.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: String,
    /// `unix:/PATH`, where it listens too.
    socket: String,
}

impl Server {
    /// Starts one with nothing in it.
    pub(crate) fn start(baton: &Path, folder: &Path) -> std::io::Result<Server> {
        let announced = folder.join("address");
        let store = format!("embedded:{}", folder.join("server.redb").display());
        let socket = format!("unix:{}", folder.join("s").display());
        let mut command = Command::new(baton);
        command
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--listen",
                &socket,
                "--store",
                &store,
                "--address-file",
            ])
            .arg(&announced);
        let mut process = Process::start(&mut command, &folder.join("server.log"))?;
        let address = process.await_for("the server", || {
            let text = std::fs::read_to_string(&announced).ok()?;
            Some(text.trim().to_string()).filter(|address| !address.is_empty())
        })?;
        Ok(Server { process, address, socket })
    }

    /// So many clients, each of which takes an election of its own and gives it back.
    pub(crate) async fn pairs(&self, clients: usize) -> std::io::Result<Rate> {
        let (tally, mut tasks) = (Arc::<Tally>::default(), Clients::new());
        for client in 0..clients {
            tasks.spawn(take_and_give_back(client, Line::open(&self.address).await?, Arc::clone(&tally)));
        }
        load(&self.process, &tally, tasks).await
    }

    /// Renewals of [`LEASES`] that were taken before, one per message, so many under way on each connection.
    pub(crate) async fn renewals(&self, under_way: usize) -> std::io::Result<Rate> {
        self.renewals_at(&self.address, under_way).await
    }

    async fn renewals_at(&self, place: &str, under_way: usize) -> std::io::Result<Rate> {
        let (tally, mut tasks) = (Arc::<Tally>::default(), Clients::new());
        for client in 0..CLIENTS {
            let mut line = Line::open(place).await?;
            let tally = Arc::clone(&tally);
            let requests: Vec<Vec<u8>> = (client..LEASES).step_by(CLIENTS).map(renewal).collect();
            tasks.spawn(async move {
                let mut next = requests.iter().cycle();
                let mut sent = Vec::new();
                let mut room = under_way;
                loop {
                    sent.clear();
                    next.by_ref().take(room).for_each(|request| sent.extend_from_slice(request));
                    line.send(&sent).await?;
                    room = line.answers().await?;
                    if !tally.add(room as u64) {
                        return Ok(());
                    }
                }
            });
        }
        load(&self.process, &tally, tasks).await
    }

    /// The same renewals, many per message.
    pub(crate) async fn batches(&self) -> std::io::Result<Rate> {
        let (tally, mut tasks) = (Arc::<Tally>::default(), Clients::new());
        let requests: Arc<Vec<Vec<u8>>> = Arc::new((0..LEASES / BATCH).map(batch).collect());
        for client in 0..BATCHERS {
            let mut line = Line::open(&self.address).await?;
            let (tally, requests) = (Arc::clone(&tally), Arc::clone(&requests));
            tasks.spawn(async move {
                for number in client.. {
                    let answers = line.done(&requests[number % requests.len()]).await?;
                    if answers.windows(8).filter(|part| part == b"\"renewed").count() != BATCH {
                        return Err(std::io::Error::other("not all of a batch were renewed"));
                    }
                    if !tally.add(BATCH as u64) {
                        break;
                    }
                }
                Ok(())
            });
        }
        load(&self.process, &tally, tasks).await
    }

    /// Reads of the current leader.
    pub(crate) async fn reads(&self) -> std::io::Result<Rate> {
        let (tally, mut tasks) = (Arc::<Tally>::default(), Clients::new());
        for client in 0..CLIENTS {
            let mut line = Line::open(&self.address).await?;
            let tally = Arc::clone(&tally);
            let request = get(&format!("/v1/elections/lease-{client}/leader"));
            tasks.spawn(async move {
                loop {
                    line.done(&request).await?;
                    if !tally.add(1) {
                        return Ok(());
                    }
                }
            });
        }
        load(&self.process, &tally, tasks).await
    }

    /// Takes so many leases.
    pub(crate) async fn fill(&self, leases: std::ops::Range<usize>) -> std::io::Result<()> {
        let next = Arc::new(AtomicUsize::new(leases.start));
        let mut tasks = Clients::new();
        for _ in 0..FILLERS {
            let (next, end) = (Arc::clone(&next), leases.end);
            let mut line = Line::open(&self.address).await?;
            tasks.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        return Ok(());
                    }
                    line.done(&acquire(&format!("lease-{number}"), number, TTL_MS, 0)).await?;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(std::io::Error::other)??;
        }
        Ok(())
    }
}

async fn take_and_give_back(client: usize, mut line: Line, tally: Arc<Tally>) -> std::io::Result<()> {
    let name = format!("pair-{client}");
    // Each time a new life: the same one is not granted twice what it gave back.
    for number in (10_000_000 * (client + 1)).. {
        let epoch = epoch(line.done(&acquire(&name, number, TTL_MS, 0)).await?)?;
        line.done(&release(&name, number, epoch)).await?;
        if !tally.add(1) {
            break;
        }
    }
    Ok(())
}

/// Who the holder of this number is.
pub(crate) fn credential(number: usize) -> Credential {
    let mut key = [7; 16];
    key[..8].copy_from_slice(&(number as u64).to_le_bytes());
    Credential { incarnation: Incarnation((number as u64 + 1).to_le_bytes()), key: LeaseKey(key) }
}

/// Asks for an election, and waits in line for it for so long.
pub(crate) fn acquire(election: &str, number: usize, ttl_ms: u64, wait_ms: u64) -> Vec<u8> {
    let credential = credential(number);
    let body = json!({ "agent": format!("agent-{number}"), "incarnation": credential.incarnation,
                       "key_hash": credential.key.hash(), "ttl_ms": ttl_ms });
    let query = if wait_ms > 0 { format!("?wait_ms={wait_ms}") } else { String::new() };
    post(&format!("/v1/elections/{election}/acquire{query}"), &body.to_string())
}

/// Gives an election back.
pub(crate) fn release(election: &str, number: usize, epoch: u64) -> Vec<u8> {
    let body = json!({ "token": epoch, "credential": credential(number) });
    post(&format!("/v1/elections/{election}/release"), &body.to_string())
}

/// Renews an election, or claims what was offered.
pub(crate) fn renew(election: &str, number: usize, epoch: u64) -> Vec<u8> {
    let body = json!({ "token": epoch, "credential": credential(number) });
    post(&format!("/v1/elections/{election}/renew"), &body.to_string())
}

fn renewal(number: usize) -> Vec<u8> {
    renew(&format!("lease-{number}"), number, 1)
}

fn batch(number: usize) -> Vec<u8> {
    let item = |number: usize| json!({ "election": format!("lease-{number}"), "renew": { "token": 1, "credential": credential(number) } });
    let items = (number * BATCH..(number + 1) * BATCH).map(item).collect();
    post("/v1/batch", &Value::Array(items).to_string())
}

/// The token that was granted: the first in an answer.
pub(crate) fn epoch(body: &[u8]) -> std::io::Result<u64> {
    const NAME: &[u8] = b"\"token\":";
    let at = body.windows(NAME.len()).position(|part| part == NAME).map(|at| at + NAME.len());
    let digits = at.map(|at| body[at..].iter().take_while(|byte| byte.is_ascii_digit()));
    let digits: String = digits.into_iter().flatten().map(|byte| char::from(*byte)).collect();
    digits.parse().map_err(|_| {
        std::io::Error::other(format!("an answer without a token: {}", String::from_utf8_lossy(body)))
    })
}

/// All of it, once.
pub(crate) fn measure(baton: &Path) -> std::io::Result<Vec<Figure>> {
    let folder = calibrate::scratch()?;
    let server = Server::start(baton, folder.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut figures = Vec::new();
        let mut note = |what: &str, rate: Rate| {
            let cpu = short(rate.cpu);
            let beside = format!("{:.0}/s, {cpu} of the server's CPU each", rate.per_second);
            figures.push(Figure::note(what, beside));
        };
        note("server: durable acquire + release, 64 clients", server.pairs(CLIENTS).await?);
        note("server: durable acquire + release, 1 client", server.pairs(1).await?);
        server.fill(0..LEASES).await?;
        note("server: renewals, one per message, 16 under way", server.renewals(UNDER_WAY).await?);
        let over_tcp = server.renewals(1).await?;
        let over_socket = server.renewals_at(&server.socket, 1).await?;
        let times = format!("{:.2} times", over_socket.per_second / over_tcp.per_second);
        note("server: renewals, one per message, 1 under way", over_tcp);
        note("server: the same at a Unix socket", over_socket);
        note("server: renewals, 1,000 per message", server.batches().await?);
        note("server: who leads", server.reads().await?);
        figures.push(Figure::note("server: a Unix socket beside TCP, renewals in a second", times));
        server.fill(LEASES..100_000).await?;
        let megabytes = server.process.memory()? as f64 / 1e6;
        figures.push(Figure::note("server: memory at 100,000 leases", format!("{megabytes:.0} MB")));
        Ok(figures)
    })
}
