use super::*;

fn name() -> ElectionName {
    ElectionName::new("e").unwrap()
}

fn kinds(observed: &Observation) -> Vec<AlertKind> {
    kinds_by(observed, &Thresholds::default())
}

fn kinds_by(observed: &Observation, limits: &Thresholds) -> Vec<AlertKind> {
    judge(&name(), observed, limits).into_iter().map(|finding| finding.kind).collect()
}

fn avowal(agent: &str, first: u64, last: u64) -> ClaimedLeader {
    let at = |seconds: u64| Moment::from_nanos(seconds * 1_000_000_000);
    ClaimedLeader { agent: AgentName::new(agent).unwrap(), term: 1, first: at(first), last: at(last) }
}

#[test]
fn nothing_is_wrong_where_nothing_happens() {
    assert_eq!(kinds(&Observation::default()), []);
    assert_eq!(kinds(&Observation { followers: 9, waiting: 3, candidates: 2, ..Observation::default() }), []);
}

#[test]
fn nobody_leads_for_a_minute_and_somebody_wants_it() {
    let leaderless = |seconds| Observation {
        leaderless: Some(Span::secs(seconds)),
        followers: 1,
        ..Observation::default()
    };
    assert_eq!(kinds(&leaderless(59)), []);
    assert_eq!(kinds(&leaderless(60)), [AlertKind::NoLeader]);
    let unwanted = Observation { followers: 0, ..leaderless(600) };
    assert_eq!(kinds(&unwanted), [], "nobody misses it");
    for wanted in [
        Observation { waiting: 1, ..unwanted.clone() },
        Observation { candidates: 1, ..unwanted.clone() },
        Observation { followers: 1, ..unwanted.clone() },
        Observation { barred: 1, ..unwanted.clone() },
    ] {
        assert_eq!(kinds(&wanted), [AlertKind::NoLeader], "{wanted:?}");
    }
    let found = &judge(&name(), &leaderless(61), &Thresholds::default())[0];
    assert_eq!(found.what, "nobody has led `e` for 1m1s, while 0 wait in line, 0 stand and 1 follow");
}

#[test]
fn more_changes_than_so_many_are_flapping() {
    let changed = |changes| Observation { changes, ..Observation::default() };
    assert_eq!(kinds(&changed(5)), []);
    assert_eq!(kinds(&changed(6)), [AlertKind::Flapping]);
}

#[test]
fn two_leaders_are_seen_if_each_spoke_before_and_after_the_other() {
    let avowals =
        |avowals: &[ClaimedLeader]| Observation { avowals: avowals.to_vec(), ..Observation::default() };
    assert_eq!(kinds(&avowals(&[avowal("a", 10, 20)])), []);
    assert_eq!(kinds(&avowals(&[avowal("a", 10, 20), avowal("b", 15, 25)])), [AlertKind::TwoLeaders]);
    assert_eq!(kinds(&avowals(&[avowal("a", 10, 20), avowal("b", 12, 18)])), [AlertKind::TwoLeaders]);
    assert_eq!(
        kinds(&avowals(&[avowal("a", 10, 20), avowal("b", 21, 25)])),
        [],
        "a has not said so again since b began: it may have stopped in between"
    );
    assert_eq!(
        kinds(&avowals(&[avowal("a", 10, 20), avowal("b", 22, 22), avowal("c", 18, 21)])),
        [AlertKind::TwoLeaders]
    );
}

#[test]
fn too_many_candidates_are_refused_or_wait() {
    let refused = |refused, waiting| Observation { refused, waiting, ..Observation::default() };
    assert_eq!(kinds(&refused(100, 100)), []);
    assert_eq!(kinds(&refused(101, 0)), [AlertKind::HighContention]);
    assert_eq!(kinds(&refused(0, 101)), [AlertKind::HighContention]);
}

#[test]
fn warnings_are_of_frequent_slow_and_lonely_changes() {
    let some = Observation {
        elections: 3,
        took: Some(Span::secs(30)),
        told: Some((3, 3)),
        ..Observation::default()
    };
    assert_eq!(kinds(&some), []);
    assert_eq!(kinds(&Observation { elections: 4, ..some.clone() }), [AlertKind::FrequentElections]);
    assert_eq!(
        kinds(&Observation { took: Some(Span::millis(30_001)), ..some.clone() }),
        [AlertKind::SlowTransition]
    );
    assert_eq!(kinds(&Observation { told: Some((2, 3)), ..some.clone() }), [AlertKind::LowParticipation]);
    assert_eq!(kinds(&Observation { told: Some((0, 0)), ..some }), [], "nobody follows");
}

fn silent(hundredths: u32) -> SuspectAgent {
    SuspectAgent {
        agent: AgentName::new("a").unwrap(),
        epoch: Epoch(3),
        suspicion: Suspicion::of_hundredths(hundredths),
        silent: Span::millis(14_400),
        left: Span::millis(15_600),
    }
}

#[test]
fn a_leader_that_is_silent_is_warned_of_from_the_threshold_on() {
    let leads = |hundredths| Observation { suspected: Some(silent(hundredths)), ..Observation::default() };
    assert_eq!(kinds(&leads(799)), []);
    assert_eq!(kinds(&leads(800)), [AlertKind::SuspectedLeader]);
    let late = Thresholds { suspicion: Some(Suspicion::of(2.0)), ..Thresholds::default() };
    assert_eq!(kinds_by(&leads(200), &late), [AlertKind::SuspectedLeader]);
    let found = &judge(&name(), &leads(810), &Thresholds::default())[0];
    assert_eq!(found.what, "a leads `e` and has been silent for 14s: φ is 8.1, and its lease lasts 15s more");
}

#[test]
fn what_has_no_threshold_is_never_wrong() {
    let all = Observation {
        leaderless: Some(Span::secs(900)),
        waiting: 500,
        changes: 500,
        elections: 500,
        refused: 500,
        took: Some(Span::secs(900)),
        told: Some((0, 9)),
        suspected: Some(silent(9_000)),
        ..Observation::default()
    };
    assert_eq!(kinds(&all).len(), 7);
    let off = Thresholds {
        no_leader: None,
        flapping: None,
        contention: None,
        elections: None,
        transition: None,
        participation: None,
        suspicion: None,
        refusals: None,
    };
    assert_eq!(kinds_by(&all, &off), []);
    let half = Thresholds { participation: Some(50), ..off };
    assert_eq!(kinds_by(&Observation { told: Some((1, 2)), ..Observation::default() }, &half), []);
    assert_eq!(
        kinds_by(&Observation { told: Some((1, 3)), ..Observation::default() }, &half),
        [AlertKind::LowParticipation]
    );
}

#[test]
fn a_burst_of_refusals_is_told_of_each_token() {
    let stolen = Some(TokenId([7; 6]));
    let refused = [(None, 101), (stolen, 500), (Some(TokenId([8; 6])), 100)];
    let found = judge_refusals(&refused, &Thresholds::default());
    let subjects: Vec<&Subject> = found.iter().map(|(subject, _)| subject).collect();
    assert_eq!(subjects, [&Subject::Token(None), &Subject::Token(stolen)]);
    assert!(found[0].1.what.contains("101 requests without an access token"), "{}", found[0].1.what);
    assert!(found[1].1.what.contains("070707070707"), "{}", found[1].1.what);
    let never = Thresholds { refusals: None, ..Thresholds::default() };
    assert_eq!(judge_refusals(&refused, &never), []);
}
