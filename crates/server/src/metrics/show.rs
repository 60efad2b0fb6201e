//! The page of metrics, as it is scraped. `docs/reference/metrics.md` lists what stands here, and a test compares both.

use baton_api::alerts::AlertKind;
use baton_election::ElectionName;
use baton_election::time::{Span, WallTime};
use baton_store::toolbox::State;

use super::elections::{Notes, OTHERS};
use super::text::{Kind, Page};
use super::{At, CAUSES, Meters, Part, RenewalRoute, Unwanted};
use crate::census::Census;
use crate::engine::Tally;
use crate::http::{Requests, Uses};
use crate::sessions::Attendance;
use crate::toolbox::Tools;
use crate::traces::TraceCounts;

/// What is written, beside what was counted.
pub(crate) struct MetricsSnapshot<'a> {
    pub(crate) meters: &'a Meters,
    pub(crate) requests: &'a Requests,
    pub(crate) uses: &'a Uses,
    pub(crate) census: &'a Census,
    /// Requests that are not in the access log.
    pub(crate) unlogged: u64,
    pub(crate) engine: Tally,
    pub(crate) sessions: Attendance,
    pub(crate) tools: Tools,
    /// How many of the sessions are suspected to be gone.
    pub(crate) suspected: u64,
    /// Elections that nobody leads while somebody waits, and since when.
    pub(crate) leaderless: Vec<(ElectionName, Span)>,
    /// How many alerts of each kind are active.
    pub(crate) alerts: Vec<(AlertKind, u64)>,
    /// Whether traces are sent, how many were, and how many were not.
    pub(crate) traces: TraceCounts,
    pub(crate) started: WallTime,
}

/// What a server says that is not the active one of several.
pub(crate) fn standby() -> String {
    let mut page = Page::default();
    own(&mut page, false);
    page.done()
}

