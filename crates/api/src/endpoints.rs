//! The table of endpoints: every request that a server takes, once.
//!
//! The server dispatches and guards requests by this table, `Endpoint::target` fills its paths in for clients, and the OpenAPI
//! description is generated from it. `CONTRIBUTING.md` says how to add a route.

use std::fmt::Display;

use baton_election::Command;
use baton_election::tokens::Role;

#[cfg(feature = "schema")]
#[allow(clippy::wildcard_imports, reason = "the table names each of them")]
use self::types::*;

/// The largest body of a request that carries a state: a checkpoint of 64 KiB, written as JSON, and room.
pub const MAX_BODY: usize = 256 * 1024;
/// The largest body of a batch.
pub const MAX_BATCH_BODY: usize = 8 * 1024 * 1024;
/// The largest body of a command with lists or texts: a policy, a candidate's capabilities, the result of a task.
const LONG: usize = 64 * 1024;
/// The largest body of any other command.
const SHORT: usize = 8 * 1024;
/// The largest body of a request that takes no token: a code of 64 digits.
const CODE: usize = 128;

/// How a request is sent. A `HEAD` request is taken like a `GET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Changes something.
    Post,
}

/// What a caller must be allowed to do. Each right includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Nothing: the request needs no token.
    Public,
    /// To read.
    Read,
    /// To take part in elections.
    Act,
    /// To hand in what an operator's key has signed: the signature is what counts.
    Operate,
    /// To read and order access tokens, and to let browsers sign in.
    Administer,
}

impl Right {
    /// Its name in the description of the interface.
    pub const fn name(self) -> &'static str {
        match self {
            Right::Public => "public",
            Right::Read => "read",
            Right::Act => "act",
            Right::Operate => "operate",
            Right::Administer => "administer",
        }
    }

    /// The least role that has it.
    pub const fn least_role(self) -> Role {
        match self {
            Right::Public | Right::Read => Role::Observer,
            Right::Act => Role::Agent,
            Right::Operate | Right::Administer => Role::Operator,
        }
    }

    /// The highest right of a role.
    pub const fn of_role(role: Role) -> Right {
        match role {
            Role::Observer => Right::Read,
            Role::Agent => Right::Act,
            Role::Operator => Right::Administer,
        }
    }

    /// What a command needs, alone or in a batch.
    pub const fn of_command(command: &Command) -> Right {
        match command {
            Command::Acquire(_)
            | Command::Renew(_)
            | Command::Release(_)
            | Command::Pass(_)
            | Command::Checkpoint(_)
            | Command::Acknowledge(_)
            | Command::Report(_) => Right::Act,
            Command::Operate(_) => Right::Operate,
        }
    }
}

/// What a request is about. A token may be limited to some elections or resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Any token will do: the answer leaves out what it may not see, or the handler checks each part of the request.
    Any,
    /// The token must be for the election that is the first name in the path.
    Election,
    /// The token must be for the resource that is the first name in the path.
    Resource,
    /// The token must not be limited to some elections.
    Store,
}

/// A parameter of a query.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its values.
    pub values: Values,
    /// Its meaning.
    pub summary: &'static str,
}

/// The values of a parameter.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A number.
    Number,
    /// A number from one to this one.
    UpTo(u64),
    /// The name of an election.
    Election,
    /// The name of a resource.
    Resource,
    /// The name of an agent.
    Agent,
    /// The name of an item of the toolbox.
    Item,
    /// The state of a task.
    TaskState,
    /// Any text.
    Text,
}

/// The media type of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`.
    Json,
    /// `text/plain`.
    Text,
    /// `text/event-stream`.
    Events,
    /// `text/html`.
    Html,
    /// A file of the page, which has a type of its own.
    File,
}

