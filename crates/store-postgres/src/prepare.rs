//! Laying out the tables, unless they are there; and never over somebody else's.

use baton_store::StoreError;
use tokio_postgres::types::Type;

use crate::fault::Act;
use crate::names::Names;
use crate::pool::Pool;

/// What the columns must be called and of what type they must be; there may be more.
const TABLE: [(&str, &str); 12] = [
    ("key", "text"),
    ("kind", "text"),
    ("election", "text"),
    ("leader", "text"),
    ("fencing_token", "bigint"),
    ("state", "text"),
    ("lease_ms", "bigint"),
    ("lease_expiration", "timestamp with time zone"),
    ("store", "text"),
    ("beat", "timestamp with time zone"),
    ("version", "uuid"),
    ("record", "json"),
];
const MARKS: [(&str, &str); 4] =
    [("key", "text"), ("epoch", "bigint"), ("lease_ms", "bigint"), ("beat", "timestamp with time zone")];

/// What there is of the names, in one row.
const INSPECT: &str = "\
SELECT to_regclass($1) IS NOT NULL, to_regclass($2) IS NOT NULL,
    ARRAY(SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped),
    ARRAY(SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute
        WHERE attrelid = to_regclass($2) AND attnum > 0 AND NOT attisdropped),
    (SELECT count(*) FROM pg_class WHERE oid IN (to_regclass($1), to_regclass($2)) AND relkind = 'r') = 2
    AND (SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass($1)
        AND tgname IN ('baton_by_hand', 'baton_changed', 'baton_emptied')) = 3
    AND EXISTS (SELECT FROM pg_proc WHERE oid = to_regprocedure($3) AND position(prosrc IN $5) > 0)
    AND EXISTS (SELECT FROM pg_proc WHERE oid = to_regprocedure($4) AND position(prosrc IN $5) > 0)";

/// Several who lay out at once do it one after the other; none waits for long for somebody who uses the tables.
const ALONE: &str = "\
SELECT set_config('lock_timeout', '@lock@', true);
SELECT pg_advisory_xact_lock(hashtext('baton layout'));
";

/// Lays out what is not there.
pub(crate) async fn prepare(pool: &Pool) -> Result<(), StoreError> {
    if is_complete(pool).await? {
        return Ok(());
    }
    let lock = pool.limits.request.mul_f64(0.3).as_millis().max(1).to_string();
    let names = &pool.faults.names;
    pool.run_all(Act::Prepare, &format!("{}{}", ALONE.replace("@lock@", &lock), names.layout())).await
}

async fn is_complete(pool: &Pool) -> Result<bool, StoreError> {
    let names = &pool.faults.names;
    let Names { table, marks, changed, fence, plain } = names;
    let (changed, fence) = (format!("{changed}()"), format!("{fence}(text, text, bigint)"));
    let layout = names.layout();
    let texts = [table, marks, &changed, &fence, &layout];
    let values: Vec<_> = texts.iter().map(|text| (text as _, Type::TEXT)).collect();
    let rows = pool.run(Act::Prepare, INSPECT, &values).await?;
    let Some(row) = rows.first() else { return Ok(false) };
    let odd = |error: tokio_postgres::Error| pool.faults.of(Act::Prepare, &error);
    for (place, wanted) in [TABLE.as_slice(), MARKS.as_slice()].into_iter().enumerate() {
        let is_there: bool = row.try_get(place).map_err(odd)?;
        let has: Vec<String> = row.try_get(place + 2).map_err(odd)?;
        let missing =
            wanted.iter().map(|(name, kind)| format!("{name} {kind}")).find(|column| !has.contains(column));
        if let Some(missing) = missing.filter(|_| is_there) {
            let tail = if place == 0 { "" } else { "_marks" };
            return Err(pool.faults.refused(
                format!(
                    "there is a {plain}{tail} already that is not this Baton's: it has no column `{missing}`"
                ),
                "choose another name with ?table=NAME or ?table=SCHEMA.NAME; nothing was changed",
            ));
        }
    }
    row.try_get(4).map_err(odd)
}
