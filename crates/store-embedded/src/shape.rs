//! How records lie in the database.
//!
//! A key is a byte for its kind and the names in it, with a zero between two names: no name has one, so that different
//! keys have different bytes, and their order is that of [`Key`]. A value is a byte for its format, the version, and the
//! record as compact JSON.

use baton_election::audit::Book;
use baton_election::{AgentName, ElectionName, ItemName, ResourceName};
use baton_store::{ItemKind, Key, NotARecord, Prefix, Record};
use redb::{Table, TableDefinition};

/// The form of the database that this Baton writes.
pub(crate) const FORMAT: u64 = 1;

/// All records.
pub(crate) const RECORDS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("records");
/// The transitions of elections, by election and epoch.
pub(crate) const HISTORY: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("history");
/// Numbers about the whole.
pub(crate) const META: TableDefinition<'static, &str, u64> = TableDefinition::new("baton");

/// [`RECORDS`] or [`HISTORY`], open to be changed.
pub(crate) type Rows<'a> = Table<'a, &'static [u8], &'static [u8]>;

/// In [`META`]: the format.
pub(crate) const META_FORMAT: &str = "format";
/// In [`META`]: no version above this was given.
pub(crate) const META_VERSIONS: &str = "versions";
/// In [`META`]: the generation of the journal whose frames are not in the tables yet.
pub(crate) const META_JOURNAL: &str = "journal";
/// In [`META`] of a snapshot: that it is one.
pub(crate) const META_SNAPSHOT: &str = "snapshot";
/// In [`META`], after a restore: no epoch above this was ever given for an election that is not there.
pub(crate) const META_FLOOR: &str = "floor";
/// In [`META`], after a restore: how long leases may last, in milliseconds, that the snapshot did not know of.
pub(crate) const META_LEASE: &str = "lease_ms";

/// The form of a value.
const VALUE_FORMAT: u8 = 1;
/// What comes before the JSON: the format and a number.
const HEADER: usize = 9;

const STORE: u8 = 1;
const ELECTION: u8 = 2;
const CANDIDATE: u8 = 3;
const BESIDE: u8 = 4;
const FENCE: u8 = 5;
const FENCE_LOG: u8 = 6;
const TOKENS: u8 = 7;
const AUDIT: u8 = 8;
/// The first byte of a book that is an election's, behind [`AUDIT`].
const ELECTION_BOOK: u8 = 3;
const ITEM: u8 = 9;

fn joined(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(parts.join(&0));
    bytes
}

/// A key's bytes.
pub(crate) fn key(key: &Key) -> Vec<u8> {
    match key {
        Key::Store => joined(STORE, &[]),
        Key::Tokens => joined(TOKENS, &[]),
        Key::Election(election) => joined(ELECTION, &[election.as_str().as_bytes()]),
        Key::Candidate(election, agent) => {
            joined(CANDIDATE, &[election.as_str().as_bytes(), agent.as_str().as_bytes()])
        }
        Key::History(election) => joined(BESIDE, &[election.as_str().as_bytes()]),
        Key::Fence(resource) => joined(FENCE, &[resource.as_str().as_bytes()]),
        Key::FenceLog(resource, part) => {
            joined(FENCE_LOG, &[resource.as_str().as_bytes(), &part.to_be_bytes()])
        }
        Key::Audit(book, part) => {
            // In the order of the books; no name begins so.
            let book = match book {
                Book::Store => vec![1],
                Book::Tokens => vec![2],
                Book::Election(election) => [&[ELECTION_BOOK], election.as_str().as_bytes()].concat(),
            };
            joined(AUDIT, &[&book, &part.to_be_bytes()])
        }
        Key::Item(election, kind, item) => {
            joined(ITEM, &[election.as_str().as_bytes(), &[kind_byte(*kind)], item.as_str().as_bytes()])
        }
    }
}

