//! Names of which a token speaks.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name::MAX_NAME_BYTES;

/// A name, in which `*` stands for any characters, or for none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(String);

impl Pattern {
    /// Whether a name is one of them.
    pub fn covers(&self, name: &str) -> bool {
        let mut parts = self.0.split('*');
        // The first part is where the name begins, the last where it ends, and the others come in their order between.
        let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some((_, after)) = rest.split_once(part) else { return false };
            rest = after;
        }
        rest.ends_with(last)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Pattern {
    type Err = String;
    fn from_str(text: &str) -> Result<Pattern, String> {
        if text.is_empty() || text.len() > MAX_NAME_BYTES {
            return Err(format!("a pattern has between 1 and {MAX_NAME_BYTES} characters"));
        }
        let odd = |c: &char| !matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-' | '/' | '*');
        match text.chars().find(odd) {
            Some(odd) => Err(format!(
                "the pattern `{}` has the character {odd:?}; names have a-z 0-9 . _ - and /, and * stands for any of them",
                text.escape_debug()
            )),
            None => Ok(Pattern(text.to_string())),
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;
    fn try_from(text: String) -> Result<Pattern, String> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_names() {
        let covers = |pattern: &str, name: &str| pattern.parse::<Pattern>().unwrap().covers(name);
        for (pattern, name) in [
            ("a", "a"),
            ("*", "a/b"),
            ("fleet/*", "fleet/eu"),
            ("*-ci", "x-ci"),
            ("a*b*c", "a1b2c"),
            ("a*a", "aa"),
        ] {
            assert!(covers(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("a", "ab"), ("a", "ba"), ("fleet/*", "fleets"), ("*-ci", "ci"), ("a*b*c", "acb"), ("a*a", "a")]
        {
            assert!(!covers(pattern, name), "{pattern} {name}");
        }
        for odd in ["", "A", "a b", "a?", &"x".repeat(65)] {
            assert!(odd.parse::<Pattern>().is_err(), "{odd}");
        }
    }
}
