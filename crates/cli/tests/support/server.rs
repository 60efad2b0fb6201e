//! A Baton server of a test's own. With `E2E_STORE=http` every world that is not told otherwise has one instead of a folder; with `E2E_STORE=unix`
//! it is reached at a Unix socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{HANG, baton};

/// Whether worlds have a server.
pub(crate) fn wanted() -> bool {
    std::env::var_os("E2E_STORE").is_some()
}

/// The server of a world, if worlds have one.
pub(crate) fn of_world(database: &Path) -> Option<Server> {
    let store = std::env::var("E2E_STORE").ok()?;
    match store.as_str() {
        "http" => Some(Server::start(database)),
        "unix" => Some(Server::at_socket(database, &[])),
        other => panic!("E2E_STORE is http or unix, not {other}"),
    }
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    database: PathBuf,
    address: String,
    /// `https` if it was given a certificate.
    scheme: &'static str,
}

/// Where what a server says is kept.
pub(crate) fn said(database: &Path) -> PathBuf {
    database.with_extension("said")
}

impl Server {
    /// Starts one on any free port.
    pub(crate) fn start(database: &Path) -> Server {
        Server::start_with(database, &[])
    }

    /// The same, with more arguments.
    pub(crate) fn start_with(database: &Path, more: &[&str]) -> Server {
        Server::at(database, "127.0.0.1:0", more)
    }

    /// At a Unix socket beside its file, and nowhere else.
    pub(crate) fn at_socket(database: &Path, more: &[&str]) -> Server {
        Server::at(database, &format!("unix:{}", database.with_extension("sock").display()), more)
    }

    fn at(database: &Path, address: &str, more: &[&str]) -> Server {
        Server::adapted(database, address, more, |command| command)
    }

    /// The same, on any free port, by another command than the plain one.
    pub(crate) fn start_by(database: &Path, adapt: impl FnOnce(Command) -> Command) -> Server {
        Server::adapted(database, "127.0.0.1:0", &[], adapt)
    }

    fn adapted(
        database: &Path,
        address: &str,
        more: &[&str],
        adapt: impl FnOnce(Command) -> Command,
    ) -> Server {
        let announced = database.with_extension("address");
        let _ = std::fs::remove_file(&announced);
        let mut command: Command = baton();
        command
            .args(["serve", "--listen", address, "--address-file"])
            .arg(&announced)
            .args(["--store", &format!("embedded:{}", database.display())])
            .args(more);
        let mut command = adapt(command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::options().create(true).append(true).open(said(database)).unwrap());
        let mut child = command.spawn().unwrap();
        let mut code = database.as_os_str().to_owned();
        code.push(".operator-code");
        let scheme = if more.contains(&"--tls-cert") { "https" } else { "http" };
        let begun = Instant::now();
        let address = loop {
            match std::fs::read_to_string(&announced) {
                Ok(text) if text.ends_with('\n') => break text.trim().to_string(),
                Ok(_) | Err(_) => assert!(begun.elapsed() < HANG, "the server does not start"),
            }
            // A server that comes back to its port may find that a connection has borrowed the port for a
            // moment.
            if !address.ends_with(":0") && child.try_wait().unwrap().is_some() {
                child = command.spawn().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let server = Server { child, database: database.to_path_buf(), address, scheme };
        super::codes().insert(server.url(), code.into());
        server
    }

    pub(crate) fn url(&self) -> String {
        match self.socket() {
            Some(_) => self.address.clone(),
            None => format!("{}://{}", self.scheme, self.address),
        }
    }

    /// The path of its socket, if it has no address.
    pub(crate) fn socket(&self) -> Option<&Path> {
        self.address.strip_prefix("unix:").map(Path::new)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The status and the body of an answer.
    pub(crate) fn ask(&self, method: &str, path: &str) -> (u16, String) {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        match self.socket() {
            Some(socket) => {
                let mut stream = UnixStream::connect(socket).unwrap();
                stream.set_read_timeout(Some(HANG)).unwrap();
                stream.write_all(head.as_bytes()).unwrap();
                stream.read_to_string(&mut answer).unwrap();
            }
            None => {
                let mut stream = TcpStream::connect(&self.address).unwrap();
                stream.set_read_timeout(Some(HANG)).unwrap();
                stream.write_all(head.as_bytes()).unwrap();
                stream.read_to_string(&mut answer).unwrap();
            }
        }
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
    }

    /// The answer to a POST with an access token, head and body.
    pub(crate) fn post(&self, path: &str, token: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// What CPU it has used.
    pub(crate) fn cpu(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 = [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// What memory it has, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().map_or(0, |kilobytes| kilobytes * 1_024)
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(&mut self) {
        super::processes::signal(self.child.id(), rustix::process::Signal::TERM);
        assert_eq!(super::exit_code(&mut self.child), Some(0));
    }

    /// Kills it, and starts it anew at the same address.
    pub(crate) fn crash(&mut self) {
        self.crash_for(Duration::ZERO);
    }

    /// The same, started again with these arguments.
    pub(crate) fn crash_with(&mut self, more: &[&str]) {
        self.kill();
        let (database, address) = (self.database.clone(), self.address.clone());
        *self = Server::at(&database, &address, more);
    }

    /// Kills it, and leaves it so.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The same, after a while.
    pub(crate) fn crash_for(&mut self, down: Duration) {
        self.kill();
        std::thread::sleep(down);
        let (database, address) = (self.database.clone(), self.address.clone());
        *self = Server::at(&database, &address, &[]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
