//! Which store is meant when none is named.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use baton_store::StoreError;

/// The folder that a store is looked for under.
const FOLDER: &str = ".baton";

/// The store that is meant when none is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultStore {
    /// Its name.
    pub url: String,
    /// How it came to be this one.
    pub origin: Origin,
}

/// How a store came to be the one that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `$BATON_STORE` names it.
    Named,
    /// It was found in the folder where the search began.
    Here,
    /// It was found in a folder above.
    Above,
    /// Nothing was found: it would be made in the folder where the search began.
    New,
}

/// `$BATON_STORE`, else the nearest `.baton` folder upwards, else `./.baton`. Creates nothing.
///
/// Refuses a folder that was found and that another user controls: who owns the store decides who leads, who operates, and what the
/// next leader is told.
pub fn default_store() -> Result<DefaultStore, StoreError> {
    match std::env::var("BATON_STORE") {
        Ok(url) if !url.is_empty() => Ok(DefaultStore { url, origin: Origin::Named }),
        Ok(_) | Err(_) => {
            let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
            let (folder, origin) = locate(&here)?;
            Ok(DefaultStore { url: format!("file:{}", folder.display()), origin })
        }
    }
}

/// The nearest `.baton` folder upwards from a folder; else where one would be made.
///
/// The search ends at the user's home folder and at the border of the file system. In a worktree of git, it goes on in the main
/// worktree, so that all worktrees of a repository share one store.
pub fn locate(start: &Path) -> Result<(PathBuf, Origin), StoreError> {
    let start = main_worktree(start).unwrap_or_else(|| start.to_path_buf());
    let home = std::env::var_os("HOME").and_then(|home| fs::canonicalize(home).ok());
    search(&start, home.as_deref(), rustix::process::geteuid().as_raw())
}

fn search(start: &Path, home: Option<&Path>, user: u32) -> Result<(PathBuf, Origin), StoreError> {
    let device = fs::metadata(start).map(|found| found.dev()).ok();
    let mut crossed = Vec::new();
    for folder in start.ancestors() {
        if device.is_some() && fs::metadata(folder).map(|found| found.dev()).ok() != device {
            break;
        }
        crossed.push(folder);
        let store = folder.join(FOLDER);
        if store.is_dir() {
            trusted(&store, &crossed, user)?;
            return Ok((store, if folder == start { Origin::Here } else { Origin::Above }));
        }
        if home.is_some_and(|home| fs::canonicalize(folder).is_ok_and(|folder| folder == home)) {
            break;
        }
    }
    Ok((start.join(FOLDER), Origin::New))
}

