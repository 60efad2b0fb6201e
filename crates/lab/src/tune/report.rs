//! The recommendation as rows and as a page.

use crate::plot::{Axis, Figure, Ink, LinePlot, Page, PointLabel, Section, Series, Stroke, Table, Unit};

use super::network::{exact, seconds};
use super::{Advice, Fails, FalseAlarms, Tradeoff, Transport, group, lease, span, tidy_up};

const LEASE: Ink = Ink(4);
const GROUP: Ink = Ink(3);
/// Fewer false alarms a day than this are not drawn: it is one in three million years.
const NEVER: f64 = 1e-9;

impl Advice {
    /// The table for people: what, for a lease, for a group.
    pub fn table(&self) -> Table {
        let (lease, group) = (self.lease.as_ref(), self.group.as_ref());
        let none = || "–".to_string();
        let row = |name: &str, lease: Option<String>, group: Option<String>| {
            vec![name.to_string(), lease.unwrap_or_else(none), group.unwrap_or_else(none)]
        };
        let rows = vec![
            row("lease", lease.map(|l| l.lease.to_string()), None),
            row("renewal", lease.map(|l| l.renewal.to_string()), None),
            row("heartbeat", None, group.map(|g| g.timing.heartbeat.to_string())),
            row("timeout", None, group.map(|g| format!("{}–{}", g.timing.timeout_min, g.timing.timeout_max))),
            row("fail-over", lease.map(|l| written(&l.failover)), group.map(|g| written(&g.failover))),
            row(
                "false alarms",
                lease.map(|l| every(l.false_alarms.per_second())),
                group.map(|g| every(g.false_alarms.per_second())),
            ),
            row(
                "… by the network",
                lease.map(|l| every(l.false_alarms.by_network)),
                group.map(|g| every(g.false_alarms.by_network)),
            ),
            row(
                "… by pauses",
                lease.map(|l| every(l.false_alarms.by_pauses)),
                group.map(|g| every(g.false_alarms.by_pauses)),
            ),
        ];
        Table {
            caption: "What is recommended, and what to expect of it".to_string(),
            head: vec![String::new(), "lease in a store".to_string(), self.group_name()],
            rows,
        }
    }

    fn group_name(&self) -> String {
        format!("group of {} (Raft, Paxos)", self.goal.nodes)
    }

    /// What is assumed, in a sentence.
    pub fn assumptions(&self) -> String {
        let network = &self.goal.network;
        let lost = match network.transport {
            Transport::Tcp => "sent again as TCP does",
            Transport::Datagrams => "and between the members of a group not sent again",
        };
        let pauses = match &network.pauses {
            Some(pauses) => {
                format!("processes stand still for {} every {}, on average", pauses.length, pauses.every)
            }
            None => "processes never stand still".to_string(),
        };
        format!(
            "A round trip of {} and {} more on average, {} of all packets lost, each for itself, {lost}; {pauses}.",
            exact(network.rtt),
            exact(network.jitter),
            network.loss
        )
    }

    /// What cannot be had, and what could.
    pub fn missing(&self) -> Vec<String> {
        let network = &self.goal.network;
        let says = |what: &str, shortest: f64| {
            format!(
                "{what} cannot fail over so fast on this network; its shortest is {}.",
                tidy_up(span(shortest))
            )
        };
        let lease = self.lease.is_none().then(|| says("A lease in a store", lease::shortest(network)));
        let group = self.group.is_none().then(|| match group::shortest(network, self.goal.nodes) {
            Some(shortest) => says("A group", shortest),
            None => "A group of two never fails over: the one that is left is no majority. Add a third member, which may be a witness.".to_string(),
        });
        [lease, group].into_iter().flatten().collect()
    }

