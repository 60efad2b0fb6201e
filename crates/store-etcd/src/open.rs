//! From a store's name to what it says: which members, under what prefix, as whom, by TLS or not.
//!
//! `etcd://[user:password@]host[:port][,host[:port]…][/prefix][?user=U&tls=true&ca=FILE&cert=FILE&key=FILE&election=etcd]`.
//! The prefix is what follows the first `/`, so that keys begin with a `/` only where two are written.

use baton_store::{StoreError, StoreUrl, UrlError};

/// Where the password of `?user=` is looked for.
pub(crate) const PASSWORD: &str = "BATON_ETCD_PASSWORD";
/// The port of a host that names none.
const PORT: &str = "2379";
const SHAPE: &str = "write etcd://HOST:2379/PREFIX, or several hosts with commas between them";
const KNOWN: [&str; 6] = ["ca", "cert", "election", "key", "tls", "user"];

/// What a store's name says.
#[derive(Clone)]
pub(crate) struct Settings {
    /// `host:port` of every member.
    pub(crate) hosts: Vec<String>,
    /// What the keys begin with; without a `/` at its end.
    pub(crate) prefix: String,
    /// Name and password.
    pub(crate) user: Option<User>,
    /// How members prove who they are, if they must.
    pub(crate) tls: Option<Tls>,
    /// Whether etcd's own elections are joined.
    pub(crate) native: bool,
}

/// The credentials of this client. Has no `Debug`: it holds a secret.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) password: String,
}

/// Files in PEM form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    /// Who vouches for the members; without it, whom this machine trusts.
    pub(crate) ca: Option<String>,
    /// Certificate and key of this client.
    pub(crate) identity: Option<(String, String)>,
}

impl Settings {
    /// Takes a store's name apart. `password` is what the environment says.
    pub(crate) fn of(url: &StoreUrl, password: Option<String>) -> Result<Settings, StoreError> {
        parse(url, password).map_err(|error| StoreError::Misnamed {
            place: without_secret(url),
            why: error.why,
            hint: error.hint,
        })
    }

    /// Where this is, for people: no secrets.
    pub(crate) fn location(&self) -> String {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        let mode = if self.native { "?election=etcd" } else { "" };
        format!("etcd://{}{slash}{}{mode}", self.hosts.join(","), self.prefix)
    }
}

/// A name that could not be taken apart, up to its first parameter, and without what could be a password.
fn without_secret(url: &StoreUrl) -> String {
    let rest = url.rest.trim_start_matches('/');
    let shown = rest.rsplit_once('@').map_or(rest, |(_, shown)| shown);
    format!("{}://{shown}", url.scheme)
}

fn parse(url: &StoreUrl, password: Option<String>) -> Result<Settings, UrlError> {
    let Some(rest) = url.rest.strip_prefix("//").filter(|_| url.scheme == "etcd") else {
        return Err(UrlError::new("it does not name members of an etcd", SHAPE));
    };
    url.only(&KNOWN)?;
    let (authority, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (Some(login), hosts),
        None => (None, authority),
    };
    let native = match url.parameters.get("election").map(String::as_str) {
        None => false,
        Some("etcd") => true,
        Some(other) => {
            return Err(UrlError::new(
                format!("`election={other}` is no way to elect"),
                "write ?election=etcd, or leave it out",
            ));
        }
    };
    Ok(Settings {
        hosts: hosts.split(',').map(host).collect::<Result<_, _>>()?,
        prefix: prefix.trim_end_matches('/').to_string(),
        user: user(url, login, password)?,
        tls: tls(url)?,
        native,
    })
}

/// A host with its port.
fn host(text: &str) -> Result<String, UrlError> {
    let odd =
        |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '<' | '>' | '\\' | '#' | '%');
    let name = text.rsplit_once(':').map_or(text, |(name, _)| name);
    if name.is_empty() || text.contains(odd) {
        return Err(UrlError::new(format!("`{}` is no host", text.escape_debug()), SHAPE));
    }
    // Colons in brackets belong to an address of IPv6.
    let after = text.rsplit_once(']').map_or(text, |(_, after)| after);
    match after.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(text.to_string()),
        Some((_, port)) => Err(UrlError::new(format!("`{port}` is no port"), SHAPE)),
        None => Ok(format!("{text}:{PORT}")),
    }
}

fn user(url: &StoreUrl, login: Option<&str>, environment: Option<String>) -> Result<Option<User>, UrlError> {
    let hint =
        format!("write ?user=NAME and put the password into {PASSWORD}, or write etcd://NAME:PASSWORD@HOST");
    let (name, password) = match (login, url.parameters.get("user")) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => return Err(UrlError::new("two users are named", hint)),
        (None, Some(name)) => (name.clone(), None),
        (Some(login), None) => match login.split_once(':') {
            Some((name, password)) => (decoded(name)?, Some(decoded(password)?)),
            None => (decoded(login)?, None),
        },
    };
    if name.is_empty() {
        return Err(UrlError::new("the user has no name", hint));
    }
    match password.or(environment).filter(|password| !password.is_empty()) {
        Some(password) => Ok(Some(User { name, password })),
        None => Err(UrlError::new(format!("there is no password for the user `{name}`"), hint)),
    }
}

