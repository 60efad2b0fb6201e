//! Elections that a Baton server decides: `http://HOST:PORT`, `https://HOST:PORT?ca=FILE&cert=FILE&key=FILE`, or several servers of one store:
//! `http://HOST:PORT,HOST:PORT`. A server of this machine may be reached at a Unix socket: `unix:/PATH`.
//!
//! Commands are sent to the server, which decides and writes; records are read from it. Assumes that the server is who it says it is: over
//! plain HTTP that is so on a loopback address only, over TLS its certificate says so. Shows the token of `$BATON_HTTP_TOKEN`, or the certificate of the URL. Guarantees that a command whose answer was lost is said to be unknown, never to
//! have failed; every command may then be sent again. Does not decide anything here.

mod alerts;
mod client;
mod connections;
mod dial;
mod elections;
mod fault;
mod files;
mod many;
mod open;
mod page;
mod records;
mod servers;
mod sessions;
mod tls;
mod token;
mod tools;
mod trace;
mod untrusted;
mod waiting;
mod watch;

pub use records::HttpElections;
