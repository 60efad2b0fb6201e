//! Between a record and its row.
//!
//! The version of a row is `TOKEN.LEASE.NONCE.SEAL` in the table of elections and `NONCE.SEAL` in the other. The nonce is
//! random, so that a version never comes back and two equal swaps are told apart. The seal is the SHA-256 of what the
//! row must say; the statement that changes a row computes it again, so that a row which somebody else has changed is
//! not overwritten. Token and lease tell whoever swaps whether the mark must change with the row, without asking.

use baton_election::lease::MAX_TTL;
use baton_election::{ContentHash, Document, Epoch, Span};
use baton_store::{Key, Record, StoreError, Trace, Version};
use serde::Serialize;

/// How much the clocks of two of Spanner's servers may differ: as much is taken off every age.
pub(crate) const UNCERTAINTY: Span = Span::millis(10);
/// At the end of a version that was read: the mark does not fit the row, and the next swap puts it right.
const MARK_IS_OFF: char = '!';

/// What the table of marks keeps of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The highest token.
    pub(crate) token: i64,
    /// How long the running lease lasts after a renewal; 0 without one.
    pub(crate) lease_ms: i64,
}

/// An election as its row shows it.
#[derive(Clone, Debug)]
pub(crate) struct ElectionColumns {
    pub(crate) leader: Option<String>,
    pub(crate) mark: Mark,
    /// How long the lease lasts after the beat; none without one.
    pub(crate) lease_ms: Option<i64>,
    pub(crate) metadata: String,
    pub(crate) record: String,
}

/// What people may want to know of an election.
#[derive(Serialize)]
struct Metadata<'a> {
    state: String,
    task: Option<String>,
    phase: Option<String>,
    incarnation: Option<String>,
    acquired: Option<String>,
    ttl_ms: Option<u64>,
    renewals: Option<u64>,
    reserved_for: Option<&'a str>,
}

/// A row of an election as it was found; any column may be empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct ElectionRow {
    pub(crate) leader: Option<String>,
    pub(crate) token: Option<i64>,
    pub(crate) kept: KeptRow,
}

/// The columns that both tables of records have.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRow {
    pub(crate) record: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) age_us: Option<i64>,
}

/// A row of the table of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MarkRow {
    pub(crate) mark: Mark,
    /// For how long the election's row has been known to be gone.
    pub(crate) gone_us: Option<i64>,
}

/// What a row holds that is as a Baton left it.
pub(crate) struct Intact {
    pub(crate) record: Record,
    pub(crate) version: Version,
    pub(crate) age: Span,
}

impl ElectionColumns {
    /// None if the numbers are beyond what a column takes.
    pub(crate) fn of(document: &Document, record: String) -> Option<ElectionColumns> {
        let millis = |span: Span| i64::try_from(span.as_millis()).ok();
        let holder = document.lease_holder();
        Some(ElectionColumns {
            leader: document.leader.as_ref().map(|leader| leader.agent.to_string()),
            mark: mark(document)?,
            lease_ms: match holder {
                Some(holder) => Some(millis(holder.lease())?),
                None => None,
            },
            metadata: metadata(document),
            record,
        })
    }

    /// A version for this row that no row has had.
    pub(crate) fn version(&self, nonce: &str) -> String {
        let seal = seal_of_election(self.leader.as_deref(), self.mark.token, &self.record);
        format!("{}.{}.{nonce}.{seal}", self.mark.token, self.mark.lease_ms)
    }
}

/// What the mark of an election must say. An offer is counted in full: claiming it does not change the mark.
fn mark(document: &Document) -> Option<Mark> {
    let lease = document.lease_holder().map_or(Span::ZERO, |holder| holder.ttl);
    Some(Mark {
        token: i64::try_from(document.epoch.0).ok()?,
        lease_ms: i64::try_from(lease.as_millis()).ok()?,
    })
}

fn metadata(document: &Document) -> String {
    let leader = document.leader.as_ref();
    // Control characters are for nobody to read, and databases differ in whether their JSON may hold them.
    let plain = |text: &str| text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    let metadata = Metadata {
        state: document.state.to_string(),
        task: document.task.as_deref().map(plain),
        phase: leader.map(|leader| leader.phase.to_string()),
        incarnation: leader.map(|leader| leader.incarnation.to_string()),
        acquired: leader.map(|leader| leader.acquired.to_string()),
        ttl_ms: leader.map(|leader| leader.ttl.as_millis()),
        renewals: leader.map(|leader| leader.renewals),
        reserved_for: document.reserved_for.as_ref().map(|reserved| reserved.agent.as_str()),
    };
    let Ok(text) = serde_json::to_string(&metadata) else {
        unreachable!("metadata is always expressible as JSON")
    };
    text
}

/// The seal of an election's row; [`crate::sql::SEAL_OF_ELECTION`] computes the same.
fn seal_of_election(leader: Option<&str>, token: i64, record: &str) -> String {
    ContentHash::of(format!("{}\n{token}\n{record}", leader.unwrap_or_default()).as_bytes()).to_string()
}

/// A version for a row of the other table that no row has had; [`crate::sql::SEAL_OF_RECORD`] computes the same seal.
pub(crate) fn version_of_record(record: &str, nonce: &str) -> String {
    format!("{nonce}.{}", ContentHash::of(record.as_bytes()))
}

