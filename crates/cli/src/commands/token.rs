//! `baton token`: who may reach a server, and as what.

use std::str::FromStr;

use baton::election::operator::OperatorKey;
use baton::election::store_quorum::OrderOutcome;
use baton::election::time::Span;
use baton::election::tokens::{CertificateName, Pattern, Proof, Role, Subject, TokenEntry, check_claim};
use baton::election::{ElectionName, TokenId};
use baton::store::{Access, boot};
use baton::{NewToken, Swept};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::acts::failure;
use super::store_orders::{WAITING, waits};
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::keys;
use crate::options::break_glass::BreakGlassWithReason;
use crate::output::{Failure, Outcome, clean};
use crate::screen::{Screen, StoreCommand};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton token create --role operator --store embedded:baton.redb         the first, without a server
  baton token create --role agent --agent 'ci-*' --elections 'fleet/*'   through the server
  baton token create --role agent --certificate 'spiffe://acme/agents/*' for client certificates
  baton token create --role agent --subject 'repo:acme/app:*'            for JWTs
  baton token list
  baton token revoke 4b9884b1a0c2
  baton token revoke --note 'CI of the fleet'                            all with this note
  baton token revoke 4b9884b1a0c2 --depose                               and depose the leaders that used it

Baton prints a token once; the store keeps only its hash. A token expires after 90 days unless --expires says otherwise. Clients read it from $BATON_HTTP_TOKEN, or from the file $BATON_HTTP_TOKEN_FILE, which only its owner may be able to read. In a pattern, * matches any characters. Creating and revoking tokens needs an operator's key. For the other kinds of token, see `baton help tokens`.")]
pub(crate) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Operator: create a token, and print it
    Create(Create),
    /// List the tokens
    List,
    /// Operator: revoke a token, or all tokens with a note
    Revoke(Revoke),
}

#[derive(Args, Debug)]
struct Revoke {
    /// The token's id, as `baton token list` shows it
    #[arg(required_unless_present = "note")]
    id: Option<TokenId>,
    /// Revoke all tokens with exactly this note
    #[arg(long, value_name = "TEXT", conflicts_with = "id")]
    note: Option<String>,
    /// Also depose every leader whose lease was granted through it
    #[arg(long)]
    depose: bool,
    /// With --depose: successors do not wait for those leases; safe only behind fences
    #[arg(long, requires = "depose")]
    force: bool,
    #[command(flatten)]
    break_glass: BreakGlassWithReason,
}

#[derive(Args, Debug)]
struct Create {
    /// Its role: observer (read), agent (take part in elections), operator (also submit acts that an operator's key has signed)
    #[arg(long)]
    role: Role,
    /// The agents as which it may act [default: any]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    agent: Vec<Pattern>,
    /// The elections that it may see and take part in [default: all]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    elections: Vec<Pattern>,
    /// The fenced resources that it may see and use [default: the patterns of --elections]
    #[arg(long, value_name = "PATTERN,…", value_delimiter = ',')]
    resources: Vec<Pattern>,
    /// Accept a client certificate with this DNS name or URI, instead of a secret; a URI may end in /*; see `baton serve --client-ca`
    #[arg(long, value_name = "NAME", help_heading = "Instead of a secret")]
    certificate: Option<CertificateName>,
    /// Accept a JWT with this subject, instead of a secret; it may end in * after a / or a :; see `baton serve --jwt-keys`
    #[arg(
        long,
        value_name = "SUBJECT",
        conflicts_with = "certificate",
        help_heading = "Instead of a secret"
    )]
    subject: Option<Subject>,
    /// Require this claim in the JWT, as a string or in a list of strings; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = claim, requires = "subject", help_heading = "Instead of a secret")]
    claim: Vec<(String, String)>,
    /// A note for people, such as its owner
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
    /// The time until it expires, by the server's wall clock, or `never`
    #[arg(long, value_name = "DURATION", default_value = "90d")]
    expires: Expiry,
    #[command(flatten)]
    break_glass: BreakGlassWithReason,
}

/// After what time a token expires, if it does.
#[derive(Clone, Copy, Debug)]
struct Expiry(Option<Span>);

impl FromStr for Expiry {
    type Err = String;
    fn from_str(text: &str) -> Result<Expiry, String> {
        match text {
            "never" => Ok(Expiry(None)),
            _ => text.parse().map(|span| Expiry(Some(span))).map_err(|error| format!("{error}, or `never`")),
        }
    }
}

/// A token that expires within this time is pointed out: somebody has to make another.
const SOON: Span = Span::secs(7 * 86_400);

impl Token {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        match &self.action {
            Action::Create(create) => create.perform(global).await,
            Action::List => List.perform(global).await,
            Action::Revoke(revoke) => revoke.perform(global).await,
        }
    }
}

impl StoreCommand for Create {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Operator;

