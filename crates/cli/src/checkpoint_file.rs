//! What CMD leaves for its successor: read, shaped and published, by run or, when run is gone, by the warden.
//!
//! A file counts as whole if nobody writes it: it stood still for a look, or nothing of CMD is left. A text that begins like an object of
//! JSON and is none was cut off: it is kept aside, not published.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use baton::election::command::{MAX_CHECKPOINT_BYTES, MAX_TEXT_BYTES};
use baton::election::document::Reference;
use baton::election::{ContentHash, Credential, ElectionName, Epoch};
use baton::{CheckpointContent, Coordinator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::input::object_of;
use crate::manifest;
use crate::state_folder::{StateFolder, write_private};

/// The longest file that is taken. What is over 64 KiB of it is kept beside the document.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What tells one state of a file from another.
pub(crate) type FileState = (SystemTime, u64);

/// The state of a file; none if there is none, or nothing in it.
pub(crate) fn mark(path: &Path) -> Option<FileState> {
    let data = fs::metadata(path).ok().filter(|data| data.len() > 0)?;
    Some((data.modified().ok()?, data.len()))
}

/// The file that CMD writes, and the one in which run notes the state of it that it has dealt with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CheckpointFile {
    pub(crate) file: PathBuf,
    settled: PathBuf,
    /// A validator judges it before it is published.
    judged: bool,
}

impl CheckpointFile {
    pub(crate) fn new(file: &Path, judged: bool) -> CheckpointFile {
        let mut settled = file.as_os_str().to_owned();
        settled.push("-settled");
        CheckpointFile { file: file.to_path_buf(), settled: settled.into(), judged }
    }

    /// Notes that this state of the file is published, or will not be. A run that cannot note it has it published once more.
    pub(crate) fn settle(&self, mark: FileState) {
        let _ = write_private(&self.settled, text_of(mark).as_bytes());
    }

    /// Whether run has not dealt with what lies there.
    fn is_unsettled(&self) -> bool {
        let settled = fs::read_to_string(&self.settled).unwrap_or_default();
        mark(&self.file).is_some_and(|mark| text_of(mark) != settled)
    }

    /// Publishes what run did not live to publish. CMD is gone, so that nobody writes it. Returns what to say of it, if anything.
    pub(crate) async fn publish_orphaned(&self, publisher: &Publisher, epoch: Epoch) -> Option<String> {
        if !self.is_unsettled() {
            return None;
        }
        let bytes = match read(&self.file).await {
            Ok(bytes) => bytes,
            Err(why) => return Some(format!("the last checkpoint is not published: {why}")),
        };
        let why = match self.judged {
            true => publisher.keep_aside(bytes, "its validator has not judged it").await,
            false => publisher.publish(publisher.token(epoch).await, bytes).await.err()?,
        };
        Some(format!("the last checkpoint is not published: {why}"))
    }
}

fn text_of((modified, bytes): FileState) -> String {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{} {bytes}\n", since.as_nanos())
}

/// Reads what CMD wrote, beside the one thread that renews.
///
/// # Errors
/// Why it cannot be taken.
pub(crate) async fn read(path: &Path) -> Result<Vec<u8>, String> {
    let path = path.to_path_buf();
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        fs::File::open(&path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    });
    let bytes = read.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!(
            "it is over {} MiB; leave the large file where it is, and name it: baton checkpoint --reference FILE",
            MAX_FILE_BYTES >> 20
        ));
    }
    Ok(bytes)
}

/// Publishes checkpoints of one leadership.
#[derive(Clone)]
pub(crate) struct Publisher {
    pub(crate) coordinator: Coordinator,
    pub(crate) election: ElectionName,
    pub(crate) credential: Credential,
    pub(crate) state: StateFolder,
}

impl Publisher {
    /// Publishes what CMD wrote. Returns why it covers nothing, if it should. What is not published is kept aside.
    ///
    /// # Errors
    /// Why it is not published, and where it is kept.
    pub(crate) async fn publish(&self, token: Epoch, bytes: Vec<u8>) -> Result<Option<String>, String> {
        let bytes = Arc::new(bytes);
        match self.send(token, Arc::clone(&bytes)).await {
            Ok(uncovered) => Ok(uncovered),
            Err(why) => Err(self.keep_aside(Arc::unwrap_or_clone(bytes), &why).await),
        }
    }

    async fn send(&self, token: Epoch, bytes: Arc<Vec<u8>>) -> Result<Option<String>, String> {
        let state = self.state.clone();
        let shaped = tokio::task::spawn_blocking(move || content_of(&bytes, &state)).await;
        let (mut content, places) = shaped.map_err(|error| error.to_string())??;
        let mut uncovered = None;
        if !places.is_empty() {
            match manifest::cover(places, &self.state, content.state.len()).await {
                Ok(covers) => content.covers = Some(covers),
                // The state is worth more than the knowledge of what was changed after it.
                Err(failure) => uncovered = Some(failure.message),
            }
        }
        let sent = self.coordinator.checkpoint(&self.election, token, self.credential, &content).await;
        sent.map_err(|error| error.to_string())?;
        Ok(uncovered)
    }