/// One row of the table.
#[derive(Debug)]
pub struct Row {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its name in the description of the interface, in metrics and in the access log.
    pub name: &'static str,
    /// How the request is sent.
    pub method: Method,
    /// Its path. A segment in braces is a name.
    pub path: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What the caller must be allowed to do.
    pub right: Right,
    /// What it is about.
    pub scope: Scope,
    /// The parameters of the query; there are no others.
    pub query: &'static [Parameter],
    /// The largest body that it takes.
    pub max_body: usize,
    /// The name of its span in traces. Without one it is not traced: renewals and heartbeats are too many.
    pub span: Option<&'static str>,
    /// The media type of the response.
    pub media: Media,
    /// The type of the body, if it takes one.
    #[cfg(feature = "schema")]
    pub request: Option<Schema>,
    /// The type of the response.
    #[cfg(feature = "schema")]
    pub response: Schema,
}

macro_rules! endpoints {
    ($($id:ident $name:literal $method:ident $path:literal $summary:literal
        $right:ident $scope:ident
        $(query $query:ident)?
        $(body $request:ty, $limit:ident)?
        $(span $span:literal)?
        => $media:ident $response:ty;)*) => {
        /// A request that a server takes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Endpoint {
            $(#[doc = $summary] $id,)*
        }

        /// The table. The busiest endpoints come first: a request is looked for in this order.
        pub static ENDPOINTS: [Row; [$(Endpoint::$id),*].len()] = [$(Row {
            endpoint: Endpoint::$id,
            name: $name,
            method: Method::$method,
            path: $path,
            summary: $summary,
            right: Right::$right,
            scope: Scope::$scope,
            query: match first(&[$($query)?]) { Some(query) => query, None => &[] },
            max_body: last(&[SHORT $(, $limit)?]),
            span: first(&[$($span)?]),
            media: Media::$media,
            #[cfg(feature = "schema")]
            request: first(&[$(schema::<$request> as Schema)?]),
            #[cfg(feature = "schema")]
            response: schema::<$response>,
        },)*];
    };
}

