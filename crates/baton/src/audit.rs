//! What operators did, as it stands in the store: read, and verified.
//!
//! The record of an election, of the store itself and of its access tokens each remembers its last act whole; those before it stand in a log
//! beside it, in parts of bounded size that nobody shortens. Assumes what [`baton_election::audit`] assumes.

use std::collections::BTreeSet;

use baton_election::audit::{self, Book, Entry, Fault, Head, Verdict};
use baton_election::log::Log;
use baton_election::operator::PublicKey;
use baton_election::{ElectionName, Refusal};
use baton_store::{AgeStamp, Key, Persistence, Prefix, Record, StoreError};

use crate::backoff::Patience;
use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::local::{Local, Step};
use crate::there::insist;

/// After so many parts that are not there it is not looked for more: a count that somebody made up keeps nobody busy. What is missing is
/// told all the same, as the act before the one that is there.
const MAX_MISSING: usize = 64;
/// How often a book is read that grows meanwhile.
const MAX_LOOKS: usize = 4;

impl Local {
    /// Puts an act into its log, once.
    pub(crate) async fn record_act(&self, book: Book, entry: &Entry) -> Result<(), Error> {
        for times in 0..=audit::MAX_SPILLED {
            let key = Key::Audit(book.clone(), Entry::spilled(Entry::part(entry.number), times));
            let stands = Box::pin(self.change(&key, Patience::default(), |look| {
                let log = match look.record {
                    Some(Record::Audit(log)) => log.clone(),
                    Some(_) | None => Log::default(),
                };
                Ok(match audit::appended(&log, entry) {
                    None => Step::Done(true),
                    Some(_) if audit::is_full(&log) && times < audit::MAX_SPILLED => Step::Done(false),
                    Some(longer) => {
                        Step::Write(Record::Audit(longer), AgeStamp::Preserve, Persistence::Durable, true)
                    }
                })
            }));
            if stands.await? {
                break;
            }
        }
        Ok(())
    }
}

/// Everybody who was an operator of the store: one who was removed may have ordered something before. None if some orders were carried out by a Baton that kept no
/// log: whom those made an operator nobody knows.
fn store_operators(head: &Head, logged: &[Entry]) -> Option<BTreeSet<PublicKey>> {
    let first = audit::first(head, logged);
    let is_whole = first.map_or(head.count == 0, |first| first == 1);
    is_whole.then(|| audit::operators(head, logged))
}

/// The act that is no longer shown by a record once `next` stands in its place, and where it belongs.
pub(crate) fn pushed_out<'a>(key: &Key, old: Option<&'a Record>, next: &Record) -> Option<(Book, &'a Entry)> {
    let replaced = |old: Option<&'a std::sync::Arc<Entry>>, new: Option<&std::sync::Arc<Entry>>| {
        let hash = new.map(|new| new.hash);
        old.map(|old| &**old).filter(|old| Some(old.hash) != hash)
    };
    match (key, old?, next) {
        (Key::Election(election), Record::Election(old), Record::Election(next)) => {
            Some((Book::Election(election.clone()), old.pushes_out_act(next)?))
        }
        (Key::Store, Record::Store(old), Record::Store(next)) => {
            Some((Book::Store, replaced(old.last_order.as_ref(), next.last_order.as_ref())?))
        }
        (Key::Tokens, Record::Tokens(old), Record::Tokens(next)) => {
            Some((Book::Tokens, replaced(old.last_order.as_ref(), next.last_order.as_ref())?))
        }
        (_, _, _) => None,
    }
}

impl Coordinator {
    /// Puts an act into the log of an election, once. Whoever swaps documents by itself does this before the swap that pushes it out.
    pub async fn keep_act(&self, election: &ElectionName, act: &Entry) -> Result<(), Error> {
        self.local.record_act(Book::Election(election.clone()), act).await
    }

    /// What operators did, the oldest first; at most `limit` of the newest.
    pub async fn audit(&self, book: &Book, limit: usize) -> Result<Vec<Entry>, Error> {
        if let (Book::Tokens, Some(decider)) = (book, self.store().decider()) {
            return Ok(insist(self.patience, || decider.audit_tokens(limit)).await?.entries);
        }
        // The record first: what it does not show stands in the log by then.
        let head = self.head(book).await?;
        let mut entries: Vec<Entry> = head.last.iter().cloned().collect();
        let (mut part, mut missing) = (Some(Entry::part(head.count)), 0);
        while let Some(number) = part.filter(|_| entries.len() < limit && missing < MAX_MISSING) {
            let mut logged = self.logged(book, number).await?;
            missing = if logged.is_empty() { missing + 1 } else { 0 };
            logged.retain(|entry| !entries.contains(entry));
            logged.extend(entries);
            entries = logged;
            part = number.checked_sub(1);
        }
        let surplus = entries.len().saturating_sub(limit);
        Ok(entries.split_off(surplus))
    }

