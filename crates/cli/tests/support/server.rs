//! A Baton server of a test's own. With `E2E_STORE=http` every world that is not told otherwise has one instead of a folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{HANG, baton};

/// Whether worlds have a server.
pub(crate) fn wanted() -> bool {
    std::env::var_os("E2E_STORE").is_some_and(|store| store == "http")
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

    fn at(database: &Path, address: &str, more: &[&str]) -> Server {
        let announced = database.with_extension("address");
        let _ = std::fs::remove_file(&announced);
        let mut command: Command = baton();
        command
            .args(["serve", "--listen", address, "--address-file"])
            .arg(&announced)
            .args(["--store", &format!("embedded:{}", database.display())])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::options().create(true).append(true).open(said(database)).unwrap());
        let child = command.spawn().unwrap();
        let scheme = if more.contains(&"--tls-cert") { "https" } else { "http" };
        let begun = Instant::now();
        let address = loop {
            match std::fs::read_to_string(&announced) {
                Ok(text) if text.ends_with('\n') => break text.trim().to_string(),
                Ok(_) | Err(_) => assert!(begun.elapsed() < HANG, "the server does not start"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Server { child, database: database.to_path_buf(), address, scheme }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(&mut self) {
        super::processes::signal(self.child.id(), rustix::process::Signal::TERM);
        assert_eq!(super::exit_code(&mut self.child), Some(0));
    }

    /// Kills it, and starts it anew at the same address.
    pub(crate) fn crash(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
