//! What a checkpoint covers beside itself, looked at: files, folders, working trees of git.
//!
//! Assumes that the places are on this machine. Guarantees that nothing is followed, opened or run that could block or lead elsewhere: a symbolic link is
//! taken by its text, a pipe or device by its name, and git is asked for lists and objects only, never to compare (`git.rs`); that nothing outside of the places which the caller
//! names is looked at; that what cannot be read, or is being written whenever it is read, is listed as such
//! and not passed over; and that no more than [`MAX_PATHS`] paths that are listed, [`MAX_TRACKED`] that a commit has and [`MAX_BYTES`] bytes are looked at. A folder that is the top of a working tree of git is known by its
//! commit and what differs from that, byte by byte, without what git ignores; another repository within it is named, and not looked into. Folders named `.git` and `.baton` are left out. Does not guarantee one moment for all
//! of it: what is written while this looks is seen before or after.

mod files;
mod git;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use baton_election::ContentHash;
pub use baton_election::manifest::{Coverage, Differences, Manifest, Print, Root};
use baton_election::manifest::{MAX_ROOTS, ScannedRoot, named};

use files::Meter;
use git::{Objects, Tracked};

/// The most paths that one checkpoint covers.
pub const MAX_PATHS: u64 = 20_000;
/// The most paths of one commit that are compared with it.
pub const MAX_TRACKED: u64 = 200_000;
/// The most bytes that are hashed for one checkpoint.
pub const MAX_BYTES: u64 = 2 << 30;

/// The most bytes of a manifest that lies elsewhere: room for the most paths, each as long as a path can be, and more.
const MAX_MANIFEST: u64 = 256 << 20;

/// Why something cannot be covered, or not be compared.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A place cannot be looked at.
    #[error("cannot look at {path}: {why}")]
    Place {
        /// Which.
        path: String,
        /// Why.
        why: io::Error,
    },
    /// There is more than is looked at.
    #[error(
        "there is more below {path} than a checkpoint covers: at most {MAX_PATHS} paths and {MAX_BYTES} bytes"
    )]
    TooMuch {
        /// Where the bound was reached.
        path: String,
    },
    /// Too many places are named.
    #[error("{0} places; a checkpoint covers at most {MAX_ROOTS}")]
    TooMany(usize),
    /// `git` failed.
    #[error("git failed in {path}: {why}")]
    Git {
        /// Where.
        path: String,
        /// What it said.
        why: String,
    },
    /// What a manifest refers to is not there, or not what it was.
    #[error("the manifest at {location} {why}")]
    Manifest {
        /// Where it should be.
        location: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The result of a scan of the covered paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// The manifest.
    pub manifest: Manifest,
    /// How many bytes were hashed.
    pub bytes: u64,
}

impl Scan {
    /// As a checkpoint has it: with the manifest in it if that takes no more than `room` bytes, else with where it was put by `keep`, which is
    /// given its text and hash.
    pub fn coverage<E>(
        self,
        room: usize,
        keep: impl FnOnce(&str, ContentHash) -> Result<String, E>,
    ) -> Result<Coverage, E> {
        let text = self.manifest.text();
        let sha256 = ContentHash::of(text.as_bytes());
        let (paths, bytes) = (self.manifest.paths(), self.bytes);
        if text.len() <= room {
            return Ok(Coverage { sha256, paths, bytes, manifest: Some(self.manifest), location: None });
        }
        let location = Some(keep(&text, sha256)?);
        Ok(Coverage { sha256, paths, bytes, manifest: None, location })
    }
}

/// Scans the given places for a manifest. Blocks.
pub fn scan(places: &[PathBuf]) -> Result<Scan, ManifestError> {
    if places.len() > MAX_ROOTS {
        return Err(ManifestError::TooMany(places.len()));
    }
    let mut meter = Meter::default();
    let mut roots = Vec::with_capacity(places.len());
    for place in places {
        let failed = |why| ManifestError::Place { path: place.display().to_string(), why };
        let real = std::fs::canonicalize(place).map_err(failed)?;
        let commit = git::commit_of(&real)?;
        let entries = match &commit {
            Some(commit) => differing(&real, commit, &BTreeMap::new(), &mut meter)?.entries,
            None => files::all_below(&real, &mut meter)?,
        };
        roots.push(Root { path: files::text_of(&real), commit, entries });
    }
    Ok(Scan { manifest: Manifest { roots }, bytes: meter.bytes() })
}

/// What is no longer as a checkpoint says, of the places that lie in one of these folders (or are one of them). Blocks.
///
/// The checkpoint's author chose the places that it covers, and is not trusted: a place outside these folders is listed, not read.
pub fn compare(covers: &Coverage, within: &[PathBuf]) -> Result<Differences, ManifestError> {
    let within: Vec<PathBuf> =
        within.iter().filter_map(|folder| std::fs::canonicalize(folder).ok()).collect();
    let read;
    let manifest = match (&covers.manifest, &covers.location) {
        (Some(manifest), _) => manifest,
        (None, location) => {
            read = read_manifest(location.as_deref().unwrap_or_default(), covers.sha256, &within)?;
            &read
        }
    };
    let (mut meter, mut all) = (Meter::default(), Differences::default());
    for root in &manifest.roots {
        let Some(real) = place_within(&files::path_of(&root.path), &within) else {
            all.elsewhere.push(root.path.clone());
            continue;
        };
        if std::fs::symlink_metadata(&real).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            all.removed.push(root.path.clone());
            continue;
        }
        // git would follow a link that took the place of the working tree.
        let linked = std::fs::symlink_metadata(&real).is_ok_and(|about| about.is_symlink());
        let found = match &root.commit {
            Some(commit) if !linked => differing(&real, commit, &root.entries, &mut meter),
            Some(_) | None => files::all_below(&real, &mut meter)
                .map(|entries| ScannedRoot { entries, in_commit: BTreeSet::new() }),
        };
        match found {
            Ok(found) => {
                let before = all.unknown.len();
                all.add(root, &found);
                let unknown = all.unknown.split_off(before);
                all.unknown
                    .extend(unknown.into_iter().filter(|path| !is_covered_apart(path, root, manifest)));
            }
            // One place that cannot be compared hides nothing about the others.
            Err(error) => all.unknown.push(format!("{} ({error})", named(&root.path, ""))),
        }
    }
    Ok(all)
}

