//! Whose JWTs a server takes.

use std::path::PathBuf;
use std::sync::Arc;

use baton::election::time::Span;
use baton_server::{Jwt, JwtRules};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use crate::output::{Failure, Output};

#[derive(Args, Debug)]
pub(crate) struct JwtFlags {
    /// Accept JWTs that these public keys (JWKS) verify, instead of tokens; SIGHUP reads the file again
    #[arg(long, value_name = "FILE", requires = "jwt_issuer", requires = "jwt_audience")]
    jwt_keys: Option<PathBuf>,
    /// The issuer of the JWTs: their `iss`, to the letter
    #[arg(long, value_name = "URL", requires = "jwt_keys")]
    jwt_issuer: Option<String>,
    /// The name of this server in the JWTs: their `aud`, or one of them
    #[arg(long, value_name = "NAME", requires = "jwt_keys")]
    jwt_audience: Option<String>,
    /// The longest life of a JWT, from when it was issued
    #[arg(long, value_name = "DURATION", default_value = "1h", requires = "jwt_keys")]
    jwt_longest: Span,
}

impl JwtFlags {
    /// The keys, if they were named.
    pub(crate) fn load(&self) -> Result<Option<Arc<Jwt>>, Failure> {
        let (Some(file), Some(issuer), Some(audience)) =
            (&self.jwt_keys, &self.jwt_issuer, &self.jwt_audience)
        else {
            return Ok(None);
        };
        if issuer.is_empty() || audience.is_empty() || self.jwt_longest == Span::ZERO {
            return Err(Failure::usage(
                "a JWT has an issuer, an audience and some time to live",
                "leave none of --jwt-issuer, --jwt-audience and --jwt-longest empty",
            ));
        }
        let rules = JwtRules { longest: self.jwt_longest, ..JwtRules::new(issuer, audience) };
        let jwt = Jwt::load(file, rules).map_err(|error| Failure::usage(error.to_string(), error.hint))?;
        Ok(Some(Arc::new(jwt)))
    }
}

/// Reads the keys again whenever it is told to, for ever. Without them the signal keeps its meaning.
pub(crate) async fn reload(jwt: Option<Arc<Jwt>>, output: Output) -> std::io::Result<()> {
    let Some(jwt) = jwt else { return std::future::pending().await };
    let mut told = signal(SignalKind::hangup())?;
    while told.recv().await.is_some() {
        match jwt.reload() {
            Ok(()) => output.talk(&format!("baton: the keys of JWTs were read again: {}", jwt.count())),
            Err(error) => {
                output.talk(&format!(
                    "baton: the former keys of JWTs stay in use: {error}; hint: {}",
                    error.hint
                ));
            }
        }
    }
    Ok(())
}
