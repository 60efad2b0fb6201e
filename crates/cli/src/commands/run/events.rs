//! What `baton run` says of itself while CMD has stdout. Nothing here waits but [`EventPrinter::finish`], which is bounded.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton::election::time::Span;
use baton::election::{AgentName, ElectionName, Epoch};
use baton::store::Key;
use baton::{Coordinator, Standby};
use serde_json::json;

use crate::line_writer::LineWriter;
use crate::output::{Failure, Output, clean};

/// How often a waiting candidate looks whether the store can be reached and written.
const LOOK_AT_STORE: Duration = Duration::from_secs(5);
/// When it looks first: whoever started it is still there to read what it says.
const FIRST_LOOK: Duration = Duration::from_millis(500);

/// Prints what happens to one agent in one election.
#[derive(Clone)]
pub(super) struct EventPrinter {
    output: Output,
    writer: LineWriter,
    election: ElectionName,
    agent: AgentName,
    /// How the store fails, as it was told last; empty if it does not.
    trouble: Arc<Mutex<String>>,
    /// Whether that was found by the campaign itself, not by a look.
    found_by_campaign: Arc<AtomicBool>,
}

impl EventPrinter {
    pub(super) fn new(
        output: Output,
        election: &ElectionName,
        agent: &AgentName,
    ) -> std::io::Result<EventPrinter> {
        Ok(EventPrinter {
            output,
            writer: LineWriter::start()?,
            election: election.clone(),
            agent: agent.clone(),
            trouble: Arc::default(),
            found_by_campaign: Arc::default(),
        })
    }

    /// Waits until everything is written, or soon.
    pub(super) fn finish(&self) {
        self.writer.finish();
    }

    /// Tells how things go: to people on stderr, to programs as events on stderr too, since stdout is CMD's.
    pub(super) fn tell(&self, event: &str, token: Option<Epoch>, text: &str) -> Result<(), Failure> {
        self.writer.write(self.line(event, token, text), |left_out| self.line("left-out", None, left_out));
        Ok(())
    }

    fn line(&self, event: &str, token: Option<Epoch>, text: &str) -> String {
        if !self.output.json {
            return self.output.talk_line(&format!("baton: {}", clean(text)));
        }
        let (election, agent) = (&self.election, &self.agent);
        let data = json!({
            "event": event, "election": election, "agent": agent, "token": token, "message": text,
        });
        self.output.talk_line(&data.to_string())
    }

    /// Tells why it waits: for whom, and for how long; again when that changes.
    pub(super) fn standby(&self) -> impl Fn(Standby) + Send + Sync + use<> {
        let (events, told) = (self.clone(), LastStandby::default());
        move |standby| {
            let failing = matches!(standby, Standby::Failing(_));
            events.found_by_campaign.store(failing, Ordering::Relaxed);
            let Standby::Failing(why) = &standby else {
                if told.is_new(&standby) {
                    let text = standby_text(&events.agent, &events.election, &standby);
                    let _ = events.tell("waiting", None, &text);
                }
                return;
            };
            if events.is_news(why) {
                let _ = events.tell("store", None, &format!("still waiting: {why}"));
            }
        }
    }

    /// Whether the store fails in another way than was told.
    fn is_news(&self, why: &str) -> bool {
        let mut told = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *told != why;
        why.clone_into(&mut told);
        is_news
    }
}

/// What was told last of a wait.
#[derive(Default)]
pub(crate) struct LastStandby(Mutex<Option<Standby>>);

impl LastStandby {
    /// Whether this says something else; if it does, it is what was told. A lease that runs down says nothing new.
    pub(crate) fn is_new(&self, standby: &Standby) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = match (told.as_ref(), standby) {
            (
                Some(Standby::Behind { leader, token, ending, .. }),
                Standby::Behind { leader: now, token: current, ending: ends, .. },
            ) => (leader, token, ending) == (now, current, ends),
            (told, now) => told == Some(now),
        };
        *told = Some(standby.clone());
        !same
    }
}

/// Why a candidate waits, for people.
pub(crate) fn standby_text(agent: &AgentName, election: &ElectionName, standby: &Standby) -> String {
    let why = match standby {
        Standby::Behind { leader, token, remaining, ending: false } => {
            format!(
                "{leader} leads with token {token}, and its lease lasts {} more unless renewed",
                tenths(*remaining)
            )
        }
        Standby::Behind { leader, remaining, ending: true, .. } => {
            format!(
                "the leadership of {leader} has ended, and its lease may run for {} more",
                tenths(*remaining)
            )
        }
        Standby::Because(why) | Standby::Failing(why) => why.clone(),
    };
    format!("{agent} waits to lead {election}: {why}")
}

/// Rounded up to a tenth of a second.
fn tenths(span: Span) -> Span {
    Span::millis(span.as_millis().div_ceil(100) * 100)
}

/// While a candidate waits: says so if the store is out of reach or cannot be written, once for each reason.
pub(super) async fn trouble(coordinator: &Coordinator, events: &EventPrinter) -> Infallible {
    let mut pause = FIRST_LOOK;
    let key = Key::Election(events.election.clone());
    loop {
        tokio::time::sleep(pause).await;
        pause = LOOK_AT_STORE;
        let seen = match coordinator.view(&events.election).await {
            Ok(_) => coordinator.backend().writable(&key).await.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let seen = seen.unwrap_or_default();
        // A look that succeeds does not take back that the campaign failed, as on a full disk.
        let still_fails = seen.is_empty() && events.found_by_campaign.load(Ordering::Relaxed);
        if !still_fails && events.is_news(&seen) {
            let text = if seen.is_empty() { "the store answers again" } else { &seen };
            let _ = events.tell("store", None, &format!("still waiting: {text}"));
        }
    }
}
