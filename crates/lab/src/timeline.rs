//! What happened in a run, event by event. Kept only for a replay.

use std::fmt;

use baton_election::Span;

/// The most entries that are kept; a run that has more is cut there, and says so.
pub const MAX_ENTRIES: usize = 1_000_000;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When, in true time from the beginning.
    pub at: Span,
    /// Where, counted from zero; none for what befalls all.
    pub place: Option<u8>,
    /// The kind of event, with its facts.
    pub event: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// Something went wrong, by the plan.
    Fault(String),
    /// Links were cut, or all are whole again.
    Links {
        /// Whether all are open.
        whole: bool,
    },
    /// A place started, or started again.
    Started(&'static str),
    /// A process died.
    Crashed,
    /// A process stands still.
    Paused,
    /// A process goes on.
    Resumed,
    /// A message was sent.
    Sent {
        /// The place of the receiver.
        to: u8,
        /// Its kind.
        kind: &'static str,
        /// All of it.
        text: String,
        /// When it will arrive; none if it is lost.
        arrives: Option<Span>,
    },
    /// A message was taken in.
    Received {
        /// The place of the sender.
        from: u8,
        /// Its kind.
        kind: &'static str,
    },
    /// Something is safe on the disk, or in the store.
    Kept(String),
    /// The machine told who does the work.
    Told(String),
    /// Work begins.
    Leads {
        /// Its number.
        number: u64,
        /// Its token.
        term: u64,
        /// When it ends if nothing is heard, in true time; none if it does not.
        until: Option<Span>,
    },
    /// Work may go on for longer.
    Extended {
        /// Its number.
        number: u64,
        /// When it ends if nothing more is heard.
        until: Span,
    },
    /// Work has ended before its time.
    Ended {
        /// Its number.
        number: u64,
    },
    /// The guarded resource decided about a write.
    Wrote {
        /// The token shown.
        token: u64,
        /// Whether it was taken.
        accepted: bool,
    },
    /// All faults have ended.
    Healed,
    /// A promise was broken.
    Broken(String),
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.at.as_nanos() / 1_000_000;
        let us = self.at.as_nanos() / 1_000 % 1_000;
        write!(f, "{:>7}.{:03}{us:03}s ", ms / 1_000, ms % 1_000)?;
        match self.place {
            Some(place) => write!(f, "{:>3}  ", u16::from(place) + 1)?,
            None => f.write_str("  *  ")?,
        }
        match &self.event {
            EventKind::Fault(text) => write!(f, "FAULT {text}"),
            EventKind::Links { whole: true } => f.write_str("all links are open"),
            EventKind::Links { whole: false } => f.write_str("not all links are open"),
            EventKind::Started(how) => write!(f, "starts ({how})"),
            EventKind::Crashed => f.write_str("crashes"),
            EventKind::Paused => f.write_str("stands still"),
            EventKind::Resumed => f.write_str("goes on"),
            EventKind::Sent { to, text, arrives, .. } => {
                write!(f, "→ {}: {text}", u16::from(*to) + 1)?;
                match arrives {
                    None => f.write_str(" (lost)"),
                    Some(at) => write!(f, " (takes {}us)", at.minus(self.at).as_nanos() / 1_000),
                }
            }
            EventKind::Received { from, kind } => write!(f, "← {}: {kind}", u16::from(*from) + 1),
            EventKind::Kept(text) => write!(f, "keeps {text}"),
            EventKind::Told(text) => write!(f, "tells {text}"),
            EventKind::Leads { number, term, until } => {
                write!(f, "LEADS in term {term} (work {number})")?;
                until.map_or(Ok(()), |until| write!(f, " for {}", until.minus(self.at)))
            }
            EventKind::Extended { number, until } => {
                write!(f, "work {number} may go on for {}", until.minus(self.at))
            }
            EventKind::Ended { number } => write!(f, "work {number} has ended"),
            EventKind::Wrote { token, accepted } => {
                write!(f, "writes with number {token}: {}", if *accepted { "taken" } else { "refused" })
            }
            EventKind::Healed => f.write_str("HEALED: all faults have ended"),
            EventKind::Broken(text) => write!(f, "BROKEN {text}"),
        }
    }
}

/// The entries of one run.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// In the order in which they happened.
    pub entries: Vec<Entry>,
    /// Whether there were more.
    pub cut: bool,
}

impl Timeline {
    pub(crate) fn push(&mut self, now: u64, place: Option<u8>, event: EventKind) {
        if self.entries.len() < MAX_ENTRIES {
            self.entries.push(Entry { at: Span::nanos(now), place, event });
        } else {
            self.cut = true;
        }
    }
}