    fn check(&self) -> Result<(), Failure> {
        if self.expires.0 == Some(Span::ZERO) {
            return Err(Failure::usage(
                "a token that expires at once lets nobody in",
                "give it some time: --expires 30d",
            ));
        }
        keys::load().map(drop)
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let own = keys::load()?;
        let new = NewToken {
            role: self.role,
            agents: self.agent.clone(),
            elections: self.elections.clone(),
            resources: self.resources.clone(),
            note: self.note.clone(),
            expires: self.expires.0,
        };
        let (coordinator, reason) = (&context.coordinator, self.break_glass.reason());
        let created = match self.proof() {
            Some(proof) => coordinator
                .tokens()
                .allow(&own, &new, proof, reason)
                .await
                .map(|(entry, outcome)| (None, entry, outcome)),
            None => coordinator
                .tokens()
                .create_urgently(&own, &new, reason)
                .await
                .map(|(secret, entry, outcome)| (Some(secret), entry, outcome)),
        };
        let (secret, entry, outcome) = created.map_err(|error| failure(&error, &own))?;
        let mut data = shown(&entry);
        let word = if outcome == OrderOutcome::Done { "created" } else { "signed" };
        data.insert("outcome".to_string(), json!(word));
        let TokenEntry { id, role, proof, .. } = &entry;
        let screen = match &secret {
            Some(secret) => {
                data.insert("token".to_string(), json!(secret.reveal()));
                Screen::new(Value::Object(data), secret.reveal())
                    .note(format!("{role} {id}: shown this once; use it as $BATON_HTTP_TOKEN"))
            }
            None => Screen::new(Value::Object(data), format!("{role} {id}: opened by {proof}")),
        };
        let expires = entry.expires;
        let screen =
            screen
                .notes(expires.map(|expires| {
                    format!("it expires at {expires}; for another time: --expires 30d|never")
                }));
        if let OrderOutcome::Signed { have, need } = outcome {
            let text = format!("it opens nothing yet: {have} of {need} operators have signed");
            return Ok(screen.note(text).note(WAITING).exit(Exit::Operator));
        }
        Ok(screen)
    }
}

impl Create {
    /// What opens it, if that is not a secret.
    fn proof(&self) -> Option<Proof> {
        match (&self.certificate, &self.subject) {
            (Some(name), _) => Some(Proof::Certificate { name: name.clone() }),
            (None, Some(subject)) => {
                Some(Proof::Jwt { subject: subject.clone(), claims: self.claim.iter().cloned().collect() })
            }
            (None, None) => None,
        }
    }
}

impl StoreCommand for Revoke {
    const ACCESS: Access = Access::Write;
    const SPEAKER: Speaker = Speaker::Operator;

    fn check(&self) -> Result<(), Failure> {
        keys::load().map(drop)
    }

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let own = keys::load()?;
        let ids = match (self.id, &self.note) {
            (Some(id), _) => vec![id],
            (None, note) => {
                let tokens =
                    context.coordinator.tokens().list().await.map_err(|error| failure(&error, &own))?;
                let noted = tokens.tokens.iter().filter(|entry| Some(&entry.note) == note.as_ref());
                noted.map(|entry| entry.id).collect()
            }
        };
        if ids.is_empty() {
            return Err(Failure::usage("no token has this note", "`baton token list` shows the notes"));
        }
        let mut exit = Exit::Done;
        for id in ids {
            let revoked =
                context.coordinator.tokens().revoke_urgently(&own, id, self.break_glass.reason()).await;
            match revoked.map_err(|error| failure(&error, &own))? {
                OrderOutcome::Done if self.depose => {
                    if self.sweep(context, &own, id).await? == Exit::Operator {
                        exit = Exit::Operator;
                    }
                }
                OrderOutcome::Done => {
                    let data = json!({"outcome": "revoked", "id": id});
                    context.output.say(&data, &format!("token {id} revoked"))?;
                }
                OrderOutcome::Signed { have, need } => {
                    exit = waits(&format!("revoke token {id}"), (have, need)).print(context.output)?;
                    if self.depose {
                        context.output.talk(
                            "nobody is deposed yet; once the token is revoked: baton depose ELECTION for each leader",
                        );
                    }
                }
            }
        }
        Ok(Screen::ended(exit))
    }
}

impl Revoke {
    /// Deposes whoever leads through a token that is revoked.
    async fn sweep(&self, context: &Context, own: &OperatorKey, id: TokenId) -> Outcome {
        let swept = context.coordinator.tokens().depose(own, id, self.force).await;
        let swept = swept.map_err(|error| failure(&error, own))?;
        self.tell(context, id, &swept)?;
        for (election, error) in &swept.failed {
            context.output.talk(&format!("the leader of {election} could not be deposed: {error}"));
        }
        if let Some((_, error)) = swept.failed.into_iter().next() {
            return Err(failure(&error, own));
        }
        Ok(if swept.waiting.is_empty() { Exit::Done } else { Exit::Operator })
    }

