//! The body of a write on its way to the upstream, and the tap that ends it.
//!
//! Guarantees that nothing of a body is given out after its tap was shut. What had been given out by then may be on its way to the upstream
//! until the body is dropped.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;

use crate::forward::Broken;

/// A body on its way to the upstream.
pub(crate) struct Upload<B> {
    body: B,
    flow: Arc<Mutex<Flow>>,
    /// Goes with this body.
    _held: oneshot::Sender<Infallible>,
}

/// What ends a body that has not arrived whole.
pub(crate) struct Tap {
    flow: Arc<Mutex<Flow>>,
    gone: oneshot::Receiver<Infallible>,
}

#[derive(Default)]
struct Flow {
    /// All of the body has been given out.
    arrived: bool,
    shut: bool,
    /// The task that waits for more of the body.
    waiting: Option<Waker>,
}

impl<B: Body> Upload<B> {
    pub(crate) fn new(body: B) -> (Upload<B>, Tap) {
        let flow = Arc::new(Mutex::new(Flow { arrived: body.is_end_stream(), ..Flow::default() }));
        let (held, gone) = oneshot::channel();
        (Upload { body, flow: Arc::clone(&flow), _held: held }, Tap { flow, gone })
    }
}

impl Tap {
    /// Ends the body, unless it has arrived whole: says whether it is cut.
    pub(crate) fn shut(&self) -> bool {
        let mut flow = lock(&self.flow);
        if flow.arrived {
            return false;
        }
        flow.shut = true;
        let waiting = flow.waiting.take();
        drop(flow);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        true
    }

    /// Waits until whoever sends the body has let go of it: of one that was cut, nothing is sent from then on.
    pub(crate) async fn let_go(&mut self) {
        let _ = (&mut self.gone).await;
    }
}

impl<B> Body for Upload<B>
where
    B: Body<Data = Bytes> + Unpin,
    Broken: From<B::Error>,
{
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Upload { body, flow, .. } = self.get_mut();
        // Locked until the frame is given out, so that none is after the tap was shut.
        let mut flow = lock(flow);
        if flow.shut {
            return Poll::Ready(Some(Err("the request was cut off".into())));
        }
        let polled = Pin::new(&mut *body).poll_frame(context);
        match &polled {
            Poll::Pending => flow.waiting = Some(context.waker().clone()),
            Poll::Ready(Some(Ok(frame))) => flow.arrived = frame.is_trailers() || body.is_end_stream(),
            Poll::Ready(None) => flow.arrived = true,
            Poll::Ready(Some(Err(_))) => {}
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(Broken::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn lock(flow: &Mutex<Flow>) -> MutexGuard<'_, Flow> {
    flow.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use http_body_util::channel::Channel;
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn nothing_is_given_out_after_the_tap_was_shut() {
        let (mut sender, body) = Channel::<Bytes, Broken>::new(2);
        let (mut upload, mut tap) = Upload::new(body);
        sender.send_data(Bytes::from("a")).await.unwrap();
        assert_eq!(upload.frame().await.unwrap().unwrap().into_data().unwrap(), "a");
        let waiting = tokio::spawn(async move { upload.frame().await.unwrap().is_err() });
        tokio::task::yield_now().await;
        assert!(tap.shut(), "it had not arrived whole");
        // Nothing else wakes who waits for more.
        assert!(waiting.await.unwrap());
        tap.let_go().await;
        drop(sender);
    }

    #[tokio::test]
    async fn a_body_that_has_arrived_whole_is_not_cut() {
        let (mut upload, tap) = Upload::new(Full::new(Bytes::from("a")));
        assert_eq!(upload.frame().await.unwrap().unwrap().into_data().unwrap(), "a");
        assert!(!tap.shut());
        assert!(upload.frame().await.is_none());
        let (_, empty) = Upload::new(Full::new(Bytes::new()));
        assert!(!empty.shut());
    }
}
