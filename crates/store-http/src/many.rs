//! Many commands in one message, each answered on its own.

use baton_api::CommandError;
use baton_api::batch::BatchEntryRef;
use baton_api::endpoints::Endpoint;
use baton_store::StoreError;
use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::fault::Fault;
use crate::records::{AT_ONCE, HttpElections};

/// The most entries of one message.
const MOST: usize = 10_000;
/// About the most bytes of one message: the server takes twice as many.
const MOST_BYTES: usize = 4 << 20;

/// The answer to one, or why not.
#[derive(Deserialize)]
struct Status {
    status: Option<u16>,
}

impl HttpElections {
    /// Sends all of them, in as few messages as hold them. There is one outcome for each.
    pub(crate) async fn many<T: DeserializeOwned>(
        &self,
        entries: &[BatchEntryRef<'_>],
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
        let told: Result<Vec<Box<RawValue>>, Fault> =
            self.client.post(&Endpoint::Batch.target(&[]), &entries, AT_ONCE).await;
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
