//! What `baton run` says of itself while CMD has stdout. Nothing here waits but [`Voice::finish`], which is bounded.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton::election::time::Span;
use baton::election::{AgentName, ElectionName, Epoch};
use baton::store::Key;
use baton::{Coordinator, Standby};
use serde_json::json;

use crate::output::{Failure, Output, clean};
use crate::scribe::Scribe;

/// How often a waiting candidate looks whether the store can be reached and written.
const LOOK_AT_STORE: Duration = Duration::from_secs(5);
/// When it looks first: whoever started it is still there to read what it says.
const FIRST_LOOK: Duration = Duration::from_millis(500);

/// Prints what happens to one agent in one election.
#[derive(Clone)]
pub(super) struct Voice {
    output: Output,
    scribe: Scribe,
    election: ElectionName,
    agent: AgentName,
    /// How the store fails, as it was told last; empty if it does not.
    trouble: Arc<Mutex<String>>,
    /// Whether that was found by the campaign itself, not by a look.
    found_by_campaign: Arc<AtomicBool>,
}

impl Voice {
    pub(super) fn new(output: Output, election: &ElectionName, agent: &AgentName) -> std::io::Result<Voice> {
        Ok(Voice {
            output,
            scribe: Scribe::start()?,
            election: election.clone(),
            agent: agent.clone(),
            trouble: Arc::default(),
            found_by_campaign: Arc::default(),
        })
    }

    /// Waits until everything is written, or soon.
    pub(super) fn finish(&self) {
        self.scribe.finish();
    }

    /// Tells how things go: to people on stderr, to programs as events on stderr too, since stdout is CMD's.
    pub(super) fn tell(&self, event: &str, token: Option<Epoch>, text: &str) -> Result<(), Failure> {
        self.scribe.write(self.line(event, token, text), |left_out| self.line("left-out", None, left_out));
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
        let (voice, told) = (self.clone(), ToldStandby::default());
        move |standby| {
            let failing = matches!(standby, Standby::Failing(_));
            voice.found_by_campaign.store(failing, Ordering::Relaxed);
            let Standby::Failing(why) = &standby else {
                if told.is_new(&standby) {
                    let text = standby_text(&voice.agent, &voice.election, &standby);
                    let _ = voice.tell("waiting", None, &text);
                }
                return;
            };
            if voice.is_news(why) {
                let _ = voice.tell("store", None, &format!("still waiting: {why}"));
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
pub(crate) struct ToldStandby(Mutex<Option<Standby>>);

impl ToldStandby {
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
pub(super) async fn trouble(coordinator: &Coordinator, voice: &Voice) -> Infallible {
    let mut pause = FIRST_LOOK;
    let key = Key::Election(voice.election.clone());
    loop {
        tokio::time::sleep(pause).await;
        pause = LOOK_AT_STORE;
        let seen = match coordinator.view(&voice.election).await {
            Ok(_) => coordinator.backend().writable(&key).await.err().map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        let seen = seen.unwrap_or_default();
        // A look that succeeds does not take back that the campaign failed, as on a full disk.
        let still_fails = seen.is_empty() && voice.found_by_campaign.load(Ordering::Relaxed);
        if !still_fails && voice.is_news(&seen) {
            let text = if seen.is_empty() { "the store answers again" } else { &seen };
            let _ = voice.tell("store", None, &format!("still waiting: {text}"));
        }
    }
}
