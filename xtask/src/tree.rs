//! The text files of the repository.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// One text file.
#[derive(Debug, Clone)]
pub struct File {
    /// Path from the root of the repository, with `/` between its parts.
    pub path: String,
    /// The whole content.
    pub text: String,
}

/// All text files of the repository, sorted by path.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    files: Vec<File>,
    /// Files that are not UTF-8 text; they exist as link targets and nothing else.
    binaries: Vec<String>,
}

impl Tree {
    /// Reads what git tracks or would track: everything but what `.gitignore` excludes.
    pub fn load(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .context("cannot run git, which lists the files of the repository")?;
        ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
        let mut tree = Self::default();
        for path in String::from_utf8(output.stdout)?.split_terminator('\0') {
            let full = root.join(path);
            // A file that is deleted and not yet committed is still listed; a submodule is a folder.
            if !full.is_file() {
                continue;
            }
            let bytes = std::fs::read(&full).with_context(|| format!("cannot read {path}"))?;
            match String::from_utf8(bytes) {
                Ok(text) => tree.files.push(File { path: path.to_owned(), text }),
                Err(_) => tree.binaries.push(path.to_owned()),
            }
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        tree.files.dedup_by(|a, b| a.path == b.path);
        Ok(tree)
    }

    /// A tree out of `(path, text)` pairs, for the tests of the checks.
    pub fn sample(files: &[(&str, &str)]) -> Self {
        let mut files: Vec<File> =
            files.iter().map(|&(path, text)| File { path: path.to_owned(), text: text.to_owned() }).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Self { files, binaries: Vec::new() }
    }

    /// Every text file.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// The text files under a folder (`crates/`) with a suffix (`.rs`).
    pub fn under<'a>(&'a self, prefix: &'a str, suffix: &'a str) -> impl Iterator<Item = &'a File> {
        self.files().filter(move |file| file.path.starts_with(prefix) && file.path.ends_with(suffix))
    }

    /// One text file by its path.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok().map(|at| &self.files[at])
    }

    /// Whether a path names a file, or a folder that has files.
    pub fn exists(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let is = |known: &str| known == path || known.starts_with(&folder);
        path.is_empty() || self.files.iter().any(|file| is(&file.path)) || self.binaries.iter().any(|p| is(p))
    }

    /// The names of the folders directly under `crates/`.
    pub fn crate_folders(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .under("crates/", "/Cargo.toml")
            .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
            .filter(|name| !name.contains('/'))
            .collect();
        names.sort_unstable();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_folders_exist() {
        let tree =
            Tree::sample(&[("docs/a.md", ""), ("crates/x/Cargo.toml", ""), ("crates/x/y/Cargo.toml", "")]);
        assert!(tree.exists("docs/a.md") && tree.exists("docs") && tree.exists("docs/") && tree.exists(""));
        assert!(!tree.exists("doc") && !tree.exists("docs/a"));
        assert_eq!(tree.crate_folders(), ["x"]);
        assert!(tree.file("docs/a.md").is_some() && tree.file("docs").is_none());
    }
}
