//! `baton lab compare`: all algorithms under the same faults.

use std::num::NonZeroUsize;

use baton_lab::compare::{Cell, Comparison, MAX_SEEDS, Plan, compare, electors};
use baton_lab::{Elector, Scenario};
use baton_peer::MAX_MEMBERS;
use clap::Args;
use serde_json::{Value, json};

use super::progress::Bar;
use super::report_files::{ReportFiles, shown};
use crate::context::Global;
use crate::exit::Exit;
use crate::output::{Failure, Outcome, Output};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton lab compare --html report.html
  baton lab compare --algorithm bully --algorithm raft --scenario partition --seeds 1000

Bully and Ring may have two leaders at once: that is counted, not hidden. An algorithm that promises one leader \
and has two, or breaks another promise, ends with exit code 1.")]
pub(crate) struct Compare {
    /// How many runs for each algorithm under each scenario
    #[arg(long, value_name = "N", default_value_t = 100)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
    /// How many members, or agents on a store
    #[arg(long, value_name = "N", default_value_t = 5)]
    nodes: u8,
    /// Only this one; repeat it for several [default: all]
    #[arg(long, value_name = "NAME")]
    algorithm: Vec<Elector>,
    /// Only this one; repeat it for several [default: all]
    #[arg(long, value_name = "NAME")]
    scenario: Vec<Scenario>,
    #[command(flatten)]
    paper: ReportFiles,
}

impl Compare {
    pub(crate) fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        self.paper.check()?;
        let plan = self.plan()?;
        let runs = plan.seeds * u64::try_from(plan.algorithms.len() * plan.scenarios.len()).unwrap_or(1);
        let bar = Bar::new(runs, output.json);
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let comparison = compare(&plan, threads, &|done| bar.at(done, || format!("{done} of {runs} runs")));
        bar.end();
        if output.json {
            for cell in &comparison.cells {
                output.line(&data(cell).to_string())?;
            }
            for cost in &comparison.costs {
                let (algorithm, nodes) = (cost.algorithm.name(), cost.nodes);
                let data = json!({"kind": "election", "algorithm": algorithm, "nodes": nodes, "messages": cost.messages});
                output.line(&data.to_string())?;
            }
        } else {
            output.line(&format!(
                "{}\n\n{}",
                shown(&comparison.table()),
                shown(&comparison.costs_table())
            ))?;
        }
        // After the numbers: a disk that is full by then does not cost them.
        self.paper.write(&comparison.page(&self.command(&plan)), output)?;
        promises(&comparison)
    }

    fn plan(&self) -> Result<Plan, Failure> {
        if self.seeds == 0 || self.seeds > MAX_SEEDS || self.from.checked_add(self.seeds).is_none() {
            return Err(Failure::usage(
                format!("{} seeds from {}; there are 1 to {MAX_SEEDS}", self.seeds, self.from),
                "such as: --seeds 100",
            ));
        }
        if !(2..=MAX_MEMBERS).contains(&usize::from(self.nodes)) {
            let message = format!("{} members; there are 2 to {MAX_MEMBERS}", self.nodes);
            return Err(Failure::usage(message, "such as: --nodes 5"));
        }
        let chosen = |algorithm: &Elector| self.algorithm.is_empty() || self.algorithm.contains(algorithm);
        let wanted = |scenario: &Scenario| self.scenario.is_empty() || self.scenario.contains(scenario);
        Ok(Plan {
            algorithms: electors().filter(chosen).collect(),
            scenarios: Scenario::ALL.into_iter().filter(wanted).collect(),
            nodes: self.nodes,
            from: self.from,
            seeds: self.seeds,
        })
    }

    fn command(&self, plan: &Plan) -> String {
        let mut words = vec![
            ("seeds", plan.seeds.to_string()),
            ("from", plan.from.to_string()),
            ("nodes", plan.nodes.to_string()),
        ];
        words.extend(self.algorithm.iter().map(|algorithm| ("algorithm", algorithm.to_string())));
        words.extend(self.scenario.iter().map(|scenario| ("scenario", scenario.to_string())));
        format!("baton lab compare{}", ReportFiles::command(&words))
    }
}

fn promises(comparison: &Comparison) -> Outcome {
    let broken = comparison.cells.iter().find_map(|cell| Some((cell, cell.broken.as_ref()?)));
    let Some((cell, (seed, broken))) = broken else { return Ok(Exit::Done) };
    let (algorithm, scenario) = (cell.algorithm.name(), cell.scenario.name());
    let message = format!(
        "{algorithm} under {scenario} with seed {seed} broke `{}` at {}: {}",
        broken.invariant, broken.at, broken.what
    );
    let hint = "this is a bug of Baton: please report it with the command line";
    let facts = json!({"algorithm": algorithm, "scenario": scenario, "seed": seed, "invariant": broken.invariant,
        "at_ms": broken.at.as_millis(), "what": broken.what});
    let mut failure = Failure::new(Exit::Error, "broken", message, hint);
    if let Value::Object(facts) = facts {
        failure.facts = facts;
    }
    Err(failure)
}

fn data(cell: &Cell) -> Value {
    let ms = |span: Option<baton_election::time::Span>| span.map(|span| span.as_millis());
    json!({"kind": "cell", "algorithm": cell.algorithm.name(), "scenario": cell.scenario.name(), "hours": cell.hours(),
    "two_leaders_s_per_h": cell.two_leaders(), "beside_still_s_per_h": cell.beside_still(),
    "no_leader_s_per_h": cell.no_leader(),
    "failover_p50_ms": ms(cell.failover_p50), "failover_p99_ms": ms(cell.failover_p99),
    "writes_refused_per_h": cell.refused(), "writes_mixed_per_h": cell.mixed(),
    "leaderships": cell.statistics.leaderships, "broken": cell.broken.as_ref().map(|(seed, broken)| {
        json!({"seed": seed, "invariant": broken.invariant, "what": broken.what})
    })})
}
