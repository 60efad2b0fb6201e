//! Every route, once: what is matched, documented and guarded comes from this table.

use http::Method;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Store,
    OrderStore,
    StoreAudit,
    StoreAuditPart,
    Tokens,
    OrderTokens,
    TokensAudit,
    Elections,
    Audits,
    Election,
    Leader,
    History,
    Audit,
    AuditPart,
    Watch,
    Candidates,
    Candidate,
    Waiting,
    Enlist,
    Withdraw,
    Acquire,
    Renew,
    Release,
    Pass,
    Checkpoint,
    Acknowledge,
    Report,
    Operate,
    Batch,
    Fences,
    Fence,
    FenceLog,
    Admit,
    KeepHold,
    LeaveHold,
    OrderFence,
    Announce,
    Heartbeat,
    News,
    EndSession,
    Sessions,
    Overview,
    Events,
    Me,
    BeginSignIn,
    OpenSignIn,
    CloseSignIn,
    Draft,
    DraftStore,
    Page,
    PageFile,
    Board,
    Tasks,
    AddTasks,
    Task,
    OrderTask,
    Proposals,
    Propose,
    Proposal,
    RuleOn,
    Quotas,
    Quota,
    SetQuota,
    Draw,
    Values,
    Value,
    PutValue,
    Breakers,
    Breaker,
    Alerts,
    Metrics,
    Health,
    Ready,
    OpenApi,
}

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Segments in braces are names.
    pub(crate) path: &'static str,
    pub(crate) ask: Ask,
    pub(crate) summary: &'static str,
}

const fn get(path: &'static str, ask: Ask, summary: &'static str) -> Route {
    Route { method: Method::GET, path, ask, summary }
}

const fn post(path: &'static str, ask: Ask, summary: &'static str) -> Route {
    Route { method: Method::POST, path, ask, summary }
}

