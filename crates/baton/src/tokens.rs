//! The access tokens of a store's server: created and revoked by the word of an operator.
//!
//! A secret is made here and is sent nowhere: the order that is signed has its hash. Whoever can write the store by other means than
//! Baton's is not bound by the signature.

use std::collections::BTreeMap;

use baton_api::retried;
use baton_api::uses::TokenUse;
use baton_election::operator::{Act, OperatorKey};
use baton_election::store_quorum::{OrderOutcome, PendingOrder};
use baton_election::time::Span;
use baton_election::tokens::{
    Pattern, Proof, Role, SignedTokenOrder, TokenChange, TokenEntry, TokenOrder, TokenSecret,
};
use baton_election::{Answer, ElectionName, Refusal, TokenId, Tokens};
use baton_store::boot;

use crate::coordinator::Coordinator;
use crate::error::Error;

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
    /// Which resources it may see and touch; if there is none, those that the patterns of its elections cover.
    pub resources: Vec<Pattern>,
    /// Whose it is, in words.
    pub note: String,
    /// After what time it expires, by the server's wall clock.
    pub expires: Option<Span>,
}

/// What became of the leaderships by one access token.
#[derive(Debug, Default)]
pub struct Swept {
    /// Where the leader was deposed.
    pub deposed: Vec<ElectionName>,
    /// Where more operators must sign it.
    pub waiting: Vec<ElectionName>,
    /// Where it could not be done, and why.
    pub failed: Vec<(ElectionName, Error)>,
}

/// The access tokens of a store's server.
#[derive(Clone, Copy)]
pub struct AccessTokens<'a>(pub(crate) &'a Coordinator);

impl Coordinator {
    /// The access tokens: listed, created and revoked.
    pub fn tokens(&self) -> AccessTokens<'_> {
        AccessTokens(self)
    }
}

