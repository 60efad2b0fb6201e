//! Putting a snapshot back so that no epoch goes back. See `docs/decisions/0018-restore.md`.
//!
//! Nobody knows what was given since the snapshot: to whom, which epochs, in which elections. So a restore begins a new range of
//! epochs, above all that could have been given, and treats every election as one whose leader may be at work: nobody's token
//! passes any more, and nobody is granted a lease before any that may be running has ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_election::audit::{Book, Entry};
use baton_election::document::{Approval, Cause, Departure, Leader, Phase};
use baton_election::id::{Incarnation, KeyHash, StoreId};
use baton_election::log::Log;
use baton_election::policy::Limits;
use baton_election::usefulness::Verdicts;
use baton_election::{AgentName, Document, Epoch, Span, State, Tokens, WallTime};
use baton_store::{Key, Record, StoreError, boot};
use redb::{Error, ReadTransaction, ReadableDatabase, ReadableTable, WriteTransaction};

use crate::fault::Place;
use crate::fresh::{Fresh, sync_folder};
use crate::open::{self, Opened};
use crate::shape::{
    self, HISTORY, META, META_FLOOR, META_FORMAT, META_JOURNAL, META_LEASE, META_SNAPSHOT, META_VERSIONS,
    RECORDS,
};

/// How many epochs of one election may have been given since a snapshot was taken. At a thousand a second without a pause that is
/// seven weeks; a number that JSON can carry has room for two million restores.
const GAP: u64 = 1 << 32;
/// The highest token that a restore takes for one that was given: half of all that there are.
const MAX_GIVEN: Epoch = Epoch(u64::MAX / 2);

/// What to put back, and where.
#[derive(Clone, Debug)]
pub struct Restore<'a> {
    /// The snapshot. It is left as it is.
    pub from: &'a Path,
    /// The store. What is there is kept beside it under another name.
    pub to: &'a Path,
    /// An epoch that was surely given, if a higher one is known than the snapshot has: from a fence, a log, an agent.
    pub above: Epoch,
    /// The longest lease that may be running. Without it, the longest that the snapshot knows of.
    pub leases: Option<Span>,
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// All epochs from here on are above this.
    pub floor: Epoch,
    /// How long nobody is granted a lease after the store was opened.
    pub leases: Span,
    /// How many elections there are.
    pub elections: u64,
    /// Where the former store is.
    pub kept: Option<PathBuf>,
}

/// Makes a store from a snapshot, in place of what is there.
///
/// The store's id stays, so that fences go on refusing what they have refused. Every epoch that is given from then on is above all
/// in the snapshot, above [`Restore::above`], and above all that stand in the former store if it can still be read. Blocks.
pub fn restore(restore: &Restore<'_>) -> Result<Restored, StoreError> {
    let (from, to) = (Place::new(restore.from), Place::new(restore.to));
    baton_store::refuse_network(&to.path)?;
    let Opened { database: snapshot, meta, .. } = open::peek(&from).map_err(another)?;
    let reading = |error: Error| from.reading(error);
    let transaction = snapshot.begin_read().map_err(|error| reading(error.into()))?;
    let known = Known::of(&from, &transaction).map_err(another)?;
    // Held open until the end: nobody else opens it meanwhile.
    let former = if to.path.exists() { Some(former(&to, &known)?) } else { None };
    let highest = former.as_ref().map_or(Epoch(0), |former| former.highest);
    let leases = former.as_ref().map_or(Span::ZERO, |former| former.leases).max(known.leases).max(meta.lease);
    let highest = known.highest.max(meta.floor).max(highest).max(restore.above);
    if highest > MAX_GIVEN {
        return Err(to.refused(
            format_args!("token {highest} cannot have been given: it leaves no room for those to come"),
            "name a token that was surely given with --above, or leave it away; nothing was changed",
        ));
    }
    let plan = Plan {
        floor: Epoch(highest.0.saturating_add(GAP)),
        leases: restore.leases.unwrap_or(leases).max(leases),
        wall: boot::wall(),
        tokens: former
            .as_ref()
            .and_then(|former| former.tokens.clone())
            .or_else(|| Some((known.tokens.clone()?, known.token_log.clone()))),
        version: meta.versions.saturating_add(GAP),
    };
    let fresh = Fresh::make(&to, |into| {
        copy(&from, &transaction, into)?;
        plan.carry_out(&from, &transaction, into)?;
        let number = || -> Result<(), Error> {
            let mut table = into.open_table(META)?;
            table.insert(META_VERSIONS, plan.version)?;
            table.insert(META_FLOOR, plan.floor.0)?;
            table.insert(META_LEASE, plan.leases.as_millis())?;
            Ok(())
        };
        number().map_err(|error| to.unavailable(error))
    })?;
    let failed = |error: std::io::Error| to.io(&error);
    let kept = if former.is_some() { Some(put_aside(&to.path).map_err(failed)?) } else { None };
    if kept.is_some() {
        fresh.replace(&to.path).map_err(failed)?;
    } else if !fresh.name(&to.path).map_err(failed)? {
        return Err(to.refused("somebody made it meanwhile", "look at it, and try again"));
    }
    Ok(Restored { floor: plan.floor, leases: plan.leases, elections: known.elections, kept })
}

