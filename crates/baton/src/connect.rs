//! From a URL to a store, or to elections that others decide: [`STORES`] is the one list of the kinds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_api::Elections;
use baton_store::{Access, BoxFuture, MemoryStore, Store, StoreUrl, UrlError};
use baton_store_file::FileStore;
use baton_store_git::GitStore;

use crate::error::Error;

/// What a URL names.
pub(crate) enum Opened {
    /// A store, on whose records this process decides.
    Store(Arc<dyn Store>),
    /// Elections that others decide.
    #[cfg_attr(not(any(feature = "etcd", feature = "http")), expect(dead_code))]
    Elections(Arc<dyn Elections>),
}

/// Opens what a URL names.
type Open = for<'a> fn(&'a StoreUrl, Access) -> BoxFuture<'a, Result<Opened, Error>>;

/// A kind of store. Whatever must know all kinds of stores goes through [`STORES`].
pub struct StoreKind {
    /// What its URLs begin with.
    pub schemes: &'static [&'static str],
    /// The feature that builds it in; none if it is always there.
    pub feature: Option<&'static str>,
    /// The rows that it has in the table of `docs/reference/stores.md`: what it is called there, and a URL that can be opened without a
    /// server. `{at}` is a folder with a repository `r` and a `kubeconfig`.
    pub rows: &'static [(&'static str, &'static str)],
    /// How it is opened, if this build has it.
    open: Option<Open>,
}

/// How a store is opened, if its feature is on.
macro_rules! with_feature {
    ($feature:literal, $open:expr) => {{
        #[cfg(feature = $feature)]
        const OPEN: Option<Open> = Some($open);
        #[cfg(not(feature = $feature))]
        const OPEN: Option<Open> = None;
        OPEN
    }};
}

/// All kinds of stores.
pub const STORES: &[StoreKind] = &[
    StoreKind {
        schemes: &["mem"],
        feature: None,
        rows: &[("`mem:`", "mem:")],
        open: Some(|url, _| {
            Box::pin(async move {
                url.only(&[])?;
                Ok(Opened::Store(Arc::new(MemoryStore::default())))
            })
        }),
    },
    StoreKind {
        schemes: &["file"],
        feature: None,
        rows: &[("`file:DIR`", "file:{at}/s")],
        open: Some(|url, access| {
            Box::pin(async move {
                url.only(&[])?;
                Ok(Opened::Store(Arc::new(FileStore::open(&expand(url)?, access)?)))
            })
        }),
    },
    StoreKind {
        schemes: &["embedded"],
        feature: Some("embedded"),
        rows: &[("`embedded:FILE`", "embedded:{at}/baton.redb")],
        open: with_feature!("embedded", |url, access| {
            Box::pin(async move {
                url.only(&[])?;
                let path = expand(url)?;
                // It is read and checked as a whole, which may take a while.
                let opened = tokio::task::spawn_blocking(move || {
                    baton_store_embedded::EmbeddedStore::open(&path, access)
                });
                Ok(Opened::Store(Arc::new(opened.await.map_err(std::io::Error::other)??)))
            })
        }),
    },
    StoreKind {
        schemes: &["http", "https", "unix"],
        feature: Some("http"),
        rows: &[("`http://HOST`", "http://127.0.0.1:1")],
        open: with_feature!("http", |url, _| {
            Box::pin(
                async move { Ok(Opened::Elections(Arc::new(baton_store_http::HttpElections::open(url)?))) },
            )
        }),
    },
    StoreKind {
        schemes: &["git"],
        feature: None,
        rows: &[("`git:DIR`", "git:{at}/r"), ("`git:DIR?remote=R`", "git:{at}/r?remote={at}/r")],
        open: Some(|url, _| Box::pin(async move { Ok(Opened::Store(Arc::new(GitStore::open(url)?))) })),
    },
    StoreKind {
        schemes: &["etcd"],
        feature: Some("etcd"),
        rows: &[
            ("`etcd://…`", "etcd://127.0.0.1:1/p"),
            ("`etcd://…?election=etcd`", "etcd://127.0.0.1:1/p?election=etcd"),
        ],
        open: with_feature!("etcd", |url, _| {
            Box::pin(async move {
                Ok(match baton_store_etcd::EtcdElections::is_named_by(url) {
                    true => Opened::Elections(Arc::new(baton_store_etcd::EtcdElections::open(url).await?)),
                    false => Opened::Store(baton_store_etcd::open(url).await?),
                })
            })
        }),
    },
    StoreKind {
        schemes: &["k8s"],
        feature: Some("kubernetes"),
        rows: &[("`k8s://…`", "k8s://n?kubeconfig={at}/kubeconfig")],
        open: with_feature!("kubernetes", |url, _| {
            Box::pin(async move { Ok(Opened::Store(baton_store_kubernetes::open(url).await?)) })
        }),
    },
    StoreKind {
        schemes: &["firestore"],
        feature: Some("firestore"),
        rows: &[("`firestore://…`", "firestore://p?emulator=127.0.0.1:1")],
        open: with_feature!("firestore", |url, _| {
            Box::pin(notified(url, async |url| Ok(baton_store_firestore::open(url).await?)))
        }),
    },
    StoreKind {
        schemes: &["spanner"],
        feature: Some("spanner"),
        rows: &[("`spanner://…`", "spanner://p/i/d?emulator=127.0.0.1:1")],
        open: with_feature!("spanner", |url, _| {
            Box::pin(notified(url, async |url| Ok(baton_store_spanner::open(url).await?)))
        }),
    },
    StoreKind {
        schemes: &["postgres", "postgresql"],
        feature: Some("postgres"),
        rows: &[
            ("`postgres://…`", "postgres://u@127.0.0.1:1/d"),
            ("`postgres://…?clock=observed`", "postgres://u@127.0.0.1:1/d?clock=observed"),
        ],
        open: with_feature!("postgres", |url, _| {
            Box::pin(async move { Ok(Opened::Store(baton_store_postgres::open(url).await?)) })
        }),
    },
];

