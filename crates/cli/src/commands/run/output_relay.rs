//! What CMD prints, passed on and taken as a sign of progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_warden::WardenHandle;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdout};
use tokio::task::JoinHandle;

use crate::output::Failure;

/// How long to wait for the last of the output after everything that could print is gone.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The tasks that pass CMD's output on; none if it goes straight to ours.
pub(super) struct OutputRelay {
    heard: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl OutputRelay {
    pub(super) fn begin(warden: &mut WardenHandle) -> Result<OutputRelay, Failure> {
        let heard = warden.terminal_heard().unwrap_or_default();
        let (stdout, stderr) = warden.take_output();
        let mut tasks = Vec::new();
        if let Some(stdout) = stdout {
            let from = ChildStdout::from_std(stdout)?;
            tasks.push(tokio::spawn(pass_on(from, tokio::io::stdout(), Arc::clone(&heard))));
        }
        if let Some(stderr) = stderr {
            let from = ChildStderr::from_std(stderr)?;
            tasks.push(tokio::spawn(pass_on(from, tokio::io::stderr(), Arc::clone(&heard))));
        }
        Ok(OutputRelay { heard, tasks })
    }

    /// Whether CMD has printed something since the last time this was asked.
    pub(super) fn heard(&self) -> bool {
        self.heard.swap(false, Ordering::AcqRel)
    }

    /// Passes the rest on. CMD and its warden are gone, so that the pipes end.
    pub(super) async fn end(self) {
        for task in self.tasks {
            let _ = tokio::time::timeout(LAST_WORDS, task).await;
        }
    }
}

async fn pass_on(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, heard: Arc<AtomicBool>) {
    let mut buffer = [0; 8_192];
    loop {
        match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                heard.store(true, Ordering::Release);
                // Whoever reads us may have gone; CMD's output is then lost, as it would be without us.
                let _ = to.write_all(&buffer[..count]).await;
                let _ = to.flush().await;
            }
        }
    }
}
