//! What falls out of a record by a swap stands in the log beside it first.

use std::sync::Arc;

use baton_api::Patience;
use baton_api::elections::CommandError;
use baton_election::audit::{self, Book, Entry};
use baton_election::log::Log;
use baton_store::{AgeStamp, Key, Persistence, Record};

use crate::executor::{Executor, Step};

impl Executor {
    /// Puts an act into its log, once. Whoever swaps documents by itself does this before the swap that pushes it out.
    pub async fn record_act(&self, book: Book, entry: &Entry) -> Result<(), CommandError> {
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

/// The act that is no longer shown by a record once `next` stands in its place, and where it belongs.
pub(crate) fn pushed_out<'a>(key: &Key, old: Option<&'a Record>, next: &Record) -> Option<(Book, &'a Entry)> {
    let replaced = |old: Option<&'a Arc<Entry>>, new: Option<&Arc<Entry>>| {
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
