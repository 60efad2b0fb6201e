//! What stands at every address that Baton listens at, be it a server's or a guard's: connections, as many at once as there is room
//! for, encrypted if there is a certificate; how a failure is told, as `application/problem+json`; and how either asks others over HTTP.
//!
//! Assumes that who answers says how long a request may take. Guarantees that a connection which sends no request, or does not take
//! its answer, ends after a while, and that whoever sends what is no request is told so in the same form as every other failure. Does not
//! guarantee who is at the other end: a request carries its client's certificate as an extension, if there is one.

mod client;
mod listen;
pub mod outgoing;
mod peers;
mod problem;
mod problem_stream;
mod tls;
mod write_timeout;

pub use client::ClientCertificate;
pub use listen::{HandshakeError, Listener, ListenerConfig, accept};
pub use peers::{ConnectionPermit, Counter, CounterPermit, Origin, Peers, too_many_connections};
pub use problem::Problem;
pub use tls::{Tls, TlsError};
