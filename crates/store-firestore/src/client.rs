//! Requests to Firestore, each bounded in time and sent once.

use std::future::Future;
use std::time::Duration;

use baton_pubsub::google::Caller;
use futures_util::{StreamExt, stream};
use gcloud_sdk::google::firestore::v1 as api;
use gcloud_sdk::google::firestore::v1::batch_get_documents_response::Result as Got;
use gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use gcloud_sdk::google::firestore::v1::listen_request::TargetChange;
use gcloud_sdk::google::firestore::v1::run_query_request::QueryType;
use gcloud_sdk::prost_types::Timestamp;
use gcloud_sdk::tonic::transport::Channel;
use gcloud_sdk::tonic::{Status, Streaming};
use tokio::sync::oneshot;

use crate::fault::Failure;

/// A client of one database.
#[derive(Clone)]
pub(crate) struct Client {
    caller: Caller,
    requests: FirestoreClient<Channel>,
    /// On a connection of their own: a connection bears about a hundred streams at once, and a watch is one for good.
    watches: FirestoreClient<Channel>,
    /// `projects/P/databases/D`.
    database: String,
    /// The bound on a request and its answer.
    pub(crate) limit: Duration,
}

/// Documents as they were at one time.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) found: Vec<api::Document>,
    pub(crate) read_time: Timestamp,
}

impl Snapshot {
    /// The document of that name.
    pub(crate) fn document(&self, name: &str) -> Option<&api::Document> {
        self.found.iter().find(|document| document.name == name)
    }
}

/// What is told of a target. It ends when this is dropped: to drop the changes alone would leave it to the server to send them.
pub(crate) struct Subscription {
    pub(crate) changes: Streaming<api::ListenResponse>,
    _open: oneshot::Sender<()>,
}

impl Client {
    pub(crate) fn new(caller: Caller, database: &str, limit: Duration) -> Client {
        let requests = FirestoreClient::new(caller.channel());
        let watches = FirestoreClient::new(caller.channel());
        Client { caller, requests, watches, database: database.to_string(), limit }
    }

    /// Reads documents, without a transaction: nobody is locked out, and the server says when it read them.
    pub(crate) async fn get(&self, names: Vec<String>) -> Result<Snapshot, Failure> {
        let wanted = names.len();
        let message = api::BatchGetDocumentsRequest {
            database: self.database.clone(),
            documents: names,
            ..api::BatchGetDocumentsRequest::default()
        };
        let request = self.caller.request(message).await.map_err(Failure::NotSent)?;
        let mut client = self.requests.clone();
        self.bounded(async move {
            let mut answers = client.batch_get_documents(request).await?.into_inner();
            let (mut snapshot, mut told) = (Snapshot::default(), 0);
            while let Some(answer) = answers.message().await? {
                // The later of two times is good for both: what was read first had not changed by then.
                if let Some(read_time) = answer.read_time {
                    snapshot.read_time = read_time;
                }
                match answer.result {
                    Some(Got::Found(document)) => snapshot.found.push(document),
                    Some(Got::Missing(_)) => {}
                    None => continue,
                }
                told += 1;
            }
            if told < wanted || snapshot.read_time == Timestamp::default() {
                return Err(Status::unavailable("the answer was cut short"));
            }
            Ok(snapshot)
        })
        .await
    }

    /// Writes, all or nothing. The versions that the documents have after it, in order.
    pub(crate) async fn commit(&self, writes: Vec<api::Write>) -> Result<Vec<Timestamp>, Failure> {
        let wanted = writes.len();
        let message =
            api::CommitRequest { database: self.database.clone(), writes, ..api::CommitRequest::default() };
        let request = self.caller.request(message).await.map_err(Failure::NotSent)?;
        let mut client = self.requests.clone();
        self.bounded(async move {
            let answer = client.commit(request).await?.into_inner();
            let times: Vec<Timestamp> =
                answer.write_results.iter().filter_map(|result| result.update_time).collect();
            if times.len() < wanted {
                return Err(Status::unknown("the answer names no versions"));
            }
            Ok(times)
        })
        .await
    }

    /// The names of the documents that a query finds. Each part of the answer is bounded in time, not the whole.
    pub(crate) async fn names(&self, query: api::StructuredQuery) -> Result<Vec<String>, Failure> {
        let message = api::RunQueryRequest {
            parent: format!("{}/documents", self.database),
            query_type: Some(QueryType::StructuredQuery(query)),
            ..api::RunQueryRequest::default()
        };
        let request = self.caller.request(message).await.map_err(Failure::NotSent)?;
        let mut client = self.requests.clone();
        let mut answers = self.bounded(client.run_query(request)).await?.into_inner();
        let mut names = Vec::new();
        while let Some(answer) = self.bounded(answers.message()).await? {
            names.extend(answer.document.map(|document| document.name));
        }
        Ok(names)
    }

    /// Begins to listen to a target.
    pub(crate) async fn listen(&self, target: api::Target) -> Result<Subscription, Failure> {
        let message = api::ListenRequest {
            database: self.database.clone(),
            target_change: Some(TargetChange::AddTarget(target)),
            ..api::ListenRequest::default()
        };
        // The server ends the stream when there is nothing more to ask for.
        let (open, dropped) = oneshot::channel();
        let rest = stream::once(dropped).filter_map(|_| std::future::ready(None));
        let messages = stream::once(std::future::ready(message)).chain(rest);
        let request = self.caller.request(messages).await.map_err(Failure::NotSent)?;
        let mut client = self.watches.clone();
        let changes = self.bounded(client.listen(request)).await?.into_inner();
        Ok(Subscription { changes, _open: open })
    }

    /// Waits for an answer, but not for ever.
    pub(crate) async fn bounded<T>(
        &self,
        answer: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.limit, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(Failure::Status(status)),
            Err(_) => Err(Failure::Silence),
        }
    }
}
