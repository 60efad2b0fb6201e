//! Names of elections, agents and resources: short, plain, and safe as a path, a ref and a key.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text;

/// The longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Segments that the layout of a store uses for itself.
pub const RESERVED_SEGMENTS: [&str; 3] = ["candidates", "history", "fences"];

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvalidName {
    /// The name as it was given.
    pub name: String,
    /// What is wrong with it, as the end of a sentence that begins with the name.
    pub why: String,
    /// The same in lower case, if that is a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<String>,
}

impl InvalidName {
    fn new(text: &str, why: String, check: fn(&str) -> Result<(), String>) -> InvalidName {
        let lower = Some(text.to_ascii_lowercase()).filter(|lower| lower != text && check(lower).is_ok());
        InvalidName { name: text.chars().take(2 * MAX_NAME_BYTES).collect(), why, lower }
    }

    /// What the caller can write instead.
    pub fn hint(&self) -> String {
        let rule = "names look like refactor-auth, those of elections and resources also like fleet/eu: at most 64 of a-z 0-9 . _ -";
        match &self.lower {
            Some(lower) => format!("write it in lower case: {lower} ({rule})"),
            None => rule.to_string(),
        }
    }
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name `{}` {}", self.name.escape_debug(), self.why)
    }
}

impl core::error::Error for InvalidName {}

/// One segment: `[a-z0-9._-]`, and nothing that a file system or git reads in its own way.
fn check_segment(segment: &str) -> Result<(), String> {
    if segment.is_empty() {
        return Err("has an empty segment".to_string());
    }
    if let Some(odd) = segment.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-')) {
        return Err(format!("has the character {odd:?}; only a-z, 0-9, `.`, `_` and `-` are allowed"));
    }
    if segment.starts_with(['.', '-']) || segment.ends_with('.') {
        return Err(format!("has the segment `{segment}`, which begins with `.` or `-` or ends with `.`"));
    }
    if segment.contains("..") || segment.ends_with(".lock") {
        return Err(format!("has the segment `{segment}`, which git cannot store"));
    }
    Ok(())
}

fn check_length(text: &str) -> Result<(), String> {
    match text.len() {
        0 => Err("is empty".to_string()),
        n if n > MAX_NAME_BYTES => Err(format!("is {n} bytes long; at most {MAX_NAME_BYTES} are allowed")),
        _ => Ok(()),
    }
}

fn check_path(text: &str) -> Result<(), String> {
    check_length(text)?;
    for segment in text.split('/') {
        check_segment(segment)?;
        if RESERVED_SEGMENTS.contains(&segment) {
            return Err(format!("has the segment `{segment}`, which is reserved"));
        }
    }
    Ok(())
}

fn check_single(text: &str) -> Result<(), String> {
    check_length(text)?;
    if text.contains('/') {
        return Err("has a `/`; such a name is one segment".to_string());
    }
    check_segment(text)
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $check:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks and makes a name.
            pub fn new(text: &str) -> Result<Self, InvalidName> {
                match $check(text) {
                    Ok(()) => Ok(Self(text.into())),
                    Err(why) => Err(InvalidName::new(text, why, $check)),
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;
            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;
            fn try_from(text: String) -> Result<Self, InvalidName> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.to_string()
            }
        }

        /// It is equal, ordered and hashed as its text.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text::read(deserializer, "a name", |text| Self::new(text))
            }
        }
    };
}

name_type!(
    /// A name for one thing that must have one leader: `refactor-auth`, `fleet/eu`.
    ElectionName,
    check_path
);
name_type!(
    /// The name of an agent, which may lead. One segment; the incarnation tells a restarted agent from its
    /// former self.
    AgentName,
    check_single
);
name_type!(
    /// Something that only the leader may change, known to its fence by this name.
    ResourceName,
    check_path
);
name_type!(
    /// One item of a leader's toolbox: a task, a proposal, a quota, a value. One segment.
    ItemName,
    check_single
);

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        ElectionName::new(text).map(|_| String::new()).unwrap_or_else(|e| e.why)
    }

    #[test]
    fn plain_names_pass() {
        for good in ["a", "refactor-auth", "fleet/eu", "v1.2_x", "0", &"a".repeat(64)] {
            assert_eq!(why(good), "", "{good}");
        }
    }

    #[test]
    fn each_fault_has_its_own_words() {
        assert_eq!(why(""), "is empty");
        assert!(why(&"a".repeat(65)).contains("65 bytes"));
        assert!(why("a//b").contains("empty segment"));
        assert!(why("Fleet").contains("'F'"));
        assert!(why("a b").contains("' '"));
        assert!(why("..").contains("begins with"));
        assert!(why("a/.git").contains("begins with"));
        assert!(why("-x").contains("begins with"));
        assert!(why("a..b").contains("git cannot store"));
        assert!(why("a.lock").contains("git cannot store"));
        assert!(why("a/candidates/b").contains("reserved"));
        assert!(AgentName::new("a/b").is_err_and(|e| e.why.contains("one segment")));
        assert!(AgentName::new("history").is_ok(), "an agent's name never stands where a layout's word does");
    }
}
