//! `baton token`: who may reach a server, and as what.

use baton::election::TokenId;
use baton::election::time::Span;
use baton::election::tokens::{Pattern, Role, TokenEntry};
use baton::store::{Access, boot};
use baton::{Error, NewToken};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::operator::failure;
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::output::{Failure, Outcome, table};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton token create --role operator --store embedded:baton.redb         the first, without a server
  baton token create --role agent --agent 'ci-*' --elections 'fleet/*'   through the server
  baton token list
  baton token revoke 4b9884b1a0c2

A token is printed once; the store keeps its hash. Whoever shows it is let in: with $BATON_HTTP_TOKEN, or $BATON_HTTP_TOKEN_FILE, \
a file that only its owner can read. In a pattern * stands for any characters. Tokens are made and revoked with an operator's key.")]
pub(crate) struct Token {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Operator: make a token, and print it
    Create(Create),
    /// See which tokens there are
    List,
    /// Operator: this token opens nothing any more
    Revoke {
        /// Its id, as `baton token list` shows it
        id: TokenId,
    },
}

#[derive(Args, Debug)]
struct Create {
    /// What its bearer is: observer (sees), agent (takes part), operator (also hands in what an operator's key has signed)
    #[arg(long)]
    role: Role,
    /// As which agents it may act [default: as any]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    agent: Vec<Pattern>,
    /// Which elections it may see and take part in [default: all]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    elections: Vec<Pattern>,
    /// Whose it is, in words
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
    /// After what time it expires, by the server's wall clock [default: never]
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
}

impl Token {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.what {
            What::Create(create) => create.perform(global).await,
            What::List => list(global).await,
            What::Revoke { id } => revoke(global, *id).await,
        }
    }
}

impl Create {
    async fn perform(&self, global: &Global) -> Outcome {
        if self.expires == Some(Span::ZERO) {
            return Err(Failure::usage(
                "a token that expires at once lets nobody in",
                "give it some time: --expires 30d",
            ));
        }
        let own = keys::load()?;
        let context = Context::open(global, Access::Write).await?;
        let new = NewToken {
            role: self.role,
            agents: self.agent.clone(),
            elections: self.elections.clone(),
            note: self.note.clone(),
            expires: self.expires,
        };
        let created = context.coordinator.create_token(&own, &new).await;
        context.remember();
        let (secret, entry) = created.map_err(|error| failure(&error, &own))?;
        let mut data = shown(&entry);
        data.insert("outcome".to_string(), json!("created"));
        data.insert("token".to_string(), json!(secret.reveal()));
        context.output.say(&Value::Object(data), secret.reveal())?;
        context
            .output
            .talk(&format!("{} {}: shown this once; use it as $BATON_HTTP_TOKEN", entry.role, entry.id));
        Ok(Exit::Done)
    }
}

async fn revoke(global: &Global, id: TokenId) -> Outcome {
    let own = keys::load()?;
    let context = Context::open(global, Access::Write).await?;
    let revoked = context.coordinator.revoke_token(&own, id).await;
    context.remember();
    revoked.map_err(|error| failure(&error, &own))?;
    context.output.say(&json!({"outcome": "revoked", "id": id}), &format!("{id} opens nothing any more"))?;
    Ok(Exit::Done)
}

async fn list(global: &Global) -> Outcome {
    let context = Context::open(global, Access::Read).await?;
    let fail = |error: Error| Failure::from_error(&error, Speaker::Operator);
    let tokens = context.coordinator.tokens().await.map_err(fail)?.tokens;
    let now = boot::wall();
    let mut rows = Vec::new();
    for entry in &tokens {
        if context.output.json {
            context.output.line(&Value::Object(shown(entry)).to_string())?;
        }
        let expires = match entry.expires {
            Some(_) if entry.is_expired(now) => "expired".to_string(),
            Some(expires) => expires.to_string(),
            None => "never".to_string(),
        };
        let (id, role) = (entry.id.to_string(), entry.role.to_string());
        let (agents, elections) = (joined(&entry.agents, "any"), joined(&entry.elections, "all"));
        rows.push(vec![id, role, agents, elections, expires, entry.note.clone()]);
    }
    if !context.output.json {
        if rows.is_empty() {
            context.output.talk("there is no token: an operator makes one with `baton token create`");
        } else {
            let head = ["TOKEN", "ROLE", "AGENTS", "ELECTIONS", "EXPIRES", "NOTE"];
            context.output.line(&table(&head, &rows))?;
        }
    }
    Ok(Exit::Done)
}

fn joined(patterns: &[Pattern], none: &str) -> String {
    match patterns {
        [] => none.to_string(),
        some => some.iter().map(Pattern::as_str).collect::<Vec<_>>().join(","),
    }
}

/// What is told of a token: never its hash.
fn shown(entry: &TokenEntry) -> Map<String, Value> {
    let TokenEntry { id, hash: _, role, agents, elections, note, created, expires, by } = entry;
    let pairs = [
        ("id", json!(id)),
        ("role", json!(role)),
        ("agents", json!(agents)),
        ("elections", json!(elections)),
        ("note", json!(note)),
        ("created", json!(created)),
        ("expires", json!(expires)),
        ("expired", json!(entry.is_expired(boot::wall()))),
        ("by", json!(by)),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
