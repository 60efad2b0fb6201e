//! Servers that have a page for people, where a browser signs in.

use baton_election::delegation::SignedDelegation;

use crate::decider::Decision;

/// What a server with a page is asked. Everything may be repeated after any error.
pub trait Page: Send + Sync {
    /// Where the page is.
    fn address(&self) -> String;

    /// What tells this run of the server from others: a delegation is signed for it.
    fn run(&self) -> Decision<'_, String>;

    /// Lets a browser sign in.
    fn begin_sign_in<'a>(&'a self, given: &'a SignedDelegation) -> Decision<'a, ()>;
}
