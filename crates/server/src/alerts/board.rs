//! What is wrong at the moment, since when, and what has just begun or ended. Pure: moments come from outside.

use std::collections::BTreeMap;

use baton_api::alerts::{Alert, AlertKind, Severity};
use baton_election::time::{Moment, Span, WallTime};
use baton_election::{ElectionName, TokenId};

use super::judge::Finding;

/// The most that are remembered at once, and told one by one. More are counted.
pub(super) const MOST: usize = 1_000;
/// What is counted over a while can be wrong at one look and well at the next. It ends once it was well for so long.
const CALM: Span = Span::secs(60);

/// What is wrong, and with what.
type Key = (Severity, AlertKind, Subject);

/// With what something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Election(ElectionName),
    /// An access token; none for requests without one that is known.
    Token(Option<TokenId>),
    /// What is kept: of what, and for which token if not in all.
    Kept(&'static str, Option<TokenId>),
}

/// Everything that is wrong.
#[derive(Default)]
pub(super) struct Board {
    active: BTreeMap<Key, Active>,
    /// How many more there are.
    more: u64,
}

struct Active {
    since: Moment,
    /// When it was found last.
    found: Moment,
    wall: WallTime,
    finding: Finding,
}

/// Something began to be wrong, or no longer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AlertChange {
    /// It is wrong from here on; otherwise it was, until here.
    pub(crate) firing: bool,
    pub(crate) alert: Alert,
}

impl Board {
    /// Takes in what was found, all of it, at this moment. Says what has changed: what began first, then what ended.
    pub(super) fn turn(
        &mut self,
        found: Vec<(Subject, Finding)>,
        now: Moment,
        wall: WallTime,
        runbooks: &str,
    ) -> Vec<AlertChange> {
        let mut turned = Vec::new();
        let mut before = std::mem::take(&mut self.active);
        self.more = 0;
        // A finding that was on the board before keeps its place, and no number of warnings takes the place
        // of an alert.
        let mut taken: BTreeMap<Severity, usize> = BTreeMap::new();
        before.keys().for_each(|(severity, ..)| *taken.entry(*severity).or_default() += 1);
        for (subject, finding) in found {
            let key = (finding.kind.severity(), finding.kind, subject);
            let known = before.remove(&key);
            if known.is_none() {
                let taken = taken.entry(key.0).or_default();
                if *taken >= MOST {
                    self.more += 1;
                    continue;
                }
                *taken += 1;
            }
            let (since, first) = known.as_ref().map_or((now, wall), |known| (known.since, known.wall));
            let active = Active { since, found: now, wall: first, finding };
            if known.is_none() {
                turned.push(AlertChange { firing: true, alert: show(&key, &active, now, runbooks) });
            }
            self.active.insert(key, active);
        }
        let calms = |(_, kind, _): &Key, active: &Active| is_counted(*kind) && now.since(active.found) < CALM;
        for (key, active) in before {
            if calms(&key, &active) {
                self.active.insert(key, active);
            } else {
                turned.push(AlertChange { firing: false, alert: show(&key, &active, now, runbooks) });
            }
        }
        turned
    }

    /// What is wrong, as it is told.
    pub(super) fn shown(&self, now: Moment, runbooks: &str) -> Vec<Alert> {
        self.active.iter().map(|(key, active)| show(key, active, now, runbooks)).collect()
    }

    /// How many more there are than are told.
    pub(super) fn more(&self) -> u64 {
        self.more
    }
}

/// Whether it is found by counting.
fn is_counted(kind: AlertKind) -> bool {
    matches!(
        kind,
        AlertKind::Flapping
            | AlertKind::HighContention
            | AlertKind::FrequentElections
            | AlertKind::UnauthorisedBurst
    )
}

fn show((severity, kind, subject): &Key, active: &Active, now: Moment, runbooks: &str) -> Alert {
    let (election, token) = match subject {
        Subject::Election(election) => (Some(election.clone()), None),
        Subject::Token(token) => (None, Some(name_of(*token))),
        Subject::Kept(_, token) => (None, token.map(|id| id.to_string())),
    };
    Alert {
        alert: *kind,
        severity: *severity,
        election,
        token,
        since: active.wall,
        age_ms: now.since(active.since).as_millis(),
        what: active.finding.what.clone(),
        hint: active.finding.hint.clone(),
        runbook: format!("{}/{kind}.md", runbooks.trim_end_matches('/')),
    }
}

