//! The five acts.

use baton::election::document::Cause;
use baton::election::time::Span;
use baton::election::{Epoch, Moment};
use baton::store::boot;
use rustix::process::{Pid, Signal};
use serde_json::json;

use super::Stop;
use super::processes::{Family, is_gone, send};
use super::scene::{Leads, Scene};
use super::stage::spoken;
use super::troupe::{ELECTION, RESOURCE, Standing, TTL};

/// Pauses for the audience.
const BREATH: Span = Span::millis(700);
const BETWEEN_ACTS: Span = Span::millis(1_200);

/// Plays them all.
pub(super) async fn play(scene: &mut Scene<'_>) -> Result<(), Stop> {
    let first = one_leads(scene).await?;
    let second = the_leader_is_killed(scene, first).await?;
    let third = nobody_is_left_to_release(scene, second).await?;
    let fourth = the_sleeper_wakes(scene, third).await?;
    let fifth = the_leader_hands_over(scene, fourth).await?;
    the_operator_deposes(scene, fifth).await
}

async fn one_leads(scene: &mut Scene<'_>) -> Result<Leads, Stop> {
    act(scene, 1, "Three agents stand, one leads").await?;
    let asked_at = boot::now();
    (0..3).try_for_each(|who| scene.troupe.start(who, scene.place))?;
    let text = format!("three times: baton run {ELECTION} --ttl {TTL} --as agent-… -- WORK");
    scene.tell("started", json!({"agents": ["agent-a", "agent-b", "agent-c"]}), &text)?;
    let leads = scene.successor(Epoch(0)).await?;
    let others: Vec<usize> = (0..3).filter(|who| *who != leads.who).collect();
    scene
        .until("the others wait in line", |scene| {
            others.iter().all(|who| scene.agent(*who).standing == Standing::Waiting).then_some(())
        })
        .await?;
    let after = leads.at.since(asked_at);
    let names: Vec<String> = others.iter().map(|who| scene.name(*who)).collect();
    let text = format!(
        "{} leads with token {}, {} after the start; {} wait in line",
        scene.name(leads.who),
        leads.token,
        spoken(after),
        names.join(" and ")
    );
    let data = json!({
        "agent": scene.name(leads.who), "token": leads.token, "after_ms": after.as_millis(), "waiting": names,
    });
    scene.tell("leads", data, &text)?;
    scene.at_work(leads).await?;
    let printed = scene.command(&["status"]).await?;
    scene.stage.screen("baton status", &printed)?;
    scene.rest(BETWEEN_ACTS).await?;
    Ok(leads)
}

async fn the_leader_is_killed(scene: &mut Scene<'_>, former: Leads) -> Result<Leads, Stop> {
    act(scene, 2, "The leader is killed").await?;
    let family = scene.family(former.who)?;
    let (run, who) = (family.run.as_raw_pid(), scene.name(former.who));
    let killed_at = boot::now();
    scene.end(former.who, Signal::KILL, &[family.run]);
    let text = format!("kill -9 {run}: the `baton run` of {who} is gone, its warden and its work are left");
    scene.tell("killed", json!({"agent": who, "what": ["run"], "pid": run}), &text)?;
    let leads = scene.successor(former.token).await?;
    let farewell = Farewell { work: family.work, ..Farewell::to(former, killed_at) };
    took_over(scene, leads, farewell)?;
    if let Some((cause, reason)) = scene.cause(leads).await? {
        scene.tell(
            "cause",
            json!({"cause": cause, "reason": reason}),
            &format!("why: {reason} ({cause})"),
        )?;
    }
    scene.start_again(former.who).await?;
    scene.at_work(leads).await?;
    scene.rest(BREATH).await?;
    Ok(leads)
}

async fn nobody_is_left_to_release(scene: &mut Scene<'_>, former: Leads) -> Result<Leads, Stop> {
    let family = scene.family(former.who)?;
    // Stopped before they are killed, so that neither can act on the death of the other.
    let ends_at = freeze(scene, Family { work: None, ..family }).await?;
    let killed_at = boot::now();
    let lease = ends_at.since(killed_at);
    let pids: Vec<_> = [family.warden, Some(family.run)].into_iter().flatten().collect();
    scene.end(former.who, Signal::KILL, &pids);
    let who = scene.name(former.who);
    let numbers: Vec<i32> = pids.iter().map(|pid| pid.as_raw_pid()).collect();
    let words = numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let text = format!(
        "kill -9 {words}: {who} dies with its warden, so that nobody releases; its lease lasts {} more",
        spoken(lease)
    );
    let data = json!({
        "agent": who, "what": ["warden", "run"], "pids": numbers, "lease_left_ms": lease.as_millis(),
    });
    scene.tell("killed", data, &text)?;
    let leads = scene.successor(former.token).await?;
    let farewell = Farewell { former, since: killed_at, lease_ended_at: Some(ends_at), work: family.work };
    took_over(scene, leads, farewell)?;
    scene.start_again(former.who).await?;
    scene.at_work(leads).await?;
    scene.rest(BETWEEN_ACTS).await?;
    Ok(leads)
}