    /// The elections that have acts in a log. One that is not among [`Coordinator::elections`] has lost its record.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn logged_elections(&self) -> Result<Vec<ElectionName>, Error> {
        let keys = self.local.store.list(&Prefix::Audits).await?;
        let election = |key| match key {
            Key::Audit(Book::Election(election), _) => Some(election),
            _ => None,
        };
        Ok(keys.into_iter().filter_map(election).collect())
    }

    /// Looks at all of it: whether each entry is as it was written and signed, and none is missing. Of its access tokens a server
    /// tells what it found itself, since it shows nobody the hashes that those orders are signed over.
    pub async fn verify_audit(&self, book: &Book) -> Result<Verdict, Error> {
        if let (Book::Tokens, Some(decider)) = (book, self.store().decider()) {
            return Ok(insist(self.patience, || decider.audit_tokens(0)).await?.verdict);
        }
        let info = self.local.fresh_info(self.patience, false).await?;
        let (head, logged, broken) = match self.book_at_rest(book).await {
            Err(Error::Refused(refusal @ Refusal::UnknownElection { .. })) => {
                return self.orphaned(book).await?.ok_or(Error::Refused(refusal));
            }
            read => read?,
        };
        let operators = match book {
            Book::Election(election) => {
                let told = audit::operators(&head, &logged);
                match self.view_of_record(election).await?.document {
                    // It began anew, or came back by a restore, with those who were the store's operators then, and its record names only the last ones.
                    Some(document) if document.forgotten.is_some() || info.floor > 0 => {
                        let (head, logged, _) = self.book_at_rest(&Book::Store).await?;
                        store_operators(&head, &logged).map(|store| store.union(&told).copied().collect())
                    }
                    Some(_) | None => Some(told),
                }
            }
            Book::Store => store_operators(&head, &logged),
            Book::Tokens => {
                let (head, logged, _) = self.book_at_rest(&Book::Store).await?;
                store_operators(&head, &logged)
            }
        };
        let mut verdict = audit::verify(book, info.id, &head, &logged, operators.as_ref());
        verdict.faults.splice(0..0, broken);
        Ok(verdict)
    }

    /// What is to be said of the log of an election whose record is gone; none if there is no such log. Its first part tells.
    async fn orphaned(&self, book: &Book) -> Result<Option<Verdict>, Error> {
        let logged = self.logged(book, 0).await?;
        if logged.is_empty() {
            return Ok(None);
        }
        let why =
            "the election's record is gone, and with it the last act; those before are in the log still";
        Ok(Some(Verdict {
            acts: logged.len(),
            first: logged.iter().map(|entry| entry.number).min(),
            head: None,
            faults: vec![Fault { number: None, why: why.to_string() }],
        }))
    }

    /// All of a book as it was at one moment: what is done while it is read would otherwise look as if it had been put in.
    async fn book_at_rest(&self, book: &Book) -> Result<(Head, Vec<Entry>, Vec<Fault>), Error> {
        let mut looks = 1;
        loop {
            let (head, mut logged, broken) = self.whole_book(book).await?;
            let after = self.head(book).await?;
            if after == head {
                return Ok((head, logged, broken));
            }
            if looks == MAX_LOOKS {
                // It never rests. Whoever put an older record in the place of this one did not do so between the two looks, which saw it move on.
                audit::without_later(&head, &mut logged, after.count);
                return Ok((head, logged, broken));
            }
            looks += 1;
        }
    }

    /// The same, as it is read. A part that is no longer what a Baton wrote is a fault, and does not hide the others.
    async fn whole_book(&self, book: &Book) -> Result<(Head, Vec<Entry>, Vec<Fault>), Error> {
        let head = self.head(book).await?;
        let (mut logged, mut broken) = (Vec::new(), Vec::new());
        let mut missing = 0;
        // With the next act, which must not stand there: where a record was put back, the log goes on after it.
        for part in (0..=Entry::part(head.count.saturating_add(1))).rev() {
            match self.logged(book, part).await {
                Ok(entries) => {
                    missing = if entries.is_empty() { missing + 1 } else { 0 };
                    logged.extend(entries);
                }
                Err(Error::Store(StoreError::Corrupt { place, why, .. })) => {
                    let number = Some((part * audit::AUDIT_PART).max(1));
                    broken
                        .push(Fault { number, why: format!("from here on, {place} cannot be read: {why}") });
                }
                Err(error) => return Err(error),
            }
            if missing >= MAX_MISSING {
                break;
            }
        }
        // Between two steps of an act it stands in both places.
        logged.retain(|entry| head.last.as_ref() != Some(entry));
        Ok((head, logged, broken))
    }

    async fn logged(&self, book: &Book, part: u64) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for times in 0..=audit::MAX_SPILLED {
            let key = Key::Audit(book.clone(), Entry::spilled(part, times));
            let Some((Record::Audit(log), _)) = self.local.store.read(&key).await?.found else { break };
            let full = audit::is_full(&log);
            entries.extend(log.entries);
            if !full {
                break;
            }
        }
        Ok(entries)
    }

    /// What the record itself says of its acts.
    async fn head(&self, book: &Book) -> Result<Head, Error> {
        match book {
            Book::Election(election) => {
                let document = self.view_of_record(election).await?.document;
                let unknown = || Refusal::UnknownElection { election: election.to_string() };
                let document = document.ok_or_else(unknown)?;
                let last = document.last_act.as_ref().and_then(|last| last.entry.clone());
                Ok(Head { count: document.acts, last, operators: document.operator_keys.to_vec() })
            }
            Book::Store => {
                let info = self.local.fresh_info(self.patience, false).await?;
                let last = info.last_order.as_deref().cloned();
                let count = last.as_ref().map_or(info.orders, |last: &Entry| last.number);
                Ok(Head { count, last, operators: info.operator_keys.clone() })
            }
            Book::Tokens => {
                let tokens = self.known_tokens().await?;
                let last = tokens.last_order.as_deref().cloned();
                let count = last.as_ref().map_or(0, |last: &Entry| last.number);
                Ok(Head { count, last, operators: Vec::new() })
            }
        }
    }
}
