//! Being told of changes by `Listen`, again after every break, with a gap for what may have been missed.

use std::time::Duration;

use baton_pubsub::jitter::Backoff;
use baton_store::{BoxStream, Change, StoreError};
use futures_util::stream;
use gcloud_sdk::google::firestore::v1 as api;
use gcloud_sdk::google::firestore::v1::listen_response::ResponseType;
use gcloud_sdk::google::firestore::v1::target::{DocumentsTarget, ResumeType, TargetType};
use gcloud_sdk::google::firestore::v1::target_change::TargetChangeType;
use gcloud_sdk::tonic::{Code, Status};

use crate::client::{Client, Subscription};
use crate::fault::{self, Failure};

/// The number of the one target on each stream.
const TARGET: i32 = 1;
/// The waits before listening again.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// One watcher of one document.
struct Watcher {
    client: Client,
    name: String,
    /// Where the server may go on from.
    resume: Vec<u8>,
    /// The stream; none while there is no connection.
    changes: Option<Subscription>,
    backoff: Backoff,
}

/// What a message of the stream means.
enum StreamEvent {
    Changed,
    /// All that was before is told.
    Current,
    Nothing,
    /// The server ends the target.
    Ended(Status),
}

/// Tells of changes of a document from now on.
pub(crate) async fn watch(
    client: Client,
    location: String,
    name: String,
) -> Result<BoxStream<Change>, StoreError> {
    let mut watcher = Watcher { client, name, resume: Vec::new(), changes: None, backoff: backoff() };
    let limit = watcher.client.limit;
    let connected = tokio::time::timeout(limit, watcher.connect()).await;
    let connected = connected.unwrap_or(Err(Failure::Silence));
    connected.map_err(|failure| fault::reading(&location, &failure))?;
    Ok(Box::pin(stream::unfold(watcher, |mut watcher| async move {
        let change = watcher.next().await;
        Some((change, watcher))
    })))
}

fn backoff() -> Backoff {
    Backoff::new(FIRST_WAIT, LONGEST_WAIT)
}

impl Watcher {
    /// Listens, and returns when the server has said how things stand: what changes from then on is told.
    async fn connect(&mut self) -> Result<(), Failure> {
        let target = api::Target {
            target_id: TARGET,
            target_type: Some(TargetType::Documents(DocumentsTarget { documents: vec![self.name.clone()] })),
            resume_type: (!self.resume.is_empty()).then(|| ResumeType::ResumeToken(self.resume.clone())),
            ..api::Target::default()
        };
        let mut changes = self.client.listen(target).await?;
        loop {
            let Some(message) = self.client.bounded(changes.changes.message()).await? else {
                return Err(Failure::Status(Status::unavailable("the stream ended")));
            };
            match self.told(message) {
                StreamEvent::Current => break,
                StreamEvent::Changed | StreamEvent::Nothing => {}
                StreamEvent::Ended(status) => {
                    // It may have been the token that the server did not like.
                    self.resume.clear();
                    return Err(Failure::Status(status));
                }
            }
        }
        self.changes = Some(changes);
        Ok(())
    }

    /// Waits for the next change, over as many connections as it takes.
    async fn next(&mut self) -> Change {
        loop {
            let Some(changes) = &mut self.changes else {
                tokio::time::sleep(self.backoff.wait()).await;
                match self.connect().await {
                    Ok(()) => return Change::Gap,
                    Err(_) => continue,
                }
            };
            let Ok(Some(message)) = changes.changes.message().await else {
                self.changes = None;
                continue;
            };
            // A connection that tells something is a good one.
            self.backoff = backoff();
            match self.told(message) {
                StreamEvent::Changed => return Change::Changed,
                StreamEvent::Current | StreamEvent::Nothing => {}
                StreamEvent::Ended(_) => {
                    self.resume.clear();
                    self.changes = None;
                }
            }
        }
    }

    fn told(&mut self, message: api::ListenResponse) -> StreamEvent {
        match message.response_type {
            Some(
                ResponseType::DocumentChange(_)
                | ResponseType::DocumentDelete(_)
                | ResponseType::DocumentRemove(_)
                | ResponseType::Filter(_),
            ) => StreamEvent::Changed,
            Some(ResponseType::TargetChange(target)) => {
                let kind = target.target_change_type();
                if !target.resume_token.is_empty() {
                    self.resume = target.resume_token;
                }
                match kind {
                    TargetChangeType::Current => StreamEvent::Current,
                    TargetChangeType::NoChange | TargetChangeType::Add => StreamEvent::Nothing,
                    TargetChangeType::Reset => StreamEvent::Changed,
                    TargetChangeType::Remove => StreamEvent::Ended(match target.cause {
                        Some(cause) => Status::new(Code::from_i32(cause.code), cause.message),
                        None => Status::unavailable("the server ended the target"),
                    }),
                }
            }
            None => StreamEvent::Nothing,
        }
    }
}
