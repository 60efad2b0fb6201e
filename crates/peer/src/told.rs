//! What Bully and Ring keep, and their lists of members: nobody decides on a list there, so each member takes the one it
//! is told.
//!
//! **Not guaranteed**: that two members have the same list. Until every member was told the new one, those with the old one
//! neither ask nor hear who was added.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::{Config, Group, GroupStamp, Member, Start, Term};

/// What survives a crash of a member that elects by rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kept {
    /// The highest term it has seen.
    pub term: Term,
    /// The members, as it was told last.
    pub group: Group,
}

/// With what a member starts: where it was told a list while it ran, that one and not the one of its configuration.
pub(crate) fn at_start(config: &Config, start: Start<Kept>) -> Kept {
    match start {
        Start::Founded | Start::Forgotten => Kept { term: Term::ZERO, group: config.group.clone() },
        Start::Restarted(kept) if config.group.stamp() > kept.group.stamp() => {
            Kept { term: kept.term, group: config.group.clone() }
        }
        Start::Restarted(kept) => kept,
    }
}

/// The list after the one that counts, or why it cannot be that.
pub(crate) fn next_list(group: &Group, term: Term, members: Vec<Member>) -> Result<Group, &'static str> {
    let stamp = GroupStamp { term, version: group.stamp().version.saturating_add(1) };
    let next = Group::stamped(stamp, members).map_err(
        |_| "that is no list of members: each is named once, at most 127 of them, and one is no witness",
    )?;
    if next.is_one_step_from(group) { Ok(next) } else { Err("members come, go or change one at a time") }
}

/// The term after this one. At the end of all numbers it stays the same: old messages cannot be told from new ones then,
/// which these elections survive, since rank decides between two leaders of one term.
pub(crate) fn after(term: Term) -> Term {
    Term(term.0.saturating_add(1))
}

/// Of those that may lead, the one with the highest rank.
pub(crate) fn best<'a>(members: impl Iterator<Item = &'a Member>) -> Option<&'a Member> {
    members.filter(|member| !member.witness).max_by_key(|member| member.rank())
}
