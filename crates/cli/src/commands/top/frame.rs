//! What stands on the screen: lines of text, no wider than it is. Nothing here knows of a terminal.

use baton::api::waiting::WaitingCandidate;
use baton::election::ElectionName;
use baton::election::document::State;
use baton::{AgentView, View};

use super::super::{agents, show};
use super::ElectionRow;
use crate::output::{clean, table};

/// How many lines stand above and below the rows.
const AROUND: usize = 4;
/// How many of them stand above.
pub(super) const ABOVE: usize = 3;
/// What the keys do.
const KEYS: &str = "q quit  arrows move  Enter details  e elections  a agents";
/// In which column the leader stands.
const LEADER: usize = 2;
/// How many characters a bar has.
const BAR: u64 = 10;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Elections,
    Agents,
    /// All that is known of the one that was chosen.
    Details,
}

/// A screen.
pub(super) struct Frame<'a> {
    pub(super) location: &'a str,
    pub(super) width: usize,
    /// How many stand above the first that is shown.
    pub(super) at: usize,
    pub(super) total: usize,
    pub(super) trouble: Option<&'a str>,
    pub(super) shows: Page,
    pub(super) views: &'a [ElectionRow],
    pub(super) agents: &'a [AgentView],
    pub(super) details: &'a str,
}

/// How many rows a screen of this height has room for.
pub(super) fn rows(height: usize) -> usize {
    height.saturating_sub(AROUND).max(1)
}

impl Frame<'_> {
    /// The lines, as many as there is room for.
    pub(super) fn lines(&self, height: Option<usize>) -> Vec<String> {
        let (body, shown) = match self.shows {
            Page::Elections => self.elections(),
            Page::Agents => self.agents(height),
            Page::Details => (self.details.to_string(), 0),
        };
        let what = if self.shows == Page::Agents { "agents" } else { "elections" };
        let counted = match shown {
            _ if self.shows == Page::Details => "details".to_string(),
            0 => format!("no {what}"),
            1 if self.total == 1 => format!("1 {}", what.trim_end_matches('s')),
            shown if shown == self.total => format!("{} {what}", self.total),
            shown => format!("{} to {} of {} {what}", self.at + 1, self.at + shown, self.total),
        };
        let views = self.views.iter().filter_map(|(_, view, _)| view.as_ref());
        let leaderless = views.filter(|view| view.leaderless().is_some()).count();
        let degraded = match (self.shows, leaderless) {
            (Page::Agents | Page::Details, _) | (Page::Elections, 0) => String::new(),
            (Page::Elections, leaderless) => format!(", {leaderless} of these degraded: nobody leads"),
        };
        let mut lines = vec![format!("baton top  {}  {counted}{degraded}", self.location)];
        lines.push(self.trouble.map_or(String::new(), |trouble| format!("not fresh: {}", clean(trouble))));
        lines.extend(body.lines().map(ToString::to_string));
        if let Some(height) = height {
            lines.truncate(height.saturating_sub(1));
            lines.resize(height.saturating_sub(1), String::new());
            lines.push(KEYS.to_string());
        }
        lines.iter().map(|line| fitted(line, self.width)).collect()
    }

    fn elections(&self) -> (String, usize) {
        let rows: Vec<Vec<String>> = self
            .views
            .iter()
            .map(|(election, view, waiting)| row(election, view.as_ref(), waiting))
            .collect();
        let head =
            ["ELECTION", "STATE", "LEADER", "TOKEN", "LEASE", "", "PHASE", "CHANGE", "IN LINE", "TASK"];
        (if rows.is_empty() { String::new() } else { table(&head, &rows) }, rows.len())
    }

    fn agents(&self, height: Option<usize>) -> (String, usize) {
        let (head, rows) = agents::rows(self.agents);
        let room = height.map_or(usize::MAX, self::rows);
        let rows: Vec<Vec<String>> = rows.into_iter().skip(self.at).take(room).collect();
        (if rows.is_empty() { String::new() } else { table(head, &rows) }, rows.len())
    }
}

