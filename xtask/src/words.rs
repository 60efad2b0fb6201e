//! Words that must not be in the tree.
//!
//! The words are written in two halves here, so that this file passes its own check.

use crate::Finding;
use crate::rust_code::{code_only, identifiers, line_of};
use crate::tree::{File, Tree};

struct Word {
    text: &'static str,
    /// Which characters must not stand before it, and after it, for it to count.
    before: fn(char) -> bool,
    after: fn(char) -> bool,
    why: &'static str,
}

const UNFINISHED: &str = "nothing unfinished is committed: do it, or open an issue";
const SKIPPED: &str = "a test that does not run proves nothing: fix it or remove it";
const MACHINE: &str = "a path of one machine";
const REGISTRY: &str = "where packages come from is the business of each machine's own configuration";

const WORDS: &[Word] = &[
    Word { text: concat!("TO", "DO"), before: letter, after: letter, why: UNFINISHED },
    Word { text: concat!("FIX", "ME"), before: letter, after: letter, why: UNFINISHED },
    Word { text: concat!("XX", "X"), before: letter, after: letter, why: UNFINISHED },
    Word { text: concat!("todo", "!("), before: letter, after: never, why: UNFINISHED },
    Word { text: concat!("unimplemented", "!("), before: letter, after: never, why: UNFINISHED },
    Word { text: concat!("#[", "ignore"), before: never, after: letter, why: SKIPPED },
    Word { text: concat!("/wo", "rk/"), before: path_part, after: never, why: MACHINE },
    Word { text: concat!("/ro", "ot/"), before: path_part, after: never, why: MACHINE },
    Word { text: concat!("index.", "crates.io"), before: never, after: never, why: REGISTRY },
    Word { text: concat!("static.", "crates.io"), before: never, after: never, why: REGISTRY },
    Word { text: concat!("crates.io", "-index"), before: never, after: never, why: REGISTRY },
    Word { text: concat!("arti", "factory"), before: never, after: never, why: REGISTRY },
    Word { text: concat!("pypi", ".org"), before: never, after: never, why: REGISTRY },
    Word { text: concat!("python", "hosted.org"), before: never, after: never, why: REGISTRY },
    Word { text: concat!("registry.", "npmjs.org"), before: never, after: never, why: REGISTRY },
];

/// The only source that `Cargo.lock` may name.
const LOCK_SOURCE: &str = concat!("source = \"registry+https://github.com/rust-lang/crates.io", "-index\"");

/// Finds forbidden words in every text file, foreign sources in `Cargo.lock`, and the keyword `unsafe` in
/// the code of `crates/` (comments may speak of it).
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        if file.path.rsplit('/').next() == Some("Cargo.lock") {
            lock_sources(file, &mut findings);
        } else {
            words(file, &mut findings);
        }
    }
    for file in tree.under("crates/", ".rs") {
        let code = code_only(&file.text);
        for (at, _) in identifiers(&code).filter(|&(_, word)| word == "unsafe") {
            let message = "`unsafe` is not used in Baton; rustix has safe calls for what the system offers";
            findings.push(Finding::at(&file.path, line_of(&code, at), message));
        }
    }
    findings
}

fn words(file: &File, findings: &mut Vec<Finding>) {
    for (number, line) in file.text.lines().enumerate() {
        for word in WORDS {
            let stands = line.match_indices(word.text).any(|(at, _)| {
                !line[..at].chars().next_back().is_some_and(word.before)
                    && !line[at + word.text.len()..].chars().next().is_some_and(word.after)
            });
            if stands {
                findings.push(Finding::at(&file.path, number + 1, format!("`{}`: {}", word.text, word.why)));
            }
        }
    }
}

fn lock_sources(file: &File, findings: &mut Vec<Finding>) {
    for (number, line) in file.text.lines().enumerate() {
        if line.starts_with("source = ") && line != LOCK_SOURCE {
            findings.push(Finding::at(&file.path, number + 1, format!("`{line}`: {REGISTRY}")));
        }
    }
}

fn letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// What precedes a slash inside a longer path: `docs/x/`, `$HOME/x/`, `{dir}/x/`, `../x/`, `<dir>/x/`.
fn path_part(c: char) -> bool {
    letter(c) || matches!(c, '.' | '-' | '/' | '}' | '>' | '*' | '~')
}

fn never(_: char) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found() {
        for word in WORDS {
            let line = format!("fine\n( {} )\n", word.text);
            let found = check(&Tree::sample(&[("docs/a.md", &line)]));
            assert_eq!(found.len(), 1, "{}", word.text);
            assert_eq!((found[0].path.as_str(), found[0].line), ("docs/a.md", 2));
        }
    }

    #[test]
    fn parts_of_other_words_pass() {
        let dir = concat!("docs/wo", "rk/x $HOME/ro", "ot/x");
        let text = format!("mktemp a.{} {dir} unsafe", concat!("XX", "XXXX"));
        assert_eq!(check(&Tree::sample(&[("scripts/a", &text), ("bench/a.rs", "unsafe {}")])), []);
    }

    #[test]
    fn the_keyword_is_found_in_code_only() {
        let source = "#![forbid(unsafe_code)]\n// unsafe\nlet a = \"unsafe\";\nunsafe { b() }\n";
        let found = check(&Tree::sample(&[("crates/x/src/lib.rs", source)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 4);
    }

    #[test]
    fn a_foreign_source_in_the_lock_file_is_found() {
        let lock = format!("{LOCK_SOURCE}\nsource = \"git+https://example.com/x\"\n");
        let found = check(&Tree::sample(&[("Cargo.lock", &lock)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 2);
    }
}
