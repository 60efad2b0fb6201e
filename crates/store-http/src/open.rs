//! From a URL to a server, or to several that serve one store.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_store::{StoreError, StoreUrl};

use crate::dial::AT_SOCKET;

/// The port of a server if none is named.
const PORT: u16 = 7420;
/// The parameters of `https://`.
const TLS: [&str; 3] = ["ca", "cert", "key"];
/// How long a request may take, beside the time that it asks to wait.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest path of a Unix socket: `sun_path` has 108 bytes, and the last is zero.
const LONGEST: usize = 107;

/// Which server, and how.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// `http://HOST:PORT` or `https://HOST:PORT`, without a slash at its end; with several, `,HOST:PORT` for each of the others.
    /// Or `unix:/PATH`.
    pub(crate) base: String,
    /// Each of them by itself.
    pub(crate) bases: Vec<String>,
    /// Whether it is a loopback address or `localhost`, where nobody listens in.
    pub(crate) loopback: bool,
    /// Whose word on certificates is believed, instead of the system's.
    pub(crate) authority: Option<PathBuf>,
    /// The Unix socket at which it listens, if that is how it is reached.
    pub(crate) socket: Option<Arc<Path>>,
    /// The user whose server it must be, at a socket.
    pub(crate) owner: Option<u32>,
    /// The certificate by which this client shows who it is, and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    pub(crate) limit: Duration,
}

impl Settings {
    pub(crate) fn of(url: &StoreUrl) -> Result<Settings, StoreError> {
        let refused = |why: &str, hint: &str| StoreError::Misnamed {
            place: if url.rest.contains('@') { format!("{}:", url.scheme) } else { url.shown() },
            why: why.to_string(),
            hint: hint.to_string(),
        };
        if url.scheme == "unix" {
            let form = "write the whole path of the socket, such as unix:/run/user/1000/baton.sock";
            return Settings::of_socket(url).map_err(|why| refused(&why, form));
        }
        let secure = url.scheme == "https";
        let form = if secure { "write https://HOST:PORT" } else { "write http://HOST:PORT" };
        if url.rest.contains('@') {
            let hint = "write the URL without it, and the token into $BATON_HTTP_TOKEN";
            return Err(refused("a name or password has no place in the URL", hint));
        }
        if let Some(name) = url.parameters.keys().find(|name| !(secure && TLS.contains(&name.as_str()))) {
            let why = format!("the parameter `{}` means nothing here", name.escape_debug());
            let hint = match (secure, name.as_str()) {
                (false, name) if TLS.contains(&name) => "only https:// has certificates",
                (_, "token") => "a URL is seen by everybody: write the token into $BATON_HTTP_TOKEN",
                (_, _) => form,
            };
            return Err(refused(&why, hint));
        }
        let file = |name: &str| url.parameters.get(name).map(PathBuf::from);
        let identity = match (file("cert"), file("key")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => {
                let why = "a certificate needs its key, and a key its certificate";
                return Err(refused(why, "write &cert=FILE&key=FILE"));
            }
        };
        let mut addresses: Vec<String> = Vec::new();
        for named in url.rest.split(',') {
            let address = address(named, &url.scheme).map_err(|why| refused(why, form))?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(Settings {
            base: format!("{}://{}", url.scheme, addresses.join(",")),
            bases: addresses.iter().map(|address| format!("{}://{address}", url.scheme)).collect(),
            loopback: addresses.iter().all(|address| is_loopback(address)),
            authority: file("ca"),
            identity,
            socket: None,
            owner: None,
            limit: LIMIT,
        })
    }

    /// A server at a Unix socket. More slashes than one before the path mean the same.
    fn of_socket(url: &StoreUrl) -> Result<Settings, String> {
        if let Some(name) = url.parameters.keys().find(|name| *name != "owner") {
            return Err(format!("the parameter `{}` means nothing here", name.escape_debug()));
        }
        let owner = url.parameters.get("owner").map(|text| {
            let number = text.parse::<u32>().ok().filter(|number| number.to_string() == *text);
            number.ok_or_else(|| {
                "its owner is none: write the number of a user, such as ?owner=1000".to_string()
            })
        });
        let owner = owner.transpose()?;
        let path = format!("/{}", url.rest.trim_start_matches('/'));
        if !url.rest.starts_with('/') || path == "/" {
            return Err("the path of a socket is whole, and begins with `/`".to_string());
        }
        if path.len() > LONGEST {
            return Err(format!("its path has {} bytes, and a socket's has {LONGEST} at most", path.len()));
        }
        Ok(Settings {
            base: match owner {
                Some(owner) => format!("unix:{path}?owner={owner}"),
                None => format!("unix:{path}"),
            },
            bases: vec![AT_SOCKET.to_string()],
            loopback: true,
            authority: None,
            identity: None,
            socket: Some(Path::new(&path).into()),
            owner,
            limit: LIMIT,
        })
    }

    /// The files that it names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let identity = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        self.authority.iter().chain(identity).map(PathBuf::as_path)
    }

    /// Whether what is sent can be read on its way.
    pub(crate) fn is_open(&self) -> bool {
        self.base.starts_with("http://") && !self.loopback
    }
}