endpoints! {
    Renew "renew" Post "/v1/elections/{election}/renew" "Stay the leader"
        Act Election body Renew, SHORT => Json CommandResponse;
    Acquire "acquire" Post "/v1/elections/{election}/acquire" "Become the leader, or wait in line"
        Act Election query WAIT_IN_LINE body Acquire, LONG span "acquire" => Json CommandResponse;
    Release "release" Post "/v1/elections/{election}/release" "Stop being the leader; the work has stopped"
        Act Election query NOTIFY body Release, SHORT span "release" => Json CommandResponse;
    // Each entry of a batch needs the right of its own command.
    Batch "batch" Post "/v1/batch" "Many renewals, checks or commands, each with its own result"
        Read Any body Vec<BatchEntryOrMalformed>, MAX_BATCH_BODY span "batch" => Json Vec<BatchResult>;
    Leader "leader" Get "/v1/elections/{election}/leader" "The leader: 200, or 404 if there is none"
        Read Election => Json LeaderResponse;
    Election "election" Get "/v1/elections/{election}" "The record of an election"
        Read Election => Json RecordResponse;
    Watch "watch" Get "/v1/elections/{election}/watch" "Changes of an election, as server-sent events"
        Read Election => Events String;
    Pass "pass" Post "/v1/elections/{election}/pass" "Release, and keep the election for a successor"
        Act Election query NOTIFY body Pass, SHORT span "pass" => Json CommandResponse;
    Checkpoint "checkpoint" Post "/v1/elections/{election}/checkpoint" "Leave something for the successor"
        Act Election body WriteCheckpoint, MAX_BODY span "checkpoint" => Json CommandResponse;
    Acknowledge "acknowledge" Post "/v1/elections/{election}/acknowledge" "Take on what the predecessor left"
        Act Election body Acknowledge, SHORT span "acknowledge" => Json CommandResponse;
    Report "report" Post "/v1/elections/{election}/report" "Report that the leader is not useful"
        Act Election body Report, SHORT span "report" => Json CommandResponse;
    Operate "operate" Post "/v1/elections/{election}/operate" "Carry out an operator's signed act"
        Operate Election body SignedAct, LONG span "operate" => Json CommandResponse;
    History "history" Get "/v1/elections/{election}/history" "The last changes of leader"
        Read Election query NEWEST => Json Vec<Transition>;
    Waiting "waiting" Get "/v1/elections/{election}/waiting" "The agents that wait to lead, in the order of the line"
        Read Election query FIRST => Json Vec<WaitingCandidate>;
    Audit "audit" Get "/v1/elections/{election}/audit" "The last acts of operators on an election"
        Read Election query NEWEST => Json Vec<Entry>;
    AuditPart "auditPart" Get "/v1/elections/{election}/audit/{part}" "A part of the audit log of an election, as it is kept"
        Read Election => Json RecordResponse;
    Candidates "candidates" Get "/v1/elections/{election}/candidates" "The candidates, where a policy compares them"
        Read Election query LIST_AGENTS => Json Vec<AgentName>;
    Enlist "enlist" Post "/v1/elections/{election}/candidates" "Become a candidate"
        Act Election body Candidate, LONG span "enlist" => Json Candidate;
    Withdraw "withdraw" Post "/v1/elections/{election}/withdraw" "Withdraw a candidacy"
        Act Election body WithdrawRequest, SHORT span "withdraw" => Json WithdrawResponse;
    Candidate "candidate" Get "/v1/elections/{election}/candidates/{agent}" "One candidate"
        Read Election => Json RecordResponse;
    Elections "elections" Get "/v1/elections" "The names of all elections"
        Read Any query LIST_ELECTIONS => Json Vec<ElectionName>;
    Audits "audits" Get "/v1/audits" "The names of all elections that have an audit log, with or without a record"
        Read Any query LIST_ELECTIONS => Json Vec<ElectionName>;
    Fences "fences" Get "/v1/fences" "The names of all fences"
        Read Any query LIST_RESOURCES => Json Vec<ResourceName>;
    Fence "fence" Get "/v1/fences/{resource}" "The record of a fence"
        Read Resource => Json RecordResponse;
    FenceLog "fenceLog" Get "/v1/fences/{resource}/log/{part}" "A part of what a fence accepted"
        Read Resource => Json RecordResponse;
    Admit "admit" Post "/v1/fences/{resource}/admit" "Admit a token to a resource"
        Act Resource body AdmitRequest, SHORT span "admit" => Json Fence;
    KeepHold "keepHold" Post "/v1/fences/{resource}/keep" "Keep a hold on a resource"
        Act Resource body KeepHoldRequest, SHORT span "keep-hold" => Json EmptyResponse;
    LeaveHold "leaveHold" Post "/v1/fences/{resource}/leave" "End a hold on a resource"
        Act Resource body LeaveHoldRequest, SHORT span "leave-hold" => Json EmptyResponse;
    OrderFence "orderFence" Post "/v1/fences/{resource}/order"
        "Bind a resource to an election, or free it, by an operator's signed order"
        Operate Resource body SignedFenceOrder, SHORT span "order-fence" => Json Fence;
    Store "store" Get "/v1/store" "The record of the store itself"
        Read Any => Json RecordResponse;
    OrderStore "orderStore" Post "/v1/store/orders"
        "Change the operators or the quorum, or pause or resume everything, by an operator's signed order"
        Operate Store body StoreRequest, LONG span "order-store" => Json OrderOutcome;
    DraftStore "draftStore" Post "/v1/store/orders/draft" "The order on the store that a browser signs"
        Administer Store body DraftStoreOrderRequest, LONG => Json DraftResponse;
    StoreAudit "storeAudit" Get "/v1/audit" "The last acts of operators on the store as a whole"
        Read Store query NEWEST => Json Vec<Entry>;
    StoreAuditPart "storeAuditPart" Get "/v1/audit/{part}" "A part of the audit log of the store, as it is kept"
        Read Store => Json RecordResponse;
    TokensAudit "tokensAudit" Get "/v1/tokens/audit" "The last orders on access tokens, and whether their log is whole"
        Administer Store query NEWEST => Json TokensAudit;
    Tokens "tokens" Get "/v1/tokens" "The access tokens, without their hashes"
        Administer Store => Json TokensResponse;
    OrderTokens "orderTokens" Post "/v1/tokens" "Create or revoke an access token, by an operator's signed order"
        Administer Store body SignedTokenOrder, LONG span "order-tokens" => Json OrderOutcome;
    Heartbeat "heartbeat" Post "/v1/sessions/heartbeat" "Show that an agent is alive, and renew all leases of its session"
        Act Any body Heartbeat, MAX_BODY => Json HeartbeatReply;
    News "news" Post "/v1/sessions/news" "Acknowledge the known changes of what a session follows, and wait for more"
        Act Any body NewsRequest, MAX_BODY => Json NewsResponse;
    EndSession "endSession" Post "/v1/sessions/end" "End a session"
        Act Any body EndSession, SHORT span "end-session" => Json EndSessionResponse;
    Announce "announce" Post "/v1/sessions" "Open a session of an agent, with what it follows and the leases that it renews"
        Act Any body Announce, MAX_BODY span "announce" => Json HeartbeatReply;
    Sessions "sessions" Get "/v1/sessions" "The agents that have sessions"
        Read Store => Json Vec<SessionView>;
    Overview "overview" Get "/v1/overview" "A summary of each election"
        Read Any query LIST_SUMMARIES => Json Vec<ElectionSummary>;
    Events "events" Get "/v1/events" "All changes, as server-sent events"
        Read Any query EVENTS => Events String;
    Me "me" Get "/v1/sign-in" "What the page knows of the server, and its own sign-in"
        Read Any => Json PageStatus;
    BeginSignIn "beginSignIn" Post "/v1/sign-ins" "Let a browser sign in, by an operator's signed order"
        Administer Any body SignedDelegation, SHORT => Json EmptyResponse;
    // The holder of a link's code was given it by an operator.
    OpenSignIn "openSignIn" Post "/v1/sign-ins/open" "Sign in with the code of a link"
        Public Any body OpenSignInRequest, CODE => Json SignInView;
    CloseSignIn "closeSignIn" Post "/v1/sign-ins/close" "Sign out"
        Read Any body CloseSignInRequest, SHORT => Json CloseSignInResponse;
    Draft "draft" Post "/v1/elections/{election}/operate/draft" "The order that a browser signs for an act"
        Administer Election body DraftActRequest, LONG => Json DraftResponse;
    Page "page" Get "/" "The page for people"
        Public Any => Html String;
    PageFile "pageFile" Get "/page/{file}" "A file of the page"
        Public Any => File String;
    Board "board" Get "/v1/elections/{election}/board" "The counts of the leader's board; can wait for a change"
        Read Election query WAIT_FOR_CHANGE => Json Counts;
    Tasks "tasks" Get "/v1/elections/{election}/tasks" "Tasks of the board"
        Read Election query LIST_TASKS => Json ItemPage<Task>;
    AddTasks "addTasks" Post "/v1/elections/{election}/tasks" "Put tasks on the board"
        Act Election body AddTasks, MAX_BODY span "add-tasks" => Json Vec<Added>;
    Task "task" Get "/v1/elections/{election}/tasks/{task}" "One task, with its attempts"
        Read Election => Json RecordResponse;
    OrderTask "orderTask" Post "/v1/elections/{election}/tasks/{task}" "Change a task, as its leader or its worker"
        Act Election body Order, LONG span "order-task" => Json Task;
    Proposals "proposals" Get "/v1/elections/{election}/proposals" "Proposals to the leader"
        Read Election query LIST_PROPOSALS => Json ItemPage<Proposal>;
    Propose "propose" Post "/v1/elections/{election}/proposals" "Propose something to the leader"
        Act Election body Propose, LONG span "propose" => Json Proposal;
    Proposal "proposal" Get "/v1/elections/{election}/proposals/{proposal}" "One proposal"
        Read Election => Json RecordResponse;
    RuleOn "ruleOn" Post "/v1/elections/{election}/proposals/{proposal}" "Decide on a proposal"
        Act Election body Ruling, LONG span "rule" => Json Proposal;
    Quotas "quotas" Get "/v1/elections/{election}/quotas" "Quotas that the leader splits"
        Read Election query LIST_ITEMS => Json ItemPage<Quota>;
    Quota "quota" Get "/v1/elections/{election}/quotas/{quota}" "One quota"
        Read Election => Json RecordResponse;
    SetQuota "setQuota" Post "/v1/elections/{election}/quotas/{quota}" "Set a quota and its split"
        Act Election body SetQuota, MAX_BODY span "set-quota" => Json Quota;
    Draw "draw" Post "/v1/elections/{election}/quotas/{quota}/draw" "Draw from a share of a quota"
        Act Election body Draw, SHORT span "draw" => Json Drawn;
    Values "values" Get "/v1/elections/{election}/state" "Values that the leader keeps"
        Read Election query LIST_ITEMS => Json ItemPage<Value>;
    Value "value" Get "/v1/elections/{election}/state/{value}" "One value, with its last versions"
        Read Election => Json RecordResponse;
    PutValue "putValue" Post "/v1/elections/{election}/state/{value}" "Put a value"
        Act Election body Put, MAX_BODY span "put-value" => Json Value;
    Breakers "breakers" Get "/v1/elections/{election}/breakers" "Circuit breakers of agents that failed at tasks"
        Read Election query LIST_BREAKERS => Json ItemPage<Breaker>;
    Breaker "breaker" Get "/v1/elections/{election}/breakers/{breaker}" "One circuit breaker"
        Read Election => Json RecordResponse;
    Alerts "alerts" Get "/v1/alerts" "What is wrong with elections"
        Read Any => Json Alerts;
    Metrics "metrics" Get "/metrics" "The server's metrics, for Prometheus"
        Read Store => Text String;
    Health "health" Get "/healthz" "The liveness probe: whether the server runs"
        Public Any => Text String;
    Ready "ready" Get "/readyz" "The readiness probe: whether the server can decide and write"
        Public Any => Json ReadinessResponse;
    OpenApi "openApi" Get "/openapi.json" "This interface, described as OpenAPI 3.1"
        Public Any => Json serde_json::Map<String, serde_json::Value>;
}

