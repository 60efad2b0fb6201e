//! What records are called in Kubernetes.
//!
//! An election whose name Kubernetes can bear, such as `refactor-auth`, is a Lease of that name, so that people and other clients find
//! it. Every other name is escaped, with a prefix that no plain name keeps: `fleet/eu` is `baton--fleet.eu`. In an
//! escaped name `/` is `.`, and what a label of a name cannot bear is `--` and a letter; a `-` that is kept is followed by
//! a letter or a digit, so that the two are told apart. Different records have different names; where that would be too
//! long for Kubernetes, the name is a hash.

use baton_election::audit::Book;
use baton_election::{ContentHash, ElectionName};
use baton_store::Key;

/// What an escaped name begins with.
const ESCAPED: &str = "baton--";
/// What a name begins with that would be too long.
const HASHED: &str = "baton-hash-";
/// What the name of a mark begins with.
const MARK: &str = "baton-mark-";
/// The name of what the store knows of itself.
const STORE: &str = "baton-store";
/// The name of the access tokens of the store's server.
const TOKENS: &str = "baton-tokens";
/// The longest name of an object.
const MAX_BYTES: usize = 253;

/// The name of an election's Lease.
pub(crate) fn lease(election: &ElectionName) -> String {
    let plain = election.as_str();
    // A segment never has two dots in a row; what else a name of labels may not have is at the edge of a label.
    let at_home = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    if !plain.contains(['/', '_']) && plain.split('.').all(at_home) && !plain.starts_with(ESCAPED) {
        return plain.to_string();
    }
    // At most 7 + 1 + 3 * 64 bytes.
    format!("{ESCAPED}{}", escaped(plain))
}

/// The election whose Lease has this name, if there is one.
pub(crate) fn election(lease_name: &str) -> Option<ElectionName> {
    let text = match lease_name.strip_prefix(ESCAPED) {
        Some(rest) => unescaped(rest)?,
        None => lease_name.to_string(),
    };
    ElectionName::new(&text).ok().filter(|election| lease(election) == lease_name)
}

/// The name of the ConfigMap of a record that is not an election.
pub(crate) fn config_map(key: &Key) -> String {
    match key {
        Key::Store => return STORE.to_string(),
        Key::Tokens => return TOKENS.to_string(),
        Key::Audit(Book::Store, part) => return format!("{STORE}-acts-{part}"),
        Key::Audit(Book::Tokens, part) => return format!("{TOKENS}-acts-{part}"),
        Key::Election(_)
        | Key::Candidate(..)
        | Key::History(_)
        | Key::Fence(_)
        | Key::FenceLog(..)
        | Key::Audit(Book::Election(_), _)
        | Key::Item(..) => {}
    }
    let text = key.to_string();
    let name = format!("{ESCAPED}{}", escaped(&text));
    if name.len() <= MAX_BYTES { name } else { format!("{HASHED}{}", ContentHash::of(text.as_bytes())) }
}

/// The name of the ConfigMap of the mark of a fence or an election.
pub(crate) fn mark(of: &Key) -> String {
    let text = of.to_string();
    let name = format!("{MARK}-{}", escaped(&text));
    if name.len() <= MAX_BYTES { name } else { format!("{MARK}hash-{}", ContentHash::of(text.as_bytes())) }
}

/// A path as labels joined by dots.
fn escaped(path: &str) -> String {
    let mut labels = String::with_capacity(path.len() + 16);
    let mut before = '/';
    let mut letters = path.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '/' => labels.push('.'),
            '.' => labels.push_str("--d"),
            // A label begins with a letter or a digit.
            '_' if before == '/' => labels.push_str("0--s"),
            // Only the word for a kind of items begins so.
            '@' => labels.push_str("0--a"),
            '_' => labels.push_str("--u"),
            '-' if !letters.peek().is_some_and(char::is_ascii_alphanumeric) => labels.push_str("--m"),
            other => labels.push(other),
        }
        before = letter;
    }
    labels
}

