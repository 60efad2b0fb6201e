//! The five acts.

use baton::election::document::Cause;
use baton::election::time::Span;
use baton::election::{Epoch, Moment};
use baton::store::boot;
use rustix::process::{Pid, Signal};
use serde_json::json;

use super::agent::{AgentState, ELECTION, NAMES, RESOURCE};
use super::fleet::{Fleet, Leader};
use super::printer::length;
use super::processes::{is_gone, send};
use crate::output::Failure;

/// Takes them all.
pub(super) async fn take(fleet: &mut Fleet<'_>) -> Result<(), Failure> {
    let first = one_leads(fleet).await?;
    let second = run_is_killed(fleet, first).await?;
    let third = run_and_warden_are_killed(fleet, second).await?;
    let fourth = all_is_stopped(fleet, third).await?;
    let fifth = the_leader_hands_over(fleet, fourth).await?;
    an_operator_deposes(fleet, fifth).await
}

async fn one_leads(fleet: &mut Fleet<'_>) -> Result<Leader, Failure> {
    act(fleet, 1, "Three agents stand, one leads").await?;
    let asked_at = boot::now();
    for index in 0..NAMES.len() {
        fleet.start(index).await?;
    }
    let text = format!("three times: baton run {ELECTION} --ttl {} --as agent-… -- WORK", fleet.ttl);
    fleet.tell("started", json!({"agents": NAMES}), &text)?;
    let leader = fleet.leader_after(Epoch(0)).await?;
    let mut waiting = Vec::new();
    for index in (0..NAMES.len()).filter(|index| *index != leader.index) {
        fleet.waits(index).await?;
        waiting.push(NAMES[index]);
    }
    let (name, token, after) = (leader.name, leader.token, leader.since.since(asked_at));
    let text = format!(
        "{name} leads with token {token}, {} after the start; {} wait in line",
        length(after),
        waiting.join(" and ")
    );
    let data = json!({"agent": name, "token": token, "after_ms": after.as_millis(), "waiting": waiting});
    fleet.tell("leads", data, &text)?;
    fleet.at_work(leader).await?;
    let printed = fleet.command(&["status"]).await?;
    fleet.printer.command("baton status", &printed)?;
    Ok(leader)
}

async fn run_is_killed(fleet: &mut Fleet<'_>, former: Leader) -> Result<Leader, Failure> {
    act(fleet, 2, "The leader is killed").await?;
    let [run, _, work] = fleet.processes(former)?;
    let killed_at = fleet.end(former, Signal::KILL, &[run]);
    let name = former.name;
    let text = format!("kill -9 {run}: the `baton run` of {name} is gone, its warden and its work are left");
    fleet.tell("killed", json!({"agent": name, "what": ["run"], "pid": run.as_raw_pid()}), &text)?;
    let leader = successor(fleet, former, killed_at, None, Some(work)).await?;
    let history = fleet.coordinator.history(&fleet.election, 1).await?;
    if let Some(transition) = history.first() {
        let (cause, reason) = (transition.cause, &transition.reason);
        let text = format!("why: {reason} ({cause})");
        fleet.tell("cause", json!({"cause": cause, "reason": reason}), &text)?;
    }
    fleet.start_again(former.index).await?;
    fleet.at_work(leader).await?;
    Ok(leader)
}

async fn run_and_warden_are_killed(fleet: &mut Fleet<'_>, former: Leader) -> Result<Leader, Failure> {
    let [run, warden, work] = fleet.processes(former)?;
    // Stopped before they are killed, so that neither can act on the death of the other.
    let ends_at = fleet.stop(&[warden, run]).await?;
    let killed_at = fleet.end(former, Signal::KILL, &[warden, run]);
    let (name, lease) = (former.name, ends_at.since(killed_at));
    let text = format!(
        "kill -9 {warden} {run}: {name} dies with its warden, so that nobody releases; its lease lasts {} more",
        length(lease)
    );
    let pids = [warden, run].map(Pid::as_raw_pid);
    let data = json!({
        "agent": name, "what": ["warden", "run"], "pids": pids, "lease_left_ms": lease.as_millis(),
    });
    fleet.tell("killed", data, &text)?;
    let leader = successor(fleet, former, killed_at, Some(ends_at), Some(work)).await?;
    fleet.start_again(former.index).await?;
    fleet.at_work(leader).await?;
    Ok(leader)
}

async fn all_is_stopped(fleet: &mut Fleet<'_>, former: Leader) -> Result<Leader, Failure> {
    act(fleet, 3, "The leader falls asleep, and wakes up too late").await?;
    let [run, warden, work] = fleet.processes(former)?;
    // The work first, so that it does not run without its keepers.
    let ends_at = fleet.stop(&[work, warden, run]).await?;
    fleet.agents[former.index].state = AgentState::Stopped;
    let stopped_at = boot::now();
    let (name, token, lease) = (former.name, former.token, ends_at.since(stopped_at));
    let text = format!(
        "{name} is stopped, warden and work and all, as by a closed lid; its lease lasts {} more",
        length(lease)
    );
    fleet.tell("stopped", json!({"agent": name, "lease_left_ms": lease.as_millis()}), &text)?;
    let leader = successor(fleet, former, stopped_at, Some(ends_at), None).await?;
    fleet.at_work(leader).await?;
    let text = format!("{name} wakes, its work first, which knows of nothing and writes with token {token}");
    fleet.tell("woken", json!({"agent": name, "token": token}), &text)?;
    send(Signal::CONT, &[work]);
    refused_write(fleet, former).await?;
    fleet.pause().await?;
    send(Signal::CONT, &[warden, run]);
    fleet.waits(former.index).await?;
    let work_gone = is_gone(work);
    let text = format!("the warden of {name} wakes, ends that work, and {name} waits in line again");
    fleet.tell("ended", json!({"agent": name, "work_gone": work_gone}), &text)?;
    fleet.expect(work_gone, "the work of the former leader is gone before it stands again")?;
    Ok(leader)
}