/// How a token is called.
pub(super) fn name_of(token: Option<TokenId>) -> String {
    token.map_or("none".to_string(), |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(election: &str, kind: AlertKind, what: &str) -> (Subject, Finding) {
        let election = ElectionName::new(election).unwrap();
        (Subject::Election(election), Finding { kind, what: what.to_string(), hint: "h".to_string() })
    }

    fn turn(board: &mut Board, found: Vec<(Subject, Finding)>, seconds: u64) -> Vec<(bool, String)> {
        let now = Moment::from_nanos(seconds * 1_000_000_000);
        let wall = WallTime::from_unix_millis(seconds * 1_000);
        let turned = board.turn(found, now, wall, "docs/operations/");
        let name = |alert: Alert| alert.election.map(|election| election.to_string()).or(alert.token);
        turned.into_iter().map(|turned| (turned.firing, name(turned.alert).unwrap())).collect()
    }

    #[test]
    fn each_begins_once_and_ends_once() {
        let mut board = Board::default();
        let lost = |what: &str| found("a", AlertKind::NoLeader, what);
        assert_eq!(turn(&mut board, vec![lost("1")], 100), [(true, "a".to_string())]);
        assert_eq!(turn(&mut board, vec![lost("2")], 101), []);
        let shown = board.shown(Moment::from_nanos(105_000_000_000), "docs/operations");
        assert_eq!((shown[0].age_ms, shown[0].what.as_str()), (5_000, "2"));
        assert_eq!(shown[0].since, WallTime::from_unix_millis(100_000));
        assert_eq!(shown[0].runbook, "docs/operations/no-leader.md");
        assert_eq!(turn(&mut board, vec![], 110), [(false, "a".to_string())]);
        assert_eq!(turn(&mut board, vec![], 111), []);
        assert_eq!(turn(&mut board, vec![lost("3")], 112), [(true, "a".to_string())]);
    }

    #[test]
    fn what_is_counted_ends_once_it_was_well_for_a_minute() {
        let mut board = Board::default();
        let crowd = || vec![found("a", AlertKind::HighContention, "c")];
        assert_eq!(turn(&mut board, crowd(), 100), [(true, "a".to_string())]);
        // As often above what is allowed as below it.
        for at in (104..200).step_by(8) {
            assert_eq!(turn(&mut board, vec![], at), []);
            assert_eq!(turn(&mut board, crowd(), at + 4), []);
        }
        assert_eq!(turn(&mut board, vec![], 255), []);
        assert_eq!(board.shown(Moment::default(), "r").len(), 1);
        assert_eq!(turn(&mut board, vec![], 260), [(false, "a".to_string())]);
        assert_eq!(turn(&mut board, vec![], 261), []);
    }

    #[test]
    fn what_is_wrong_with_tokens_is_no_elections() {
        let mut board = Board::default();
        let burst = |token: Option<TokenId>| {
            let finding = Finding { kind: AlertKind::UnauthorisedBurst, what: "w".into(), hint: "h".into() };
            (Subject::Token(token), finding)
        };
        let both = || vec![burst(None), burst(Some(TokenId([7; 6])))];
        let turned = turn(&mut board, both(), 1);
        assert_eq!(turned, [(true, "none".to_string()), (true, "070707070707".to_string())]);
        assert_eq!(turn(&mut board, both(), 2), []);
        let shown = board.shown(Moment::from_nanos(0), "r");
        assert!(shown.iter().all(|alert| alert.election.is_none() && alert.token.is_some()));
        assert_eq!(turn(&mut board, vec![], 63).len(), 2, "both are over a minute later");
    }

    #[test]
    fn alerts_come_before_warnings() {
        let mut board = Board::default();
        let all = vec![
            found("a", AlertKind::SlowTransition, "s"),
            found("b", AlertKind::TwoLeaders, "t"),
            found("b", AlertKind::NoLeader, "n"),
        ];
        turn(&mut board, all, 1);
        let shown = board.shown(Moment::from_nanos(0), "r");
        let kinds: Vec<AlertKind> = shown.iter().map(|alert| alert.alert).collect();
        assert_eq!(kinds, [AlertKind::NoLeader, AlertKind::TwoLeaders, AlertKind::SlowTransition]);
    }

    #[test]
    fn no_number_of_warnings_keeps_an_alert_out() {
        let mut board = Board::default();
        let warning = |number: usize| found(&format!("e-{number}"), AlertKind::FrequentElections, "f");
        turn(&mut board, (0..MOST + 7).map(warning).collect(), 1);
        let mut all: Vec<(Subject, Finding)> = (0..MOST + 7).map(warning).collect();
        all.push(found("x", AlertKind::TwoLeaders, "t"));
        assert_eq!(turn(&mut board, all, 2), [(true, "x".to_string())]);
        assert_eq!(board.more(), 7);
    }

    #[test]
    fn more_than_so_many_are_counted_and_those_that_were_there_stay() {
        let mut board = Board::default();
        let many = |from: usize, to: usize| -> Vec<(Subject, Finding)> {
            (from..to).map(|number| found(&format!("e-{number}"), AlertKind::NoLeader, "n")).collect()
        };
        assert_eq!(turn(&mut board, many(0, MOST + 7), 1).len(), MOST);
        assert_eq!(board.more(), 7);
        // The first seven are well again: those that were only counted take their places.
        let turned = turn(&mut board, many(7, MOST + 7), 2);
        assert_eq!(turned.iter().filter(|(firing, _)| !firing).count(), 7);
        let turned = turn(&mut board, many(7, MOST + 7), 3);
        assert!(turned.len() <= 7 && board.more() == 0, "{turned:?}");
    }
}
