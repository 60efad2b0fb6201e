//! How many requests there were, how long those took that renew, and the spans of the others.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;

use super::Service;
use super::calls::Call;
use super::openapi;
use super::reply::{Problem, Reply, json as answer, reply};
use super::route::{Ask, ROUTES, Route};
use crate::metrics::{Counter, FORMAT, Shown, Way};
use crate::traces::{Begun, Sent};

/// The classes of answers.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Requests by route and class of the answer. What has no route is counted as one.
pub(crate) struct Requests {
    routes: Vec<[Counter; CLASSES.len()]>,
    none: [Counter; CLASSES.len()],
}

impl Default for Requests {
    fn default() -> Requests {
        let most = ROUTES.iter().map(|route| route.ask as usize).max().unwrap_or(0);
        Requests { routes: (0..=most).map(|_| Default::default()).collect(), none: Default::default() }
    }
}

impl Requests {
    pub(super) fn count(&self, route: Option<&Route>, status: StatusCode) {
        let counters = route.map_or(&self.none, |route| &self.routes[route.ask as usize]);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len());
        counters[class - 1].one();
    }

    /// Tells of each that there were.
    pub(crate) fn each(&self, mut tell: impl FnMut(&str, &str, u64)) {
        let known = ROUTES.iter().map(|route| (openapi::name(route.ask), &self.routes[route.ask as usize]));
        for (name, counters) in known.chain([("none".to_string(), &self.none)]) {
            for (class, counter) in CLASSES.iter().zip(counters) {
                if counter.value() > 0 {
                    tell(&name, class, counter.value());
                }
            }
        }
    }
}

impl Service {
    /// Begins the span of a command, if somebody wants it. Renewals, heartbeats and who waits for news have none: they are too many.
    pub(super) fn span(&self, route: &Route, call: &Call<'_>, traceparent: Option<&str>) -> Option<Begun> {
        let tracer = self.tracer.as_ref()?;
        let name = traced(route.ask)?;
        let election = route.path.contains("{election}").then(|| call.name(0));
        tracer.begin(name, traceparent, election)
    }

    /// What was asked has been done, or not.
    pub(super) fn measure(
        self: &Arc<Self>,
        ask: Ask,
        begun: Instant,
        span: Option<Begun>,
        reply: &Result<Reply, Problem>,
    ) {
        let way = match ask {
            Ask::Renew => Some(Way::Single),
            Ask::Batch => Some(Way::Batch),
            Ask::Heartbeat => Some(Way::Heartbeat),
            _ => None,
        };
        if let Some(way) = way {
            self.engine.meters().renewing(way, begun);
        }
        if let (Some(tracer), Some(span)) = (&self.tracer, span) {
            let status = reply.as_ref().map_or_else(Problem::status, |reply| reply.status());
            tracer.end(span, status);
        }
    }

    pub(super) fn list_alerts(&self, call: &Call<'_>) -> Result<Reply, Problem> {
        let identity = &call.who.identity;
        let shown = self.alerts.shown(|election| identity.sees(election.as_str()), identity.sees_all());
        // An observer's store is its clients' business.
        let no_operator = self.engine.info().operator_keys.is_empty() && !self.engine.observes();
        answer(&baton_api::alerts::Alerts { no_operator, ..shown })
    }

    pub(super) async fn metrics(&self) -> Result<Reply, Problem> {
        let shown = Shown {
            meters: self.engine.meters(),
            requests: &self.requests,
            uses: &self.uses,
            unlogged: self.access_log.as_ref().map_or(0, |log| log.lost()),
            engine: self.engine.tally().await,
            census: self.engine.census(),
            sessions: self.sessions.attendance(),
            tools: self.boards.tools(),
            suspected: self.sessions.suspected(),
            leaderless: self.alerts.leaderless(),
            alerts: self.alerts.counts(),
            traces: self.tracer.as_ref().map_or_else(Sent::default, |tracer| tracer.sent()),
            started: self.started,
        };
        Ok(reply(StatusCode::OK, FORMAT, shown.page().into()))
    }
}

/// The name of the span of what is traced.
fn traced(ask: Ask) -> Option<&'static str> {
    match ask {
        Ask::Acquire => Some("acquire"),
        Ask::Release => Some("release"),
        Ask::Pass => Some("pass"),
        Ask::Checkpoint => Some("checkpoint"),
        Ask::Acknowledge => Some("acknowledge"),
        Ask::Report => Some("report"),
        Ask::Operate => Some("operate"),
        Ask::Enlist => Some("enlist"),
        Ask::Withdraw => Some("withdraw"),
        Ask::Batch => Some("batch"),
        Ask::Admit => Some("admit"),
        Ask::KeepHold => Some("keep-hold"),
        Ask::LeaveHold => Some("leave-hold"),
        Ask::OrderFence => Some("order-fence"),
        Ask::OrderStore => Some("order-store"),
        Ask::OrderTokens => Some("order-tokens"),
        Ask::Announce => Some("announce"),
        Ask::EndSession => Some("end-session"),
        Ask::AddTasks => Some("add-tasks"),
        Ask::OrderTask => Some("order-task"),
        Ask::Propose => Some("propose"),
        Ask::RuleOn => Some("rule"),
        Ask::SetQuota => Some("set-quota"),
        Ask::Draw => Some("draw"),
        Ask::PutValue => Some("put-value"),
        _ => None,
    }
}
