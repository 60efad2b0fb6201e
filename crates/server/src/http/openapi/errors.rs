//! The errors of each endpoint: the statuses, and the stable codes under each.

use std::collections::BTreeMap;

use baton_api::endpoints::{Endpoint, Method, Right, Row};
use baton_election::Command;
use http::StatusCode;
use serde_json::{Value, json};

/// The codes of each status that an endpoint may answer with, besides 200.
pub(super) fn of(row: &Row) -> BTreeMap<u16, Vec<&'static str>> {
    let mut errors: BTreeMap<u16, Vec<&'static str>> = BTreeMap::new();
    let mut add = |status: StatusCode, codes: &[&'static str]| {
        errors.entry(status.as_u16()).or_default().extend(codes);
    };
    add(StatusCode::BAD_REQUEST, &["invalid"]);
    add(StatusCode::FORBIDDEN, &["cross-site", "forbidden"]);
    let is_probe = matches!(row.endpoint, Endpoint::Health | Endpoint::Ready);
    if !is_probe {
        add(StatusCode::TOO_MANY_REQUESTS, &["too-many"]);
    }
    if row.right > Right::Public {
        add(StatusCode::UNAUTHORIZED, &["unauthorized"]);
        add(StatusCode::MISDIRECTED_REQUEST, &["wrong-host"]);
    }
    if !matches!(row.endpoint, Endpoint::Health | Endpoint::Metrics | Endpoint::OpenApi) {
        add(StatusCode::TEMPORARY_REDIRECT, &["not-active"]);
        add(StatusCode::SERVICE_UNAVAILABLE, &["not-active", "unavailable", "unknown", "conflict"]);
        add(
            StatusCode::INTERNAL_SERVER_ERROR,
            &["corrupt", "refused", "diverged", "unknown-store", "system"],
        );
    }
    if row.method == Method::Post {
        add(StatusCode::REQUEST_TIMEOUT, &["invalid"]);
        add(StatusCode::PAYLOAD_TOO_LARGE, &["invalid"]);
        add(StatusCode::UNSUPPORTED_MEDIA_TYPE, &["invalid"]);
        add(StatusCode::UNPROCESSABLE_ENTITY, &["invalid"]);
    }
    for (status, codes) in refusals(row.endpoint) {
        add(*status, codes);
    }
    errors
}

/// What an endpoint refuses by itself.
fn refusals(endpoint: Endpoint) -> &'static [(StatusCode, &'static [&'static str])] {
    const ABSENT: StatusCode = StatusCode::NOT_FOUND;
    const DENIED: StatusCode = StatusCode::FORBIDDEN;
    const CONFLICT: StatusCode = StatusCode::CONFLICT;
    match endpoint {
        Endpoint::Leader => &[(ABSENT, &["no-leader"])],
        Endpoint::PageFile => &[(ABSENT, &["no-such-route"])],
        Endpoint::Acquire => &[
            (ABSENT, &["unknown-election"]),
            (DENIED, &["wrong-key"]),
            (CONFLICT, &["held", "not-eligible", "paused", "awaiting-approval", "stale", "exhausted"]),
        ],
        Endpoint::Checkpoint => &[
            (ABSENT, &["unknown-election"]),
            (DENIED, &["wrong-key"]),
            (CONFLICT, &["stale", "out-of-turn", "exhausted"]),
        ],
        Endpoint::Operate | Endpoint::Draft | Endpoint::OrderStore | Endpoint::DraftStore => &[
            (ABSENT, &["unknown-election"]),
            (DENIED, &["wrong-key", "not-signed-in"]),
            (CONFLICT, &["stale", "held", "out-of-turn"]),
        ],
        Endpoint::OpenSignIn | Endpoint::BeginSignIn => &[(DENIED, &["wrong-key", "not-signed-in"])],
        Endpoint::Enlist | Endpoint::Withdraw => {
            &[(DENIED, &["wrong-key"]), (CONFLICT, &["held", "exhausted"])]
        }
        Endpoint::Admit | Endpoint::KeepHold | Endpoint::LeaveHold | Endpoint::OrderFence => &[
            (ABSENT, &["unknown-election"]),
            (DENIED, &["wrong-key"]),
            (CONFLICT, &["stale", "held", "awaiting-approval", "exhausted"]),
        ],
        Endpoint::OrderTokens => &[(DENIED, &["wrong-key"]), (CONFLICT, &["stale", "exhausted"])],
        Endpoint::Announce | Endpoint::Heartbeat | Endpoint::News | Endpoint::EndSession => {
            &[(ABSENT, &["no-such-session"]), (DENIED, &["wrong-key"])]
        }
        Endpoint::AddTasks
        | Endpoint::OrderTask
        | Endpoint::Propose
        | Endpoint::RuleOn
        | Endpoint::SetQuota
        | Endpoint::Draw
        | Endpoint::PutValue => &[
            (ABSENT, &["unknown-election", "no-such-item"]),
            (DENIED, &["wrong-key"]),
            (CONFLICT, &["stale", "held", "not-eligible", "out-of-turn", "exhausted"]),
        ],
        // The other commands on an election.
        _ if Command::NAMES.contains(&endpoint.row().name) => &[
            (ABSENT, &["unknown-election"]),
            (DENIED, &["wrong-key"]),
            (CONFLICT, &["stale", "not-eligible"]),
        ],
        _ => &[],
    }
}

