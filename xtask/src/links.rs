//! Links between the documents lead somewhere.

use crate::Finding;
use crate::markdown::{self, Link};
use crate::tree::{File, Tree};

/// Finds every relative link in a Markdown file whose file, folder or heading is not there. Links to other
/// sites are not followed.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.under("", ".md") {
        for link in markdown::links(&file.text) {
            if let Err(why) = resolve(tree, file, &link) {
                findings.push(Finding::at(&file.path, link.line, format!("link `{}`: {why}", link.target)));
            }
        }
    }
    findings
}

fn resolve(tree: &Tree, from: &File, link: &Link) -> Result<(), String> {
    let target = link.target.as_str();
    if is_foreign(target) {
        return Ok(());
    }
    if target.is_empty() {
        return Err("it points nowhere".to_owned());
    }
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let path = if path.is_empty() { from.path.clone() } else { join(&from.path, &decode(path))? };
    if !tree.exists(&path) {
        return Err(format!("there is no {path}"));
    }
    // An anchor in a source file is a line number, which the renderer makes up.
    let (Some(anchor), Some(file)) = (anchor, tree.file(&path).filter(|file| file.path.ends_with(".md")))
    else {
        return Ok(());
    };
    if markdown::anchors(&file.text).iter().any(|known| known == anchor) {
        Ok(())
    } else {
        Err(format!("{path} has no heading `#{anchor}`"))
    }
}

fn is_foreign(target: &str) -> bool {
    let scheme = target.split_once(':').map_or("", |(scheme, _)| scheme);
    !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

/// The path of a link from the root of the repository.
fn join(from: &str, target: &str) -> Result<String, String> {
    if target.starts_with('/') {
        return Err("it is absolute; a relative one works everywhere".to_owned());
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or("it leaves the repository")?;
            }
            name => parts.push(name),
        }
    }
    Ok(parts.join("/"))
}

/// A space is the only character that our file names would need to encode.
fn decode(target: &str) -> String {
    target.replace("%20", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_link(target: &str, expected: Option<&str>) {
        let text = format!("# Top\n[x]({target})\n");
        let tree = Tree::sample(&[
            ("docs/guide/a.md", &text),
            ("docs/b.md", "# One two\n"),
            ("docs/my file.md", ""),
            ("src/lib.rs", ""),
        ]);
        let found = check(&tree);
        match expected {
            None => assert_eq!(found, [], "{target}"),
            Some(part) => {
                assert_eq!(found.len(), 1, "{target}");
                let shown = found[0].to_string();
                assert!(shown.starts_with("docs/guide/a.md:2: ") && shown.contains(part), "{shown}");
            }
        }
    }

    #[test]
    fn live_links_pass() {
        for target in ["../b.md", "../b.md#one-two", "#top", "./a.md#top", "..", "../", "../../src/lib.rs#L3"]
        {
            check_link(target, None);
        }
        for target in ["https://example.com/x", "mailto:a@example.com", "../my%20file.md", "<../my file.md>"]
        {
            check_link(target, None);
        }
    }

    #[test]
    fn dead_links_are_found() {
        check_link("b.md", Some("there is no docs/guide/b.md"));
        check_link("../b", Some("there is no docs/b"));
        check_link("../b.md#one", Some("no heading `#one`"));
        check_link("#bottom", Some("no heading `#bottom`"));
        check_link("../../../x.md", Some("leaves the repository"));
        check_link("/docs/b.md", Some("absolute"));
        check_link("", Some("nowhere"));
    }
}
