//! Orders on the store as a whole that take several operators: the list of those that wait, and the signature beside another operator's.

use baton::election::operator::OperatorKey;
use baton::election::store_order::{StoreChange, StoreOrder};
use baton::election::store_quorum::{Gathers, OrderOutcome, PendingOrder, StoreQuorum, WAITS};
use baton::election::tokens::{TokenChange, TokenEntry, TokenOrder};
use baton::election::{ElectionName, StoreInfo};
use baton::{Error, Spread};
use serde_json::{Value, json};

use super::acts::failure;
use super::audit::{act_line, store_line, token_line};
use super::cosign::confirm;
use super::operator_names::person;
use super::pause_all::partly;
use super::token;
use crate::context::Context;
use crate::exit::Exit;
use crate::output::{Failure, clean};
use crate::screen::Screen;

/// An order that waits.
enum WaitingOrder {
    Store(PendingOrder<StoreOrder>),
    /// With the token that would be made or revoked; none if it is not there any more.
    Tokens(Box<PendingOrder<TokenOrder>>, Option<Box<TokenEntry>>),
}

impl WaitingOrder {
    fn id(&self) -> String {
        match self {
            WaitingOrder::Store(waiting) => waiting.id(),
            WaitingOrder::Tokens(waiting, _) => waiting.id(),
        }
    }

    fn line(&self) -> String {
        match self {
            WaitingOrder::Store(waiting) => store_line(&waiting.order),
            WaitingOrder::Tokens(waiting, _) => token_line(&waiting.order),
        }
    }

    /// What the token would open, or opens until it is revoked.
    fn token(&self) -> Option<&TokenEntry> {
        match self {
            WaitingOrder::Store(_) => None,
            WaitingOrder::Tokens(_, entry) => entry.as_deref(),
        }
    }

    fn is_signed_by(&self, key: &OperatorKey) -> bool {
        match self {
            WaitingOrder::Store(waiting) => waiting.is_signed_by(key.public()),
            WaitingOrder::Tokens(waiting, _) => waiting.is_signed_by(key.public()),
        }
    }

    fn shown(&self, info: &StoreInfo) -> OrderLines {
        match self {
            WaitingOrder::Store(waiting) => OrderLines::of(waiting, self, info),
            WaitingOrder::Tokens(waiting, _) => OrderLines::of(waiting, self, info),
        }
    }
}

