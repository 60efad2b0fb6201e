//! The store itself.

use std::sync::Arc;

use baton_election::lease::MAX_TTL;
use baton_election::time::WallTime;
use baton_election::{Epoch, Span};
use baton_store::{
    AgeStamp, BoxFuture, BoxStream, Change, Cost, Deletion, Durability, Expect, HistoryKept, Key,
    Persistence, Prefix, Reading, Record, Store, StoreError, StoreProperties, StoreUrl, Swapped, Trace,
    Version, Watching, boot,
};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use crate::fault::Act;
use crate::listen::Listener;
use crate::open::{self, Options, Timekeeper};
use crate::pool::{Pool, Value};
use crate::shape::{self, Columns};
use crate::statements::Statements;
use crate::{prepare, watch};

/// A store in a PostgreSQL database. Clones share its connections.
///
/// A value belongs to the tokio runtime that it is first used in. Whoever drops an unfinished swap knows as little as
/// after [`StoreError::Unknown`].
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) inner: Arc<Inner>,
}

/// What the clones of a store share.
pub(crate) struct Inner {
    pub(crate) pool: Arc<Pool>,
    pub(crate) options: Options,
    pub(crate) statements: Statements,
    pub(crate) listener: Listener,
}

impl PostgresStore {
    /// The store that `postgres://USER:PASSWORD@HOST:PORT/DATABASE?…` names. Nothing is asked of the server.
    pub fn open(url: &StoreUrl) -> Result<PostgresStore, StoreError> {
        let (pool, options) = open::parse(url)?;
        let statements = Statements::new(&pool.faults.names, pool.limits.request);
        let pool = Arc::new(pool);
        let listener = Listener::new(Arc::clone(&pool));
        Ok(PostgresStore { inner: Arc::new(Inner { pool, options, statements, listener }) })
    }
}

impl Inner {
    async fn read(&self, key: &Key) -> Result<Reading, StoreError> {
        let asked_at = boot::now();
        let name = key.to_string();
        let rows = self.pool.run(Act::Read, &self.statements.read, &[text(&name)]).await?;
        let received_at = boot::now();
        let Some(row) = rows.first() else { return Err(self.unheard_of("a reading without a row")) };
        if self.column::<bool>(row, 0)? {
            return Err(self.pool.faults.standby());
        }
        let Some(record) = self.column::<Option<String>>(row, 1)? else {
            let trace = self.trace(key, row)?;
            return Ok(Reading { found: None, age: None, trace, asked_at, received_at });
        };
        let columns = Columns {
            kind: self.column(row, 3)?,
            election: self.column(row, 4)?,
            leader: self.column(row, 5)?,
            token: self.column(row, 6)?,
            state: self.column(row, 7)?,
            lease_ms: self.column(row, 8)?,
            store: self.column(row, 9)?,
        };
        let record =
            shape::record(key, &record, &columns).map_err(|not| self.pool.faults.not_a_record(&name, not))?;
        let version: String = self.column(row, 2)?;
        let age = match self.options.timekeeper {
            Timekeeper::Server => Some(micros(self.column(row, 10)?)),
            Timekeeper::Observers => None,
        };
        Ok(Reading { found: Some((record, Version::new(&version))), age, trace: None, asked_at, received_at })
    }

    /// What the mark of an election says that is not there.
    fn trace(&self, key: &Key, row: &Row) -> Result<Option<Trace>, StoreError> {
        let Key::Election(_) = key else { return Ok(None) };
        let epoch: Option<i64> = self.column(row, 11)?;
        let lease_ms: Option<i64> = self.column(row, 12)?;
        let lease = Span::millis(u64::try_from(lease_ms.unwrap_or(0)).unwrap_or(0)).min(MAX_TTL);
        // Without the beat of the deleted row its lease may have begun a moment ago.
        let age = match self.options.timekeeper {
            Timekeeper::Server => self.column::<Option<i64>>(row, 13)?.map_or(Span::ZERO, micros),
            Timekeeper::Observers => Span::ZERO,
        };
        let epoch = Epoch(u64::try_from(epoch.unwrap_or(0)).unwrap_or(0));
        Ok(Some(Trace { epoch, lease: lease.minus(age) }))
    }

    async fn swap(
        &self,
        key: &Key,
        expect: &Expect,
        next: &Record,
        clock: AgeStamp,
    ) -> Result<Swapped, StoreError> {
        let Some(columns) = shape::columns(key, next) else {
            return Err(self
                .pool
                .faults
                .refused("a number of the record is too large for a bigint", "none known"));
        };
        let (name, record) = (key.to_string(), next.to_json());
        let mut values = vec![
            text(&name),
            text(&columns.kind),
            (&columns.election, Type::TEXT),
            (&columns.leader, Type::TEXT),
            (&columns.token, Type::INT8),
            (&columns.state, Type::TEXT),
            (&columns.lease_ms, Type::INT8),
            (&columns.store, Type::TEXT),
            text(&record),
        ];
        let (expected, restart);
        let statement = match expect {
            Expect::Absent => &self.statements.insert,
            Expect::Version(version) if is_uuid(version.as_str()) => {
                (expected, restart) = (version.as_str().to_string(), clock == AgeStamp::Reset);
                values.extend([text(&expected), (&restart as _, Type::BOOL)]);
                &self.statements.update
            }
            // No row ever had such a version.
            Expect::Version(_) => return Err(StoreError::Conflict),
        };
        let rows = self.pool.run(Act::Write, statement, &values).await?;
        let Some(row) = rows.first() else { return Err(StoreError::Conflict) };
        let version: String = self.column(row, 0)?;
        Ok(Swapped { version: Version::new(&version) })
    }

