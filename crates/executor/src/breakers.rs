//! Circuit breakers as they are looked at before a leader is granted its lease, or a task is given.

use baton_api::Patience;
use baton_api::elections::{CommandError, Elections};
use baton_election::command::{Acquire, Finding, Report};
use baton_election::policy::Policy;
use baton_election::removal_rules::OpenBreaker;
use baton_election::{AgentName, Command, Document, ElectionName, ItemName};
use baton_store::toolbox::breaker::{ANYTHING, name_of};
use baton_store::toolbox::{Item, Kind, Query, Task};
use baton_store::{Key, Record};

/// The breakers of an agent that are open and may bar it from leading under this policy; none if the policy does not look at them.
pub async fn open_breakers(
    elections: &dyn Elections,
    election: &ElectionName,
    agent: &AgentName,
    policy: &Policy,
) -> Result<Vec<OpenBreaker>, CommandError> {
    let Some(rules) = policy.breakers.as_ref().filter(|_| policy.looks_at_breakers()) else {
        return Ok(Vec::new());
    };
    let names: Vec<ItemName> = match policy.needs.is_empty() {
        false => policy.needs.iter().map(|capability| name_of(agent, capability)).collect(),
        true => {
            let query = Query { agent: Some(agent.clone()), ..Query::default() };
            let all = elections.tools()?.all(Patience::default(), election, Kind::Breaker, &query).await?;
            all.iter().map(|item| item.place().1.clone()).collect()
        }
    };
    let mut open = Vec::new();
    for name in names {
        let key = Key::Item(election.clone(), Kind::Breaker, name);
        let reading = elections.read(&key).await?;
        let age = elections.memory().lock().observe(&key, &reading);
        let Some(Record::Item(item)) = reading.record() else { continue };
        if let Item::Breaker(breaker) = &**item {
            open.extend(breaker.open(rules, age));
        }
    }
    Ok(open)
}

/// Whether a command is decided only after a look at circuit breakers. A request for the lease is refused first where the policy wants a
/// look: see [`baton_election::Refusal::asks_for_breakers`].
pub fn needs_look(command: &Command) -> bool {
    matches!(command, Command::Report(Report { finding: Finding::Breaker, open: None, .. }))
}

/// A command with what a look shows: the open breakers of the candidate, or of the leader in a report, as far as the policy looks at them.
pub async fn with_open_breakers(
    elections: &dyn Elections,
    election: &ElectionName,
    document: Option<&Document>,
    command: &Command,
) -> Result<Command, CommandError> {
    let leader = document.and_then(|document| document.leader.as_ref()).map(|leader| &leader.agent);
    let agent = if let Command::Acquire(acquire) = command { Some(&acquire.agent) } else { leader };
    let open = match (document, agent) {
        (Some(document), Some(agent)) => open_breakers(elections, election, agent, &document.policy).await?,
        (_, _) => Vec::new(),
    };
    let open = Some(open);
    Ok(match command {
        Command::Acquire(acquire) => Command::Acquire(Acquire { open, ..acquire.clone() }),
        Command::Report(report) => Command::Report(Report { open, ..report.clone() }),
        Command::Renew(_)
        | Command::Release(_)
        | Command::Pass(_)
        | Command::Checkpoint(_)
        | Command::Acknowledge(_)
        | Command::Operate(_) => command.clone(),
    })
}

/// What a task takes of whoever does it.
pub fn capabilities(task: &Task) -> Vec<&str> {
    match task.needs.is_empty() {
        true => vec![ANYTHING],
        false => task.needs.iter().map(String::as_str).collect(),
    }
}
