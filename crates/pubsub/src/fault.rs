//! What went wrong with the topic, in the words of a store. Nothing here says that a swap was not applied.

use baton_store::StoreError;
use gcloud_sdk::tonic::{Code, Status};

use crate::google::{NotSent, words};

/// How a request to Pub/Sub failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was not sent.
    NotSent(NotSent),
    /// This was answered, or became of the connection.
    Status(Status),
    /// There was no answer within the limit.
    Silence,
}

impl Failure {
    /// Whether the topic, or the subscription, is not there.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Failure::Status(status) if status.code() == Code::NotFound)
    }

    /// Whether it is there already.
    pub(crate) fn is_there_already(&self) -> bool {
        matches!(self, Failure::Status(status) if status.code() == Code::AlreadyExists)
    }

    /// The failure as a store's.
    pub(crate) fn told(&self, place: &str) -> StoreError {
        let refused = |why: String, hint: &str| StoreError::Refused {
            place: place.to_string(),
            why,
            hint: hint.to_string(),
        };
        let unavailable = |why: String, hint: &str| StoreError::Unavailable {
            location: place.to_string(),
            why,
            hint: hint.to_string(),
        };
        let reach = "look whether Pub/Sub can be reached from here";
        let status = match self {
            Failure::NotSent(not_sent) if not_sent.passing => {
                return unavailable(not_sent.why.clone(), &not_sent.hint);
            }
            Failure::NotSent(not_sent) => return refused(not_sent.why.clone(), &not_sent.hint),
            Failure::Silence => return unavailable("there was no answer in time".to_string(), reach),
            Failure::Status(status) => status,
        };
        let why = words(status);
        match status.code() {
            Code::NotFound => refused(why, MAKE_IT),
            Code::PermissionDenied if status.message().contains("disabled") => {
                refused(why, "enable it: gcloud services enable pubsub.googleapis.com --project PROJECT")
            }
            Code::PermissionDenied => refused(
                why,
                "ask for roles/pubsub.editor on the project: changes are published, and subscriptions made",
            ),
            Code::Unauthenticated => refused(why, "log in again: gcloud auth application-default login"),
            Code::InvalidArgument | Code::Unimplemented => {
                refused(why, "check the topic's name: ?notify=pubsub:TOPIC")
            }
            Code::ResourceExhausted => unavailable(why, "look at the quotas of the project"),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::DeadlineExceeded
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss => unavailable(why, reach),
        }
    }
}

/// What to do when there is no topic.
const MAKE_IT: &str =
    "make the topic: `baton init` with this store, or gcloud pubsub topics create TOPIC --project PROJECT";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_will_not_succeed_says_what_to_do() {
        for (code, hint) in [
            (Code::NotFound, "topics create"),
            (Code::PermissionDenied, "roles/pubsub.editor"),
            (Code::Unauthenticated, "log in again"),
            (Code::InvalidArgument, "notify=pubsub:TOPIC"),
        ] {
            let error = Failure::Status(Status::new(code, "x")).told("t");
            assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
            assert!(error.hint().contains(hint), "{}", error.hint());
        }
        for passing in [Failure::Silence, Failure::Status(Status::unavailable("x"))] {
            assert!(matches!(passing.told("t"), StoreError::Unavailable { .. }));
        }
    }
}
