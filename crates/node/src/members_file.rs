//! The file of members, read again and again.
//!
//! Guarantees that each new content is told once, and each new mistake in it once. Does not guarantee that a file that is
//! being written is seen only whole: put a new one in its place with `mv`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use crate::members::{ListedMember, MAX_FILE_BYTES, parse_file};

/// How often it is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the file says, whenever that is something else. Nothing, ever, without a file.
pub(crate) fn watch(file: Option<PathBuf>) -> mpsc::Receiver<Result<Vec<ListedMember>, String>> {
    let (sender, receiver) = mpsc::channel(1);
    if let Some(file) = file {
        tokio::spawn(async move {
            let mut last = None;
            loop {
                let read = read(&file).await.map_err(|error| error.to_string());
                if last.as_ref() != Some(&read) {
                    let told = read
                        .clone()
                        .and_then(|text| parse_file(&text).map_err(|error| error.to_string()))
                        .map_err(|error| format!("{}: {error}; the former list stays", file.display()));
                    if sender.send(told).await.is_err() {
                        return;
                    }
                    last = Some(read);
                }
                tokio::time::sleep(LOOK_EVERY).await;
                if sender.is_closed() {
                    return;
                }
            }
        });
    }
    receiver
}

async fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = tokio::fs::File::open(file).await?.take(MAX_FILE_BYTES + 1).read_to_string(&mut text).await?;
    // A part of a list is another list.
    if read as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other(format!("it is longer than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}
