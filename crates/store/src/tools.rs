//! The toolbox of an election's leader, with a store that decides: commands are sent, and lists are asked for in parts.

use baton_election::ElectionName;
use baton_toolbox::{Answer, Command, Counts, Kind, Page, Query};

use crate::decider::Decision;

/// The most items of one page.
pub const MAX_PAGE: usize = 1_000;

/// What a store that keeps toolboxes is asked. Everything may be repeated after any error.
pub trait Tools: Send + Sync {
    /// Carries out a command.
    fn carry_out<'a>(&'a self, election: &'a ElectionName, command: &'a Command) -> Decision<'a, Answer>;

    /// A part of the items of a kind.
    fn page<'a>(&'a self, election: &'a ElectionName, kind: Kind, query: &'a Query) -> Decision<'a, Page>;

    /// How the board stands.
    fn counts<'a>(&'a self, election: &'a ElectionName) -> Decision<'a, Counts>;
}