fn row(election: &ElectionName, view: Option<&View>, waiting: &[WaitingCandidate]) -> Vec<String> {
    let unreadable = || {
        [election.as_str(), "unreadable", "-", "-", "-", "", "", "", "", ""].map(ToString::to_string).to_vec()
    };
    let Some(view) = view else { return unreadable() };
    let Some(document) = &view.document else { return unreadable() };
    let mut cells = show::row(view);
    let task = cells.pop().unwrap_or_default();
    if let Some(region) = document.leader.as_ref().and_then(|leader| leader.region.as_ref()) {
        cells[LEADER] += &format!(" from {}", region.election);
    }
    let share = document.lease_holder().map(|holder| {
        let (left, whole) = (document.lease_remaining(view.age), holder.lease());
        bar(left.as_millis(), whole.as_millis())
    });
    let phase = document
        .leader
        .as_ref()
        .filter(|_| document.state == State::Held)
        .map(|leader| leader.phase.to_string());
    let change = document.last_transition.as_ref().map(|last| last.cause.handover().to_string());
    let in_line = if waiting.is_empty() { String::new() } else { waiting.len().to_string() };
    let (share, phase) = (share.unwrap_or_default(), phase.unwrap_or_default());
    cells.extend([share, phase, change.unwrap_or_default(), in_line, task]);
    cells
}

/// A part of a whole as a bar.
fn bar(part: u64, whole: u64) -> String {
    let full = (part.min(whole) * BAR).div_ceil(whole.max(1));
    (0..BAR).map(|place| if place < full { '#' } else { '.' }).collect()
}

/// A line that is no wider than the screen.
fn fitted(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_string();
    }
    let kept: String = line.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use baton::election::document::Document;
    use baton::election::time::Span;
    use baton::election::{Epoch, StoreId, WallTime};
    use expect_test::expect;

    use super::*;

    fn view(name: &str, task: Option<&str>, waiting: &[&str]) -> ElectionRow {
        let election = ElectionName::new(name).unwrap();
        let mut document = Document::new(election.clone(), StoreId([1; 8]), Epoch(3), &[]);
        document.task = task.map(Into::into);
        let waits =
            |agent: &&str| WaitingCandidate { agent: agent.parse().unwrap(), since: WallTime::default() };
        let view = View { document: Some(document), age: Span::ZERO, exact: true, native: false };
        (election, Some(view), waiting.iter().map(waits).collect())
    }

    #[test]
    fn a_screen_is_as_wide_and_as_high_as_the_terminal() {
        let views = [
            view("deploy", Some("\u{1b}[31mred\u{7} and more than there is room for"), &["b", "c"]),
            view("nightly", None, &[]),
        ];
        let mut frame = Frame {
            location: "file:.baton",
            width: 68,
            at: 4,
            total: 9,
            trouble: None,
            shows: Page::Elections,
            views: &views,
            agents: &[],
            details: "deploy: nobody leads",
        };
        expect![[r#"
            baton top  file:.baton  5 to 6 of 9 elections

            ELECTION  STATE   LEADER  TOKEN  LEASE    PHASE  CHANGE  IN LINE  T…
            deploy    vacant  -       3      -                       2        �…
            nightly   vacant  -       3      -

            q quit  arrows move  Enter details  e elections  a agents"#]]
        .assert_eq(&frame.lines(Some(7)).join("\n"));
        frame.shows = Page::Details;
        let lines = frame.lines(Some(5));
        assert_eq!(lines[..3], ["baton top  file:.baton  details", "", "deploy: nobody leads"]);
        // A server's own words, perhaps.
        frame.trouble = Some("the \u{1b}[2Jdisk is gone");
        let lines = frame.lines(Some(3));
        assert_eq!(lines[1..], ["not fresh: the \u{fffd}[2Jdisk is gone", KEYS]);
    }

    #[test]
    fn bars_are_parts_of_a_whole() {
        assert_eq!(bar(1, 100), "#.........");
        assert_eq!((bar(0, 0), bar(9, 3)), ("..........".to_string(), "##########".to_string()));
    }
}
