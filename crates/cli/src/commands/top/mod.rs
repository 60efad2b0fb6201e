//! `baton top`: who leads what, in a terminal, as it changes.

mod frame;
mod terminal;

use std::io::IsTerminal;
use std::time::Duration;

use baton::api::waiting::WaitingCandidate;
use baton::election::time::Span;
use baton::election::{AgentName, ElectionName};
use baton::store::Access;
use baton::{AgentView, Coordinator, Error, View};
use clap::Args;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::time::Instant;

use self::frame::{Frame, Page};
use self::terminal::{Key, Terminal};
use super::{agents, show};
use crate::context::{Context, Global};
use crate::exit::{Exit, Speaker};
use crate::output::{Failure, Outcome};

/// How wide a frame is that goes nowhere.
const WIDTH: usize = 100;
/// The most elections of one frame.
const MOST: usize = 1_000;
/// How many elections are read at once.
const AT_ONCE: usize = 16;
/// How often it is looked which elections there are.
const NAMES_EVERY: Duration = Duration::from_secs(5);
/// The shortest time between two looks.
const SHORTEST: Span = Span::millis(100);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  baton top                     on the store of this folder
  baton top --store http://127.0.0.1:7420 --every 500ms
  baton top --once              one frame, for scripts

Keys: q ends; arrows, page up and down, home and end move; Enter shows all of the chosen one, Esc goes back; a shows agents, e elections. At a server the same is on its \
page, where operators can act: baton dashboard.")]
pub(crate) struct Top {
    /// Print one frame and end
    #[arg(long)]
    once: bool,
    /// The time between two updates
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    every: Span,
}

/// An election, how it stands unless it cannot be read, and who waits to lead it.
type ElectionRow = (ElectionName, Option<View>, Vec<WaitingCandidate>);

/// What was seen last.
#[derive(Default)]
struct Snapshot {
    names: Vec<ElectionName>,
    /// Of those that are shown: none if one cannot be read.
    views: Vec<ElectionRow>,
    agents: Vec<AgentView>,
    trouble: Option<String>,
    /// The election or the agent that was chosen, and all that is known of it.
    chosen: Option<Selection>,
    details: String,
}

/// What Enter was pressed at.
#[derive(Clone, PartialEq, Eq)]
enum Selection {
    Election(ElectionName),
    Agent(AgentName),
}

impl Top {
    pub(crate) async fn perform(&self, global: &Global) -> Outcome {
        if self.every < SHORTEST {
            return Err(Failure::usage(
                format!("to look every {} would keep the store from its work", self.every),
                "give at least 100ms: --every 1s",
            ));
        }
        if !self.once && !global.json && !std::io::stdout().is_terminal() {
            return Err(Failure::usage("stdout is no terminal", "print one frame: baton top --once"));
        }
        let context = Context::open(global, Access::Read).await?;
        let done = match self.once || global.json {
            true => once(&context).await,
            false => self.stay(&context).await,
        };
        context.remember();
        done
    }

    async fn stay(&self, context: &Context) -> Outcome {
        let location = context.coordinator.backend().location();
        let mut terminal = Terminal::enter()?;
        let (mut seen, mut shows) = (Snapshot::default(), Page::Elections);
        // Where the first row that is shown stands in the list, and where the chosen one does.
        let (mut at, mut chosen) = (0_usize, 0_usize);
        let (mut look, mut names) = (Instant::now(), Instant::now());
        loop {
            let (width, height) = Terminal::size();
            let room = frame::rows(height);
            at = at.min(chosen).max((chosen + 1).saturating_sub(room));
            if Instant::now() >= look {
                seen.look(&context.coordinator, at, room, shows, Instant::now() >= names).await;
                if Instant::now() >= names {
                    names = Instant::now() + NAMES_EVERY;
                }
                look = Instant::now() + Duration::from_millis(self.every.as_millis());
            }
            let last = seen.count(shows).saturating_sub(1);
            chosen = chosen.min(last);
            let mark = (shows != Page::Details).then(|| frame::ABOVE + chosen.saturating_sub(at));
            terminal.draw(&seen.frame(&location, at, width, shows).lines(Some(height)), mark)?;
            let key = tokio::select! {
                key = terminal.key() => key,
                () = tokio::time::sleep_until(look) => Key::None,
            };
            let before = (at, chosen, shows);
            match key {
                Key::Quit => return Ok(Exit::Done),
                Key::Up | Key::Down | Key::PageUp | Key::PageDown | Key::Home | Key::End
                    if shows == Page::Details => {}
                Key::Up => chosen = chosen.saturating_sub(1),
                Key::Down => chosen = (chosen + 1).min(last),
                Key::PageUp => chosen = chosen.saturating_sub(room),
                Key::PageDown => chosen = (chosen + room).min(last),
                Key::Home => chosen = 0,
                Key::End => chosen = last,
                Key::Enter => shows = seen.choose(shows, chosen),
                Key::Back if shows == Page::Details => shows = seen.back(),
                Key::Agents => (chosen, shows) = (0, Page::Agents),
                Key::Elections => (chosen, shows) = (0, Page::Elections),
                Key::Back | Key::Resized | Key::None => {}
            }
            if before != (at, chosen, shows) || key == Key::Resized {
                look = Instant::now();
            }
        }
    }
}