const WAIT_IN_LINE: &[Parameter] =
    &[parameter("wait_ms", Values::Number, "How long to wait in line; a minute at most")];
const NOTIFY: &[Parameter] = &[parameter(
    "notify_timeout_ms",
    Values::Number,
    "Then wait until sessions that follow the election know; a minute at most",
)];
const NEWEST: &[Parameter] = &[parameter("limit", Values::Number, "How many of the newest")];
const FIRST: &[Parameter] =
    &[parameter("limit", Values::UpTo(1_000), "How many of the first, at most 1,000")];
const AFTER: &str = "Only those that come after this one";
const UP_TO_1_000: Parameter = parameter(
    "limit",
    Values::UpTo(1_000),
    "How many of the first, at most 1,000; if the answer has fewer, they are the last",
);
const UP_TO_10_000: Parameter = parameter(
    "limit",
    Values::UpTo(10_000),
    "How many of the first, at most 10,000; if the answer has fewer, they are the last",
);
const LIST_ELECTIONS: &[Parameter] = &[parameter("after", Values::Election, AFTER), UP_TO_10_000];
const LIST_AGENTS: &[Parameter] = &[parameter("after", Values::Agent, AFTER), UP_TO_10_000];
const LIST_RESOURCES: &[Parameter] = &[parameter("after", Values::Resource, AFTER), UP_TO_10_000];
const LIST_SUMMARIES: &[Parameter] = &[parameter("after", Values::Election, AFTER), UP_TO_1_000];
const LIST_ITEMS: &[Parameter] = &[parameter("after", Values::Item, AFTER), FIRST[0]];
const LIST_TASKS: &[Parameter] = &[
    parameter("after", Values::Item, AFTER),
    FIRST[0],
    parameter("state", Values::TaskState, "Only those in this state"),
    parameter("agent", Values::Agent, "Only those that this agent has or had last"),
];
const LIST_PROPOSALS: &[Parameter] = &[
    parameter("after", Values::Item, AFTER),
    FIRST[0],
    parameter("agent", Values::Agent, "Only those that this agent made"),
];
const LIST_BREAKERS: &[Parameter] = &[
    parameter("after", Values::Item, AFTER),
    FIRST[0],
    parameter("agent", Values::Agent, "Only those of this agent"),
];
const WAIT_FOR_CHANGE: &[Parameter] = &[
    parameter("after", Values::Number, "Answer once it has changed from this count of changes"),
    parameter("wait_ms", Values::Number, "How long to wait for that; a minute at most"),
];
const EVENTS: &[Parameter] = &[
    parameter("after", Values::Text, "Go on after this event, as Last-Event-ID says it"),
    parameter("leases", Values::Text, "Elections whose renewals are reported, with commas between them"),
];

