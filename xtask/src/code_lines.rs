//! How much code there is: lines that are neither blank nor only a comment, tests apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::rust_code::{code_only, without_comments};
use crate::tree::{File, Tree};

/// The lines of one crate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Files with code that is not a test.
    pub files: usize,
    /// Lines of code that are not tests.
    pub code: usize,
    /// Lines of tests: `tests/`, `*_tests.rs`, `tests.rs`, and items under `#[cfg(test)]`.
    pub tests: usize,
}

/// The lines of each crate, by the folder of its `Cargo.toml`.
pub fn count(tree: &Tree) -> BTreeMap<String, Count> {
    let mut folders: Vec<&str> =
        tree.under("", "/Cargo.toml").filter_map(|file| file.path.strip_suffix("/Cargo.toml")).collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
    let test_modules: BTreeSet<String> = tree.under("", ".rs").flat_map(test_modules).collect();
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for file in tree.under("", ".rs") {
        let home = folders
            .iter()
            .find_map(|folder| Some((folder, file.path.strip_prefix(*folder)?.strip_prefix('/')?)));
        let Some((folder, inner)) = home else { continue };
        let count = counts.entry((*folder).to_string()).or_default();
        let (code, tests) = lines(&file.text);
        if inner.starts_with("src/") && !is_test_file(&file.path, &test_modules) {
            count.files += 1;
            count.code += code;
            count.tests += tests;
        } else {
            count.tests += code + tests;
        }
    }
    counts
}

/// A table: each crate, its lines and its share, and the total.
pub fn table(counts: &BTreeMap<String, Count>) -> String {
    let mut rows: Vec<(&String, &Count)> = counts.iter().collect();
    rows.sort_by(|(a, one), (b, other)| other.code.cmp(&one.code).then(a.cmp(b)));
    let total = counts.values().fold(Count::default(), |sum, count| Count {
        files: sum.files + count.files,
        code: sum.code + count.code,
        tests: sum.tests + count.tests,
    });
    let mut text = format!("{:26} {:>5} {:>7} {:>7} {:>7}\n", "crate", "files", "code", "share", "tests");
    let mut row = |name: &str, count: &Count| {
        let tenths = (count.code * 1000 + total.code / 2).checked_div(total.code).unwrap_or(0);
        let share = format!("{}.{}%", tenths / 10, tenths % 10);
        let Count { files, code, tests } = count;
        let _ = writeln!(text, "{name:26} {files:>5} {code:>7} {share:>7} {tests:>7}");
    };
    for (name, count) in rows {
        row(name, count);
    }
    row("total", &total);
    text
}

fn is_test_file(path: &str, test_modules: &BTreeSet<String>) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "tests.rs"
        || name.ends_with("_tests.rs")
        || path.contains("/tests/")
        || test_modules.iter().any(|module| {
            path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
}

/// The modules that a file declares for tests only, as paths without `.rs`.
fn test_modules(file: &File) -> Vec<String> {
    let code = code_only(&file.text);
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let home = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_string(),
        _ => file.path.trim_end_matches(".rs").to_string(),
    };
    let item = |(start, end): (usize, usize)| {
        let (_, declared) = code[start..end].split_once("mod ")?;
        let name = declared.strip_suffix(';')?.trim();
        Some(format!("{home}/{name}"))
    };
    test_items(&code).into_iter().filter_map(item).collect()
}

/// Lines of code that are not tests, and those that are.
fn lines(text: &str) -> (usize, usize) {
    let code = code_only(text);
    let mut tested = BTreeSet::new();
    for (start, end) in test_items(&code) {
        let first = code[..start].matches('\n').count();
        tested.extend(first..=first + code[start..end].matches('\n').count());
    }
    let (mut plain, mut tests) = (0, 0);
    for (number, line) in without_comments(text).lines().enumerate() {
        match (line.trim().is_empty(), tested.contains(&number)) {
            (true, _) => {}
            (false, false) => plain += 1,
            (false, true) => tests += 1,
        }
    }
    (plain, tests)
}

/// Where items under `#[cfg(test)]` begin and end, as bytes of the code.
pub(crate) fn test_items(code: &str) -> Vec<(usize, usize)> {
    let mut items = Vec::new();
    let mut from = 0;
    while let Some(found) =
        ["#[cfg(test)]", "#[cfg(all(test"].iter().filter_map(|mark| code[from..].find(mark)).min()
    {
        let start = from + found;
        let end = item_end(code, start);
        items.push((start, end));
        from = end;
    }
    items
}

/// After the `;` or the closing brace that ends the item.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[start..].char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '}' if depth <= 1 => return start + at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return start + at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! Doc.\n\nuse a::b; // why\n/* a\nb */\nlet text = \"x\n// in a string\";\n\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\nfn g() {}\n";

    #[test]
    fn blanks_comments_and_tests_are_apart() {
        assert_eq!(lines(SOURCE), (4, 4));
        assert_eq!(lines("#[cfg(test)]\nmod plays;\nfn g() {}\n"), (1, 2));
    }

    #[test]
    fn each_crate_has_its_row() {
        let tree = Tree::sample(&[
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod plays;\nfn a() {}\n"),
            ("crates/a/src/plays.rs", "fn p() {}\n"),
            ("crates/a/src/b_tests.rs", "fn t() {}\n"),
            ("crates/a/tests/e2e.rs", "fn e() {}\n"),
            ("xtask/Cargo.toml", ""),
            ("xtask/src/lib.rs", "fn x() {}\nfn y() {}\nfn z() {}\n"),
            ("loose.rs", "fn l() {}\n"),
        ]);
        let counts = count(&tree);
        assert_eq!(counts["crates/a"], Count { files: 1, code: 1, tests: 5 });
        assert_eq!(counts["xtask"], Count { files: 1, code: 3, tests: 0 });
        let shown = table(&counts);
        assert!(
            shown.contains("75.0%") && shown.lines().last().is_some_and(|line| line.contains("100.0%")),
            "{shown}"
        );
    }
}