impl AccessTokens<'_> {
    /// The access tokens, without their hashes.
    pub async fn list(self) -> Result<Tokens, Error> {
        Ok(self.known().await?.shown())
    }

    pub(crate) async fn known(self) -> Result<Tokens, Error> {
        Ok(baton_executor::known_tokens(&*self.0.backend).await?)
    }

    /// Creates a token. What is returned first is its only copy. Where the store asks for several operators, the token opens nothing until they have
    /// signed too, as the outcome says.
    pub async fn create(
        self,
        by: &OperatorKey,
        new: &NewToken,
    ) -> Result<(TokenSecret, TokenEntry, OrderOutcome), Error> {
        self.create_urgently(by, new, None).await
    }

    /// The same; with a reason to, without waiting for the other operators, if the store lets one act alone.
    pub async fn create_urgently(
        self,
        by: &OperatorKey,
        new: &NewToken,
        break_glass: Option<&str>,
    ) -> Result<(TokenSecret, TokenEntry, OrderOutcome), Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        let id = new_id()?;
        let secret = TokenSecret::new(id, secret);
        let proof = Proof::Secret { hash: Some(secret.hash()) };
        let (entry, outcome) = self.create_entry(by, new, id, proof, break_glass).await?;
        Ok((secret, entry, outcome))
    }

    /// Creates an entry that a client certificate or a JWT opens. There is no secret to hand out.
    pub async fn allow(
        self,
        by: &OperatorKey,
        new: &NewToken,
        proof: Proof,
        break_glass: Option<&str>,
    ) -> Result<(TokenEntry, OrderOutcome), Error> {
        self.create_entry(by, new, new_id()?, proof, break_glass).await
    }

    async fn create_entry(
        self,
        by: &OperatorKey,
        new: &NewToken,
        id: TokenId,
        proof: Proof,
        break_glass: Option<&str>,
    ) -> Result<(TokenEntry, OrderOutcome), Error> {
        let NewToken { role, agents, elections, resources, note, expires } = new.clone();
        let created = boot::wall();
        let expires = expires.map(|span| created + span);
        let entry = TokenEntry {
            id,
            proof,
            role,
            agents,
            elections,
            resources,
            note,
            created,
            expires,
            by: by.public(),
        };
        let create = TokenChange::Create { token: entry.clone() };
        let outcome = self.change(by, &create, break_glass).await?;
        Ok((entry, outcome))
    }

    /// Revokes a token: the server refuses it from then on.
    pub async fn revoke(self, by: &OperatorKey, id: TokenId) -> Result<OrderOutcome, Error> {
        self.revoke_urgently(by, id, None).await
    }

    /// The same; with a reason to, without waiting for the other operators, if the store asks for several and lets one act alone.
    pub async fn revoke_urgently(
        self,
        by: &OperatorKey,
        id: TokenId,
        break_glass: Option<&str>,
    ) -> Result<OrderOutcome, Error> {
        self.change(by, &TokenChange::Revoke { id }, break_glass).await
    }

    /// Deposes everybody whose lease was granted through an access token. With `force` successors do not wait for those leases.
    ///
    /// Whoever revokes the token first leaves nobody out: a request that is under way then may be granted, so it is looked again until
    /// nothing is found. What is granted later to somebody who waited in line is an offer, which takes the token to be claimed.
    pub async fn depose(self, by: &OperatorKey, id: TokenId, force: bool) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        let act = Act::Depose { force, reason: format!("access token {id} was revoked") };
        for _ in 0..MAX_ATTEMPTS {
            let mut found = false;
            for election in self.0.elections().await? {
                let view = self.0.view(&election).await?;
                let Some(document) = &view.document else { continue };
                let leads = document.leader.as_ref().is_some_and(|leader| leader.through == Some(id));
                // Whoever was deposed before, but is waited for.
                let waited = document.outgoing.as_ref().is_some_and(|leader| leader.through == Some(id));
                let met = swept.waiting.contains(&election)
                    || swept.failed.iter().any(|(failed, _)| *failed == election);
                if met || !(leads || waited && force) || document.lease_remaining(view.age) == Span::ZERO {
                    continue;
                }
                found = true;
                match self.0.operate(&election, by, &act).await {
                    // The election changed after the act was signed: the next round looks at it again.
                    Err(Error::Refused(Refusal::Stale { .. })) => {}
                    Err(Error::Store(error)) if error.is_passing() => return Err(error.into()),
                    Err(error) => swept.failed.push((election, error)),
                    Ok(Answer::Signed { .. }) => swept.waiting.push(election),
                    Ok(_) => swept.deposed.push(election),
                }
            }
            if !found {
                break;
            }
        }
        Ok(swept)
    }

    /// Signs a change, anew as often as somebody else's comes first.
    async fn change(
        self,
        by: &OperatorKey,
        change: &TokenChange,
        break_glass: Option<&str>,
    ) -> Result<OrderOutcome, Error> {
        let info = self.0.fresh_info(false).await?;
        let (mut attempt, mut was_there) = (1, false);
        loop {
            let tokens = self.known().await?;
            // An earlier attempt whose answer was lost may have done it.
            let is_there = |id: TokenId| tokens.tokens.iter().any(|entry| entry.id == id);
            let done = match change {
                TokenChange::Create { token } => is_there(token.id),
                TokenChange::Revoke { id } => was_there && !is_there(*id),
            };
            if done {
                return Ok(OrderOutcome::Done);
            }
            was_there = matches!(change, TokenChange::Revoke { id } if is_there(*id));
            let alone = break_glass.map(ToString::to_string);
            let order = by.sign_tokens_urgently(&info, &tokens, change.clone(), alone, boot::wall());
            match self.submit(&order).await {
                Err(Error::Refused(Refusal::Invalid { .. }))
                    if attempt < MAX_ATTEMPTS && self.known().await?.orders != tokens.orders =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Carries out a signed change of the access tokens, or has it wait for more signatures.
    pub async fn submit(self, order: &SignedTokenOrder) -> Result<OrderOutcome, Error> {
        Ok(self.0.backend.orders()?.order_tokens(self.0.patience, order).await?)
    }

    /// Signs an order on access tokens that another operator has signed.
    pub async fn cosign(
        self,
        by: &OperatorKey,
        waiting: &PendingOrder<TokenOrder>,
    ) -> Result<OrderOutcome, Error> {
        let info = self.0.fresh_info(false).await?;
        let next = info.number_after(self.known().await?.orders);
        waiting.check(&info, next, boot::wall())?;
        self.submit(&by.cosign_order(waiting)).await
    }

    /// The last use of each access token that was used since the server began. None without a server.
    pub async fn uses(self) -> Result<Option<BTreeMap<TokenId, TokenUse>>, Error> {
        match self.0.backend.uses() {
            Some(uses) => Ok(Some(retried(self.0.patience, || uses.uses()).await?)),
            None => Ok(None),
        }
    }
}

fn new_id() -> Result<TokenId, Error> {
    let mut id = [0; 6];
    getrandom::fill(&mut id).map_err(std::io::Error::other)?;
    Ok(TokenId(id))
}