const fn parameter(name: &'static str, values: Values, summary: &'static str) -> Parameter {
    Parameter { name, values, summary }
}

const fn first<T: Copy>(all: &[T]) -> Option<T> {
    if all.is_empty() { None } else { Some(all[0]) }
}

const fn last(all: &[usize]) -> usize {
    all[all.len() - 1]
}

/// Describes a type.
#[cfg(feature = "schema")]
pub type Schema = fn(&mut schemars::SchemaGenerator) -> schemars::Schema;

#[cfg(feature = "schema")]
fn schema<T: schemars::JsonSchema>(types: &mut schemars::SchemaGenerator) -> schemars::Schema {
    types.subschema_for::<T>()
}

/// The target of a request: an endpoint, with its names and its query filled in.
#[derive(Clone, Debug)]
pub struct Target {
    row: &'static Row,
    path: String,
}

impl Target {
    /// The same, with a parameter of the query.
    #[must_use]
    pub fn with(mut self, parameter: &str, value: &(dyn Display + Sync)) -> Target {
        let known = self.row.query.iter().any(|known| known.name == parameter);
        assert!(known, "{} takes no parameter `{parameter}`", self.row.name);
        let mark = if self.path.contains('?') { '&' } else { '?' };
        self.path.push_str(&format!("{mark}{parameter}={}", encoded(&value.to_string())));
        self
    }

