//! From a URL to a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_api::Elections;
use baton_store::{Access, FileStore, MemoryStore, Store, StoreUrl, UrlError};
use baton_store_git::GitStore;

use crate::error::Error;

/// The stores that need no feature.
const ALWAYS: [&str; 3] = ["file", "git", "mem"];

/// The stores that are built in on request: scheme, feature, whether this build has it.
const ON_REQUEST: [(&str, &str, bool); 10] = [
    ("embedded", "embedded", cfg!(feature = "embedded")),
    ("etcd", "etcd", cfg!(feature = "etcd")),
    ("firestore", "firestore", cfg!(feature = "firestore")),
    ("http", "http", cfg!(feature = "http")),
    ("https", "http", cfg!(feature = "http")),
    ("k8s", "kubernetes", cfg!(feature = "kubernetes")),
    ("postgres", "postgres", cfg!(feature = "postgres")),
    ("postgresql", "postgres", cfg!(feature = "postgres")),
    ("spanner", "spanner", cfg!(feature = "spanner")),
    ("unix", "http", cfg!(feature = "http")),
];

/// The schemes that this build can open.
pub fn schemes() -> Vec<&'static str> {
    let built_in = ON_REQUEST.iter().filter(|(.., built_in)| *built_in).map(|(scheme, ..)| *scheme);
    let mut schemes: Vec<&str> = ALWAYS.into_iter().chain(built_in).collect();
    schemes.sort_unstable();
    schemes
}

/// The file that `embedded:FILE` names; none if the URL names another kind of store.
pub fn embedded_file(url: &str) -> Result<Option<PathBuf>, Error> {
    let url: StoreUrl = url.parse()?;
    if url.scheme != "embedded" {
        return Ok(None);
    }
    url.only(&[])?;
    Ok(Some(expand(&url)?))
}

/// What a URL names.
pub(crate) enum Opened {
    /// A store, on whose records this process decides.
    Store(Arc<dyn Store>),
    /// Elections that others decide.
    #[cfg_attr(not(any(feature = "etcd", feature = "http")), expect(dead_code))]
    Elections(Arc<dyn Elections>),
}

/// Opens the store that a URL names, for a caller that is no client of it.
///
/// # Errors
/// [`Error::NoStore`] if it names a server, or elections of a store's own: there are no records then.
pub async fn open_store(url: &str, access: Access) -> Result<Arc<dyn Store>, Error> {
    match open(&url.parse()?, access).await? {
        Opened::Store(store) => Ok(store),
        Opened::Elections(elections) => Err(Error::NoStore(elections.location())),
    }
}

pub(crate) async fn open(url: &StoreUrl, access: Access) -> Result<Opened, Error> {
    match url.scheme.as_str() {
        #[cfg(feature = "http")]
        "http" | "https" | "unix" => {
            Ok(Opened::Elections(Arc::new(baton_store_http::HttpElections::open(url)?)))
        }
        #[cfg(feature = "etcd")]
        "etcd" if baton_store_etcd::EtcdElections::is_named_by(url) => {
            Ok(Opened::Elections(Arc::new(baton_store_etcd::EtcdElections::open(url).await?)))
        }
        _ => Ok(Opened::Store(open_records(url, access).await?)),
    }
}

async fn open_records(url: &StoreUrl, access: Access) -> Result<Arc<dyn Store>, Error> {
    match url.scheme.as_str() {
        "file" => {
            url.only(&[])?;
            Ok(Arc::new(FileStore::open(&expand(url)?, access)?))
        }
        #[cfg(feature = "embedded")]
        "embedded" => {
            url.only(&[])?;
            let path = expand(url)?;
            // It is read and checked as a whole, which may take a while.
            let opened =
                tokio::task::spawn_blocking(move || baton_store_embedded::EmbeddedStore::open(&path, access));
            Ok(Arc::new(opened.await.map_err(std::io::Error::other)??))
        }
        "git" => Ok(Arc::new(GitStore::open(url)?)),
        "mem" => {
            url.only(&[])?;
            Ok(Arc::new(MemoryStore::default()))
        }
        #[cfg(feature = "etcd")]
        "etcd" => Ok(baton_store_etcd::open(url).await?),
        #[cfg(feature = "kubernetes")]
        "k8s" => Ok(baton_store_kubernetes::open(url).await?),
        #[cfg(feature = "postgres")]
        "postgres" | "postgresql" => Ok(baton_store_postgres::open(url).await?),
        #[cfg(feature = "firestore")]
        "firestore" => notified(url, async |url| Ok(baton_store_firestore::open(url).await?)).await,
        #[cfg(feature = "spanner")]
        "spanner" => notified(url, async |url| Ok(baton_store_spanner::open(url).await?)).await,
        _ => Err(unknown(url).into()),
    }
}

