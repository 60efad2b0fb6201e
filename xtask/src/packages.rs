//! The packages of the workspace and what they depend on, as cargo reads the manifests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Where a dependency is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In what is shipped, or in its build script.
    Shipped,
    /// In tests, examples and benchmarks only.
    Dev,
}

/// A dependency of a package of ours on another package of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrow {
    /// The package that is depended on.
    pub to: String,
    /// Where it is used.
    pub kind: Kind,
}

/// A package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name in its manifest.
    pub name: String,
    /// Path of the manifest from the root of the repository.
    pub manifest: String,
    /// Its dependencies by path; those from a registry are `cargo deny`'s business.
    pub arrows: Vec<Arrow>,
}

/// Asks cargo for the packages. Renamed, optional and target-specific dependencies are included.
pub fn load(root: &Path) -> Result<Vec<Package>> {
    // The variable names the cargo that runs the tests, so that both agree on the manifest format.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    list(&metadata["packages"], "packages")?.iter().map(|package| read(root, package)).collect()
}

fn read(root: &Path, package: &Value) -> Result<Package> {
    let manifest = Path::new(text(&package["manifest_path"], "manifest_path")?);
    let manifest = manifest.strip_prefix(root).context("a package outside the repository")?;
    let mut arrows = Vec::new();
    for dependency in list(&package["dependencies"], "dependencies")? {
        if dependency["path"].is_null() {
            continue;
        }
        let kind = if dependency["kind"] == "dev" { Kind::Dev } else { Kind::Shipped };
        arrows.push(Arrow { to: text(&dependency["name"], "name")?.to_owned(), kind });
    }
    Ok(Package {
        name: text(&package["name"], "name")?.to_owned(),
        manifest: manifest.to_string_lossy().into_owned(),
        arrows,
    })
}

fn list<'a>(value: &'a Value, what: &str) -> Result<&'a Vec<Value>> {
    value.as_array().with_context(|| format!("cargo metadata has no list {what}"))
}

fn text<'a>(value: &'a Value, what: &str) -> Result<&'a str> {
    value.as_str().with_context(|| format!("cargo metadata has no text {what}"))
}
