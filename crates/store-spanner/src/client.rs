//! The connection and its session, made when first needed and made anew when they fail.
//!
//! Google's library holds on to a connection and to a session for good, though a server that was restarted knows neither
//! and a connection that was cut silently never recovers. What failed so is thrown away here, and the next request
//! begins anew. Every request is bounded in time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_store::StoreError;
use google_cloud_auth::credentials::anonymous;
use google_cloud_gax::options::RequestOptions;
use google_cloud_gax::retry_policy::RetryPolicyExt;
use google_cloud_spanner::channel_pool::StaticChannelPoolConfig;
use google_cloud_spanner::client::{DatabaseClient, Spanner, SpannerBuilderExt};
use google_cloud_spanner::result::Row;
use google_cloud_spanner::retry_policy::SpannerRetryPolicy;
use google_cloud_spanner::statement::Statement;

use crate::fault::{Kind, RequestError};
use crate::open::Settings;
use crate::sql;

/// The longest wait for a connection and a session.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// A way to the database.
pub(crate) struct Client {
    pub(crate) settings: Settings,
    slot: Mutex<Slot>,
    /// Held while a session is made, so that it is made once.
    making: tokio::sync::Mutex<()>,
    /// Held during a transaction on an emulator: it takes only one at a time of a session, and a second one makes it
    /// forget the first.
    turn: tokio::sync::Mutex<()>,
    /// How many statements were sent.
    pub(crate) statements: Arc<AtomicU64>,
}

#[derive(Default)]
struct Slot {
    session: Option<DatabaseClient>,
    /// Which one it is, so that a late failure of a former one does not end it.
    number: u64,
}

/// A session and its number.
pub(crate) struct Session {
    pub(crate) database: DatabaseClient,
    pub(crate) number: u64,
}

impl Client {
    pub(crate) fn new(settings: Settings) -> Client {
        Client {
            settings,
            slot: Mutex::default(),
            making: tokio::sync::Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            statements: Arc::default(),
        }
    }

    pub(crate) fn location(&self) -> String {
        self.settings.location()
    }

    /// Waits for this session's turn to change something, where it must.
    pub(crate) async fn turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        match self.settings.place.emulator {
            Some(_) => Some(self.turn.lock().await),
            None => None,
        }
    }

    /// The rows that a statement finds, as they are at this moment.
    pub(crate) async fn query(&self, statement: &Statement) -> Result<Vec<Row>, StoreError> {
        self.try_query(statement).await.map_err(|fault| fault.not_applied(self.location()))
    }

    /// The same, with the fault as it is.
    pub(crate) async fn try_query(&self, statement: &Statement) -> Result<Vec<Row>, RequestError> {
        let asked = async {
            match self.query_once(statement).await {
                // The server was restarted, or the session was too old: with a new one it goes on.
                Err(fault) if fault.kind == Kind::SessionGone => self.query_once(statement).await,
                answered => answered,
            }
        };
        match tokio::time::timeout(self.settings.limit, asked).await {
            Ok(answered) => answered,
            Err(_) => {
                self.forget_any();
                Err(RequestError::late(self.settings.limit, &self.settings))
            }
        }
    }

    async fn query_once(&self, statement: &Statement) -> Result<Vec<Row>, RequestError> {
        let session = self.session().await?;
        self.statements.fetch_add(1, Ordering::Relaxed);
        let rows = async {
            let mut found = session.database.single_use().build().execute_query(statement.clone()).await?;
            let mut rows = Vec::new();
            while let Some(row) = found.next().await {
                rows.push(row?);
            }
            Ok(rows)
        };
        rows.await.map_err(|error| self.failed(&session, &error))
    }

    /// What an error means, for the session too.
    pub(crate) fn failed(&self, session: &Session, error: &google_cloud_spanner::Error) -> RequestError {
        let fault = RequestError::of(error, &self.settings);
        if fault.spoils_session() {
            self.forget(session.number);
        }
        fault
    }

    /// The session, made if there is none.
    pub(crate) async fn session(&self) -> Result<Session, RequestError> {
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let _making = self.making.lock().await;
        if let Some(session) = self.current() {
            return Ok(session);
        }
        let limit = CONNECT_LIMIT.min(self.settings.limit);
        let made = tokio::time::timeout(limit, self.make()).await;
        let database = made.unwrap_or_else(|_| Err(RequestError::late(limit, &self.settings)))?;
        let mut slot = self.slot();
        slot.number += 1;
        slot.session = Some(database.clone());
        Ok(Session { database, number: slot.number })
    }

    async fn make(&self) -> Result<DatabaseClient, RequestError> {
        // An election asks little: one connection serves it.
        let mut builder = Spanner::builder().with_channel_pool(StaticChannelPoolConfig::new(1));
        if let Some(emulator) = &self.settings.place.emulator {
            builder =
                builder.with_endpoint(&emulator.grpc).with_credentials(anonymous::Builder::new().build());
        }
        let spanner =
            builder.build().await.map_err(|error| RequestError::of_builder(&error, &self.settings))?;
        let mut options = RequestOptions::default();
        options.set_retry_policy(SpannerRetryPolicy::new().with_attempt_limit(3));
        options.set_backoff_policy(sql::backoff());
        let database =
            spanner.database_client(self.settings.place.database_path()).with_request_options(options);
        database.build().await.map_err(|error| RequestError::of(&error, &self.settings))
    }

    fn current(&self) -> Option<Session> {
        let slot = self.slot();
        slot.session.clone().map(|database| Session { database, number: slot.number })
    }

    /// Throws a session away, unless there is another one by now.
    pub(crate) fn forget(&self, number: u64) {
        let mut slot = self.slot();
        if slot.number == number {
            slot.session = None;
        }
    }

    fn forget_any(&self) {
        self.slot().session = None;
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
