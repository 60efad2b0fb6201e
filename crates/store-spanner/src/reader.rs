//! Reading.

use baton_election::{Epoch, Span, WallTime};
use baton_store::{Key, Prefix, Reading, StoreError, Trace, boot};
use google_cloud_spanner::result::Row;
use google_cloud_spanner::value::FromValue;

use crate::client::Client;
use crate::fault;
use crate::shape::{self, ElectionRow, Intact, KeptRow, Mark, MarkRow};
use crate::sql;

/// What a key's row is called in errors.
fn place(client: &Client, key: &Key) -> String {
    let tables = &client.settings.tables;
    let table = match key.as_election() {
        Some(_) => &tables.elections,
        None => &tables.records,
    };
    format!("the row `{key}` of `{table}` in {}", client.location())
}

/// What is under a key: one statement, and a second one only where a row of an election was deleted.
pub(crate) async fn read(client: &Client, key: &Key) -> Result<Reading, StoreError> {
    let asked_at = boot::now();
    let (found, trace) = match key.as_election() {
        Some(_) => election(client, key).await?,
        None => other(client, key).await?,
    };
    let age = found.as_ref().map(|intact| intact.age);
    let found = found.map(|intact| (intact.record, intact.version));
    Ok(Reading { found, age, trace, asked_at, received_at: boot::now() })
}

async fn election(client: &Client, key: &Key) -> Result<(Option<Intact>, Option<Trace>), StoreError> {
    let rows = client.query(&sql::read_election(&client.settings.tables, key)).await?;
    let Some(row) = rows.first() else { return Ok((None, Some(shape::trace(None)))) };
    let shaped = || -> google_cloud_spanner::Result<(Option<ElectionRow>, Option<MarkRow>)> {
        let there = !row.is_null(0)?;
        let kept = KeptRow { record: row.get(3)?, version: row.get(4)?, age_us: row.get(5)? };
        let election = ElectionRow { leader: row.get(1)?, token: row.get(2)?, kept };
        let (token, lease_ms): (Option<i64>, Option<i64>) = (row.get(6)?, row.get(7)?);
        let gone_us = row.get(8)?;
        let mark =
            token.zip(lease_ms).map(|(token, lease_ms)| MarkRow { mark: Mark { token, lease_ms }, gone_us });
        Ok((there.then_some(election), mark))
    };
    let (election, mark) = shaped().map_err(|error| misshaped(client, &error))?;
    match election {
        Some(row) => Ok((Some(shape::election(key, &place(client, key), row, mark)?), None)),
        None => {
            if mark.is_some_and(|mark| mark.gone_us.is_none() && mark.mark.lease_ms > 0) {
                note_gone(client, key).await;
            }
            Ok((None, Some(shape::trace(mark))))
        }
    }
}

/// Notes that a row was deleted, so that the lease which it may have held runs out for everybody at the same time.
///
/// Whoever may not write leaves it to others, and until then the lease counts in full.
async fn note_gone(client: &Client, key: &Key) {
    let noted = crate::writer::transact(client, vec![sql::note_gone(&client.settings.tables, key)]).await;
    drop(noted);
}

async fn other(client: &Client, key: &Key) -> Result<(Option<Intact>, Option<Trace>), StoreError> {
    let rows = client.query(&sql::read_record(&client.settings.tables, key)).await?;
    let Some(row) = rows.first() else {
        return Ok((None, Some(Trace { epoch: Epoch(0), lease: Span::ZERO })));
    };
    let shaped = || -> google_cloud_spanner::Result<KeptRow> {
        Ok(KeptRow { record: row.get(0)?, version: row.get(1)?, age_us: row.get(2)? })
    };
    let row = shaped().map_err(|error| misshaped(client, &error))?;
    Ok((Some(shape::other(key, &place(client, key), row)?), None))
}

/// The version that stands under a key.
pub(crate) async fn version(client: &Client, key: &Key) -> Result<Option<String>, StoreError> {
    let rows = client.query(&sql::read_version(&client.settings.tables, key)).await?;
    match rows.first() {
        None => Ok(None),
        Some(row) => cell(client, row, 0),
    }
}

/// Spanner's wall clock.
pub(crate) async fn wall(client: &Client) -> Result<Option<WallTime>, StoreError> {
    let rows = client.query(&sql::wall()).await?;
    let millis: Option<i64> = match rows.first() {
        None => None,
        Some(row) => cell(client, row, 0)?,
    };
    Ok(millis.and_then(|millis| u64::try_from(millis).ok()).map(WallTime::from_unix_millis))
}

/// The keys of a kind, in order. Rows whose key no Baton would give belong to somebody else and are left alone.
pub(crate) async fn list(client: &Client, prefix: &Prefix) -> Result<Vec<Key>, StoreError> {
    let rows = client.query(&sql::list(&client.settings.tables, prefix)).await?;
    let mut keys = Vec::with_capacity(rows.len());
    for row in &rows {
        let text: Option<String> = cell(client, row, 0)?;
        keys.extend(text.and_then(|text| Key::parse(&text)).filter(|key| prefix.covers(key)));
    }
    keys.sort();
    Ok(keys)
}

/// What a column of a row holds.
pub(crate) fn cell<T: FromValue>(client: &Client, row: &Row, column: usize) -> Result<T, StoreError> {
    row.get(column).map_err(|error| misshaped(client, &error))
}

fn misshaped(client: &Client, error: &google_cloud_spanner::Error) -> StoreError {
    fault::RequestError::of(error, &client.settings).not_applied(client.location())
}
