//! `baton lab replay`: one seed's run.

use std::path::PathBuf;

use baton_lab::{Entry, EventKind, Outcome as Played, Timeline, svg, watch};
use clap::Args;
use serde_json::{Value, json};

use super::report_files::{check_file, save};
use super::setup_options::SetupOptions;
use crate::context::Global;
use crate::exit::Exit;
use crate::output::{Failure, Outcome, Output};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton lab replay --algorithm raft --seed 7
  baton lab replay --algorithm bully --seed 7 --quiet --svg run.svg

What is replayed is the same every time, on every machine, with the same version of Baton. Exits 1 if the run breaks a promise.")]
pub(crate) struct Replay {
    #[command(flatten)]
    chosen: SetupOptions,
    /// Which run
    #[arg(long, value_name = "N")]
    seed: u64,
    /// Draw it: a lane per member, leaderships as bars
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Only faults and leaderships, no messages
    #[arg(long)]
    quiet: bool,
}

impl Replay {
    pub(crate) fn perform(&self, global: &Global) -> Outcome {
        let output = Output { json: global.json };
        if let Some(path) = &self.svg {
            check_file(path)?;
        }
        let setup = self.chosen.wishes().setup(self.seed);
        let (played, timeline) = watch(&setup);
        if let Some(path) = &self.svg {
            save(path, &svg(&setup, &timeline))?;
        }
        self.tell(output, &timeline)?;
        if timeline.cut {
            output.talk("the run has more events than are kept; the rest is not shown");
        }
        self.end(output, played)
    }

    fn tell(&self, output: Output, timeline: &Timeline) -> Result<(), Failure> {
        // In few pieces: a run has many lines.
        let mut piece = String::new();
        for entry in timeline.entries.iter().filter(|entry| !self.quiet || matters(entry)) {
            let line = if output.json { data(entry).to_string() } else { entry.to_string() };
            piece.push_str(&line);
            piece.push('\n');
            if piece.len() > 1 << 16 {
                output.line(&piece)?;
                piece.clear();
            }
        }
        if piece.is_empty() { Ok(()) } else { output.line(&piece) }
    }

    fn end(&self, output: Output, played: Played) -> Outcome {
        match played.broken {
            None => {
                let simulated = played.statistics.simulated;
                let data =
                    json!({"outcome": "clean", "seed": self.seed, "simulated_ms": simulated.as_millis()});
                output.say(&data, &format!("seed {}: every promise kept in {simulated}", self.seed))?;
                Ok(Exit::Done)
            }
            Some(broken) => Err(Failure::new(
                Exit::Error,
                "broken",
                format!("seed {} breaks “{}” at {}: {}", self.seed, broken.invariant, broken.at, broken.what),
                "the lines above, or --svg FILE, show how it came to that",
            )),
        }
    }
}

/// What somebody wants to see who does not want to see messages.
fn matters(entry: &Entry) -> bool {
    match &entry.event {
        EventKind::Fault(_)
        | EventKind::Started(_)
        | EventKind::Crashed
        | EventKind::Paused
        | EventKind::Resumed
        | EventKind::Leads { .. }
        | EventKind::Ended { .. }
        | EventKind::Healed
        | EventKind::Broken(_) => true,
        EventKind::Links { .. }
        | EventKind::Sent { .. }
        | EventKind::Received { .. }
        | EventKind::Kept(_)
        | EventKind::Told(_)
        | EventKind::Extended { .. }
        | EventKind::Wrote { .. } => false,
    }
}

fn data(entry: &Entry) -> Value {
    let (what, about) = match &entry.event {
        EventKind::Fault(text) => ("fault", json!({"text": text})),
        EventKind::Links { whole } => ("links", json!({"whole": whole})),
        EventKind::Started(how) => ("started", json!({"how": how})),
        EventKind::Crashed => ("crashed", json!({})),
        EventKind::Paused => ("paused", json!({})),
        EventKind::Resumed => ("resumed", json!({})),
        EventKind::Sent { to, kind, text, arrives } => {
            let arrives = arrives.map(|at| at.as_nanos());
            ("sent", json!({"to": u16::from(*to) + 1, "kind": kind, "text": text, "arrives_ns": arrives}))
        }
        EventKind::Received { from, kind } => {
            ("received", json!({"from": u16::from(*from) + 1, "kind": kind}))
        }
        EventKind::Kept(text) => ("kept", json!({"text": text})),
        EventKind::Told(text) => ("told", json!({"text": text})),
        EventKind::Leads { number, term, until } => {
            let until = until.map(|at| at.as_nanos());
            ("leads", json!({"work": number, "token": term, "until_ns": until}))
        }
        EventKind::Extended { number, until } => {
            ("extended", json!({"work": number, "until_ns": until.as_nanos()}))
        }
        EventKind::Ended { number } => ("ended", json!({"work": number})),
        EventKind::Wrote { token, accepted } => ("wrote", json!({"token": token, "accepted": accepted})),
        EventKind::Healed => ("healed", json!({})),
        EventKind::Broken(text) => ("broken", json!({"text": text})),
    };
    let mut line = json!({"event": what, "at_ns": entry.at.as_nanos()});
    if let (Value::Object(line), Value::Object(about)) = (&mut line, about) {
        if let Some(place) = entry.place {
            line.insert("member".to_string(), json!(u16::from(place) + 1));
        }
        line.extend(about);
    }
    line
}
