//! Quotas: the leader splits a shared budget, such as the requests per minute of an API, and agents draw from their shares.
//!
//! A window begins with the first draw after the last one has ended, and lasts as long as the leader set. It is timed by the age of the record,
//! which is the store's, a lower bound, and never a client's wall clock: a window may last longer, but is never cut short. Guarantees that within
//! one window no more than the whole is drawn, whatever the leader changes meanwhile. Does not guarantee that a span which lies across two windows sees no more than
//! one whole: it may see two, as with every fixed window. An agent that draws and does not use it wastes it.

use alloc::collections::BTreeMap;
use alloc::format;

use baton_election::time::{Span, as_millis};
use baton_election::{AgentName, ElectionName, Epoch, Incarnation, ItemName, Refusal};
use serde::{Deserialize, Serialize};

use crate::item::{Kind, called};
use crate::mandate::{Mandate, Sight};

/// The most shares of a quota.
pub const MAX_SHARES: usize = 1_000;
/// The shortest window.
pub const MIN_WINDOW: Span = Span::millis(100);
/// The longest window.
pub const MAX_WINDOW: Span = Span::secs(31 * 86_400);

/// A budget and its split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quota {
    /// Whose leader splits it.
    pub election: ElectionName,
    /// By what it is known.
    pub name: ItemName,
    /// How much there is in a window.
    pub amount: u64,
    /// How long a window lasts.
    #[serde(rename = "window_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub window: Span,
    /// How much of it each agent may draw.
    pub shares: BTreeMap<AgentName, u64>,
    /// The highest epoch in which a leader wrote it.
    pub fence: Epoch,
    /// Who set it last.
    pub by: AgentName,
    /// Counts the windows.
    pub windows: u64,
    /// What was drawn in the window that began last.
    #[serde(default)]
    pub drawn: BTreeMap<AgentName, Taken>,
}

/// What one agent has drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Taken {
    /// How much.
    pub amount: u64,
    /// Its last draw, so that one whose answer was lost is not counted twice.
    pub last: Incarnation,
    /// How much that was.
    pub last_amount: u64,
}

/// Sets a budget and its split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SetQuota {
    /// The leader's.
    pub mandate: Mandate,
    /// How much there is in a window.
    pub amount: u64,
    /// How long a window lasts.
    #[serde(rename = "window_ms", with = "as_millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub window: Span,
    /// How much of it each agent may draw; together not more than the whole.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(extend("maxProperties" = MAX_SHARES)))]
    pub shares: BTreeMap<AgentName, u64>,
}

/// Draws from a share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Draw {
    /// Whose share.
    pub agent: AgentName,
    /// How much.
    pub amount: u64,
    /// Tells this draw from the agent's others: sent again, it is not counted again.
    pub id: Incarnation,
}

/// It was drawn, and may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drawn {
    /// How much.
    pub amount: u64,
    /// How much of the share is left in this window.
    pub left: u64,
    /// How long the window lasts at most from here on.
    pub window_left_ms: u64,
}

/// A write of a quota, and whether its clock restarts with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaWrite {
    /// The quota.
    pub next: Quota,
    /// A window begins.
    pub begins: bool,
}

impl Quota {
    /// How much of an agent's share is left in the window that began last.
    pub fn left(&self, agent: &AgentName) -> u64 {
        let drawn = self.drawn.get(agent).map_or(0, |taken| taken.amount);
        self.shares.get(agent).copied().unwrap_or(0).saturating_sub(drawn)
    }

    /// What all have drawn in the window that began last.
    pub fn drawn(&self) -> u64 {
        self.drawn.values().map(|taken| taken.amount).fold(0, u64::saturating_add)
    }

    /// The sum of all shares.
    pub fn shared(&self) -> u64 {
        self.shares.values().copied().fold(0, u64::saturating_add)
    }
}

