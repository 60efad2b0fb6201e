//! A few connections, made when they are needed and made anew when they are lost.
//!
//! Statements are not prepared by name, so that a pooler between us and the server may give each to another of its own
//! connections. One connection carries one statement at a time: one that waits for a lock holds up nobody else.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_store::StoreError;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Config, Row, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::fault::{Act, Faults, is_plain_error};

/// The connections that are used at once.
const MOST: usize = 8;
/// The connections that are kept when nobody needs them.
const KEPT: usize = 2;

/// A value for a statement.
pub(crate) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// To be connected; leaves more of a request than a swap may wait for a lock.
    pub(crate) connect: Duration,
    /// To be connected and to have the answer to a statement.
    pub(crate) request: Duration,
}

/// The connections of one store.
pub(crate) struct Pool {
    config: Config,
    tls: MakeRustlsConnect,
    pub(crate) limits: Limits,
    pub(crate) faults: Faults,
    idle: Mutex<Vec<Session>>,
    room: Semaphore,
}

/// One connection.
pub(crate) struct Session {
    pub(crate) client: Client,
    driver: JoinHandle<()>,
    /// A statement was sent whose answer has not come.
    busy: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        // Without this a connection whose server is silent would be waited on for ever; an idle one says goodbye by itself.
        if self.busy {
            self.driver.abort();
        }
    }
}

impl Session {
    /// Runs one statement without values; the first column of its first row, if it has one.
    pub(crate) async fn run(&mut self, pool: &Pool, sql: &str) -> Result<Option<String>, StoreError> {
        self.busy = true;
        let answer = match timeout(pool.limits.request, self.client.simple_query(sql)).await {
            Err(_) => return Err(pool.faults.silence(Act::Read, pool.limits.request)),
            Ok(outcome) => outcome.map_err(|error| pool.faults.of(Act::Read, &error))?,
        };
        self.busy = false;
        Ok(answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_string),
            _ => None,
        }))
    }

    /// Waits until the connection is lost.
    pub(crate) async fn lost(&mut self) {
        let _ = (&mut self.driver).await;
    }
}

impl Pool {
    pub(crate) fn new(config: Config, tls: MakeRustlsConnect, limits: Limits, faults: Faults) -> Pool {
        Pool { config, tls, limits, faults, idle: Mutex::default(), room: Semaphore::new(MOST) }
    }

    /// A new connection. Notifications that arrive on it are given to `told`.
    pub(crate) async fn connect(&self, told: impl Fn(&str) + Send + 'static) -> Result<Session, StoreError> {
        self.connect_by(Instant::now() + self.limits.connect, told).await
    }

    async fn connect_by(
        &self,
        end: Instant,
        told: impl Fn(&str) + Send + 'static,
    ) -> Result<Session, StoreError> {
        let connecting = timeout_at(end, self.config.connect(self.tls.clone()));
        let (client, mut connection) = match connecting.await {
            Err(_) => return Err(self.faults.silence(Act::Connect, self.limits.connect)),
            Ok(outcome) => outcome.map_err(|error| self.faults.of(Act::Connect, &error))?,
        };
        let driver = tokio::spawn(async move {
            // Ends when the client is dropped and everything is answered, or when the connection is lost.
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    told(notification.payload());
                }
            }
        });
        Ok(Session { client, driver, busy: false })
    }

    /// Runs one statement, in a transaction of its own.
    pub(crate) async fn run(
        &self,
        act: Act,
        sql: &str,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let begun = Instant::now();
        let (mut connected, end) = (begun + self.limits.connect, begun + self.limits.request);
        let Ok(Ok(_room)) = timeout_at(connected, self.room.acquire()).await else {
            return Err(self.faults.unavailable("too many statements are under way".to_string()));
        };
        loop {
            let (mut session, reused) = match self.kept() {
                Some(session) => (session, true),
                None => (self.connect_by(connected, |_| {}).await?, false),
            };
            session.busy = true;
            let outcome = timeout_at(end, session.client.query_typed(sql, values)).await;
            let error = match outcome {
                Err(_) => return Err(self.faults.silence(act, self.limits.request)),
                Ok(Ok(rows)) => {
                    self.keep(session);
                    return Ok(rows);
                }
                Ok(Err(error)) => error,
            };
            let refused = error.as_db_error().is_some_and(is_plain_error);
            if refused {
                self.keep(session);
            } else if reused && act == Act::Read {
                // The connection was lost while nobody used it; the others that were kept are no better.
                self.idle().clear();
                connected = end;
                continue;
            }
            return Err(self.faults.of(act, &error));
        }
    }

    /// Runs several statements in one transaction.
    pub(crate) async fn run_all(&self, act: Act, sql: &str) -> Result<(), StoreError> {
        let end = Instant::now() + self.limits.request;
        let mut session = self.connect(|_| {}).await?;
        session.busy = true;
        match timeout_at(end, session.client.batch_execute(sql)).await {
            Err(_) => Err(self.faults.silence(act, self.limits.request)),
            Ok(Err(error)) => Err(self.faults.of(act, &error)),
            Ok(Ok(())) => {
                self.keep(session);
                Ok(())
            }
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept(&self) -> Option<Session> {
        let mut idle = self.idle();
        idle.retain(|session| !session.client.is_closed());
        idle.pop()
    }

    fn keep(&self, mut session: Session) {
        session.busy = false;
        let mut idle = self.idle();
        if idle.len() < KEPT {
            idle.push(session);
        }
    }
}
