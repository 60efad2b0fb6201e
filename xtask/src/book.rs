//! The site has every page of the documentation, once.

use std::collections::BTreeMap;

use crate::Finding;
use crate::markdown;
use crate::tree::Tree;

const FOLDER: &str = "docs/";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Finds every page below `docs` that the summary leaves out or lists twice. Dead links are the business of
/// [`crate::links`].
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.file(SUMMARY) else {
        return vec![Finding::whole(SUMMARY, "missing: it lists the pages of the site")];
    };
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    let mut findings = Vec::new();
    for link in markdown::links(&summary.text) {
        let path = format!("{FOLDER}{}", link.target.trim_start_matches("./"));
        if let Some(first) = listed.insert(path, link.line) {
            let message = format!("`{}` is listed in line {first} already", link.target);
            findings.push(Finding::at(SUMMARY, link.line, message));
        }
    }
    for page in tree.under(FOLDER, ".md").filter(|page| page.path != SUMMARY) {
        if !listed.contains_key(&page.path) {
            findings.push(Finding::whole(&page.path, format!("{SUMMARY} does not list it")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_summary(summary: &str, expected: &[&str]) {
        let tree =
            Tree::sample(&[(SUMMARY, summary), ("docs/a.md", ""), ("docs/guide/b.md", ""), ("c.md", "")]);
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn every_page_is_listed_once() {
        check_summary("- [a](a.md)\n- [b](./guide/b.md)\n", &[]);
        check_summary("- [a](a.md)\n", &["docs/guide/b.md: docs/SUMMARY.md does not list it"]);
        check_summary(
            "- [a](a.md)\n- [b](guide/b.md)\n- [a](a.md)\n",
            &["docs/SUMMARY.md:3: `a.md` is listed in line 1 already"],
        );
        assert_eq!(check(&Tree::default()).len(), 1, "no summary");
    }
}
