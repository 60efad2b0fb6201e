//! What Spanner's errors mean here.

use std::time::Duration;

use baton_store::{StoreError, network_failure};
use google_cloud_auth::errors::CredentialsError;
use google_cloud_gax::client_builder::Error as BuilderError;
use google_cloud_gax::error::rpc::{Code, Status};
use google_cloud_spanner::Error;

use crate::open::Settings;

/// The longest explanation that is passed on.
const MAX_WHY_CHARS: usize = 400;

/// A request that failed.
#[derive(Debug)]
pub(crate) struct RequestError {
    pub(crate) kind: Kind,
    pub(crate) why: String,
    pub(crate) hint: String,
}

/// How it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The transaction was aborted: surely not applied.
    Aborted,
    /// The server does not know the session: it was restarted, or the session is too old.
    SessionGone,
    /// There is no such instance or database.
    NoDatabase,
    /// There is no such table.
    NoTable,
    /// It will fail again.
    Refused,
    /// The server has too much to do. It may succeed later, and a new session would be one thing more.
    Busy,
    /// It may succeed later.
    Passing,
}

impl RequestError {
    /// What an error of a request means.
    pub(crate) fn of(error: &Error, settings: &Settings) -> RequestError {
        match error.status() {
            Some(status) => of_status(status, settings),
            None if error.is_authentication() => of_credentials(error, settings),
            None if error.is_deserialization() => other_shape(settings, one_line(&explained(error))),
            None => passing(settings, one_line(&explained(error))),
        }
    }

    /// What it means that no client can be made.
    pub(crate) fn of_builder(error: &BuilderError, settings: &Settings) -> RequestError {
        let why = one_line(&explained(error));
        if error.is_default_credentials() { no_credentials(settings, why) } else { passing(settings, why) }
    }

    /// There was no answer in time.
    pub(crate) fn late(limit: Duration, settings: &Settings) -> RequestError {
        passing(settings, format!("there was no answer within {limit:?}"))
    }

    /// Whether a new connection and a new session may help. Google's library keeps both whatever happens to them.
    pub(crate) fn spoils_session(&self) -> bool {
        match self.kind {
            Kind::SessionGone | Kind::Passing | Kind::NoDatabase => true,
            Kind::Aborted | Kind::NoTable | Kind::Refused | Kind::Busy => false,
        }
    }

    /// The error of something that surely was not applied.
    pub(crate) fn not_applied(self, location: String) -> StoreError {
        match self.kind {
            Kind::NoDatabase | Kind::NoTable | Kind::Refused => {
                StoreError::Refused { place: location, why: self.why, hint: self.hint }
            }
            Kind::Aborted | Kind::SessionGone | Kind::Busy | Kind::Passing => {
                StoreError::Unavailable { location, why: self.why, hint: self.hint }
            }
        }
    }

    /// The error of a commit. Only an abort says that nothing was applied: a commit is sent once, so that no earlier
    /// one can have been.
    pub(crate) fn at_commit(self, location: String) -> StoreError {
        match self.kind {
            Kind::Aborted => self.not_applied(location),
            Kind::SessionGone
            | Kind::NoDatabase
            | Kind::NoTable
            | Kind::Refused
            | Kind::Busy
            | Kind::Passing => StoreError::Unknown { location, why: self.why },
        }
    }
}

fn of_status(status: &Status, settings: &Settings) -> RequestError {
    let place = &settings.place;
    let why = one_line(&status.message);
    let fault = |kind, hint: String| RequestError { kind, why: why.clone(), hint };
    match status.code {
        Code::Aborted => fault(Kind::Aborted, "many change the same record: try again".to_string()),
        Code::NotFound if why.starts_with("Session") || why.starts_with("Transaction") => {
            fault(Kind::SessionGone, "try again".to_string())
        }
        Code::NotFound if why.contains("nstance not found") || why.contains("nstance does not exist") => {
            no_database(
                settings,
                why,
                &format!(
                    "gcloud spanner instances create {} --project={} --config=CONFIG --description=Baton \
                     --processing-units=100",
                    place.instance, place.project
                ),
            )
        }
        Code::NotFound => no_database(
            settings,
            why,
            &format!(
                "gcloud spanner databases create {} --instance={} --project={}",
                place.database, place.instance, place.project
            ),
        ),
        Code::InvalidArgument if why.starts_with("Table not found") => {
            fault(Kind::NoTable, format!("lay it out: {}", settings.init()))
        }
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange | Code::AlreadyExists => {
            other_shape(settings, why)
        }
        Code::PermissionDenied => fault(Kind::Refused, format!("let this account in: {}", place.grant())),
        Code::Unauthenticated => no_credentials(settings, why),
        Code::Unimplemented => {
            fault(Kind::Refused, "what is there is not Cloud Spanner, or too old".to_string())
        }
        Code::ResourceExhausted => {
            fault(Kind::Busy, "try again later, or give the instance more capacity".to_string())
        }
        _ => passing(settings, format!("{}: {why}", status.code)),
    }
}

