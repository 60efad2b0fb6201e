//! The result of a command.

use baton_election::time::Span;
use baton_election::{Answer, Document};

/// A command that was carried out.
#[derive(Clone, Debug)]
pub struct Decided {
    /// What is answered.
    pub answer: Answer,
    /// The document after it; none after a plain renewal, which changes nothing that anybody wants to see.
    pub document: Option<Box<Document>>,
    /// How long the leader's lease lasts after it, if there is one.
    pub ttl: Option<Span>,
}