/// The key whose bytes these are, if they are one's.
pub(crate) fn parse(bytes: &[u8]) -> Option<Key> {
    let (kind, rest) = bytes.split_first()?;
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let election = |bytes| ElectionName::new(text(bytes)?).ok();
    let resource = |bytes| ResourceName::new(text(bytes)?).ok();
    let halves = || {
        let at = rest.iter().position(|byte| *byte == 0)?;
        Some((&rest[..at], &rest[at + 1..]))
    };
    match *kind {
        STORE => rest.is_empty().then_some(Key::Store),
        TOKENS => rest.is_empty().then_some(Key::Tokens),
        ELECTION => Some(Key::Election(election(rest)?)),
        CANDIDATE => {
            let (name, agent) = halves()?;
            Some(Key::Candidate(election(name)?, AgentName::new(text(agent)?).ok()?))
        }
        BESIDE => Some(Key::History(election(rest)?)),
        FENCE => Some(Key::Fence(resource(rest)?)),
        FENCE_LOG => {
            let (name, part) = halves()?;
            Some(Key::FenceLog(resource(name)?, u64::from_be_bytes(part.try_into().ok()?)))
        }
        AUDIT => {
            let (book, part) = halves()?;
            let book = match book.split_first()? {
                (1, []) => Book::Store,
                (2, []) => Book::Tokens,
                (&ELECTION_BOOK, name) => Book::Election(election(name)?),
                (_, _) => return None,
            };
            Some(Key::Audit(book, u64::from_be_bytes(part.try_into().ok()?)))
        }
        ITEM => {
            let (name, rest) = halves()?;
            let ([kind, 0], item) = rest.split_first_chunk::<2>()? else { return None };
            let kind = ItemKind::ALL.into_iter().find(|known| kind_byte(*known) == *kind)?;
            Some(Key::Item(election(name)?, kind, ItemName::new(text(item)?).ok()?))
        }
        _ => None,
    }
}

/// Stays what it is: it stands in every store. In the order of the kinds.
fn kind_byte(kind: ItemKind) -> u8 {
    match kind {
        ItemKind::Task => b'1',
        ItemKind::Proposal => b'2',
        ItemKind::Quota => b'3',
        ItemKind::Value => b'4',
        ItemKind::Breaker => b'5',
    }
}

/// Between which bytes the keys of a kind lie, perhaps with others; the end is not among them.
pub(crate) fn bounds(prefix: &Prefix) -> (Vec<u8>, Vec<u8>) {
    match prefix {
        Prefix::Elections => (vec![ELECTION], vec![ELECTION + 1]),
        Prefix::Fences => (vec![FENCE], vec![FENCE + 1]),
        // With all parts of each log.
        Prefix::Audits => (vec![AUDIT, ELECTION_BOOK], vec![AUDIT, ELECTION_BOOK + 1]),
        Prefix::Candidates(election) => {
            let name = election.as_str().as_bytes();
            ([&[CANDIDATE], name, &[0]].concat(), [&[CANDIDATE], name, &[1]].concat())
        }
        Prefix::Items(election, kind) => {
            let name = election.as_str().as_bytes();
            let kind = kind_byte(*kind);
            ([&[ITEM], name, &[0, kind, 0]].concat(), [&[ITEM], name, &[0, kind, 1]].concat())
        }
    }
}

/// The key of a transition.
pub(crate) fn transition_key(election: &ElectionName, epoch: u64) -> Vec<u8> {
    [election.as_str().as_bytes(), &[0], &epoch.to_be_bytes()].concat()
}

/// Between which bytes the transitions of an election lie; the end is not among them.
pub(crate) fn transition_bounds(election: &[u8]) -> (Vec<u8>, Vec<u8>) {
    ([election, &[0]].concat(), [election, &[1]].concat())
}

/// A value without its number.
pub(crate) fn value(json: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + json.len());
    bytes.push(VALUE_FORMAT);
    bytes.extend([0; HEADER - 1]);
    bytes.extend(json);
    bytes
}

/// Writes the number into a value.
pub(crate) fn number(value: &mut [u8], number: u64) {
    value[1..HEADER].copy_from_slice(&number.to_be_bytes());
}

