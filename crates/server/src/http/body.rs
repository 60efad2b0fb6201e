//! Bodies of requests, as they arrive.
//!
//! Each has so long to arrive, and is so large at most, by its route. A batch may be larger than other requests; what it is larger by is counted as it
//! arrives, for all batches together. So who sends slowly, or nothing, keeps nobody from being served.

use std::error::Error;
use std::time::Duration;

use baton_api::endpoints::{MAX_BATCH_BODY, MAX_BODY};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::ARRIVAL;
use super::reply::Problem;

/// How much of all batches together is in memory, beyond what any request may have.
const BATCH_BYTES: usize = 128 * 1024 * 1024;
/// How long a batch waits for memory. Those that wait for each other end so.
const ROOM_WAIT: Duration = Duration::from_secs(2);
/// How long who found none is told to wait.
const LATER: Duration = Duration::from_secs(1);

/// The memory for large batches, in bytes.
pub(super) struct Room(Semaphore);

impl Default for Room {
    fn default() -> Room {
        Room(Semaphore::new(BATCH_BYTES))
    }
}

impl Room {
    async fn take(&self, bytes: usize) -> Result<SemaphorePermit<'_>, Problem> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match timeout(ROOM_WAIT, self.0.acquire_many(bytes)).await {
            Ok(Ok(taken)) => Ok(taken),
            Ok(Err(_)) | Err(_) => {
                Err(Problem::too_many("the batches that arrive are larger than there is memory for", LATER))
            }
        }
    }
}

/// The body of any request but a batch.
pub(super) async fn read<B>(body: B, largest: usize) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    in_time(async {
        match Limited::new(body, largest).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) => Err(broken(&*error, largest)),
        }
    })
    .await
}

/// The body of a batch, and the memory that it takes as long as it is kept.
pub(super) async fn read_batch<B>(
    body: B,
    room: &Room,
) -> Result<(Bytes, Option<SemaphorePermit<'_>>), Problem>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    in_time(async {
        let mut body = std::pin::pin!(Limited::new(body, MAX_BATCH_BODY));
        let (mut whole, mut taken) = (BytesMut::new(), None::<SemaphorePermit<'_>>);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| broken(&*error, MAX_BATCH_BODY))?;
            let Ok(piece) = frame.into_data() else { continue };
            let beyond = |length: usize| length.saturating_sub(MAX_BODY);
            let more = beyond(whole.len() + piece.len()) - beyond(whole.len());
            if more > 0 {
                let more = room.take(more).await?;
                match &mut taken {
                    Some(taken) => taken.merge(more),
                    None => taken = Some(more),
                }
            }
            whole.extend_from_slice(&piece);
        }
        Ok((whole.freeze(), taken))
    })
    .await
}

async fn in_time<T>(arrival: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    timeout(ARRIVAL, arrival).await.unwrap_or_else(|_| {
        Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "invalid",
            format!("the body did not arrive within {ARRIVAL:?}"),
            "send it at once",
        ))
    })
}

fn broken(error: &(dyn Error + Send + Sync + 'static), limit: usize) -> Problem {
    if error.is::<LengthLimitError>() {
        return Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "invalid",
            format!("the body is larger than {limit} bytes"),
            "shorten the texts in it; a checkpoint carries at most 64 KiB: leave more elsewhere, and name it with --reference",
        );
    }
    Problem::invalid(format!("the body broke off: {error}"), "send it whole")
}

#[cfg(test)]
mod tests {
    use baton_api::endpoints::Endpoint;
    use http_body_util::Full;

    use super::*;

    fn of(length: usize) -> Full<Bytes> {
        Full::new(Bytes::from(vec![b' '; length]))
    }

    fn code(problem: &Problem) -> String {
        problem.to_value()["code"].as_str().unwrap_or_default().to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_batch_is_larger_by_is_counted_while_it_is_kept() {
        let room = Room(Semaphore::new(1_000));
        let (first, taken) = read_batch(of(MAX_BODY + 900), &room).await.unwrap();
        assert_eq!((first.len(), room.0.available_permits()), (MAX_BODY + 900, 100));
        let refused = read_batch(of(MAX_BODY + 101), &room).await.unwrap_err();
        assert_eq!(code(&refused), "too-many");
        let (small, none) = read_batch(of(MAX_BODY), &room).await.unwrap();
        assert!(small.len() == MAX_BODY && none.is_none(), "a small one takes none of it");
        drop(taken);
        assert_eq!(room.0.available_permits(), 1_000);
        read_batch(of(MAX_BODY + 101), &room).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_too_large_is_refused() {
        for endpoint in [Endpoint::OpenSignIn, Endpoint::Renew, Endpoint::Operate, Endpoint::Checkpoint] {
            let largest = endpoint.row().max_body;
            assert_eq!(code(&read(of(largest + 1), largest).await.unwrap_err()), "invalid", "{endpoint:?}");
            assert_eq!(read(of(largest), largest).await.unwrap().len(), largest);
        }
        assert_eq!(code(&read_batch(of(MAX_BATCH_BODY + 1), &Room::default()).await.unwrap_err()), "invalid");
    }
}
