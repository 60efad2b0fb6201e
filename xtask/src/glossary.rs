//! The glossary has each word once, in alphabetical order.

use crate::Finding;
use crate::tree::Tree;

const GLOSSARY: &str = "docs/glossary.md";

/// Finds words that are out of order, twice in the table, or without a meaning.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = String::new();
    for file in tree.files().filter(|file| file.path == GLOSSARY) {
        for (number, line) in file.text.lines().enumerate().filter(|(_, line)| line.starts_with("| ")) {
            let mut cells = line.split('|').map(str::trim).skip(1);
            let word = cells.next().unwrap_or_default().to_lowercase();
            if word == "word" {
                continue;
            }
            if cells.next().unwrap_or_default().is_empty() {
                findings.push(Finding::at(GLOSSARY, number + 1, format!("`{word}` has no meaning")));
            }
            if word <= before {
                let message =
                    format!("`{word}` comes after `{before}`: each word once, in alphabetical order");
                findings.push(Finding::at(GLOSSARY, number + 1, message));
            }
            before = word;
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &str) -> Vec<usize> {
        let text = format!("# Glossary\n\n| word | meaning |\n|---|---|\n{rows}");
        check(&Tree::sample(&[(GLOSSARY, &text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn words_that_are_twice_or_out_of_order_are_found() {
        assert_eq!(found("| age | a |\n| beat | b |\n| beat | c |\n| bid | d |\n"), [7]);
        assert_eq!(found("| beat | b |\n| age | a |\n| board |  |\n"), [6, 7]);
        assert!(found("| age | a |\n| beat | b |\n").is_empty());
    }
}
