//! What reading the traces against the design brought to light: one test per finding, each showing the right behaviour.

mod paper;
mod persistence;

use crate::interpreter::World;
use crate::interpreter::states::Coverage;

/// Plays lines in a world of their own, and returns the trace of the last one.
fn last(lines: &[&str]) -> String {
    let mut world = World::default();
    let mut coverage = Coverage::default();
    lines.iter().map(|line| world.run(line, &mut coverage)).last().unwrap_or_default()
}

#[track_caller]
fn check(lines: &[&str], holds: impl Fn(&str) -> bool) {
    let trace = last(lines);
    assert!(holds(&trace), "after {}:\n{trace}", lines.join(", "));
}

#[test]
fn a_reservation_lasts_from_the_appointment_however_long_ago_the_last_lease_ended() {
    check(&["acquire a", "depose", "tick 1h", "appoint b lasts=1m", "tick 59s", "acquire c"], |trace| {
        trace.starts_with("refused not-eligible")
    });
}

#[test]
fn a_hold_lasts_for_an_hour_at_most() {
    for (ttl, word) in
        [("1h", "admitted"), ("2h", "refused invalid"), ("1s", "admitted"), ("999ms", "refused invalid")]
    {
        let fence = format!("fence db a run=migrate ttl={ttl} lease");
        check(&["acquire a ttl=1m", &fence], |trace| trace.starts_with(word));
    }
}

#[test]
fn a_reservation_made_in_a_pause_lasts_from_the_end_of_the_pause() {
    check(&["acquire a", "pause", "appoint b lasts=1m", "tick 2m", "resume", "acquire c"], |trace| {
        trace.starts_with("refused not-eligible")
    });
}

#[test]
fn a_lapsed_leader_s_late_release_does_not_revive_a_reservation() {
    let lines = ["acquire a", "appoint b lasts=10s", "tick 1h", "release a", "acquire c"];
    check(&lines, |trace| trace.starts_with("granted"));
}

#[test]
fn an_operator_s_preparation_does_not_hide_a_vanished_lease() {
    let lines = ["acquire a", "vanish lease=20s floor=7", "set-policy ttl=1m", "acquire b"];
    check(&lines, |trace| trace.starts_with("refused"));
}

#[test]
fn the_question_for_more_time_goes_with_the_leader() {
    let asked = ["set-policy approval=time approval-ttl=10s", "acquire a", "tick 6s", "renew a"];
    let lines = [&asked[..], &["release a", "approve"]].concat();
    check(&lines, |trace| trace.starts_with("refused invalid: nothing waits"));
}

#[test]
fn a_policy_without_approval_asks_for_none() {
    let asked = ["set-policy approval=time approval-ttl=10s", "acquire a", "tick 6s", "renew a"];
    let lines = [&asked[..], &["set-policy", "renew a"]].concat();
    check(&lines, |trace| !trace.contains("approval wanted"));
}

#[test]
fn a_leader_that_passes_on_cannot_set_the_policy_aside() {
    let lines = ["set-policy select=capable needs=rust", "acquire a can=rust", "pass a to=b", "acquire b"];
    check(&lines, |trace| trace.starts_with("refused not-eligible"));
    let lines = ["set-policy select=designated designated=a", "acquire a", "pass a to=b", "acquire b"];
    check(&lines, |trace| trace.starts_with("refused not-eligible"));
}

#[test]
fn a_budget_of_time_cannot_be_evaded_with_checkpoints() {
    let mut lines = vec!["set-policy time=1m", "acquire a"];
    for _ in 0..4 {
        lines.extend(["tick 20s", "checkpoint a"]);
    }
    lines.push("check a");
    check(&lines, |trace| trace.starts_with("refused stale"));
}

#[test]
fn an_operator_s_repeated_order_is_answered_as_the_first() {
    let first = last(&["acquire a", "depose"]);
    let again = last(&["acquire a", "depose", "repeat"]);
    let answer = first.lines().next().unwrap_or_default();
    assert_eq!(again, format!("{answer} (nothing written)\n"));
}

#[test]
fn a_fence_that_is_held_says_so() {
    check(&["acquire a", "fence db a run=migrate", "fence db a"], |trace| !trace.contains("vanished"));
}

#[test]
fn an_offer_that_waits_to_be_claimed_is_not_said_to_have_run_out() {
    check(&["acquire a offer", "check a"], |trace| !trace.contains("run out"));
}

#[test]
fn an_appointed_agent_is_ranked_whatever_the_policy_asks_for() {
    for policy in ["set-policy select=capable needs=rust", "set-policy select=designated designated=b"] {
        let lines = [policy, "enlist a", "enlist b can=rust", "appoint a", "rank"];
        check(&lines, |trace| trace.starts_with("1. a"));
    }
}

#[test]
fn nobody_who_goes_on_leading_is_told_to_stop() {
    check(&["acquire a", "checkpoint a seq=2"], |trace| !trace.contains("hint: stop this work"));
    check(&["acquire a", "draft old depose", "enrol ada", "send old"], |trace| {
        !trace.contains("hint: stop this work")
    });
}

#[test]
fn whom_it_was_kept_for_is_not_said_to_have_been_first() {
    check(&["acquire a", "pass a to=b", "acquire b"], |trace| !trace.contains("first to ask"));
    check(&["appoint b", "acquire b"], |trace| !trace.contains("first to ask"));
}
