//! One topic: requests to Pub/Sub, each bounded in time and sent once.

use std::collections::HashMap;
use std::future::Future;

use futures_util::{Stream, StreamExt, stream};
use gcloud_sdk::google::pubsub::v1 as api;
use gcloud_sdk::google::pubsub::v1::publisher_client::PublisherClient;
use gcloud_sdk::google::pubsub::v1::subscriber_client::SubscriberClient;
use gcloud_sdk::prost_types::Duration;
use gcloud_sdk::tonic::transport::Channel;
use gcloud_sdk::tonic::{Status, Streaming};

use crate::fault::Failure;
use crate::google::{Caller, REQUEST_LIMIT};

/// How long Pub/Sub keeps a subscription that nobody pulls from: the shortest that it takes.
const EXPIRES_S: i64 = 24 * 3_600;
/// How long it keeps a message that nobody took: the shortest that it takes.
const RETAINED_S: i64 = 600;
/// How long it waits for a message to be acknowledged: the shortest that it takes.
const ACKNOWLEDGED_S: i32 = 10;

/// The attribute that names the record that changed.
const KEY: &str = "key";
/// The attribute that tells stores apart that share a topic.
const STORE: &str = "store";

/// A topic, and the store whose changes are told through it.
pub(crate) struct Topic {
    caller: Caller,
    publisher: PublisherClient<Channel>,
    subscriber: SubscriberClient<Channel>,
    project: String,
    /// `projects/P/topics/T`.
    pub(crate) name: String,
    /// What tells the store from others, and nothing else about it.
    store: String,
}

impl Topic {
    pub(crate) fn new(caller: Caller, project: &str, topic: &str, store: String) -> Topic {
        let publisher = PublisherClient::new(caller.channel());
        let subscriber = SubscriberClient::new(caller.channel());
        let (name, project) = (format!("projects/{project}/topics/{topic}"), project.to_string());
        Topic { caller, publisher, subscriber, project, name, store }
    }

    /// Fails if it is not there, or if that cannot be found out.
    pub(crate) async fn look(&self) -> Result<(), Failure> {
        let request = self.caller.request(api::GetTopicRequest { topic: self.name.clone() });
        let request = request.await.map_err(Failure::NotSent)?;
        bounded(self.publisher.clone().get_topic(request)).await.map(|_| ())
    }

    /// Makes it, unless it is there already.
    pub(crate) async fn make(&self) -> Result<(), Failure> {
        let message = api::Topic { name: self.name.clone(), ..api::Topic::default() };
        let request = self.caller.request(message).await.map_err(Failure::NotSent)?;
        match bounded(self.publisher.clone().create_topic(request)).await {
            Err(failure) if !failure.is_there_already() => Err(failure),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Tells that the record of a key may have changed.
    pub(crate) async fn publish(&self, key: &str) -> Result<(), Failure> {
        let attributes =
            HashMap::from([(KEY.to_string(), key.to_string()), (STORE.to_string(), self.store.clone())]);
        let message = api::PubsubMessage { attributes, ..api::PubsubMessage::default() };
        let message = api::PublishRequest { topic: self.name.clone(), messages: vec![message] };
        let request = self.caller.request(message).await.map_err(Failure::NotSent)?;
        bounded(self.publisher.clone().publish(request)).await.map(|_| ())
    }

    /// The full name of a subscription.
    pub(crate) fn subscription(&self, id: &str) -> String {
        format!("projects/{}/subscriptions/{id}", self.project)
    }

    /// Makes a subscription: what is published from then on is kept for it.
    pub(crate) async fn subscribe(&self, subscription: &str) -> Result<(), Failure> {
        let message = api::Subscription {
            name: subscription.to_string(),
            topic: self.name.clone(),
            ack_deadline_seconds: ACKNOWLEDGED_S,
            message_retention_duration: Some(Duration { seconds: RETAINED_S, nanos: 0 }),
            expiration_policy: Some(api::ExpirationPolicy {
                ttl: Some(Duration { seconds: EXPIRES_S, nanos: 0 }),
            }),
            filter: format!("attributes.{STORE} = \"{}\"", self.store),
            labels: HashMap::from([("made-by".to_string(), "baton".to_string())]),
            ..api::Subscription::default()
        };
        let request = self.caller.request(message).await.map_err(Failure::NotSent)?;
        match bounded(self.subscriber.clone().create_subscription(request)).await {
            Err(failure) if !failure.is_there_already() => Err(failure),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Deletes a subscription.
    pub(crate) async fn unsubscribe(&self, subscription: &str) -> Result<(), Failure> {
        let message = api::DeleteSubscriptionRequest { subscription: subscription.to_string() };
        let request = self.caller.request(message).await.map_err(Failure::NotSent)?;
        bounded(self.subscriber.clone().delete_subscription(request)).await.map(|_| ())
    }

    /// Begins to take messages from a subscription, and acknowledges those whose ids come by `acknowledged`.
    ///
    /// Not bounded: the server may answer with the first message only. The connection's own keep-alive ends it.
    pub(crate) async fn pull(
        &self,
        subscription: &str,
        acknowledged: impl Stream<Item = Vec<String>> + Send + 'static,
    ) -> Result<Streaming<api::StreamingPullResponse>, Failure> {
        let first = api::StreamingPullRequest {
            subscription: subscription.to_string(),
            stream_ack_deadline_seconds: ACKNOWLEDGED_S,
            ..api::StreamingPullRequest::default()
        };
        let rest = acknowledged
            .map(|ack_ids| api::StreamingPullRequest { ack_ids, ..api::StreamingPullRequest::default() });
        let messages = stream::once(std::future::ready(first)).chain(rest);
        let request = self.caller.request(messages).await.map_err(Failure::NotSent)?;
        let answer = self.subscriber.clone().streaming_pull(request).await;
        Ok(answer.map_err(Failure::Status)?.into_inner())
    }

    /// The key that a message tells of, if it is of this store.
    pub(crate) fn told<'a>(&self, message: &'a api::PubsubMessage) -> Option<&'a str> {
        let ours = message.attributes.get(STORE) == Some(&self.store);
        message.attributes.get(KEY).filter(|_| ours).map(String::as_str)
    }
}

/// Waits for an answer, but not for ever.
async fn bounded<T>(answer: impl Future<Output = Result<T, Status>>) -> Result<T, Failure> {
    match tokio::time::timeout(REQUEST_LIMIT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => Err(Failure::Status(status)),
        Err(_) => Err(Failure::Silence),
    }
}