/// The meaning of a code, and what to do about it, as an example.
fn meaning(code: &str) -> (&'static str, &'static str) {
    match code {
        "invalid" => ("the request is malformed or breaks a rule", "see /openapi.json"),
        "unauthorized" => {
            ("a token is needed, and none that is known was shown", "send Authorization: Bearer TOKEN")
        }
        "forbidden" => ("the token does not allow this", "use a token of the right role, for this election"),
        "cross-site" => {
            ("a page of another site asks", "this interface is for programs, and for pages of this server")
        }
        "wrong-host" => ("this server is not called by that name", "use a name in its certificate"),
        "wrong-key" => ("the key is not the holder's", "show the key of the lease"),
        "not-signed-in" => ("the sign-in is over, or there never was one", "run `baton dashboard` again"),
        "unknown-election" => ("there is no election of this name", "list them: baton status"),
        "no-leader" => ("nobody leads `nightly-report`", "wait, or see who could: baton status"),
        "no-such-item" => ("there is no such item", "list them first"),
        "no-such-session" => ("there is no such session", "announce it anew: POST /v1/sessions"),
        "no-such-route" => ("there is nothing at this path", "see /openapi.json"),
        "held" => ("another agent holds it", "wait for a release"),
        "stale" => ("the token is not current", "stop the work under this token, and campaign again"),
        "not-eligible" => ("the policy does not let this agent lead", "see the policy: baton policy show"),
        "paused" => ("an operator paused the election", "wait until an operator resumes it"),
        "awaiting-approval" => ("an operator must approve first", "wait for the approval"),
        "out-of-turn" => ("something else must come first", "read the item again"),
        "exhausted" => ("there is no room or quota left", "make room, or wait"),
        "too-many" => ("too many requests", "try again after the time in Retry-After"),
        "not-active" => ("another server is the active one", "follow the redirect"),
        "unavailable" => ("the store cannot be reached; nothing was changed", "try again"),
        "unknown" => {
            ("the change may or may not have been applied", "repeat the request: it is safe to repeat")
        }
        "conflict" => ("another change came first", "try again"),
        _ => ("the server or its store has a fault", "see the server's log"),
    }
}

/// The errors of an endpoint as responses, each with its codes and an example.
pub(super) fn responses(row: &Row, problem: &Value) -> BTreeMap<String, Value> {
    let described = |(status, codes): (u16, Vec<&'static str>)| {
        let title = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let (code, meanings) = (
            codes.first().copied().unwrap_or_default(),
            codes.iter().map(|code| format!("`{code}`: {}", meaning(code).0)),
        );
        let (detail, hint) = meaning(code);
        let example = json!({
            "type": "about:blank", "title": title, "status": status, "code": code, "detail": detail, "hint": hint,
        });
        let response = json!({
            "description": meanings.collect::<Vec<String>>().join("; "),
            "x-codes": codes,
            "content": { "application/problem+json": { "schema": problem, "example": example } },
        });
        (status.to_string(), response)
    };
    of(row).into_iter().map(described).collect()
}
