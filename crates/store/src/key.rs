//! Under what a record is found.

use std::fmt;

use baton_election::audit::Book;
use baton_election::{AgentName, ElectionName, InvalidName, ItemName, ResourceName};
use baton_toolbox::Kind;

/// The key of a record. Its text is a path whose segments are `[a-z0-9._-]` (`@store` and `@tokens` for the store itself, `@` and a word for the kind of an item), different for different keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// What the store knows of itself.
    Store,
    /// The document of an election.
    Election(ElectionName),
    /// A candidate of an election.
    Candidate(ElectionName, AgentName),
    /// The transitions of an election.
    History(ElectionName),
    /// The fence of a resource.
    Fence(ResourceName),
    /// A part of what a fence accepted.
    FenceLog(ResourceName, u64),
    /// The access tokens of the store's server.
    Tokens,
    /// A part of what operators did.
    Audit(Book, u64),
    /// An item of the toolbox of an election's leader.
    Item(ElectionName, Kind, ItemName),
}

/// The keys of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// All documents of elections.
    Elections,
    /// All candidates of one election.
    Candidates(ElectionName),
    /// All fences.
    Fences,
    /// The logs of acts on elections, each by its first part, whether or not there is a document.
    Audits,
    /// All items of one kind of one election.
    Items(ElectionName, Kind),
}

impl Prefix {
    /// Whether a key is of this kind.
    pub fn covers(&self, key: &Key) -> bool {
        match self {
            Prefix::Elections => matches!(key, Key::Election(_)),
            Prefix::Fences => matches!(key, Key::Fence(_)),
            Prefix::Audits => matches!(key, Key::Audit(Book::Election(_), 0)),
            Prefix::Candidates(of) => matches!(key, Key::Candidate(election, _) if of == election),
            Prefix::Items(of, of_kind) => {
                matches!(key, Key::Item(election, kind, _) if of == election && of_kind == kind)
            }
        }
    }
}

impl Prefix {
    /// The key of this kind that a name stands for, as [`Key::name`] shows it.
    pub fn key(&self, name: &str) -> Result<Key, InvalidName> {
        match self {
            Prefix::Elections => ElectionName::new(name).map(Key::Election),
            Prefix::Candidates(of) => AgentName::new(name).map(|agent| Key::Candidate(of.clone(), agent)),
            Prefix::Fences => ResourceName::new(name).map(Key::Fence),
            Prefix::Audits => ElectionName::new(name).map(|name| Key::Audit(Book::Election(name), 0)),
            Prefix::Items(of, kind) => ItemName::new(name).map(|item| Key::Item(of.clone(), *kind, item)),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Store => f.write_str("@store"),
            Key::Tokens => f.write_str("@tokens"),
            Key::Election(election) => write!(f, "{election}"),
            Key::Candidate(election, agent) => write!(f, "{election}/candidates/{agent}"),
            Key::History(election) => write!(f, "{election}/history"),
            Key::Fence(resource) => write!(f, "fences/{resource}"),
            Key::FenceLog(resource, part) => write!(f, "fences/{resource}/history/{part}"),
            Key::Audit(book, part) => write!(f, "{book}/history/{part}"),
            Key::Item(election, kind, item) => write!(f, "{election}/@{}/{item}", kind.plural()),
        }
    }
}

impl Key {
    /// The election, if its document is under this key.
    pub fn as_election(&self) -> Option<&ElectionName> {
        match self {
            Key::Election(election) => Some(election),
            Key::Store
            | Key::Tokens
            | Key::Candidate(..)
            | Key::History(_)
            | Key::Fence(_)
            | Key::FenceLog(..)
            | Key::Audit(..)
            | Key::Item(..) => None,
        }
    }

