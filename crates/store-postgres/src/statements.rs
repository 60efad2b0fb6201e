//! The statements of a store. Each is one of SQL, and a transaction of its own.

use std::time::Duration;

use crate::names::Names;

/// The record under a key with its age, and the mark of the key, as of one moment of the server.
const READ: &str = "\
SELECT pg_is_in_recovery(), t.record::text, t.version::text,
    t.kind, t.election, t.leader, t.fencing_token, t.state, t.lease_ms, t.store,
    (extract(epoch FROM clock_timestamp() - t.beat) * 1000000)::bigint,
    m.epoch, m.lease_ms, (extract(epoch FROM clock_timestamp() - m.beat) * 1000000)::bigint
FROM (SELECT $1::text AS key) AS asked
    LEFT JOIN @table@ AS t ON t.key = asked.key LEFT JOIN @marks@ AS m ON m.key = asked.key";

/// The moment of a swap. A statement that waits for a lock gives up before its client does, so that no swap is applied long
/// after its client turned away; and a server that may lose what it answered is told not to, for this transaction.
const BOUNDS: &str = "\
WITH bounds AS MATERIALIZED (
    SELECT clock_timestamp() AS at, set_config('lock_timeout', '@lock@', true),
        CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END
)";

/// Raises the mark of an election if the swap was applied.
const MARK: &str = "\
    ON CONFLICT (key) DO UPDATE SET epoch = greatest(m.epoch, excluded.epoch), lease_ms = excluded.lease_ms, beat = NULL
)
SELECT version::text FROM swapped";

/// Puts a row where there is none. An election begins above its mark: whoever decided before the mark rose decides again.
const INSERT: &str = ", swapped AS (
    INSERT INTO @table@ AS t (key, kind, election, leader, fencing_token, state, lease_ms, store,
        record, lease_expiration, beat, version)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8,
        $9::text::json, at + $7 * interval '1 millisecond', at, gen_random_uuid() FROM bounds
    WHERE $2 <> 'election' OR NOT EXISTS (
        SELECT FROM @marks@ AS o WHERE o.key = $1 AND (o.epoch > $5 OR o.epoch = $5 AND $4 IS NOT NULL))
    ON CONFLICT (key) DO NOTHING
    RETURNING t.version
), marked AS (
    INSERT INTO @marks@ AS m (key, epoch, lease_ms)
    SELECT $1, $5, coalesce($7, 0) FROM swapped WHERE $2 = 'election'
";

/// Replaces a row of a version. The mark is touched only if it changes: a renewal writes one row.
const UPDATE: &str = ", swapped AS (
    UPDATE @table@ AS t SET kind = $2, election = $3, leader = $4, fencing_token = $5, state = $6, lease_ms = $7,
        store = $8, record = $9::text::json, version = gen_random_uuid(),
        lease_expiration = CASE WHEN $11 THEN at ELSE t.beat END + $7 * interval '1 millisecond',
        beat = CASE WHEN $11 THEN at ELSE t.beat END
    FROM bounds WHERE t.key = $1 AND t.version = $10::text::uuid
    RETURNING t.version
), marked AS (
    INSERT INTO @marks@ AS m (key, epoch, lease_ms)
    SELECT $1, $5, coalesce($7, 0) FROM swapped WHERE $2 = 'election' AND NOT EXISTS (
        SELECT FROM @marks@ AS o
        WHERE o.key = $1 AND o.epoch >= $5 AND o.lease_ms = coalesce($7, 0) AND o.beat IS NULL)
";

/// The statements of one store, with its names in them.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) read: String,
    pub(crate) insert: String,
    pub(crate) update: String,
    /// The version under a key.
    pub(crate) version: String,
    /// The keys of a kind, of one election or of all.
    pub(crate) list: String,
    /// The server's wall clock, in milliseconds since 1970.
    pub(crate) wall: &'static str,
}

impl Statements {
    pub(crate) fn new(names: &Names, bound: Duration) -> Statements {
        let lock = bound.mul_f64(0.3).as_millis().max(1).to_string();
        let bounds = BOUNDS.replace("@lock@", &lock);
        Statements {
            read: names.fill(READ),
            insert: names.fill(&format!("{bounds}{INSERT}{MARK}")),
            update: names.fill(&format!("{bounds}{UPDATE}{MARK}")),
            version: names.fill("SELECT t.version::text FROM @table@ AS t WHERE t.key = $1"),
            wall: "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
            list: names.fill(
                "SELECT t.key FROM @table@ AS t WHERE t.kind = $1 AND ($2::text IS NULL OR t.election = $2)",
            ),
        }
    }
}
