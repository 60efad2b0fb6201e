//! What a stranger may send to a member's port.

use super::frame::{read_frame, read_preamble};
use super::greeting;

/// The frames of a stream, until it ends or makes no sense.
pub(crate) fn frames(data: &[u8]) -> Vec<Vec<u8>> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else { return Vec::new() };
    runtime.block_on(async {
        let mut stream = data;
        let mut frames = Vec::new();
        if read_preamble(&mut stream).await.is_ok() {
            while let Ok(frame) = read_frame(&mut stream).await {
                frames.push(frame);
            }
        }
        frames
    })
}

/// Reads a frame as each part of a greeting.
pub(crate) fn greeting(frame: &[u8]) {
    greeting::understand(frame);
}