/// One frame with everything in it.
async fn once(context: &Context) -> Outcome {
    let mut seen = Snapshot::default();
    let looked = seen.try_look(&context.coordinator, 0, MOST, Page::Elections, true).await;
    looked.map_err(|error| Failure::from_error(&error, Speaker::Guard))?;
    if context.output.json {
        for (election, view, waiting) in &seen.views {
            let mut data =
                view.as_ref().map_or(json!({"election": election, "state": "unreadable"}), show::data);
            data["waiting"] = json!(waiting);
            context.output.line(&data.to_string())?;
        }
        return Ok(Exit::Done);
    }
    let width = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(WIDTH);
    let location = context.coordinator.backend().location();
    let frame = seen.frame(&location, 0, width, Page::Elections);
    context.output.line(&frame.lines(None).join("\n"))?;
    Ok(Exit::Done)
}

impl Snapshot {
    /// Looks at what is shown. What cannot be looked at stays as it was, and that is said.
    async fn look(&mut self, store: &Coordinator, at: usize, room: usize, shows: Page, names: bool) {
        match self.try_look(store, at, room, shows, names).await {
            Ok(()) => self.trouble = None,
            Err(error) => self.trouble = Some(Failure::from_error(&error, Speaker::Guard).message),
        }
    }

    async fn try_look(
        &mut self,
        store: &Coordinator,
        at: usize,
        room: usize,
        shows: Page,
        names: bool,
    ) -> Result<(), Error> {
        if names {
            self.names = store.elections().await?;
            self.names.sort();
        }
        if shows == Page::Agents || matches!(self.chosen, Some(Selection::Agent(_))) {
            self.agents = store.agents().await?;
        }
        match (shows, &self.chosen) {
            (Page::Details, Some(Selection::Election(election))) => {
                self.details = show::text(&store.view(election).await?);
            }
            (Page::Details, Some(Selection::Agent(name))) => {
                let agent = self.agents.iter().find(|agent| agent.agent == *name);
                self.details = agent.map_or_else(|| format!("{name} is gone"), agents::described);
            }
            (Page::Details | Page::Elections | Page::Agents, _) => {}
        }
        if shows != Page::Elections {
            return Ok(());
        }
        let shown = self.names.iter().skip(at).take(room).cloned();
        let views = stream::iter(shown.map(|election| async move {
            let view = store.view(&election).await;
            // Waiting agents decide nothing: an election is shown without them.
            let waiting = store.candidates().waiting(&election).await.unwrap_or_default();
            (election, view, waiting)
        }));
        let looked: Vec<(ElectionName, Result<View, Error>, Vec<WaitingCandidate>)> =
            views.buffered(AT_ONCE).collect().await;
        let mut views = Vec::with_capacity(looked.len());
        for (election, view, waiting) in looked {
            match view {
                // An operator retired it.
                Ok(View { document: None, native: false, .. }) => self.names.retain(|name| *name != election),
                Ok(view) => views.push((election, Some(view), waiting)),
                // What is wrong with one election hides none of the others.
                Err(Error::Store(error)) if !error.is_passing() => views.push((election, None, waiting)),
                Err(error) => return Err(error),
            }
        }
        self.views = views;
        Ok(())
    }

    /// Chooses what stands there in the list, if something does.
    fn choose(&mut self, shows: Page, at: usize) -> Page {
        self.chosen = match shows {
            Page::Elections => self.names.get(at).cloned().map(Selection::Election),
            Page::Agents => self.agents.get(at).map(|agent| Selection::Agent(agent.agent.clone())),
            Page::Details => return Page::Details,
        };
        if self.chosen.is_some() { Page::Details } else { shows }
    }

    /// Goes back to the list in which it was chosen.
    fn back(&mut self) -> Page {
        match self.chosen.take() {
            Some(Selection::Agent(_)) => Page::Agents,
            Some(Selection::Election(_)) | None => Page::Elections,
        }
    }

    fn count(&self, shows: Page) -> usize {
        match shows {
            Page::Elections => self.names.len(),
            Page::Agents => self.agents.len(),
            // The place in the list stays.
            Page::Details => self.names.len().max(self.agents.len()),
        }
    }

    fn frame<'a>(&'a self, location: &'a str, at: usize, width: usize, shows: Page) -> Frame<'a> {
        Frame {
            location,
            width,
            at,
            total: self.count(shows),
            trouble: self.trouble.as_deref(),
            shows,
            views: &self.views,
            agents: &self.agents,
            details: &self.details,
        }
    }
}
