//! Every crate says what it is, and the map of the code has it.

use crate::Finding;
use crate::markdown::{self, Heading};
use crate::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";

/// Every `src/lib.rs` and `src/main.rs` begins with the doc of its crate.
pub fn check_docs(tree: &Tree) -> Vec<Finding> {
    let roots =
        tree.files().filter(|file| file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs"));
    roots
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| {
            Finding::at(&file.path, 1, "a crate begins with its `//!` doc: what it is, in one sentence")
        })
        .collect()
}

/// Every crate is named, as `crates/NAME`, in the section "Code map" of `ARCHITECTURE.md`.
pub fn check_map(tree: &Tree) -> Vec<Finding> {
    let text = tree.file(MAP).map_or("", |file| file.text.as_str());
    let Some(map) = code_map(text) else {
        return vec![Finding::whole(MAP, "there is no section \"Code map\"")];
    };
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let missing = tree.crate_folders().into_iter().filter(|name| {
        let entry = format!("crates/{name}");
        !map.match_indices(&entry).any(|(at, _)| !map[at + entry.len()..].chars().next().is_some_and(is_part))
    });
    missing.map(|name| Finding::whole(MAP, format!("the code map does not have `crates/{name}`"))).collect()
}

/// From the heading "Code map" to the next heading of its level or above.
fn code_map(text: &str) -> Option<String> {
    let headings = markdown::headings(text);
    let start = headings.iter().position(|heading| heading.text.eq_ignore_ascii_case("code map"))?;
    let Heading { line: from, level, .. } = headings[start];
    let to = headings[start + 1..]
        .iter()
        .find(|next| next.level <= level)
        .map_or(usize::MAX, |next| next.line - 1);
    Some(text.lines().take(to).skip(from).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_a_doc_is_found() {
        let found = check_docs(&Tree::sample(&[
            ("crates/a/src/lib.rs", "//! What it is.\n"),
            ("crates/b/src/lib.rs", "use x;\n"),
            ("crates/c/src/main.rs", "// not a doc\n"),
            ("crates/c/src/other.rs", ""),
        ]));
        let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, ["crates/b/src/lib.rs", "crates/c/src/main.rs"]);
    }

    #[track_caller]
    fn check(map: &str, missing: &[&str]) {
        let tree =
            Tree::sample(&[(MAP, map), ("crates/store/Cargo.toml", ""), ("crates/store-git/Cargo.toml", "")]);
        let found: Vec<String> = check_map(&tree).into_iter().map(|finding| finding.message).collect();
        assert_eq!(found.len(), missing.len(), "{found:?}");
        for (message, part) in found.iter().zip(missing) {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn a_crate_missing_from_the_map_is_found() {
        check("# A\n## Code map\n### `crates/store`\n### `crates/store-git`\n", &[]);
        check("## Code map\n`crates/store-git`\n", &["`crates/store`"]);
        check(
            "`crates/store`\n## Code map\n`crates/store-git`\n## Next\n`crates/store`\n",
            &["`crates/store`"],
        );
        check("## Something else\n", &["no section"]);
        assert_eq!(check_map(&Tree::default()).len(), 1, "no ARCHITECTURE.md at all");
    }
}
