//! Networks that can be cut: namespaces for full cuts, a proxy per directed link for one-way cuts.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A network with a switch; each host is a network namespace on one port of it. Needs root.
pub(crate) struct Net {
    name: String,
    hosts: u16,
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    match Command::new("ip").args(arguments).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("ip {arguments:?}: {error}")),
    }
}

impl Net {
    /// None where this user may not make one. In continuous integration nothing is skipped.
    pub(crate) fn try_new(hosts: u16) -> Option<Net> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("baton{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let net = Net { name, hosts };
        match net.build() {
            Ok(()) => Some(net),
            Err(why) => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
                assert!(!rustix::process::geteuid().is_root(), "root can make namespaces: {why}");
                eprintln!("SKIPPED: this user may not make network namespaces: {why}");
                None
            }
        }
    }

    fn build(&self) -> Result<(), String> {
        let hub = self.hub();
        ip(&["netns", "add", &hub])?;
        ip(&["-n", &hub, "link", "add", "switch", "type", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "switch", "up"])?;
        for id in 1..=self.hosts {
            let (host, port) = (self.host(id), format!("port{id}"));
            ip(&["netns", "add", &host])?;
            ip(&[
                "link", "add", &port, "netns", &hub, "type", "veth", "peer", "name", "eth0", "netns", &host,
            ])?;
            ip(&["-n", &hub, "link", "set", &port, "master", "switch", "up"])?;
            ip(&["-n", &host, "addr", "add", &format!("{}/24", self.address(id)), "dev", "eth0"])?;
            ip(&["-n", &host, "link", "set", "eth0", "up"])?;
            ip(&["-n", &host, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.name)
    }

    pub(crate) fn host(&self, id: u16) -> String {
        format!("{}-{id}", self.name)
    }

    pub(crate) fn address(&self, id: u16) -> String {
        format!("10.77.0.{id}")
    }

    /// Pulls the plug of a host.
    pub(crate) fn cut(&self, id: u16) {
        ip(&["-n", &self.hub(), "link", "set", &format!("port{id}"), "down"]).unwrap();
    }

    /// Puts it back.
    pub(crate) fn heal(&self, id: u16) {
        ip(&["-n", &self.hub(), "link", "set", &format!("port{id}"), "up"]).unwrap();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in (1..=self.hosts).map(|id| self.host(id)).chain([self.hub()]) {
            let _ = ip(&["netns", "del", &name]);
        }
    }
}

/// A link in one direction: whoever dials it reaches `to`. While it is cut, what the dialling side says is lost.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cut: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) fn start(to: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (cut, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (cutting, ending) = (Arc::clone(&cut), Arc::clone(&ended));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ending.load(Ordering::Acquire) {
                    return;
                }
                let (Ok(dialler), cutting) = (stream, Arc::clone(&cutting)) else { continue };
                std::thread::spawn(move || pass_on(dialler, to, &cutting));
            }
        });
        Proxy { address, cut, ended }
    }

    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
    }

    pub(crate) fn heal(&self) {
        self.cut.store(false, Ordering::Release);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        let _ = TcpStream::connect(self.address);
    }
}

fn pass_on(mut dialler: TcpStream, to: SocketAddr, cut: &AtomicBool) {
    let Ok(mut listener) = TcpStream::connect_timeout(&to, Duration::from_secs(2)) else { return };
    let _ = (dialler.set_nodelay(true), listener.set_nodelay(true));
    let (Ok(mut back), Ok(mut forth)) = (listener.try_clone(), dialler.try_clone()) else { return };
    let returning = std::thread::spawn(move || {
        let _ = std::io::copy(&mut back, &mut forth);
        let _ = forth.shutdown(Shutdown::Both);
    });
    let (mut buffer, mut lost) = ([0; 16_384], false);
    let _ = dialler.set_read_timeout(Some(Duration::from_millis(20)));
    loop {
        match dialler.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) if cut.load(Ordering::Acquire) => lost = true,
            Ok(count) if lost || listener.write_all(&buffer[..count]).is_err() => break,
            Ok(_) => {}
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                // A stream with a hole in it is of no use once the link is whole.
                if lost && !cut.load(Ordering::Acquire) {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    let _ = (dialler.shutdown(Shutdown::Both), listener.shutdown(Shutdown::Both));
    let _ = returning.join();
}
