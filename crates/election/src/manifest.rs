//! What a checkpoint covers: a manifest of hashes, by which a successor sees what was changed after it.
//!
//! Assumes that whoever made a manifest, and whoever looks again, looked at the same places. Guarantees that the same manifests never differ, and that of
//! two that differ every path is told, as changed, added, removed or not comparable. Does not guarantee that a place stood still between two
//! looks at parts of it, and proves nothing to a reader that does not trust the writer of the checkpoint.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::command::MAX_TEXT_BYTES;
use crate::id::ContentHash;
use crate::refusal::Refusal;

/// The most places that a checkpoint covers.
pub const MAX_ROOTS: usize = 64;

/// What a path was like.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Print {
    /// A file, by the hash of what was in it.
    File(ContentHash),
    /// One that can be executed.
    Program(ContentHash),
    /// A symbolic link, by where it leads. It is not followed.
    Link(String),
    /// Something that has no content of its own: a socket, a device; below a commit another repository, which is not looked into.
    Other,
    /// There was none, although the commit has it.
    Absent,
    /// It could not be read.
    Unreadable,
    /// It was being written whenever it was read.
    Unsteady,
}

impl Print {
    /// Whether it tells what was there.
    fn is_known(&self) -> bool {
        match self {
            Print::File(_) | Print::Program(_) | Print::Link(_) | Print::Other | Print::Absent => true,
            Print::Unreadable | Print::Unsteady => false,
        }
    }
}

/// One place that is covered: a file, or a folder with all below it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Root {
    /// Where it lies.
    pub path: String,
    /// The commit, if it is a working tree of git: what is not listed was as it is there, or ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// What is below it, by path; a file that is covered by itself has an empty one.
    pub entries: BTreeMap<String, Print>,
}

/// All places that are covered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The places.
    #[cfg_attr(feature = "schema", schemars(length(max = MAX_ROOTS)))]
    pub roots: Vec<Root>,
}

/// What a checkpoint covers, as the document has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Covers"))]
#[serde(deny_unknown_fields)]
pub struct Coverage {
    /// The hash of the manifest, as JSON text.
    pub sha256: ContentHash,
    /// How many paths it lists.
    pub paths: u64,
    /// How many bytes were hashed.
    pub bytes: u64,
    /// The manifest itself, if there is room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Manifest>,
    /// Where it lies otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
}

impl Manifest {
    /// Its text: what is hashed, and what lies in a file if the document has no room for it.
    pub fn text(&self) -> String {
        match serde_json::to_string(self) {
            Ok(text) => text,
            Err(error) => unreachable!("a manifest is always expressible as JSON: {error}"),
        }
    }

    /// How many paths it lists.
    pub fn paths(&self) -> u64 {
        self.roots.iter().map(|root| root.entries.len() as u64).sum()
    }
}

impl Coverage {
    /// How many bytes of the document the manifest takes.
    pub(crate) fn inline_bytes(&self) -> usize {
        self.manifest.as_ref().map_or(0, |manifest| manifest.text().len())
    }

    /// Refuses what contradicts itself.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let refused = |why: &str| {
            Err(Refusal::invalid(
                format!("what the checkpoint covers contradicts itself: {why}"),
                "let `baton checkpoint --covers` make it",
            ))
        };
        match (&self.manifest, &self.location) {
            (Some(_), Some(_)) | (None, None) => refused("a manifest is in the document or elsewhere"),
            (None, Some(location)) if location.is_empty() || location.len() > MAX_TEXT_BYTES => {
                refused("its location is empty or too long")
            }
            (None, Some(_)) => Ok(()),
            (Some(manifest), None) if manifest.roots.len() > MAX_ROOTS => refused("it has too many places"),
            (Some(manifest), None) if ContentHash::of(manifest.text().as_bytes()) != self.sha256 => {
                refused("the hash is another manifest's")
            }
            (Some(manifest), None) if manifest.paths() != self.paths => refused("it lists other paths"),
            (Some(_), None) => Ok(()),
        }
    }
}

