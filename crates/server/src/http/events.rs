//! Changes as server-sent events. One who was cut off says what it was told last, and is told what it missed, or that it missed
//! something.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use baton_election::ElectionName;
use baton_election::time::Span;
use baton_store::boot;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use super::Service;
use super::reply::{Problem, Reply, typed};
use crate::engine::{ChangeNotice, Subscription};
use crate::metrics::{Gauge, Present};

/// How often a silent stream says that it still lives.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The changes of one election: first how it stands, unless the caller goes on from an earlier stream.
pub(super) async fn stream(
    service: &Arc<Service>,
    election: &ElectionName,
    last_event: Option<&str>,
) -> Result<Reply, Problem> {
    let last = last_event.map(|text| service.number_of(text));
    // An event of another run of the server is a gap.
    let after = last.map(|number| number.unwrap_or(u64::MAX));
    let news = service.engine.subscribe(election, after);
    let id = service.id_of(news.after);
    let first = match last {
        Some(_) => None,
        None => Some(state(service, election, &id).await?),
    };
    let present = Gauge::enter(&service.engine.meters().streams);
    let told = WatchStream {
        service: Arc::clone(service),
        election: election.clone(),
        news,
        more: None,
        _present: present,
    };
    let rest = stream::unfold(told, |mut told| async move { Some((told.next().await?, told)) });
    let body =
        stream::iter(first).chain(rest).map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
    Ok(typed(StatusCode::OK, "text/event-stream", StreamBody::new(body).boxed_unsync()))
}

/// How an election stands, as an event.
async fn state(service: &Service, election: &ElectionName, id: &str) -> Result<String, Problem> {
    let view = service.engine.view(election).await?;
    let json = serde_json::to_string(&view.document).map_err(|error| {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "system",
            error.to_string(),
            "this is a fault of the server",
        )
    })?;
    Ok(event("state", id, &json, view.age))
}

/// What one who watches is told.
struct WatchStream {
    service: Arc<Service>,
    election: ElectionName,
    news: Subscription,
    /// What is told next, whatever happens.
    more: Option<String>,
    _present: Present,
}

impl WatchStream {
    /// The next event; none if the server stops.
    async fn next(&mut self) -> Option<String> {
        if let Some(more) = self.more.take() {
            return Some(more);
        }
        let news = tokio::select! {
            news = tokio::time::timeout(HEARTBEAT, self.news.next()) => news,
            () = self.service.stops() => return None,
        };
        match news {
            Ok(Some(ChangeNotice::Event(change))) => {
                let age = boot::now().since(change.stamp);
                Some(event("change", &self.service.id_of(change.number), change.json(), age))
            }
            Ok(Some(ChangeNotice::Gap)) => {
                let id = self.service.id_of(self.news.after);
                self.more = state(&self.service, &self.election, &id).await.ok();
                Some("event: gap\ndata: {}\n\n".to_string())
            }
            Ok(None) => None,
            Err(_) => Some(": still here\n\n".to_string()),
        }
    }
}

/// The JSON of a document has no line break, since nothing is indented and those in texts are escaped.
fn event(kind: &str, id: &str, document: &str, age: Span) -> String {
    let age_ms = age.as_millis();
    format!("id: {id}\nevent: {kind}\ndata: {{\"age_ms\":{age_ms},\"document\":{document}}}\n\n")
}
