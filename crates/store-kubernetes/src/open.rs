//! From a URL to a client.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_store::{Store, StoreError, StoreUrl, UrlError};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::fault;
use crate::owner::Owner;
use crate::store::KubernetesStore;

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The longest name of a namespace.
const MAX_NAMESPACE_BYTES: usize = 63;

/// Opens the store that `k8s://NAMESPACE` names. Nothing is asked of the cluster.
///
/// Parameters: `kubeconfig=FILE` and `context=NAME` say which cluster and who; without them it is the one that this pod runs in, else the
/// current context of `$KUBECONFIG` or `~/.kube/config`. `owner=none` creates Leases without an owner, `owner=pod/NAME` with the
/// controller of that pod; without it the pod is this one, if there is one.
pub async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(KubernetesStore::open(url).await?))
}

/// How the cluster is reached.
struct Cluster {
    config: Config,
    /// The namespace and the name of the pod that this is, if it is one.
    pod: Option<(String, String)>,
}

impl KubernetesStore {
    /// The store that a URL names; see [`open`].
    pub async fn open(url: &StoreUrl) -> Result<KubernetesStore, StoreError> {
        let misnamed =
            |error: UrlError| StoreError::Misnamed { place: url.shown(), why: error.why, hint: error.hint };
        url.nobody().and_then(|()| url.only(&["context", "kubeconfig", "owner"])).map_err(misnamed)?;
        let namespace = namespace(url).map_err(misnamed)?;
        let location = url.to_string();
        let refused = |error: UrlError| StoreError::Refused {
            place: location.clone(),
            why: error.why,
            hint: error.hint,
        };
        let Cluster { mut config, pod } = reach(url).await.map_err(refused)?;
        let pod = owner(url, &namespace, pod).map_err(misnamed)?;
        let address = &config.cluster_url;
        let port = address.port_u16().map_or_else(String::new, |port| format!(":{port}"));
        let server = format!("{}{port}", address.host().unwrap_or_default());
        config.connect_timeout = Some(CONNECT_LIMIT);
        // A write that is sent again after it was applied would be answered with a conflict.
        config.default_retry = false;
        let connect = |config: Config| {
            Client::try_from(config).map_err(|error| fault::of(&location, fault::Operation::Reading, &error))
        };
        let mut unnamed = config.clone();
        unnamed.auth_info = AuthInfo::default();
        let (client, anonymous) = (connect(config)?, connect(unnamed)?);
        Ok(KubernetesStore::new(client, anonymous, namespace, (location, &server), Owner::of(pod)))
    }
}

fn namespace(url: &StoreUrl) -> Result<String, UrlError> {
    let hint = "write k8s://NAMESPACE";
    if url.scheme != "k8s" {
        return Err(UrlError::new("it does not name a Kubernetes namespace", hint));
    }
    let name = url.rest.strip_prefix("//").unwrap_or(&url.rest).trim_end_matches('/');
    if name.is_empty() {
        return Err(UrlError::new("it names no namespace", hint));
    }
    let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let fits = name.len() <= MAX_NAMESPACE_BYTES
        && name.starts_with(letters)
        && name.ends_with(letters)
        && name.chars().all(|c| letters(c) || c == '-');
    if !fits {
        return Err(UrlError::new(format!("`{name}` cannot be the name of a namespace"), hint));
    }
    Ok(name.to_string())
}

async fn reach(url: &StoreUrl) -> Result<Cluster, UrlError> {
    let (file, context) = (url.parameters.get("kubeconfig"), url.parameters.get("context"));
    if file.is_none()
        && context.is_none()
        && let Ok(config) = Config::incluster()
    {
        let pod = this_pod(&config.default_namespace);
        return Ok(Cluster { config, pod });
    }
    let options = KubeConfigOptions { context: context.cloned(), ..KubeConfigOptions::default() };
    let config = match file {
        Some(file) => {
            let file = Kubeconfig::read_from(expand(file)?).map_err(|error| misread(&error, file))?;
            Config::from_custom_kubeconfig(file, &options).await
        }
        None => Config::from_kubeconfig(&options).await,
    };
    let named = file.map_or("$KUBECONFIG or ~/.kube/config", String::as_str);
    Ok(Cluster { config: config.map_err(|error| misread(&error, named))?, pod: None })
}

fn misread(error: &(dyn std::error::Error + 'static), file: &str) -> UrlError {
    UrlError::new(
        format!("no cluster can be had from {file}: {}", fault::chain(error)),
        "name a kubeconfig and a context in it: k8s://NAMESPACE?kubeconfig=FILE&context=NAME",
    )
}

/// A path, with `~` for the home folder.
fn expand(path: &str) -> Result<PathBuf, UrlError> {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => Ok(home.join(rest)),
        (Some(_), None) => Err(UrlError::new("there is no home folder", "write the whole path")),
        (None, _) => Ok(PathBuf::from(path)),
    }
}

/// The pod that this process runs in: as the downward API says, else as pods usually are.
fn this_pod(service_account_namespace: &str) -> Option<(String, String)> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let namespace = variable("POD_NAMESPACE").unwrap_or_else(|| service_account_namespace.to_string());
    Some((namespace, variable("POD_NAME").or_else(|| variable("HOSTNAME"))?))
}

/// The pod whose controller owns what is created. An owner in another namespace would have it deleted at once.
fn owner(
    url: &StoreUrl,
    namespace: &str,
    this: Option<(String, String)>,
) -> Result<Option<String>, UrlError> {
    match url.parameters.get("owner").map(String::as_str) {
        None => Ok(this.filter(|(of, _)| of == namespace).map(|(_, pod)| pod)),
        Some("none") => Ok(None),
        Some(other) => match other.strip_prefix("pod/").filter(|pod| !pod.is_empty()) {
            Some(pod) => Ok(Some(pod.to_string())),
            None => Err(UrlError::new(
                format!("`owner={other}` names no owner"),
                "write owner=none or owner=pod/NAME, or leave it out",
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> StoreUrl {
        text.parse().unwrap()
    }

    #[test]
    fn a_namespace_is_named_by_its_own_rules() {
        assert_eq!(namespace(&url("k8s://agents")).unwrap(), "agents");
        assert_eq!(namespace(&url("k8s:agents/")).unwrap(), "agents");
        for odd in ["k8s://", "k8s:", "k8s://Agents", "k8s://a/b", "k8s://-a", "k8s://a_b", "etcd://agents"] {
            assert!(namespace(&url(odd)).is_err_and(|error| error.hint.contains("k8s://NAMESPACE")), "{odd}");
        }
        assert!(namespace(&url(&format!("k8s://{}", "a".repeat(64)))).is_err());
    }

    #[test]
    fn an_owner_is_of_the_same_namespace_or_none() {
        let here = || Some(("agents".to_string(), "pod-1".to_string()));
        let of = |text: &str, this| owner(&url(text), "agents", this);
        assert_eq!(of("k8s://agents", here()).unwrap().as_deref(), Some("pod-1"));
        assert_eq!(of("k8s://agents", None).unwrap(), None);
        assert_eq!(owner(&url("k8s://other"), "other", here()).unwrap(), None);
        assert_eq!(of("k8s://agents?owner=none", here()).unwrap(), None);
        assert_eq!(of("k8s://agents?owner=pod/x", here()).unwrap().as_deref(), Some("x"));
        assert!(of("k8s://agents?owner=pod/", here()).is_err());
        assert!(of("k8s://agents?owner=me", here()).is_err_and(|error| error.hint.contains("owner=none")));
    }
}