/// A name or password whose odd characters are written as `%` and two digits.
fn decoded(text: &str) -> Result<String, UrlError> {
    let odd = || {
        UrlError::new(
            "the user or password is not written as it must be",
            "write `%` as %25, `@` as %40, `/` as %2F",
        )
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(odd()) };
        bytes.push(u8::try_from(16 * high + low).map_err(|_| odd())?);
    }
    String::from_utf8(bytes).map_err(|_| odd())
}

fn tls(url: &StoreUrl) -> Result<Option<Tls>, UrlError> {
    let file = |name: &str| url.parameters.get(name).cloned();
    let identity = match (file("cert"), file("key")) {
        (Some(cert), Some(key)) => Some((cert, key)),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(UrlError::new(
                "a certificate needs its key, and a key its certificate",
                "write &cert=FILE&key=FILE",
            ));
        }
    };
    let tls = Tls { ca: file("ca"), identity };
    match url.parameters.get("tls").map(String::as_str) {
        Some("true") => Ok(Some(tls)),
        None if tls != Tls::default() => Ok(Some(tls)),
        Some("false") if tls != Tls::default() => {
            Err(UrlError::new("`tls=false` and certificates contradict each other", "leave out one of them"))
        }
        Some("false") | None => Ok(None),
        Some(other) => Err(UrlError::new(format!("`tls={other}` means nothing"), "write ?tls=true")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, StoreError> {
        Settings::of(&text.parse().unwrap(), Some("from the environment".to_string()))
    }

    #[test]
    fn a_name_is_taken_apart() {
        let one = settings("etcd://h:2379/p").unwrap();
        assert_eq!((one.hosts, one.prefix, one.native), (vec!["h:2379".to_string()], "p".to_string(), false));
        let three = settings("etcd://a,b:1,[::1],[::1]:7/a/b/?election=etcd").unwrap();
        assert_eq!(three.hosts, ["a:2379", "b:1", "[::1]:2379", "[::1]:7"]);
        assert_eq!((three.prefix.as_str(), three.native), ("a/b", true));
        assert_eq!(three.location(), "etcd://a:2379,b:1,[::1]:2379,[::1]:7/a/b?election=etcd");
        for (text, prefix) in [("etcd://h", ""), ("etcd://h/", ""), ("etcd://h//p", "/p")] {
            assert_eq!(settings(text).unwrap().prefix, prefix, "{text}");
        }
    }

    #[test]
    fn a_user_is_found_and_never_shown() {
        let in_url = settings("etcd://me:p%40ss%3A@h/p").unwrap();
        assert!(in_url.user.as_ref().is_some_and(|user| user.name == "me" && user.password == "p@ss:"));
        assert_eq!(in_url.location(), "etcd://h:2379/p");
        for text in ["etcd://h/p?user=me", "etcd://me@h/p"] {
            let user = settings(text).unwrap().user.unwrap();
            assert_eq!((user.name.as_str(), user.password.as_str()), ("me", "from the environment"));
        }
        let missing = Settings::of(&"etcd://h/p?user=me".parse().unwrap(), None).err().unwrap();
        assert!(missing.hint().contains(PASSWORD), "{missing}");
        for odd in [
            "etcd://me:secret@h:0/p",
            "etcd://me:secret%@h/p",
            "etcd://me:secret@h/p?user=you",
            "etcd://me:secret@/p?x=1",
        ] {
            let error = settings(odd).err().unwrap();
            assert!(!format!("{error:?} {error}").contains("secret"), "{error}");
        }
    }

    #[test]
    fn odd_names_are_refused_with_a_hint() {
        for odd in [
            "etcd:h",
            "etcd://",
            "etcd:///p",
            "etcd://h,,i/p",
            "etcd://h:x/p",
            "etcd://h:99999/p",
            "etcd://h h/p",
            "etcd://h/p?election=raft",
            "etcd://h/p?tls=maybe",
            "etcd://h/p?cert=c",
            "etcd://h/p?tls=false&ca=c",
            "etcd://h/p?password=x",
            "etcd://:x@h/p",
        ] {
            let error = settings(odd).err().unwrap_or_else(|| panic!("{odd}"));
            assert!(
                matches!(&error, StoreError::Misnamed { hint, .. } if !hint.is_empty()),
                "{odd}: {error:?}"
            );
        }
    }

    #[test]
    fn certificates_ask_for_tls() {
        assert_eq!(settings("etcd://h/p").unwrap().tls, None);
        assert_eq!(settings("etcd://h/p?tls=false").unwrap().tls, None);
        assert_eq!(settings("etcd://h/p?tls=true").unwrap().tls, Some(Tls::default()));
        let all = settings("etcd://h/p?ca=a&cert=b&key=c").unwrap().tls.unwrap();
        assert_eq!((all.ca.as_deref(), all.identity), (Some("a"), Some(("b".to_string(), "c".to_string()))));
    }
}
