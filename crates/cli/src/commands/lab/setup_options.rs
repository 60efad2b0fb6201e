//! What `lab run` and `lab replay` must agree on, so that a seed means the same to both.

use baton_lab::{Elector, Scenario, SeedOptions};
use clap::Args;

/// What is not left to the seed.
#[derive(Args, Clone, Debug)]
pub(super) struct SetupOptions {
    /// raft, paxos, bully, ring, lease or lease-observed
    #[arg(long, value_name = "NAME")]
    pub(super) algorithm: Elector,
    /// How things go wrong: partition, flapping, asymmetric, pause, skew, cascade, herd, disk or mixed
    #[arg(long, value_name = "NAME", default_value = "mixed")]
    scenario: Scenario,
    /// How many members, from 1 to 127 [default: the seed says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=127))]
    nodes: Option<u8>,
    /// Heartbeats every 50ms and timeouts of 150ms to 300ms, as on one network; otherwise 5s and 15s to 20s
    #[arg(long)]
    lan: bool,
}

impl SetupOptions {
    pub(super) fn wishes(&self) -> SeedOptions {
        let SetupOptions { algorithm, scenario, nodes, lan } = *self;
        SeedOptions { algorithm, scenario, nodes, lan }
    }

    /// The line that replays a seed exactly.
    pub(super) fn replay(&self, seed: u64) -> String {
        let mut line = format!("baton lab replay --algorithm {} --seed {seed}", self.algorithm);
        if self.scenario != Scenario::Mixed {
            line += &format!(" --scenario {}", self.scenario);
        }
        if let Some(nodes) = self.nodes {
            line += &format!(" --nodes {nodes}");
        }
        if self.lan {
            line += " --lan";
        }
        line
    }
}
