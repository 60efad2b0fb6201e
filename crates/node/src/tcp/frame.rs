//! How bytes stand on the wire: a preamble once, then frames.
//!
//! The preamble is eight bytes that say what this is, and the version, two bytes, high byte first. A frame is a length, four
//! bytes, high byte first, and so many bytes. Guarantees that never more than the bound is built up in memory for whoever is
//! at the other end. Does not guarantee who that is.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::transport::MAX_MESSAGE_BYTES;

/// What stands first on every connection.
pub(crate) const MAGIC: [u8; 8] = *b"BATONPR\n";
/// What is spoken. Another version is another protocol.
pub(crate) const VERSION: u16 = 2;
/// The largest content of a frame: a message, or an answer of the control.
pub(crate) const MAX_FRAME_BYTES: usize = MAX_MESSAGE_BYTES;

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The connection has ended or failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// This is not our protocol.
    #[error("whoever is there does not speak the protocol of `baton peer`")]
    Foreign,
    /// It is, in another version.
    #[error("version {0} of the protocol is spoken there, and version {VERSION} here")]
    Version(u16),
    /// The frame is larger than the bound; the connection cannot be used any more.
    #[error("a message of {0} bytes was announced, and at most {MAX_FRAME_BYTES} are read")]
    Oversized(u64),
}

pub(crate) async fn write_preamble(stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut preamble = [0; MAGIC.len() + 2];
    preamble[..MAGIC.len()].copy_from_slice(&MAGIC);
    preamble[MAGIC.len()..].copy_from_slice(&VERSION.to_be_bytes());
    stream.write_all(&preamble).await
}

/// Refuses other protocols and other versions of ours.
pub(crate) async fn read_preamble(stream: &mut (impl AsyncRead + Unpin)) -> Result<(), FrameError> {
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).await?;
    if magic != MAGIC {
        return Err(FrameError::Foreign);
    }
    match stream.read_u16().await? {
        VERSION => Ok(()),
        other => Err(FrameError::Version(other)),
    }
}

/// One frame, in one piece, so that it leaves in one packet where it fits; `tail` follows the content uncounted.
pub(crate) async fn write_frame(
    stream: &mut (impl AsyncWrite + Unpin),
    content: &[u8],
    tail: &[u8],
) -> io::Result<()> {
    let length = u32::try_from(content.len()).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(4 + content.len() + tail.len());
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(content);
    bytes.extend_from_slice(tail);
    stream.write_all(&bytes).await?;
    stream.flush().await
}

/// The content of the next frame.
pub(crate) async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, FrameError> {
    let length = stream.read_u32().await?;
    let bytes = usize::try_from(length).unwrap_or(usize::MAX);
    if bytes > MAX_FRAME_BYTES {
        return Err(FrameError::Oversized(u64::from(length)));
    }
    let mut content = vec![0; bytes];
    stream.read_exact(&mut content).await?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn now<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn other_protocols_and_versions_are_told_apart() {
        now(async {
            let mut ours = Vec::new();
            write_preamble(&mut ours).await.unwrap();
            assert!(read_preamble(&mut ours.as_slice()).await.is_ok());
            assert!(matches!(read_preamble(&mut &b"GET / HTTP/1.1"[..]).await, Err(FrameError::Foreign)));
            ours[9] = 7;
            assert!(matches!(read_preamble(&mut ours.as_slice()).await, Err(FrameError::Version(7))));
            assert!(matches!(read_preamble(&mut &ours[..5]).await, Err(FrameError::Io(_))));
        });
    }

    #[test]
    fn a_length_above_the_bound_is_not_believed() {
        now(async {
            let mut bytes = u32::MAX.to_be_bytes().to_vec();
            bytes.extend([0; 64]);
            let read = read_frame(&mut bytes.as_slice()).await;
            assert!(matches!(read, Err(FrameError::Oversized(length)) if length == u64::from(u32::MAX)));
        });
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8)) {
            now(async {
                let mut wire = Vec::new();
                for frame in &frames {
                    write_frame(&mut wire, frame, &[]).await.unwrap();
                }
                let mut wire = wire.as_slice();
                for frame in &frames {
                    assert_eq!(&read_frame(&mut wire).await.unwrap(), frame);
                }
                assert!(read_frame(&mut wire).await.is_err(), "there is nothing more");
            });
        }

        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            now(async {
                let mut wire = bytes.as_slice();
                while let Ok(frame) = read_frame(&mut wire).await {
                    assert!(frame.len() <= bytes.len());
                }
            });
        }
    }
}