/// What no other swap has; none if the system has no random numbers.
pub(crate) fn nonce() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The version as it stands in the row, and what the mark says as far as the version tells.
pub(crate) fn expected(version: &Version) -> (&str, Option<Mark>) {
    let text = version.as_str();
    if let Some(text) = text.strip_suffix(MARK_IS_OFF) {
        return (text, None);
    }
    let mut parts = text.split('.');
    let mut number = || parts.next()?.parse().ok();
    let mark = number().and_then(|token| Some(Mark { token, lease_ms: number()? }));
    (text, mark)
}

/// The election in its row, if nobody else had a hand in it.
pub(crate) fn election(
    key: &Key,
    place: &str,
    row: ElectionRow,
    kept: Option<MarkRow>,
) -> Result<Intact, StoreError> {
    let seal = match (row.token, &row.kept.record) {
        (Some(token), Some(record)) => seal_of_election(row.leader.as_deref(), token, record),
        (Some(_) | None, Some(_) | None) => return Err(half_written(place)),
    };
    let mut intact = record(key, place, row.kept, &seal)?;
    let Record::Election(document) = &intact.record else { return Ok(intact) };
    let Some(should) = mark(document) else { return Err(half_written(place)) };
    match kept {
        Some(kept) if kept.mark.token > should.token => {
            return Err(StoreError::Corrupt {
                place: place.to_string(),
                why: format!(
                    "its token is {}, but {} was given before: somebody put an old row back",
                    should.token, kept.mark.token
                ),
                hint: "delete the row: tokens go on rising from the highest one".to_string(),
            });
        }
        Some(kept) if kept.mark == should && kept.gone_us.is_none() => {}
        Some(_) | None => {
            intact.version = Version::new(&format!("{}{MARK_IS_OFF}", intact.version.as_str()));
        }
    }
    Ok(intact)
}

/// The record in a row of the other table.
pub(crate) fn other(key: &Key, place: &str, row: KeptRow) -> Result<Intact, StoreError> {
    let Some(text) = &row.record else { return Err(half_written(place)) };
    let seal = ContentHash::of(text.as_bytes()).to_string();
    record(key, place, row, &seal)
}

fn record(key: &Key, place: &str, row: KeptRow, seal: &str) -> Result<Intact, StoreError> {
    let (Some(text), Some(version), Some(age)) = (row.record, row.version, row.age_us) else {
        return Err(half_written(place));
    };
    // A newer Baton may seal otherwise; it is recognised first.
    let record = Record::from_json(key, &text).map_err(|error| error.at(place))?;
    if version.rsplit('.').next() != Some(seal) {
        return Err(StoreError::Corrupt {
            place: place.to_string(),
            why: "it was changed by hand or by another program: leader, token and record do not fit its version"
                .to_string(),
            hint: "put back what was there, or delete the row: tokens go on rising".to_string(),
        });
    }
    Ok(Intact { record, version: Version::new(&version), age: lower_bound(age) })
}

/// What is known of an election that has no row.
pub(crate) fn trace(kept: Option<MarkRow>) -> Trace {
    let Some(kept) = kept else { return Trace { epoch: Epoch(0), lease: Span::ZERO } };
    let lease = Span::millis(u64::try_from(kept.mark.lease_ms).unwrap_or(0)).min(MAX_TTL);
    let gone = kept.gone_us.map_or(Span::ZERO, lower_bound);
    Trace { epoch: Epoch(u64::try_from(kept.mark.token).unwrap_or(0)), lease: lease.minus(gone) }
}

/// The time that has surely passed between two stamps that are so many microseconds apart.
fn lower_bound(microseconds: i64) -> Span {
    Span::nanos(u64::try_from(microseconds).unwrap_or(0).saturating_mul(1_000)).minus(UNCERTAINTY)
}

fn half_written(place: &str) -> StoreError {
    StoreError::Corrupt {
        place: place.to_string(),
        why: "columns that every row of Baton has are empty".to_string(),
        hint: "another program uses the table: give Baton its own with ?table=NAME, or delete the row"
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_tells_what_the_mark_says() {
        let mark = |text: &str| expected(&Version::new(text)).1;
        assert_eq!(mark("7.30000.ab.cd"), Some(Mark { token: 7, lease_ms: 30_000 }));
        assert_eq!(mark("7.30000.ab.cd!"), None);
        assert_eq!(expected(&Version::new("7.30000.ab.cd!")).0, "7.30000.ab.cd");
        assert_eq!(mark("1:none"), None);
        assert_eq!(mark("ab.cd"), None);
    }

    #[test]
    fn ages_are_rounded_down_and_never_negative() {
        assert_eq!(lower_bound(-5), Span::ZERO);
        assert_eq!(lower_bound(9_999), Span::ZERO);
        assert_eq!(lower_bound(1_010_000), Span::secs(1));
    }

    #[test]
    fn a_trace_runs_out() {
        let kept = |gone_us| Some(MarkRow { mark: Mark { token: 4, lease_ms: 2_000 }, gone_us });
        assert_eq!(trace(None), Trace { epoch: Epoch(0), lease: Span::ZERO });
        assert_eq!(trace(kept(None)), Trace { epoch: Epoch(4), lease: Span::secs(2) });
        assert_eq!(trace(kept(Some(510_000))).lease, Span::millis(1_500));
        assert_eq!(trace(kept(Some(9_000_000))).lease, Span::ZERO);
    }

    #[test]
    fn nonces_differ() {
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }
}
