//! Which store is meant when none is named.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that a store is looked for under.
const FOLDER: &str = ".baton";

/// `$BATON_STORE`, else the nearest `.baton` folder upwards, else `./.baton`. Creates nothing.
pub fn default_store() -> String {
    match std::env::var("BATON_STORE") {
        Ok(url) if !url.is_empty() => url,
        Ok(_) | Err(_) => {
            let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
            format!("file:{}", locate(&here).display())
        }
    }
}

/// The nearest `.baton` folder upwards from a folder; else where one would be made.
///
/// In a worktree of git, the search goes on in the main worktree, so that all worktrees of a repository share one store.
pub fn locate(start: &Path) -> PathBuf {
    let start = main_worktree(start).unwrap_or_else(|| start.to_path_buf());
    start
        .ancestors()
        .map(|folder| folder.join(FOLDER))
        .find(|path| path.is_dir())
        .unwrap_or(start.join(FOLDER))
}

/// The place in the main worktree that corresponds to a place in a linked one.
///
/// A linked worktree has a file `.git` where others have a folder, so that git is asked only where it matters.
fn main_worktree(start: &Path) -> Option<PathBuf> {
    let linked = start.ancestors().find(|folder| folder.join(".git").exists())?;
    if linked.join(".git").is_dir() {
        return None;
    }
    let output = Command::new("git")
        .args(["rev-parse", "--path-format=absolute", "--git-common-dir"])
        .current_dir(linked)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .output()
        .ok()?;
    let common = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    if !output.status.success() || common.file_name()? != ".git" {
        return None;
    }
    let main = common.parent()?;
    let relative = start.strip_prefix(linked).ok()?;
    let place = main.join(relative);
    Some(if place.is_dir() { place } else { main.to_path_buf() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn git(folder: &Path, args: &[&str]) {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"];
        let done = Command::new("git").args(identity).args(args).current_dir(folder).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    #[test]
    fn the_nearest_folder_upwards_and_otherwise_here() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        assert_eq!(locate(&deep), deep.join(".baton"));
        fs::create_dir(root.path().join(".baton")).unwrap();
        assert_eq!(locate(&deep), root.path().join(".baton"));
    }

    #[test]
    fn a_worktree_shares_the_store_of_the_main_tree() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let main = root.join("main");
        fs::create_dir(&main).unwrap();
        git(&main, &["init", "-q"]);
        git(&main, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&main, &["worktree", "add", "-q", "../other"]);
        assert_eq!(locate(&root.join("other")), main.join(".baton"));
        fs::create_dir(main.join(".baton")).unwrap();
        assert_eq!(locate(&root.join("other")), main.join(".baton"));
        assert_eq!(locate(&main), main.join(".baton"));
    }
}