    /// What it is the key of, in a word, as stores with labels or columns keep it.
    pub fn kind(&self) -> &'static str {
        match self {
            Key::Store => "store",
            Key::Tokens => "tokens",
            Key::Election(_) => "election",
            Key::Candidate(..) => "candidate",
            Key::History(_) => "history",
            Key::Fence(_) => "fence",
            Key::FenceLog(..) => "fence-log",
            Key::Audit(..) => "audit",
            Key::Item(_, kind, _) => kind.singular(),
        }
    }

    /// What tells it from others of its kind, in a list: the name of an election, of a candidate's agent, of a resource, of an item.
    pub fn name(&self) -> &str {
        match self {
            Key::Store => "@store",
            Key::Tokens => "@tokens",
            Key::Election(election) | Key::History(election) => election.as_str(),
            Key::Candidate(_, agent) => agent.as_str(),
            Key::Fence(resource) | Key::FenceLog(resource, _) => resource.as_str(),
            Key::Audit(Book::Store, _) => "@store",
            Key::Audit(Book::Tokens, _) => "@tokens",
            Key::Audit(Book::Election(election), _) => election.as_str(),
            Key::Item(_, _, item) => item.as_str(),
        }
    }

    /// The key whose text this is, if it is one's.
    pub fn parse(text: &str) -> Option<Key> {
        let election = |text: &str| ElectionName::new(text).ok();
        if text == "@store" {
            return Some(Key::Store);
        }
        if text == "@tokens" {
            return Some(Key::Tokens);
        }
        let number = |part: &str| part.parse::<u64>().ok().filter(|number| number.to_string() == part);
        if let Some((name, rest)) = text.split_once("/@") {
            let (kind, item) = rest.split_once('/')?;
            return Some(Key::Item(election(name)?, Kind::of_plural(kind)?, ItemName::new(item).ok()?));
        }
        if let Some(rest) = text.strip_prefix("fences/") {
            return match rest.rsplit_once("/history/") {
                Some((resource, part)) => {
                    Some(Key::FenceLog(ResourceName::new(resource).ok()?, number(part)?))
                }
                None => Some(Key::Fence(ResourceName::new(rest).ok()?)),
            };
        }
        if let Some((book, part)) = text.rsplit_once("/history/") {
            let book = match book {
                "@store" => Book::Store,
                "@tokens" => Book::Tokens,
                name => Book::Election(election(name)?),
            };
            return Some(Key::Audit(book, number(part)?));
        }
        if let Some((name, agent)) = text.rsplit_once("/candidates/") {
            return Some(Key::Candidate(election(name)?, AgentName::new(agent).ok()?));
        }
        if let Some(name) = text.strip_suffix("/history") {
            return Some(Key::History(election(name)?));
        }
        Some(Key::Election(election(text)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_known_by_its_text() {
        let election = |text| ElectionName::new(text).unwrap();
        let resource = |text| ResourceName::new(text).unwrap();
        let agent = |text| AgentName::new(text).unwrap();
        let item = |text| ItemName::new(text).unwrap();
        let keys = [
            Key::Store,
            Key::Tokens,
            Key::Election(election("a")),
            Key::Election(election("a/b")),
            Key::Candidate(election("a"), agent("b")),
            Key::Candidate(election("a"), agent("history")),
            Key::Candidate(election("a/b"), agent("candidates")),
            Key::History(election("a")),
            Key::History(election("a/b")),
            Key::Fence(resource("a")),
            Key::Fence(resource("a/b")),
            Key::FenceLog(resource("a"), 0),
            Key::FenceLog(resource("a/b"), 12),
            Key::Audit(Book::Store, 0),
            Key::Audit(Book::Tokens, 7),
            Key::Audit(Book::Election(election("a")), 0),
            Key::Audit(Book::Election(election("a/b")), 12),
            Key::Item(election("a"), Kind::Task, item("b")),
            Key::Item(election("a"), Kind::Value, item("b")),
            Key::Item(election("a/b"), Kind::Proposal, item("history")),
            Key::Item(election("tasks"), Kind::Quota, item("candidates")),
        ];
        for key in &keys {
            assert_eq!(Key::parse(&key.to_string()).as_ref(), Some(key), "{key}");
        }
        let prefixes = [
            Prefix::Elections,
            Prefix::Candidates(election("a")),
            Prefix::Fences,
            Prefix::Items(election("a"), Kind::Task),
        ];
        for prefix in prefixes {
            for key in keys.iter().filter(|key| prefix.covers(key)) {
                assert_eq!(prefix.key(key.name()).as_ref(), Ok(key), "{key}");
            }
            assert!(prefix.key("A").is_err());
        }
        for odd in [
            "",
            "a/history/b",
            "fences/a/history/01",
            "a/history/01",
            "@else/history/1",
            "A",
            "a/candidates/b/c",
            "a/@tasks",
            "a/@b/c",
            "@tasks/a",
            "a/@tasks/b/c",
        ] {
            assert_eq!(Key::parse(odd), None, "{odd}");
        }
    }
}