/// What is told of an order that waits.
struct OrderLines {
    id: String,
    line: String,
    /// What a token opens.
    facts: Vec<(&'static str, String)>,
    signed: Vec<String>,
    need: usize,
    until: String,
    data: Value,
}

impl OrderLines {
    fn of<O: Gathers + serde::Serialize>(
        waiting: &PendingOrder<O>,
        one: &WaitingOrder,
        info: &StoreInfo,
    ) -> OrderLines {
        let need = waiting.needed(info);
        let operators = waiting.signed.iter().map(|signed| signed.operator());
        let until = waiting.begun + WAITS;
        let token = one.token();
        let data = json!({
            "order": waiting.id(), "what": waiting.order.kind(), "ordered": waiting.order, "token": token.map(token::shown),
            "signed": operators.clone().collect::<Vec<_>>(), "have": waiting.signed.len(), "need": need,
            "since": waiting.begun, "expires": until,
        });
        let signed = operators.map(|key| person(Some(info), key)).collect();
        let facts = token.map_or(Vec::new(), |entry| token::facts(entry).to_vec());
        OrderLines { id: waiting.id(), line: one.line(), facts, signed, need, until: until.to_string(), data }
    }
}

async fn all(context: &Context) -> Result<(Vec<WaitingOrder>, std::sync::Arc<StoreInfo>), Failure> {
    let waiting = context.coordinator.orders().waiting().await?;
    let info = context.coordinator.info().await?;
    let mut orders: Vec<WaitingOrder> = waiting.store.into_iter().map(WaitingOrder::Store).collect();
    if !waiting.tokens.is_empty() {
        let known = context.coordinator.tokens().list().await?.tokens;
        orders.extend(waiting.tokens.into_iter().map(|waiting| {
            let token = match &waiting.order.change {
                TokenChange::Create { token } => Some(token.clone()),
                TokenChange::Revoke { id } => known.iter().find(|entry| entry.id == *id).cloned(),
            };
            WaitingOrder::Tokens(Box::new(waiting), token.map(Box::new))
        }));
    }
    Ok((orders, info))
}

/// Shows all that waits for signatures: orders on the store, and acts on elections.
pub(super) async fn list(context: &Context) -> Result<Screen, Failure> {
    let (orders, info) = all(context).await?;
    let (mut data, mut rows) = (Vec::new(), Vec::new());
    for one in &orders {
        let OrderLines { id, line, facts, signed, need, until, data: order } = one.shown(&info);
        let facts: Vec<String> = facts.iter().map(|(what, value)| format!("{what} {value}")).collect();
        let line = if facts.is_empty() { line } else { format!("{line}; {}", facts.join("; ")) };
        data.push(order);
        let command = format!("baton cosign --order {id}");
        rows.push(vec![line, format!("{} of {need}: {}", signed.len(), signed.join(", ")), until, command]);
    }
    for election in context.coordinator.elections().await? {
        let view = match context.coordinator.view(&election).await {
            Ok(view) => view,
            Err(Error::Store(error)) if !error.is_passing() => {
                context.output.talk(&format!("`{election}` could not be read: {error}"));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let Some(document) = view.document else { continue };
        for gathering in document.gathering.iter().flat_map(|all| all.iter()) {
            let (act, need) = (&gathering.order.act, gathering.needed(&document));
            let by: Vec<_> = gathering.signed.iter().map(|one| one.operator()).collect();
            data.push(json!({
                "election": election, "what": act.name(), "ordered": gathering.order, "signed": by,
                "have": by.len(), "need": need,
            }));
            let signed: Vec<String> = by.into_iter().map(|key| person(Some(&info), key)).collect();
            rows.push(act_row(&election, act_line(act), &signed, need));
        }
    }
    let head = ["WHAT", "SIGNED", "EXPIRES", "TO SIGN IT"];
    Ok(Screen::table(data, &head, &rows, "nothing waits for signatures"))
}

fn act_row(election: &ElectionName, line: String, signed: &[String], need: usize) -> Vec<String> {
    vec![
        format!("{election}: {line}"),
        format!("{} of {need}: {}", signed.len(), signed.join(", ")),
        "-".to_string(),
        format!("baton cosign {election}"),
    ]
}

/// Signs an order on the store: the one that is named, or the only one.
pub(super) async fn cosign(
    context: &Context,
    key: &OperatorKey,
    named: Option<&str>,
    yes: bool,
) -> Result<Screen, Failure> {
    let (orders, info) = all(context).await?;
    let one = chosen(orders, named, key)?;
    let OrderLines { line, facts, signed, need, until, .. } = one.shown(&info);
    context.output.talk(&format!(
        "to sign: {line}\n  in the store {}\n  signed by {} of {need}: {}\n  it expires at {until}",
        info.id,
        signed.len(),
        signed.join(", ")
    ));
    for (what, value) in facts {
        context.output.talk(&format!("  {what:<10} {value}"));
    }
    if let WaitingOrder::Store(PendingOrder {
        order: StoreOrder { change: StoreChange::Operators { after, names }, .. },
        ..
    }) = &one
    {
        for operator in after {
            let mark = if info.operator_keys.contains(operator) { " " } else { "+" };
            let name = names.get(operator).map_or(String::new(), |name| format!("  {}", clean(name)));
            context.output.talk(&format!("  {mark} {operator}{name}"));
        }
        for operator in info.operator_keys.iter().filter(|key| !after.contains(key)) {
            context.output.talk(&format!("  - {operator}"));
        }
    }
    if !yes {
        confirm(context, "sign it?", || {
            Failure::usage(
                "nobody is there to be asked whether to sign this",
                "look at it first; then sign it with --yes",
            )
        })?;
    }
    let id = one.id();
    let done = match &one {
        WaitingOrder::Store(waiting) => context.coordinator.orders().cosign(key, waiting).await,
        WaitingOrder::Tokens(waiting, _) => {
            context.coordinator.tokens().cosign(key, waiting).await.map(|outcome| {
                let signed = match outcome {
                    OrderOutcome::Done => None,
                    OrderOutcome::Signed { have, need } => Some((have, need)),
                };
                Spread { signed, ..Spread::default() }
            })
        }
    };
    let spread = done.map_err(|error| failure(&error, key))?;
    if let Some(signed) = spread.signed {
        return Ok(waits(&line, signed));
    }
    if let Some(failure) = partly(&spread, key, &format!("{line}: done, but not in")) {
        return Err(failure);
    }
    let data = json!({
        "outcome": "done", "order": id, "elections": spread.elections, "waiting": spread.waiting,
    });
    let exit = if spread.waiting.is_empty() { Exit::Done } else { Exit::Operator };
    let others = spread.waiting.iter();
    let others = others.map(|election| format!("another operator must sign it too: baton cosign {election}"));
    Ok(Screen::new(data, format!("{line}: done")).notes(others).exit(exit))
}

/// The order that is meant, if that is clear.
fn chosen(
    orders: Vec<WaitingOrder>,
    named: Option<&str>,
    key: &OperatorKey,
) -> Result<WaitingOrder, Failure> {
    let described = |orders: &[WaitingOrder]| {
        let lines: Vec<String> = orders.iter().map(|one| format!("{} ({})", one.id(), one.line())).collect();
        format!("say which with --order: {}", lines.join(", "))
    };
    if orders.is_empty() {
        return Err(Failure::usage(
            "no order on the store waits for signatures",
            "an order is void a day after its first signature, and once the quorum or the operators change: give it again",
        ));
    }
    let fits = |one: &WaitingOrder| {
        named.map_or_else(|| !one.is_signed_by(key), |named| one.id().starts_with(named))
    };
    let (mut fitting, others): (Vec<WaitingOrder>, Vec<WaitingOrder>) = orders.into_iter().partition(fits);
    match (fitting.len(), named) {
        (1, _) => Ok(fitting.remove(0)),
        (0, Some(named)) => {
            Err(Failure::usage(format!("no order that waits begins with `{named}`"), described(&others)))
        }
        (0, None) => Err(Failure::usage(
            "this operator has signed all orders that wait",
            "another operator signs them: baton cosign --list",
        )),
        (several, _) => Err(Failure::usage(
            format!("{several} orders on the store wait for signatures"),
            described(&fitting),
        )),
    }
}

/// That an order on the store waits for more operators.
pub(super) fn waits(what: &str, (have, need): (u64, u64)) -> Screen {
    let data = json!({"outcome": "signed", "what": what, "have": have, "need": need});
    Screen::new(data, format!("{what}: {have} of {need} operators have signed"))
        .note(WAITING)
        .exit(Exit::Operator)
}

/// How an order that waits goes on.
pub(super) const WAITING: &str = "it is not done yet; another operator runs: baton cosign";

/// The rule in words.
pub(super) fn rule(quorum: &StoreQuorum) -> String {
    if quorum.quorum <= 1 {
        return "an order on the store takes one operator".to_string();
    }
    let which = if quorum.orders.is_empty() {
        "but to pause everything and to revoke a token".to_string()
    } else {
        let names: Vec<String> = quorum.orders.iter().map(ToString::to_string).collect();
        format!("of these kinds: {}, operators, quorum", names.join(", "))
    };
    let glass = if quorum.break_glass { "; one may break the glass" } else { "" };
    format!("an order on the store takes {} operators, {which}{glass}", quorum.quorum)
}
