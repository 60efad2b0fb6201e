//! Checks on the tree itself, run as tests by `tests/tidy.rs`.
//!
//! A check is a function from what it looks at (a [`tree::Tree`], or the packages of the workspace) to
//! a list of [`Finding`]s; an empty list is a pass. Checks do no IO of their own, so that the tests of
//! each module can feed it a bad sample: a check that cannot fail does not count.
//!
//! The checks are textual. They do not resolve macros or types, and they find what is written plainly,
//! not what is hidden on purpose.

pub mod arrows;
pub mod assertions;
pub mod book;
pub mod code_lines;
pub mod crate_docs;
pub mod decisions;
pub mod executors;
pub mod glossary;
pub mod links;
pub mod markdown;
pub mod packages;
pub mod prose;
pub mod purity;
pub mod rust_code;
pub mod sizes;
pub mod tree;
pub mod type_names;
pub mod words;

use std::fmt;

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the root of the repository, with `/` between its parts.
    pub path: String,
    /// Line from 1; 0 when the finding is about the file as a whole.
    pub line: usize,
    /// What is wrong and how to put it right.
    pub message: String,
}

impl Finding {
    /// A finding at one line.
    pub fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }

    /// A finding about a file as a whole.
    pub fn whole(path: &str, message: impl Into<String>) -> Self {
        Self::at(path, 0, message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}
