//! Sentences that a reader has to read twice, in what people read: Markdown, help screens, and the comments and texts of Rust sources.
//!
//! A sentence has a named subject and an active verb. The check knows the turns of phrase that a review found again and again; it does
//! not know English. `cargo run -p xtask -- prose` lists the findings.

use crate::Finding;
use crate::markdown::{outside_fences, without_code_spans};
use crate::rust_code::code_only;
use crate::tree::{File, Tree};

/// The longest line of prose in Markdown.
pub const LONGEST_LINE: usize = 100;

/// A turn of phrase: words in lower case, `*` for any word.
struct Phrase {
    words: &'static [&'static str],
    hint: &'static str,
}

const SUBJECT: &str = "name the subject: the leader, the agent, the client, the caller";

const PHRASES: &[Phrase] = &[
    Phrase { words: &["to", "who"], hint: SUBJECT },
    Phrase { words: &["for", "who"], hint: SUBJECT },
    Phrase { words: &["by", "who"], hint: SUBJECT },
    Phrase { words: &["from", "who"], hint: SUBJECT },
    Phrase { words: &["of", "who"], hint: SUBJECT },
    Phrase { words: &["with", "who"], hint: SUBJECT },
    Phrase { words: &["inside", "of"], hint: "`inside`, `in` or `under`" },
    Phrase { words: &["stop", "to", "*"], hint: "it means the opposite: `stop acting`" },
    Phrase {
        words: &["is", "let", "go"],
        hint: "say what happens: the server closes it, the lock is released",
    },
    Phrase {
        words: &["one", "that", "is", "none"],
        hint: "say what is wrong with it: it is invalid, it does not exist",
    },
    Phrase { words: &["opens", "nothing", "any", "more"], hint: "a token is revoked, a key is refused" },
];

/// What follows a `Who` that stands for a person or a thing.
const VERBS: &[&str] = &[
    "accepts", "acts", "asks", "can", "cannot", "comes", "decides", "does", "finds", "follows", "gets",
    "had", "has", "holds", "is", "knows", "leads", "led", "may", "must", "needs", "only", "reads",
    "releases", "renews", "sees", "shows", "speaks", "stands", "takes", "tells", "waits", "wants", "was",
    "watches", "would", "writes",
];

/// Every finding of the tree.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        if file.path.ends_with(".rs") {
            phrases(&file.path, &rust_words(&file.text), &mut findings);
        } else if file.path.ends_with(".md") {
            markdown(file, &mut findings);
        } else if file.path.starts_with("crates/cli/tests/screens/") {
            let lines = file.text.lines().enumerate().map(|(at, line)| (at + 1, line.to_string()));
            phrases(&file.path, &plain_words(lines), &mut findings);
        }
    }
    findings
}

/// A word of prose, or the end of a paragraph.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Word { text: String, line: usize },
    Break,
}

/// The words of comments and literals. Code between them ends a paragraph, and so does a comment without words.
fn rust_words(text: &str) -> Vec<Piece> {
    let code = code_only(text);
    let mut pieces = Vec::new();
    for (number, (line, code)) in text.lines().zip(code.lines()).enumerate() {
        let mut prose = String::new();
        for (written, left) in line.chars().zip(code.chars()) {
            if left.is_whitespace() {
                prose.push(written);
            } else {
                add(&mut pieces, &prose, number + 1);
                pieces.push(Piece::Break);
                prose.clear();
            }
        }
        let before = pieces.len();
        add(&mut pieces, &prose, number + 1);
        if pieces.len() == before {
            pieces.push(Piece::Break);
        }
    }
    pieces
}

/// The words of lines of text. A line without words ends a paragraph.
fn plain_words(lines: impl Iterator<Item = (usize, String)>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (number, line) in lines {
        let before = pieces.len();
        let begins_anew = line.trim_start().starts_with(['|', '#', '-', '*', '>']);
        if begins_anew {
            pieces.push(Piece::Break);
        }
        for cell in line.split('|') {
            add(&mut pieces, cell, number);
            if line.contains('|') {
                pieces.push(Piece::Break);
            }
        }
        if pieces.len() == before {
            pieces.push(Piece::Break);
        }
    }
    pieces
}

fn add(pieces: &mut Vec<Piece>, prose: &str, line: usize) {
    let words = prose.split_whitespace().filter(|word| word.contains(char::is_alphanumeric));
    pieces.extend(words.map(|word| Piece::Word { text: word.to_string(), line }));
}

fn phrases(path: &str, pieces: &[Piece], findings: &mut Vec<Finding>) {
    for at in 0..pieces.len() {
        let Piece::Word { line, .. } = &pieces[at] else { continue };
        for phrase in PHRASES.iter().filter(|phrase| begins(&pieces[at..], phrase.words)) {
            let message = format!("`{}`: {}", phrase.words.join(" "), phrase.hint);
            findings.push(Finding::at(path, *line, message));
        }
        if is_headless(pieces, at) {
            findings.push(Finding::at(path, *line, format!("a sentence that begins with `Who`: {SUBJECT}")));
        }
    }
}

/// Whether these words come next, with nothing but spaces between them.
fn begins(pieces: &[Piece], words: &[&str]) -> bool {
    words.iter().enumerate().all(|(place, wanted)| {
        let Some(Piece::Word { text, .. }) = pieces.get(place) else { return false };
        let (first, last) = (place == 0, place + 1 == words.len());
        let text = if first { text.trim_start_matches(is_mark) } else { text.as_str() };
        let text = if last { text.trim_end_matches(is_mark) } else { text };
        match *wanted {
            "*" => text.chars().next().is_some_and(|c| c.is_ascii_lowercase()),
            wanted => text.eq_ignore_ascii_case(wanted),
        }
    })
}