    /// The token of this leadership as it stands: it may have risen since it was granted.
    async fn token(&self, granted: Epoch) -> Epoch {
        let view = self.coordinator.view(&self.election).await.ok();
        let leader = view.as_ref().and_then(|view| view.leader());
        let own = leader.filter(|leader| leader.incarnation == self.credential.incarnation);
        own.map_or(granted, |leader| leader.epoch)
    }

    /// Keeps what is not published where a person finds it; says why it is not published, and where it is kept.
    async fn keep_aside(&self, bytes: Vec<u8>, why: &str) -> String {
        let folder = self.state.path().join("checkpoints");
        let kept = tokio::task::spawn_blocking(move || {
            let path = folder.join(format!("unpublished-{}", ContentHash::of(&bytes)));
            write_private(&path, &bytes).map(|()| path)
        });
        match kept.await {
            Ok(Ok(path)) => format!("{why}; it is kept in {}", path.display()),
            Ok(Err(failure)) => format!("{why}; it could not be kept: {}", failure.message),
            Err(error) => format!("{why}; it could not be kept: {error}"),
        }
    }
}

/// What CMD wrote for its successor: `{"summary": …, "state": …, "covers": […]}`, any other JSON as the state, anything else as text. With the
/// places that it covers, which nobody has looked at yet.
fn content_of(bytes: &[u8], state: &StateFolder) -> Result<(CheckpointContent, Vec<PathBuf>), String> {
    let CheckpointObject { summary, state: value, covers: places } =
        shape_of(&String::from_utf8_lossy(bytes))?;
    let summary = shortened(&summary);
    let inline = value.to_string();
    if inline.len() <= MAX_CHECKPOINT_BYTES {
        let content = CheckpointContent { summary, state: inline, reference: None, covers: None };
        return Ok((content, places));
    }
    let sha256 = ContentHash::of(bytes);
    let kept = state.path().join("checkpoints").join(sha256.to_string());
    write_private(&kept, bytes).map_err(|failure| failure.message)?;
    let reference = Reference { location: kept.display().to_string(), sha256 };
    let state = "null".to_string();
    Ok((CheckpointContent { summary, state, reference: Some(reference), covers: None }, places))
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointObject {
    #[serde(default)]
    summary: String,
    #[serde(default)]
    state: Value,
    #[serde(default)]
    covers: Vec<PathBuf>,
}

fn shape_of(text: &str) -> Result<CheckpointObject, String> {
    if let Ok(shaped) = object_of::<CheckpointObject>(text) {
        return Ok(shaped);
    }
    match serde_json::from_str(text) {
        Ok(state) => Ok(CheckpointObject { summary: String::new(), state, covers: Vec::new() }),
        Err(error) if text.trim_start().starts_with('{') => {
            Err(format!("it begins like JSON and is not whole ({error})"))
        }
        Err(_) => {
            let first = text.lines().next().unwrap_or_default().to_string();
            Ok(CheckpointObject {
                summary: first,
                state: Value::String(text.to_string()),
                covers: Vec::new(),
            })
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
    use serde_json::json;

    /// What CMD writes is left as it is, unless it has the shape that is asked for.
    #[test]
    fn any_other_json_is_the_state() {
        let shaped = shape_of(r#"{"summary": "s", "state": {"n": 1}, "covers": ["src"]}"#).unwrap();
        assert_eq!((shaped.summary.as_str(), &shaped.state), ("s", &json!({"n": 1})));
        assert_eq!(shaped.covers, [PathBuf::from("src")]);
        for text in
            [r#"["done", "to do"]"#, r#"["s", {"n": 1}, ["src"]]"#, "[]", "7", r#"{"n": 1}"#, "{\"n\": 1}\n"]
        {
            let state: Value = serde_json::from_str(text).unwrap();
            let expected = CheckpointObject { summary: String::new(), state, covers: Vec::new() };
            assert_eq!(shape_of(text), Ok(expected), "{text}");
        }
        let plain = shape_of("first line\nsecond").unwrap();
        assert_eq!((plain.summary.as_str(), plain.state), ("first line", json!("first line\nsecond")));
    }

    #[test]
    fn an_object_that_was_cut_off_is_not_taken_for_text() {
        let whole = r#"{"summary": "s", "state": {"n": 1}}"#;
        for end in 1..whole.len() {
            assert!(shape_of(&whole[..end]).is_err(), "{}", &whole[..end]);
        }
        assert!(shape_of("[x] one, [ ] two").is_ok(), "a list of a person's is text");
    }
}
