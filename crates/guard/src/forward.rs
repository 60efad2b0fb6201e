//! A request on its way to the upstream, and the answer on its way back.
//!
//! A write is carried through by a task of its own: it counts as under way until the upstream has answered it whole, whether or not its
//! client is still there, and nothing more of it is passed on after that.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use baton_http_listener::Problem;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::cohort::{AdmittedRequest, Order};
use crate::problem;
use crate::upload::{Tap, Upload};
use crate::upstream::Upstream;

/// Why a body broke off.
pub(crate) type Broken = Box<dyn StdError + Send + Sync>;
/// A body, in either direction.
pub(crate) type Body = UnsyncBoxBody<Bytes, Broken>;

/// How many pieces of an answer lie between the upstream and a slow client.
const PIECES: usize = 4;
/// How long the connection of a request that was given up may take to close.
const CLOSING: Duration = Duration::from_secs(1);

/// Passes a read on. It ends with its client.
pub(crate) async fn read(
    upstream: &Upstream,
    request: Request<Body>,
    limit: Duration,
) -> Result<Response<Body>, Problem> {
    match tokio::time::timeout(limit, upstream.send(request)).await {
        Ok(response) => Ok(response?.map(|body| body.map_err(Broken::from).boxed_unsync())),
        Err(_) => Err(late(limit)),
    }
}

/// Passes a write on, and gives its answer as far as there is one.
pub(crate) async fn write(
    upstream: Arc<Upstream>,
    parts: http::request::Parts,
    body: Incoming,
    place: AdmittedRequest,
    limit: Duration,
) -> Result<Response<Body>, Problem> {
    let (upload, mut tap) = Upload::new(body);
    let (sender, head) = oneshot::channel();
    let mut client = Audience::Head(sender);
    tokio::spawn(async move {
        let end = Instant::now() + limit;
        let request = Request::from_parts(parts, upload.boxed_unsync());
        let failed = tokio::select! {
            outcome = timeout_at(end, relay(&upstream, request, &mut client, &place)) => match outcome {
                Ok(Ok(())) => None,
                Ok(Err(problem)) => Some(problem),
                Err(_) => Some(late(limit)),
            },
            () = cut_off(&place, &tap) => Some(Problem::new(
                StatusCode::CONFLICT,
                "cut-off",
                "the request was cut off before it had arrived whole: its token is past, or cannot be checked",
                "see who leads: baton status",
            )),
        };
        // An upstream may answer before it has all of a request: the rest must not reach it beside the next leader's.
        let cut = tap.shut();
        if let Some(problem) = failed {
            client.fail(problem);
        }
        if cut {
            let _ = timeout_at(end.max(Instant::now() + CLOSING), tap.let_go()).await;
        }
        drop(place);
    });
    let gone = || problem::not_now("busy", "the guard is stopping", "try again");
    head.await.unwrap_or_else(|_| Err(gone()))
}

/// The receiver of the answer, and the part of it that the receiver waits for.
enum Audience {
    Head(oneshot::Sender<Result<Response<Body>, Problem>>),
    Body(Sender<Bytes, Broken>),
    Nobody,
}

impl Audience {
    /// Tells the client that it went wrong: by an answer, or by breaking off what it is told.
    fn fail(self, problem: Problem) {
        match self {
            Audience::Head(head) => {
                let _ = head.send(Err(problem));
            }
            Audience::Body(body) => body.abort("the answer broke off".into()),
            Audience::Nobody => {}
        }
    }
}

/// Sends a write, and passes the answer on to whoever still waits for it.
async fn relay(
    upstream: &Upstream,
    request: Request<Body>,
    client: &mut Audience,
    place: &AdmittedRequest,
) -> Result<(), Problem> {
    let response = upstream.send(request).await?;
    let (parts, mut answer) = response.into_parts();
    let (sender, body) = Channel::new(PIECES);
    if let Audience::Head(head) = std::mem::replace(client, Audience::Body(sender)) {
        let _ = head.send(Ok(Response::from_parts(parts, body.boxed_unsync())));
    }
    while let Some(frame) = answer.frame().await {
        let frame = frame.map_err(|error| broke_off(&error))?;
        let (Ok(piece), Audience::Body(body)) = (frame.into_data(), &mut *client) else { continue };
        let taken = tokio::select! {
            biased;
            sent = body.send_data(piece) => sent.is_ok(),
            () = place.told(Order::Hurry) => false,
        };
        if !taken {
            std::mem::replace(client, Audience::Nobody).fail(late(Duration::ZERO));
        }
    }
    *client = Audience::Nobody;
    Ok(())
}

/// Waits for the order to cut off what has not arrived whole.
async fn cut_off(place: &AdmittedRequest, tap: &Tap) {
    place.told(Order::Cut).await;
    if !tap.shut() {
        std::future::pending::<()>().await;
    }
}

fn late(limit: Duration) -> Problem {
    Problem::new(
        StatusCode::GATEWAY_TIMEOUT,
        "upstream",
        format!("the upstream did not answer whole within {limit:?}"),
        "a write may have been carried out; --timeout gives it more time",
    )
}

fn broke_off(error: &hyper::Error) -> Problem {
    Problem::new(StatusCode::BAD_GATEWAY, "upstream", format!("the answer broke off: {error}"), "")
}