/// A place as it was found when it was looked at again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScannedRoot {
    /// What is below it. Where there is a commit: what differs from it, and all that the manifest lists.
    pub entries: BTreeMap<String, Print>,
    /// Which of those the commit has.
    pub in_commit: BTreeSet<String>,
}

impl ScannedRoot {
    /// Whether it lies in a folder that could not be read.
    fn is_hidden(&self, path: &str) -> bool {
        let folders = path.match_indices('/').map(|(end, _)| &path[..end]);
        let unreadable = |folder: &str| self.entries.get(folder) == Some(&Print::Unreadable);
        !path.is_empty() && folders.chain([""]).any(unreadable)
    }
}

/// What is no longer as a manifest says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// Paths whose content is another.
    pub changed: Vec<String>,
    /// Paths that were not there.
    pub added: Vec<String>,
    /// Paths that are no longer there.
    pub removed: Vec<String>,
    /// Paths of which it cannot be said, then or at this look.
    pub unknown: Vec<String>,
    /// Places that were not looked at, since they lie elsewhere than the caller looks.
    pub elsewhere: Vec<String>,
}

impl Differences {
    /// Whether everything is surely as it was.
    pub fn is_empty(&self) -> bool {
        let Differences { changed, added, removed, unknown, elsewhere } = self;
        [changed, added, removed, unknown, elsewhere].into_iter().all(Vec::is_empty)
    }

    /// Takes in how one place differs.
    pub fn add(&mut self, root: &Root, found: &ScannedRoot) {
        let paths: BTreeSet<&String> = root.entries.keys().chain(found.entries.keys()).collect();
        for path in paths {
            let before = root.entries.get(path);
            // What a commit has and no list names was as it is there: it differs from whatever differs from the commit.
            let unlisted = before.is_none() && found.in_commit.contains(path);
            let absent = if found.is_hidden(path) { &Print::Unreadable } else { &Print::Absent };
            let after = found.entries.get(path).unwrap_or(absent);
            let list = match (before, after) {
                // Below a working tree that is another repository: what is in it may be anything.
                (Some(Print::Other), Print::Other) if root.commit.is_some() => &mut self.unknown,
                (Some(print), after) if !print.is_known() || !after.is_known() => &mut self.unknown,
                (None, after) if !after.is_known() => &mut self.unknown,
                (Some(before), after) if before == after => continue,
                (Some(Print::Absent), _) => &mut self.added,
                (Some(_), Print::Absent) => &mut self.removed,
                (Some(_), _) => &mut self.changed,
                (None, Print::Absent) if unlisted => &mut self.removed,
                (None, Print::Absent) => continue,
                (None, _) if unlisted => &mut self.changed,
                (None, _) => &mut self.added,
            };
            list.push(named(&root.path, path));
        }
    }
}

