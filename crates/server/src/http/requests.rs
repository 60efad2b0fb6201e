//! How many requests there were, how long those took that renew, and the spans of the others.

use std::sync::Arc;
use std::time::Instant;

use baton_api::endpoints::{ENDPOINTS, Endpoint, Row, Scope};
use http::StatusCode;

use super::Service;
use super::calls::Call;
use super::reply::{Problem, Reply, json as answer, reply};
use crate::metrics::{Counter, FORMAT, MetricsSnapshot, RenewalRoute};
use crate::traces::{OpenSpan, TraceCounts};

/// The classes of answers.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Requests by route and class of the answer. What has no route is counted as one.
pub(crate) struct Requests {
    routes: Vec<[Counter; CLASSES.len()]>,
    none: [Counter; CLASSES.len()],
}

impl Default for Requests {
    fn default() -> Requests {
        let routes = ENDPOINTS.iter().map(|_| Default::default()).collect();
        Requests { routes, none: Default::default() }
    }
}

impl Requests {
    pub(super) fn count(&self, row: Option<&Row>, status: StatusCode) {
        let counters = row.map_or(&self.none, |row| &self.routes[row.endpoint as usize]);
        let class = usize::from(status.as_u16() / 100).clamp(1, CLASSES.len());
        counters[class - 1].one();
    }

    /// Tells of each that there were.
    pub(crate) fn each(&self, mut tell: impl FnMut(&str, &str, u64)) {
        let known = ENDPOINTS.iter().map(|row| row.name).zip(&self.routes);
        for (name, counters) in known.chain([("none", &self.none)]) {
            for (class, counter) in CLASSES.iter().zip(counters) {
                if counter.value() > 0 {
                    tell(name, class, counter.value());
                }
            }
        }
    }
}

impl Service {
    /// Begins the span of a command, if it is traced.
    pub(super) fn span(&self, row: &Row, call: &Call<'_>, traceparent: Option<&str>) -> Option<OpenSpan> {
        let tracer = self.tracer.as_ref()?;
        let name = row.span?;
        let election = (row.scope == Scope::Election).then(|| call.name(0));
        tracer.begin(name, traceparent, election)
    }

    /// What was asked has been done, or not.
    pub(super) fn measure(
        self: &Arc<Self>,
        endpoint: Endpoint,
        begun: Instant,
        span: Option<OpenSpan>,
        reply: &Result<Reply, Problem>,
    ) {
        let way = match endpoint {
            Endpoint::Renew => Some(RenewalRoute::Single),
            Endpoint::Batch => Some(RenewalRoute::Batch),
            Endpoint::Heartbeat => Some(RenewalRoute::Heartbeat),
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
        let shown = MetricsSnapshot {
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
            traces: self.tracer.as_ref().map_or_else(TraceCounts::default, |tracer| tracer.sent()),
            started: self.started,
        };
        Ok(reply(StatusCode::OK, FORMAT, shown.page().into()))
    }
}
