//! What is asked of Spanner, statement by statement.
//!
//! Parameters are typed: Spanner would take one whose type it cannot tell for a number.

use std::time::Duration;

use baton_store::{AgeStamp, Key, Prefix};
use google_cloud_gax::exponential_backoff::{ExponentialBackoff, ExponentialBackoffBuilder};
use google_cloud_gax::retry_policy::RetryPolicyExt;
use google_cloud_spanner::retry_policy::SpannerRetryPolicy;
use google_cloud_spanner::statement::{Statement, StatementBuilder};
use google_cloud_spanner::types;

use crate::shape::{ElectionColumns, Mark};
use crate::tables::Tables;

/// How often a statement is sent that did not get through. It is sent again only where that does no harm: outside of a
/// transaction, or in one that is not yet being committed.
const ATTEMPTS: u32 = 3;

/// The seal of an election's row, in GoogleSQL.
pub(crate) const SEAL_OF_ELECTION: &str =
    r"TO_HEX(SHA256(CONCAT(IFNULL(leader_id, ''), '\n', CAST(fencing_token AS STRING), '\n', record)))";
/// The seal of a row of the other table.
pub(crate) const SEAL_OF_RECORD: &str = "TO_HEX(SHA256(record))";

fn statement(sql: String) -> StatementBuilder {
    Statement::builder(sql)
        .with_retry_policy(SpannerRetryPolicy::new().with_attempt_limit(ATTEMPTS))
        .with_backoff_policy(backoff())
}

/// Between the attempts of one request.
pub(crate) fn backoff() -> ExponentialBackoff {
    ExponentialBackoffBuilder::new()
        .with_initial_delay(Duration::from_millis(20))
        .with_maximum_delay(Duration::from_millis(500))
        .clamp()
}

fn keyed(sql: String, key: &Key) -> StatementBuilder {
    statement(sql).add_typed_param("key", key.to_string(), types::string())
}

/// An election's row and its mark, in one reading: one row comes back, whatever is there.
pub(crate) fn read_election(tables: &Tables, key: &Key) -> Statement {
    let Tables { elections, marks, .. } = tables;
    let sql = format!(
        "SELECT e.cluster_id, e.leader_id, e.fencing_token, e.record, e.version, \
         TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), e.beat, MICROSECOND), \
         m.fencing_token, m.lease_ms, TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), m.gone, MICROSECOND) \
         FROM (SELECT @key AS asked) AS a \
         LEFT JOIN `{elections}` AS e ON e.cluster_id = a.asked \
         LEFT JOIN `{marks}` AS m ON m.cluster_id = a.asked"
    );
    keyed(sql, key).build()
}

/// Spanner's wall clock, in milliseconds since 1970.
pub(crate) fn wall() -> Statement {
    statement("SELECT UNIX_MILLIS(CURRENT_TIMESTAMP())".to_string()).build()
}

/// A row of the other table.
pub(crate) fn read_record(tables: &Tables, key: &Key) -> Statement {
    let sql = format!(
        "SELECT record, version, TIMESTAMP_DIFF(CURRENT_TIMESTAMP(), beat, MICROSECOND) FROM `{}` WHERE record_key = @key",
        tables.records
    );
    keyed(sql, key).build()
}

/// The version alone.
pub(crate) fn read_version(tables: &Tables, key: &Key) -> Statement {
    let sql = match key.as_election() {
        Some(_) => format!("SELECT version FROM `{}` WHERE cluster_id = @key", tables.elections),
        None => {
            format!("SELECT version FROM `{}` WHERE record_key = @key", tables.records)
        }
    };
    keyed(sql, key).build()
}

/// The texts of the keys of a kind, and perhaps of some others.
pub(crate) fn list(tables: &Tables, prefix: &Prefix) -> Statement {
    let beginning = match prefix {
        Prefix::Elections => {
            return statement(format!("SELECT cluster_id FROM `{}`", tables.elections)).build();
        }
        Prefix::Audits => {
            let sql = format!(
                "SELECT record_key FROM `{}` WHERE ENDS_WITH(record_key, '/history/0')",
                tables.records
            );
            return statement(sql).build();
        }
        Prefix::Candidates(election) => format!("{election}/candidates/"),
        Prefix::Fences => "fences/".to_string(),
        Prefix::Items(election, kind) => format!("{election}/@{}/", kind.plural()),
    };
    statement(format!(
        "SELECT record_key FROM `{}` WHERE STARTS_WITH(record_key, @beginning)",
        tables.records
    ))
    .add_typed_param("beginning", beginning, types::string())
    .build()
}

/// A new row for an election.
///
/// That there is no row is not enough: another one may have come and been deleted since it was looked. A token is
/// given only above the mark; a row that gives none may stand at it.
pub(crate) fn insert_election(
    tables: &Tables,
    key: &Key,
    shown: &ElectionColumns,
    version: &str,
) -> Statement {
    let Tables { elections, marks, .. } = tables;
    let taken = if shown.leader.is_some() { ">=" } else { ">" };
    let sql = format!(
        "INSERT OR IGNORE INTO `{elections}` \
         (cluster_id, leader_id, lease_expiration, fencing_token, metadata, record, version, beat) \
         SELECT @key, @leader, TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL @lease MILLISECOND), @token, \
         PARSE_JSON(@metadata), @record, @version, CURRENT_TIMESTAMP() FROM (SELECT 1) \
         WHERE NOT EXISTS (SELECT 1 FROM `{marks}` AS m WHERE m.cluster_id = @key AND m.fencing_token {taken} @token)"
    );
    shown_as(keyed(sql, key), shown, version).build()
}

