//! `baton lab run`: many seeds.

use std::num::NonZeroUsize;

use baton::election::time::Span;
use baton_lab::{Campaign, Statistics, campaign, percentile};
use clap::Args;
use serde_json::{Map, Value, json};

use super::progress::Bar;
use super::setup_options::SetupOptions;
use crate::context::Global;
use crate::exit::Exit;
use crate::output::{Failure, Outcome, Output};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton lab run --algorithm raft --seeds 10000
  baton lab run --algorithm lease --scenario skew --seeds 1000
  baton lab run --algorithm bully --nodes 5 --lan     two leaders are found and counted, not failed

A seed says how many members there are, how the network and the clocks behave, what goes wrong and when. Each run is \
chaos, with every promise checked after every event, then healing, after which there must be a leader. A promise \
that breaks ends it with exit code 1 and the line that replays that run exactly.")]
pub(crate) struct Run {
    #[command(flatten)]
    chosen: SetupOptions,
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// How many at once [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

impl Run {
    pub(crate) fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        if self.from.checked_add(self.seeds - 1).is_none() {
            return Err(Failure::usage(
                "there are not so many seeds from there on",
                format!("the last seed is {}", u64::MAX),
            ));
        }
        let threads = match self.threads {
            Some(threads) => threads,
            None => std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        };
        let bar = Bar::new(self.seeds, global.json);
        let outcome = campaign(&self.chosen.wishes(), self.from, self.seeds, threads, &|progress| {
            bar.at(progress.seeds, || {
                let speed = seconds(progress.simulated) / bar.elapsed().as_secs_f64();
                let long = long(progress.simulated);
                format!("{} of {} seeds, {long}, {speed:.0} times real time", progress.seeds, self.seeds)
            });
        });
        bar.end();
        self.tell(output, outcome, bar.elapsed().as_secs_f64())
    }

    fn tell(&self, output: Output, outcome: Campaign, took: f64) -> Outcome {
        let Campaign { mut statistics, broken } = outcome;
        if let Some((seed, broken)) = broken {
            let replay = self.chosen.replay(seed);
            let message =
                format!("seed {seed} breaks “{}” at {}: {}", broken.invariant, broken.at, broken.what);
            let facts = json!({
                "seed": seed, "invariant": broken.invariant, "at_ms": broken.at.as_millis(), "what": broken.what,
                "replay": replay,
            });
            let Value::Object(facts) = facts else { return Ok(Exit::Error) };
            let failure = Failure::new(Exit::Error, "broken", message, replay);
            return Err(Failure { facts, ..failure });
        }
        let mut data = data(&mut statistics);
        let speed = seconds(statistics.simulated) / took;
        data.insert("algorithm".to_string(), json!(self.chosen.algorithm.name()));
        data.insert("took_ms".to_string(), json!((took * 1_000.0).round()));
        data.insert("speed_up".to_string(), json!(speed.round()));
        let text = text(&mut statistics, self.chosen.algorithm.is_exclusive(), took);
        output.say(&Value::Object(data), &text)?;
        Ok(Exit::Done)
    }
}

/// The numbers, for programs.
fn data(statistics: &mut Statistics) -> Map<String, Value> {
    let milliseconds = |span: Option<Span>| span.map(Span::as_millis);
    let data = json!({
        "outcome": "clean",
        "seeds": statistics.runs,
        "simulated_ms": statistics.simulated.as_millis(),
        "one_leader_ms": statistics.one_leader.as_millis(),
        "two_leaders_ms": statistics.two_leaders.as_millis(),
        "beside_still_ms": statistics.beside_still.as_millis(),
        "no_leader_ms": statistics.no_leader.as_millis(),
        "leaderships": statistics.leaderships,
        "terms_shared": statistics.terms_shared,
        "failover_p50_ms": milliseconds(percentile(&mut statistics.failovers, 500)),
        "failover_p99_ms": milliseconds(percentile(&mut statistics.failovers, 990)),
        "healed_in_p50_ms": milliseconds(percentile(&mut statistics.healed_in, 500)),
        "healed_in_p99_ms": milliseconds(percentile(&mut statistics.healed_in, 990)),
        "messages": statistics.messages,
        "messages_by_kind": statistics.kinds,
        "writes_accepted": statistics.writes_accepted,
        "writes_refused": statistics.writes_refused,
        "writes_mixed": statistics.writes_mixed,
    });
    match data {
        Value::Object(data) => data,
        _ => Map::new(),
    }
}

/// The same for people.
fn text(statistics: &mut Statistics, exclusive: bool, took: f64) -> String {
    let simulated = seconds(statistics.simulated);
    let share = |span: Span| format!("{:.2}%", 100.0 * seconds(span) / simulated.max(1e-9));
    let shown = |span: Option<Span>| span.map_or("-".to_string(), |span| span.whole_millis().to_string());
    let mut lines = vec![format!(
        "{} seeds, every promise kept: {} simulated in {}, {:.0} times real time",
        statistics.runs,
        long(statistics.simulated),
        short(took),
        simulated / took
    )];
    lines.push(format!(
        "leaders    one {}, none {}, two {} ({:.0}s), one beside others that stand still {}",
        share(statistics.one_leader),
        share(statistics.no_leader),
        share(statistics.two_leaders),
        seconds(statistics.two_leaders),
        share(statistics.beside_still)
    ));
    lines.push(format!(
        "changes    {} leaderships, fail-over p50 {} p99 {}, after healing p50 {} p99 {}",
        statistics.leaderships,
        shown(percentile(&mut statistics.failovers, 500)),
        shown(percentile(&mut statistics.failovers, 990)),
        shown(percentile(&mut statistics.healed_in, 500)),
        shown(percentile(&mut statistics.healed_in, 990)),
    ));
    lines.push(format!(
        "writes     {} taken, {} refused for an old token, {} by two writers under one token",
        statistics.writes_accepted, statistics.writes_refused, statistics.writes_mixed
    ));
    lines.push(format!("messages   {}, {} steps", statistics.messages, statistics.steps));
    if !exclusive {
        lines.push(format!(
            "this algorithm does not promise one leader: {} terms had several, and its terms are no fencing tokens",
            statistics.terms_shared
        ));
    }
    lines.join("\n")
}

/// A short time, as people say it.
fn short(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0}ms", (seconds * 1_000.0).max(1.0)) } else { format!("{seconds:.1}s") }
}

/// A long time, as people say it.
fn long(span: Span) -> String {
    let hours = seconds(span) / 3_600.0;
    match hours {
        hours if hours < 1.0 => format!("{:.0} minutes", hours * 60.0),
        hours if hours < 48.0 => format!("{hours:.1} hours"),
        hours if hours < 2_400.0 => format!("{:.1} days", hours / 24.0),
        hours => format!("{:.2} years", hours / 24.0 / 365.25),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn seconds(span: Span) -> f64 {
    span.as_millis() as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_people_say_them() {
        assert_eq!(
            (short(0.000_1), short(0.64), short(12.34)),
            ("1ms".into(), "640ms".into(), "12.3s".into())
        );
        let texts = [150, 7_200, 86_400 * 3, 86_400 * 366].map(|seconds| long(Span::secs(seconds)));
        assert_eq!(texts, ["2 minutes", "2.0 hours", "3.0 days", "1.00 years"]);
    }
}
