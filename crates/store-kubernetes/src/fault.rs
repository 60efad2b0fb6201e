//! What the apiserver's words mean for the caller: not applied, may have been applied, refused.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use baton_store::{StoreError, network_failure};
use kube::core::Status;

/// Where permissions are explained.
const MANIFESTS: &str = "deploy/kubernetes/README.md";

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Nothing is changed.
    Reading,
    /// A change that is not known to have failed may have been applied.
    Writing,
}

/// There was no answer for so long.
pub(crate) fn silence(location: &str, doing: Operation, limit: Duration) -> StoreError {
    unclear(location, doing, format!("there was no answer within {} ms", limit.as_millis()))
}

/// Whether the apiserver does not let this user in.
pub(crate) fn is_denial(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 401 | 403))
}

/// A denial of an apiserver that is not ready.
pub(crate) fn premature(location: &str, error: &kube::Error) -> StoreError {
    let said = match error {
        kube::Error::Api(status) => status.message.clone(),
        other => chain(other),
    };
    StoreError::Unavailable {
        location: location.to_string(),
        why: format!("it denies what it allowed before, or is not ready: {said}"),
        hint: format!(
            "see whether `kubectl get --raw /readyz` answers; if so, {MANIFESTS} says what to allow"
        ),
    }
}

/// What a failure means.
pub(crate) fn of(location: &str, doing: Operation, error: &kube::Error) -> StoreError {
    match error {
        kube::Error::Api(status) => answered(location, doing, status),
        kube::Error::Service(fault) => unanswered(location, doing, &**fault),
        kube::Error::HyperError(fault) => unanswered(location, doing, fault),
        kube::Error::Auth(fault) => refused(
            location,
            chain(fault),
            "the credentials cannot be had; try `kubectl auth whoami` with the same kubeconfig",
        ),
        kube::Error::SerdeError(_)
        | kube::Error::FromUtf8(_)
        | kube::Error::ReadEvents(_)
        | kube::Error::LinesCodecMaxLineLengthExceeded
        | kube::Error::Discovery(_) => unclear(location, doing, chain(error)),
        kube::Error::HttpError(_)
        | kube::Error::BuildRequest(_)
        | kube::Error::InferConfig(_)
        | kube::Error::InferKubeconfig(_)
        | kube::Error::RustlsTls(_)
        | kube::Error::TlsRequired
        | kube::Error::ProxyProtocolUnsupported { .. }
        | kube::Error::ProxyProtocolDisabled { .. } => {
            refused(location, chain(error), "look at the kubeconfig: server, certificates, proxy-url")
        }
    }
}

/// A failure of which it is not known what it means.
fn unclear(location: &str, doing: Operation, why: String) -> StoreError {
    match doing {
        Operation::Writing => StoreError::Unknown { location: location.to_string(), why },
        Operation::Reading => unavailable(location, why),
    }
}

fn unavailable(location: &str, why: String) -> StoreError {
    StoreError::Unavailable {
        location: location.to_string(),
        why,
        hint: "see whether `kubectl get --raw /readyz` answers".to_string(),
    }
}

fn refused(location: &str, why: String, hint: &str) -> StoreError {
    StoreError::Refused { place: location.to_string(), why, hint: hint.to_string() }
}

/// The apiserver, or something in front of it, said no.
fn answered(location: &str, doing: Operation, status: &Status) -> StoreError {
    let why =
        if status.message.is_empty() { format!("HTTP {}", status.code) } else { status.message.clone() };
    match status.code {
        401 => refused(
            location,
            format!("the apiserver does not accept the credentials: {why}"),
            "they have expired or are another cluster's; log in again, or name another context: ?context=NAME",
        ),
        403 => forbidden(location, why),
        404 if doing == Operation::Writing && is_gone(status) => StoreError::Conflict,
        404 if why.contains("namespaces \"") => refused(
            location,
            why,
            "create it with `kubectl create namespace`, or name another one: k8s://NAMESPACE",
        ),
        404 => refused(location, why, "the server has no Leases there; is it a Kubernetes apiserver?"),
        409 => StoreError::Conflict,
        429 => unavailable(location, format!("it has too much to do: {why}")),
        400 | 405 | 406 | 413 | 415 | 422 => {
            refused(location, why, "the apiserver does not accept the record; the message says why")
        }
        _ => unclear(location, doing, format!("{why} (HTTP {})", status.code)),
    }
}

/// Whether the object itself is what was not found.
pub(crate) fn is_gone(status: &Status) -> bool {
    let named = |details: &kube::core::response::StatusDetails| {
        !details.name.is_empty() && details.kind != "namespaces"
    };
    status.code == 404 && status.details.as_ref().is_some_and(named)
}

