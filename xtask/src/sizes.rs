//! Files that are too long to read in one sitting.

use crate::Finding;
use crate::tree::Tree;

/// A Rust file of this many lines fails.
pub const LIMIT: usize = 800;
/// What to aim for.
pub const AIM: usize = 400;

/// Finds Rust files of [`LIMIT`] lines or more.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.under("", ".rs")
        .map(|file| (file, file.text.lines().count()))
        .filter(|&(_, lines)| lines >= LIMIT)
        .map(|(file, lines)| {
            let message = format!("{lines} lines, the limit is {LIMIT}; hint: aim for {AIM}, split by idea");
            Finding::whole(&file.path, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exact() {
        let long = "\n".repeat(LIMIT);
        let short = "\n".repeat(LIMIT - 1);
        let found = check(&Tree::sample(&[("a.rs", &long), ("b.rs", &short), ("c.md", &long)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("a.rs: 800 lines"), "{}", found[0]);
    }
}
