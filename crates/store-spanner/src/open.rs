//! From a store's name to what must be known to reach it.
//!
//! `spanner://PROJECT/INSTANCE/DATABASE`, with `?table=NAME` (`Leadership`), `poll=SPAN` (`1s`), `timeout=SPAN` (`10s`),
//! and for an emulator `emulator=HOST:PORT` (or the variable `SPANNER_EMULATOR_HOST`) and `rest=HOST:PORT`, which only
//! laying out asks for. `notify=…` is for whoever wraps the store.

use std::time::Duration;

use baton_election::Span;
use baton_store::{StoreError, StoreUrl, UrlError};

use crate::tables::Tables;

/// What all of Google's libraries ask for an emulator.
const EMULATOR_VARIABLE: &str = "SPANNER_EMULATOR_HOST";
/// The port that an emulator administers databases at, unless told otherwise.
const EMULATOR_REST_PORT: u16 = 9020;

/// The table, unless told otherwise.
const TABLE: &str = "Leadership";

/// A database, as people and as Spanner name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseName {
    pub(crate) project: String,
    pub(crate) instance: String,
    pub(crate) database: String,
    pub(crate) emulator: Option<Emulator>,
}

/// Where an emulator listens, as `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Emulator {
    pub(crate) grpc: String,
    pub(crate) rest: String,
}

/// What a URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) place: DatabaseName,
    /// The whole URL, for commands in hints.
    pub(crate) url: StoreUrl,
    pub(crate) tables: Tables,
    /// A watcher looks after this to twice this.
    pub(crate) poll: Duration,
    /// The bound on every operation.
    pub(crate) limit: Duration,
}

impl DatabaseName {
    /// The URL without what only this client needs to know.
    pub(crate) fn url(&self) -> String {
        format!("spanner://{}/{}/{}", self.project, self.instance, self.database)
    }

    /// The command that lets an account take part.
    pub(crate) fn grant(&self) -> String {
        format!(
            "gcloud spanner databases add-iam-policy-binding {} --instance={} --project={} --member=MEMBER \
             --role=roles/spanner.databaseUser",
            self.database, self.instance, self.project
        )
    }

    pub(crate) fn instance_path(&self) -> String {
        format!("projects/{}/instances/{}", self.project, self.instance)
    }

    pub(crate) fn database_path(&self) -> String {
        format!("{}/databases/{}", self.instance_path(), self.database)
    }
}

impl Settings {
    /// For people: neither another table nor an emulator is mistaken for the real thing.
    pub(crate) fn location(&self) -> String {
        let table = match self.tables.elections.as_str() {
            TABLE => String::new(),
            table => format!("?table={table}"),
        };
        let emulator = self.place.emulator.as_ref();
        let emulator = emulator.map(|emulator| format!(" (emulator at {})", authority(&emulator.grpc)));
        format!("{}{table}{}", self.place.url(), emulator.unwrap_or_default())
    }

    /// The command that lays the store out.
    pub(crate) fn init(&self) -> String {
        format!("baton init --store '{}'", self.url)
    }

    /// The same, with a place for where the emulator is administered.
    pub(crate) fn init_at_rest(&self) -> String {
        let mut url = self.url.clone();
        url.parameters.insert("rest".to_string(), "HOST:PORT".to_string());
        format!("baton init --store '{url}'")
    }
}

/// Reads a URL, and the variable that names an emulator.
pub(crate) fn settings(url: &StoreUrl) -> Result<Settings, StoreError> {
    let variable = std::env::var(EMULATOR_VARIABLE).ok().filter(|host| !host.is_empty());
    parse(url, variable).map_err(|error| StoreError::Misnamed {
        place: url.shown(),
        why: error.why,
        hint: error.hint,
    })
}

fn parse(url: &StoreUrl, variable: Option<String>) -> Result<Settings, UrlError> {
    let shape =
        || UrlError::new("it does not name a Spanner database", "write spanner://PROJECT/INSTANCE/DATABASE");
    if url.scheme != "spanner" {
        return Err(shape());
    }
    url.nobody()?;
    url.only(&["table", "poll", "timeout", "emulator", "rest", "notify"])?;
    let parts: Vec<&str> = url.rest.strip_prefix("//").ok_or_else(shape)?.split('/').collect();
    let [project, instance, database] = parts.as_slice() else { return Err(shape()) };
    for (part, what) in [(project, "project"), (instance, "instance"), (database, "database")] {
        name(part, what)?;
    }
    let parameter = |name: &str| url.parameters.get(name).cloned();
    let grpc = parameter("emulator").or(variable);
    let emulator = match (grpc, parameter("rest")) {
        (None, None) => None,
        (Some(grpc), rest) => Some(emulator(&grpc, rest.as_deref())?),
        (None, Some(_)) => {
            return Err(UrlError::new(
                "`rest` is of use with an emulator only",
                "write ?emulator=HOST:PORT&rest=HOST:PORT",
            ));
        }
    };
    Ok(Settings {
        place: DatabaseName {
            project: (*project).to_string(),
            instance: (*instance).to_string(),
            database: (*database).to_string(),
            emulator,
        },
        url: url.clone(),
        tables: Tables::named(parameter("table").as_deref().unwrap_or(TABLE))?,
        poll: span(url, "poll", "1s", Span::millis(20)..=Span::secs(60))?,
        limit: span(url, "timeout", "10s", Span::millis(100)..=Span::secs(60))?,
    })
}

/// Names go into resource paths, so nothing that could lead elsewhere is let through.
fn name(text: &str, what: &str) -> Result<(), UrlError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.:".contains(&byte);
    if !text.is_empty() && text.len() <= 128 && text.bytes().all(plain) {
        return Ok(());
    }
    Err(UrlError::new(
        format!("`{}` names no {what}", text.escape_debug()),
        "write spanner://PROJECT/INSTANCE/DATABASE",
    ))
}