/// `HOST:PORT` of one server of the list. The scheme stands before the first, and may before the others.
fn address(named: &str, scheme: &str) -> Result<String, &'static str> {
    let (own, host) = named.split_once("//").map_or((None, named), |(own, host)| (Some(own), host));
    if own.is_some_and(|own| !own.is_empty() && own.strip_suffix(':') != Some(scheme)) {
        return Err("the servers of one store have one scheme");
    }
    let host = host.trim_end_matches('/');
    if host.is_empty() {
        return Err("it names no server");
    }
    if host.contains('/') || host.contains('#') {
        return Err("a server has no path");
    }
    let address = if has_port(host) { host.to_string() } else { format!("{host}:{PORT}") };
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err("its port is none: a port is a number from 1 to 65535");
    }
    if address.parse::<http::uri::Authority>().is_err() {
        return Err("it names no host and port");
    }
    Ok(address)
}

pub(crate) fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
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
    fn a_socket_is_named_by_its_whole_path() {
        for url in ["unix:/run/b.sock", "unix:///run/b.sock"] {
            let settings = Settings::of(&url.parse().unwrap()).unwrap();
            assert_eq!((settings.base.as_str(), settings.is_open()), ("unix:/run/b.sock", false));
            assert_eq!(settings.socket.as_deref(), Some(Path::new("/run/b.sock")));
        }
        let long = format!("unix:/{}", "x".repeat(LONGEST));
        let named = Settings::of(&"unix:/run/b.sock?owner=1000".parse().unwrap()).unwrap();
        assert_eq!((named.owner, named.base.as_str()), (Some(1000), "unix:/run/b.sock?owner=1000"));
        assert_eq!(named.socket.as_deref(), Some(Path::new("/run/b.sock")));
        for odd in [
            "unix:",
            "unix:/",
            "unix:b.sock",
            "unix:./b.sock",
            "unix:/b.sock?ca=x",
            "unix:/b.sock?owner=bob",
            "unix:/b.sock?owner=-1",
            "unix:/b.sock?owner=",
            &long,
        ] {
            let refused = base(odd).unwrap_err();
            assert!(refused.hint().contains("unix:/run/user/1000/baton.sock"), "{odd}: {refused}");
        }
        assert!(base(&long).unwrap_err().to_string().contains("its path has 108 bytes"));
    }

    #[test]
    fn a_url_names_a_server() {
        assert_eq!(base("http://127.0.0.1:7421").unwrap(), "http://127.0.0.1:7421");
        assert_eq!(base("http://localhost/").unwrap(), "http://localhost:7420");
        assert_eq!(base("http://[::1]").unwrap(), "http://[::1]:7420");
        assert_eq!(base("http://[::1]:9").unwrap(), "http://[::1]:9");
        assert_eq!(base("http://a,b:9,a:7420").unwrap(), "http://a:7420,b:9");
        assert_eq!(base("http://a:1,http://b:2/,c").unwrap(), "http://a:1,b:2,c:7420");
        assert_eq!(base("https://a,https://b").unwrap(), "https://a:7420,b:7420");
    }

    #[test]
    fn https_may_name_certificates_and_nothing_else() {
        let settings = |url: &str| Settings::of(&url.parse().unwrap());
        let secure = settings("https://baton.example?ca=/etc/ca.pem").unwrap();
        assert_eq!(secure.base, "https://baton.example:7420");
        assert_eq!(secure.authority, Some(PathBuf::from("/etc/ca.pem")));
        assert!(!secure.is_open() && !secure.loopback && secure.identity.is_none());
        let known = settings("https://h?cert=a.pem&key=b.pem").unwrap();
        assert_eq!(known.identity, Some((PathBuf::from("a.pem"), PathBuf::from("b.pem"))));
        for url in ["https://h?cert=a.pem", "https://h?key=b.pem", "http://127.0.0.1?cert=a&key=b"] {
            assert!(matches!(settings(url), Err(StoreError::Misnamed { .. })), "{url}");
        }
        for url in ["http://127.0.0.1?ca=x", "https://h?token=baton_1_2"] {
            let error = settings(url).unwrap_err();
            assert!(!format!("{error} {}", error.hint()).contains("baton_1_2"), "{url}");
        }
        for (url, open) in [
            ("http://h", true),
            ("http://127.0.0.1,h", true),
            ("http://10.0.0.1", true),
            ("http://[::2]:1", true),
        ]
        .into_iter()
        .chain([("http://127.0.0.9", false), ("http://[::1]", false), ("http://localhost:1", false)])
        {
            assert_eq!(settings(url).unwrap().is_open(), open, "{url}");
        }
    }

    #[test]
    fn what_names_none_is_refused_and_secrets_are_not_repeated() {
        for url in [
            "http://",
            "http:///x",
            "http://h/path",
            "http://a:b:c",
            "http://h?x=1",
            "http://a,,b",
            "http://a,b/c",
        ] {
            assert!(base(url).is_err(), "{url}");
        }
        for (url, why) in [
            ("http://h:99999", "port"),
            ("http://h:0", "port"),
            ("http://h:", "port"),
            ("https://h:1/foo", "path"),
            ("http://a,https://b", "one scheme"),
            ("http://a,,b", "no server"),
        ] {
            let error = base(url).unwrap_err();
            assert!(matches!(error, StoreError::Misnamed { .. }), "{url}: {error:?}");
            assert!(error.to_string().contains(why), "{url}: {error}");
        }
        let error = base("http://me:secret@h").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
