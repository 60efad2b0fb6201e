//! What went wrong, in the words of the store: what may be assumed, and what to do.

use baton_pubsub::google::{NotSent, never_sent, words};
use baton_store::StoreError;
use gcloud_sdk::tonic::{Code, Status};

/// How a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It was not sent.
    NotSent(NotSent),
    /// This was answered, or became of the connection.
    Status(Status),
    /// There was no answer within the limit.
    Silence,
}

/// What a failed reading means.
pub(crate) fn reading(location: &str, failure: &Failure) -> StoreError {
    match failure {
        Failure::NotSent(not_sent) => unsent(location, not_sent),
        Failure::Silence => unavailable(location, "there was no answer in time", ""),
        Failure::Status(status) => match refusal(status) {
            Some((why, hint)) => refused(location, why, hint),
            None => unavailable(location, &words(status), ""),
        },
    }
}

/// What a failed commit means. Only what surely was not applied is said not to have been.
pub(crate) fn writing(location: &str, failure: &Failure) -> StoreError {
    let status = match failure {
        Failure::NotSent(not_sent) => return unsent(location, not_sent),
        Failure::Silence => return unknown(location, "there was no answer in time"),
        Failure::Status(status) => status,
    };
    if never_sent(status) {
        return unavailable(location, &words(status), "");
    }
    if let Some((why, hint)) = refusal(status) {
        return refused(location, why, hint);
    }
    match status.code() {
        Code::FailedPrecondition | Code::AlreadyExists | Code::NotFound => StoreError::Conflict,
        Code::Aborted => unavailable(
            location,
            &format!("too many write at once: {}", words(status)),
            "let fewer candidates compete for one election",
        ),
        Code::ResourceExhausted => {
            unavailable(location, &words(status), "look at the quotas of the project, and write less often")
        }
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::PermissionDenied
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => unknown(location, &words(status)),
    }
}

/// Why the same would not succeed later either, and what to do; none if it might.
fn refusal(status: &Status) -> Option<(String, &'static str)> {
    let said = status.message();
    let about = |part: &str| said.contains(part);
    let hint = match status.code() {
        Code::PermissionDenied if about("has not been used") || about("is disabled") => {
            "enable it: gcloud services enable firestore.googleapis.com --project PROJECT"
        }
        Code::PermissionDenied => "ask for roles/datastore.user on the project, and check the project's name",
        Code::Unauthenticated => "log in again: gcloud auth application-default login",
        Code::NotFound if about("does not exist") && (about("database ") || about("project ")) => {
            "check PROJECT and DATABASE in firestore://PROJECT/DATABASE, or make the database: gcloud firestore \
             databases create --project PROJECT --database DATABASE --location LOCATION"
        }
        Code::FailedPrecondition if about("Datastore Mode") || about("Datastore mode") => {
            "this database is in Datastore mode: make another in Native mode, and name it: \
             firestore://PROJECT/DATABASE"
        }
        Code::InvalidArgument => "check PROJECT, DATABASE and ?collection=; a document has at most 1 MiB",
        Code::Unimplemented => "is it a Firestore that answers there?",
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => return None,
    };
    Some((words(status), hint))
}

fn unsent(location: &str, not_sent: &NotSent) -> StoreError {
    let NotSent { passing, why, hint } = not_sent;
    if *passing { unavailable(location, why, hint) } else { refused(location, why.clone(), hint) }
}

pub(crate) fn refused(location: &str, why: String, hint: &str) -> StoreError {
    StoreError::Refused { place: location.to_string(), why, hint: hint.to_string() }
}

fn unavailable(location: &str, why: &str, hint: &str) -> StoreError {
    let hint = if hint.is_empty() { "look whether Firestore can be reached from here" } else { hint };
    StoreError::Unavailable { location: location.to_string(), why: why.to_string(), hint: hint.to_string() }
}

fn unknown(location: &str, why: &str) -> StoreError {
    StoreError::Unknown { location: location.to_string(), why: why.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(code: Code, message: &str) -> &'static str {
        writing("firestore://p", &Failure::Status(Status::new(code, message))).code()
    }

    fn read(code: Code, message: &str) -> (&'static str, String) {
        let error = reading("firestore://p", &Failure::Status(Status::new(code, message)));
        (error.code(), error.hint())
    }

    /// As the service and the emulator say them.
    const STALE: &str =
        "the stored version (1794783808895428) does not match the required base version (1577)";
    const GONE: &str = "No document to update: projects/p/databases/(default)/documents/leadership/e";
    const THERE: &str = "Document already exists: projects/p/databases/(default)/documents/leadership/e";
    const NO_DATABASE: &str =
        "The database (default) does not exist for project p Please visit https://console…";
    const NO_PROJECT: &str =
        "The project p does not exist or it does not contain an active Cloud Firestore database.";
    const DATASTORE: &str =
        "The Cloud Firestore API is not available for Firestore in Datastore Mode database …";
    const DISABLED: &str = "Cloud Firestore API has not been used in project p before or it is disabled.";

    #[test]
    fn a_condition_that_does_not_hold_is_a_conflict() {
        assert_eq!(written(Code::FailedPrecondition, STALE), "conflict");
        assert_eq!(written(Code::NotFound, GONE), "conflict");
        assert_eq!(written(Code::AlreadyExists, THERE), "conflict");
    }

    #[test]
    fn what_may_have_been_applied_is_unknown() {
        for code in
            [Code::Unavailable, Code::DeadlineExceeded, Code::Internal, Code::Unknown, Code::Cancelled]
        {
            assert_eq!(written(code, "x"), "unknown", "{code:?}");
            assert_eq!(read(code, "x").0, "unavailable", "{code:?}");
        }
        assert_eq!(writing("l", &Failure::Silence).code(), "unknown");
        assert_eq!(reading("l", &Failure::Silence).code(), "unavailable");
    }

    #[test]
    fn what_was_surely_not_applied_may_be_tried_again() {
        assert_eq!(written(Code::Aborted, "Aborted due to cross-transaction contention."), "unavailable");
        assert_eq!(written(Code::ResourceExhausted, "Quota exceeded."), "unavailable");
    }

    #[test]
    fn what_will_not_succeed_says_what_to_do() {
        for (code, message, hint) in [
            (Code::PermissionDenied, "Missing or insufficient permissions.", "roles/datastore.user"),
            (Code::PermissionDenied, DISABLED, "gcloud services enable"),
            (Code::Unauthenticated, "Request had invalid authentication credentials.", "log in again"),
            (Code::NotFound, NO_DATABASE, "databases create"),
            (Code::NotFound, NO_PROJECT, "check PROJECT"),
            (Code::FailedPrecondition, DATASTORE, "Native mode"),
            (Code::InvalidArgument, "x", "1 MiB"),
            (Code::Unimplemented, "x", "Firestore that answers"),
        ] {
            assert_eq!(written(code, message), "refused", "{message}");
            let (kind, told) = read(code, message);
            assert_eq!(kind, "refused", "{message}");
            assert!(told.contains(hint), "{told}");
        }
    }
}
