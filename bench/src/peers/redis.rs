//! Redis with `appendfsync always`, asked by its own protocol, one connection for each client.
//!
//! A lock is what its documentation recommends for one server: `SET NX PX` with a value of the holder's own, given back by a
//! script that deletes it only if it still has that value. It has no token that rises, and no history.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::free_port;
use crate::crashes::told;
use crate::process::Process;
use crate::rounds::{Clients, Rate, Tally, load};

const GIVE_BACK: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

/// A Redis of our own.
pub(crate) struct Redis {
    process: Process,
    address: String,
}

impl Redis {
    /// Starts one with nothing in it.
    pub(crate) fn start(folder: &Path) -> std::io::Result<Redis> {
        let port = free_port()?;
        let data = folder.join("redis.data");
        std::fs::create_dir(&data)?;
        let mut command = program()?;
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"]).arg(data);
        command.args(["--appendonly", "yes", "--appendfsync", "always", "--save", ""]);
        let mut process = Process::start(&mut command, &folder.join("redis.log"))?;
        let address = format!("127.0.0.1:{port}");
        process.await_for("Redis", || std::net::TcpStream::connect(&address).ok())?;
        Ok(Redis { process, address })
    }

    /// So many clients, each of which takes a lock of its own and gives it back.
    pub(crate) async fn pairs(&self, clients: usize) -> std::io::Result<Rate> {
        let (tally, mut tasks) = (Arc::<Tally>::default(), Clients::new());
        let mut first = Connection::open(&self.address).await?;
        let script = first.ask(&command(&["SCRIPT", "LOAD", GIVE_BACK])).await?.to_string();
        for client in 0..clients {
            let mut connection = Connection::open(&self.address).await?;
            let (tally, script, key) = (Arc::clone(&tally), script.clone(), format!("pair-{client}"));
            tasks.spawn(async move {
                for number in 0_u64.. {
                    let value = format!("agent-{client}-{number}");
                    let take = command(&["SET", &key, &value, "NX", "PX", "7200000"]);
                    expect(connection.ask(&take).await?, "+OK")?;
                    let give_back = command(&["EVALSHA", &script, "1", &key, &value]);
                    expect(connection.ask(&give_back).await?, ":1")?;
                    if !tally.add(1) {
                        break;
                    }
                }
                Ok(())
            });
        }
        load(&self.process, &tally, tasks).await
    }
}

/// The server, with the libraries that it came with.
pub(crate) fn program() -> std::io::Result<Command> {
    let mut command = Command::new(told("BATON_TEST_REDIS_SERVER")?);
    command.env("LD_LIBRARY_PATH", std::env::var("BATON_TEST_REDIS_LIBRARIES").unwrap_or_default());
    Ok(command)
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

fn expect(answer: &str, expected: &str) -> std::io::Result<()> {
    match answer == expected {
        true => Ok(()),
        false => Err(std::io::Error::other(format!("Redis said {answer} instead of {expected}"))),
    }
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: Vec::new() })
    }

    /// The answer: a line, or the text that follows its length.
    async fn ask(&mut self, command: &[u8]) -> std::io::Result<&str> {
        self.stream.write_all(command).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let lines = self.buffer.iter().filter(|byte| **byte == b'\n').count();
            let wanted = if self.buffer.starts_with(b"$") && !self.buffer.starts_with(b"$-") { 2 } else { 1 };
            if lines >= wanted && self.buffer.ends_with(b"\r\n") {
                break;
            }
        }
        let text =
            std::str::from_utf8(&self.buffer).map_err(|_| std::io::Error::from(ErrorKind::InvalidData))?;
        text.trim_end().rsplit("\r\n").next().ok_or_else(|| ErrorKind::InvalidData.into())
    }
}