fn emulator(grpc: &str, rest: Option<&str>) -> Result<Emulator, UrlError> {
    let host = |text: &str| -> Result<(String, u16), UrlError> {
        let text = authority(text);
        text.rsplit_once(':')
            .and_then(|(host, port)| Some((host.to_string(), port.parse().ok()?)))
            .filter(|(host, _)| !host.is_empty() && !host.contains('/'))
            .ok_or_else(|| {
                UrlError::new(
                    format!("`{text}` is no emulator's address"),
                    "write HOST:PORT, such as localhost:9010",
                )
            })
    };
    let (name, port) = host(grpc)?;
    let (rest_name, rest_port) = match rest {
        Some(rest) => host(rest)?,
        None => (name.clone(), EMULATOR_REST_PORT),
    };
    Ok(Emulator { grpc: format!("http://{name}:{port}"), rest: format!("http://{rest_name}:{rest_port}") })
}

fn authority(text: &str) -> &str {
    text.trim_start_matches("http://").trim_end_matches('/')
}

fn span(
    url: &StoreUrl,
    name: &str,
    usual: &str,
    bounds: std::ops::RangeInclusive<Span>,
) -> Result<Duration, UrlError> {
    let text = url.parameters.get(name).map_or(usual, String::as_str);
    let span: Span = text
        .parse()
        .map_err(|error| UrlError::new(format!("`{name}`: {error}"), format!("write {name}={usual}")))?;
    if !bounds.contains(&span) {
        return Err(UrlError::new(
            format!("`{name}` of {span} is not from {} to {}", bounds.start(), bounds.end()),
            format!("write {name}={usual}"),
        ));
    }
    Ok(Duration::from_nanos(span.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, variable: Option<&str>) -> Result<Settings, UrlError> {
        parse(&text.parse().unwrap(), variable.map(str::to_string))
    }

    #[test]
    fn a_database_is_named_by_three_parts() {
        let settings = parsed("spanner://my-project/i1/my_db", None).unwrap();
        assert_eq!(settings.place.database_path(), "projects/my-project/instances/i1/databases/my_db");
        assert_eq!(settings.location(), "spanner://my-project/i1/my_db");
        assert_eq!((settings.poll, settings.limit), (Duration::from_secs(1), Duration::from_secs(10)));
        assert_eq!(settings.place.emulator, None);
        for odd in [
            "spanner:p/i/d",
            "spanner://p/i",
            "spanner://p/i/d/e",
            "spanner://p//d",
            "spanner://p/I/d",
            "file:x",
        ] {
            assert!(parsed(odd, None).is_err_and(|error| error.hint.contains("PROJECT")), "{odd}");
        }
    }

    #[test]
    fn an_emulator_is_named_by_the_url_or_by_the_variable() {
        let emulator = |text: &str, variable| parsed(text, variable).unwrap().place.emulator.unwrap();
        let by_variable = emulator("spanner://p/i/d", Some("localhost:9010"));
        assert_eq!(by_variable.grpc, "http://localhost:9010");
        assert_eq!(by_variable.rest, "http://localhost:9020");
        let by_url = emulator("spanner://p/i/d?emulator=h:1&rest=h:2", Some("localhost:9010"));
        assert_eq!((by_url.grpc.as_str(), by_url.rest.as_str()), ("http://h:1", "http://h:2"));
        let settings = parsed("spanner://p/i/d?emulator=h:1", None).unwrap();
        assert_eq!(settings.location(), "spanner://p/i/d (emulator at h:1)");
        assert_eq!(settings.init(), "baton init --store 'spanner://p/i/d?emulator=h:1'");
        let at_rest = "baton init --store 'spanner://p/i/d?emulator=h:1&rest=HOST:PORT'";
        assert_eq!(settings.init_at_rest(), at_rest);
        let other = parsed("spanner://p/i/d?table=Led", None).unwrap();
        assert_eq!(other.location(), "spanner://p/i/d?table=Led", "another table is another store");
        assert!(parsed("spanner://p/i/d?emulator=h", None).is_err());
        assert!(parsed("spanner://p/i/d?rest=h:2", None).is_err());
    }

    #[test]
    fn a_user_is_refused_and_not_repeated() {
        for odd in ["u:s3cret@p/i/d", "s3cret@p/i/d?table=1", "p/i/d?emulator=u:s3cret@h:1", "p/i/s3cret@d"] {
            let url: StoreUrl = format!("spanner://{odd}").parse().unwrap();
            let error = settings(&url).unwrap_err();
            assert!(matches!(error, StoreError::Misnamed { .. }), "{error:?}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }

    #[test]
    fn odd_parameters_are_refused_with_a_hint() {
        for odd in
            ["poll=1", "poll=1ms", "poll=2m", "timeout=0", "table=a`b", "table=1a", "table=", "colour=red"]
        {
            let refused = parsed(&format!("spanner://p/i/d?{odd}"), None);
            assert!(refused.is_err_and(|error| !error.hint.is_empty()), "{odd}");
        }
        let unknown = parsed("spanner://p/i/d?colour=red", None).unwrap_err();
        assert!(unknown.hint.contains("notify"), "{}", unknown.hint);
        assert!(parsed("spanner://p/i/d?notify=pubsub:t", None).is_ok(), "it is for whoever wraps this");
        let settings = parsed("spanner://p/i/d?poll=250ms&timeout=2s&table=Led", None).unwrap();
        assert_eq!((settings.poll, settings.limit), (Duration::from_millis(250), Duration::from_secs(2)));
    }
}
