//! A comparison as a table and as a page.

use crate::plot::{Axis, Page, Section, Table, Unit, digits};

use super::figures::{bars, messages, name, time};
use super::{Cell, Comparison};

impl Comparison {
    /// Every algorithm under every scenario.
    pub fn table(&self) -> Table {
        let head = [
            "scenario",
            "algorithm",
            "two leaders s/h",
            "beside one still s/h",
            "no leader s/h",
            "fail-over p50 s",
            "fail-over p99 s",
            "writes refused /h",
            "writes mixed /h",
            "elections",
            "promises broken",
        ];
        Table {
            caption: "Per hour of simulated time. A dash: no leader itself was struck".to_string(),
            head: head.map(str::to_string).to_vec(),
            rows: self.cells.iter().map(row).collect(),
        }
    }

    /// What an election costs, by size.
    pub fn costs_table(&self) -> Table {
        let sizes = super::SIZES.map(|size| format!("n = {size}"));
        let rows = self.plan.algorithms.iter().map(|&algorithm| {
            let costs = self.costs.iter().filter(|cost| cost.algorithm == algorithm);
            let cells = costs.map(|cost| number(cost.messages));
            std::iter::once(name(algorithm).to_string()).chain(cells).collect()
        });
        Table {
            caption: "Messages for one election after a leader's death, without heartbeats and renewals"
                .to_string(),
            head: std::iter::once("algorithm".to_string()).chain(sizes).collect(),
            rows: rows.collect(),
        }
    }

    /// All that was simulated, in hours.
    pub fn hours(&self) -> f64 {
        self.cells.iter().map(Cell::hours).sum()
    }

    /// The page.
    pub fn page(&self, command: &str) -> Page {
        let plan = &self.plan;
        let text = format!(
            "{} members (agents, on a store), with the rhythm for agents: heartbeats every 5 s, patience of 15 to 20 s, leases of 20 s. Seeds {} to {}; for each \
             scenario and seed all algorithms meet the same plan of faults and the same network. {} hours were simulated, with the machines that ship.",
            plan.nodes,
            plan.from,
            plan.from + plan.seeds.saturating_sub(1),
            digits(self.hours())
        );
        let axis = |what: &str| Axis::linear(what, Unit::Plain);
        let safety = Section {
            title: "Who keeps to one leader".to_string(),
            text: vec![],
            figures: vec![
                bars(self, ("two-leaders", "Two leaders at once"), axis("seconds with two leaders in each hour"),
                    |cell| Some(cell.two_leaders()), self.two_leaders_caption()),
                bars(self, ("writes-refused", "Writes that the fence refused"), axis("writes refused for an old token, in each hour"),
                    |cell| Some(cell.refused()),
                    "Writes of former leaders that a resource refused since it had seen a higher token. Each is harm that did not happen. Where the holder's work \
                     always stops in time there is little to refuse; a process that stands still in the middle of a write is what tokens are for.".to_string()),
                bars(self, ("writes-mixed", "Writes that no fence could stop"), axis("writes of two under one token, in each hour"),
                    |cell| Some(cell.mixed()),
                    "Writes that the resource took although another leader had written with the same number: Bully's and Ring's numbers are not tokens, so that \
                     a fence in front of the resource does not help.".to_string()),
            ],
            tables: vec![],
        };
        let liveness = Section {
            title: "How long nobody leads".to_string(),
            text: vec![],
            figures: vec![
                bars(self, ("no-leader", "No leader"), axis("seconds with no leader in each hour"),
                    |cell| Some(cell.no_leader()),
                    "The price of safety. Groups that vote stand still where no majority can talk; a lease stands still while its store is out of reach or the former \
                     lease runs. Bully and Ring find somebody on each side of a split.".to_string()),
                bars(self, ("failover-p50", "Fail-over: half are shorter"), axis("seconds until another leads"),
                    |cell| time(cell.failover_p50),
                    "From the crash, pause or isolation of a leader until another's work began. A group notices after 15 to 20 s of silence, a lease ends 20 s after its \
                     last renewal. Shorter than that is only a leader that was already on its way out, or a second one beside the first. A dash: no leader itself was struck.".to_string()),
                bars(self, ("failover-p99", "Fail-over: 99 of 100 are shorter"), axis("seconds until another leads"),
                    |cell| time(cell.failover_p99),
                    "The slow ones: no majority, or no store, for as long as the fault lasts. A dash: no leader itself was struck.".to_string()),
            ],
            tables: vec![self.table()],
        };
        let costs = Section {
            title: "What an election costs".to_string(),
            text: vec![],
            figures: vec![messages(self)],
            tables: vec![self.costs_table()],
        };
        Page {
            title: "Elections under the same faults".to_string(),
            lead: text,
            command: command.to_string(),
            sections: vec![safety, liveness, costs],
        }
    }

    fn two_leaders_caption(&self) -> String {
        let (exclusive, others): (Vec<&Cell>, Vec<&Cell>) =
            self.cells.iter().partition(|cell| cell.algorithm.is_exclusive());
        let named = |exclusive: bool| {
            let algorithms = self.plan.algorithms.iter().filter(|one| one.is_exclusive() == exclusive);
            algorithms.map(|&algorithm| name(algorithm)).collect::<Vec<&str>>().join(", ")
        };
        let mut sentences = Vec::new();
        if exclusive.iter().any(|cell| cell.two_leaders() > 0.0) {
            sentences.push("An algorithm that promises one leader had two: that is a bug.".to_string());
        } else if !exclusive.is_empty() {
            sentences.push(format!("{}: none, in any run.", named(true)));
        }
        let worst = others.into_iter().max_by(|one, other| one.two_leaders().total_cmp(&other.two_leaders()));
        if let Some(worst) = worst.filter(|worst| worst.two_leaders() > 0.0) {
            sentences.push(format!(
                "{}: both parts of a split network elect, as they must, since they take silence for death. The most: {} under {}, {} seconds in each hour.",
                named(false),
                name(worst.algorithm),
                worst.scenario,
                worst.two_leaders().round()
            ));
        }
        sentences.join(" ")
    }
}

fn row(cell: &Cell) -> Vec<String> {
    let span = |span| time(span).map_or("–".to_string(), number);
    vec![
        cell.scenario.name().to_string(),
        name(cell.algorithm).to_string(),
        number(cell.two_leaders()),
        number(cell.beside_still()),
        number(cell.no_leader()),
        span(cell.failover_p50),
        span(cell.failover_p99),
        number(cell.refused()),
        number(cell.mixed()),
        cell.statistics.leaderships.to_string(),
        cell.broken.as_ref().map_or("none".to_string(), |(seed, _)| format!("seed {seed}")),
    ]
}

/// As the pictures write it too.
fn number(value: f64) -> String {
    Unit::Plain.write(value)
}