/// The path that was escaped; none if none was.
fn unescaped(labels: &str) -> Option<String> {
    let mut path = String::with_capacity(labels.len());
    let mut rest = labels;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        if letter != '-' || !rest.starts_with('-') {
            path.push(if letter == '.' { '/' } else { letter });
            continue;
        }
        let code = rest.chars().nth(1)?;
        rest = &rest[1 + code.len_utf8()..];
        let meant = match code {
            'd' => '.',
            'u' => '_',
            'm' => '-',
            's' if path.pop() == Some('0') => '_',
            _ => return None,
        };
        path.push(meant);
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use baton_election::{AgentName, ItemName, ResourceName};
    use baton_store::ItemKind;

    use super::*;

    fn named(text: &str) -> ElectionName {
        ElectionName::new(text).unwrap()
    }

    /// As the apiserver checks it (RFC 1123 subdomain).
    fn bearable(name: &str) -> bool {
        let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        name.len() <= 253
            && name.split('.').all(|label| {
                !label.is_empty()
                    && label.starts_with(letter)
                    && label.ends_with(letter)
                    && label.chars().all(|c| letter(c) || c == '-')
            })
    }

    #[test]
    fn plain_names_stay_and_the_others_are_readable() {
        for plain in ["refactor-auth", "a", "0", "v1.2", "x", "a--b", "baton", "baton-store", "xx.xd"] {
            assert_eq!(lease(&named(plain)), plain);
        }
        for (text, name) in [
            ("fleet/eu", "baton--fleet.eu"),
            ("a_b", "baton--a--ub"),
            ("_a", "baton--0--sa"),
            ("a/_b", "baton--a.0--sb"),
            ("a-", "baton--a--m"),
            ("a-/b.c", "baton--a--m.b--dc"),
            ("a.-b", "baton--a--d-b"),
            ("a-.b", "baton--a--m--db"),
            ("a--b/c", "baton--a--m-b.c"),
            ("baton--a", "baton--baton--m-a"),
        ] {
            assert_eq!(lease(&named(text)), name);
        }
    }

    #[test]
    fn every_name_is_bearable_distinct_and_found_again() {
        let pieces = ["a", "-", ".", "_", "/", "d", "u", "m", "s", "baton--", "--d", "0"];
        let mut names: BTreeSet<String> = pieces.iter().map(ToString::to_string).collect();
        for _ in 0..3 {
            names = names.iter().flat_map(|n| pieces.iter().map(move |p| format!("{n}{p}"))).collect();
        }
        let elections: Vec<_> = names.iter().filter_map(|name| ElectionName::new(name).ok()).collect();
        assert!(elections.len() > 5_000, "{}", elections.len());
        let mut seen = BTreeSet::new();
        for name in &elections {
            let written = lease(name);
            assert!(bearable(&written), "{name} is {written}");
            assert_eq!(election(&written).as_ref(), Some(name), "{written}");
            assert!(seen.insert(written), "{name}");
        }
        for odd in ["baton--refactor-auth", "baton----z", "baton---", "baton--", "baton--a--s", "A", "a_b"] {
            assert_eq!(election(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_longest_names_fit() {
        let long = "_".repeat(64);
        assert!(bearable(&lease(&named(&long))));
        let agent = |text: &str| AgentName::new(text).unwrap();
        let resource = |text: &str| ResourceName::new(text).unwrap();
        let item = |text: &str| ItemName::new(text).unwrap();
        let keys = [
            Key::Store,
            Key::Tokens,
            Key::Candidate(named(&long), agent(&long)),
            Key::Candidate(named(&long), agent(&"_x".repeat(32))),
            Key::Candidate(named("a"), agent("b")),
            Key::History(named("a")),
            Key::History(named("a/candidates.b")),
            Key::Fence(resource("a")),
            Key::Fence(resource(&long)),
            Key::FenceLog(resource("a"), 0),
            Key::FenceLog(resource(&long), u64::MAX),
            Key::Audit(Book::Store, u64::MAX),
            Key::Audit(Book::Tokens, 0),
            Key::Audit(Book::Election(named(&long)), u64::MAX),
            Key::Audit(Book::Election(named("a")), 0),
            Key::Item(named("a"), ItemKind::Task, item("b")),
            Key::Item(named("a"), ItemKind::Value, item("b")),
            Key::Item(named(&long), ItemKind::Proposal, item(&long)),
            Key::Item(named(&long), ItemKind::Proposal, item(&"_x".repeat(32))),
        ];
        let marks = keys.iter().filter(|key| matches!(key, Key::Fence(_))).map(mark);
        let names: BTreeSet<String> = keys.iter().map(config_map).chain(marks).collect();
        assert_eq!(names.len(), keys.len() + 2, "{names:?}");
        assert!(names.contains("baton-mark--fences.a"), "{names:?}");
        let begun = [mark(&Key::Election(named("a/b"))), mark(&Key::Election(named(&long)))];
        assert_eq!(begun[0], "baton-mark--a.b");
        assert!(begun.iter().all(|name| bearable(name) && !names.contains(name)), "{begun:?}");
        assert!(names.iter().all(|name| bearable(name)), "{names:?}");
        assert!(names.contains("baton--a.candidates.b") && names.contains("baton--fences.a.history.0"));
    }
}
