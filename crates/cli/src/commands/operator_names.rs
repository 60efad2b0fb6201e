//! What people call operators: a name beside the first digits of the key, which is what counts.

use baton::election::StoreInfo;
use baton::election::operator::PublicKey;

use super::audit::short;
use crate::context::Context;
use crate::output::clean;

/// The operator's name, if it has one, and as much of its key as people read.
pub(super) fn person(info: Option<&StoreInfo>, key: PublicKey) -> String {
    match info.and_then(|info| info.operator_names.get(&key)) {
        Some(name) => format!("{} ({})", clean(name), short(key)),
        None => short(key),
    }
}

/// What the store knows of itself, if this caller may see it: names are a courtesy, and nothing fails without them.
pub(super) async fn known(context: &Context) -> Option<std::sync::Arc<StoreInfo>> {
    context.coordinator.info().await.ok()
}
