//! Decision records are numbered in one row and listed.

use crate::Finding;
use crate::markdown;
use crate::tree::Tree;

const FOLDER: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";

/// Every file beside the index is `NNNN-title.md`, numbers run from 0001 without gap or double, and the
/// index links to each.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let index = tree.file(INDEX).map(|file| file.text.as_str());
    if index.is_none() {
        findings.push(Finding::whole(INDEX, "missing: it lists the decision records"));
    }
    let linked: Vec<String> = markdown::links(index.unwrap_or_default())
        .into_iter()
        .map(|link| link.target.trim_start_matches("./").split('#').next().unwrap_or_default().to_owned())
        .collect();
    let mut expected = 1;
    for file in tree.under(FOLDER, "").filter(|file| file.path != INDEX) {
        let name = &file.path[FOLDER.len()..];
        let Some(number) = number(name) else {
            findings.push(Finding::whole(&file.path, "a record is called NNNN-title.md, in small letters"));
            continue;
        };
        if number < expected {
            findings.push(Finding::whole(&file.path, format!("the number {number:04} is used twice")));
        } else if number > expected {
            findings.push(Finding::whole(&file.path, format!("there is no record {expected:04} before it")));
        }
        expected = expected.max(number + 1);
        if !linked.iter().any(|target| target == name) {
            findings.push(Finding::whole(&file.path, format!("{INDEX} does not link to it")));
        }
    }
    findings
}

fn number(name: &str) -> Option<u32> {
    let (number, title) = name.strip_suffix(".md")?.split_once('-')?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let well_formed = number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit());
    (well_formed && !title.is_empty() && title.chars().all(plain)).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_folder(index: &str, names: &[&str], expected: &[&str]) {
        let paths: Vec<String> = names.iter().map(|name| format!("{FOLDER}{name}")).collect();
        let mut files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
        files.push((INDEX, index));
        let found: Vec<String> = check(&Tree::sample(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (finding, part) in found.iter().zip(expected) {
            assert!(finding.contains(part), "{finding} has no {part}");
        }
    }

    const BOTH: &str = "- [a](0001-a.md)\n- [b](./0002-b.md#why)\n";

    #[test]
    fn a_listed_row_passes() {
        check_folder(BOTH, &["0001-a.md", "0002-b.md"], &[]);
        check_folder("", &[], &[]);
    }

    #[test]
    fn what_breaks_the_row_is_found() {
        check_folder(BOTH, &["0002-b.md"], &["no record 0001"]);
        check_folder(
            "[a](0001-a.md) [b](0001-b.md)",
            &["0001-a.md", "0001-b.md"],
            &["0001-b.md: the number 0001"],
        );
        check_folder(BOTH, &["0001-a.md", "0002-b.md", "0003-c.md"], &["does not link"]);
        for name in
            ["1-a.md", "0001-A b.md", "0001.md", "notes.txt", "0001-.md", "old/0001-a.md", "+001-a.md"]
        {
            check_folder(BOTH, &[name], &["NNNN-title.md"]);
        }
        assert_eq!(check(&Tree::default()).len(), 1, "no index");
    }
}
