//! Signing in at a server's page: a key for the browser, and the operator's word for it.
//!
//! The operator's own key goes nowhere. What the browser needs is in the link, behind a `#`: that part of an address is sent to
//! nobody. The link works once; whoever gets hold of it before the browser does can act as the operator until the sign-in ends, and the
//! browser is then told that the link cannot be used.

use baton_api::elections::Page;
use baton_api::retried;
use baton_election::delegation::Delegation;
use baton_election::operator::OperatorKey;
use baton_election::time::Span;
use baton_election::{ContentHash, Refusal, hex};

use crate::error::Error;
use crate::operators::Operators;

/// What lets one browser sign in, once.
pub struct SignInLink {
    /// Where the page is.
    pub address: String,
    /// The secrets: what opens the sign-in, and the seed of the browser's key.
    code: String,
    seed: String,
}

impl SignInLink {
    /// The address that signs in whoever opens it first.
    pub fn reveal(&self) -> String {
        format!("{}/#sign-in={}.{}", self.address, self.code, self.seed)
    }
}

impl<'a> Operators<'a> {
    fn page(self) -> Result<&'a dyn Page, Error> {
        let page = self.0.backend.page();
        let page = page.ok_or_else(|| {
            Error::Refused(Refusal::invalid(
                format!("{} has no page: a server has one", self.0.backend.location()),
                "start one with `baton serve`, and name it: --store http://HOST:PORT",
            ))
        })?;
        if page.address().starts_with("unix:") {
            return Err(Error::Refused(Refusal::invalid(
                "a browser cannot open a Unix socket",
                "name the server's address: --store http://HOST:PORT; a server listens at both with two --listen",
            )));
        }
        Ok(page)
    }

    /// Lets a browser act for an operator for so long.
    pub async fn sign_in(self, by: &OperatorKey, lasts: Span) -> Result<SignInLink, Error> {
        let (mut seed, mut code) = ([0; 32], [0; 32]);
        getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
        getrandom::fill(&mut code).map_err(std::io::Error::other)?;
        let code = hex::encode(&code);
        let address = self.delegate(by, &OperatorKey::from_seed(seed), &code, lasts).await?;
        Ok(SignInLink { address, code, seed: hex::encode(&seed) })
    }

    /// Ends every sign-in of this operator at the server.
    pub async fn sign_out(self, by: &OperatorKey) -> Result<(), Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(std::io::Error::other)?;
        self.delegate(by, &OperatorKey::from_seed(seed), "", Span::ZERO).await.map(drop)
    }

    /// Returns where the page is for which it counts.
    async fn delegate(
        self,
        by: &OperatorKey,
        browser: &OperatorKey,
        code: &str,
        lasts: Span,
    ) -> Result<String, Error> {
        let page = self.page()?;
        let server = retried(self.0.patience, || page.run()).await?;
        let store = self.0.info().await?.id;
        let code = ContentHash::of(code.as_bytes());
        // Of several servers the one that answered: another has another run, and refuses it.
        let origin = page.address().trim_end_matches('/').to_string();
        let given = by.delegate(Delegation {
            store,
            server,
            origin: origin.clone(),
            key: browser.public(),
            code,
            lasts,
        });
        retried(self.0.patience, || page.begin_sign_in(&given)).await?;
        Ok(origin)
    }
}
