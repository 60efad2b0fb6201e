//! `baton lab scale`: what a leader costs a fleet, flat and regional.

use baton_lab::scale::{Load, Outcome as Seen, Setup, Shape, page, run, table};
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
  baton lab scale
  baton lab scale --agents 1000000 --region 1000 --html scale.html

Every agent and every message is simulated: half a minute of peace, then the fleet's leader dies. A million \
agents take some twenty seconds and a gigabyte for each shape.")]
pub(crate) struct Scale {
    /// How many agents, several sizes with commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000, 1_000_000])]
    agents: Vec<u32>,
    /// How many agents a region has; small fleets have ten regions
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    region: u32,
    /// How many operations a second the store does
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    store_capacity: u32,
    /// How many messages a second a process takes
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    process_capacity: u32,
    /// Of all chance
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    paper: ReportFiles,
}

/// The most fleets of one call.
const MAX_FLEETS: usize = 32;

impl Scale {
    pub(crate) fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        self.paper.check()?;
        if self.agents.len() > MAX_FLEETS {
            return Err(Failure::usage(
                format!("{} fleets; there are at most {MAX_FLEETS} in one call", self.agents.len()),
                "call it several times",
            ));
        }
        let setups: Vec<Setup> = self.setups().collect();
        let agents = |setups: &[Setup]| setups.iter().map(|setup| u64::from(setup.agents)).sum();
        let bar = Bar::new(agents(&setups), output.json);
        let mut outcomes = Vec::new();
        for (place, setup) in setups.iter().enumerate() {
            bar.at(agents(&setups[..place]), || format!("{} agents, {}", setup.agents, setup.shape.name()));
            let seen = run(*setup);
            if seen.is_err() {
                bar.end();
            }
            outcomes.push(seen.map_err(|error| Failure::usage(error.to_string(), error.hint()))?);
        }
        bar.end();
        if output.json {
            for seen in &outcomes {
                output.line(&data(seen).to_string())?;
            }
        } else {
            output.line(&shown(&table(&outcomes)))?;
        }
        self.paper.write(&page(&outcomes, &self.command()), output)?;
        Ok(Exit::Done)
    }

    fn setups(&self) -> impl Iterator<Item = Setup> {
        self.agents.iter().flat_map(|&agents| {
            // A region that were the whole fleet would show nothing.
            let size = self.region.min((agents / 10).max(2));
            [Shape::Flat, Shape::Regional { size }].map(|shape| Setup {
                store_capacity: self.store_capacity,
                process_capacity: self.process_capacity,
                ..Setup::new(agents, shape, self.seed)
            })
        })
    }

    fn command(&self) -> String {
        let sizes: Vec<String> = self.agents.iter().map(u32::to_string).collect();
        let words = [
            ("agents", sizes.join(",")),
            ("region", self.region.to_string()),
            ("store-capacity", self.store_capacity.to_string()),
            ("process-capacity", self.process_capacity.to_string()),
            ("seed", self.seed.to_string()),
        ];
        format!("baton lab scale{}", ReportFiles::command(&words))
    }
}

fn data(seen: &Seen) -> Value {
    let load = |load: &Load| {
        json!({"messages": load.messages, "store_operations": load.store_operations,
            "store_refusals": load.store_refusals, "store_asked": load.store_asked, "busiest_process": load.busiest_process,
            "reports_lost": load.reports_lost})
    };
    let region = match seen.setup.shape {
        Shape::Flat => None,
        Shape::Regional { size } => Some(size),
    };
    json!({"agents": seen.setup.agents, "leadership": seen.setup.shape.name(), "region": region, "seed": seen.setup.seed,
        "elections": seen.elections, "steady_per_s": load(&seen.steady), "worst_second": load(&seen.worst),
        "lost_in_peace": seen.lost_in_peace, "failover_s": seen.failover_s, "most_know_s": seen.most_know_s,
        "all_know_s": seen.all_know_s, "events": seen.events})
}
