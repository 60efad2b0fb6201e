//! What the command's exit code says.

use baton::Error;
use baton::election::Refusal;
use baton::store::StoreError;

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Yes, or done.
    Done,
    /// Something else failed.
    Error,
    /// The command was used in a wrong way.
    Usage,
    /// Another holds it.
    Held,
    /// The leadership is lost.
    Lost,
    /// The token is stale.
    Stale,
    /// Paused, or waiting for an operator.
    Operator,
    /// The store is unreachable, refused or corrupt.
    Store,
    /// What CMD ended with.
    Command(u8),
}

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Usage => 2,
            Exit::Held => 3,
            Exit::Lost => 4,
            Exit::Stale => 5,
            Exit::Operator => 6,
            Exit::Store => 7,
            Exit::Command(code) => code,
        }
    }
}

/// Whom a stale token or a wrong key concerns: it decides between the exit codes 4, 5 and 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// The holder of a lease, or an agent that believes to be one.
    Holder,
    /// The caller that checks a token.
    Guard,
    /// An agent that wants to lead.
    Candidate,
    /// An operator.
    Operator,
}

/// The exit code for a failure.
pub(crate) fn of(error: &Error, speaker: Speaker) -> Exit {
    match error {
        Error::Refused(refusal) => of_refusal(refusal, speaker),
        Error::Url(_) | Error::NoStore(_) | Error::Name(_) | Error::Store(StoreError::Misnamed { .. }) => {
            Exit::Usage
        }
        Error::Store(_) => Exit::Store,
        Error::WaitedLongEnough { refusal: Some(refusal), .. } => of_refusal(refusal, speaker),
        Error::WaitedLongEnough { refusal: None, .. } => Exit::Held,
        Error::Lost(_) => Exit::Lost,
        Error::System(_) => Exit::Error,
    }
}

/// The exit code for a refusal.
pub(crate) fn of_refusal(refusal: &Refusal, speaker: Speaker) -> Exit {
    match (refusal, speaker) {
        (Refusal::Held { .. } | Refusal::NotEligible { .. } | Refusal::Exhausted { .. }, _) => Exit::Held,
        (Refusal::Paused { .. } | Refusal::AwaitingApproval { .. }, _) => Exit::Operator,
        (Refusal::Stale { .. }, Speaker::Guard) => Exit::Stale,
        (Refusal::Stale { .. } | Refusal::WrongKey { .. }, Speaker::Operator) => Exit::Operator,
        (Refusal::Stale { .. } | Refusal::WrongKey { .. }, _) => Exit::Lost,
        (Refusal::UnknownElection { .. } | Refusal::NoSuchItem { .. } | Refusal::OutOfTurn { .. }, _) => {
            Exit::Error
        }
        (Refusal::Invalid { .. }, _) => Exit::Usage,
    }
}
