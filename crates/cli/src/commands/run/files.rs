//! The files through which `baton run` and CMD talk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use baton::CheckpointContent;
use baton::election::command::{MAX_CHECKPOINT_BYTES, MAX_TEXT_BYTES};
use baton::election::document::{Checkpoint, Reference};
use baton::election::{ContentHash, Credential, Epoch};
use baton_warden::Paper;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::custody::RunFolder;
use crate::input::object_of;
use crate::output::Failure;
use crate::state::{StateFolder, write_private};

/// Where they are.
pub(super) struct Files {
    pub(super) mode: PathBuf,
    pub(super) token: PathBuf,
    pub(super) lease: PathBuf,
    pub(super) key: PathBuf,
    pub(super) checkpoint: PathBuf,
    pub(super) judged: PathBuf,
    pub(super) progress: PathBuf,
    pub(super) handover: PathBuf,
}

/// What tells one state of a file from another.
pub(super) type Mark = (SystemTime, u64);

impl Files {
    pub(super) fn make(folder: &RunFolder) -> Files {
        Files {
            mode: folder.file("mode"),
            token: folder.file("token"),
            lease: folder.file("lease.json"),
            key: folder.file("key"),
            checkpoint: folder.file("checkpoint"),
            judged: folder.file("checkpoint-judged"),
            progress: folder.file("progress"),
            handover: folder.file("handover.json"),
        }
    }

    /// What only a leader has: for the warden to write, which knows until when.
    pub(super) fn papers(&self, token: Epoch, credential: Credential) -> Vec<Paper> {
        let paper = |path: &Path, text: String| Paper { path: path.to_path_buf(), text };
        vec![paper(&self.key, format!("{credential}\n")), paper(&self.token, format!("{token}\n"))]
    }

    /// What the predecessor left; an empty object if nothing.
    pub(super) fn write_handover(&self, inherited: Option<&Checkpoint>) -> Result<(), Failure> {
        let data = inherited.map_or_else(|| json!({}), |checkpoint| json!(checkpoint));
        write_private(&self.handover, format!("{data:#}\n").as_bytes())
    }
}

/// The state of a file; none if there is none, or nothing in it.
pub(super) fn mark(path: &Path) -> Option<Mark> {
    let data = fs::metadata(path).ok().filter(|data| data.len() > 0)?;
    Some((data.modified().ok()?, data.len()))
}

/// When a file was last touched, empty or not.
pub(super) fn touched(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// What CMD wrote for its successor: `{"summary": …, "state": …, "covers": […]}`, any other JSON as the state, anything else as text. With the
/// places that it covers, which nobody has looked at yet.
pub(super) fn checkpoint_of(
    bytes: &[u8],
    state: &StateFolder,
) -> Result<(CheckpointContent, Vec<PathBuf>), Failure> {
    let Shaped { summary, state: value, covers: places } = shape_of(&String::from_utf8_lossy(bytes));
    let summary = shortened(&summary);
    let inline = value.to_string();
    if inline.len() <= MAX_CHECKPOINT_BYTES {
        let content = CheckpointContent { summary, state: inline, reference: None, covers: None };
        return Ok((content, places));
    }
    let sha256 = ContentHash::of(bytes);
    let kept = state.path().join("checkpoints").join(sha256.to_string());
    write_private(&kept, bytes)?;
    let reference = Reference { location: kept.display().to_string(), sha256 };
    let state = "null".to_string();
    Ok((CheckpointContent { summary, state, reference: Some(reference), covers: None }, places))
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shaped {
    #[serde(default)]
    summary: String,
    #[serde(default)]
    state: Value,
    #[serde(default)]
    covers: Vec<PathBuf>,
}

fn shape_of(text: &str) -> Shaped {
    if let Ok(shaped) = object_of::<Shaped>(text) {
        return shaped;
    }
    match serde_json::from_str(text) {
        Ok(state) => Shaped { summary: String::new(), state, covers: Vec::new() },
        Err(_) => {
            let first = text.lines().next().unwrap_or_default().to_string();
            Shaped { summary: first, state: Value::String(text.to_string()), covers: Vec::new() }
        }
    }
}

fn shortened(summary: &str) -> String {
    let end = summary
        .char_indices()
        .map(|(at, c)| at + c.len_utf8())
        .take_while(|end| *end <= MAX_TEXT_BYTES)
        .last();
    summary[..end.unwrap_or(0)].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What CMD writes is left as it is, unless it has the shape that is asked for.
    #[test]
    fn any_other_json_is_the_state() {
        let shaped = shape_of(r#"{"summary": "s", "state": {"n": 1}, "covers": ["src"]}"#);
        assert_eq!((shaped.summary.as_str(), &shaped.state), ("s", &json!({"n": 1})));
        assert_eq!(shaped.covers, [PathBuf::from("src")]);
        for text in
            [r#"["done", "to do"]"#, r#"["s", {"n": 1}, ["src"]]"#, "[]", "7", r#"{"n": 1}"#, "{\"n\": 1}\n"]
        {
            let state: Value = serde_json::from_str(text).unwrap();
            let expected = Shaped { summary: String::new(), state, covers: Vec::new() };
            assert_eq!(shape_of(text), expected, "{text}");
        }
        let plain = shape_of("first line\nsecond");
        assert_eq!((plain.summary.as_str(), plain.state), ("first line", json!("first line\nsecond")));
    }
}
