//! How a store is named: `file:DIR`, `git:DIR?remote=R`, `mem:`, and the schemes of the other stores.
//!
//! A name may hold a password: `scheme://USER:PASSWORD@HOST`. No error and no `Debug` here repeats what stands before an `@`;
//! `Display` gives the name back whole, for whoever opens it again.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A store's name, taken apart.
#[derive(Clone, PartialEq, Eq)]
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
            let shown = if text.contains('@') { "the store's name" } else { text };
            return Err(UrlError::new(
                format!("`{shown}` has no scheme"),
                format!("if it is a folder, write file:{}", if text.contains('@') { "DIR" } else { text }),
            ));
        };
        let (rest, query) = tail.split_once('?').unwrap_or((tail, ""));
        if cuts_a_password(rest, query) {
            return Err(UrlError::new(
                "what stands before the `?` of the store's name ends in no port",
                "in a password write %3F for `?`, %40 for `@` and %2F for `/`",
            ));
        }
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

/// Whether a `?` in a password was taken for the beginning of the parameters: what should be a port is none, and an `@` follows.
fn cuts_a_password(rest: &str, query: &str) -> bool {
    let hosts = rest.strip_prefix("//").unwrap_or_default().split('/').next().unwrap_or_default();
    let is_odd = |(_, port): (&str, &str)| !port.ends_with(']') && port.parse::<u16>().is_err();
    query.contains('@') && hosts.split(',').filter_map(|host| host.rsplit_once(':')).any(is_odd)
}

/// As people may see it.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({} and {} parameters)", self.shown(), self.parameters.len())
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
    /// The name for people: without its parameters, and without what stands before an `@`.
    pub fn shown(&self) -> String {
        match self.rest.rsplit_once('@') {
            Some((_, rest)) if self.rest.starts_with("//") => format!("{}://{rest}", self.scheme),
            Some(_) | None => format!("{}:{}", self.scheme, self.rest),
        }
    }

    /// Refuses parameters that this store does not know.
    pub fn only(&self, known: &[&str]) -> Result<(), UrlError> {
        let Some(odd) = self.parameters.keys().find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        // With an `@` behind it, what looks like a parameter may be the rest of a password.
        let secret = self.rest.starts_with("//") && self.parameters.values().any(|value| value.contains('@'));
        let odd = if secret { "that the URL names" } else { &format!("`{odd}`") };
        Err(UrlError::new(
            format!("the store `{}:` has no parameter {odd}", self.scheme),
            if known.is_empty() { "it has none".into() } else { format!("it has: {}", known.join(", ")) },
        ))
    }

    /// Refuses a user and a password where this store asks for neither, without repeating them.
    pub fn nobody(&self) -> Result<(), UrlError> {
        let addresses = ["emulator", "rest"].iter().filter_map(|name| self.parameters.get(*name));
        if self.rest.contains('@') || addresses.into_iter().any(|address| address.contains('@')) {
            return Err(UrlError::new(
                format!("the store `{}:` takes no user and no password from its URL", self.scheme),
                "leave out what stands before the `@`, and the `@`",
            ));
        }
        Ok(())
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
    #[test]
    fn what_may_be_a_password_is_never_repeated() {
        for text in [
            "postgres://u:s3cret@h/d?x",
            "postgres://u:s3cret?x=y@h/d",
            "postgres://u:s3?s3cret=y@h/d",
            "postgres://u:1?s3cret=y@h/d",
            "postgres://u@s3cret@h/d?colour=red",
            "k8s://s3cret@n",
            "k8s://n?emulator=u:s3cret@h:1",
            "u@s3cret@h",
        ] {
            let told = match text.parse::<StoreUrl>() {
                Err(error) => format!("{error:?}"),
                Ok(url) => {
                    let refused = (url.only(&["emulator"]), url.nobody());
                    assert!(refused.0.is_err() || refused.1.is_err(), "{text}");
                    format!("{url:?} {} {refused:?}", url.shown())
                }
            };
            assert!(!told.contains("s3cret"), "{text}: {told}");
        }
        let hosts: StoreUrl = "etcd://[::1]:2379,h:1,[::2]/p?user=a@b".parse().unwrap();
        assert_eq!(hosts.parameters["user"], "a@b", "an address is no password");
        assert!(hosts.nobody().is_ok());
    }
}
