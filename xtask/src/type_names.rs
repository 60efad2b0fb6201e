//! Names that a type must not have: participles and pronouns say how a value came about, and metaphors hide a mechanism.

use crate::Finding;
use crate::rust_code::{code_only, identifiers, line_of};
use crate::tree::Tree;

/// Exact names. `SeenRequest` and `SocketPath` are fine; `Seen` and `Place` are not.
const DENIED: &[&str] = &[
    // Participles.
    "Announced",
    "Asked",
    "Found",
    "Heard",
    "Kept",
    "Known",
    "Listening",
    "Looked",
    "Noted",
    "Running",
    "Said",
    "Seen",
    "Shown",
    "Spoken",
    "Standing",
    "Told",
    "Unheard",
    "Waiting",
    "Wanted",
    "Watched",
    "Written",
    // Pronouns and question words.
    "How",
    "What",
    "Which",
    "Who",
    "Whom",
    "Why",
    // Metaphors, and words that had several meanings.
    "Desk",
    "Door",
    "Ears",
    "Family",
    "Farewell",
    "Guest",
    "Hand",
    "Household",
    "Kin",
    "Life",
    "Line",
    "Lobby",
    "Lookout",
    "News",
    "Office",
    "Paper",
    "Place",
    "Post",
    "RollCall",
    "Seat",
    "Sign",
    "Terms",
    "Turn",
    "Ward",
    "Way",
    "Weather",
    "Wish",
    "Wishes",
];

/// Finds types with a denied name.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.under("crates/", ".rs") {
        let code = code_only(&file.text);
        let words: Vec<(usize, &str)> = identifiers(&code).collect();
        for pair in words.windows(2) {
            let [(_, keyword), (at, name)] = pair else { continue };
            if matches!(*keyword, "struct" | "enum" | "trait" | "type" | "union") && DENIED.contains(name) {
                let message = format!("a type `{name}`: name it after the thing, by a noun");
                findings.push(Finding::at(&file.path, line_of(&code, *at), message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::sample(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_denied_name_is_found_on_every_kind_of_type() {
        for name in DENIED {
            for kind in ["struct", "pub enum", "pub(crate) trait", "type", "union"] {
                let text = format!("// Fine.\n{kind} {name}<T> {{}}\n");
                assert_eq!(found("crates/peer/src/a.rs", &text), [2], "{kind} {name}");
            }
        }
    }

    #[test]
    fn longer_names_variants_and_comments_pass() {
        let fine =
            "struct SeenRequest; enum E { Told, Place(u8) } // struct Told\nlet s = \"enum What\"; f(Seen);";
        assert!(found("crates/peer/src/a.rs", fine).is_empty());
    }
}
