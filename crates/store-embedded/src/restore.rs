//! Putting a snapshot back so that no epoch goes back. See `docs/decisions/0018-restore.md`.
//!
//! Nobody knows what was given since the snapshot: to whom, which epochs, in which elections. So a restore begins a new range of
//! epochs, above all that could have been given, and treats every election as one whose leader may be at work: nobody's token
//! passes any more, and nobody is granted a lease before any that may be running has ended. What operators ordered is not taken back ([`crate::former`]);
//! where the former store does not tell what that was, everything is paused, and orders signed since the snapshot count nowhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_election::document::{Approval, Cause, Departure, Leader, Pause, Phase};
use baton_election::id::{Incarnation, KeyHash, StoreId};
use baton_election::operator::PublicKey;
use baton_election::policy::Limits;
use baton_election::removal_rules::Verdicts;
use baton_election::tokens::TokenEntry;
use baton_election::{AgentName, Document, Epoch, Span, State, StoreInfo, Tokens, WallTime};
use baton_store::{Key, Record, StoreError};
use redb::{Error, ReadTransaction, ReadableDatabase, ReadableTable, WriteTransaction};

use crate::fault::StorePath;
use crate::former::{Former, FormerStore, newer};
use crate::fresh::{Fresh, sync_folder};
use crate::open::{self, Opened};
use crate::shape::{
    self, HISTORY, META, META_FLOOR, META_FORMAT, META_JOURNAL, META_LEASE, META_SNAPSHOT, META_VERSIONS,
    RECORDS, Rows,
};

/// How many epochs of one election may have been given since a snapshot was taken. At a thousand a second without a pause that is
/// seven weeks; a number that JSON can carry has room for two million restores.
const GAP: u64 = 1 << 32;
/// The highest token that a restore takes for one that was given: half of all that there are.
const MAX_GIVEN: Epoch = Epoch(u64::MAX / 2);
/// How many epochs of one election may be given in a millisecond, after a restore of which no file tells any more.
const EACH_MILLISECOND: u64 = 4;
/// Whose a pause is that no operator ordered.
const NOBODY: PublicKey = PublicKey([0; 32]);

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
    /// What time it is. It only raises the floor, where no file tells which epochs were given since the snapshot.
    pub at: WallTime,
    /// Not to pause everything where the former store does not tell what operators ordered since the snapshot.
    pub trust_snapshot: bool,
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
    /// How much of it could be read. Unless it is whole, operators, quorum and tokens may be those of the snapshot.
    pub former: FormerStore,
    /// What the store knows of itself: its operators, their quorum, whether everything is paused.
    pub info: Option<StoreInfo>,
    /// The access tokens that count, without their hashes.
    pub tokens: Vec<TokenEntry>,
}

