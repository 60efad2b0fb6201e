//! Circuit breakers as they are looked at before a leader is granted its lease, or a task is given.

use baton_api::Patience;
use baton_api::elections::{CommandError, Elections};
use baton_election::policy::Policy;
use baton_election::removal_rules::OpenBreaker;
use baton_election::{AgentName, ElectionName, ItemName};
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

/// The open breakers of a candidate, or of the leader if no agent is named, as far as the policy looks at
/// them.
pub async fn open_breakers_of(
    elections: &dyn Elections,
    election: &ElectionName,
    agent: Option<&AgentName>,
) -> Result<Vec<OpenBreaker>, CommandError> {
    let Some(document) = elections.view(election).await?.document else { return Ok(Vec::new()) };
    let leader = document.leader.as_ref().map(|leader| &leader.agent);
    match agent.or(leader) {
        Some(agent) => open_breakers(elections, election, agent, &document.policy).await,
        None => Ok(Vec::new()),
    }
}

/// What a task takes of whoever does it.
pub fn capabilities(task: &Task) -> Vec<&str> {
    match task.needs.is_empty() {
        true => vec![ANYTHING],
        false => task.needs.iter().map(String::as_str).collect(),
    }
}
