//! From a URL to a store: `firestore://PROJECT[/DATABASE][?collection=NAME][&emulator=HOST:PORT]`.

use std::sync::Arc;

use baton_election::Span;
use baton_pubsub::google::{Caller, REQUEST_LIMIT, Route};
use baton_store::{Store, StoreError, StoreUrl};

use crate::client::Client;
use crate::database::DatabasePath;
use crate::fault::{Failure, reading};
use crate::pace::SHORTEST_LEASE;
use crate::store::FirestoreStore;

const SERVICE: &str = "firestore.googleapis.com";
const EMULATOR: &str = "FIRESTORE_EMULATOR_HOST";
const SYNTAX: &str =
    "write firestore://PROJECT/DATABASE?collection=leadership; DATABASE and collection may be left out";
/// Leaves room for `-records` in the 1,500 bytes that Firestore allows.
const MAX_NAME_BYTES: usize = 128;

/// Opens the store that a URL names: `firestore://PROJECT/DATABASE?collection=leadership`.
///
/// DATABASE is `(default)` if it is left out, the collection `leadership`. `?emulator=HOST:PORT`, or else the variable
/// `FIRESTORE_EMULATOR_HOST`, names an emulator; otherwise application-default credentials are used. `notify=…` is for
/// whoever wraps the store. Sends nothing.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(FirestoreStore::open(url).await?))
}

impl FirestoreStore {
    /// The same, as a value of its own type.
    pub async fn open(url: &StoreUrl) -> Result<FirestoreStore, StoreError> {
        let (place, route) = place(url)?;
        let routing = format!("database={}", place.database)
            .replace('/', "%2F")
            .replace('(', "%28")
            .replace(')', "%29")
            .replace(':', "%3A");
        let headers =
            [("google-cloud-resource-prefix", place.database.as_str()), ("x-goog-request-params", &routing)];
        let caller = Caller::new(&route, &headers)
            .await
            .map_err(|not_sent| reading(&place.location, &Failure::NotSent(not_sent)))?;
        let shortest = match route {
            Route::Service(_) => SHORTEST_LEASE,
            Route::Emulator(_) => Span::ZERO,
        };
        let client = Client::new(caller, &place.database, REQUEST_LIMIT);
        Ok(FirestoreStore::new(client, place, shortest))
    }
}

/// What a URL names.
fn place(url: &StoreUrl) -> Result<(DatabasePath, Route), StoreError> {
    let shown = url.shown();
    let refuse =
        |why: String, hint: &str| StoreError::Misnamed { place: shown.clone(), why, hint: hint.to_string() };
    let known = ["collection", "emulator", "notify"];
    url.nobody().and_then(|()| url.only(&known)).map_err(|error| refuse(error.why, &error.hint))?;
    let Some(rest) = url.rest.strip_prefix("//") else {
        return Err(refuse("it names no project".to_string(), SYNTAX));
    };
    let (project, database) = rest.trim_end_matches('/').split_once('/').unwrap_or((rest, "(default)"));
    let project = project.trim_end_matches('/');
    let collection = url.parameters.get("collection").map_or("leadership", String::as_str);
    let plain = |text: &str, also: &str| {
        (1..=MAX_NAME_BYTES).contains(&text.len())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
    };
    if !plain(project, ".:-") {
        return Err(refuse(format!("`{project}` is no name of a project"), SYNTAX));
    }
    if database != "(default)" && !plain(database, "-") {
        return Err(refuse(format!("`{database}` is no name of a database"), SYNTAX));
    }
    if !plain(collection, "._-") || collection.starts_with(['.', '_']) {
        return Err(refuse(
            format!("`{collection}` is no name of a collection"),
            "it has letters, digits, `-`, `_` and `.`, and begins with none of the last two",
        ));
    }
    let route = Route::choose(url.parameters.get("emulator").map(String::as_str), EMULATOR, SERVICE);
    let emulator = match &route {
        Route::Service(_) => String::new(),
        Route::Emulator(host) => format!("&emulator={host}"),
    };
    let place = DatabasePath {
        database: format!("projects/{project}/databases/{database}"),
        collection: collection.to_string(),
        location: format!("firestore://{project}/{database}?collection={collection}{emulator}"),
    };
    Ok((place, route))
}

#[cfg(test)]
#[path = "../../pubsub/tests/support/http.rs"]
mod http;

#[cfg(test)]
mod tests {
    use baton_election::command::Acquire;
    use baton_election::id::{Incarnation, KeyHash, StoreId};
    use baton_election::{AgentName, Command, ElectionName, Epoch, Evidence, WallTime, decide};
    use baton_store::conformance::{Required, required};
    use baton_store::{AgeStamp, Expect, Key, Persistence, Record};

    use super::*;

    const RULES: &str = "service cloud.firestore { match /databases/{d}/documents { match /{all=**} { allow read, \
                         write: if false; } } }";

