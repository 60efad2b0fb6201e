//! What the refs are called, and what tells one commit from another.
//!
//! `/` in a key becomes `+`, which no key contains: different keys have different refs, and `a` never stands in the
//! way of `a/b`, as a file stands in the way of a folder of the same name.

use std::fmt;
use std::sync::Arc;

use baton_store::Key;

/// Where the records of all keys are.
pub(crate) const NAMESPACE: &str = "refs/baton/";
/// Where a clone keeps what it saw last, for itself.
const SEEN_NAMESPACE: &str = "refs/baton-seen/";

/// The ref of a key.
pub(crate) fn of(key: &Key) -> String {
    format!("{NAMESPACE}{}", encoded(key))
}

/// The key of a ref, if it is one's.
pub(crate) fn key_of(refname: &str) -> Option<Key> {
    let encoded = refname.strip_prefix(NAMESPACE)?;
    if encoded.contains('/') {
        return None;
    }
    Key::parse(&encoded.replace('+', "/"))
}

/// The ref under which this clone keeps what it saw last of a key, at the arbiter that `space` stands for.
pub(crate) fn seen(space: &str, key: &Key) -> String {
    format!("{SEEN_NAMESPACE}{space}/{}", encoded(key))
}

/// Whether git may take the name of an absent ref for the output of `git describe`: `v1.2-14-gabc1234`.
pub(crate) fn resembles_description(refname: &str) -> bool {
    let digits = refname.bytes().rev().take_while(u8::is_ascii_hexdigit).count();
    digits > 0 && refname[..refname.len() - digits].ends_with("-g")
}

fn encoded(key: &Key) -> String {
    key.to_string().replace('/', "+")
}

/// The name of an object.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Oid(Arc<str>);

impl Oid {
    /// A full name in hexadecimal digits, SHA-1 or SHA-256.
    pub(crate) fn parse(text: &str) -> Option<Oid> {
        let full = matches!(text.len(), 40 | 64);
        let hexadecimal = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (full && hexadecimal).then(|| Oid(text.into()))
    }

    /// All of it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// As much as people read.
    pub(crate) fn short(&self) -> &str {
        &self.0[..12]
    }

    /// Its bytes, as a tree holds them.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let digit = |byte: u8| if byte.is_ascii_digit() { byte - b'0' } else { byte - b'a' + 10 };
        self.0.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_election::audit::Book;
    use baton_election::{AgentName, ElectionName, ItemName, ResourceName};
    use baton_store::ItemKind;

    #[test]
    fn every_key_has_its_own_ref_and_none_is_the_folder_of_another() {
        let election = |text| ElectionName::new(text).unwrap();
        let keys = [
            Key::Store,
            Key::Tokens,
            Key::Election(election("a")),
            Key::Election(election("a/b")),
            Key::Candidate(election("a"), AgentName::new("b").unwrap()),
            Key::History(election("a")),
            Key::Fence(ResourceName::new("a/b").unwrap()),
            Key::FenceLog(ResourceName::new("a").unwrap(), 3),
            Key::Audit(Book::Store, 3),
            Key::Audit(Book::Election(ElectionName::new("a/b").unwrap()), 3),
            Key::Item(election("a/b"), ItemKind::Task, ItemName::new("c").unwrap()),
        ];
        for key in &keys {
            let refname = of(key);
            assert_eq!(key_of(&refname).as_ref(), Some(key), "{refname}");
            assert!(!refname[NAMESPACE.len()..].contains('/'), "{refname}");
        }
        assert_eq!(key_of("refs/baton/a/b"), None, "a ref that no key has");
        assert_eq!(key_of("refs/heads/main"), None);
    }

    #[test]
    fn descriptions_are_told_from_other_names() {
        assert!(resembles_description("refs/baton/v1.2-14-gabc1234"));
        assert!(resembles_description("refs/baton/x-g0"));
        for plain in ["refs/baton/x", "refs/baton/abc-abc", "refs/baton/x-g", "refs/baton/x-gabx"] {
            assert!(!resembles_description(plain), "{plain}");
        }
    }

    #[test]
    fn an_object_has_a_full_name() {
        let name = Oid::parse(&"0a".repeat(20)).unwrap();
        assert_eq!(name.bytes(), vec![10; 20]);
        assert!(Oid::parse(&"ab".repeat(32)).is_some());
        for odd in ["", "17", "HEAD", &"AB".repeat(20), &"ab".repeat(21)] {
            assert!(Oid::parse(odd).is_none(), "{odd}");
        }
    }
}
