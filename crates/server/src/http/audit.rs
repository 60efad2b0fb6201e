//! What operators did, as it is asked for.

use baton_election::ContentHash;
use baton_election::audit::{Book, Entry, TokensAudit, Verdict};
use baton_election::time::{Moment, Span};
use baton_store::{Key, boot};

use super::Service;
use super::calls::Call;
use super::reply::{Problem, Reply, json as answer};

/// How many acts are shown if nobody says.
const ACTS: usize = 50;
/// The most of one answer.
const MAX_ACTS: usize = 1_000;
/// For how long it is believed what a look at the whole book of the access tokens showed.
const LOOK: Span = Span::secs(10);

/// What a look at the whole book of the access tokens showed.
pub(super) struct TokensLook {
    at: Moment,
    last: Option<ContentHash>,
    verdict: Verdict,
}

impl Service {
    /// The newest acts, the oldest of them first.
    pub(super) async fn audit(&self, call: &Call<'_>, book: Book) -> Result<Reply, Problem> {
        let limit = call.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(ACTS);
        answer(&self.coordinator.audit().read(&book, limit.min(MAX_ACTS)).await?)
    }

    /// The same of the access tokens, without their hashes, and so with what the server itself found.
    pub(super) async fn tokens_audit(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let limit = call.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(ACTS);
        let mut entries = self.coordinator.audit().read(&Book::Tokens, limit.clamp(1, MAX_ACTS)).await?;
        let verdict = self.tokens_verdict(entries.last().map(|entry| entry.hash)).await?;
        entries.truncate(limit);
        answer(&TokensAudit { entries: entries.iter().map(Entry::shown).collect(), verdict })
    }

    /// What a look at the whole book of the access tokens shows, as of this last order. Every page that is open asks, and to look takes a signature's check for each
    /// order there ever was: one look a moment is enough for all.
    async fn tokens_verdict(&self, last: Option<ContentHash>) -> Result<Verdict, Problem> {
        let mut looked = self.tokens_looked_at.lock().await;
        if let Some(before) = &*looked
            && before.last == last
            && boot::now().since(before.at) < LOOK
        {
            return Ok(before.verdict.clone());
        }
        let at = boot::now();
        let verdict = self.coordinator.audit().verify(&Book::Tokens).await?;
        *looked = Some(TokensLook { at, last: verdict.head, verdict: verdict.clone() });
        Ok(verdict)
    }

    /// A part of a log, for a client that verifies it. The number of the part is the name in this place.
    pub(super) async fn audit_part(
        &self,
        call: &Call<'_>,
        book: Book,
        place: usize,
    ) -> Result<Reply, Problem> {
        let part = call.name(place).parse().map_err(|_| {
            Problem::invalid(format!("`{}` is not the number of a part", call.name(place)), "write digits")
        })?;
        self.record(&Key::Audit(book, part)).await
    }
}
