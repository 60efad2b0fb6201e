//! What a failed request means for the caller: not applied, may have been applied, refused.
//!
//! etcd tells its own errors apart by their words; codes alone are ambiguous. What is not known is taken for the worse:
//! a write that is not known to have failed may have been applied.

use std::error::Error;
use std::time::Duration;

use baton_store::StoreError;
use tonic::{Code, ConnectError, Status};

use crate::open::PASSWORD;

/// A request that was not answered as it was meant to be.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nothing was sent.
    NotSent {
        /// To whom.
        member: String,
        /// Why not.
        why: String,
    },
    /// There was no answer in time.
    Silent {
        /// By whom.
        member: String,
        /// For how long.
        after: Duration,
    },
    /// A member, or the way to it, answered with an error.
    Said {
        /// Who.
        member: String,
        /// What.
        status: Box<Status>,
    },
}

/// What an error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Not applied; another member may do better.
    Elsewhere,
    /// Not applied: the token has run out.
    TokenIsOld,
    /// Not applied: etcd wants a user, and none was named.
    NoUser,
    /// Not applied: there is no such lease.
    LeaseIsGone,
    /// Not applied: there is such a lease already.
    LeaseIsThere,
    /// Not applied, and it will not be; what to do.
    Refused(&'static str),
    /// Not applied; what to do before it can be.
    Busy(&'static str),
    /// Nobody knows.
    Unclear,
}

use Meaning::{Busy, Elsewhere, LeaseIsGone, LeaseIsThere, NoUser, Refused, TokenIsOld, Unclear};

/// etcd's words, and what they say. They are all said before anything is applied.
const WORDS: [(&str, Meaning); 16] = [
    // Requests ask for a member that has a leader; one that has none says so at once.
    ("etcdserver: no leader", Elsewhere),
    ("etcdserver: rpc not supported for learner", Elsewhere),
    ("etcdserver: not capable", Elsewhere),
    ("etcdserver: invalid auth token", TokenIsOld),
    ("etcdserver: revision of auth store is old", TokenIsOld),
    ("etcdserver: requested lease not found", LeaseIsGone),
    ("etcdserver: lease already exists", LeaseIsThere),
    (
        "etcdserver: permission denied",
        Refused(
            "let the user's role read and write there: etcdctl role grant-permission ROLE readwrite --prefix PREFIX/",
        ),
    ),
    ("etcdserver: user name is empty", NoUser),
    ("etcdserver: authentication failed", Refused("check ?user= and the password in BATON_ETCD_PASSWORD")),
    ("etcdserver: user name not found", Refused("check ?user=, or add the user: etcdctl user add NAME")),
    (
        "etcdserver: request is too large",
        Refused("make the checkpoint smaller; see etcd's --max-request-bytes"),
    ),
    ("etcdserver: too large lease TTL", Refused("ask for a shorter lease")),
    ("etcdserver: corrupt cluster", Refused("etcd has found its own data corrupt: etcdctl alarm list")),
    (
        "etcdserver: mvcc: database space exceeded",
        Busy("etcd is full: compact and defragment it, then `etcdctl alarm disarm`"),
    ),
    ("etcdserver: too many requests", Busy("etcd is overloaded; try again later")),
];

/// Words of failed connections that will fail again.
const WRONG_DOOR: [(&str, &str); 4] = [
    (
        "invalid peer certificate",
        "name who vouches for etcd's certificate: &ca=FILE; and use the host names that it is for",
    ),
    ("InvalidContentType", "etcd does not speak TLS there: leave out tls=true, or use another port"),
    ("CertificateRequired", "etcd wants a certificate of its clients: &cert=FILE&key=FILE"),
    ("received fatal alert", "etcd does not accept this client: &cert=FILE&key=FILE"),
];

/// Words of failed connections that may fail again.
const HUNG_UP: [(&str, &str); 2] = [
    ("tls handshake eof", "see whether etcd runs; if it does not speak TLS there, leave out tls=true"),
    (
        "transport error",
        "see whether etcd runs, and whether it wants tls=true, or a certificate (&cert=FILE&key=FILE), there",
    ),
];

const LOOK: &str = "look at the members: etcdctl endpoint status --cluster";

impl Fault {
    /// What a member said, or what came of the way to it.
    pub(crate) fn said(member: &str, status: Status) -> Fault {
        let member = member.to_string();
        if is_not_sent(&status) {
            return Fault::NotSent { member, why: words(&status) };
        }
        Fault::Said { member, status: Box::new(status) }
    }

    /// What it says.
    pub(crate) fn meaning(&self) -> Meaning {
        match self {
            Fault::NotSent { why, .. } => {
                let door = WRONG_DOOR.iter().find(|(words, _)| why.contains(words));
                door.map_or(Elsewhere, |(_, hint)| Refused(hint))
            }
            Fault::Silent { .. } => Unclear,
            Fault::Said { status, .. } => meaning(status),
        }
    }

    /// As the failure of something that changes nothing, or nothing that counts.
    pub(crate) fn of_reading(&self, location: &str) -> StoreError {
        self.known(location).unwrap_or_else(|| self.unavailable(location, self.advice()))
    }

    /// As the failure of something that may have been applied.
    pub(crate) fn of_writing(&self, location: &str) -> StoreError {
        let unknown = || StoreError::Unknown { location: location.to_string(), why: self.to_string() };
        self.known(location).unwrap_or_else(unknown)
    }

    /// What is certain: not applied.
    fn known(&self, location: &str) -> Option<StoreError> {
        match self.meaning() {
            Unclear => None,
            Elsewhere | LeaseIsGone | LeaseIsThere => Some(self.unavailable(location, self.advice())),
            Busy(hint) => Some(self.unavailable(location, hint)),
            Refused(hint) => Some(self.refused(location, hint.to_string())),
            NoUser => Some(self.refused(location, format!("add ?user=NAME, and the password in {PASSWORD}"))),
            TokenIsOld => Some(self.refused(location, format!("check the user and {PASSWORD}"))),
        }
    }

    /// What to do where etcd's own words do not say it.
    fn advice(&self) -> &'static str {
        let words = self.to_string();
        HUNG_UP.iter().find(|(known, _)| words.contains(known)).map_or(LOOK, |(_, hint)| hint)
    }

    fn unavailable(&self, location: &str, hint: &str) -> StoreError {
        StoreError::Unavailable {
            location: location.to_string(),
            why: self.to_string(),
            hint: hint.to_string(),
        }
    }

    fn refused(&self, location: &str, hint: String) -> StoreError {
        StoreError::Refused { place: location.to_string(), why: self.to_string(), hint }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::NotSent { member, why } => write!(f, "{member}: {why}"),
            Fault::Silent { member, after } => write!(f, "{member} did not answer within {after:.1?}"),
            Fault::Said { member, status } => write!(f, "{member}: {}", words(status)),
        }
    }
}