/// The schemes of some kinds of stores, in order.
fn schemes_of(which: impl Fn(&StoreKind) -> bool) -> Vec<&'static str> {
    let kinds = STORES.iter().filter(|kind| which(kind));
    let mut schemes: Vec<&str> = kinds.flat_map(|kind| kind.schemes).copied().collect();
    schemes.sort_unstable();
    schemes
}

/// The schemes that this build can open.
pub fn schemes() -> Vec<&'static str> {
    schemes_of(|kind| kind.open.is_some())
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
    match kind_of(url).and_then(|kind| kind.open) {
        Some(open) => open(url, access).await,
        None => Err(unknown(url).into()),
    }
}

fn kind_of(url: &StoreUrl) -> Option<&'static StoreKind> {
    STORES.iter().find(|kind| kind.schemes.contains(&url.scheme.as_str()))
}

/// A store of Google's, whose changes are told through a topic if its URL asks for it: `?notify=pubsub:TOPIC`.
#[cfg(any(feature = "firestore", feature = "spanner"))]
async fn notified(
    url: &StoreUrl,
    open: impl AsyncFnOnce(&StoreUrl) -> Result<Arc<dyn Store>, Error>,
) -> Result<Opened, Error> {
    let Some(notify) = url.parameters.get("notify") else { return Ok(Opened::Store(open(url).await?)) };
    let Some(topic) = notify.strip_prefix("pubsub:").filter(|topic| !topic.is_empty()) else {
        return Err(UrlError::new(
            format!("`notify={notify}` names no way to tell of changes"),
            "write ?notify=pubsub:TOPIC",
        )
        .into());
    };
    let project = url.rest.trim_start_matches('/').split('/').next().unwrap_or_default().to_string();
    let store = open(url).await?;
    Ok(Opened::Store(baton_pubsub::notified(store, &project, topic).await?))
}

fn unknown(url: &StoreUrl) -> UrlError {
    let scheme = url.scheme.as_str();
    if let Some(feature) = kind_of(url).and_then(|kind| kind.feature) {
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
    let list =
        |schemes: Vec<&str>| schemes.iter().map(|scheme| format!("{scheme}:")).collect::<Vec<_>>().join(" ");
    let always = list(schemes_of(|kind| kind.feature.is_none()));
    let on_request = list(schemes_of(|kind| kind.feature.is_some()));
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
