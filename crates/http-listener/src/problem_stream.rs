//! What the HTTP library says by itself, of a request that is none, in this house's words.
//!
//! The library answers such a request with a bare status, and asks nobody. So what it writes while no answer of ours is on its way is
//! that, and gets a body. Assumes that the library flushes one answer before it looks at the next request. What does not look like a bare
//! status is left as it is.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Nobody has asked anything that is not answered.
const IDLE: u8 = 0;
/// A request is being answered.
const ASKED: u8 = 1;
/// All of the answer was given out; not all of it need have been written.
const ANSWERED: u8 = 2;

/// How the library says that there is no body.
const NO_BODY: &[u8] = b"content-length: 0\r\n";
/// Where the status stands, after `HTTP/1.1 `.
const STATUS: std::ops::Range<usize> = 9..12;

/// How far the answer to the last request is.
#[derive(Default)]
pub(crate) struct AnswerStage(AtomicU8);

impl AnswerStage {
    pub(crate) fn asked(&self) {
        self.0.store(ASKED, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == IDLE
    }

    fn flushed(&self) {
        let _ = self.0.compare_exchange(ANSWERED, IDLE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// An answer's body, whose end is noted.
pub(crate) struct TrackedBody<B> {
    body: B,
    stage: Arc<AnswerStage>,
}

impl<B> TrackedBody<B> {
    pub(crate) fn new(body: B, stage: Arc<AnswerStage>) -> TrackedBody<B> {
        TrackedBody { body, stage }
    }
}

impl<B> Drop for TrackedBody<B> {
    fn drop(&mut self) {
        self.stage.0.store(ANSWERED, Ordering::Relaxed);
    }
}

impl<B: Body + Unpin> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream on which a bare status gets a body.
pub(crate) struct ProblemBodyStream<S, W> {
    stream: S,
    stage: Arc<AnswerStage>,
    /// The answer in place of a bare status.
    word: W,
    /// What of it is to be written.
    own: Bytes,
}

impl<S, W: Fn(StatusCode) -> Response<Bytes>> ProblemBodyStream<S, W> {
    pub(crate) fn new(stream: S, stage: Arc<AnswerStage>, word: W) -> ProblemBodyStream<S, W> {
        ProblemBodyStream { stream, stage, word, own: Bytes::new() }
    }

    /// What is written in the place of this, if it is the library's own.
    fn reworded(&self, bytes: &[u8]) -> Option<Bytes> {
        if !self.stage.is_idle() || !self.own.is_empty() {
            return None;
        }
        let status = StatusCode::from_bytes(bytes.get(STATUS)?).ok()?;
        let place = bytes.windows(NO_BODY.len()).position(|part| part == NO_BODY)?;
        let (before, after) = (&bytes[..place], &bytes[place + NO_BODY.len()..]);
        if !status.is_client_error() || !after.ends_with(b"\r\n\r\n") && after != b"\r\n" {
            return None;
        }
        let (head, body) = (self.word)(status).into_parts();
        let mut text = before.to_vec();
        for (name, value) in &head.headers {
            text.extend_from_slice(name.as_str().as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value.as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
        text.extend_from_slice(after);
        text.extend_from_slice(&body);
        Some(text.into())
    }
}

impl<S: AsyncWrite + Unpin, W> ProblemBodyStream<S, W> {
    fn poll_own(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.own.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, &self.own))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.own.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin, W: Unpin> AsyncRead for ProblemBodyStream<S, W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S, W> AsyncWrite for ProblemBodyStream<S, W>
where
    S: AsyncWrite + Unpin,
    W: Fn(StatusCode) -> Response<Bytes> + Unpin,
{
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(own) = self.reworded(bytes) {
            self.own = own;
            return Poll::Ready(Ok(bytes.len()));
        }
        ready!(self.poll_own(context))?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.stage.is_idle() {
            // A bare status is one piece.
            let first = pieces.iter().find(|piece| !piece.is_empty()).map_or(&[][..], |piece| piece);
            return self.poll_write(context, first);
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_own(context))?;
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.stage.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_own(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
