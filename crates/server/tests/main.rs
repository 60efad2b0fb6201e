//! The tests of this crate, in one program: it is linked once.
#![allow(clippy::unwrap_used, reason = "tests")]

mod audit;
mod breakers;
mod broken_disk;
mod engine;
mod looking;
mod many;
mod observing;
mod offers;
mod redirects;
mod regions;
mod security;
mod servers;
mod sessions;
mod support;
mod toolbox;
mod two_servers;
mod webhooks;