async fn the_sleeper_wakes(scene: &mut Scene<'_>, former: Leads) -> Result<Leads, Stop> {
    act(scene, 3, "The leader falls asleep, and wakes up too late").await?;
    let family = scene.family(former.who)?;
    let ends_at = freeze(scene, family).await?;
    let stopped_at = boot::now();
    let lease = ends_at.since(stopped_at);
    scene.troupe.agents[former.who].standing = Standing::Frozen;
    let who = scene.name(former.who);
    let text = format!(
        "{who} is stopped, warden and work and all, as by a closed lid; its lease lasts {} more",
        spoken(lease)
    );
    scene.tell("stopped", json!({"agent": who, "lease_left_ms": lease.as_millis()}), &text)?;
    let leads = scene.successor(former.token).await?;
    took_over(scene, leads, Farewell { lease_ended_at: Some(ends_at), ..Farewell::to(former, stopped_at) })?;
    scene.at_work(leads).await?;
    scene.rest(BREATH).await?;
    let text =
        format!("{who} wakes, its work first, which knows of nothing and writes with token {}", former.token);
    scene.tell("woken", json!({"agent": who, "token": former.token}), &text)?;
    family.work.into_iter().for_each(|pid| send(pid, Signal::CONT));
    refused_write(scene, former).await?;
    scene.rest(BREATH).await?;
    family.members().for_each(|pid| send(pid, Signal::CONT));
    scene
        .until("the former leader waits in line", |scene| {
            (scene.agent(former.who).standing == Standing::Waiting).then_some(())
        })
        .await?;
    let work_is_gone = family.work.is_none_or(is_gone);
    let text = format!("the warden of {who} wakes, ends that work, and {who} waits in line again");
    scene.tell("ended", json!({"agent": who, "work_gone": work_is_gone}), &text)?;
    scene.expect(work_is_gone, "the work of the former leader is gone before it stands again")?;
    scene.rest(BETWEEN_ACTS).await?;
    Ok(leads)
}

async fn the_leader_hands_over(scene: &mut Scene<'_>, former: Leads) -> Result<Leads, Stop> {
    act(scene, 4, "The leader is asked to go, and hands over").await?;
    let family = scene.family(former.who)?;
    let (run, who) = (family.run.as_raw_pid(), scene.name(former.who));
    let asked_at = boot::now();
    scene.end(former.who, Signal::TERM, &[family.run]);
    let text = format!("kill {run}: {who} ends its work, leaves a checkpoint and releases");
    scene.tell("asked", json!({"agent": who, "pid": run}), &text)?;
    let leads = scene.successor(former.token).await?;
    let farewell = Farewell { work: family.work, ..Farewell::to(former, asked_at) };
    took_over(scene, leads, farewell)?;
    let inherited = scene
        .until("the successor takes on the checkpoint", |scene| scene.agent(leads.who).inherited.clone())
        .await?;
    let successor = scene.name(leads.who);
    let text = format!("{successor} inherits from {}: “{}”", inherited.by, inherited.summary);
    let data = json!({
        "agent": successor, "by": inherited.by, "summary": inherited.summary, "steps": inherited.steps,
    });
    scene.tell("inherited", data, &text)?;
    scene.expect(inherited.by == who, "the checkpoint is by the former leader")?;
    let checkpoint = scene.coordinator.handover(&scene.election).await?;
    let by = checkpoint.and_then(|checkpoint| checkpoint.acknowledged_by).map(|by| by.to_string());
    let so = inherited.acknowledged && by.as_deref() == Some(successor.as_str());
    scene.expect(so, "the successor acknowledged the checkpoint")?;
    let text = format!("{successor} has acknowledged it and goes on with step {}", inherited.steps + 1);
    scene.tell("acknowledged", json!({"agent": successor, "step": inherited.steps + 1}), &text)?;
    scene.start_again(former.who).await?;
    scene.at_work(leads).await?;
    scene.rest(BETWEEN_ACTS).await?;
    Ok(leads)
}