/// All of them. The busiest stand first.
pub(crate) static ROUTES: [Route; 74] = [
    post("/v1/elections/{election}/renew", Ask::Renew, "Stay the leader"),
    post("/v1/elections/{election}/acquire", Ask::Acquire, "Become the leader, or wait in line"),
    post("/v1/elections/{election}/release", Ask::Release, "Stop being the leader; the work has stopped"),
    post("/v1/batch", Ask::Batch, "Many renewals, checks or commands, each answered on its own"),
    get("/v1/elections/{election}/leader", Ask::Leader, "Who leads: 200, or 404 if nobody does"),
    get("/v1/elections/{election}", Ask::Election, "An election as it stands"),
    get("/v1/elections/{election}/watch", Ask::Watch, "Changes of an election, as server-sent events"),
    post("/v1/elections/{election}/pass", Ask::Pass, "Release, and keep the election for a successor"),
    post("/v1/elections/{election}/checkpoint", Ask::Checkpoint, "Leave something for the successor"),
    post("/v1/elections/{election}/acknowledge", Ask::Acknowledge, "Take on what the predecessor left"),
    post("/v1/elections/{election}/report", Ask::Report, "Say that the leader is not useful"),
    post("/v1/elections/{election}/operate", Ask::Operate, "An operator's signed act"),
    get("/v1/elections/{election}/history", Ask::History, "The last changes of leader"),
    get("/v1/elections/{election}/waiting", Ask::Waiting, "Who waits in line to lead, in its order"),
    get("/v1/elections/{election}/audit", Ask::Audit, "What operators did to an election"),
    get("/v1/elections/{election}/audit/{part}", Ask::AuditPart, "A part of that, as it is kept"),
    get(
        "/v1/elections/{election}/candidates",
        Ask::Candidates,
        "Who stands, where a policy compares candidates",
    ),
    post("/v1/elections/{election}/candidates", Ask::Enlist, "Stand for election"),
    post("/v1/elections/{election}/withdraw", Ask::Withdraw, "Withdraw a candidacy"),
    get("/v1/elections/{election}/candidates/{agent}", Ask::Candidate, "One candidate"),
    get("/v1/elections", Ask::Elections, "All elections"),
    get(
        "/v1/audits",
        Ask::Audits,
        "All elections that have a log of acts, whether or not their records are there",
    ),
    get("/v1/fences", Ask::Fences, "All fences"),
    get("/v1/fences/{resource}", Ask::Fence, "A fence as it stands"),
    get("/v1/fences/{resource}/log/{part}", Ask::FenceLog, "A part of what a fence accepted"),
    post("/v1/fences/{resource}/admit", Ask::Admit, "Admit a token to a resource"),
    post("/v1/fences/{resource}/keep", Ask::KeepHold, "Keep a hold on a resource"),
    post("/v1/fences/{resource}/leave", Ask::LeaveHold, "End a hold on a resource"),
    post(
        "/v1/fences/{resource}/order",
        Ask::OrderFence,
        "Bind a resource to an election, or free it, by an operator's signed order",
    ),
    get("/v1/store", Ask::Store, "What the store knows of itself"),
    post(
        "/v1/store/orders",
        Ask::OrderStore,
        "Change the operators or the quorum, or pause or resume everything, by an operator's signed order",
    ),
    post("/v1/store/orders/draft", Ask::DraftStore, "The order on the store that a browser signs"),
    get("/v1/audit", Ask::StoreAudit, "What operators did to the store as a whole"),
    get("/v1/audit/{part}", Ask::StoreAuditPart, "A part of that, as it is kept"),
    get(
        "/v1/tokens/audit",
        Ask::TokensAudit,
        "What operators did to the access tokens, and whether it is whole",
    ),
    get("/v1/tokens", Ask::Tokens, "The access tokens, without their hashes"),
    post("/v1/tokens", Ask::OrderTokens, "Create or revoke an access token, by an operator's signed order"),
    post(
        "/v1/sessions/heartbeat",
        Ask::Heartbeat,
        "Show that an agent lives, and renew all that rides on its session",
    ),
    post(
        "/v1/sessions/news",
        Ask::News,
        "Acknowledge what is known of what a session follows, and wait for more",
    ),
    post("/v1/sessions/end", Ask::EndSession, "End a session"),
    post(
        "/v1/sessions",
        Ask::Announce,
        "Announce an agent, with what it follows and the leases that ride on its session",
    ),
    get("/v1/sessions", Ask::Sessions, "Who is known to be there"),
    get("/v1/overview", Ask::Overview, "Elections in one line each"),
    get("/v1/events", Ask::Events, "All changes, as server-sent events"),
    get("/v1/sign-in", Ask::Me, "What a page knows of the server, and who is signed in there"),
    post("/v1/sign-ins", Ask::BeginSignIn, "Let a browser sign in, by an operator's signed order"),
    post("/v1/sign-ins/open", Ask::OpenSignIn, "Sign in with the code of a link"),
    post("/v1/sign-ins/close", Ask::CloseSignIn, "Sign out"),
    post("/v1/elections/{election}/operate/draft", Ask::Draft, "The order that a browser signs for an act"),
    get("/", Ask::Page, "The page for people"),
    get("/page/{file}", Ask::PageFile, "A file of the page"),
    get("/v1/elections/{election}/board", Ask::Board, "How the leader's board stands; waits for a change"),
    get("/v1/elections/{election}/tasks", Ask::Tasks, "Tasks of the board"),
    post("/v1/elections/{election}/tasks", Ask::AddTasks, "Put tasks on the board"),
    get("/v1/elections/{election}/tasks/{task}", Ask::Task, "One task, with who attempted it"),
    post(
        "/v1/elections/{election}/tasks/{task}",
        Ask::OrderTask,
        "Change a task: its leader's or its worker's word",
    ),
    get("/v1/elections/{election}/proposals", Ask::Proposals, "Proposals to the leader"),
    post("/v1/elections/{election}/proposals", Ask::Propose, "Propose something to the leader"),
    get("/v1/elections/{election}/proposals/{proposal}", Ask::Proposal, "One proposal"),
    post("/v1/elections/{election}/proposals/{proposal}", Ask::RuleOn, "Decide on a proposal"),
    get("/v1/elections/{election}/quotas", Ask::Quotas, "Quotas that the leader splits"),
    get("/v1/elections/{election}/quotas/{quota}", Ask::Quota, "One quota"),
    post("/v1/elections/{election}/quotas/{quota}", Ask::SetQuota, "Set a quota and its split"),
    post("/v1/elections/{election}/quotas/{quota}/draw", Ask::Draw, "Draw from a share of a quota"),
    get("/v1/elections/{election}/state", Ask::Values, "Values that the leader keeps"),
    get("/v1/elections/{election}/state/{value}", Ask::Value, "One value, with its last versions"),
    post("/v1/elections/{election}/state/{value}", Ask::PutValue, "Put a value"),
    get(
        "/v1/elections/{election}/breakers",
        Ask::Breakers,
        "Circuit breakers of agents that failed at tasks",
    ),
    get("/v1/elections/{election}/breakers/{breaker}", Ask::Breaker, "One circuit breaker"),
    get("/v1/alerts", Ask::Alerts, "What is wrong with elections"),
    get("/metrics", Ask::Metrics, "What the server counts, for Prometheus"),
    get("/healthz", Ask::Health, "Whether the server runs"),
    get("/readyz", Ask::Ready, "Whether the server can decide and write"),
    get("/openapi.json", Ask::OpenApi, "This interface, described"),
];