fn meaning(status: &Status) -> Meaning {
    if let Some((_, meaning)) = WORDS.iter().find(|(words, _)| status.message().contains(words)) {
        return *meaning;
    }
    match status.code() {
        Code::Unimplemented => Refused("there is something else than etcd 3.4 or newer; check host and port"),
        Code::PermissionDenied | Code::Unauthenticated => Refused("this user may not do that there"),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Unclear,
    }
}

/// Whether the request cannot have been sent, since there was no connection.
fn is_not_sent(status: &Status) -> bool {
    causes(status).any(|cause| cause.is::<ConnectError>())
}

/// An error and what is behind it.
fn causes(status: &Status) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(status.source(), |cause: &&(dyn Error + 'static)| Error::source(*cause))
}

/// What was said, and what is behind it, each thing once.
fn words(status: &Status) -> String {
    let mut text = status.message().to_string();
    for cause in causes(status) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(if text.is_empty() { "" } else { ": " });
            text.push_str(&cause);
        }
    }
    if text.is_empty() { status.code().description().to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: Code, words: &str) -> Fault {
        Fault::said("h:1", Status::new(code, words))
    }

    #[test]
    fn what_is_not_known_to_have_failed_may_have_been_applied() {
        for (code, words) in [
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: request timed out"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::DeadlineExceeded, "etcdserver: context deadline exceeded"),
            (Code::Unknown, "transport error"),
            (Code::Internal, "whatever"),
        ] {
            let fault = said(code, words);
            assert!(matches!(fault.of_writing("l"), StoreError::Unknown { .. }), "{words}");
            assert!(matches!(fault.of_reading("l"), StoreError::Unavailable { .. }), "{words}");
        }
        let silent = Fault::Silent { member: "h:1".into(), after: Duration::from_secs(3) };
        assert!(matches!(silent.of_writing("l"), StoreError::Unknown { .. }));
    }

    #[test]
    fn what_is_said_before_anything_is_applied_is_not_unknown() {
        for (code, words, kind) in [
            (Code::Unavailable, "etcdserver: no leader", "unavailable"),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", "unavailable"),
            (Code::PermissionDenied, "etcdserver: permission denied", "refused"),
            (Code::InvalidArgument, "etcdserver: user name is empty", "refused"),
            (Code::Unimplemented, "unknown service etcdserverpb.KV", "refused"),
        ] {
            let error = said(code, words).of_writing("l");
            assert_eq!(error.code(), kind, "{words}");
            assert!(!error.hint().is_empty());
        }
        let refused = Status::from_error(Box::new(ConnectError("refused".into())));
        assert_eq!(Fault::said("h:1", refused).of_writing("l").code(), "unavailable");
    }
}