/// Where a place is, if that is in one of these folders. Links on the way to it are followed first; it may be one itself. Of one that is gone
/// the folder that is left on the way tells.
fn place_within(place: &Path, within: &[PathBuf]) -> Option<PathBuf> {
    let plain = place.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    if !plain || !place.is_absolute() {
        return None;
    }
    let mut beyond = Vec::new();
    let mut at = place;
    let real = loop {
        let Some((folder, name)) = at.parent().zip(at.file_name()) else { break PathBuf::from("/") };
        beyond.push(name);
        match std::fs::canonicalize(folder) {
            Ok(real) => break real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => at = folder,
            Err(_) => return None,
        }
    };
    let real = beyond.iter().rev().fold(real, |path, name| path.join(name));
    within.iter().any(|folder| real.starts_with(folder)).then_some(real)
}

/// Whether this is another repository within a working tree, and covered by itself: it is compared there.
fn is_covered_apart(path: &str, within: &Root, manifest: &Manifest) -> bool {
    let is_another = within
        .entries
        .iter()
        .any(|(below, print)| *print == Print::Other && named(&within.path, below) == path);
    is_another && manifest.roots.iter().any(|root| root.path == path.trim_end_matches('/'))
}

/// What differs from a commit, and what is at the paths that a manifest lists.
fn differing(
    top: &Path,
    commit: &str,
    listed: &BTreeMap<String, Print>,
    meter: &mut Meter,
) -> Result<ScannedRoot, ManifestError> {
    let tree = git::tree_of(top, commit)?;
    let (mut found, mut in_tree) = (ScannedRoot::default(), Meter::of_commit());
    let mut objects = Objects::open(top)?;
    for (path, tracked) in &tree {
        let real = files::path_of(path);
        let print = files::print_below(top, &real, &mut in_tree)?;
        if !is_as_committed(&top.join(&real), &print, tracked, &mut objects)? {
            meter.path(top)?;
            found.in_commit.insert(path.clone());
            found.entries.insert(path.clone(), print);
        }
    }
    for path in git::present(top)?.iter().filter(|path| !tree.contains_key(*path)) {
        let print = files::print_below(top, &files::path_of(path), meter)?;
        // What was added to the index and is gone was never there.
        if print != Print::Absent {
            found.entries.insert(path.clone(), print);
        }
    }
    for path in listed.keys() {
        if !found.entries.contains_key(path) {
            let print = files::print_below(top, &files::path_of(path), meter)?;
            found.entries.insert(path.clone(), print);
        }
    }
    Ok(found)
}

/// Whether the bytes at a path are those that the commit has. What a filter or a setting for the ends of lines would make of them does not count.
fn is_as_committed(
    path: &Path,
    print: &Print,
    tracked: &Tracked,
    objects: &mut Objects<'_>,
) -> Result<bool, ManifestError> {
    let same_size = |size: u64| std::fs::symlink_metadata(path).is_ok_and(|about| about.len() == size);
    Ok(match (tracked, print) {
        (Tracked::File { object, size, program: false }, Print::File(hash))
        | (Tracked::File { object, size, program: true }, Print::Program(hash)) => {
            same_size(*size) && objects.hash(object)? == *hash
        }
        (Tracked::Link { object, size }, Print::Link(target)) => {
            objects.link(object, *size)?.as_ref() == Some(target)
        }
        (Tracked::File { .. } | Tracked::Link { .. } | Tracked::Repository, _) => false,
    })
}

fn read_manifest(location: &str, sha256: ContentHash, within: &[PathBuf]) -> Result<Manifest, ManifestError> {
    let refused = |why: String| ManifestError::Manifest { location: location.to_string(), why };
    // The location is a predecessor's word, and may be anything.
    let Some(place) = place_within(Path::new(location), within) else {
        return Err(refused("lies outside of the folders that are to be compared".to_string()));
    };
    let text = files::content_of(&place, MAX_MANIFEST);
    let text = text.map_err(|error| refused(format!("cannot be read: {error}")))?;
    if ContentHash::of(&text) != sha256 {
        return Err(refused("is not the one that the checkpoint was written with".to_string()));
    }
    let manifest: Manifest =
        serde_json::from_slice(&text).map_err(|error| refused(format!("is none: {error}")))?;
    if manifest.roots.len() > MAX_ROOTS {
        return Err(refused(format!("names {} places; {MAX_ROOTS} are the most", manifest.roots.len())));
    }
    Ok(manifest)
}
