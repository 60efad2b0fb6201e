//! What a checkpoint covers beside itself, as the command makes and shows it.

use std::path::PathBuf;

use baton::election::command::MAX_CHECKPOINT_BYTES;
use baton::manifest::{self, Coverage, Differences, ManifestError};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::output::{Failure, clean};
use crate::state_folder::{StateFolder, write_durably};

/// How many paths of a kind are shown to people, and to programs.
const SHOWN: usize = 20;
const TOLD: usize = 1_000;
/// The folder of the manifests that a document has no room for.
const MANIFESTS: &str = "manifests";

/// Looks at places; their manifest stands in the document beside a state of so many bytes, or in a file of the state folder.
pub(crate) async fn cover(
    places: Vec<PathBuf>,
    state: &StateFolder,
    state_bytes: usize,
) -> Result<Coverage, Failure> {
    let scan = tokio::task::spawn_blocking(move || manifest::scan(&places)).await;
    let scan = scan.map_err(std::io::Error::other)?.map_err(|error| failed(&error))?;
    let room = MAX_CHECKPOINT_BYTES.saturating_sub(state_bytes);
    scan.coverage(room, |text, sha256| {
        let kept = state.path().join(MANIFESTS).join(sha256.to_string());
        write_durably(&kept, text.as_bytes())?;
        Ok(kept.display().to_string())
    })
}

/// What was changed since, of what lies below these folders; what cannot be compared at all is a failure. The manifest may also lie where this user's own do.
pub(crate) async fn compare(
    covers: &Coverage,
    below: &[PathBuf],
    state: &StateFolder,
) -> Result<Differences, Failure> {
    let covers = covers.clone();
    let below = [below, &[state.path().join(MANIFESTS)]].concat();
    let compared = tokio::task::spawn_blocking(move || manifest::compare(&covers, &below)).await;
    compared.map_err(std::io::Error::other)?.map_err(|error| failed(&error))
}

fn failed(error: &ManifestError) -> Failure {
    let hint = match error {
        ManifestError::Place { .. } => "name files and folders that are there",
        ManifestError::TooMuch { .. } | ManifestError::TooMany(_) => {
            "name what matters; of a working tree of git only what differs from its commit is listed"
        }
        ManifestError::Git { .. } => "see what `git fsck` says there",
        ManifestError::Manifest { .. } => {
            "it lies on the machine that the checkpoint was written on; name its folder: --compare=FOLDER"
        }
    };
    Failure::new(Exit::Error, "not-covered", error.to_string(), hint)
}

/// What is covered, for programs.
pub(crate) fn about(covers: &Coverage) -> Value {
    json!({"paths": covers.paths, "bytes": covers.bytes, "sha256": covers.sha256})
}

/// What was changed, for programs.
pub(crate) fn data(differences: &Differences) -> Value {
    let Differences { changed, added, removed, unknown, elsewhere } = differences;
    let first = |paths: &[String]| paths.iter().take(TOLD).cloned().collect::<Vec<_>>();
    json!({
        "changed": first(changed), "added": first(added), "removed": first(removed), "unknown": first(unknown),
        "elsewhere": first(elsewhere),
        "paths": changed.len() + added.len() + removed.len() + unknown.len(),
    })
}

/// How much is covered, for people.
pub(crate) fn covered(covers: &Coverage) -> String {
    match covers.paths {
        1 => "covers 1 path".to_string(),
        paths => format!("covers {paths} paths"),
    }
}

/// For people: how much, and then what.
pub(crate) fn lines(covers: &Coverage, differences: &Differences) -> Vec<String> {
    let Differences { changed, added, removed, unknown, elsewhere } = differences;
    if differences.is_empty() {
        return vec![format!("{}, all as it was", covered(covers))];
    }
    let mut lines = vec![format!(
        "{}; since then {} changed, {} added, {} removed, {} not to be compared",
        covered(covers),
        changed.len(),
        added.len(),
        removed.len(),
        unknown.len()
    )];
    for (word, paths) in [("changed", changed), ("added", added), ("removed", removed), ("unknown", unknown)]
    {
        lines.extend(paths.iter().take(SHOWN).map(|path| format!("  {word:8} {}", clean(path))));
        let more = paths.len().saturating_sub(SHOWN);
        lines.extend((more > 0).then(|| format!("  {word:8} and {more} more")));
    }
    if !elsewhere.is_empty() {
        lines.push(
            "not scan at, since it is not below the working folder (name it: --compare=PATH):".to_string(),
        );
        lines.extend(elsewhere.iter().map(|path| format!("  {}", clean(path))));
    }
    lines
}
