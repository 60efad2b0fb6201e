//! What is asked of the leader's toolbox.

use std::str::FromStr;

use baton_api::endpoints::Endpoint;
use baton_api::toolbox::{ItemPage, MAX_PAGE};
use baton_election::time::Span;
use baton_election::{AgentName, Credential, Incarnation, InvalidName, ItemName, LeaseKey};
use baton_store::Key;
use baton_store::toolbox::{
    AddTasks, Answer, Command, Draw, Item, Kind, Mandate, Order, Propose, Put, Query, Ruling, SetQuota,
};

use super::Service;
use super::calls::Call;
use super::limits::ThrottleKey;
use super::reply::{Problem, Reply, json as answer};

/// The longest that one request waits for a change.
const MAX_WAIT: Span = Span::secs(60);

impl Call<'_> {
    fn item(&self) -> Result<ItemName, Problem> {
        ItemName::new(self.name(1)).map_err(|error| baton::Error::from(error).into())
    }

    fn named<T: FromStr<Err = InvalidName>>(&self, parameter: &str) -> Result<Option<T>, Problem> {
        let parse = |text: String| text.parse().map_err(|error| Problem::from(baton::Error::Name(error)));
        self.parameter(parameter).map(parse).transpose()
    }

    fn query(&self) -> Result<Query, Problem> {
        let limit = self.limit(MAX_PAGE)?;
        let state = self.parameter("state").map(|state| state.parse());
        let state = state.transpose().map_err(|error: baton_store::toolbox::board::NoState| {
            Problem::invalid(error.to_string(), "such as state=working")
        })?;
        Ok(Query { after: self.named("after")?, limit, state, agent: self.named::<AgentName>("agent")? })
    }
}

/// Whether it puts something new into the store, and more than a word of progress.
fn grows(command: &Command) -> bool {
    match command {
        Command::Add(_) | Command::Propose(_) | Command::SetQuota(..) | Command::Put(..) => true,
        Command::Order(..) | Command::Rule(..) | Command::Draw(..) => false,
    }
}

impl Service {
    /// Items of a kind, in the order of their names.
    pub(super) async fn page(&self, call: &Call<'_>, kind: Kind) -> Result<Reply, Problem> {
        let (items, more) = self.boards.page(&call.election()?, kind, &call.query()?).await?;
        self.reads.looked_at(call.who, items.len());
        answer(&ItemPage { items: items.iter().map(|item| &**item).collect::<Vec<&Item>>(), more })
    }

    /// One item, after everything that was begun before.
    pub(super) async fn item(&self, call: &Call<'_>, kind: Kind) -> Result<Reply, Problem> {
        let (election, name) = (call.election()?, call.item()?);
        let board = self.boards.board(&election);
        let _turn = board.turn().await;
        self.record(&Key::Item(election, kind, name)).await
    }

    /// How a board stands, at once or when it has changed.
    pub(super) async fn board(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let election = call.election()?;
        let wait = call.number("wait_ms")?.map_or(Span::ZERO, Span::millis).min(MAX_WAIT);
        if let Some(after) = call.number("after")?
            && wait > Span::ZERO
        {
            tokio::select! {
                () = self.boards.changed(&election, after) => {}
                () = tokio::time::sleep(std::time::Duration::from_millis(wait.as_millis())) => {}
                () = self.stops() => {}
            }
        }
        answer(&self.boards.counts(&election).await?)
    }

    /// Carries out a command.
    pub(super) async fn use_tool(&self, endpoint: Endpoint, call: &Call<'_>) -> Result<Reply, Problem> {
        let command = match endpoint {
            Endpoint::AddTasks => Command::Add(call.json().await?),
            Endpoint::OrderTask => Command::Order(call.item()?, call.json().await?),
            Endpoint::Propose => Command::Propose(call.json().await?),
            Endpoint::RuleOn => Command::Rule(call.item()?, call.json().await?),
            Endpoint::SetQuota => Command::SetQuota(call.item()?, call.json().await?),
            Endpoint::Draw => Command::Draw(call.item()?, call.json().await?),
            Endpoint::PutValue => Command::Put(call.item()?, call.json().await?),
            other => unreachable!("{other:?} uses no tool"),
        };
        self.allow_tool(call, &command)?;
        if grows(&command) {
            self.engine.census().check_growth(&call.election()?)?;
        }
        match self.boards.carry_out(&call.election()?, command).await? {
            Answer::Added(added) => answer(&added),
            Answer::Item(item) => answer(&item),
            Answer::Drawn(drawn) => answer(&drawn),
        }
    }

    /// Refuses a command that its sender may not give, or not so many of. Whoever shows a key is known by it.
    fn allow_tool(&self, call: &Call<'_>, command: &Command) -> Result<(), Problem> {
        let by_mandate =
            |mandate: &Mandate| self.throttle.take(call.who, ThrottleKey::Lease(&mandate.credential));
        let by_key = |key: LeaseKey| {
            let credential = Credential { incarnation: Incarnation([0; 8]), key };
            self.throttle.take(call.who, ThrottleKey::Lease(&credential))
        };
        let by_agent = |agent: &AgentName| {
            call.who.acts_as(agent)?;
            self.throttle.take(call.who, ThrottleKey::Agent(agent))
        };
        match command {
            Command::Add(AddTasks { mandate: Some(mandate), .. })
            | Command::Rule(_, Ruling { mandate, .. })
            | Command::SetQuota(_, SetQuota { mandate, .. })
            | Command::Put(_, Put { mandate, .. }) => by_mandate(mandate),
            Command::Add(AddTasks { mandate: None, by: Some(by), .. })
            | Command::Propose(Propose { by, .. })
            | Command::Draw(_, Draw { agent: by, .. }) => by_agent(by),
            Command::Add(AddTasks { mandate: None, by: None, .. }) => {
                call.who.identity.check_some_agent(None)?;
                self.throttle.take(call.who, ThrottleKey::Nothing)
            }
            Command::Order(_, order) => match order {
                Order::Assign(assign) => by_mandate(&assign.mandate),
                Order::Adopt(adopt) => by_mandate(&adopt.mandate),
                Order::Retry(withdraw) | Order::Cancel(withdraw) => by_mandate(&withdraw.mandate),
                Order::Accept(accept) => by_agent(&accept.agent),
                Order::Progress(report) => by_key(report.key),
                Order::Complete(complete) => by_key(complete.key),
                Order::Fail(fail) => by_key(fail.key),
            },
        }
    }
}