    /// How the request is sent.
    pub fn method(&self) -> Method {
        self.row.method
    }

    /// The path, with the query.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// What came of looking for the endpoint of a request.
#[derive(Debug)]
pub enum Matched {
    /// This one, with the names in its path.
    Endpoint(&'static Row, Vec<String>),
    /// The path is one of other methods: these.
    OtherMethod(&'static str),
    /// There is none.
    None,
}

impl Endpoint {
    /// Its row of the table.
    pub fn row(self) -> &'static Row {
        &ENDPOINTS[self as usize]
    }

    /// The endpoint that takes a command: its path ends with the command's name.
    pub fn of_command(command: &Command) -> Endpoint {
        let takes = |row: &&Row| row.path.strip_prefix("/v1/elections/{election}/") == Some(command.name());
        ENDPOINTS.iter().find(takes).expect("the table has a row for each command").endpoint
    }

    /// A request of it, with these names in its path: as many as the path has.
    pub fn target(self, names: &[&(dyn Display + Sync)]) -> Target {
        let row = self.row();
        let mut names = names.iter();
        let segments = row.path.split('/').map(|segment| match segment.starts_with('{') {
            true => encoded(&names.next().map(ToString::to_string).unwrap_or_default()),
            false => segment.to_string(),
        });
        let path = segments.collect::<Vec<String>>().join("/");
        assert!(names.next().is_none() && !path.contains("//"), "the path of {} has other names", row.name);
        Target { row, path }
    }

    /// The endpoint of a request.
    pub fn find(method: &str, path: &str) -> Matched {
        let (mut takes_get, mut takes_post) = (false, false);
        for row in &ENDPOINTS {
            if !matches(row.path, path) {
                continue;
            }
            let is_asked = match row.method {
                Method::Get => method == "GET",
                Method::Post => method == "POST",
            };
            match names(row.path, path) {
                Some(names) if is_asked => return Matched::Endpoint(row, names),
                Some(_) => {
                    takes_get |= row.method == Method::Get;
                    takes_post |= row.method == Method::Post;
                }
                None => {}
            }
        }
        match (takes_get, takes_post) {
            (true, true) => Matched::OtherMethod("GET, HEAD, POST"),
            (true, false) => Matched::OtherMethod("GET, HEAD"),
            (false, true) => Matched::OtherMethod("POST"),
            (false, false) => Matched::None,
        }
    }
}

/// Whether a path has the segments of a pattern. Allocates nothing.
fn matches(pattern: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted.starts_with('{') || wanted == given => {}
            (_, _) => return false,
        }
    }
}