/// A store of Google's, whose changes are told through a topic if its URL asks for it: `?notify=pubsub:TOPIC`.
#[cfg(any(feature = "firestore", feature = "spanner"))]
async fn notified(
    url: &StoreUrl,
    open: impl AsyncFnOnce(&StoreUrl) -> Result<Arc<dyn Store>, Error>,
) -> Result<Arc<dyn Store>, Error> {
    let Some(notify) = url.parameters.get("notify") else { return open(url).await };
    let Some(topic) = notify.strip_prefix("pubsub:").filter(|topic| !topic.is_empty()) else {
        return Err(UrlError::new(
            format!("`notify={notify}` names no way to tell of changes"),
            "write ?notify=pubsub:TOPIC",
        )
        .into());
    };
    let project = url.rest.trim_start_matches('/').split('/').next().unwrap_or_default().to_string();
    let store = open(url).await?;
    Ok(baton_pubsub::notified(store, &project, topic).await?)
}

fn unknown(url: &StoreUrl) -> UrlError {
    let scheme = url.scheme.as_str();
    if let Some((_, feature, _)) = ON_REQUEST.iter().find(|(known, ..)| *known == scheme) {
        return UrlError::new(
            format!("this Baton was built without the store `{scheme}:`"),
            format!(
                "build with it: in a program by features = [\"{feature}\"] of the dependency `baton`, the command by cargo install \
                 --path crates/cli --features {feature} (or all-stores)"
            ),
        );
    }
    if is_address(url) {
        return UrlError::new(
            format!("`{}` names no kind of store", url.shown()),
            format!("if a server listens there, write http://{}", url.shown()),
        );
    }
    let list = |schemes: &mut dyn Iterator<Item = &str>| {
        schemes.map(|scheme| format!("{scheme}:")).collect::<Vec<_>>().join(" ")
    };
    let always = list(&mut ALWAYS.into_iter());
    let on_request = list(&mut ON_REQUEST.iter().map(|(scheme, ..)| *scheme));
    UrlError::new(
        format!("no store has the scheme `{scheme}:`"),
        format!("Baton has {always}, and if built with them {on_request}"),
    )
}

/// Whether a store's name is the address of a server, without a scheme: `HOST:PORT`.
fn is_address(url: &StoreUrl) -> bool {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let port = url.rest.split([',', '/']).next().unwrap_or_default();
    !url.rest.contains('@') && (digits(port) || url.scheme.starts_with('['))
}

/// A path, with `~` for the home folder.
fn expand(url: &StoreUrl) -> Result<PathBuf, UrlError> {
    let path = url.rest.as_str();
    if path.is_empty() {
        let (what, form) = if url.scheme == "file" { ("folder", "DIR") } else { ("file", "FILE") };
        return Err(UrlError::new(
            format!("the store `{}:` names no {what}", url.scheme),
            format!("write {}:{form}", url.scheme),
        ));
    }
    match path.strip_prefix("~/").map(|rest| (rest, std::env::home_dir())) {
        Some((rest, Some(home))) => Ok(home.join(rest)),
        Some((_, None)) => Err(UrlError::new("there is no home folder", "write the whole path")),
        None => Ok(Path::new(path).to_path_buf()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> UrlError {
        unknown(&url.parse().unwrap())
    }

    #[test]
    fn an_address_without_a_scheme_is_told_what_to_write() {
        for url in ["localhost:7420", "127.0.0.1:7420", "a:1,b:2", "[::1]:7420"] {
            assert!(refused(url).hint.ends_with(&format!("write http://{url}")), "{url}: {:?}", refused(url));
        }
        for url in ["nosuch:dir", "me:secret@h", "me:1@h"] {
            let error = refused(url);
            assert!(
                error.hint.contains("file:") && !format!("{error:?}").contains("secret"),
                "{url}: {error:?}"
            );
        }
    }

    #[test]
    fn a_store_that_is_not_built_in_is_had_by_a_feature_of_the_library_or_of_the_command() {
        let error = refused("http://h");
        assert!(error.hint.contains("features = [\"http\"]"), "{error:?}");
        assert!(error.hint.contains("cargo install"), "{error:?}");
    }
}
