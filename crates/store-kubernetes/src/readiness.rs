//! Whether the apiserver means it when it denies something.
//!
//! One that has just been started denies everything to everybody, for the seconds that it takes to load accounts and roles. That
//! passes, and must not end a campaign as a missing permission does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Request;
use kube::Client;

/// How long the answer is waited for at most.
const LIMIT: Duration = Duration::from_secs(2);

/// What is known of how ready the apiserver is.
pub(crate) struct Readiness {
    /// Shows no credentials: what anybody may ask tells more than what this user may.
    anonymous: Client,
    /// This user was let in before.
    let_in: AtomicBool,
}

impl Readiness {
    /// Nothing is known yet.
    pub(crate) fn new(anonymous: Client) -> Readiness {
        Readiness { anonymous, let_in: AtomicBool::new(false) }
    }

    /// This user was let in.
    pub(crate) fn let_in(&self) {
        self.let_in.store(true, Ordering::Relaxed);
    }

    /// Whether a denial is to be taken at its word.
    pub(crate) async fn means_it(&self) -> bool {
        let Ok(question) = Request::get("/readyz").body(Vec::new()) else { return true };
        match tokio::time::timeout(LIMIT, self.anonymous.request_text(question)).await {
            Ok(Ok(_)) => true,
            // It denies that as well: because it always does, or because it denies everything at the moment.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                !self.let_in.load(Ordering::Relaxed)
            }
            Ok(Err(_)) | Err(_) => false,
        }
    }
}