/// A snapshot that is damaged is not mended by a restore, which it was meant for.
fn another(error: StoreError) -> StoreError {
    match error {
        StoreError::Corrupt { place, why, .. } => {
            let hint = "take an earlier snapshot; nothing was changed".to_string();
            StoreError::Corrupt { place, why, hint }
        }
        StoreError::Conflict
        | StoreError::Unavailable { .. }
        | StoreError::Unknown { .. }
        | StoreError::Refused { .. }
        | StoreError::Misnamed { .. }
        | StoreError::Diverged { .. } => error,
    }
}

/// Copies all tables.
pub(crate) fn copy(place: &Place, from: &ReadTransaction, into: &WriteTransaction) -> Result<(), StoreError> {
    let copied = || -> Result<(), Error> {
        for table in [RECORDS, HISTORY] {
            let mut copied = into.open_table(table)?;
            for entry in from.open_table(table)?.iter()? {
                let (key, value) = entry?;
                copied.insert(key.value(), value.value())?;
            }
        }
        let mut copied = into.open_table(META)?;
        for entry in from.open_table(META)?.iter()? {
            let (name, number) = entry?;
            // The copy has the format of whoever makes it, an empty journal, and is what it is made for.
            if ![META_FORMAT, META_JOURNAL, META_SNAPSHOT].contains(&name.value()) {
                copied.insert(name.value(), number.value())?;
            }
        }
        Ok(())
    };
    copied().map_err(|error| place.reading(error))
}

/// What a database tells of its elections.
struct Known {
    store: Option<StoreId>,
    /// The highest epoch anywhere.
    highest: Epoch,
    /// The longest lease that was given or may be asked for, as far as can be seen.
    leases: Span,
    elections: u64,
    /// The access tokens.
    tokens: Option<Tokens>,
    /// What operators did to them, in parts.
    token_log: TokenLog,
}

/// The parts of the log of the orders on tokens, each with the bytes of its key.
type TokenLog = Vec<(Vec<u8>, Log<Entry>)>;

