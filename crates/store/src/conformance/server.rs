//! The real servers that stores are tested against.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// What a test needs of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Required {
    /// Where it is.
    At(String),
    /// There is none on this machine; the test says so and does nothing.
    Missing,
}

/// Where a server is that `scripts/services` has started, by the variable that says so.
///
/// Without it a test is skipped, loudly. Under `CI=true` that is a failure.
#[expect(clippy::print_stderr, reason = "whoever runs the tests must see what was not tested")]
pub fn required(variable: &str) -> Required {
    match std::env::var(variable) {
        Ok(at) if !at.is_empty() => Required::At(at),
        Ok(_) | Err(_) => {
            let ci = std::env::var("CI").is_ok_and(|value| value == "true");
            assert!(!ci, "{variable} is not set: the server that this test needs is not running");
            eprintln!("SKIPPED: {variable} is not set. Run: eval \"$(scripts/services start)\"");
            Required::Missing
        }
    }
}

/// Where ports begin that the kernel lends to nobody by itself, and how many of them are used.
const PORTS: (u16, u16) = (20_000, 12_000);

/// A port of 127.0.0.1 for a server of a test's own, of those that the kernel does not lend to connections: the server finds it free, and
/// again when it comes back. No two calls of a process give the same.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let (base, count) = PORTS;
    let first = u16::try_from(std::process::id() % u32::from(count)).unwrap_or_default();
    for _ in 0..count {
        let port = base + (first + NEXT.fetch_add(1, Ordering::Relaxed) % count) % count;
        let place = (Ipv4Addr::LOCALHOST, port);
        if TcpListener::bind(place).is_ok() && UdpSocket::bind(place).is_ok() {
            return port;
        }
    }
    panic!("no port between {base} and {} is free", base + count);
}
