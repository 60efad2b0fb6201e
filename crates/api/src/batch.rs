//! Several commands in one request, each with its own result.

use baton_election::command::Renew;
use baton_election::{Command, ElectionName, Epoch, commands};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::command::CheckRequest;

/// The most entries of a batch.
pub const MAX_BATCH: usize = 20_000;

macro_rules! batch_entry {
    ($($(#[$about:meta])* $name:literal $field:ident $variant:ident($body:ty),)*) => {
        /// An entry of a batch, as a server reads it: an election, and exactly one of the other fields.
        #[derive(Debug, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        pub struct BatchEntry {
            /// The election.
            // Text, since a plain renewal finds its election without a checked name.
            #[cfg_attr(feature = "schema", schemars(with = "ElectionName"))]
            pub election: String,
            /// Asks whether a token may act.
            pub check: Option<CheckRequest>,
            $($(#[$about])* #[serde(rename = $name)] pub $field: Option<Box<$body>>,)*
        }

        impl BatchEntry {
            /// The election, and what is asked of it; none if the entry asks for nothing, or for several things.
            pub fn into_request(self) -> (String, Option<BatchRequest>) {
                let BatchEntry { election, check, $($field),* } = self;
                let commands = [$($field.map(|body| Command::$variant(*body)),)*];
                let mut all = commands
                    .into_iter()
                    .flatten()
                    .map(|command| BatchRequest::Command(Box::new(command)))
                    .chain(check.map(|check| BatchRequest::Check(check.token)));
                let first = all.next();
                (election, first.filter(|_| all.next().is_none()))
            }

            fn asks(&self) -> usize {
                [self.check.is_some(), $(self.$field.is_some()),*].into_iter().filter(|asks| *asks).count()
            }
        }
    };
}

commands!(batch_entry);

impl BatchEntry {
    /// The renewal, if the entry asks for nothing else.
    pub fn renewal(&self) -> Option<&Renew> {
        self.renew.as_deref().filter(|_| self.asks() == 1)
    }
}

/// What one entry of a batch asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchRequest {
    /// To carry out a command.
    Command(Box<Command>),
    /// To check a token.
    Check(Epoch),
}

/// The same as a client writes it, without a copy of the command.
#[derive(Clone, Copy, Debug)]
pub enum BatchEntryRef<'a> {
    /// A command on an election.
    Command(&'a ElectionName, &'a Command),
    /// A check of a token of an election.
    Check(&'a ElectionName, Epoch),
}

impl Serialize for BatchEntryRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        let (BatchEntryRef::Command(election, _) | BatchEntryRef::Check(election, _)) = self;
        map.serialize_entry("election", election)?;
        match self {
            BatchEntryRef::Command(_, command) => map.serialize_entry(command.name(), command),
            BatchEntryRef::Check(_, token) => map.serialize_entry("check", &CheckRequest { token: *token }),
        }?;
        map.end()
    }
}

/// What a batch looks like in the description of the interface. Each entry is read and written on its own.
#[cfg(feature = "schema")]
pub mod described {
    use schemars::JsonSchema;
    use serde_json::Value;

    use super::BatchEntry;
    use crate::command::{CheckResponse, CommandResponse};
    use crate::problem::ProblemResponse;

    /// An entry of a batch. A malformed entry gets an error as its result, and the others are carried out.
    #[derive(JsonSchema)]
    #[schemars(untagged)]
    pub enum BatchEntryOrMalformed {
        /// An entry.
        Entry(Box<BatchEntry>),
        /// Anything else.
        Malformed(Value),
    }

    /// The result of one entry of a batch.
    #[derive(JsonSchema)]
    #[schemars(untagged)]
    pub enum BatchResult {
        /// Of a command.
        Command(Box<CommandResponse>),
        /// Of a check.
        Check(CheckResponse),
        /// Why the entry was not carried out.
        Problem(ProblemResponse<'static>),
    }
}

#[cfg(test)]
mod tests {
    use baton_election::{Credential, Incarnation, LeaseKey};

    use super::*;

    #[test]
    fn a_server_reads_what_a_client_writes() {
        let (election, credential) = (
            ElectionName::new("e").unwrap(),
            Credential { incarnation: Incarnation([1; 8]), key: LeaseKey([2; 16]) },
        );
        let command = Command::Renew(Renew::new(Epoch(7), credential));
        let read = |entry: BatchEntryRef<'_>| {
            serde_json::from_str::<BatchEntry>(&serde_json::to_string(&entry).unwrap()).unwrap()
        };
        let renew = read(BatchEntryRef::Command(&election, &command));
        assert!(renew.renewal().is_some());
        assert_eq!(renew.into_request(), ("e".to_string(), Some(BatchRequest::Command(Box::new(command)))));
        let check = read(BatchEntryRef::Check(&election, Epoch(7)));
        assert!(check.renewal().is_none());
        assert_eq!(check.into_request().1, Some(BatchRequest::Check(Epoch(7))));
    }

    #[test]
    fn an_entry_asks_for_exactly_one_thing() {
        let read = |text: &str| serde_json::from_str::<BatchEntry>(text).unwrap().into_request().1;
        assert_eq!(read(r#"{"election":"e"}"#), None);
        let renew = r#""renew":{"token":1,"credential":{"incarnation":"0101010101010101","key":"02020202020202020202020202020202"}}"#;
        let both = format!(r#"{{"election":"e",{renew},"check":{{"token":1}}}}"#);
        assert_eq!(read(&both), None);
    }
}
