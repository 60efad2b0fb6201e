//! From a store's name to a store. Nothing is asked of the server here.

use std::sync::Arc;
use std::time::Duration;

use baton_election::Span;
use baton_store::{Store, StoreError, StoreUrl, UrlError};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

use crate::fault::Faults;
use crate::names::Names;
use crate::password::{self, PasswordQuery};
use crate::pool::{Limits, Pool};
use crate::store::PostgresStore;
use crate::tls;

/// The parameters that are ours.
const OWN: [&str; 4] = ["table", "clock", "poll", "timeout"];
/// The parameters that go to the driver as they are.
const PASSED_ON: [&str; 18] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "keepalives_retries",
    "load_balance_hosts",
    "options",
    "password",
    "port",
    "sslnegotiation",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// The longest wait for a connection to one host, unless told otherwise.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The part of a request that connecting may take: the rest is longer than a swap waits for a lock.
const CONNECT_SHARE: f64 = 0.6;

/// What a lease's age is told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timekeeper {
    /// The server's wall clock.
    Server,
    /// Each observer's own clock.
    Observers,
}

/// What a URL says beside how to connect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) timekeeper: Timekeeper,
    /// How often a watcher looks where the server cannot tell: from this to twice this.
    pub(crate) poll: Duration,
}

/// Opens the store that a URL names: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?…`, or `postgresql://…`.
///
/// | parameter | what it says | without it |
/// |---|---|---|
/// | `table` | `NAME` or `SCHEMA.NAME`; the other things are named after it | `public.baton` |
/// | `clock` | `server`, or `observed`: each candidate times leases for itself | `server` |
/// | `poll` | how often a watcher looks where the server cannot tell | `1s`, to twice that |
/// | `timeout` | how long one request may take, with its connection | `10s` |
/// | `sslmode` | `disable`, `prefer`, `require`, `verify-ca`, `verify-full`, as libpq has them | `prefer` |
/// | `sslrootcert` | whom certificates are checked by: a file, or `system` | `system` |
/// | `sslcert`, `sslkey` | our own certificate and its key: files | none |
///
/// `connect_timeout` (5 s for each host, and 60 % of `timeout` for all of them at most), `application_name` (`baton`), `target_session_attrs`, `options`, `host`, `port`, `user`,
/// `dbname`, `hostaddr`, `keepalives…`, `tcp_user_timeout`, `channel_binding`, `load_balance_hosts` and `sslnegotiation`
/// are the driver's. A password that is not in the URL is looked for in `PGPASSWORD` and in the password file.
///
/// Does not speak to the server. The value belongs to the tokio runtime that it is first used in.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(PostgresStore::open(url)?))
}

/// What is needed to make a store.
pub(crate) fn parse(url: &StoreUrl) -> Result<(Pool, Options), StoreError> {
    parts(url).map_err(|error| StoreError::Misnamed {
        place: format!("the store `{}:`", url.scheme),
        why: error.why,
        hint: error.hint,
    })
}

fn parts(url: &StoreUrl) -> Result<(Pool, Options), UrlError> {
    let known: Vec<&str> = OWN.iter().chain(&PASSED_ON).chain(&tls::PARAMETERS).copied().collect();
    url.only(&known)?;
    let own = |name: &str| url.parameters.get(name).map(String::as_str);
    let names = Names::parse(own("table").unwrap_or("baton"))?;
    let timekeeper = match own("clock") {
        None | Some("server") => Timekeeper::Server,
        Some("observed") => Timekeeper::Observers,
        Some(other) => {
            return Err(UrlError::new(
                format!("`clock={other}` is not known"),
                "it is one of: server, observed",
            ));
        }
    };
    let poll = length(own("poll"), Span::secs(1))?;
    let request = length(own("timeout"), Span::secs(10))?;
    let (mode, tls) = tls::choose(&url.parameters)?;
    let mut config = configure(url)?;
    config.ssl_mode(mode);
    let each = config.get_connect_timeout().copied().unwrap_or(CONNECT_LIMIT);
    let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
    let connect = each.saturating_mul(hosts).min(request.mul_f64(CONNECT_SHARE));
    config.connect_timeout(connect / hosts);
    let limits = Limits { connect, request };
    let location = location(&config, &names, timekeeper);
    let faults = Faults { location, url: again(url), user: user(&config), names };
    Ok((Pool::new(config, tls, limits, faults), Options { timekeeper, poll }))
}

