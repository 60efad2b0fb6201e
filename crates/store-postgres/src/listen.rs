//! Being told by the server: one connection that LISTENs for all watchers of a store.
//!
//! A pooler that gives each transaction another connection of its own swallows what it is told. So the first watch
//! tries: two connections of ours that turn out to share a session of the server, or a word that is sent and does not
//! arrive, mean that watchers must look for themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_store::{StoreError, jittered};
use tokio::sync::{Mutex, broadcast};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::Type;

use crate::fault::Act;
use crate::pool::{Pool, Session};

/// How many changes a slow watcher may be behind before it is told of a gap.
const BACKLOG: usize = 256;
/// How long a word may take from the server and back.
const ECHO: Duration = Duration::from_secs(2);
/// The first and the longest pause before the next try to be connected again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// What a word to ourselves begins with; no key does.
const TO_OURSELVES: &str = "? ";

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenEvent {
    /// A row has this version; empty if it is gone.
    Changed {
        /// Its key.
        key: String,
        /// Its version.
        version: String,
    },
    /// Something may have been missed.
    Gap,
    /// What we said to ourselves.
    Echo(String),
}

impl ListenEvent {
    fn parse(payload: &str) -> ListenEvent {
        match (payload.strip_prefix(TO_OURSELVES), payload.split_once(' ')) {
            (Some(echo), _) => ListenEvent::Echo(echo.to_string()),
            (None, Some((key, version))) => {
                ListenEvent::Changed { key: key.to_string(), version: version.to_string() }
            }
            (None, None) => ListenEvent::Gap,
        }
    }
}

/// What the server tells one store.
pub(crate) struct Listener {
    pool: Arc<Pool>,
    words: broadcast::Sender<ListenEvent>,
    polled: AtomicBool,
    pump: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(pump) = self.pump.get_mut() {
            pump.abort();
        }
    }
}

impl Listener {
    pub(crate) fn new(pool: Arc<Pool>) -> Listener {
        let (words, _) = broadcast::channel(BACKLOG);
        Listener { pool, words, polled: AtomicBool::new(false), pump: Mutex::default() }
    }

    /// Whether it was found that the server's words do not arrive.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Relaxed)
    }

    /// Everything that is told from now on; none if watchers must look for themselves.
    pub(crate) async fn subscribe(&self) -> Result<Option<broadcast::Receiver<ListenEvent>>, StoreError> {
        let mut pump = self.pump.lock().await;
        if self.is_polled() {
            return Ok(None);
        }
        let heard = self.words.subscribe();
        if pump.is_none() {
            let Some(session) = self.first().await? else {
                self.polled.store(true, Ordering::Relaxed);
                return Ok(None);
            };
            *pump = Some(tokio::spawn(go_on(Arc::clone(&self.pool), self.words.clone(), session)));
        }
        Ok(Some(heard))
    }

    /// The first connection, if words arrive on it.
    async fn first(&self) -> Result<Option<Session>, StoreError> {
        let mut session = connect(&self.pool, &self.words).await?;
        let faults = &self.pool.faults;
        let asked = session.run(&self.pool, "SELECT pg_backend_pid()::text").await?;
        let rows = self.pool.run(Act::Read, "SELECT pg_backend_pid()::text", &[]).await?;
        let theirs = rows.first().map(|row| row.try_get::<_, String>(0)).transpose();
        if theirs.map_err(|error| faults.of(Act::Read, &error))? == asked {
            return Ok(None);
        }
        listen(&self.pool, &mut session).await?;
        let mut heard = self.words.subscribe();
        let nonce = getrandom::u64().map_err(|error| faults.unavailable(error.to_string()))?.to_string();
        let (channel, payload) = (faults.names.channel().to_string(), format!("{TO_OURSELVES}{nonce}"));
        let values = [(&channel as _, Type::TEXT), (&payload as _, Type::TEXT)];
        let _ = self.pool.run(Act::Read, "SELECT pg_notify($1, $2)::text", &values).await?;
        let echoed = async {
            let echo = ListenEvent::Echo(nonce);
            loop {
                match heard.recv().await {
                    Ok(word) if word == echo => return true,
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return false,
                }
            }
        };
        if timeout(ECHO, echoed).await == Ok(true) {
            return Ok(Some(session));
        }
        // A session of the server that a pooler lends to others is left as it was found.
        let _ = session.run(&self.pool, &format!("UNLISTEN \"{channel}\"")).await;
        Ok(None)
    }
}

/// A connection whose notifications become words.
async fn connect(pool: &Pool, words: &broadcast::Sender<ListenEvent>) -> Result<Session, StoreError> {
    let words = words.clone();
    // Nobody may be listening at the moment.
    pool.connect(move |payload| drop(words.send(ListenEvent::parse(payload)))).await
}

async fn listen(pool: &Pool, session: &mut Session) -> Result<(), StoreError> {
    session.run(pool, &format!("LISTEN \"{}\"", pool.faults.names.channel())).await?;
    Ok(())
}

/// Connects again whenever the connection is lost, and tells of the gap.
async fn go_on(pool: Arc<Pool>, words: broadcast::Sender<ListenEvent>, mut session: Session) {
    loop {
        session.lost().await;
        let mut failures = 0;
        session = loop {
            tokio::time::sleep(pause(failures)).await;
            failures += 1;
            if let Ok(mut session) = connect(&pool, &words).await
                && listen(&pool, &mut session).await.is_ok()
            {
                break session;
            }
        };
        let _ = words.send(ListenEvent::Gap);
    }
}

/// How long to wait after so many failures in a row, with jitter.
pub(crate) fn pause(failures: u32) -> Duration {
    let (first, longest) = PAUSES;
    jittered(first.saturating_mul(1 << failures.min(16)).min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_a_change_an_echo_or_a_gap() {
        let changed =
            |key: &str, version: &str| ListenEvent::Changed { key: key.into(), version: version.into() };
        assert_eq!(ListenEvent::parse("a/b v"), changed("a/b", "v"));
        assert_eq!(ListenEvent::parse("a "), changed("a", ""));
        assert_eq!(ListenEvent::parse("? 7"), ListenEvent::Echo("7".into()));
        assert_eq!(ListenEvent::parse(""), ListenEvent::Gap);
    }
}