/// Sets a quota. None if it is set so already, in this epoch.
pub fn set(
    found: Option<&Quota>,
    name: &ItemName,
    asked: &SetQuota,
    sight: &Sight<'_>,
) -> Result<Option<QuotaWrite>, Refusal> {
    let leader = asked.mandate.check_for(found.map_or(Epoch(0), |quota| quota.fence), sight)?;
    let window = asked.window.whole_millis();
    check(asked, window)?;
    let mut next = match found {
        Some(quota) => quota.clone(),
        None => Quota {
            election: sight.election.clone(),
            name: name.clone(),
            amount: 0,
            window,
            shares: BTreeMap::new(),
            fence: Epoch(0),
            by: leader.agent.clone(),
            windows: 0,
            drawn: BTreeMap::new(),
        },
    };
    next.amount = asked.amount;
    next.window = window;
    next.shares.clone_from(&asked.shares);
    next.fence = asked.mandate.token;
    next.by = leader.agent.clone();
    Ok((found != Some(&next)).then_some(QuotaWrite { next, begins: found.is_none() }))
}

fn check(asked: &SetQuota, window: Span) -> Result<(), Refusal> {
    if !(MIN_WINDOW..=MAX_WINDOW).contains(&window) {
        return Err(Refusal::invalid(
            format!("a window of {window}; it is {MIN_WINDOW} to {MAX_WINDOW}"),
            "such as 600 per 1m",
        ));
    }
    if asked.shares.len() > MAX_SHARES {
        return Err(Refusal::invalid(
            format!("{} shares; at most {MAX_SHARES} are allowed", asked.shares.len()),
            "split it among fewer",
        ));
    }
    let shared = asked.shares.values().try_fold(0_u64, |sum, share| sum.checked_add(*share));
    match shared {
        Some(sum) if sum <= asked.amount => Ok(()),
        Some(_) | None => Err(Refusal::invalid(
            format!(
                "the shares come to {}, and there are {} in all",
                shared.map_or_else(|| "more than can be counted".into(), |sum| format!("{sum}")),
                asked.amount
            ),
            "the shares together are not more than the whole",
        )),
    }
}

/// Draws from a share. None if this very draw was counted already.
pub fn draw(quota: &Quota, draw: &Draw, sight: &Sight<'_>) -> Result<(Option<QuotaWrite>, Drawn), Refusal> {
    if draw.amount == 0 {
        return Err(Refusal::invalid("to draw 0 draws nothing", "draw 1 or more"));
    }
    let begins = quota.windows == 0 || sight.item_age >= quota.window;
    let mut next = quota.clone();
    if begins {
        next.windows += 1;
        next.drawn.clear();
    }
    let window_left = if begins { quota.window } else { quota.window.minus(sight.item_age) };
    let told = |amount: u64, quota: &Quota| Drawn {
        amount,
        left: left_of(quota, &draw.agent),
        window_left_ms: window_left.as_millis(),
    };
    if let Some(taken) = next.drawn.get(&draw.agent)
        && taken.last == draw.id
    {
        return Ok((None, told(taken.last_amount, &next)));
    }
    let share = next.shares.get(&draw.agent).copied().unwrap_or(0);
    let left = left_of(&next, &draw.agent);
    if draw.amount > share {
        return Err(Refusal::Exhausted {
            why: format!(
                "{} has a share of {share} of {}, and asks for {}",
                draw.agent,
                called(Kind::Quota, &quota.name),
                draw.amount
            ),
            retry_in: None,
        });
    }
    if draw.amount > left {
        return Err(Refusal::Exhausted {
            why: format!(
                "{left} of the {share} are left to {} of {}, and it asks for {}",
                draw.agent,
                called(Kind::Quota, &quota.name),
                draw.amount
            ),
            retry_in: Some(window_left),
        });
    }
    let before = next.drawn.get(&draw.agent).map_or(0, |taken| taken.amount);
    let taken = Taken { amount: before.saturating_add(draw.amount), last: draw.id, last_amount: draw.amount };
    next.drawn.insert(draw.agent.clone(), taken);
    assert!(next.drawn() <= next.amount, "more was drawn than there is");
    let drawn = told(draw.amount, &next);
    Ok((Some(QuotaWrite { next, begins }), drawn))
}

/// What an agent may still draw: of its share, and of what all have left. A split that was changed within a window must not let more out than there is.
fn left_of(quota: &Quota, agent: &AgentName) -> u64 {
    quota.left(agent).min(quota.amount.saturating_sub(quota.drawn()))
}
