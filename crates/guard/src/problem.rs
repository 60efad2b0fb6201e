//! Why a request was not let through: `application/problem+json` with the stable codes of the command, and a header by which an
//! answer of the guard is told from one of the upstream.

use baton::Error;
use baton::election::Refusal;
use baton_http_listener::Problem;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};

use crate::forward::Body;

/// On every answer of the guard's own, and on none of the upstream's.
pub(crate) const SAID_BY_GUARD: HeaderName = HeaderName::from_static("baton-guard");

/// The guard cannot tell at the moment, and so refuses. The same may succeed in a moment.
pub(crate) fn not_now(code: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail, hint).again_in(1)
}

pub(crate) fn reply(problem: Problem) -> Response<Body> {
    signed(problem).map(|body| Full::new(body).map_err(|never| match never {}).boxed_unsync())
}

/// A failure, as the guard's own word.
pub(crate) fn signed(problem: Problem) -> Response<Bytes> {
    let code = problem.code();
    let mut response = problem.into_response();
    response.headers_mut().insert(SAID_BY_GUARD, HeaderValue::from_static(code));
    response
}

/// The fence or the core refused.
pub(crate) fn refused(refusal: &Refusal) -> Problem {
    let status = match refusal {
        Refusal::Stale { .. }
        | Refusal::NotEligible { .. }
        | Refusal::Paused { .. }
        | Refusal::AwaitingApproval { .. }
        | Refusal::WrongKey { .. }
        | Refusal::UnknownElection { .. }
        | Refusal::NoSuchItem { .. }
        | Refusal::OutOfTurn { .. }
        | Refusal::Exhausted { .. } => StatusCode::CONFLICT,
        // Another is at the resource.
        Refusal::Held { .. } => {
            return Problem::refused(StatusCode::SERVICE_UNAVAILABLE, refusal).again_in(1);
        }
        // The resource is bound to another election, or the store was wiped: no request can help it.
        Refusal::Invalid { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    };
    Problem::refused(status, refusal)
}

/// The store was asked, and did not answer or refused.
pub(crate) fn failed(error: Error) -> Problem {
    match error {
        Error::Refused(refusal) => refused(&refusal),
        error @ (Error::Store(_)
        | Error::NoStore(_)
        | Error::Url(_)
        | Error::Name(_)
        | Error::WaitedLongEnough { .. }
        | Error::Lost(_)
        | Error::System(_)) => {
            let hint = "without the store nobody can say whether the token is current; reads pass";
            not_now(error.code(), error.to_string(), hint)
        }
    }
}
