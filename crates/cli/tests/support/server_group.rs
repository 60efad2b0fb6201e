//! Several Baton servers on one store, to be killed and stopped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::{baton, exit_code, processes, until};

/// How long one who is asked may take. One that is stopped does not answer at all.
const ANSWER: Duration = Duration::from_millis(500);

/// One of them, over all its lives.
struct Member {
    child: Option<Child>,
    /// Once it has one, it keeps it.
    address: String,
    announced: PathBuf,
    /// The format that it speaks, if it is a newer program.
    rehearsed: Option<&'static str>,
}

/// All of them. Killed when it is dropped.
pub(crate) struct ServerGroup {
    store: String,
    arguments: Vec<String>,
    folder: PathBuf,
    members: Vec<Member>,
}

impl ServerGroup {
    pub(crate) fn start(folder: &Path, store: &str, count: usize, arguments: &[&str]) -> ServerGroup {
        let member = |number: usize| Member {
            child: None,
            address: "127.0.0.1:0".to_string(),
            announced: folder.join(format!("server-{number}.address")),
            rehearsed: None,
        };
        let mut several = ServerGroup {
            store: store.to_string(),
            arguments: arguments.iter().map(ToString::to_string).collect(),
            folder: folder.to_path_buf(),
            members: (0..count).map(member).collect(),
        };
        for number in 0..count {
            several.run(number);
        }
        several
    }

    /// Starts one, where it was before.
    pub(crate) fn run(&mut self, number: usize) {
        let log = self.folder.join(format!("server-{number}.log"));
        let log = std::fs::File::options().append(true).create(true).open(log).unwrap();
        let member = &mut self.members[number];
        let _ = std::fs::remove_file(&member.announced);
        let mut command = baton();
        command
            .args([
                "serve",
                "--take-over",
                "--store",
                &self.store,
                "--listen",
                &member.address,
                "--address-file",
            ])
            .arg(&member.announced)
            .args(&self.arguments)
            .envs(member.rehearsed.map(|format| ("BATON_REHEARSE_FORMAT", format)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let mut child = command.spawn().unwrap();
        let mut address = String::new();
        until("the server starts", || {
            // Its port may be that of somebody's connection for a moment: such numbers are lent out.
            if child.try_wait().unwrap().is_some() {
                child = command.spawn().unwrap();
            }
            address = std::fs::read_to_string(&member.announced).unwrap_or_default();
            address.ends_with('\n')
        });
        member.child = Some(child);
        member.address = address.trim().to_string();
    }

    /// From its next start on, one is a newer program, which speaks this format.
    pub(crate) fn rehearse(&mut self, number: usize, format: &'static str) {
        self.members[number].rehearsed = Some(format);
    }

    pub(crate) fn url(&self) -> String {
        let addresses: Vec<&str> = self.members.iter().map(|member| member.address.as_str()).collect();
        let tls = self.arguments.iter().any(|argument| argument == "--tls-cert");
        format!("{}://{}", if tls { "https" } else { "http" }, addresses.join(","))
    }

    pub(crate) fn address(&self, number: usize) -> &str {
        &self.members[number].address
    }

    /// Which one is reached there.
    pub(crate) fn at(&self, contact: &str) -> usize {
        self.members.iter().position(|member| contact.ends_with(&member.address)).unwrap()
    }

    /// The one that answers for elections, once there is one. With `but`, another than this.
    pub(crate) fn active(&self, but: Option<usize>) -> usize {
        let mut active = None;
        until("a server is active", || {
            let mut others = (0..self.members.len()).filter(|number| Some(*number) != but);
            active = others.find(|number| self.status(*number, "/v1/elections") == Some(200));
            active.is_some()
        });
        active.unwrap()
    }

    /// What one answers, if it does.
    pub(crate) fn status(&self, number: usize, path: &str) -> Option<u16> {
        let address: SocketAddr = self.members[number].address.parse().unwrap();
        let mut stream = TcpStream::connect_timeout(&address, ANSWER).ok()?;
        stream.set_read_timeout(Some(ANSWER)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut text = [0; 12];
        stream.read_exact(&mut text).ok()?;
        std::str::from_utf8(&text).ok()?.split(' ').nth(1)?.parse().ok()
    }

    fn child(&mut self, number: usize) -> &mut Child {
        self.members[number].child.as_mut().unwrap()
    }

    pub(crate) fn kill(&mut self, number: usize) {
        let child = self.child(number);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn signal(&mut self, number: usize, signal: Signal) {
        processes::signal(self.child(number).id(), signal);
    }

    /// Asks one to stop, and waits until it has.
    pub(crate) fn stop(&mut self, number: usize) {
        self.signal(number, Signal::TERM);
        assert_eq!(exit_code(self.child(number)), Some(0));
    }

    /// What they said, for a test that failed.
    pub(crate) fn logs(&self) -> String {
        let log = |number: usize| {
            let text = std::fs::read_to_string(self.folder.join(format!("server-{number}.log")));
            format!("server {number}:\n{}", text.unwrap_or_default())
        };
        (0..self.members.len()).map(log).collect()
    }
}

impl Drop for ServerGroup {
    fn drop(&mut self) {
        for child in self.members.iter_mut().filter_map(|member| member.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