impl Known {
    fn of(place: &Place, transaction: &ReadTransaction) -> Result<Known, StoreError> {
        let leases = baton_election::Policy::default().ttl;
        let (tokens, token_log) = (None, Vec::new());
        let mut known = Known { store: None, highest: Epoch(0), leases, elections: 0, tokens, token_log };
        each(place, transaction, |bytes, record, _| {
            match record {
                Record::Store(info) => known.store = Some(info.id),
                Record::Election(document) => {
                    known.elections += 1;
                    known.highest = known.highest.max(document.epoch);
                    let held = document.lease_holder().map_or(Span::ZERO, |holder| holder.ttl);
                    let allowed = document.policy.max_ttl.unwrap_or(Span::ZERO);
                    known.leases = known.leases.max(held).max(allowed).max(document.policy.ttl);
                }
                Record::Fence(fence) => known.highest = known.highest.max(fence.highest),
                Record::Tokens(tokens) => known.tokens = Some(tokens),
                Record::Item(item) => known.highest = known.highest.max(item.fence()),
                Record::Audit(log) => {
                    if let Some(Key::Audit(Book::Tokens, _)) = shape::parse(bytes) {
                        known.token_log.push((bytes.to_vec(), log));
                    }
                }
                Record::Candidate(_) | Record::History(_) | Record::FenceLog(_) => {}
            }
            Ok(())
        })?;
        Ok(known)
    }
}