fn forbidden(location: &str, why: String) -> StoreError {
    let hint = if why.contains("being terminated") {
        "the namespace is being deleted; use another one: k8s://NAMESPACE".to_string()
    } else if why.contains("exceeded quota") {
        "raise the namespace's quota: every election, candidate and fence is an object".to_string()
    } else if why.contains("admission webhook") || why.contains("ValidatingAdmissionPolicy") {
        "a policy of the cluster forbids it; ask its administrator".to_string()
    } else {
        format!("give this user the Role of deploy/kubernetes; {MANIFESTS} says which verb is for what")
    };
    StoreError::Refused { place: location.to_string(), why, hint }
}

/// The request, or its answer, got lost.
fn unanswered(location: &str, doing: Operation, error: &(dyn StdError + 'static)) -> StoreError {
    let known = network_failure(error);
    let why = known.map_or_else(|| innermost(error), str::to_string);
    if !causes(error).any(is_connect) {
        return unclear(location, doing, why);
    }
    // The TLS layer reports what it does not accept as invalid data.
    let distrusted = |cause: &(dyn StdError + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|io| io.kind() == io::ErrorKind::InvalidData)
    };
    if causes(error).any(distrusted) && known.is_some() {
        return refused(location, why, "is `server` in the kubeconfig the address of an apiserver?");
    }
    if causes(error).any(distrusted) {
        let hint = "the kubeconfig's certificate-authority is not this server's, or the wall clock here is off by far";
        return refused(location, format!("its certificate is not accepted: {why}"), hint);
    }
    unavailable(location, why)
}

/// Whether nothing was sent, for want of a connection.
fn is_connect(cause: &(dyn StdError + 'static)) -> bool {
    cause.downcast_ref::<hyper_util::client::legacy::Error>().is_some_and(|error| error.is_connect())
}

/// An error and its causes, the outermost first.
fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error: &&'a (dyn StdError + 'static)| {
        // An error of IO names the cause of what it wraps, and not what it wraps, as its own cause.
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped as &'a (dyn StdError + 'static)),
            None => (*error).source(),
        }
    })
}

/// What began it, in its own words: those around it say where in a library it was met.
fn innermost(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

/// An error in words, with its causes.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut words: Vec<String> = Vec::new();
    for cause in causes(error) {
        let text = cause.to_string();
        // Some errors repeat their cause's words.
        if !words.iter().any(|said| said.contains(&text)) {
            words.push(text);
        }
    }
    words.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, message: &str, name: &str, kind: &str) -> kube::Error {
        let details = serde_json::json!({ "name": name, "kind": kind });
        let status = serde_json::json!({ "code": code, "message": message, "details": details });
        kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()))
    }

    fn said(doing: Operation, code: u16, message: &str) -> StoreError {
        of("k8s://n", doing, &status(code, message, "e", "leases"))
    }

    #[test]
    fn a_write_that_the_server_did_not_judge_may_have_been_applied() {
        for code in [500, 502, 503, 504] {
            assert_eq!(
                said(Operation::Writing, code, "etcdserver: request timed out").code(),
                "unknown",
                "{code}"
            );
            assert_eq!(said(Operation::Reading, code, "etcdserver: request timed out").code(), "unavailable");
        }
    }

    #[test]
    fn what_the_server_judged_was_not_applied() {
        for (code, word) in [(409, "conflict"), (404, "conflict"), (429, "unavailable"), (422, "refused")] {
            assert_eq!(said(Operation::Writing, code, "no").code(), word, "{code}");
        }
        let missing =
            of("k8s://n", Operation::Writing, &status(404, "namespaces \"n\" not found", "n", "namespaces"));
        assert!(missing.hint().contains("create namespace"), "{missing:?}");
        let another = of("k8s://n", Operation::Writing, &status(404, "404 page not found", "", ""));
        assert!(
            matches!(another, StoreError::Refused { .. }) && another.hint().contains("apiserver"),
            "{another:?}"
        );
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let who =
            "leases.coordination.k8s.io \"e\" is forbidden: User \"a\" cannot patch resource \"leases\"";
        for (code, message, hint) in [
            (401, "Unauthorized", "log in again"),
            (403, who, "deploy/kubernetes"),
            (403, "configmaps \"x\" is forbidden: exceeded quota: q", "quota"),
            (
                403,
                "unable to create new content in namespace n because it is being terminated",
                "being deleted",
            ),
            (403, "admission webhook \"w\" denied the request", "administrator"),
        ] {
            let error = said(Operation::Writing, code, message);
            assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
            assert!(error.hint().contains(hint), "{}", error.hint());
            assert!(error.to_string().contains(message), "{error}");
        }
    }

    #[test]
    fn words_are_said_once() {
        let inner = io::Error::other("inner");
        let outer = io::Error::other(inner);
        assert_eq!(chain(&outer), "inner");
    }
}