/// The names in a path that matches a pattern; none if one of them is malformed.
fn names(pattern: &str, path: &str) -> Option<Vec<String>> {
    let segments = pattern.split('/').zip(path.split('/'));
    segments.filter(|(wanted, _)| wanted.starts_with('{')).map(|(_, given)| decoded(given)).collect()
}

/// A name as it is written in a path: `/` is `%2F`. Names have no other character that a path does not take.
fn encoded(name: &str) -> String {
    name.replace('/', "%2F")
}

/// Text without its percent signs.
pub fn decoded(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_string());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let value = digit(rest.next())? * 16 + digit(rest.next())?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// The types that the table names.
#[cfg(feature = "schema")]
mod types {
    pub(super) use baton_election::audit::{Entry, TokensAudit};
    pub(super) use baton_election::bindings::SignedFenceOrder;
    pub(super) use baton_election::command::{
        Acknowledge, Acquire, Pass, Release, Renew, Report, WriteCheckpoint,
    };
    pub(super) use baton_election::delegation::SignedDelegation;
    pub(super) use baton_election::document::Transition;
    pub(super) use baton_election::operator::SignedAct;
    pub(super) use baton_election::store_order::StoreRequest;
    pub(super) use baton_election::store_quorum::OrderOutcome;
    pub(super) use baton_election::tokens::SignedTokenOrder;
    pub(super) use baton_election::{AgentName, Candidate, ElectionName, Fence, ResourceName};
    pub(super) use baton_toolbox::{
        AddTasks, Added, Breaker, Counts, Draw, Drawn, Order, Proposal, Propose, Put, Quota, Ruling,
        SetQuota, Task, Value,
    };

