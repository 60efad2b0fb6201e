//! Changes as server-sent events. One who was cut off says what it was told last, and is told what it missed, or that it missed
//! something.

use std::convert::Infallible;
use std::time::Duration;

use baton_election::{Document, ElectionName};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;

use super::Service;
use super::reply::{Problem, Reply, typed};
use crate::engine::{News, Subscription};

/// How often a silent stream says that it still lives.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The changes of one election: first how it stands, unless the caller goes on from an earlier stream.
pub(super) async fn stream(
    service: &Service,
    election: &ElectionName,
    last_event: Option<&str>,
) -> Result<Reply, Problem> {
    let last = last_event.map(|text| service.number_of(text));
    // An event of another run of the server is a gap.
    let after = last.map(|number| number.unwrap_or(u64::MAX));
    let news = service.engine.subscribe(election, after);
    let first = match last {
        Some(_) => None,
        None => {
            let view = service.engine.view(election).await?;
            Some(event("state", None, view.document.as_ref(), Some(view.age.as_millis())))
        }
    };
    let run = service.run.clone();
    let rest = stream::unfold(news, move |mut news| {
        let run = run.clone();
        async move { Some((next(&mut news, &run).await?, news)) }
    });
    let body =
        stream::iter(first).chain(rest).map(|text| Ok::<_, Infallible>(Frame::data(Bytes::from(text))));
    Ok(typed(StatusCode::OK, "text/event-stream", StreamBody::new(body).boxed_unsync()))
}

async fn next(news: &mut Subscription, run: &str) -> Option<String> {
    match tokio::time::timeout(HEARTBEAT, news.next()).await {
        Ok(Some(News::Event(change))) => {
            let id = format!("{run}-{}", change.number);
            Some(event("change", Some(&id), Some(&change.document), Some(0)))
        }
        Ok(Some(News::Gap)) => Some("event: gap\ndata: {}\n\n".to_string()),
        Ok(None) => None,
        Err(_) => Some(": still here\n\n".to_string()),
    }
}

fn event(kind: &str, id: Option<&str>, document: Option<&Document>, age_ms: Option<u64>) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    let data = json!({ "document": document, "age_ms": age_ms });
    format!("{id}event: {kind}\ndata: {data}\n\n")
}