impl MetricsSnapshot<'_> {
    pub(crate) fn page(&self) -> String {
        let mut page = Page::default();
        own(&mut page, true);
        self.process(&mut page);
        self.leading(&mut page);
        self.candidates(&mut page);
        self.renewals(&mut page);
        self.work(&mut page);
        self.tools(&mut page);
        let notes = self.meters.notes();
        self.by_election(&mut page, &notes);
        drop(notes);
        page.done()
    }

    fn process(&self, page: &mut Page) {
        page.gauge(
            "process_start_time_seconds",
            "When the server began to serve, in seconds since 1970.",
            self.started.as_unix_millis() / 1_000,
        );
        if let Some(bytes) = resident() {
            page.gauge("process_resident_memory_bytes", "Memory that the server has.", bytes);
        }
    }

    /// Changes of leader, time without a leader, and active alerts.
    fn leading(&self, page: &mut Page) {
        let meters = self.meters;
        let mut samples = page.metric(
            "baton_transitions_total",
            Kind::Counter,
            "Changes of leader, by why the former leadership ended, and by the kind of hand-over.",
        );
        for (cause, counter) in CAUSES.iter().zip(&meters.transitions) {
            let kind = cause.handover().name();
            samples.number(&[("cause", &cause.to_string()), ("kind", kind)], counter.value());
        }
        page.metric("baton_leadership_seconds", Kind::Histogram, "How long leaderships lasted that ended.")
            .histogram(&[], &meters.leaderships);
        let mut samples = page.metric(
            "baton_transition_phase_seconds",
            Kind::Histogram,
            "How long each phase of a change of leader took.",
        );
        for (part, histogram) in Part::ALL.iter().zip(&meters.phases) {
            samples.histogram(&[("phase", part.name())], histogram);
        }
        page.counter(
            "baton_participation_expected_total",
            "Sessions that followed an election when its leader changed.",
            meters.expected.value(),
        );
        page.counter(
            "baton_participation_acknowledged_total",
            "Of those, the ones that acknowledged it within a minute.",
            meters.acknowledged.value(),
        );
        page.metric(
            "baton_leaderless_seconds_total",
            Kind::Counter,
            "Time without a leader while somebody waited, of all elections.",
        )
        .seconds(&[], Span::millis(meters.leaderless.value()));
        page.gauge(
            "baton_leaderless_elections",
            "Elections that nobody leads while somebody waits.",
            self.leaderless.len() as u64,
        );
        let mut samples =
            page.metric("baton_alerts_active", Kind::Gauge, "Alerts of the server that are active.");
        for (kind, count) in &self.alerts {
            let severity = kind.severity().to_string();
            samples.number(&[("alert", kind.name()), ("severity", &severity)], *count);
        }
    }

    fn candidates(&self, page: &mut Page) {
        let mut samples = page.metric(
            "baton_acquires_refused_total",
            Kind::Counter,
            "Candidates that were refused, or waited in vain.",
        );
        for (why, counter) in Unwanted::ALL.iter().zip(&self.meters.unwanted) {
            samples.number(&[("reason", why.name())], counter.value());
        }
        page.gauge("baton_waiting", "Candidates that wait in line.", self.engine.waiting);
        let mut samples = page.metric(
            "baton_stale_tokens_refused_total",
            Kind::Counter,
            "Tokens that were refused since they were not the current one.",
        );
        for (at, counter) in At::ALL.iter().zip(&self.meters.stale) {
            samples.number(&[("at", at.name())], counter.value());
        }
    }

    fn renewals(&self, page: &mut Page) {
        let meters = self.meters;
        let mut samples = page.metric("baton_renewals_total", Kind::Counter, "Renewals of leases.");
        let renewed = self.engine.renewed + meters.renewed.value();
        samples.number(&[("outcome", "renewed")], renewed);
        samples.number(&[("outcome", "refused")], meters.renewals_refused.value());
        samples.number(&[("outcome", "failed")], meters.renewals_failed.value());
        let mut samples = page.metric(
            "baton_renewal_seconds",
            Kind::Histogram,
            "How long the server took for a request that renews: one lease, a batch, or all of a session.",
        );
        for (way, histogram) in RenewalRoute::ALL.iter().zip(&meters.renewing) {
            samples.histogram(&[("way", way.name())], histogram);
        }
    }

    /// The server's own work.
    fn work(&self, page: &mut Page) {
        let meters = self.meters;
        page.gauge("baton_elections", "Elections in memory.", self.engine.elections);
        page.gauge("baton_leases", "Leases that run.", self.engine.held);
        page.gauge("baton_sessions", "Sessions that are alive.", self.sessions.alive);
        page.gauge(
            "baton_sessions_suspected",
            "Of those, the ones that have been silent for so long that they are suspected to be gone.",
            self.suspected,
        );
        page.gauge("baton_streams", "Streams of changes that are read.", meters.streams.value());
        let mut samples =
            page.metric("baton_requests_total", Kind::Counter, "Requests, by route and class of the answer.");
        self.requests.each(|route, class, count| {
            samples.number(&[("route", route), ("status", class)], count);
        });
        let mut samples = page.metric(
            "baton_requests_refused_total",
            Kind::Counter,
            "Requests answered 401, 403 or 429, by the id of the access token; `none` without one that is known.",
        );
        self.uses.each_refused(|token, count| samples.number(&[("token", token)], count));
        let shares = self.census.store();
        let mut samples = page.metric(
            "baton_quota_used",
            Kind::Gauge,
            "What is kept in all: elections, and bytes of records.",
        );
        shares.iter().for_each(|share| samples.number(&[("what", share.what)], share.used));
        let mut samples =
            page.metric("baton_quota_limit", Kind::Gauge, "How much may be kept; 0 for no limit.");
        shares.iter().for_each(|share| samples.number(&[("what", share.what)], share.limit));
        page.counter(
            "baton_quota_refusals_total",
            "Commands that were refused since as much is kept as may be.",
            self.census.refused.value(),
        );
        page.counter(
            "baton_access_log_dropped_total",
            "Requests that are not in the access log, since its queue was full or it could not be written.",
            self.unlogged,
        );
        page.metric(
            "baton_store_write_seconds",
            Kind::Histogram,
            "How long durable writes of elections took.",
        )
        .histogram(&[], &meters.writes);
        page.counter(
            "baton_store_write_failures_total",
            "Writes of elections that failed or whose outcome is not known.",
            meters.writes_failed.value(),
        );
        page.counter(
            "baton_stalls_total",
            "How often the server stood still for over a second, and gave each lease its full length.",
            self.engine.stalls,
        );
        page.counter(
            "baton_webhooks_lost_total",
            "Deliveries to webhooks that were given up, or pushed out by others.",
            meters.webhooks_lost.value(),
        );
        page.counter("baton_traces_sent_total", "Spans that were sent to a collector.", self.traces.sent);
        page.counter(
            "baton_traces_dropped_total",
            "Spans that were not, since the collector was away or too slow.",
            self.traces.dropped,
        );
    }

    /// What leaders coordinate with.
    fn tools(&self, page: &mut Page) {
        let tools = &self.tools;
        let mut samples = page.metric(
            "baton_toolbox_commands_total",
            Kind::Counter,
            "Commands on tasks, proposals, quotas and values, by what came of them.",
        );
        for (command, outcome, count) in &tools.commands {
            samples.number(&[("command", command), ("outcome", outcome)], *count);
        }
        page.gauge(
            "baton_toolbox_waiting",
            "Commands on toolboxes that wait for their turn, or are at it.",
            tools.waiting,
        );
        page.gauge("baton_toolbox_items", "Items of toolboxes in memory.", tools.items);
        page.gauge("baton_toolbox_bytes", "How much room those take, about.", tools.weight);
        let mut samples =
            page.metric("baton_tasks", Kind::Gauge, "Tasks of the boards in memory, by their state.");
        for (state, count) in State::ALL.iter().zip(tools.tasks) {
            samples.number(&[("state", &state.to_string())], count);
        }
    }

    /// What has a series for each of a bounded number of elections.
    fn by_election(&self, page: &mut Page, notes: &Notes) {
        let (shown, rest) = notes.counts();
        let mut samples = page.metric(
            "baton_election_transitions_total",
            Kind::Counter,
            "Changes of leader of an election; those of elections without a series of their own are summed.",
        );
        for (election, counts) in &shown {
            samples.number(&[("election", election.as_str())], counts.transitions);
        }
        samples.number(&[("election", OTHERS)], rest.transitions);
        let mut samples = page.metric(
            "baton_election_unplanned_transitions_total",
            Kind::Counter,
            "Changes of leader of an election that no person ordered and that followed no finished work.",
        );
        for (election, counts) in &shown {
            samples.number(&[("election", election.as_str())], counts.unplanned);
        }
        samples.number(&[("election", OTHERS)], rest.unplanned);
        let mut samples = page.metric(
            "baton_election_acquires_refused_total",
            Kind::Counter,
            "Candidates of an election that were refused because another leads or is preferred.",
        );
        for (election, counts) in &shown {
            samples.number(&[("election", election.as_str())], counts.refused);
        }
        samples.number(&[("election", OTHERS)], rest.refused);
        let mut samples = page.metric(
            "baton_election_leaderless_seconds_total",
            Kind::Counter,
            "Time without a leader while somebody waited, of an election.",
        );
        for (election, counts) in &shown {
            samples.seconds(&[("election", election.as_str())], counts.leaderless);
        }
        samples.seconds(&[("election", OTHERS)], rest.leaderless);
        self.as_they_stand(page, notes);
    }

    fn as_they_stand(&self, page: &mut Page, notes: &Notes) {
        let mut samples = page.metric(
            "baton_election_leaderless_seconds",
            Kind::Gauge,
            "For how long nobody has led an election that somebody waits for; of the others, the longest.",
        );
        let mut longest = Span::ZERO;
        for (election, since) in &self.leaderless {
            match notes.is_shown(election) {
                true => samples.seconds(&[("election", election.as_str())], *since),
                false => longest = longest.max(*since),
            }
        }
        samples.seconds(&[("election", OTHERS)], longest);
        let mut samples = page.metric(
            "baton_election_waiting",
            Kind::Gauge,
            "Candidates that wait in line for an election; of the others, all.",
        );
        let mut others = self.engine.waiting;
        for (election, waiting) in &self.engine.lines {
            if notes.is_shown(election) {
                samples.number(&[("election", election.as_str())], *waiting);
                others = others.saturating_sub(*waiting);
            }
        }
        samples.number(&[("election", OTHERS)], others);
        let mut samples = page.metric(
            "baton_election_participation_ratio",
            Kind::Gauge,
            "Which part of those who follow an election has acknowledged its last change of leader; of the others, all of them.",
        );
        let (mut told, mut expected) = (0, 0);
        for round in &self.sessions.rounds {
            match notes.is_shown(&round.election) {
                true => samples.ratio(&[("election", round.election.as_str())], round.told, round.expected),
                false => (told, expected) = (told + round.told, expected + round.expected),
            }
        }
        samples.ratio(&[("election", OTHERS)], told, expected);
    }
}

/// What is said of a server whatever its turn.
fn own(page: &mut Page, active: bool) {
    page.metric("baton_build_info", Kind::Gauge, "What runs.")
        .number(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.gauge(
        "baton_server_active",
        "Whether this server decides; of several on one store, one does.",
        u64::from(active),
    );
}

/// Memory in use, as the kernel tells it.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}