/// Hands over every record with its bytes.
fn each(
    place: &Place,
    transaction: &ReadTransaction,
    mut each: impl FnMut(&[u8], Record, u64) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut read = || -> Result<Result<(), StoreError>, Error> {
        for entry in transaction.open_table(RECORDS)?.iter()? {
            let (bytes, value) = entry?;
            let Some(key) = shape::parse(bytes.value()) else {
                return Ok(Err(place.corrupt("it has a record under a key that is none")));
            };
            let taken = shape::record(&key, value.value()).map_err(|not| place.not_a_record(&key, not));
            if let Err(error) = taken.and_then(|(record, version)| each(bytes.value(), record, version)) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    };
    read().map_err(|error| place.reading(error))?
}

/// What was there before.
struct Former {
    /// The highest epoch that can be found in it.
    highest: Epoch,
    /// The longest lease that may be running by it.
    leases: Span,
    /// Its access tokens, and what operators did to them.
    tokens: Option<(Tokens, TokenLog)>,
    /// It stays locked as long as this.
    _database: Option<redb::Database>,
}

/// Looks at what is about to be replaced. What cannot be read is no obstacle; what is in use, or is another store, is.
fn former(to: &Place, known: &Known) -> Result<Former, StoreError> {
    let opened = open::peek_at_remains(to).and_then(|Opened { database, meta, .. }| {
        let transaction = database.begin_read().map_err(|error| to.reading(error.into()))?;
        let former = Known::of(to, &transaction)?;
        drop(transaction);
        Ok((database, former, meta))
    });
    match opened {
        Ok((_, former, _)) if former.store.is_some() && former.store != known.store => {
            Err(to
                .refused("it is another store than the snapshot's", "name the store that the snapshot is of"))
        }
        Ok((database, former, meta)) => {
            let (highest, leases) = (former.highest.max(meta.floor), former.leases.max(meta.lease));
            let tokens = former.tokens.map(|tokens| (tokens, former.token_log));
            Ok(Former { highest, leases, tokens, _database: Some(database) })
        }
        Err(StoreError::Corrupt { .. }) => {
            Ok(Former { highest: Epoch(0), leases: Span::ZERO, tokens: None, _database: None })
        }
        Err(error) => Err(error),
    }
}

/// Gives what is there a second name.
fn put_aside(path: &Path) -> std::io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    for number in 1_u32.. {
        let aside = path.with_file_name(format!("{name}.replaced-{number}"));
        match std::fs::hard_link(path, &aside) {
            Ok(()) => return sync_folder(path).map(|()| aside),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("there are fewer files than numbers")
}

/// What is done to every record.
struct Plan {
    floor: Epoch,
    leases: Span,
    wall: WallTime,
    /// The access tokens of the former store, if they can be read: what was revoked there stays so, with the log of
    /// the orders. Else the snapshot's.
    tokens: Option<(Tokens, TokenLog)>,
    /// The highest version that was given by then.
    version: u64,
}

impl Plan {
    fn carry_out(
        &self,
        place: &Place,
        from: &ReadTransaction,
        into: &WriteTransaction,
    ) -> Result<(), StoreError> {
        let mut table = into.open_table(RECORDS).map_err(|error| place.reading(error.into()))?;
        each(place, from, |bytes, record, version| {
            let next = match record {
                Record::Election(mut document) => {
                    self.end(&mut document);
                    Record::Election(document)
                }
                Record::Fence(mut fence) => {
                    fence.highest = self.floor;
                    Record::Fence(fence)
                }
                Record::Store(mut info) if !info.waiting.is_empty() => {
                    // What waits in the snapshot may have been carried out since: its signatures are out in the world.
                    info.waiting.clear();
                    Record::Store(info)
                }
                Record::Store(_)
                | Record::Tokens(_)
                | Record::Candidate(_)
                | Record::History(_)
                | Record::FenceLog(_)
                | Record::Audit(_)
                // The epochs that begin are above all of these.
                | Record::Item(_) => return Ok(()),
            };
            let mut value = shape::value(&next.to_compact_json());
            shape::number(&mut value, version);
            let inserted = table.insert(bytes, value.as_slice());
            inserted.map(drop).map_err(|error| place.unavailable(error))
        })?;
        let Some((tokens, log)) = self.tokens.clone() else { return Ok(()) };
        for (bytes, part) in log {
            let mut value = shape::value(&Record::Audit(part).to_compact_json());
            shape::number(&mut value, self.version);
            let inserted = table.insert(bytes.as_slice(), value.as_slice());
            inserted.map(drop).map_err(|error| place.unavailable(error))?;
        }
        // Orders that were signed since the snapshot do not come again.
        let orders = tokens.orders.saturating_add(GAP);
        let next = Record::Tokens(Tokens { orders, last: None, waiting: Vec::new(), ..tokens });
        let mut value = shape::value(&next.to_compact_json());
        shape::number(&mut value, self.version);
        let inserted = table.insert(shape::key(&Key::Tokens).as_slice(), value.as_slice());
        inserted.map(drop).map_err(|error| place.unavailable(error))
    }

    /// Whoever leads, known or not, is ended as if from outside: no token passes, and the longest lease is waited for.
    fn end(&self, document: &mut Document) {
        let leader = document.leader.take();
        if let Some(leader) = &leader {
            document.departure = Some(Arc::new(Departure {
                cause: Cause::Failover,
                agent: leader.agent.clone(),
                incarnation: leader.incarnation,
                epoch: leader.epoch,
                reason: "the store was restored from a snapshot".to_string(),
                at: self.wall,
            }));
        }
        if document.state == State::Held {
            document.state = State::Vacant;
            document.approval = Approval::default();
        }
        let known = leader.or(document.outgoing.take());
        let ttl = known.as_ref().map_or(self.leases, |known| known.ttl.max(self.leases));
        let agent = known.as_ref().map_or_else(unknown, |known| known.agent.clone());
        document.outgoing = Some(Leader {
            agent,
            // Nobody has this key: whoever led may be another than the snapshot knows, so that no release can be believed.
            incarnation: Incarnation([0; 8]),
            key_hash: KeyHash([0; 32]),
            epoch: document.epoch,
            granted: document.epoch,
            ttl,
            renewals: 0,
            offered: false,
            contact: None,
            region: None,
            through: None,
            phase: Phase::Draining,
            limits: Limits::default(),
            held: Span::ZERO,
            idle: Span::ZERO,
            spent_tokens: 0,
            verdicts: Verdicts::default(),
            acquired: known.map_or(self.wall, |known| known.acquired),
            expires: self.wall + ttl,
        });
        document.epoch = self.floor;
        document.beat += 1;
    }
}

/// The name of somebody of whom nothing is known.
fn unknown() -> AgentName {
    match AgentName::new("unknown") {
        Ok(name) => name,
        Err(error) => unreachable!("{error}"),
    }
}
