//! Looks at the election in the store that those who ask at the same time share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton::View;
use baton_http_listener::Problem;
use tokio::sync::Mutex;

/// What a look has shown.
type SharedLook<V> = Result<Arc<V>, Problem>;

/// One look at a time. A caller gets what a look shows that began after the call, and so waits for two looks
/// at most.
#[derive(Debug)]
pub(crate) struct Looks<V = View> {
    /// How many have begun.
    begun: AtomicU64,
    /// The last that has ended, and which it was. Whoever has this looks; the others wait in the order in which they came.
    last: Mutex<Option<(u64, SharedLook<V>)>>,
}

impl<V> Default for Looks<V> {
    fn default() -> Looks<V> {
        Looks { begun: AtomicU64::new(0), last: Mutex::default() }
    }
}

impl<V> Looks<V> {
    /// What a look shows, be it this one or another's. If whoever looks gives up, the next in line looks.
    pub(crate) async fn look(&self, view: impl Future<Output = Result<V, Problem>>) -> SharedLook<V> {
        let asked = self.begun.load(Ordering::SeqCst);
        let mut last = self.last.lock().await;
        if let Some((_, seen)) = last.as_ref().filter(|(number, _)| *number > asked) {
            return seen.clone();
        }
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let seen = view.await.map(Arc::new);
        *last = Some((number, seen.clone()));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks, and sees a number once `go` has a permit for it.
    fn ask(
        looks: &Arc<Looks<u64>>,
        shown: u64,
        go: &Arc<tokio::sync::Semaphore>,
    ) -> tokio::task::JoinHandle<u64> {
        let (looks, go) = (Arc::clone(looks), Arc::clone(go));
        tokio::spawn(async move {
            let view = async {
                go.acquire().await.unwrap().forget();
                Ok(shown)
            };
            *looks.look(view).await.unwrap()
        })
    }

    #[tokio::test]
    async fn a_look_is_shared_by_those_who_asked_before_it_began() {
        let (looks, go) = (Arc::default(), Arc::new(tokio::sync::Semaphore::new(0)));
        let first = ask(&looks, 1, &go);
        tokio::task::yield_now().await;
        let late: Vec<_> = (2..40).map(|number| ask(&looks, number, &go)).collect();
        tokio::task::yield_now().await;
        // One for the first, and one for all the others, who must not be shown what is older than their question.
        go.add_permits(2);
        assert_eq!(first.await.unwrap(), 1);
        for asking in late {
            assert_eq!(asking.await.unwrap(), 2);
        }
    }

    #[tokio::test]
    async fn who_gives_up_holds_nobody_up() {
        let (looks, go) = (Arc::default(), Arc::new(tokio::sync::Semaphore::new(0)));
        let first = ask(&looks, 1, &go);
        tokio::task::yield_now().await;
        let second = ask(&looks, 2, &go);
        tokio::task::yield_now().await;
        first.abort();
        go.add_permits(1);
        assert_eq!(second.await.unwrap(), 2);
    }
}