fn length(text: Option<&str>, default: Span) -> Result<Duration, UrlError> {
    let span = match text {
        None => default,
        Some(text) => {
            text.parse::<Span>().map_err(|error| UrlError::new(error.to_string(), "write 2s or 500ms"))?
        }
    };
    if span < Span::millis(10) || span > Span::secs(3_600) {
        return Err(UrlError::new(format!("{span} is out of bounds"), "between 10ms and 1h"));
    }
    Ok(Duration::from_nanos(span.as_nanos()))
}

/// The driver's own configuration, with what it leaves open.
fn configure(url: &StoreUrl) -> Result<Config, UrlError> {
    let query: Vec<String> = PASSED_ON
        .iter()
        .filter_map(|name| {
            url.parameters.get(*name).map(|value| format!("{name}={}", value.replace('@', "%40")))
        })
        .collect();
    let hint = "write postgres://USER@HOST:PORT/DATABASE; what is special in a part is percent-encoded";
    if !url.rest.starts_with("//") {
        return Err(UrlError::new("the URL names no host", hint));
    }
    // The driver ends the user's part at the first `@`: what follows it in a password would be a host, which everybody may see.
    if url.rest.matches('@').count() > 1 {
        return Err(UrlError::new(
            "the URL has more than one `@`",
            "in a user, a password or a database write %40 for `@`, %2F for `/` and %3F for `?`",
        ));
    }
    let text = format!("postgresql:{}?{}", url.rest, query.join("&"));
    let mut config: Config = text
        .parse()
        .map_err(|error: tokio_postgres::Error| UrlError::new(crate::fault::deep(&error), hint))?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(UrlError::new("the URL names no host", hint));
    }
    let given = |name: &str| url.parameters.contains_key(name);
    if !given("application_name") {
        config.application_name("baton");
    }
    // A connection whose other end is gone is noticed before the system's defaults of hours would.
    if !given("keepalives_idle") {
        config.keepalives_idle(Duration::from_secs(30));
    }
    if !given("keepalives_interval") {
        config.keepalives_interval(Duration::from_secs(10));
    }
    if !given("keepalives_retries") {
        config.keepalives_retries(3);
    }
    if !given("tcp_user_timeout") {
        config.tcp_user_timeout(Duration::from_secs(60));
    }
    if config.get_hosts().len() > 1 && !given("target_session_attrs") {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    if config.get_password().is_none() {
        let (host, user) = (host(&config), user(&config));
        let port = config.get_ports().first().map_or_else(|| "5432".to_string(), u16::to_string);
        let wanted = PasswordQuery {
            host: &host,
            port: &port,
            database: config.get_dbname().unwrap_or(&user),
            user: &user,
        };
        if let Some(password) = password::find(&wanted) {
            config.password(password);
        }
    }
    Ok(config)
}

/// Who connects.
fn user(config: &Config) -> String {
    config.get_user().map_or_else(|| std::env::var("USER").unwrap_or_default(), str::to_string)
}

fn host(config: &Config) -> String {
    match config.get_hosts().first() {
        Some(host) => host_text(host),
        None => config.get_hostaddrs().first().map(ToString::to_string).unwrap_or_default(),
    }
}

fn host_text(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.to_string_lossy().replace('/', "%2F"),
    }
}

/// The URL as it was given, without the password.
fn again(url: &StoreUrl) -> String {
    let mut again = url.clone();
    again.parameters.remove("password");
    if let Some((login, hosts)) = url.rest.rsplit_once('@') {
        again.rest = format!("{}@{hosts}", login.split(':').next().unwrap_or_default());
    }
    again.to_string()
}

