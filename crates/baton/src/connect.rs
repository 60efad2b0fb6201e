//! From a URL to a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_store::{Access, FileStore, MemoryStore, Store, StoreUrl, UrlError};
use baton_store_git::GitStore;

use crate::error::Error;

/// The schemes that this build can open.
pub fn schemes() -> &'static [&'static str] {
    &["file", "git", "mem"]
}

pub(crate) async fn open(url: &StoreUrl, access: Access) -> Result<Arc<dyn Store>, Error> {
    match url.scheme.as_str() {
        "file" => {
            url.only(&[])?;
            Ok(Arc::new(FileStore::open(&expand(&url.rest)?, access)?))
        }
        "git" => Ok(Arc::new(GitStore::open(url)?)),
        "mem" => {
            url.only(&[])?;
            Ok(Arc::new(MemoryStore::default()))
        }
        other => Err(unknown(other).into()),
    }
}

fn unknown(scheme: &str) -> UrlError {
    UrlError::new(
        format!("no store has the scheme `{scheme}:`"),
        format!(
            "this Baton has: {}",
            schemes().iter().map(|s| format!("{s}:")).collect::<Vec<_>>().join(" ")
        ),
    )
}

/// A path, with `~` for the home folder.
fn expand(path: &str) -> Result<PathBuf, UrlError> {
    if path.is_empty() {
        return Err(UrlError::new("the store `file:` names no folder", "write file:DIR"));
    }
    match path.strip_prefix("~/").map(|rest| (rest, std::env::home_dir())) {
        Some((rest, Some(home))) => Ok(home.join(rest)),
        Some((_, None)) => Err(UrlError::new("there is no home folder", "write the whole path")),
        None => Ok(Path::new(path).to_path_buf()),
    }
}