/// Another row for an election, in the place of the one of this version, if nobody else has touched it.
pub(crate) fn update_election(
    tables: &Tables,
    key: &Key,
    expected: &str,
    shown: &ElectionColumns,
    version: &str,
    clock: AgeStamp,
) -> Statement {
    let (beat, since) = match clock {
        AgeStamp::Reset => (", beat = CURRENT_TIMESTAMP()", "CURRENT_TIMESTAMP()"),
        AgeStamp::Preserve => ("", "beat"),
    };
    let sql = format!(
        "UPDATE `{}` SET leader_id = @leader, lease_expiration = TIMESTAMP_ADD({since}, INTERVAL @lease MILLISECOND), \
         fencing_token = @token, metadata = PARSE_JSON(@metadata), record = @record, version = @version{beat} \
         WHERE cluster_id = @key AND version = @expected AND ENDS_WITH(version, {SEAL_OF_ELECTION})",
        tables.elections
    );
    shown_as(keyed(sql, key), shown, version)
        .add_typed_param("expected", expected.to_string(), types::string())
        .build()
}

fn shown_as(statement: StatementBuilder, shown: &ElectionColumns, version: &str) -> StatementBuilder {
    statement
        .add_typed_param("leader", shown.leader.clone(), types::string())
        .add_typed_param("lease", shown.lease_ms, types::int64())
        .add_typed_param("token", shown.mark.token, types::int64())
        .add_typed_param("metadata", shown.metadata.clone(), types::string())
        .add_typed_param("record", shown.record.clone(), types::string())
        .add_typed_param("version", version.to_string(), types::string())
}

/// A new row in the other table.
pub(crate) fn insert_record(tables: &Tables, key: &Key, record: &str, version: &str) -> Statement {
    let sql = format!(
        "INSERT OR IGNORE INTO `{}` (record_key, record, version, beat) \
         VALUES (@key, @record, @version, CURRENT_TIMESTAMP())",
        tables.records
    );
    kept_as(keyed(sql, key), record, version).build()
}

/// Another row in the other table, in the place of the one of this version, if nobody else has touched it.
pub(crate) fn update_record(
    tables: &Tables,
    key: &Key,
    expected: &str,
    record: &str,
    version: &str,
    clock: AgeStamp,
) -> Statement {
    let beat = match clock {
        AgeStamp::Reset => ", beat = CURRENT_TIMESTAMP()",
        AgeStamp::Preserve => "",
    };
    let sql = format!(
        "UPDATE `{}` SET record = @record, version = @version{beat} \
         WHERE record_key = @key AND version = @expected AND ENDS_WITH(version, {SEAL_OF_RECORD})",
        tables.records
    );
    kept_as(keyed(sql, key), record, version)
        .add_typed_param("expected", expected.to_string(), types::string())
        .build()
}

fn kept_as(statement: StatementBuilder, record: &str, version: &str) -> StatementBuilder {
    statement.add_typed_param("record", record.to_string(), types::string()).add_typed_param(
        "version",
        version.to_string(),
        types::string(),
    )
}

/// The mark that goes with an election's row.
pub(crate) fn set_mark(tables: &Tables, key: &Key, mark: Mark) -> Statement {
    let sql = format!(
        "INSERT OR UPDATE INTO `{}` (cluster_id, fencing_token, lease_ms, gone) VALUES (@key, @token, @lease, NULL)",
        tables.marks
    );
    keyed(sql, key)
        .add_typed_param("token", mark.token, types::int64())
        .add_typed_param("lease", mark.lease_ms, types::int64())
        .build()
}

/// Notes that an election's row is gone, unless it is there or that is noted already.
pub(crate) fn note_gone(tables: &Tables, key: &Key) -> Statement {
    let Tables { elections, marks, .. } = tables;
    let sql = format!(
        "UPDATE `{marks}` SET gone = CURRENT_TIMESTAMP() WHERE cluster_id = @key AND gone IS NULL \
         AND NOT EXISTS (SELECT 1 FROM `{elections}` AS e WHERE e.cluster_id = @key)"
    );
    keyed(sql, key).build()
}

/// The tables of these names that are there, column by column.
pub(crate) fn columns(tables: &Tables) -> Statement {
    let names: Vec<String> = tables.all().iter().map(|(table, _)| table.to_lowercase()).collect();
    statement(
        "SELECT LOWER(table_name), LOWER(column_name), spanner_type FROM information_schema.columns \
         WHERE table_schema = '' AND LOWER(table_name) IN UNNEST(@tables)"
            .to_string(),
    )
    .add_typed_param("tables", names, types::array(types::string()))
    .build()
}