    /// Detection against false alarms.
    pub fn figure(&self) -> Figure {
        let series = |name: String, ink: Ink, of: &dyn Fn(&Tradeoff) -> Option<FalseAlarms>| {
            let point = |tradeoff: &Tradeoff| {
                let per_day = of(tradeoff)?.per_day();
                (per_day >= NEVER).then(|| (seconds(tradeoff.failover), per_day))
            };
            Series {
                name,
                ink,
                stroke: Stroke::Computed,
                points: self.curve.iter().filter_map(point).collect(),
            }
        };
        let marks = [
            self.lease.as_ref().map(|l| (LEASE, format!("lease {}", l.lease), l.failover, l.false_alarms)),
            self.group.as_ref().map(|g| {
                let label = format!("timeout {}–{}", g.timing.timeout_min, g.timing.timeout_max);
                (GROUP, label, g.failover, g.false_alarms)
            }),
        ];
        let marks = marks.into_iter().flatten();
        let plot = LinePlot {
            title: "Fast detection costs false alarms".to_string(),
            x: Axis::log("fail-over, in 99 of 100 cases at most", Unit::Seconds),
            y: Axis::log("false alarms a day", Unit::Count),
            series: vec![
                series("lease in a store".to_string(), LEASE, &|tradeoff| tradeoff.lease),
                series(self.group_name(), GROUP, &|tradeoff| tradeoff.group),
            ],
            marks: marks
                .map(|(ink, label, failover, alarms)| PointLabel {
                    // At the lower edge what is rarer than anything that is drawn.
                    label: if alarms.per_day() < NEVER { format!("{label}: rarer") } else { label },
                    ink,
                    at: (seconds(failover.worst), alarms.per_day().max(NEVER)),
                })
                .collect(),
        };
        Figure::lines("tune", plot, self.caption())
    }

    fn caption(&self) -> String {
        let mut caption = "The longer a fail-over may take, the rarer a leader is given up although it lives. Rings: what is recommended.".to_string();
        let recommended =
            [self.lease.as_ref().map(|l| l.false_alarms), self.group.as_ref().map(|g| g.false_alarms)];
        if recommended.into_iter().flatten().any(|alarms| alarms.per_day() < NEVER) {
            caption.push_str(
                " A ring at the lower edge: rarer than one in a million years, which is not drawn.",
            );
        }
        if self.goal.network.pauses.is_some() {
            caption.push_str(
                " The steep part on the left is the network: a few lost packets suffice. The slow fall on the right is the pauses, whose \
                 tail is so long that no affordable lease outlasts them all.",
            );
        }
        caption
    }

    /// The page.
    pub fn page(&self, command: &str) -> Page {
        let model = "How it is reckoned: a round trip is the given one plus a heavy-tailed jitter (Lomax, exponent 2.5); a lost packet is sent again \
                     by TCP after the round trip plus 200 ms, then after twice as long each time; pauses come at random and have a Pareto tail \
                     (exponent 1.5). A false alarm is a leader that is lost, or whose work is stopped, although it did not fail: nothing that it \
                     sent within the usable part of its lease was answered in time. Losses in bursts, several links failing at once and a slow \
                     store are not in it, and make false alarms more frequent. Safety does not rest on these numbers.";
        let section = Section {
            title: "Timings".to_string(),
            text: [vec![self.assumptions(), model.to_string()], self.missing()].concat(),
            figures: vec![self.figure()],
            tables: vec![self.table()],
        };
        Page {
            title: format!("Timings for a fail-over within {}", self.goal.failover),
            lead: "How long a lease, how often a heartbeat, and how many false alarms to expect.".to_string(),
            command: command.to_string(),
            sections: vec![section],
        }
    }
}

fn written(failover: &Fails) -> String {
    let (typical, worst) = (seconds(failover.typical), seconds(failover.worst));
    format!("about {}, 99% within {}", Unit::Seconds.write(typical), Unit::Seconds.write(worst))
}

/// How rare something is.
fn every(per_second: f64) -> String {
    const YEAR: f64 = 365.25 * 86_400.0;
    let seconds = 1.0 / per_second;
    if seconds > 1e6 * YEAR {
        "less than one in a million years".to_string()
    } else if seconds >= 2.0 * YEAR {
        format!("one in {} years", Unit::Count.write(seconds / YEAR))
    } else {
        format!("one in {}", Unit::Seconds.write(seconds))
    }
}
