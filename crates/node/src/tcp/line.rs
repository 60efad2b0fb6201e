//! A connection on which both have shown who they are.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf, WriteHalf};

use super::frame::{FrameError, read_frame, write_frame};
use super::secret::{SEAL_BYTES, Sealer};

/// A stream of bytes both ways: TCP, or TLS on it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Why nothing more is read from a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It was changed on the way, repeated, left out, or is somebody else's.
    #[error("a message without a true seal came")]
    Unsealed,
}

/// The half from which is read. After an error nothing more can be read.
pub(crate) struct Reader {
    pub(super) stream: ReadHalf<Box<dyn Stream>>,
    pub(super) sealer: Option<Sealer>,
}

/// The half to which is written.
pub(crate) struct Writer {
    pub(super) stream: WriteHalf<Box<dyn Stream>>,
    pub(super) sealer: Option<Sealer>,
}

impl Reader {
    /// The next content. Must not be dropped half way and called again.
    pub(crate) async fn receive(&mut self) -> Result<Vec<u8>, LineError> {
        let content = read_frame(&mut self.stream).await?;
        if let Some(sealer) = &mut self.sealer {
            let mut seal = [0; SEAL_BYTES];
            self.stream.read_exact(&mut seal).await.map_err(FrameError::Io)?;
            if !sealer.opens(&content, &seal) {
                return Err(LineError::Unsealed);
            }
        }
        Ok(content)
    }

    /// Waits until the other side closes the connection, or says something that it should not. May be dropped.
    pub(crate) async fn closed(&mut self) {
        let _ended = self.stream.read(&mut [0; 1]).await;
    }
}

impl Writer {
    /// Sends a content. Must not be dropped half way and called again.
    pub(crate) async fn send(&mut self, content: &[u8]) -> io::Result<()> {
        match &mut self.sealer {
            Some(sealer) => write_frame(&mut self.stream, content, &sealer.seal(content)).await,
            None => write_frame(&mut self.stream, content, &[]).await,
        }
    }
}
