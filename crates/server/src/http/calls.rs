//! What each request does.

use std::sync::Arc;

use baton_election::command::{Acknowledge, Acquire, Pass, Release, Renew, Report, WriteCheckpoint};
use baton_election::operator::Signed;
use baton_election::time::Span;
use baton_election::{
    AgentName, Answer, Candidate, Command, Credential, Document, ElectionName, Epoch, Refusal, ResourceName,
    fence,
};
use baton_store::{Decided, Key, Prefix, Reading, Record, Store, StoreError};
use bytes::Bytes;
use http::StatusCode;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::identity::Who;
use super::limits::Says;
use super::reply::{Problem, ProblemShown, Reply, json as answer, reply};
use super::right::Right;
use super::route::{Ask, decoded};
use super::{Service, events, openapi};

/// The most entries of a batch.
const MAX_BATCH: usize = 20_000;
/// After so many entries of a batch others are served.
const IN_A_ROW: usize = 256;
/// How many transitions are shown if nobody says.
const HISTORY: usize = 20;
/// The longest that one request waits in line.
const MAX_WAIT: Span = Span::secs(60);

/// A request, taken apart.
pub(super) struct Call<'a> {
    pub(super) who: &'a Who,
    pub(super) names: Vec<String>,
    pub(super) query: Option<&'a str>,
    /// What the client was told last of a stream.
    pub(super) last_event: Option<&'a str>,
    pub(super) body: Bytes,
}

impl Call<'_> {
    pub(super) fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", String::as_str)
    }

    fn election(&self) -> Result<ElectionName, Problem> {
        ElectionName::new(self.name(0)).map_err(|error| baton::Error::from(error).into())
    }

    pub(super) fn resource(&self) -> Result<ResourceName, Problem> {
        ResourceName::new(self.name(0)).map_err(|error| baton::Error::from(error).into())
    }

    fn agent(&self) -> Result<AgentName, Problem> {
        AgentName::new(self.name(1)).map_err(|error| baton::Error::from(error).into())
    }

    fn parameter(&self, wanted: &str) -> Option<String> {
        let pairs = self.query?.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == wanted).find_map(|(_, value)| decoded(value))
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let parse = |text: String| {
            text.parse()
                .map_err(|_| Problem::invalid(format!("`{name}={text}` is not a number"), "write digits"))
        };
        self.parameter(name).map(parse).transpose()
    }

    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        // An array would be taken for an object whose fields come in their order.
        if self.body.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
            return Err(Problem::invalid("the body is not an object", "see /openapi.json"));
        }
        parsed(&self.body).map_err(|error| {
            Problem::invalid(format!("the body is not what this takes: {error}"), "see /openapi.json")
        })
    }
}

/// What a text says. `1.0` is a whole number in JSON's schemas, and some languages write it so.
fn parsed<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text).or_else(|error| {
        let mut value: Value = serde_json::from_slice(text)?;
        if make_whole(&mut value) { serde_json::from_value(value) } else { Err(error) }
    })
}

/// Writes whole numbers without a fraction. Says whether there were any with one.
fn make_whole(value: &mut Value) -> bool {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|_| number.is_f64()).and_then(|float| {
                // The decimals of a float that has none are its digits, however large it is.
                let digits = format!("{float:.0}");
                if float.fract() == 0.0 { digits.parse::<serde_json::Number>().ok() } else { None }
            });
            whole.map(|whole| *number = whole).is_some()
        }
        Value::Array(array) => array.iter_mut().fold(false, |made, value| make_whole(value) | made),
        Value::Object(object) => object.values_mut().fold(false, |made, value| make_whole(value) | made),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// What a record looks like to who reads it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Shown {
    #[schemars(with = "Option<serde_json::Map<String, Value>>")]
    record: Option<Box<RawValue>>,
    version: Option<String>,
    age_ms: Option<u64>,
}

/// One of many: an election, and one of the others.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    election: ElectionName,
    acquire: Option<Acquire>,
    renew: Option<Renew>,
    release: Option<Release>,
    pass: Option<Pass>,
    checkpoint: Option<WriteCheckpoint>,
    acknowledge: Option<Acknowledge>,
    report: Option<Report>,
    operate: Option<Signed>,
    check: Option<Check>,
}

/// An entry of a batch. What is none is answered as malformed, and the others are carried out.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only described: each entry is read on its own")]
pub(super) enum AnyItem {
    Item(Box<Item>),
    Malformed(Value),
}

