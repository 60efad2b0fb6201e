//! `baton lab tune`: timings for a network, and the false alarms that they cost.

use std::path::PathBuf;

use baton_election::time::Span;
use baton_lab::plot::Setting;
use baton_lab::tune::{
    Advice, Fails, FalseAlarms, Network, Pauses, Share, Transport, TuningGoal, advise, exact,
};
use clap::Args;
use serde_json::{Value, json};

use super::report_files::{ReportFiles, check_file, save, shown};
use crate::context::Global;
use crate::exit::Exit;
use crate::output::{Failure, Outcome, Output};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton lab tune --rtt 40ms --loss 1% --failover 10s
  baton lab tune --rtt 1ms --loss 0.1% --failover 1s --pauses 200ms/1h --nodes 5 --svg tradeoff.svg

A false alarm is a leader whose work is stopped although it did not fail. The model: jitter with a heavy tail, \
packets lost each for itself and sent again as TCP does, pauses with a very heavy tail. Losses in bursts, a slow \
store and failing routes are not in it: take the prediction for the best case. Safety does not rest on it.")]
pub(crate) struct Tune {
    /// There and back, when nothing is in the way
    #[arg(long, value_name = "DURATION")]
    rtt: Span,
    /// How many packets are lost, such as 1%
    #[arg(long, value_name = "SHARE")]
    loss: Share,
    /// How long at most, in 99 of 100 cases, nobody leads after a leader died
    #[arg(long, value_name = "DURATION")]
    failover: Span,
    /// What a round trip takes longer, on average [default: a quarter of it]
    #[arg(long, value_name = "DURATION")]
    jitter: Option<Span>,
    /// How long and how often a process stands still, on average, such as 1s/1d; or none
    #[arg(long, value_name = "LENGTH/EVERY", default_value = "1s/1d", value_parser = pauses)]
    pauses: Standstill,
    /// How many members a group has
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: usize,
    /// Between members, lost packets are not sent again
    #[arg(long)]
    datagrams: bool,
    /// Write the trade-off as a picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    paper: ReportFiles,
}

/// Pauses, or none: clap takes an `Option` for something that may be left out.
#[derive(Clone, Copy, Debug)]
struct Standstill(Option<Pauses>);

fn pauses(text: &str) -> Result<Standstill, String> {
    if text == "none" { Ok(Standstill(None)) } else { text.parse().map(|pauses| Standstill(Some(pauses))) }
}

impl Tune {
    pub(crate) fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        self.paper.check()?;
        if let Some(file) = &self.svg {
            check_file(file)?;
        }
        let advice = advise(self.wish()).map_err(|error| Failure::usage(error.to_string(), error.hint()))?;
        output.say(&data(&advice), &text(&advice))?;
        self.paper.write(&advice.page(&self.command()), output)?;
        if let Some(file) = &self.svg {
            save(file, &advice.figure().svg(Setting::Alone))?;
            output.talk(&format!("wrote {}", file.display()));
        }
        Ok(Exit::Done)
    }

    fn wish(&self) -> TuningGoal {
        let network = Network {
            rtt: self.rtt,
            jitter: self.jitter(),
            loss: self.loss,
            pauses: self.pauses.0,
            transport: if self.datagrams { Transport::Datagrams } else { Transport::Tcp },
        };
        TuningGoal { network, failover: self.failover, nodes: self.nodes }
    }

    fn jitter(&self) -> Span {
        self.jitter.unwrap_or(self.rtt.scaled(1, 4))
    }

    fn command(&self) -> String {
        let pauses = self.pauses.0.map_or("none".to_string(), |pauses| pauses.to_string());
        let words = [
            ("rtt", exact(self.rtt)),
            ("loss", self.loss.to_string()),
            ("failover", self.failover.to_string()),
            ("jitter", exact(self.jitter())),
            ("pauses", pauses),
            ("nodes", self.nodes.to_string()),
        ];
        let datagrams = if self.datagrams { " --datagrams" } else { "" };
        format!("baton lab tune{}{datagrams}", ReportFiles::command(&words))
    }
}

fn text(advice: &Advice) -> String {
    let mut text = format!("{}\n\n{}\n", advice.assumptions(), shown(&advice.table()));
    for missing in advice.missing() {
        text.push_str(&format!("\n{missing}"));
    }
    if let Some(lease) = &advice.lease {
        text.push_str(&format!("\nbaton run ELECTION --ttl {} -- CMD", lease.lease));
    }
    if let Some(group) = &advice.group {
        let timing = &group.timing;
        text.push_str(&format!(
            "\nbaton peer --algorithm raft --heartbeat {} --timeout {}..{} … -- CMD",
            timing.heartbeat, timing.timeout_min, timing.timeout_max
        ));
    }
    text
}

fn data(advice: &Advice) -> Value {
    let alarms = |alarms: &FalseAlarms| {
        json!({"per_day": alarms.per_day(), "by_network_per_day": alarms.by_network * 86_400.0,
            "by_pauses_per_day": alarms.by_pauses * 86_400.0})
    };
    let fails =
        |fails: &Fails| json!({"typical_ms": fails.typical.as_millis(), "p99_ms": fails.worst.as_millis()});
    let lease = advice.lease.as_ref().map(|lease| {
        json!({"lease_ms": lease.lease.as_millis(), "renewal_ms": lease.renewal.as_millis(),
            "grace_ms": lease.grace.as_millis(), "failover": fails(&lease.failover),
            "false_alarms": alarms(&lease.false_alarms)})
    });
    let group = advice.group.as_ref().map(|group| {
        let timing = &group.timing;
        json!({"nodes": group.nodes, "heartbeat_ms": timing.heartbeat.as_millis(),
            "timeout_min_ms": timing.timeout_min.as_millis(), "timeout_max_ms": timing.timeout_max.as_millis(),
            "grace_ms": group.grace.as_millis(), "failover": fails(&group.failover),
            "false_alarms": alarms(&group.false_alarms)})
    });
    let curve: Vec<Value> = advice
        .curve
        .iter()
        .map(|point| {
            json!({"failover_ms": point.failover.as_millis(), "lease_per_day": point.lease.map(|alarms| alarms.per_day()),
                "group_per_day": point.group.map(|alarms| alarms.per_day())})
        })
        .collect();
    json!({"assumptions": advice.assumptions(), "lease": lease, "group": group, "curve": curve})
}