/// The store's name without its secrets and without what does not tell it from another.
fn location(config: &Config, names: &Names, timekeeper: Timekeeper) -> String {
    let port = |place: usize| {
        let ports = config.get_ports();
        ports
            .get(place)
            .or(ports.first())
            .filter(|port| **port != 5432)
            .map_or_else(String::new, |port| format!(":{port}"))
    };
    let hosts: Vec<String> = match config.get_hosts() {
        [] => vec![host(config) + &port(0)],
        hosts => hosts.iter().enumerate().map(|(place, host)| host_text(host) + &port(place)).collect(),
    };
    let user = config.get_user().map_or_else(String::new, |user| format!("{}@", user.replace('@', "%40")));
    let database = config.get_dbname().map_or_else(String::new, |name| format!("/{name}"));
    let table = names.plain.strip_prefix("public.").unwrap_or(&names.plain);
    let table = (table != "baton").then(|| format!("table={table}"));
    let clock = (timekeeper == Timekeeper::Observers).then(|| "clock=observed".to_string());
    let query: Vec<String> = table.into_iter().chain(clock).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    format!("postgres://{user}{}{database}{query}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location_of(url: &str) -> Result<String, String> {
        let (pool, _) = parse(&url.parse().unwrap()).map_err(|error| format!("{error}; {}", error.hint()))?;
        Ok(pool.faults.location.clone())
    }

    #[test]
    fn a_location_has_no_secret() {
        let told = |url: &str| location_of(url).unwrap();
        assert_eq!(told("postgres://u:p@h/d?sslmode=disable"), "postgres://u@h/d");
        assert_eq!(
            told("postgresql://u@h:6432/d?password=p&table=ops.baton&clock=observed"),
            "postgres://u@h:6432/d?table=ops.baton&clock=observed"
        );
        assert_eq!(told("postgres://u:p%40@a:1,b:2/d?table=t"), "postgres://u@a:1,b:2/d?table=t");
        assert_eq!(told("postgres://u@%2Frun%2Fpostgresql/d"), "postgres://u@%2Frun%2Fpostgresql/d");
    }

    #[test]
    fn odd_urls_are_refused_with_a_hint() {
        let refused = |url: &str, with: &str| {
            let text = location_of(url).unwrap_err();
            assert!(text.contains(with), "{url}: {text}");
            assert!(!text.contains("s3cret"), "{text}");
        };
        refused("postgres://u:s3cret@h/d?colour=red", "no parameter `colour`");
        refused("postgres://u:s3cret@h/d?clock=mine", "server, observed");
        refused("postgres://u:s3cret@h/d?table=a;b", "does not name a table");
        refused("postgres://u:s3cret@h/d?sslmode=maybe", "verify-full");
        refused("postgres://u:s3cret@h/d?sslmode=verify-full&sslrootcert=/nowhere.pem", "/nowhere.pem");
        refused("postgres://u:s3cret@h/d?sslcert=/c.pem", "belong together");
        refused("postgres://u:s3cret@h/d?poll=5", "length of time");
        refused("postgres://u:s3cret@h/d?timeout=1ms", "between 10ms and 1h");
        refused("postgres://u:s3cret@h:port/d", "percent-encoded");
        refused("postgres:///d", "names no host");
        refused("postgres:u:s3cret@h/d", "names no host");
        for raw in ["u@s3cret@h/d", "u:s3@s3cret@h/d", "u:s3@s3cret/x@h/d", "u:s3/s3cret@x@h"] {
            refused(&format!("postgres://{raw}"), "%40");
        }
    }

    #[test]
    fn a_hint_repeats_the_url_without_its_password() {
        let url = "postgres://u:s3cret@h/d?clock=observed&password=s3cret&sslmode=disable&table=t&timeout=1s";
        let (pool, _) = parse(&url.parse().unwrap()).unwrap();
        let again = "postgres://u@h/d?clock=observed&sslmode=disable&table=t&timeout=1s";
        assert_eq!(pool.faults.url, again);
        assert!(!format!("{:?}", pool.faults).contains("s3cret"));
    }

    #[test]
    fn connecting_leaves_time_for_the_statement() {
        let limits =
            |more: &str| parse(&format!("postgres://u@h,i/d{more}").parse().unwrap()).unwrap().0.limits;
        let (usual, short) = (limits(""), limits("?timeout=1s&connect_timeout=9"));
        assert_eq!((usual.connect.as_secs(), usual.request.as_secs()), (6, 10));
        assert_eq!((short.connect.as_millis(), short.request.as_millis()), (600, 1_000));
        assert_eq!(limits("?connect_timeout=1").connect.as_secs(), 2);
    }
}