/// Whether a token may act.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Check {
    token: Epoch,
}

enum What {
    Command(Box<Command>),
    Check(Epoch),
}

impl Item {
    fn parse(text: &RawValue) -> Result<(ElectionName, What), Problem> {
        let item: Item = parsed(text.get().as_bytes()).map_err(|error| {
            Problem::invalid(format!("the entry is not what this takes: {error}"), "see /openapi.json")
        })?;
        let mut all = [
            item.acquire.map(Command::Acquire),
            item.renew.map(Command::Renew),
            item.release.map(Command::Release),
            item.pass.map(Command::Pass),
            item.checkpoint.map(Command::Checkpoint),
            item.acknowledge.map(Command::Acknowledge),
            item.report.map(Command::Report),
            item.operate.map(Command::Operate),
        ]
        .into_iter()
        .flatten()
        .map(|command| What::Command(Box::new(command)))
        .chain(item.check.map(|check| What::Check(check.token)));
        match (all.next(), all.next()) {
            (Some(what), None) => Ok((item.election, what)),
            (_, _) => Err(Problem::invalid(
                format!("the entry of `{}` asks for none or for several things", item.election),
                "write one of acquire, renew, release, pass, checkpoint, acknowledge, report, operate, check",
            )),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Withdrawal {
    agent: AgentName,
    credential: Credential,
}

impl Service {
    pub(super) async fn call(self: &Arc<Self>, ask: Ask, call: Call<'_>) -> Result<Reply, Problem> {
        match ask {
            Ask::Renew => self.execute(&call, Command::Renew(call.json()?)).await,
            Ask::Acquire => self.acquire(&call).await,
            Ask::Release => self.execute(&call, Command::Release(call.json()?)).await,
            Ask::Pass => self.execute(&call, Command::Pass(call.json()?)).await,
            Ask::Checkpoint => self.execute(&call, Command::Checkpoint(call.json()?)).await,
            Ask::Acknowledge => self.execute(&call, Command::Acknowledge(call.json()?)).await,
            Ask::Report => self.execute(&call, Command::Report(call.json()?)).await,
            Ask::Operate => self.execute(&call, Command::Operate(call.json()?)).await,
            Ask::Batch => self.batch(&call).await,
            Ask::Election => self.record(&Key::Election(call.election()?)).await,
            Ask::Leader => self.leader(&call.election()?).await,
            Ask::Watch => events::stream(self, &call.election()?, call.last_event).await,
            Ask::History => self.history(&call).await,
            Ask::Candidates => self.candidates(&call).await,
            Ask::Candidate => self.record(&Key::Candidate(call.election()?, call.agent()?)).await,
            Ask::Enlist => self.enlist(&call).await,
            Ask::Withdraw => {
                let Withdrawal { agent, credential } = call.json()?;
                call.who.identity.check_agent(&agent)?;
                self.throttle.take(call.who, Says::Agent(&agent))?;
                let stood = self.coordinator.withdraw(&call.election()?, &agent, credential).await?;
                answer(&Withdrawn { withdrawn: stood })
            }
            Ask::Elections => self.elections(&call).await,
            Ask::Fences => self.fences(&call).await,
            Ask::Fence => self.fence(&call).await,
            Ask::FenceLog => self.fence_log(&call).await,
            Ask::Admit => self.admit(&call).await,
            Ask::KeepHold => self.keep_hold(&call).await,
            Ask::LeaveHold => self.leave_hold(&call).await,
            Ask::Store => self.record(&Key::Store).await,
            Ask::Operators => {
                self.throttle.take(call.who, Says::Nothing)?;
                self.coordinator.set_operators(&call.json()?).await?;
                answer(&Nothing {})
            }
            Ask::Tokens => self.tokens().await,
            Ask::OrderTokens => {
                self.throttle.take(call.who, Says::Nothing)?;
                self.coordinator.order_tokens(&call.json()?).await?;
                answer(&Nothing {})
            }
            Ask::Health => {
                Ok(reply(StatusCode::OK, "text/plain; charset=utf-8", Bytes::from_static(b"ok\n")))
            }
            Ask::Ready => self.ready().await,
            Ask::OpenApi => Ok(reply(StatusCode::OK, "application/json", openapi::written())),
        }
    }

    async fn execute(&self, call: &Call<'_>, command: Command) -> Result<Reply, Problem> {
        self.allow(call.who, &command)?;
        let decided = self.engine.execute(&call.election()?, &command).await?;
        answer(&shown(&decided))
    }

    /// Refuses a command that its sender may not give, or not so many of.
    fn allow(&self, who: &Who, command: &Command) -> Result<(), Problem> {
        who.identity.check(Right::of_command(command))?;
        let says = match command {
            Command::Acquire(acquire) => return self.allow_acquire(who, acquire),
            Command::Report(report) => {
                who.identity.check_agent(&report.by)?;
                Says::Agent(&report.by)
            }
            // It is not written, and who is kept from it loses its lease.
            Command::Renew(_) => return Ok(()),
            Command::Release(release) => Says::Lease(release.credential.incarnation),
            Command::Pass(pass) => Says::Lease(pass.credential.incarnation),
            Command::Checkpoint(write) => Says::Lease(write.credential.incarnation),
            Command::Acknowledge(acknowledge) => Says::Lease(acknowledge.credential.incarnation),
            Command::Operate(_) => Says::Nothing,
        };
        self.throttle.take(who, says)
    }

    fn allow_acquire(&self, who: &Who, acquire: &Acquire) -> Result<(), Problem> {
        who.identity.check_agent(&acquire.agent)?;
        self.throttle.take(who, Says::Agent(&acquire.agent))
    }

    async fn acquire(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let wait = call.number("wait_ms")?.map_or(Span::ZERO, Span::millis).min(MAX_WAIT);
        let election = call.election()?;
        let acquire: Acquire = call.json()?;
        self.allow_acquire(call.who, &acquire)?;
        let acquired = self.engine.acquire(&election, acquire, wait);
        let decided = tokio::select! {
            acquired = acquired => acquired?,
            () = self.stops(), if wait > Span::ZERO => {
                let (location, why) = (format!("http://{}", self.address), "the server is stopping".to_string());
                return Err(StoreError::Unknown { location, why }.into());
            }
        };
        answer(&shown(&decided))
    }

    /// Each is answered on its own, in the order in which they came.
    async fn batch(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let items: Vec<&RawValue> = serde_json::from_slice(&call.body).map_err(|error| {
            Problem::invalid(format!("the body is not an array: {error}"), "see /openapi.json")
        })?;
        if items.len() > MAX_BATCH {
            return Err(Problem::invalid(
                format!("{} entries are too many", items.len()),
                format!("send at most {MAX_BATCH} at once"),
            ));
        }
        let mut answers = Vec::with_capacity(items.len());
        for (number, item) in items.into_iter().enumerate() {
            if number % IN_A_ROW == IN_A_ROW - 1 {
                tokio::task::yield_now().await;
            }
            let outcome = match Item::parse(item) {
                Ok((election, what)) => self.one_of_many(call.who, election, what).await,
                Err(problem) => Err(problem),
            };
            answers.push(outcome.unwrap_or_else(|problem| raw_value(&problem.to_value())));
        }
        answer(&answers)
    }

    async fn one_of_many(
        &self,
        who: &Who,
        election: ElectionName,
        what: What,
    ) -> Result<Box<RawValue>, Problem> {
        who.identity.check_election(&election)?;
        let command = match what {
            What::Command(command) => *command,
            What::Check(token) => return Ok(raw_value(&self.check(&election, token).await?)),
        };
        self.allow(who, &command)?;
        Ok(raw_value(&shown(&self.engine.execute(&election, &command).await?)))
    }

    async fn check(&self, election: &ElectionName, token: Epoch) -> Result<Checked, Problem> {
        let view = self.engine.view(election).await?;
        match &view.document {
            None => Err(Refusal::UnknownElection { election: election.to_string() }.into()),
            Some(document) => {
                fence::check(token, document, view.age)?;
                Ok(Checked { answer: Current::Current { epoch: token } })
            }
        }
    }

    pub(super) async fn record(&self, key: &Key) -> Result<Reply, Problem> {
        let Reading { found, age, .. } = self.behind.read(key).await?;
        let (record, version) = match found {
            Some((record, version)) => (Some(raw(&record)?), Some(version.as_str().to_string())),
            None => (None, None),
        };
        answer(&Shown { record, version, age_ms: age.map(Span::as_millis) })
    }

    /// For load balancers: the status says it all.
    async fn leader(&self, election: &ElectionName) -> Result<Reply, Problem> {
        let view = self.engine.view(election).await?;
        let document = view.document.as_ref();
        match document.and_then(|document| document.current_leader(view.age)) {
            Some(leader) => answer(&Leads {
                agent: &leader.agent,
                epoch: leader.epoch,
                remaining_ms: document
                    .map_or(Span::ZERO, |document| document.lease_remaining(view.age))
                    .as_millis(),
            }),
            None => Err(Problem::new(
                StatusCode::NOT_FOUND,
                "no-leader",
                format!("nobody leads `{election}`"),
                "wait, or see who could: baton status",
            )),
        }
    }

    async fn history(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let limit = call.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(HISTORY);
        answer(&self.coordinator.history(&call.election()?, limit).await?)
    }

    async fn candidates(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let keys = self.behind.list(&Prefix::Candidates(call.election()?)).await?;
        let name = |key| if let Key::Candidate(_, agent) = key { Some(agent) } else { None };
        answer(&keys.into_iter().filter_map(name).collect::<Vec<AgentName>>())
    }

    async fn elections(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let keys = self.behind.list(&Prefix::Elections).await?;
        let names = keys.iter().map(ToString::to_string);
        answer(&names.filter(|name| call.who.identity.sees(name)).collect::<Vec<_>>())
    }

    async fn tokens(&self) -> Result<Reply, Problem> {
        let tokens = self.coordinator.tokens().await?;
        let (record, version) = (raw(&Record::Tokens(tokens.shown()))?, tokens.orders.to_string());
        answer(&Shown { record: Some(record), version: Some(version), age_ms: None })
    }

    async fn enlist(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let candidate: Candidate = call.json()?;
        call.who.identity.check_agent(&candidate.agent)?;
        self.throttle.take(call.who, Says::Agent(&candidate.agent))?;
        if candidate.election != call.election()? {
            return Err(Refusal::invalid(
                format!("the candidate stands for `{}`", candidate.election),
                "send it to that election",
            )
            .into());
        }
        answer(&self.coordinator.enlist_candidate(&candidate).await?)
    }

    async fn ready(&self) -> Result<Reply, Problem> {
        self.engine.store().read(&Key::Store).await?;
        answer(&Readiness { ready: true })
    }
}

/// What is answered, as it is written.
fn raw_value(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn raw(record: &Record) -> Result<Box<RawValue>, Problem> {
    RawValue::from_string(record.to_json())
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "system", error.to_string(), ""))
}

/// Who leads.
#[derive(Serialize, JsonSchema)]
pub(super) struct Leads<'a> {
    agent: &'a AgentName,
    epoch: Epoch,
    remaining_ms: u64,
}

/// Whether a candidate stood.
#[derive(Serialize, JsonSchema)]
pub(super) struct Withdrawn {
    withdrawn: bool,
}

/// It is done, and there is nothing to tell.
#[derive(Serialize, JsonSchema)]
pub(super) struct Nothing {}

/// The server can decide and write.
#[derive(Serialize, JsonSchema)]
pub(super) struct Readiness {
    ready: bool,
}

/// What came of one entry of a batch.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only described: each entry is written on its own")]
pub(super) enum OneOfMany<'a> {
    Done(Told<'a>),
    Current(Checked),
    Failed(ProblemShown<'a>),
}

/// What came of a check.
#[derive(Serialize, JsonSchema)]
pub(super) struct Checked {
    answer: Current,
}

/// The answer to a check.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub(super) enum Current {
    /// The token may act.
    Current {
        /// Which.
        epoch: Epoch,
    },
}

/// What came of a command.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Decided")]
pub(super) struct Told<'a> {
    answer: &'a Answer,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<&'a Document>,
}

fn shown(decided: &Decided) -> Told<'_> {
    Told {
        answer: &decided.answer,
        ttl_ms: decided.ttl.map(Span::as_millis),
        document: decided.document.as_deref(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_have_a_fraction_of_nothing() {
        let check: Check = parsed(br#"{"token": 7.0}"#).unwrap();
        assert_eq!(check.token, Epoch(7));
        let check: Check = parsed(br#"{"token": 1e3}"#).unwrap();
        assert_eq!(check.token, Epoch(1_000));
        for other in [r#"{"token": 7.5}"#, r#"{"token": -7.0}"#, r#"{"token": 1e30}"#, r#"{"token": "7"}"#] {
            assert!(parsed::<Check>(other.as_bytes()).is_err(), "{other}");
        }
    }
}
