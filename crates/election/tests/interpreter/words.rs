//! One line of a scenario: a command, what it is about, and its options.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

/// `command about… key=value… flag…`; a value in double quotes may hold spaces.
pub(crate) struct Words {
    line: String,
    plain: Vec<String>,
    options: BTreeMap<String, String>,
}

impl Words {
    /// Splits a line.
    pub(crate) fn of(line: &str) -> Words {
        let mut words: Vec<String> = vec![String::new()];
        let mut quoted = false;
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                other => words.last_mut().expect("never empty").push(other),
            }
        }
        assert!(!quoted, "an open quote: {line}");
        let (mut plain, mut options) = (Vec::new(), BTreeMap::new());
        for word in words.into_iter().filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some((key, value)) => assert!(options.insert(key.into(), value.into()).is_none(), "{line}"),
                None => plain.push(word),
            }
        }
        plain.reverse();
        Words { line: line.to_string(), plain, options }
    }

    /// The next plain word.
    pub(crate) fn next(&mut self) -> String {
        self.plain.pop().unwrap_or_else(|| panic!("a word is missing: {}", self.line))
    }

    /// Whether this plain word stands anywhere in the rest of the line.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.plain.len();
        self.plain.retain(|word| word != name);
        before != self.plain.len()
    }

    /// The value of an option.
    pub(crate) fn option(&mut self, key: &str) -> Option<String> {
        self.options.remove(key)
    }

    /// The value of an option, read.
    pub(crate) fn value<T: FromStr<Err: Display>>(&mut self, key: &str) -> Option<T> {
        let text = self.option(key)?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => panic!("{key}: {error}, in: {}", self.line),
        }
    }

    /// The values of an option, between commas.
    pub(crate) fn list(&mut self, key: &str) -> Vec<String> {
        self.option(key).map(|text| text.split(',').map(String::from).collect()).unwrap_or_default()
    }

    /// Nothing may be left over: a misspelt option would otherwise be ignored.
    pub(crate) fn done(self) {
        assert!(self.plain.is_empty() && self.options.is_empty(), "not understood: {}", self.line);
    }
}
