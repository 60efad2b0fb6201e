//! Bad input and faults, each told apart, against the real server.
#![allow(clippy::unwrap_used, reason = "this is all tests")]

mod layout;
mod login;
mod outage;
mod rows;
mod tls;