    pub(super) use crate::alerts::Alerts;
    pub(super) use crate::batch::described::{BatchEntryOrMalformed, BatchResult};
    pub(super) use crate::command::{CommandResponse, WithdrawRequest, WithdrawResponse};
    pub(super) use crate::fences::{AdmitRequest, KeepHoldRequest, LeaveHoldRequest};
    pub(super) use crate::records::{RecordResponse, TokensResponse};
    pub(super) use crate::server::{EmptyResponse, ReadinessResponse};
    pub(super) use crate::sessions::{
        Announce, EndSession, EndSessionResponse, Heartbeat, HeartbeatReply, NewsRequest, NewsResponse,
        SessionView,
    };
    pub(super) use crate::sign_ins::{
        CloseSignInRequest, CloseSignInResponse, DraftActRequest, DraftResponse, DraftStoreOrderRequest,
        OpenSignInRequest, PageStatus, SignInView,
    };
    pub(super) use crate::summary::{ElectionSummary, LeaderResponse};
    pub(super) use crate::toolbox::ItemPage;
    pub(super) use crate::waiting::WaitingCandidate;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, path: &str) -> Option<(Endpoint, Vec<String>)> {
        match Endpoint::find(method, path) {
            Matched::Endpoint(row, names) => Some((row.endpoint, names)),
            Matched::OtherMethod(_) | Matched::None => None,
        }
    }

    #[test]
    fn names_are_decoded() {
        let renew = found("POST", "/v1/elections/fleet%2Feu/renew").unwrap();
        assert_eq!(renew, (Endpoint::Renew, vec!["fleet/eu".to_string()]));
        let target = Endpoint::Renew.target(&[&"fleet/eu"]);
        assert_eq!((target.method(), target.path()), (Method::Post, "/v1/elections/fleet%2Feu/renew"));
        assert_eq!(found("POST", "/v1/elections/a%2/renew"), None);
        assert_eq!(found("POST", "/v1/elections/a%zz/renew"), None);
        assert_eq!(found("POST", "/v1/elections/a%ff/renew"), None);
    }

    #[test]
    fn each_command_has_an_endpoint() {
        for name in Command::NAMES {
            let path = format!("/v1/elections/e/{name}");
            assert!(found("POST", &path).is_some(), "{path}");
        }
    }

    #[test]
    fn each_endpoint_is_found_by_its_own_path() {
        for (place, row) in ENDPOINTS.iter().enumerate() {
            assert_eq!(row.endpoint as usize, place, "{}", row.path);
            let method = if row.method == Method::Get { "GET" } else { "POST" };
            let (endpoint, _) = found(method, &row.path.replace(['{', '}'], "")).unwrap();
            assert_eq!(endpoint, row.endpoint, "{}", row.path);
        }
        assert!(matches!(Endpoint::find("GET", "/v1/batch"), Matched::OtherMethod("POST")));
        let candidates = Endpoint::find("PUT", "/v1/elections/e/candidates");
        assert!(matches!(candidates, Matched::OtherMethod("GET, HEAD, POST")));
        assert!(matches!(Endpoint::find("GET", "/v1/nothing"), Matched::None));
        let nameless = Endpoint::find("GET", "/v1/elections/");
        assert!(matches!(nameless, Matched::Endpoint(..)), "an empty name is refused as a name");
    }

    #[test]
    fn a_target_has_the_query_of_its_endpoint() {
        let target = Endpoint::Elections.target(&[]).with("limit", &10).with("after", &"fleet/eu");
        assert_eq!(target.path(), "/v1/elections?limit=10&after=fleet%2Feu");
        assert!(std::panic::catch_unwind(|| Endpoint::Elections.target(&[]).with("wait_ms", &1)).is_err());
        assert!(std::panic::catch_unwind(|| Endpoint::Renew.target(&[])).is_err(), "a name is missing");
        assert!(std::panic::catch_unwind(|| Endpoint::Health.target(&[&"e"])).is_err(), "a name too many");
    }

    #[test]
    fn a_scope_is_the_first_name_of_the_path() {
        for row in &ENDPOINTS {
            let first = row.path.split('/').find(|segment| segment.starts_with('{'));
            match row.scope {
                Scope::Election => assert_eq!(first, Some("{election}"), "{}", row.path),
                Scope::Resource => assert_eq!(first, Some("{resource}"), "{}", row.path),
                Scope::Any | Scope::Store => {
                    assert!(!matches!(first, Some("{election}" | "{resource}")), "{}", row.path);
                }
            }
        }
    }
}
