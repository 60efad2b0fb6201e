//! From a URL to a server.

use std::time::Duration;

use baton_store::{StoreError, StoreUrl};

/// The port of a server if none is named.
const PORT: u16 = 7420;
/// How long a request may take, beside the time that it asks to wait.
const LIMIT: Duration = Duration::from_secs(10);

/// Which server, and how.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `http://HOST:PORT`, without a slash at its end.
    pub(crate) base: String,
    pub(crate) limit: Duration,
}

impl Settings {
    pub(crate) fn of(url: &StoreUrl) -> Result<Settings, StoreError> {
        let refused = |why: &str, hint: &str| StoreError::Refused {
            place: format!("{}:", url.scheme),
            why: why.to_string(),
            hint: hint.to_string(),
        };
        let rest = url.rest.strip_prefix("//").unwrap_or(&url.rest).trim_end_matches('/');
        if rest.contains('@') {
            return Err(refused("a name or password has no place in the URL", "write http://HOST:PORT"));
        }
        if rest.contains('/') || rest.contains('#') || rest.is_empty() {
            return Err(refused("it names no server", "write http://HOST:PORT"));
        }
        if let Some((name, _)) = url.parameters.iter().next() {
            return Err(refused(
                &format!("the parameter `{}` means nothing here", name.escape_debug()),
                "write http://HOST:PORT",
            ));
        }
        let address = if has_port(rest) { rest.to_string() } else { format!("{rest}:{PORT}") };
        if address.parse::<http::uri::Authority>().is_err() {
            return Err(refused("it names no host and port", "write http://HOST:PORT"));
        }
        Ok(Settings { base: format!("{}://{address}", url.scheme), limit: LIMIT })
    }
}

fn has_port(address: &str) -> bool {
    let after_brackets = address.rsplit_once(']').map_or(address, |(_, rest)| rest);
    after_brackets.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(url: &str) -> Result<String, StoreError> {
        Settings::of(&url.parse().unwrap()).map(|settings| settings.base)
    }

    #[test]
    fn a_url_names_a_server() {
        assert_eq!(base("http://127.0.0.1:7421").unwrap(), "http://127.0.0.1:7421");
        assert_eq!(base("http://localhost/").unwrap(), "http://localhost:7420");
        assert_eq!(base("http://[::1]").unwrap(), "http://[::1]:7420");
        assert_eq!(base("http://[::1]:9").unwrap(), "http://[::1]:9");
    }

    #[test]
    fn what_names_none_is_refused_and_secrets_are_not_repeated() {
        for url in ["http://", "http:///x", "http://h/path", "http://a:b:c", "http://h?x=1"] {
            assert!(base(url).is_err(), "{url}");
        }
        let error = base("http://me:secret@h").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
