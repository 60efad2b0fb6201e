//! How a store is named: `file:DIR`, `git:DIR?remote=R`, `mem:`, and the schemes of the other stores.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A store's name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl {
    /// What comes before the first colon.
    pub scheme: String,
    /// What comes after it, up to a `?`.
    pub rest: String,
    /// What comes after that.
    pub parameters: BTreeMap<String, String>,
}

/// Why a text does not name a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct UrlError {
    /// What is wrong.
    pub why: String,
    /// What to do.
    pub hint: String,
}

impl UrlError {
    /// An error with its hint.
    pub fn new(why: impl Into<String>, hint: impl Into<String>) -> UrlError {
        UrlError { why: why.into(), hint: hint.into() }
    }
}

impl FromStr for StoreUrl {
    type Err = UrlError;

    /// A text with a scheme, or a bare path, which means `file:`.
    fn from_str(text: &str) -> Result<StoreUrl, UrlError> {
        if text.is_empty() {
            return Err(UrlError::new("the store's name is empty", "use a folder, such as file:.baton"));
        }
        if text.starts_with(['/', '.', '~']) {
            return Ok(StoreUrl { scheme: "file".into(), rest: text.into(), parameters: BTreeMap::new() });
        }
        let Some((scheme, tail)) = text.split_once(':') else {
            return Err(UrlError::new(
                format!("`{text}` has no scheme"),
                format!("if it is a folder, write file:{text}"),
            ));
        };
        let (rest, query) = tail.split_once('?').unwrap_or((tail, ""));
        let mut parameters = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                // What has an `@` may be the rest of a password.
                let shown = if tail.contains('@') { "a parameter" } else { pair };
                return Err(UrlError::new(
                    format!("`{shown}` in the store's name has no value"),
                    "parameters look like ?remote=origin; in a password write %3F for `?` and %40 for `@`",
                ));
            };
            parameters.insert(name.to_string(), value.to_string());
        }
        Ok(StoreUrl { scheme: scheme.to_string(), rest: rest.to_string(), parameters })
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme, self.rest)?;
        for (place, (name, value)) in self.parameters.iter().enumerate() {
            write!(f, "{}{name}={value}", if place == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

impl StoreUrl {
    /// Refuses parameters that this store does not know.
    pub fn only(&self, known: &[&str]) -> Result<(), UrlError> {
        match self.parameters.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(odd) => Err(UrlError::new(
                format!("the store `{}:` has no parameter `{odd}`", self.scheme),
                if known.is_empty() { "it has none".into() } else { format!("it has: {}", known.join(", ")) },
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_and_put_together() {
        for text in ["file:/a/b", "git:.?remote=origin", "mem:", "etcd://h:2379/p"] {
            assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), text);
        }
        assert_eq!("./x".parse::<StoreUrl>().unwrap().to_string(), "file:./x");
        let git: StoreUrl = "git:/r?remote=up".parse().unwrap();
        assert_eq!(git.parameters["remote"], "up");
        assert!(git.only(&["remote"]).is_ok());
        assert!(git.only(&["other"]).is_err_and(|e| e.hint.contains("other")));
    }

    #[test]
    fn odd_names_are_refused_with_a_hint() {
        assert!("".parse::<StoreUrl>().is_err());
        assert!("folder".parse::<StoreUrl>().is_err_and(|e| e.hint.contains("file:folder")));
        assert!("git:.?remote".parse::<StoreUrl>().is_err());
    }
}