async fn the_leader_hands_over(fleet: &mut Fleet<'_>, former: Leader) -> Result<Leader, Failure> {
    act(fleet, 4, "The leader is asked to go, and hands over").await?;
    let [run, _, work] = fleet.processes(former)?;
    let asked_at = fleet.end(former, Signal::TERM, &[run]);
    let text = format!("kill {run}: {} ends its work, leaves a checkpoint and releases", former.name);
    fleet.tell("asked", json!({"agent": former.name, "pid": run.as_raw_pid()}), &text)?;
    let leader = successor(fleet, former, asked_at, None, Some(work)).await?;
    let inherited = fleet
        .until("the successor takes on the checkpoint", |fleet| {
            fleet.agents[leader.index].event("inherited", leader.token).cloned()
        })
        .await?;
    let text = |field: &str| inherited[field].as_str().unwrap_or_default().to_string();
    let (name, by, summary) = (leader.name, text("by"), text("summary"));
    let steps = inherited["steps"].as_u64().unwrap_or(0);
    let data = json!({"agent": name, "by": by, "summary": summary, "steps": steps});
    fleet.tell("inherited", data, &format!("{name} inherits from {by}: “{summary}”"))?;
    fleet.expect(by == former.name, "the checkpoint is by the former leader")?;
    let checkpoint = fleet.coordinator.handover(&fleet.election).await?;
    let taken_on_by = checkpoint.and_then(|checkpoint| checkpoint.acknowledged_by);
    let so = inherited["acknowledged"] == true && taken_on_by.is_some_and(|by| by.as_str() == name);
    fleet.expect(so, "the successor acknowledged the checkpoint")?;
    let text = format!("{name} has acknowledged it and goes on with step {}", steps + 1);
    fleet.tell("acknowledged", json!({"agent": name, "step": steps + 1}), &text)?;
    fleet.start_again(former.index).await?;
    fleet.at_work(leader).await?;
    Ok(leader)
}

async fn an_operator_deposes(fleet: &mut Fleet<'_>, former: Leader) -> Result<(), Failure> {
    act(fleet, 5, "An operator deposes the leader").await?;
    let [_, _, work] = fleet.processes(former)?;
    let said_at = boot::now();
    let reason = "goes in circles";
    let printed = fleet.command(&["depose", ELECTION, "--reason", reason]).await?;
    fleet.printer.command(&format!("baton depose {ELECTION} --reason '{reason}'"), &printed)?;
    let message = refused_write(fleet, former).await?;
    let ended = message.contains(&format!("that leadership ended ({})", Cause::Depose));
    fleet.expect(ended, "the token is refused before there is a successor")?;
    let leader = successor(fleet, former, said_at, None, Some(work)).await?;
    fleet.expect(leader.token.0 - former.token.0 > 1, "the depose itself raised the token")?;
    let (name, skipped) = (former.name, former.token.0 + 1);
    let text =
        format!("{name} had stopped by then; the depose raised the token, so token {skipped} was nobody's");
    fleet.tell("deposed", json!({"agent": name, "skipped": skipped}), &text)?;
    fleet.at_work(leader).await
}

async fn act(fleet: &mut Fleet<'_>, number: u32, title: &str) -> Result<(), Failure> {
    fleet.printer.act(number, title)?;
    fleet.pause().await
}

/// Waits for the next leader: how long after the former leader's end it leads, how long after the end of that lease if that was waited
/// for, and whether the former leader's work is gone.
async fn successor(
    fleet: &mut Fleet<'_>,
    former: Leader,
    ended_at: Moment,
    lease_ended_at: Option<Moment>,
    work: Option<Pid>,
) -> Result<Leader, Failure> {
    let leader = fleet.leader_after(former.token).await?;
    let work_gone = work.is_none_or(is_gone);
    let Leader { name, token, .. } = leader;
    let after = leader.since.since(ended_at);
    let past_lease = lease_ended_at.map(|lease_ended_at| leader.since.since(lease_ended_at));
    let past = past_lease.map(|past| format!(", {} past the end of that lease", length(past)));
    let text =
        format!("{name} leads {} later{}, with token {token}", length(after), past.unwrap_or_default());
    let data = json!({
        "agent": name, "token": token, "after_ms": after.as_millis(),
        "after_lease_ms": past_lease.map(Span::as_millis),
    });
    fleet.tell("leads", data, &text)?;
    fleet.expect(token > former.token, "the token rises")?;
    fleet.expect(leader.index != former.index, "another agent leads")?;
    fleet.expect(work_gone, "the work of the former leader is gone before its successor starts")?;
    let too_early = lease_ended_at.is_some_and(|lease_ended_at| leader.since < lease_ended_at);
    fleet.expect(!too_early, "nobody leads before the lease of the former leader has ended")?;
    Ok(leader)
}

/// Waits for the refusal of a former leader's write. Returns its message.
async fn refused_write(fleet: &mut Fleet<'_>, former: Leader) -> Result<String, Failure> {
    let message = fleet
        .until("the stale write is refused", |fleet| {
            let refused = fleet.refused.iter().find(|refused| refused.token == former.token)?;
            Some(refused.message.clone())
        })
        .await?;
    let text = format!("the fence of {RESOURCE} refused the write of {}: {message}", former.name);
    let data = json!({"agent": former.name, "token": former.token, "message": message});
    fleet.tell("refused", data, &text)?;
    Ok(message)
}
