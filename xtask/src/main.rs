//! What the tree looks like, for people: `cargo run -p xtask -- size` and `-- prose`. The checks run as tests.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use xtask::tree::Tree;
use xtask::{code_lines, prose};

fn main() -> Result<()> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is one folder below the root")?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let text = match words[..] {
        ["size"] => code_lines::table(&code_lines::count(&Tree::load(root)?)),
        ["prose"] => prose_below(&Tree::load(root)?, ""),
        ["prose", path] => prose_below(&Tree::load(root)?, path),
        _ => bail!("usage: cargo run -p xtask -- size | prose [PATH]"),
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

/// The findings of the prose check below a path.
fn prose_below(tree: &Tree, path: &str) -> String {
    let found = prose::check(tree).into_iter().filter(|finding| finding.path.starts_with(path));
    found.map(|finding| format!("{finding}\n")).collect()
}