/// A path below a place.
pub fn named(root: &str, path: &str) -> String {
    match path {
        "" => root.to_string(),
        path => format!("{}/{path}", root.trim_end_matches('/')),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn file(content: &str) -> Print {
        Print::File(ContentHash::of(content.as_bytes()))
    }

    fn entries(of: &[(&str, Print)]) -> BTreeMap<String, Print> {
        of.iter().map(|(path, print)| (path.to_string(), print.clone())).collect()
    }

    fn root(commit: bool, of: &[(&str, Print)]) -> Root {
        Root { path: "/w".to_string(), commit: commit.then(|| "c0ffee".to_string()), entries: entries(of) }
    }

    fn differ(root: &Root, found: &ScannedRoot) -> [Vec<String>; 4] {
        let mut all = Differences::default();
        all.add(root, found);
        [all.changed, all.added, all.removed, all.unknown]
    }

    #[test]
    fn what_differs_is_told_and_nothing_else() {
        let before = root(
            false,
            &[("a", file("1")), ("b", file("2")), ("c", Print::Link("a".into())), ("d", Print::Unreadable)],
        );
        let same = ScannedRoot { entries: before.entries.clone(), ..ScannedRoot::default() };
        assert_eq!(differ(&before, &same), [vec![], vec![], vec![], vec!["/w/d".to_string()]]);
        let after = entries(&[
            ("a", Print::Program(ContentHash::of(b"1"))),
            ("c", Print::Link("b".into())),
            ("e", file("5")),
        ]);
        let found = ScannedRoot { entries: after, ..ScannedRoot::default() };
        let told = differ(&before, &found);
        assert_eq!(told[0], ["/w/a", "/w/c"]);
        assert_eq!((told[1].join(" "), told[2].join(" ")), ("/w/e".to_string(), "/w/b".to_string()));
        assert_eq!(told[3], ["/w/d"]);
    }

    #[test]
    fn below_a_commit_only_what_differs_from_it_is_listed() {
        let before = root(true, &[("dirty", file("mine")), ("gone", Print::Absent), ("new", file("n"))]);
        let in_commit: BTreeSet<String> =
            ["dirty", "gone", "touched", "deleted"].map(ToString::to_string).into();
        let found = ScannedRoot {
            // It was committed as it was; it was put back; it is still there; others were touched, deleted, made.
            entries: entries(&[
                ("dirty", file("mine")),
                ("gone", file("back")),
                ("new", file("n")),
                ("touched", file("t")),
                ("deleted", Print::Absent),
                ("made", file("m")),
            ]),
            in_commit,
        };
        let [changed, added, removed, unknown] = differ(&before, &found);
        assert_eq!(changed, ["/w/touched"]);
        assert_eq!(added, ["/w/gone", "/w/made"]);
        assert_eq!((removed, unknown), (vec!["/w/deleted".to_string()], vec![]));
    }

    #[test]
    fn what_lies_in_a_folder_that_cannot_be_read_is_not_said_to_be_gone() {
        let before = root(false, &[("a", file("1")), ("sub/b", file("2")), ("sub/deep/c", file("3"))]);
        let found = ScannedRoot {
            entries: entries(&[("a", file("1")), ("sub", Print::Unreadable)]),
            ..ScannedRoot::default()
        };
        let [changed, added, removed, unknown] = differ(&before, &found);
        assert_eq!((changed, added, removed), (vec![], vec![], vec![]));
        assert_eq!(unknown, ["/w/sub", "/w/sub/b", "/w/sub/deep/c"]);
        let nothing = ScannedRoot { entries: entries(&[("", Print::Unreadable)]), ..ScannedRoot::default() };
        assert_eq!(differ(&before, &nothing)[3], ["/w", "/w/a", "/w/sub/b", "/w/sub/deep/c"]);
    }

    #[test]
    fn another_repository_within_a_working_tree_is_not_said_to_be_as_it_was() {
        let before = root(true, &[("nested/", Print::Other)]);
        let found = ScannedRoot { entries: before.entries.clone(), ..ScannedRoot::default() };
        assert_eq!(differ(&before, &found)[3], ["/w/nested/"]);
        // A socket is known by its name.
        let plain = root(false, &[("socket", Print::Other)]);
        let found = ScannedRoot { entries: plain.entries.clone(), ..ScannedRoot::default() };
        assert_eq!(differ(&plain, &found), [const { Vec::<String>::new() }; 4]);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let manifest = Manifest { roots: Vec::from([root(false, &[("a", file("1"))])]) };
        let good = Coverage {
            sha256: ContentHash::of(manifest.text().as_bytes()),
            paths: 1,
            bytes: 1,
            manifest: Some(manifest),
            location: None,
        };
        assert!(good.check().is_ok());
        let text = serde_json::to_string(&good).unwrap();
        assert_eq!(serde_json::from_str::<Coverage>(&text).unwrap(), good);
        for bad in [
            Coverage { sha256: ContentHash::of(b"other"), ..good.clone() },
            Coverage { paths: 2, ..good.clone() },
            Coverage { location: Some("here".to_string()), ..good.clone() },
            Coverage { manifest: None, ..good.clone() },
            Coverage { manifest: None, location: Some("x".repeat(2_000)), ..good.clone() },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
