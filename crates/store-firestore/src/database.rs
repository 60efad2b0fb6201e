//! Where records are: names of collections and documents.
//!
//! A document's id is the key's text with `~` for `/`, which no name contains. Ids of the form `__*__` are Firestore's
//! own, so an id that begins with `__` gets a `~` in front, where no other has one. Different keys have different ids.

use baton_election::ElectionName;
use baton_store::{Key, Prefix};

/// A database, and the collections in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabasePath {
    /// `projects/P/databases/D`.
    pub(crate) database: String,
    /// The collection of the elections; the others are named after it.
    pub(crate) collection: String,
    /// The store's name, for people.
    pub(crate) location: String,
}

impl DatabasePath {
    /// The folder of all documents.
    pub(crate) fn root(&self) -> String {
        format!("{}/documents", self.database)
    }

    /// The name of a key's document.
    pub(crate) fn document(&self, key: &Key) -> String {
        let collection = match key.as_election() {
            Some(_) => self.elections(),
            None => self.records(),
        };
        format!("{}/{collection}/{}", self.root(), id(&key.to_string()))
    }

    /// The name of an election's mark.
    pub(crate) fn mark(&self, election: &ElectionName) -> String {
        format!("{}/{}-marks/{}", self.root(), self.collection, id(election.as_str()))
    }

    /// The collection in which keys of a kind are, and the ids between which they are there.
    pub(crate) fn range(&self, prefix: &Prefix) -> (String, Option<(String, String)>) {
        let between = |text: &str| {
            let from = id(text);
            // The next character after `~`.
            let to = format!("{}\u{7f}", from.trim_end_matches('~'));
            (
                format!("{}/{}/{from}", self.root(), self.records()),
                format!("{}/{}/{to}", self.root(), self.records()),
            )
        };
        match prefix {
            Prefix::Elections => (self.elections(), None),
            Prefix::Candidates(election) => {
                (self.records(), Some(between(&format!("{election}/candidates/"))))
            }
            Prefix::Fences => (self.records(), Some(between("fences/"))),
            // They lie among the other records of their elections.
            Prefix::Audits => (self.records(), None),
            Prefix::Items(election, kind) => {
                (self.records(), Some(between(&format!("{election}/@{}/", kind.plural()))))
            }
        }
    }

    /// The key of a document, if it is one's.
    pub(crate) fn key_of(&self, name: &str) -> Option<Key> {
        let (folder, id) = name.strip_prefix(&self.root())?.strip_prefix('/')?.split_once('/')?;
        let key = Key::parse(&text(id)?)?;
        let is_election = matches!(key, Key::Election(_));
        let fits = if is_election { folder == self.elections() } else { folder == self.records() };
        fits.then_some(key)
    }

    /// A document's place, for people.
    pub(crate) fn shown(&self, name: &str) -> String {
        let path = name.strip_prefix(&self.root()).unwrap_or(name).trim_start_matches('/');
        format!("the document {path} in {}", self.location)
    }

    fn elections(&self) -> String {
        self.collection.clone()
    }

    fn records(&self) -> String {
        format!("{}-records", self.collection)
    }
}

/// The id of a key's text.
fn id(text: &str) -> String {
    let id = text.replace('/', "~");
    if id.starts_with("__") { format!("~{id}") } else { id }
}

/// The text of an id, if it is one's.
fn text(id: &str) -> Option<String> {
    let plain = match id.strip_prefix('~') {
        Some(rest) if rest.starts_with("__") => rest,
        Some(_) => return None,
        None if id.starts_with("__") => return None,
        None => id,
    };
    (!plain.contains('/')).then(|| plain.replace('~', "/"))
}

#[cfg(test)]
mod tests {
    use baton_election::audit::Book;
    use baton_election::{AgentName, ItemName, ResourceName};
    use baton_store::ItemKind;

    use super::*;

    fn place() -> DatabasePath {
        DatabasePath {
            database: "projects/p/databases/(default)".to_string(),
            collection: "leadership".to_string(),
            location: "firestore://p/(default)?collection=leadership".to_string(),
        }
    }

    fn election(text: &str) -> ElectionName {
        ElectionName::new(text).unwrap()
    }

    #[test]
    fn every_key_is_known_by_its_document() {
        let agent = AgentName::new("__x__").unwrap();
        let keys = [
            Key::Store,
            Key::Tokens,
            Key::Election(election("a/b")),
            Key::Election(election("a-b")),
            Key::Election(election("__a__")),
            Key::Election(election("__a/b__")),
            Key::Election(election("a/__b__")),
            Key::Candidate(election("a/b"), agent),
            Key::History(election("__a")),
            Key::Fence(ResourceName::new("a/b").unwrap()),
            Key::FenceLog(ResourceName::new("a").unwrap(), 7),
            Key::Audit(Book::Store, 7),
            Key::Audit(Book::Election(election("a/b")), 7),
            Key::Item(election("__a/b"), ItemKind::Task, ItemName::new("__x__").unwrap()),
        ];
        for key in &keys {
            let name = place().document(key);
            let id = name.rsplit('/').next().unwrap();
            assert!(!id.starts_with("__"), "{id} is Firestore's own");
            assert_eq!(place().key_of(&name).as_ref(), Some(key), "{name}");
        }
    }

    #[test]
    fn ids_that_no_baton_writes_are_nobody_s() {
        let root = place().root();
        for odd in
            ["leadership/~a", "leadership/A", "leadership/a~history", "leadership-records/a", "other/a"]
        {
            assert_eq!(place().key_of(&format!("{root}/{odd}")), None, "{odd}");
        }
    }

    #[test]
    fn candidates_lie_between_two_ids() {
        let (collection, between) = place().range(&Prefix::Candidates(election("a/b")));
        let (from, to) = between.unwrap();
        assert_eq!(collection, "leadership-records");
        let agent = |of, name| place().document(&Key::Candidate(election(of), AgentName::new(name).unwrap()));
        assert!((from.clone()..to.clone()).contains(&agent("a/b", "zz")));
        assert!(!(from..to).contains(&agent("a/b/c", "zz")));
    }
}
