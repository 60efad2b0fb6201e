//! Many commands in one message, each answered on its own.

use baton_api::CommandError;
use baton_election::{Command, ElectionName, Epoch};
use baton_store::StoreError;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::records::{AT_ONCE, HttpElections};

/// The most entries of one message.
const MOST: usize = 10_000;
/// About the most bytes of one message: the server takes twice as many.
const MOST_BYTES: usize = 4 << 20;

/// One of many: written as the election and the command under its own name.
pub(crate) struct Entry<'a> {
    election: &'a ElectionName,
    what: What<'a>,
}

enum What<'a> {
    Command(&'a Command),
    Check(Epoch),
}

#[derive(Serialize)]
struct Check {
    token: Epoch,
}

/// A command.
pub(crate) fn entry<'a>(election: &'a ElectionName, command: &'a Command) -> Entry<'a> {
    Entry { election, what: What::Command(command) }
}

/// Whether a token may act.
pub(crate) fn check(election: &ElectionName, token: Epoch) -> Entry<'_> {
    Entry { election, what: What::Check(token) }
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("election", self.election)?;
        match self.what {
            What::Command(Command::Acquire(acquire)) => map.serialize_entry("acquire", acquire),
            What::Command(Command::Renew(renew)) => map.serialize_entry("renew", renew),
            What::Command(Command::Release(release)) => map.serialize_entry("release", release),
            What::Command(Command::Pass(pass)) => map.serialize_entry("pass", pass),
            What::Command(Command::Checkpoint(write)) => map.serialize_entry("checkpoint", write),
            What::Command(Command::Acknowledge(acknowledge)) => {
                map.serialize_entry("acknowledge", acknowledge)
            }
            What::Command(Command::Report(report)) => map.serialize_entry("report", report),
            What::Command(Command::Operate(signed)) => map.serialize_entry("operate", signed),
            What::Check(token) => map.serialize_entry("check", &Check { token }),
        }?;
        map.end()
    }
}

/// The answer to one, or why not.
#[derive(Deserialize)]
struct Status {
    status: Option<u16>,
}

impl HttpElections {
    /// Sends all of them, in as few messages as hold them. There is one outcome for each.
    pub(crate) async fn many<T: DeserializeOwned>(
        &self,
        entries: &[Entry<'_>],
    ) -> Vec<Result<T, CommandError>> {
        let mut outcomes = Vec::with_capacity(entries.len());
        let mut texts: Vec<Box<RawValue>> = Vec::new();
        let mut bytes = 0;
        for entry in entries {
            let text = match serde_json::value::to_raw_value(entry) {
                Ok(text) => text,
                // The others are sent all the same, and this one in its place: the server says why not.
                Err(_) => RawValue::NULL.to_owned(),
            };
            if texts.len() == MOST || bytes + text.get().len() > MOST_BYTES {
                outcomes.extend(self.message(&texts).await);
                (texts, bytes) = (Vec::new(), 0);
            }
            bytes += text.get().len();
            texts.push(text);
        }
        outcomes.extend(self.message(&texts).await);
        outcomes
    }

    async fn message<T: DeserializeOwned>(&self, entries: &[Box<RawValue>]) -> Vec<Result<T, CommandError>> {
        if entries.is_empty() {
            return Vec::new();
        }
        let base = &self.client.base;
        let told: Result<Vec<Box<RawValue>>, Fault> = self.client.post("/v1/batch", &entries, AT_ONCE).await;
        let failed = match told {
            Ok(told) if told.len() == entries.len() => {
                return told.iter().map(|told| outcome(told, base)).collect();
            }
            Ok(told) => {
                let why = format!("it gave {} answers to {} commands", told.len(), entries.len());
                Fault::NoAnswer(why).of_command(base)
            }
            Err(fault) => fault.of_command(base),
        };
        entries.iter().map(|_| Err(failed.clone())).collect()
    }
}

fn outcome<T: DeserializeOwned>(told: &RawValue, base: &str) -> Result<T, CommandError> {
    let status = serde_json::from_str::<Status>(told.get()).ok().and_then(|told| told.status);
    if let Some(status) = status {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return Err(Fault::said(status, told.get().as_bytes()).of_command(base));
    }
    serde_json::from_str(told.get()).map_err(|error| {
        let why = format!("its answer was not understood: {error}");
        StoreError::Unknown { location: base.to_string(), why }.into()
    })
}
