//! Looking again and again, with jitter, and less often while the arbiter does not answer.

use std::sync::Arc;
use std::time::Duration;

use baton_store::{BoxStream, Change, StoreError, Version, polled};

use crate::refs::Oid;
use crate::store::Inner;

/// What stands between the two claims in the version that settles a divergence.
pub(crate) const SETTLES: char = '+';

/// How often a remote is asked: from this to twice this.
const REMOTE_PAUSE: Duration = Duration::from_secs(1);
/// How often the repository itself is.
const LOCAL_PAUSE: Duration = Duration::from_millis(100);

/// The version of a record whose tip this is.
pub(crate) fn version(oid: &Oid) -> Version {
    Version::new(oid.as_str())
}

/// Tells of changes of a ref from now on.
pub(crate) async fn watch(inner: Arc<Inner>, refname: String) -> Result<BoxStream<Change>, StoreError> {
    let last = inner.tip_oid(&refname).await?;
    let pause = if inner.arbiter.is_here() { LOCAL_PAUSE } else { REMOTE_PAUSE };
    Ok(polled(last, pause, move || {
        let (inner, refname) = (Arc::clone(&inner), refname.clone());
        async move { inner.tip_oid(&refname).await }
    }))
}
