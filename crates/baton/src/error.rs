//! How an operation fails.

use baton_api::CommandError;
use baton_election::{InvalidName, Refusal};
use baton_store::{StoreError, UrlError};

/// Why an operation was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The election refused it. Nothing was changed.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The store failed; its error says what may be assumed.
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The text does not name a store that this Baton has.
    #[error("{0}")]
    Url(#[from] UrlError),
    /// The text names no store of records: a server, or elections of a store's own. Nothing was asked.
    #[error("{0} keeps no records of Baton's")]
    NoStore(String),
    /// A name is not one.
    #[error("{0}")]
    Name(#[from] InvalidName),
    /// The time that the caller gave was over first.
    #[error("the wait of {wait} is over: {why}")]
    WaitedLongEnough {
        /// What it gave.
        wait: baton_election::Span,
        /// What it waited for.
        why: String,
        /// The last refusal, if it asked and was refused.
        refusal: Option<Box<Refusal>>,
    },
    /// The leadership is lost; the work under it must have stopped.
    #[error("the leadership is lost: {0}")]
    Lost(String),
    /// The operating system failed.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl From<CommandError> for Error {
    fn from(error: CommandError) -> Error {
        match error {
            CommandError::Refused(refusal) => Error::Refused(refusal),
            CommandError::Store(error) => Error::Store(error),
            CommandError::System(why) => Error::System(std::io::Error::other(why)),
        }
    }
}

impl Error {
    /// The stable word for the kind of failure.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Refused(refusal) => refusal.code(),
            Error::Store(error) => error.code(),
            Error::Url(_) | Error::NoStore(_) => "unknown-store",
            Error::Name(_) => "invalid",
            Error::WaitedLongEnough { .. } => "waited",
            Error::Lost(_) => "lost",
            Error::System(_) => "system",
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Refused(refusal) => Some(refusal.hint()),
            Error::Store(error) => Some(error.hint()),
            Error::Url(error) => Some(error.hint.clone()),
            Error::NoStore(_) => Some("name the store itself, not a server".to_string()),
            Error::Name(error) => Some(error.hint()),
            Error::WaitedLongEnough { .. } => Some("wait longer, or see who leads: baton status".to_string()),
            Error::Lost(_) => Some("campaign again".to_string()),
            Error::System(_) => None,
        }
    }
}
