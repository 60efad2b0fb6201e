//! What goes on by itself, as long as somebody has the engine, and whatever fault ends it in between.

use std::time::Duration;

use tokio::task::JoinHandle;

/// After a fault it begins again so much later: a fault that stays must not take all of a core.
const AFTER_A_FAULT: Duration = Duration::from_millis(100);

/// A task that ends when this is dropped.
pub(super) struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Task {
    /// Begins it, and begins it again whenever it panics.
    pub(super) fn lasting<F: Future<Output = ()> + Send + 'static>(
        make: impl Fn() -> F + Send + 'static,
    ) -> Task {
        Task(tokio::spawn(async move {
            loop {
                let mut once = Task(tokio::spawn(make()));
                match (&mut once.0).await {
                    Err(error) if error.is_panic() => tokio::time::sleep(AFTER_A_FAULT).await,
                    Ok(()) | Err(_) => return,
                }
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fault_does_not_end_it_and_to_drop_it_does() {
        let (begun, (sender, mut ended)) =
            (Arc::new(AtomicUsize::new(0)), tokio::sync::mpsc::unbounded_channel::<()>());
        let task = Task::lasting({
            let begun = Arc::clone(&begun);
            move || {
                let (count, open) = (begun.fetch_add(1, Ordering::SeqCst), sender.clone());
                async move {
                    assert!(count >= 2, "a fault");
                    let _open = open;
                    std::future::pending().await
                }
            }
        });
        while begun.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        drop(task);
        // Nobody has the sender any more: the task is gone, and what it had.
        assert_eq!(ended.recv().await, None);
        assert_eq!(begun.load(Ordering::SeqCst), 3);
    }
}
