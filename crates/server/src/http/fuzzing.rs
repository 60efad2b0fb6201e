//! What anybody may send: a path, a body, a batch.

use baton_api::endpoints::{Endpoint, Matched};
use baton_api::fences::AdmitRequest;
use baton_api::sign_ins::OpenSignInRequest;
use baton_election::Candidate;
use baton_election::command::{Acknowledge, Acquire, Pass, Release, Renew, Report, WriteCheckpoint};
use baton_election::operator::SignedAct;

use super::batch;
use super::parsing::object;

/// Finds the route of a path. The names in it are as long as what was sent, at most.
pub fn routes(data: &[u8]) {
    let Ok(path) = std::str::from_utf8(data) else { return };
    for method in ["GET", "POST", "PUT", "OPTIONS"] {
        if let Matched::Endpoint(_, names) = Endpoint::find(method, path) {
            assert!(names.iter().map(String::len).sum::<usize>() <= path.len(), "{names:?}");
        }
    }
}

/// Reads a body as each of the commonest requests.
pub fn bodies(data: &[u8]) {
    let _ = object::<Acquire>(data);
    let _ = object::<Renew>(data);
    let _ = object::<Release>(data);
    let _ = object::<Pass>(data);
    let _ = object::<WriteCheckpoint>(data);
    let _ = object::<Acknowledge>(data);
    let _ = object::<Report>(data);
    let _ = object::<SignedAct>(data);
    let _ = object::<Candidate>(data);
    let _ = object::<AdmitRequest>(data);
    let _ = object::<OpenSignInRequest>(data);
}

/// Reads a batch.
pub fn batches(data: &[u8]) {
    batch::understand(data);
}