    fn tell(&self, context: &Context, id: TokenId, swept: &Swept) -> Result<(), Failure> {
        let names = |elections: &[ElectionName]| {
            elections.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let data = json!({
            "outcome": "revoked", "id": id, "deposed": swept.deposed, "waiting": swept.waiting,
        });
        let text = match swept.deposed.as_slice() {
            [] => format!("token {id} revoked; nobody was deposed"),
            deposed => format!("token {id} revoked; deposed the leader of {}", names(deposed)),
        };
        context.output.say(&data, &text)?;
        if !swept.waiting.is_empty() {
            let waiting = names(&swept.waiting);
            context.output.talk(&format!("other operators must sign it, with baton cosign, in: {waiting}"));
        }
        Ok(())
    }
}

/// The command `token list`.
struct List;

impl StoreCommand for List {
    const SPEAKER: Speaker = Speaker::Operator;

    async fn screen(&self, context: &Context) -> Result<Screen, Failure> {
        let tokens = context.coordinator.tokens().list().await?.tokens;
        let uses = context.coordinator.tokens().uses().await?;
        let now = boot::wall();
        let (mut data, mut rows) = (Vec::new(), Vec::new());
        for entry in &tokens {
            let used = uses.as_ref().and_then(|uses| uses.get(&entry.id));
            let mut object = shown(entry);
            object.insert("last_used".to_string(), json!(used.map(|used| used.last_used)));
            object.insert("last_address".to_string(), json!(used.map(|used| &used.last_address)));
            object.insert("refused".to_string(), json!(used.map(|used| used.refused)));
            data.push(Value::Object(object));
            let expires = match entry.expires {
                Some(_) if entry.is_expired(now) => "expired".to_string(),
                Some(expires) => expires.to_string(),
                None => "never".to_string(),
            };
            rows.push(vec![
                entry.id.to_string(),
                entry.role.to_string(),
                entry.proof.to_string(),
                joined(&entry.agents, "any"),
                joined(&entry.elections, "all"),
                joined(entry.resource_patterns(), "all"),
                expires,
                used.map_or("-".to_string(), |used| format!("{} from {}", used.last_used, used.last_address)),
                entry.note.clone(),
            ]);
        }
        for entry in tokens.iter().filter(|entry| !entry.is_expired(now) && entry.is_expired(now + SOON)) {
            let TokenEntry { id, note, expires, .. } = entry;
            let expires = expires.map(|expires| expires.to_string()).unwrap_or_default();
            context.output.talk(&format!(
                "token {id} ({note}) expires soon, at {expires}; make another: baton token create"
            ));
        }
        let none = "there is no token: an operator makes one with `baton token create`";
        Ok(Screen::table(data, &LIST_HEAD, &rows, none))
    }
}

const LIST_HEAD: [&str; 9] =
    ["TOKEN", "ROLE", "OPENED BY", "AGENTS", "ELECTIONS", "RESOURCES", "EXPIRES", "LAST USED", "NOTE"];

/// A claim, as it is written.
fn claim(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE, such as repository=acme/app")?;
    check_claim(name, value)?;
    Ok((name.to_string(), value.to_string()))
}

fn joined(patterns: &[Pattern], none: &str) -> String {
    match patterns {
        [] => none.to_string(),
        some => some.iter().map(Pattern::as_str).collect::<Vec<_>>().join(","),
    }
}

/// What a token opens, and to whom, for whoever is to sign it.
pub(super) fn facts(entry: &TokenEntry) -> [(&'static str, String); 7] {
    [
        ("role", entry.role.to_string()),
        ("opened by", clean(&entry.proof.to_string())),
        ("agents", joined(&entry.agents, "any")),
        ("elections", joined(&entry.elections, "all")),
        ("resources", joined(entry.resource_patterns(), "all")),
        ("expires", entry.expires.map_or("never".to_string(), |expires| expires.to_string())),
        ("note", if entry.note.is_empty() { "-".to_string() } else { clean(&entry.note) }),
    ]
}

/// What is told of a token: never its hash.
pub(super) fn shown(entry: &TokenEntry) -> Map<String, Value> {
    let TokenEntry { id, proof, role, agents, elections, resources: _, note, created, expires, by } = entry;
    let pairs = [
        ("id", json!(id)),
        ("role", json!(role)),
        ("proof", json!(proof.shown())),
        ("agents", json!(agents)),
        ("elections", json!(elections)),
        ("resources", json!(entry.resource_patterns())),
        ("note", json!(note)),
        ("created", json!(created)),
        ("expires", json!(expires)),
        ("expired", json!(entry.is_expired(boot::wall()))),
        ("by", json!(by)),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
}