/// Refuses a store that was found if somebody else can have put it there, or can change what is in it.
fn trusted(store: &Path, crossed: &[&Path], user: u32) -> Result<(), StoreError> {
    let refused = |path: &Path, why: String| StoreError::Refused {
        place: store.display().to_string(),
        why: format!("it was found, not named, and {} {why}", path.display()),
        hint: format!("if you trust it, name it: --store file:{}", store.display()),
    };
    let failed = |path: &Path, error: &std::io::Error| refused(path, format!("cannot be looked at: {error}"));
    let foreign = |found: &Metadata| ![user, 0].contains(&found.uid());
    // The link, if it is one, and the folder that it leads to.
    for found in [fs::symlink_metadata(store), fs::metadata(store)] {
        let found = found.map_err(|error| failed(store, &error))?;
        if foreign(&found) {
            return Err(refused(store, format!("belongs to another user (uid {})", found.uid())));
        }
        if found.is_dir() && found.mode() & 0o002 != 0 {
            return Err(refused(store, "can be written by every user".to_string()));
        }
    }
    for folder in crossed {
        let found = fs::metadata(folder).map_err(|error| failed(folder, &error))?;
        if foreign(&found) {
            return Err(refused(folder, format!("belongs to another user (uid {})", found.uid())));
        }
        // In a sticky folder, such as /tmp, others cannot replace what is ours.
        if found.mode() & 0o1002 == 0o002 {
            return Err(refused(folder, "can be written by every user".to_string()));
        }
    }
    Ok(())
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
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn git(folder: &Path, args: &[&str]) {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"];
        let done = Command::new("git").args(identity).args(args).current_dir(folder).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }

    /// A folder `a/b` below one with a store.
    fn below_a_store() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let (deep, store) = (root.path().join("a/b"), root.path().join(".baton"));
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir(&store).unwrap();
        (root, deep, store)
    }

    fn me() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[track_caller]
    fn refused(deep: &Path, store: &Path, user: u32, why: &str) {
        let error = search(deep, None, user).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.hint().contains(&format!("--store file:{}", store.display())), "{}", error.hint());
    }

    #[test]
    fn the_nearest_folder_upwards_and_otherwise_here() {
        let (root, deep, store) = below_a_store();
        assert_eq!(search(&deep, None, me()).unwrap(), (store.clone(), Origin::Above));
        assert_eq!(search(root.path(), None, me()).unwrap(), (store.clone(), Origin::Here));
        fs::remove_dir(&store).unwrap();
        assert_eq!(search(&deep, None, me()).unwrap(), (deep.join(".baton"), Origin::New));
    }

    #[test]
    fn the_search_ends_at_home_and_at_the_border_of_the_file_system() {
        let (root, deep, store) = below_a_store();
        let home = root.path().join("a").canonicalize().unwrap();
        assert_eq!(search(&deep, Some(&home), me()).unwrap(), (deep.join(".baton"), Origin::New));
        let home = root.path().canonicalize().unwrap();
        assert_eq!(search(&deep, Some(&home), me()).unwrap(), (store, Origin::Above), "home itself counts");
        // What is above /proc is on another file system.
        let (found, origin) = search(Path::new("/proc/self"), None, me()).unwrap();
        assert_eq!((found, origin), (PathBuf::from("/proc/self/.baton"), Origin::New));
    }

    #[test]
    fn a_store_of_another_user_is_not_taken() {
        let (_root, deep, store) = below_a_store();
        // For another user than its owner, who is neither that user nor root.
        let theirs = me() != 0 || chown(&store, Some(65_533), None).is_ok();
        assert!(theirs);
        refused(&deep, &store, 65_534, "belongs to another user");
        if me() == 0 {
            refused(&deep, &store, 0, "belongs to another user (uid 65533)");
            chown(&store, Some(0), None).unwrap();
            assert!(search(&deep, None, 65_534).is_ok(), "root may do anything anyway");
            chown(deep.parent().unwrap(), Some(65_533), None).unwrap();
            refused(&deep, &store, 0, "/a belongs to another user (uid 65533)");
        }
    }

    #[test]
    fn a_store_that_everybody_can_write_or_replace_is_not_taken() {
        let (root, deep, store) = below_a_store();
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(&store, 0o777);
        refused(&deep, &store, me(), "can be written by every user");
        set(&store, 0o2775);
        assert!(search(&deep, None, me()).is_ok(), "a group that shares it is meant");
        set(root.path(), 0o777);
        refused(&deep, &store, me(), "can be written by every user");
        set(root.path(), 0o1777);
        assert!(search(&deep, None, me()).is_ok(), "a sticky folder keeps what is ours");
    }

    #[test]
    fn a_link_counts_by_what_it_leads_to() {
        let (root, deep, store) = below_a_store();
        let elsewhere = root.path().join("elsewhere");
        fs::rename(&store, &elsewhere).unwrap();
        symlink(&elsewhere, &store).unwrap();
        assert_eq!(search(&deep, None, me()).unwrap(), (store.clone(), Origin::Above));
        fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o777)).unwrap();
        refused(&deep, &store, me(), "can be written by every user");
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
        assert_eq!(locate(&root.join("other")).unwrap(), (main.join(".baton"), Origin::New));
        fs::create_dir(main.join(".baton")).unwrap();
        for tree in ["other", "main"] {
            assert_eq!(locate(&root.join(tree)).unwrap(), (main.join(".baton"), Origin::Here));
        }
    }
}
