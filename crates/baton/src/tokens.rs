//! The access tokens of a store's server: created and revoked by the word of an operator.
//!
//! The secret is made here and is sent nowhere: the order that is signed has its hash. Whoever can write the store by other means than
//! Baton's is not bound by the signature.

use baton_election::operator::OperatorKey;
use baton_election::time::Span;
use baton_election::tokens::{Pattern, Role, SignedTokenOrder, TokenChange, TokenEntry, TokenSecret};
use baton_election::{Refusal, TokenId, Tokens};
use baton_store::{Clock, Key, Record, boot};

use crate::coordinator::Coordinator;
use crate::error::Error;
use crate::local::Step;
use crate::there::insist;

/// How often an order is signed anew when others change the tokens under it.
const MAX_ATTEMPTS: usize = 8;

/// What a new token shall allow.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// What its bearer is.
    pub role: Role,
    /// As which agents it may act; as any if there is none.
    pub agents: Vec<Pattern>,
    /// Which elections it may see and take part in; all if there is none.
    pub elections: Vec<Pattern>,
    /// Whose it is, in words.
    pub note: String,
    /// After what time it expires, by the server's wall clock.
    pub expires: Option<Span>,
}

impl Coordinator {
    /// The access tokens, without their hashes.
    pub async fn tokens(&self) -> Result<Tokens, Error> {
        Ok(self.known_tokens().await?.shown())
    }

    pub(crate) async fn known_tokens(&self) -> Result<Tokens, Error> {
        match self.local.store.read(&Key::Tokens).await?.found {
            Some((Record::Tokens(tokens), _)) => Ok(tokens),
            Some(_) | None => Ok(Tokens::default()),
        }
    }

    /// Creates a token. What is returned first is its only copy.
    pub async fn create_token(
        &self,
        by: &OperatorKey,
        new: &NewToken,
    ) -> Result<(TokenSecret, TokenEntry), Error> {
        let (mut id, mut secret) = ([0; 6], [0; 32]);
        getrandom::fill(&mut id).map_err(std::io::Error::other)?;
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        let secret = TokenSecret::new(TokenId(id), secret);
        let created = boot::wall();
        let entry = TokenEntry {
            id: TokenId(id),
            hash: Some(secret.hash()),
            role: new.role,
            agents: new.agents.clone(),
            elections: new.elections.clone(),
            note: new.note.clone(),
            created,
            expires: new.expires.map(|span| created + span),
            by: by.public(),
        };
        self.change_tokens(by, &TokenChange::Create { token: entry.clone() }).await?;
        Ok((secret, entry))
    }

    /// Revokes a token: it opens nothing any more.
    pub async fn revoke_token(&self, by: &OperatorKey, id: TokenId) -> Result<(), Error> {
        self.change_tokens(by, &TokenChange::Revoke { id }).await
    }

    /// Signs a change, anew as often as somebody else's comes first.
    async fn change_tokens(&self, by: &OperatorKey, change: &TokenChange) -> Result<(), Error> {
        let info = self.info().await?;
        let (mut attempt, mut was_there) = (1, false);
        loop {
            let tokens = self.known_tokens().await?;
            // An earlier attempt whose answer was lost may have done it.
            let is_there = |id: TokenId| tokens.tokens.iter().any(|entry| entry.id == id);
            let done = match change {
                TokenChange::Create { token } => is_there(token.id),
                TokenChange::Revoke { id } => was_there && !is_there(*id),
            };
            if done {
                return Ok(());
            }
            was_there = matches!(change, TokenChange::Revoke { id } if is_there(*id));
            let order = by.sign_tokens(info.id, &tokens, change.clone());
            match self.order_tokens(&order).await {
                Err(Error::Refused(Refusal::Invalid { .. }))
                    if attempt < MAX_ATTEMPTS && self.known_tokens().await?.orders != tokens.orders =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Carries out a signed change of the access tokens.
    pub async fn order_tokens(&self, order: &SignedTokenOrder) -> Result<(), Error> {
        if let Some(decider) = self.store().decider() {
            return insist(self.patience, || decider.order_tokens(order)).await;
        }
        // Who the operators are is asked anew: one who was removed orders nothing.
        let info = self.local.fresh_info(self.patience, false).await?;
        self.local
            .change(&Key::Tokens, self.patience, |look| {
                let tokens = match look.record {
                    Some(Record::Tokens(tokens)) => tokens.clone(),
                    Some(_) | None => Tokens::default(),
                };
                let next = order.carry_out(&tokens, &info, boot::wall())?;
                Ok(if next == tokens {
                    Step::Done(())
                } else {
                    Step::Write(Record::Tokens(next), Clock::Keep, ())
                })
            })
            .await
    }
}