/// The number of a value; zero if it has none.
pub(crate) fn version(value: &[u8]) -> u64 {
    value.get(1..HEADER).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// What comes after the number of a value.
pub(crate) fn json(value: &[u8]) -> Option<&[u8]> {
    value.get(HEADER..)
}

/// A value taken apart: its number and its JSON.
pub(crate) fn parts(value: &[u8]) -> Result<(u64, &str), NotARecord> {
    let odd = |why: &str| NotARecord::Damaged {
        why: why.to_string(),
        hint: "put back a snapshot with `baton restore`; nothing was changed".to_string(),
    };
    let Some((header, json)) = value.split_at_checked(HEADER) else { return Err(odd("it is cut off")) };
    match header {
        [VALUE_FORMAT, number @ ..] => {
            let number = number.try_into().map_err(|_| odd("it is cut off"))?;
            let json = std::str::from_utf8(json).map_err(|_| odd("it is not text"))?;
            Ok((u64::from_be_bytes(number), json))
        }
        [format, ..] if *format > VALUE_FORMAT => {
            Err(NotARecord::Newer { format: (*format).into(), reads: VALUE_FORMAT.into() })
        }
        [..] => Err(odd("it begins oddly")),
    }
}

/// The record in a value, and its version.
pub(crate) fn record(key: &Key, value: &[u8]) -> Result<(Record, u64), NotARecord> {
    let (version, json) = parts(value)?;
    Ok((Record::from_json(key, json)?, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_order_and_are_known_by_their_bytes() {
        let election = |text| ElectionName::new(text).unwrap();
        let resource = |text| ResourceName::new(text).unwrap();
        let agent = |text| AgentName::new(text).unwrap();
        let mut keys =
            vec![Key::Store, Key::Tokens, Key::FenceLog(resource("a"), 2), Key::FenceLog(resource("a"), 256)];
        keys.extend([Key::Audit(Book::Store, 1), Key::Audit(Book::Store, 256), Key::Audit(Book::Tokens, 0)]);
        for name in ["a", "a-b", "a.b", "a/b", "ab", "b"] {
            keys.extend([
                Key::Election(election(name)),
                Key::Candidate(election(name), agent("x")),
                Key::Candidate(election(name), agent("y")),
                Key::History(election(name)),
                Key::Fence(resource(name)),
                Key::FenceLog(resource(name), 7),
                Key::Audit(Book::Election(election(name)), 7),
            ]);
            for kind in ItemKind::ALL {
                keys.extend(
                    ["x", "y"].map(|item| Key::Item(election(name), kind, ItemName::new(item).unwrap())),
                );
            }
        }
        for one in &keys {
            assert_eq!(parse(&key(one)).as_ref(), Some(one));
            for other in &keys {
                assert_eq!(key(one).cmp(&key(other)), one.cmp(other), "{one} and {other}");
            }
        }
        let items = ItemKind::ALL.map(|kind| Prefix::Items(election("a"), kind));
        keys.push(Key::Audit(Book::Election(election("a")), 0));
        let logs = |key: &Key| matches!(key, Key::Audit(Book::Election(_), _));
        let (from, to) = bounds(&Prefix::Audits);
        assert!(keys.iter().all(|one| logs(one) == (from <= key(one) && key(one) < to)));
        let others = [Prefix::Elections, Prefix::Fences, Prefix::Candidates(election("a"))];
        for prefix in others.into_iter().chain(items) {
            let (from, to) = bounds(&prefix);
            for one in &keys {
                let bytes = key(one);
                assert_eq!(from <= bytes && bytes < to, prefix.covers(one), "{one}");
            }
        }
    }

    #[test]
    fn odd_bytes_are_no_key_and_no_value() {
        for odd in [
            &[][..],
            &[0],
            &[1, b'a'],
            &[2],
            &[3, b'a'],
            &[6, b'a', 0, 1],
            &[9, b'a', 0, b'9', 0, b'a'],
            &[9, b'a', 0],
            &[10, b'a'],
        ] {
            assert_eq!(parse(odd), None, "{odd:?}");
        }
        let mut whole = value(b"{}");
        number(&mut whole, 258);
        assert_eq!(parts(&whole).unwrap(), (258, "{}"));
        assert!(parts(&whole[..8]).is_err_and(|not| not.to_string().contains("cut off")));
        whole[0] = 2;
        assert!(parts(&whole).is_err_and(|not| not.to_string().contains("newer")));
        whole[0] = 0;
        assert!(parts(&whole).is_err());
    }
}