    /// None for whoever does not trust the server's clock.
    async fn wall(&self) -> Result<Option<WallTime>, StoreError> {
        if self.options.timekeeper == Timekeeper::Observers {
            return Ok(None);
        }
        let rows = self.pool.run(Act::Read, self.statements.wall, &[]).await?;
        let Some(row) = rows.first() else { return Err(self.unheard_of("a clock without a row")) };
        let millis = u64::try_from(self.column::<i64>(row, 0)?).unwrap_or(0);
        Ok(Some(WallTime::from_unix_millis(millis)))
    }

    async fn list(&self, prefix: &Prefix) -> Result<Vec<Key>, StoreError> {
        let (kind, election) = match prefix {
            Prefix::Elections => ("election", None),
            Prefix::Candidates(election) => ("candidate", Some(election.to_string())),
            Prefix::Fences => ("fence", None),
            Prefix::Audits => ("audit", None),
            Prefix::Items(election, kind) => (kind.singular(), Some(election.to_string())),
        };
        let kind = kind.to_string();
        let values = [text(&kind), (&election as _, Type::TEXT)];
        let rows = self.pool.run(Act::Read, &self.statements.list, &values).await?;
        let mut keys = Vec::with_capacity(rows.len());
        for row in &rows {
            // A row that is no record of ours is not listed; whoever reads it is told.
            keys.extend(Key::parse(&self.column::<String>(row, 0)?).filter(|key| prefix.covers(key)));
        }
        keys.sort();
        Ok(keys)
    }

    /// The version under a key.
    pub(crate) async fn version(&self, key: &str) -> Result<Option<String>, StoreError> {
        let key = key.to_string();
        let rows = self.pool.run(Act::Read, &self.statements.version, &[text(&key)]).await?;
        rows.first().map(|row| self.column(row, 0)).transpose()
    }

    fn column<'a, T: FromSql<'a>>(&self, row: &'a Row, place: usize) -> Result<T, StoreError> {
        row.try_get(place).map_err(|error| self.unheard_of(&crate::fault::deep(&error)))
    }

    /// An answer of a form that the statement cannot have.
    fn unheard_of(&self, what: &str) -> StoreError {
        let hint = "see that it is PostgreSQL 14 or newer, and that no table was replaced by something else";
        self.pool.faults.refused(format!("the server answered oddly: {what}"), hint)
    }
}

fn text(value: &String) -> Value<'_> {
    (value, Type::TEXT)
}

/// Microseconds between two stamps; a clock that went back between them tells nothing.
fn micros(count: i64) -> Span {
    Span::nanos(u64::try_from(count).unwrap_or(0).saturating_mul(1_000))
}

/// Whether a version is of the form that the server gives.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl Store for PostgresStore {
    fn location(&self) -> String {
        self.inner.pool.faults.location.clone()
    }

    fn read<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Reading, StoreError>> {
        Box::pin(self.inner.read(key))
    }

    fn swap<'a>(
        &'a self,
        key: &'a Key,
        expect: Expect,
        next: &'a Record,
        clock: AgeStamp,
        _persistence: Persistence,
    ) -> BoxFuture<'a, Result<Swapped, StoreError>> {
        Box::pin(async move { self.inner.swap(key, &expect, next, clock).await })
    }

    fn list<'a>(&'a self, prefix: &'a Prefix) -> BoxFuture<'a, Result<Vec<Key>, StoreError>> {
        Box::pin(self.inner.list(prefix))
    }

    fn watch<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<BoxStream<Change>, StoreError>> {
        Box::pin(watch::watch(Arc::clone(&self.inner), key.to_string()))
    }

    /// What it says of watching is what was found by the first watch; before that, that the server pushes.
    fn properties(&self) -> StoreProperties {
        let server = self.inner.options.timekeeper == Timekeeper::Server;
        let polled = self.inner.listener.is_polled();
        StoreProperties {
            age: if server {
                "the server's wall clock: a step of it, or a fail-over to a server whose clock differs, breaks \
                 exclusivity, not fencing; ?clock=observed avoids it"
            } else {
                "how long this observer has itself seen the record unchanged"
            },
            stamped: server,
            watch: if polled { Watching::Polled } else { Watching::Pushed },
            durability: Durability::Remote,
            deletion: Deletion::Survives,
            history: HistoryKept::Beside,
            partition: "a client that cannot reach the server can neither take nor renew a lease, and loses its own; a \
                        fail-over to a lagging replica forgets answered changes, unless replication is synchronous",
            cost: Cost {
                per_renewal: 1,
                looks_per_hour: watch::looks_per_hour(polled, self.inner.options.poll),
            },
        }
    }

    fn wall(&self) -> BoxFuture<'_, Result<Option<WallTime>, StoreError>> {
        Box::pin(self.inner.wall())
    }

    fn layout(&self) -> Option<String> {
        let faults = &self.inner.pool.faults;
        Some(faults.names.layout() + &faults.names.afterwards(&faults.url))
    }

    fn prepare(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(prepare::prepare(&self.inner.pool))
    }
}