async fn the_operator_deposes(scene: &mut Scene<'_>, former: Leads) -> Result<(), Stop> {
    act(scene, 5, "An operator deposes the leader").await?;
    let work = scene.family(former.who)?.work;
    let said_at = boot::now();
    let reason = "goes in circles";
    let printed = scene.command(&["depose", ELECTION, "--reason", reason]).await?;
    scene.stage.screen(&format!("baton depose {ELECTION} --reason '{reason}'"), &printed)?;
    let message = refused_write(scene, former).await?;
    let text = format!("that leadership ended ({})", Cause::Depose);
    scene.expect(message.contains(&text), "the token is refused before there is a successor")?;
    let leads = scene.successor(former.token).await?;
    took_over(scene, leads, Farewell { work, ..Farewell::to(former, said_at) })?;
    let skipped = leads.token.0 - former.token.0 > 1;
    scene.expect(skipped, "the depose itself raised the token")?;
    let (who, nobodys) = (scene.name(former.who), former.token.0 + 1);
    let text =
        format!("{who} had stopped by then; the depose raised the token, so token {nobodys} was nobody's");
    scene.tell("deposed", json!({"agent": who, "skipped": nobodys}), &text)?;
    scene.at_work(leads).await?;
    scene.rest(BETWEEN_ACTS).await
}

async fn act(scene: &mut Scene<'_>, number: u32, title: &str) -> Result<(), Stop> {
    scene.stage.act(number, title)?;
    scene.rest(BREATH).await
}

/// Stops processes; says when the lease ends, since nobody renews it any more.
async fn freeze(scene: &mut Scene<'_>, family: Family) -> Result<Moment, Stop> {
    let frozen = family.freeze().await;
    scene.expect(frozen, "stopped processes stand still")?;
    scene.lease_end().await
}

/// How the former leader went.
struct Farewell {
    former: Leads,
    since: Moment,
    /// When its lease ended, if that was waited for.
    lease_ended_at: Option<Moment>,
    /// What must be gone before a successor starts.
    work: Option<Pid>,
}

impl Farewell {
    fn to(former: Leads, since: Moment) -> Farewell {
        Farewell { former, since, lease_ended_at: None, work: None }
    }
}

/// Tells of a take-over: how long after what, and with which token.
fn took_over(scene: &mut Scene<'_>, leads: Leads, farewell: Farewell) -> Result<(), Stop> {
    let work_is_gone = farewell.work.is_none_or(is_gone);
    let after = leads.at.since(farewell.since);
    let past_lease = farewell.lease_ended_at.map(|ended_at| leads.at.since(ended_at));
    let mut text = format!("{} leads {} later", scene.name(leads.who), spoken(after));
    if let Some(past) = past_lease {
        text.push_str(&format!(", {} past the end of that lease", spoken(past)));
    }
    text.push_str(&format!(", with token {}", leads.token));
    let data = json!({
        "agent": scene.name(leads.who), "token": leads.token, "after_ms": after.as_millis(),
        "after_lease_ms": past_lease.map(Span::as_millis),
    });
    scene.tell("leads", data, &text)?;
    scene.expect(leads.token > farewell.former.token, "the token rises")?;
    scene.expect(leads.who != farewell.former.who, "another agent leads")?;
    scene.expect(work_is_gone, "the work of the former leader is gone before its successor starts")?;
    let too_early = farewell.lease_ended_at.is_some_and(|ended_at| leads.at < ended_at);
    scene.expect(!too_early, "nobody leads before the lease of the former leader has ended")
}

/// Waits for the refusal of a former leader's write. Returns what it was told.
async fn refused_write(scene: &mut Scene<'_>, former: Leads) -> Result<String, Stop> {
    let message = scene
        .until("the stale write is refused", |scene| {
            let refused = scene.refused.iter().find(|refused| refused.token == former.token)?;
            Some(refused.message.clone())
        })
        .await?;
    let who = scene.name(former.who);
    let text = format!("the fence of {RESOURCE} refused the write of {who}: {message}");
    let data = json!({"agent": who, "token": former.token, "message": message});
    scene.tell("refused", data, &text)?;
    Ok(message)
}