/// Makes a store from a snapshot, in place of what is there.
///
/// The store's id stays, so that fences go on refusing what they have refused. Every epoch that is given from then on is above all
/// in the snapshot, above [`Restore::above`], and above all that stand in the former store if it can still be read. Blocks.
pub fn restore(restore: &Restore<'_>) -> Result<Restored, StoreError> {
    // A link stays one: what it leads to is replaced.
    let to = restore.to.canonicalize();
    let (from, to) = (StorePath::new(restore.from), StorePath::new(to.as_deref().unwrap_or(restore.to)));
    baton_store::refuse_network(&to.path)?;
    let Opened { database: snapshot, meta, .. } = open::peek(&from).map_err(another)?;
    let reading = |error: Error| from.reading(error);
    let transaction = snapshot.begin_read().map_err(|error| reading(error.into()))?;
    let known = DatabaseFacts::of(&from, &transaction).map_err(another)?;
    // Held open until the end: nobody else opens it meanwhile.
    let former = Former::of(&to, &known)?;
    let leases = former.leases.max(known.leases).max(meta.lease);
    let mut highest = known.highest.max(meta.floor).max(former.highest).max(restore.above);
    if former.state != FormerStore::Whole {
        // Perhaps the snapshot was restored before, and epochs above it were given since.
        highest = highest.max(Epoch(restore.at.as_unix_millis().saturating_mul(EACH_MILLISECOND)));
    }
    if highest > MAX_GIVEN {
        return Err(to.refused(
            format_args!("token {highest} cannot have been given: it leaves no room for those to come"),
            "name a token that was surely given with --above, or leave it away; nothing was changed",
        ));
    }
    let tokens = newer(known.tokens.as_ref(), former.tokens.as_ref(), |tokens| tokens.orders);
    let mut plan = Plan {
        floor: Epoch(highest.0.saturating_add(GAP)),
        leases: restore.leases.unwrap_or(leases).max(leases),
        wall: restore.at,
        info: newer(known.info.as_ref(), former.info.as_ref(), |info| info.orders),
        tokens: tokens.map(|tokens| Tokens { last: None, waiting: Vec::new(), ..tokens }),
        version: meta.versions.saturating_add(GAP),
    };
    plan.settle_orders(former.state != FormerStore::Whole && !restore.trust_snapshot);
    let fresh = Fresh::make(&to, |into| {
        copy(&from, &transaction, into)?;
        let former = former.database.as_ref().map(|database| (&to, database));
        plan.carry_out((&from, &transaction), former, into)?;
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
    let is_there = former.state != FormerStore::Absent;
    let kept = if is_there { Some(put_aside(&to.path).map_err(failed)?) } else { None };
    if is_there {
        fresh.replace(&to.path).map_err(failed)?;
    } else if !fresh.name(&to.path).map_err(failed)? {
        return Err(to.refused("somebody made it meanwhile", "look at it, and try again"));
    }
    Ok(Restored {
        floor: plan.floor,
        leases: plan.leases,
        elections: known.elections,
        kept,
        former: former.state,
        info: plan.info,
        tokens: plan.tokens.map_or_else(Vec::new, |tokens| tokens.shown().tokens),
    })
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
        | StoreError::Newer { .. }
        | StoreError::Refused { .. }
        | StoreError::Misnamed { .. }
        | StoreError::Diverged { .. } => error,
    }
}

/// Copies all tables.
pub(crate) fn copy(
    place: &StorePath,
    from: &ReadTransaction,
    into: &WriteTransaction,
) -> Result<(), StoreError> {
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
pub(crate) struct DatabaseFacts {
    pub(crate) info: Option<StoreInfo>,
    /// The highest epoch anywhere.
    pub(crate) highest: Epoch,
    /// The longest lease that was given or may be asked for, as far as can be seen.
    pub(crate) leases: Span,
    elections: u64,
    /// The access tokens.
    pub(crate) tokens: Option<Tokens>,
    /// The newest version of a record that is never deleted.
    pub(crate) newest: u64,
}

impl DatabaseFacts {
    pub(crate) fn of(place: &StorePath, transaction: &ReadTransaction) -> Result<DatabaseFacts, StoreError> {
        let leases = baton_election::Policy::default().ttl;
        let mut known =
            DatabaseFacts { info: None, highest: Epoch(0), leases, elections: 0, tokens: None, newest: 0 };
        each(place, transaction, |_, record, version| {
            if matches!(record, Record::Store(_) | Record::Election(_) | Record::Fence(_) | Record::Tokens(_))
            {
                known.newest = known.newest.max(version);
            }
            match record {
                Record::Store(info) => known.info = Some(info),
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
                Record::Candidate(_) | Record::History(_) | Record::FenceLog(_) | Record::Audit(_) => {}
            }
            Ok(())
        })?;
        Ok(known)
    }

    pub(crate) fn store(&self) -> Option<StoreId> {
        self.info.as_ref().map(|info| info.id)
    }
}

/// Hands over every record with its bytes.
fn each(
    place: &StorePath,
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
pub(crate) struct Plan {
    pub(crate) floor: Epoch,
    leases: Span,
    wall: WallTime,
    /// What the store knows of itself.
    pub(crate) info: Option<StoreInfo>,
    /// The access tokens.
    tokens: Option<Tokens>,
    /// The highest version that was given by then.
    version: u64,
}

impl Plan {
    /// Voids all orders that were signed before, and pauses everything where nobody knows what they were.
    fn settle_orders(&mut self, pauses: bool) {
        let Some(info) = &mut self.info else { return };
        info.floor = self.floor.0;
        // What waits may have been carried out since: its signatures are out in the world.
        info.waiting.clear();
        if pauses && info.paused.is_none() && !info.operator_keys.is_empty() {
            let reason =
                "restored from a snapshot: look at the operators, the quorum and the tokens".to_string();
            let pause = Pause { by: NOBODY, reason, at: self.wall, halted: true };
            info.paused = Some(Box::new(pause));
            info.operator_names.insert(NOBODY, "baton restore".to_string());
        }
    }

    fn carry_out(
        &self,
        (place, snapshot): (&StorePath, &ReadTransaction),
        former: Option<(&StorePath, &redb::Database)>,
        into: &WriteTransaction,
    ) -> Result<(), StoreError> {
        let mut table = into.open_table(RECORDS).map_err(|error| place.reading(error.into()))?;
        each(place, snapshot, |bytes, record, version| {
            let next = match record {
                Record::Election(mut document) => {
                    self.end(&mut document);
                    Record::Election(document)
                }
                Record::Fence(mut fence) => {
                    fence.highest = self.floor;
                    Record::Fence(fence)
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
            put(place, &mut table, bytes, &next, version)
        })?;
        if let Some((place, database)) = former {
            let transaction = database.begin_read().map_err(|error| place.reading(error.into()))?;
            each(place, &transaction, |bytes, record, _| {
                let mine = found(place, &table, bytes)?;
                match self.kept(record, mine) {
                    Some(next) => put(place, &mut table, bytes, &next, self.version),
                    None => Ok(()),
                }
            })?;
        }
        if let Some(info) = &self.info {
            let next = Record::Store(info.clone());
            put(place, &mut table, &shape::key(&Key::Store), &next, self.version)?;
        }
        if let Some(tokens) = &self.tokens {
            let next = Record::Tokens(tokens.clone());
            put(place, &mut table, &shape::key(&Key::Tokens), &next, self.version)?;
        }
        Ok(())
    }

    /// Whoever leads, known or not, is ended as if from outside: no token passes, and the longest lease is waited for.
    pub(crate) fn end(&self, document: &mut Document) {
        // What gathers may have been carried out since: its signatures are out in the world.
        document.gathering = None;
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

/// The record under this key.
fn found(place: &StorePath, table: &Rows<'_>, bytes: &[u8]) -> Result<Option<Record>, StoreError> {
    let read = table.get(bytes).map_err(|error| place.reading(error.into()))?;
    let (Some(value), Some(key)) = (read, shape::parse(bytes)) else { return Ok(None) };
    let (record, _) = shape::record(&key, value.value()).map_err(|not| place.not_a_record(&key, not))?;
    Ok(Some(record))
}

/// Writes a record under this key.
fn put(
    place: &StorePath,
    table: &mut Rows<'_>,
    bytes: &[u8],
    record: &Record,
    version: u64,
) -> Result<(), StoreError> {
    let mut value = shape::value(&record.to_compact_json());
    shape::number(&mut value, version);
    table.insert(bytes, value.as_slice()).map(drop).map_err(|error| place.unavailable(error))
}

/// The name of somebody of whom nothing is known.
fn unknown() -> AgentName {
    match AgentName::new("unknown") {
        Ok(name) => name,
        Err(error) => unreachable!("{error}"),
    }
}