    /// An election led for so long.
    fn led(ttl: Span) -> (Key, Record) {
        let election = ElectionName::new("e").unwrap();
        let acquire = Acquire {
            ttl: Some(ttl),
            limits: baton_election::policy::Limits::default(),
            ..Acquire::new(AgentName::new("a").unwrap(), Incarnation([1; 8]), KeyHash([1; 32]))
        };
        let evidence = Evidence {
            election: &election,
            store: StoreId([7; 8]),
            age: Span::ZERO,
            wall: WallTime::default(),
            floor: Epoch(0),
            vanished_lease: Span::ZERO,
            operator_keys: &[],
        };
        let document = decide(None, &Command::Acquire(acquire), &evidence).unwrap().next.unwrap();
        (Key::Election(election), Record::Election(Box::new(document)))
    }

    #[tokio::test]
    async fn who_may_not_is_told_what_to_ask_for() {
        let Required::At(host) = required("BATON_TEST_FIRESTORE") else { return };
        let project = format!("t{:016x}", getrandom::u64().unwrap());
        let rules =
            serde_json::json!({ "rules": { "files": [{ "name": "firestore.rules", "content": RULES }] } });
        let path = format!("/emulator/v1/projects/{project}:securityRules");
        let (status, body) = http::ask(&host, "PUT", &path, &rules).await;
        assert_eq!(status, 200, "{body}");
        let (place, route) =
            place(&format!("firestore://{project}?emulator={host}").parse().unwrap()).unwrap();
        // Somebody whom the emulator knows, but not as the owner.
        let somebody = "Bearer eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ4IiwidXNlcl9pZCI6IngifQ.";
        let caller = Caller::new(&route, &[]).await.unwrap().with_token(somebody);
        let client = Client::new(caller, &place.database, REQUEST_LIMIT);
        let store = FirestoreStore::new(client, place, Span::ZERO);
        let (key, record) = led(Span::secs(30));
        let read = store.read(&key).await.unwrap_err();
        let swapped = store
            .swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable)
            .await
            .unwrap_err();
        let listed = store.list(&baton_store::Prefix::Elections).await.unwrap_err();
        for error in [read, swapped, listed] {
            assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
            assert!(error.hint().contains("roles/datastore.user"), "{error}: {}", error.hint());
        }
        // The emulator refuses to let itself be listened to, but does not say why.
        assert!(store.watch(&key).await.is_err());
    }

    #[tokio::test]
    async fn the_service_itself_takes_no_lease_that_is_renewed_too_often() {
        let (place, _) = place(&"firestore://p".parse().unwrap()).unwrap();
        let nobody = Caller::new(&Route::Emulator("127.0.0.1:1".to_string()), &[]).await.unwrap();
        let store = FirestoreStore::new(Client::new(nobody, "d", REQUEST_LIMIT), place, SHORTEST_LEASE);
        let (key, record) = led(Span::secs(2));
        let error = store
            .swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable)
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
        assert!(error.hint().contains("3s or more"), "{}", error.hint());
        let (key, record) = led(Span::secs(3));
        let error = store
            .swap(&key, Expect::Absent, &record, AgeStamp::Reset, Persistence::Durable)
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "only the server is missing: {error:?}");
    }

    fn parsed(url: &str) -> Result<DatabasePath, String> {
        place(&url.parse().unwrap()).map(|(place, _)| place).map_err(|error| error.to_string())
    }

    #[test]
    fn a_url_names_a_database_and_a_collection() {
        let short = parsed("firestore://my-project?emulator=h:1").unwrap();
        assert_eq!(short.database, "projects/my-project/databases/(default)");
        assert_eq!(short.collection, "leadership");
        let long = "firestore://my-project/(default)?collection=leadership&emulator=h:1";
        assert_eq!(short.location, long);
        assert_eq!(parsed(long), Ok(short.clone()));
        assert_eq!(parsed("firestore://my-project/?emulator=h:1"), Ok(short));
        let other = parsed("firestore://example.com:p/db-2?collection=x.y&emulator=h:1").unwrap();
        assert_eq!(other.root(), "projects/example.com:p/databases/db-2/documents");
    }

    #[test]
    fn what_names_none_is_refused() {
        for (url, why) in [
            ("firestore:p", "names no project"),
            ("firestore://", "no name of a project"),
            ("firestore:///d", "no name of a project"),
            ("firestore://p/d/e", "no name of a database"),
            ("firestore://p q", "no name of a project"),
            ("firestore://p?collection=__a__", "no name of a collection"),
            ("firestore://p?collection=a/b/c", "no name of a collection"),
            ("firestore://p?collection=", "no name of a collection"),
            ("firestore://p?table=a", "no parameter `table`"),
            ("firestore://u:s3cret@p", "no user"),
            ("firestore://p/s3cret@d", "no user"),
            ("firestore://p?emulator=u:s3cret@h:1", "no user"),
        ] {
            let error = parsed(url).unwrap_err();
            assert!(error.contains(why) && !error.contains("s3cret"), "{url}: {error}");
        }
        let unknown = place(&"firestore://p?table=a".parse().unwrap()).unwrap_err();
        assert!(unknown.hint().contains("notify"), "{}", unknown.hint());
        assert!(parsed("firestore://p?notify=pubsub:t").is_ok(), "it is for whoever wraps this");
    }
}