/// There is no instance or no database. On an emulator, which forgets both, laying out makes them.
fn no_database(settings: &Settings, why: String, create: &str) -> RequestError {
    let init = settings.init();
    let hint = match settings.place.emulator {
        Some(_) => format!("an emulator gets it by: {init}; elsewhere: {create}"),
        None => format!("create it, or name another: {create}; then: {init}"),
    };
    RequestError { kind: Kind::NoDatabase, why, hint }
}

/// No access token could be had. Where nobody has logged in, the library asks a server that only Google's own machines
/// have, and takes its silence for a passing trouble: whether it is cannot be told apart.
fn of_credentials(error: &Error, settings: &Settings) -> RequestError {
    let (mut cause, mut transient): (&dyn std::error::Error, bool) = (error, false);
    while let Some(inner) = cause.source() {
        transient |= inner.downcast_ref::<CredentialsError>().is_some_and(CredentialsError::is_transient);
        cause = inner;
    }
    if transient {
        let why = "there is no access token: nobody has logged in here, or Google's metadata server does not answer";
        return RequestError { kind: Kind::Passing, ..no_credentials(settings, why.to_string()) };
    }
    no_credentials(settings, format!("there is no access token: {}", one_line(&cause.to_string())))
}

fn no_credentials(settings: &Settings, why: String) -> RequestError {
    let hint = match settings.place.emulator {
        Some(_) => "an emulator asks for none: is it one?".to_string(),
        None => "log in: gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS; for an emulator \
                 set SPANNER_EMULATOR_HOST"
            .to_string(),
    };
    RequestError { kind: Kind::Refused, why, hint }
}

/// The table was not made by Baton.
pub(crate) fn other_shape(settings: &Settings, why: String) -> RequestError {
    RequestError {
        kind: Kind::Refused,
        why: format!("the table `{}` is not as Baton makes it: {why}", settings.tables.elections),
        hint: "use another, which `baton init` makes: ?table=NAME".to_string(),
    }
}

fn passing(settings: &Settings, why: String) -> RequestError {
    let hint = match &settings.place.emulator {
        Some(emulator) => format!("is the emulator running at {}?", emulator.grpc),
        None => "is the network up, and spanner.googleapis.com to be reached?".to_string(),
    };
    RequestError { kind: Kind::Passing, why, hint }
}

/// What began it, in its own words: those around it say where in a library it was met.
fn explained(error: &(dyn std::error::Error + 'static)) -> String {
    if let Some(words) = network_failure(error) {
        return words.to_string();
    }
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

/// The first line, which says it: the others quote the statement.
fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(MAX_WHY_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        crate::open::settings(&"spanner://p/i1/d1?emulator=h:1".parse().unwrap()).unwrap()
    }

    fn fault(code: Code, message: &str) -> RequestError {
        RequestError::of(&Error::service(Status::default().set_code(code).set_message(message)), &settings())
    }

    fn refusal(code: Code, message: &str) -> String {
        match fault(code, message).not_applied("here".to_string()) {
            StoreError::Refused { hint, .. } => hint,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_will_not_succeed_is_refused_with_what_to_do() {
        assert!(refusal(Code::PermissionDenied, "no").contains("roles/spanner.databaseUser"));
        let missing = "Database not found: projects/p/instances/i1/databases/d1";
        assert!(refusal(Code::NotFound, missing).contains("databases create d1 --instance=i1 --project=p"));
        assert!(refusal(Code::NotFound, "Instance not found: x").contains("instances create i1"));
        assert!(
            refusal(Code::InvalidArgument, "Table not found: L [at 1:2]")
                .contains("baton init --store 'spanner://p/i1/d1?emulator=h:1'")
        );
        assert!(refusal(Code::InvalidArgument, "Unrecognized name: version").contains("?table=NAME"));
        assert!(refusal(Code::Unauthenticated, "expired").contains("emulator"));
    }

    #[test]
    fn only_an_abort_says_that_a_commit_was_not_applied() {
        let at_commit = |code| fault(code, "m").at_commit("here".to_string());
        assert!(matches!(at_commit(Code::Aborted), StoreError::Unavailable { .. }));
        for code in [
            Code::Unavailable,
            Code::DeadlineExceeded,
            Code::Internal,
            Code::Unknown,
            Code::Cancelled,
            Code::NotFound,
            Code::PermissionDenied,
            Code::InvalidArgument,
            Code::ResourceExhausted,
        ] {
            assert!(matches!(at_commit(code), StoreError::Unknown { .. }), "{code:?}");
        }
    }

    #[test]
    fn before_the_commit_the_rest_may_succeed_later() {
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Internal, Code::Unknown, Code::Aborted]
        {
            let error = fault(code, "first\nsecond").not_applied("here".to_string());
            assert!(
                matches!(&error, StoreError::Unavailable { why, .. } if !why.contains("second")),
                "{code:?}"
            );
        }
        let gone = fault(Code::NotFound, "Session not found: s");
        assert_eq!(gone.kind, Kind::SessionGone);
        assert!(gone.spoils_session());
        assert!(matches!(
            RequestError::of(&Error::timeout("t"), &settings()).not_applied("here".to_string()),
            StoreError::Unavailable { .. }
        ));
    }
}
