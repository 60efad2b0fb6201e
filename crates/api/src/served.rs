//! Elections that servers decide on: whoever reads their store sees them, and does not change them.
//!
//! What only lengthens a lease is in the memory of the active server alone. So a reader of the store knows no age of such a lease, and
//! one who judged by the document would take a lease that is renewed every second for one that has ended.

use baton_election::Document;
use baton_election::time::Span;
use baton_store::StoreError;

/// The election in which the servers on one store elect the active one.
pub const SERVERS: &str = "_baton/servers";

/// The age of a document that was read, if that is known: as far as a reader of the store can tell, a served lease has just been
/// renewed.
pub fn known_age(document: Option<&Document>, observed: Span) -> Span {
    if document.is_some_and(|document| document.server.is_some()) { Span::ZERO } else { observed }
}

/// Refuses to go around servers. `location` names the store in the error.
pub fn only_unserved(document: Option<&Document>, location: &impl Fn() -> String) -> Result<(), StoreError> {
    match document.filter(|document| document.server.is_some()) {
        None => Ok(()),
        Some(document) => Err(StoreError::Refused {
            place: format!("the election `{}` in {}", document.election, location()),
            why: "servers decide on it".to_string(),
            hint: format!(
                "use their URL as the store (`baton status {SERVERS}` shows one); or stop them and give the elections back: baton \
                 serve --store … --release"
            ),
        }),
    }
}
