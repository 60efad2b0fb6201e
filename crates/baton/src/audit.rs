//! What operators did, as it stands in the store: read, and verified.
//!
//! The record of an election, of the store itself and of its access tokens each remembers its last act whole; those before it stand in a log
//! beside it, in parts of bounded size that nobody shortens. Assumes what [`baton_election::audit`] assumes.

use std::collections::BTreeSet;

use baton_election::audit::{self, Book, Entry, Fault, Head, TokensAudit, Verdict};
use baton_election::operator::PublicKey;
use baton_election::{ElectionName, Refusal};
use baton_store::{Key, Prefix, Record, StoreError};

use crate::coordinator::Coordinator;
use crate::error::Error;

/// After so many parts that are not there it is not looked for more: a count that somebody made up keeps nobody busy. What is missing is
/// told all the same, as the act before the one that is there.
const MAX_MISSING: usize = 64;
/// How often a book is read that grows meanwhile.
const MAX_LOOKS: usize = 4;

/// Everybody who was an operator of the store: one who was removed may have ordered something before. None if some orders were carried out by a Baton that kept no
/// log: whom those made an operator nobody knows.
fn store_operators(head: &Head, logged: &[Entry]) -> Option<BTreeSet<PublicKey>> {
    let first = audit::first(head, logged);
    let is_whole = first.map_or(head.count == 0, |first| first == 1);
    is_whole.then(|| audit::operators(head, logged))
}

/// The audit logs of a store and its elections.
#[derive(Clone, Copy)]
pub struct AuditLogs<'a>(pub(crate) &'a Coordinator);

impl Coordinator {
    /// The acts of operators, as the store keeps them: read, and verified.
    pub fn audit(&self) -> AuditLogs<'_> {
        AuditLogs(self)
    }
}

impl AuditLogs<'_> {
    /// What operators did, the oldest first; at most `limit` of the newest.
    pub async fn read(self, book: &Book, limit: usize) -> Result<Vec<Entry>, Error> {
        if let Some(told) = self.told_of_tokens(book, limit).await? {
            return Ok(told.entries);
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
    pub async fn elections(self) -> Result<Vec<ElectionName>, Error> {
        let keys = self.0.backend.list(&Prefix::Audits).await?;
        let election = |key| match key {
            Key::Audit(Book::Election(election), _) => Some(election),
            _ => None,
        };
        Ok(keys.into_iter().filter_map(election).collect())
    }

    /// Looks at all of it: whether each entry is as it was written and signed, and none is missing. Of its access tokens a server
    /// tells what it found itself, since it shows nobody the hashes that those orders are signed over.
    pub async fn verify(self, book: &Book) -> Result<Verdict, Error> {
        if let Some(told) = self.told_of_tokens(book, 0).await? {
            return Ok(told.verdict);
        }
        let info = self.0.fresh_info(false).await?;
        let (head, logged, broken) = match self.book_at_rest(book).await {
            Err(Error::Refused(refusal @ Refusal::UnknownElection { .. })) => {
                return self.orphaned(book).await?.ok_or(Error::Refused(refusal));
            }
            read => read?,
        };
        let operators = match book {
            Book::Election(election) => {
                let told = audit::operators(&head, &logged);
                match self.0.view_of_record(election).await?.document {
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

    /// What a server found out about the orders on access tokens by itself.
    async fn told_of_tokens(self, book: &Book, limit: usize) -> Result<Option<TokensAudit>, Error> {
        match book {
            Book::Tokens => Ok(self.0.backend.orders()?.audit_tokens(self.0.patience, limit).await?),
            Book::Election(_) | Book::Store => Ok(None),
        }
    }

    /// What is to be said of the log of an election whose record is gone; none if there is no such log. Its first part tells.
    async fn orphaned(self, book: &Book) -> Result<Option<Verdict>, Error> {
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
    async fn book_at_rest(self, book: &Book) -> Result<(Head, Vec<Entry>, Vec<Fault>), Error> {
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
    async fn whole_book(self, book: &Book) -> Result<(Head, Vec<Entry>, Vec<Fault>), Error> {
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

    async fn logged(self, book: &Book, part: u64) -> Result<Vec<Entry>, Error> {
        let mut entries = Vec::new();
        for times in 0..=audit::MAX_SPILLED {
            let key = Key::Audit(book.clone(), Entry::spilled(part, times));
            let Some((Record::Audit(log), _)) = self.0.backend.read(&key).await?.found else { break };
            let full = audit::is_full(&log);
            entries.extend(log.entries);
            if !full {
                break;
            }
        }
        Ok(entries)
    }

    /// What the record itself says of its acts.
    async fn head(self, book: &Book) -> Result<Head, Error> {
        match book {
            Book::Election(election) => {
                let document = self.0.view_of_record(election).await?.document;
                let unknown = || Refusal::UnknownElection { election: election.to_string() };
                let document = document.ok_or_else(unknown)?;
                let last = document.last_act.as_ref().and_then(|last| last.entry.clone());
                Ok(Head { count: document.acts, last, operators: document.operator_keys.to_vec() })
            }
            Book::Store => {
                let info = self.0.fresh_info(false).await?;
                let last = info.last_order.as_deref().cloned();
                let count = last.as_ref().map_or(info.orders, |last: &Entry| last.number);
                Ok(Head { count, last, operators: info.operator_keys.clone() })
            }
            Book::Tokens => {
                let tokens = self.0.tokens().known().await?;
                let last = tokens.last_order.as_deref().cloned();
                let count = last.as_ref().map_or(0, |last: &Entry| last.number);
                Ok(Head { count, last, operators: Vec::new() })
            }
        }
    }
}