/// Whether a sentence begins here with `Who` and a verb, and is no question.
fn is_headless(pieces: &[Piece], at: usize) -> bool {
    let word = |at: usize| match pieces.get(at) {
        Some(Piece::Word { text, .. }) => Some(text.as_str()),
        Some(Piece::Break) | None => None,
    };
    let first = word(at).is_some_and(|word| word.trim_start_matches(is_mark) == "Who");
    let opens =
        at == 0 || word(at - 1).is_none_or(|word| word.ends_with(['.', ':', ';', '!', '?', '"', ')']));
    let verb = word(at + 1).is_some_and(|word| VERBS.contains(&word.trim_end_matches(is_mark)));
    let mut rest = (at + 1..).map_while(word);
    let end =
        rest.find(|word| word.trim_end_matches(['"', ')', '*', '_']).ends_with(['.', '!', '?', ':', ';']));
    let question = end.is_some_and(|word| word.contains('?'));
    first && opens && verb && !question
}

fn is_mark(c: char) -> bool {
    !c.is_alphanumeric() && c != '\'' && c != '`' && c != '{' && c != '}'
}

fn markdown(file: &File, findings: &mut Vec<Finding>) {
    let text = if file.path == "CHANGELOG.md" { unreleased(&file.text) } else { &file.text };
    let prose = || outside_fences(text).filter(|(_, line)| !line.starts_with("    "));
    let words = plain_words(prose().map(|(number, line)| (number, without_code_spans(line))));
    phrases(&file.path, &words, findings);
    for (number, line) in prose().filter(|(_, line)| is_breakable(line)) {
        let length = line.chars().count();
        if length > LONGEST_LINE {
            let message = format!("a line of {length} characters: break prose at {LONGEST_LINE}");
            findings.push(Finding::at(&file.path, number, message));
        }
    }
}

/// Up to the first version that was released.
fn unreleased(text: &str) -> &str {
    let mut headings = text.match_indices("\n## ").map(|(at, _)| at);
    let _first = headings.next();
    headings.next().map_or(text, |end| &text[..end])
}

/// Prose: no row of a table, no HTML, no line that is one link.
fn is_breakable(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches(['-', '*', '>', ' ']);
    let is_link = line.starts_with(['[', '!'])
        && (line.contains("]: ") || line.matches("](").count() == 1)
        && line.trim_end_matches(['.', ',']).ends_with(')');
    let is_definition = line.starts_with('[') && line.contains("]: ");
    !(line.starts_with(['|', '<']) || is_link || is_definition)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::sample(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_phrase_is_found_in_every_kind_of_file() {
        for phrase in PHRASES {
            let words = phrase.words.join(" ").replace('*', "act");
            assert_eq!(found("docs/a.md", &format!("Fine.\n\nThis {words}, all.\n")), [3], "{words}");
            assert_eq!(found("crates/cli/tests/screens/a.txt", &format!("This {words}.\n")), [1], "{words}");
            assert_eq!(
                found("crates/x/src/a.rs", &format!("/// This {words}.\nfn f() {{}}\n")),
                [1],
                "{words}"
            );
            assert_eq!(found("crates/x/src/a.rs", &format!("let a = (1, \"{words}\");\n")), [1], "{words}");
            let broken = format!("// {}\n", words.replace(' ', "\n// "));
            assert_eq!(found("crates/x/src/a.rs", &broken), [1], "{words}");
        }
    }

    #[test]
    fn every_headless_sentence_is_found() {
        for verb in VERBS {
            let sentence = format!("Who {verb} it, begins.");
            assert_eq!(found("docs/a.md", &format!("Fine. {sentence}\n")), [1], "{verb}");
            assert_eq!(found("crates/x/src/a.rs", &format!("/// {sentence}\n")), [1], "{verb}");
        }
    }

    #[test]
    fn good_sentences_pass() {
        for good in [
            "Who leads?",
            "Who is the leader, and why?",
            "The agent who leads, for whom it matters.",
            "A task to do. Who knows `to who` it is?",
            "It is let through; a stop; to act is to act.",
            "The inside. Of course.",
        ] {
            assert_eq!(found("docs/a.md", good), NONE, "{good}");
        }
        assert_eq!(found("docs/a.md", concat!("```\nto ", "who\n```\n")), NONE);
        assert_eq!(found("crates/x/src/a.rs", "fn to(who: Who) { is(Who::is) }\n"), NONE);
        assert_eq!(found("crates/x/src/a.rs", "// to\nlet who = 1;\n"), NONE);
    }

    #[test]
    fn long_lines_of_prose_are_found_and_nothing_else() {
        let long = "word ".repeat(21);
        assert_eq!(found("docs/a.md", &long), [1]);
        assert_eq!(found("docs/a.md", &format!("- {long}")), [1]);
        let link = format!("[{long}](a.md)");
        for fine in [&format!("| {long} |"), &format!("```\n{long}\n```"), &link, &format!("<!-- {long} -->")]
        {
            assert_eq!(found("docs/a.md", fine), NONE, "{fine}");
        }
        assert_eq!(found("docs/a.md", &"w".repeat(100)), NONE);
    }

    #[test]
    fn of_the_changelog_only_what_is_not_released() {
        let bad = concat!("Given to ", "who asks.");
        let text = format!("# Changes\n\n## [Unreleased]\n\n{bad}\n\n## [1.0.0]\n\n{bad}\n");
        assert_eq!(found("CHANGELOG.md", &text), [5]);
    }
}
