//! What the server, the driver and the network say when they fail, and what of it a caller may assume.
//!
//! The server answers a statement that it did not carry out with an error of severity ERROR: nothing of it was applied.
//! Whatever else ends a statement (a lost connection, a session that is ended, silence) says nothing about it.

use std::error::Error as _;

use baton_store::{NotARecord, StoreError, network_failure};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, Severity};

use crate::names::Names;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Connecting.
    Connect,
    /// Asking.
    Read,
    /// Changing a record.
    Write,
    /// Laying out the tables.
    Prepare,
}

/// Turns failures into errors of the store.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    /// The store, for people.
    pub(crate) location: String,
    /// Its URL as it was given, without the password: for commands in hints.
    pub(crate) url: String,
    /// Who connects.
    pub(crate) user: String,
    /// What things are called.
    pub(crate) names: Names,
}

impl Faults {
    /// What an error of the driver means.
    pub(crate) fn of(&self, act: Act, error: &Error) -> StoreError {
        match error.as_db_error() {
            Some(said) if act == Act::Connect || is_plain_error(said) => self.said(act, said),
            Some(_) => self.cut(act, deep(error)),
            None if act == Act::Connect => self.no_connection(error),
            None => self.cut(act, deep(error)),
        }
    }

    /// Nothing was heard within the bound.
    pub(crate) fn silence(&self, act: Act, bound: std::time::Duration) -> StoreError {
        let what = if act == Act::Connect { "connection" } else { "answer" };
        self.cut(act, format!("no {what} within {} ms", bound.as_millis()))
    }

    /// A statement ended without an answer.
    fn cut(&self, act: Act, why: String) -> StoreError {
        match act {
            Act::Write => StoreError::Unknown { location: self.location.clone(), why },
            Act::Connect | Act::Read | Act::Prepare => self.unavailable(why),
        }
    }

    /// The server is a replica: what it shows is late, and its clock is another's.
    pub(crate) fn standby(&self) -> StoreError {
        self.refused(
            "the server is a standby, which can only be read",
            "name the primary, or several hosts of which one is it",
        )
    }

    /// What is under a key is not what a Baton wrote.
    pub(crate) fn not_a_record(&self, key: &str, not: NotARecord) -> StoreError {
        not.at(format!("{}, row `{key}` of {}", self.location, self.names.plain))
    }

    pub(crate) fn unavailable(&self, why: String) -> StoreError {
        let hint = "see that the server runs and can be reached; the same may succeed later".to_string();
        StoreError::Unavailable { location: self.location.clone(), why, hint }
    }

    pub(crate) fn refused(&self, why: impl Into<String>, hint: impl Into<String>) -> StoreError {
        StoreError::Refused { place: self.location.clone(), why: why.into(), hint: hint.into() }
    }

    /// An answer of the server's that says why not.
    fn said(&self, act: Act, said: &DbError) -> StoreError {
        let why = said
            .detail()
            .map_or_else(|| said.message().to_string(), |detail| format!("{} ({detail})", said.message()));
        let Names { plain, table, marks, .. } = &self.names;
        let hint = match said.code().code() {
            // No such table.
            "42P01" => format!("lay it out first: baton init --store '{}'", self.url),
            // No such schema.
            "3F000" => "make it first: CREATE SCHEMA …, or choose another with ?table=SCHEMA.NAME".to_string(),
            // No privilege.
            "42501" => self.missing_privilege(act),
            // No such column, another type, another kind of thing, no such function.
            "42703" | "42804" | "42809" | "42883" => {
                format!("{plain} is of another program or another Baton; choose another name with ?table=NAME")
            }
            // A standby, or a role that may only read.
            "25006" => "name the primary, and a role that may write".to_string(),
            // A character that the database cannot hold.
            "22P05" | "22021" => "the database must have been made with ENCODING 'UTF8'".to_string(),
            _ if act == Act::Connect && is_about_login(said) => {
                "look at the user, the password (in the URL, PGPASSWORD or ~/.pgpass), the database and pg_hba.conf"
                    .to_string()
            }
            code if is_for_good(code) => format!("look at {table} and {marks}, and at what was added to them"),
            _ => return self.unavailable(why),
        };
        self.refused(why, hint)
    }

    fn missing_privilege(&self, act: Act) -> String {
        match act {
            Act::Connect => format!("GRANT CONNECT ON DATABASE … TO \"{}\"", self.user),
            Act::Prepare => format!(
                "GRANT CREATE, USAGE ON SCHEMA {} TO \"{}\", choose another schema with ?table=SCHEMA.NAME, or let \
                 an administrator run what this prints: baton init --print --store '{}'",
                self.names.schema(),
                self.user,
                self.url
            ),
            Act::Read | Act::Write => self.names.grants(&format!("\"{}\"", self.user)),
        }
    }

    /// The driver could not connect, and the server did not say why.
    fn no_connection(&self, error: &Error) -> StoreError {
        let why = deep(error);
        let mut cause = error.source();
        while let Some(inner) = cause {
            if let Some(tls) = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref)
                && tls.is::<rustls::Error>()
            {
                return self
                    .refused(why, "look at the server's certificate, ?sslrootcert=FILE and ?sslmode=MODE");
            }
            cause = inner.source();
        }
        if why.contains("does not support TLS") {
            return self.refused(why, "switch TLS on at the server, or write ?sslmode=prefer");
        }
        if why.contains("password missing") {
            return self.refused("the server asks for a password", "put it into PGPASSWORD or ~/.pgpass");
        }
        if why.starts_with("authentication error") || why.starts_with("invalid configuration") {
            return self.refused(why, "look at the user, the password and how the server checks it");
        }
        self.unavailable(why)
    }
}

/// The server refused a statement, and the session goes on.
pub(crate) fn is_plain_error(said: &DbError) -> bool {
    match said.parsed_severity() {
        Some(severity) => severity == Severity::Error,
        None => said.severity() == "ERROR",
    }
}

/// Class 28: the role or its password; 3D: the database. PgBouncer has one code for everything and says it in words.
fn is_about_login(said: &DbError) -> bool {
    let code = said.code().code();
    let words = ["no such database", "does not exist", "no such user", "auth", "password", "login"];
    code.starts_with("28")
        || code.starts_with("3D")
        || (code == "08P01" && words.iter().any(|word| said.message().contains(word)))
}

/// Classes of errors that the same statement meets again: not supported, cardinality, data, constraints, syntax and
/// names, views, raised by hand.
fn is_for_good(code: &str) -> bool {
    ["0A", "21", "22", "23", "42", "44", "P0"].iter().any(|class| code.starts_with(class))
}

/// An error with its causes.
pub(crate) fn deep(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_string();
    }
    if let Some(words) = network_failure(error) {
        return words.to_string();
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