impl Ask {
    /// What may stand in the query, each with what it means; there is nothing else.
    pub(crate) fn query(self) -> &'static [(&'static str, Given, &'static str)] {
        match self {
            Ask::Acquire => &[("wait_ms", Given::Number, "How long to wait in line; a minute at most")],
            Ask::Release | Ask::Pass => &[(
                "notify_timeout_ms",
                Given::Number,
                "Then wait until sessions that follow the election know; a minute at most",
            )],
            Ask::History | Ask::Audit | Ask::StoreAudit | Ask::TokensAudit => {
                &[("limit", Given::Number, "How many of the newest")]
            }
            Ask::Waiting => &[("limit", Given::UpTo(1_000), "How many of the first, at most 1,000")],
            Ask::Elections | Ask::Audits | Ask::Candidates | Ask::Fences => &[
                ("after", Given::Name, "Only those that come after this one"),
                (
                    "limit",
                    Given::UpTo(10_000),
                    "How many of the first, at most 10,000; if fewer are answered, they are the last",
                ),
            ],
            Ask::Overview => &[
                ("after", Given::Name, "Only those that come after this one"),
                (
                    "limit",
                    Given::UpTo(1_000),
                    "How many of the first, at most 1,000; if fewer are answered, they are the last",
                ),
            ],
            Ask::Events => &[
                ("after", Given::Text, "Go on after this event, as Last-Event-ID says it"),
                ("leases", Given::Text, "Elections whose renewals are told, with commas between them"),
            ],
            Ask::Board => &[
                ("after", Given::Number, "Answer once it has changed from this count of changes"),
                ("wait_ms", Given::Number, "How long to wait for that; a minute at most"),
            ],
            Ask::Tasks => &[
                ("after", Given::Item, "Only those that come after this one"),
                ("limit", Given::UpTo(1_000), "How many of the first, at most 1,000"),
                ("state", Given::TaskState, "Only those in this state"),
                ("agent", Given::Agent, "Only those that this agent has or had last"),
            ],
            Ask::Breakers => &[
                ("after", Given::Item, "Only those that come after this one"),
                ("limit", Given::UpTo(1_000), "How many of the first, at most 1,000"),
                ("agent", Given::Agent, "Only those of this agent"),
            ],
            Ask::Proposals | Ask::Quotas | Ask::Values => &[
                ("after", Given::Item, "Only those that come after this one"),
                ("limit", Given::UpTo(1_000), "How many of the first, at most 1,000"),
            ],
            _ => &[],
        }
    }
}

/// What stands for something in the query.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Given {
    Number,
    /// A number from one to this one.
    UpTo(u64),
    Name,
    Text,
    Item,
    Agent,
    TaskState,
}

/// What came of looking for a route.
pub(crate) enum Matched {
    /// This one, with what stands for its names.
    Route(&'static Route, Vec<String>),
    /// The path is one of other methods: these.
    OtherMethod(&'static str),
    /// There is none.
    None,
}

/// The route of a request.
pub(crate) fn find(method: &Method, path: &str) -> Matched {
    let (mut takes_get, mut takes_post) = (false, false);
    for route in &ROUTES {
        if let Some(names) = names(route.path, path) {
            if route.method == *method {
                return Matched::Route(route, names);
            }
            takes_get |= route.method == Method::GET;
            takes_post |= route.method == Method::POST;
        }
    }
    match (takes_get, takes_post) {
        (true, true) => Matched::OtherMethod("GET, HEAD, POST"),
        (true, false) => Matched::OtherMethod("GET, HEAD"),
        (false, true) => Matched::OtherMethod("POST"),
        (false, false) => Matched::None,
    }
}

fn names(pattern: &str, path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(names),
            (Some(wanted), Some(given)) if wanted.starts_with('{') => names.push(decoded(given)?),
            (Some(wanted), Some(given)) if wanted == given => {}
            (_, _) => return None,
        }
    }
}

/// Text without its percent signs.
pub(crate) fn decoded(text: &str) -> Option<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &Method, path: &str) -> Option<(Ask, Vec<String>)> {
        match find(method, path) {
            Matched::Route(route, names) => Some((route.ask, names)),
            Matched::OtherMethod(_) | Matched::None => None,
        }
    }

    #[test]
    fn names_are_decoded() {
        let (ask, names) = found(&Method::POST, "/v1/elections/fleet%2Feu/renew").unwrap();
        assert_eq!((ask, names), (Ask::Renew, vec!["fleet/eu".to_string()]));
        assert_eq!(found(&Method::POST, "/v1/elections/a%2/renew"), None);
        assert_eq!(found(&Method::POST, "/v1/elections/a%zz/renew"), None);
        assert_eq!(found(&Method::POST, "/v1/elections/a%ff/renew"), None);
    }

    #[test]
    fn each_route_is_found_by_its_own_path() {
        for route in &ROUTES {
            let (ask, _) = found(&route.method, &route.path.replace(['{', '}'], "")).unwrap();
            assert_eq!(ask, route.ask, "{}", route.path);
        }
        assert!(matches!(find(&Method::GET, "/v1/batch"), Matched::OtherMethod("POST")));
        assert!(matches!(
            find(&Method::PUT, "/v1/elections/e/candidates"),
            Matched::OtherMethod("GET, HEAD, POST")
        ));
        assert!(matches!(find(&Method::GET, "/v1/nothing"), Matched::None));
        assert!(
            matches!(find(&Method::GET, "/v1/elections/"), Matched::Route(..)),
            "an empty name is refused as a name"
        );
    }
}
