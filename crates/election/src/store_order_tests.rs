use alloc::vec;

use super::*;
use crate::store_quorum::{MAX_OF_ONE, WAITS};
use crate::time::Span;

const AT: WallTime = WallTime::from_unix_millis(0);

fn keys<const N: usize>() -> [OperatorKey; N] {
    core::array::from_fn(|seed| OperatorKey::from_seed([1 + u8::try_from(seed).unwrap(); 32]))
}

/// A store whose operators came one by one.
fn info(keys: &[&OperatorKey]) -> StoreInfo {
    StoreInfo {
        operator_keys: keys.iter().map(|key| key.public()).collect(),
        orders: keys.len() as u64,
        rules: keys.len() as u64,
        ..StoreInfo::new(StoreId([1; 8]), AT)
    }
}

/// The same, with this quorum for all that needs one.
fn strict(keys: &[&OperatorKey], quorum: u8) -> StoreInfo {
    let quorum = Box::new(StoreQuorum { quorum, ..StoreQuorum::default() });
    StoreInfo { quorum, ..info(keys) }
}

fn operators(keys: &[&OperatorKey]) -> StoreChange {
    StoreChange::Operators { after: keys.iter().map(|key| key.public()).collect(), names: BTreeMap::new() }
}

fn pause() -> StoreChange {
    StoreChange::Pause { reason: "fire".to_string() }
}

/// The store after an order that is carried out.
fn done(order: &SignedStoreOrder, info: &StoreInfo) -> Result<StoreInfo, Refusal> {
    let (next, outcome) = order.carry_out(info, AT)?;
    assert_eq!(outcome, OrderOutcome::Done, "it waits for others");
    Ok(next)
}

/// The store after an order that waits, and how many have signed it.
fn waits(order: &SignedStoreOrder, info: &StoreInfo) -> (StoreInfo, u64) {
    match order.carry_out(info, AT) {
        Ok((next, OrderOutcome::Signed { have, .. })) => (next, have),
        other => panic!("it does not wait: {other:?}"),
    }
}

/// The same but for what is remembered of the last order.
fn plain(info: &StoreInfo) -> StoreInfo {
    StoreInfo { last_order: None, ..info.clone() }
}

fn is_invalid<T>(outcome: &Result<T, Refusal>) -> bool {
    matches!(outcome, Err(Refusal::Invalid { .. }))
}

fn is_wrong_key<T>(outcome: &Result<T, Refusal>) -> bool {
    matches!(outcome, Err(Refusal::WrongKey { .. }))
}

#[test]
fn only_an_operator_says_who_the_operators_are() {
    let [one, two, three] = keys();
    let (empty, founded) = (info(&[]), info(&[&one]));
    let first = done(&one.sign_store(&empty, operators(&[&one]), AT), &empty).unwrap();
    assert_eq!(plain(&first), founded);
    let two_for_one = one.sign_store(&empty, operators(&[&two]), AT);
    assert!(is_wrong_key(&done(&two_for_one, &empty)), "not on its own word");
    let added = one.sign_store(&founded, operators(&[&one, &two]), AT);
    let both = done(&added, &founded).unwrap();
    assert_eq!(plain(&both), info(&[&one, &two]));
    assert_eq!(done(&added, &both), Ok(both.clone()), "it may be repeated");
    let stranger = three.sign_store(&founded, operators(&[&three]), AT);
    assert!(is_wrong_key(&done(&stranger, &founded)));
    assert!(is_invalid(&done(&stranger, &empty)), "signed for other operators");
}

#[test]
fn an_order_is_not_changed_moved_or_played_again() {
    let [one, two] = keys();
    let founded = info(&[&one]);
    let mut forged = one.sign_store(&founded, operators(&[&one, &two]), AT);
    forged.order.change = operators(&[&two]);
    assert!(is_wrong_key(&done(&forged, &founded)));
    let elsewhere = StoreInfo { id: StoreId([2; 8]), ..founded.clone() };
    let order = one.sign_store(&founded, operators(&[&one, &two]), AT);
    assert!(is_wrong_key(&done(&order, &elsewhere)));
    let since = done(&order, &founded).unwrap();
    let removed = done(&one.sign_store(&since, operators(&[&one]), AT), &since).unwrap();
    assert_eq!(removed.operator_keys, founded.operator_keys);
    assert!(is_invalid(&done(&order, &removed)), "it does not come again");
    let nobody =
        StoreChange::Operators { after: vec![one.public(), PublicKey([0; 32])], names: BTreeMap::new() };
    for change in [operators(&[]), nobody, operators(&[&one, &one])] {
        assert!(is_invalid(&done(&one.sign_store(&founded, change, AT), &founded)));
    }
}

#[test]
fn only_an_operator_pauses_everything_and_each_order_counts_once() {
    let [one, stranger] = keys();
    let founded = info(&[&one]);
    let order = one.sign_store(&founded, pause(), AT);
    let paused = done(&order, &founded).unwrap();
    assert_eq!(paused.paused.as_ref().map(|pause| pause.reason.as_str()), Some("fire"));
    assert_eq!(done(&order, &paused), Ok(paused.clone()), "it may be repeated");
    assert!(is_wrong_key(&done(&stranger.sign_store(&founded, StoreChange::Resume, AT), &founded)));
    let resumed = done(&one.sign_store(&paused, StoreChange::Resume, AT), &paused).unwrap();
    assert_eq!((resumed.paused.clone(), resumed.orders), (None, 3));
    assert!(is_invalid(&done(&order, &resumed)), "it does not come again");
}

#[test]
fn an_order_survives_its_text() {
    let [one] = keys();
    for change in [operators(&[&one]), pause(), StoreChange::Resume] {
        let order = one.sign_store(&info(&[]), change, AT);
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<SignedStoreOrder>(&text).unwrap(), order);
    }
}

#[test]
fn one_operator_pauses_and_several_resume() {
    let [one, two, three] = keys();
    let info = strict(&[&one, &two, &three], 2);
    let paused = done(&one.sign_store(&info, pause(), AT), &info).unwrap();
    let first = one.sign_store(&paused, StoreChange::Resume, AT);
    let (waiting, have) = waits(&first, &paused);
    assert_eq!(
        (have, waiting.paused.is_some(), waiting.orders),
        (1, true, paused.orders + 1),
        "it uses a number up"
    );
    assert_eq!(waits(&first, &waiting), (waiting.clone(), 1), "the same operator counts once");
    let second = two.sign_store(&waiting, StoreChange::Resume, AT);
    assert_eq!(second.order, first.order, "it signs the order that waits");
    let resumed = done(&second, &waiting).unwrap();
    assert_eq!((resumed.paused.is_none(), resumed.waiting.len()), (true, 0));
    assert_eq!(resumed.last_order.as_ref().map(|last| last.with.len()), Some(1));
    // Each of those who signed may ask again after a lost reply; the order is not carried out a second time.
    for again in [&first, &second] {
        assert_eq!(done(again, &resumed), Ok(resumed.clone()));
    }
    let paused = done(&three.sign_store(&resumed, pause(), AT), &resumed).unwrap();
    for again in [&first, &second] {
        assert!(is_invalid(&done(again, &paused)), "an old order does not end the next pause");
    }
}

#[test]
fn fewer_than_the_quorum_change_neither_it_nor_the_operators() {
    let [one, two, thief] = keys();
    let info = strict(&[&one, &two], 2);
    let lower = StoreChange::Quorum { rules: StoreQuorum::default() };
    let only_one = StoreQuorum { quorum: 2, orders: vec![OrderKind::Resume], break_glass: true };
    for change in [lower, StoreChange::Quorum { rules: only_one }, operators(&[&one, &two, &thief])] {
        let (waiting, _) = waits(&one.sign_store(&info, change.clone(), AT), &info);
        assert_eq!((&waiting.quorum, &waiting.operator_keys), (&info.quorum, &info.operator_keys));
        assert!(done(&two.sign_store(&waiting, change, AT), &waiting).is_ok());
    }
    // Nor is there a quorum that the operators cannot fulfil.
    let too_few = one.sign_store(&info, operators(&[&one]), AT).carry_out(&info, AT);
    assert!(is_invalid(&too_few));
    let three = StoreChange::Quorum { rules: StoreQuorum { quorum: 3, ..StoreQuorum::default() } };
    assert!(is_invalid(&one.sign_store(&info, three, AT).carry_out(&info, AT)));
    // What is named needs the quorum too; the rest does not, but for what guards the quorum.
    let rules = StoreQuorum { quorum: 2, orders: vec![OrderKind::Pause], break_glass: false };
    let needed = OrderKind::ALL.map(|(kind, _)| rules.needed(kind));
    assert_eq!(needed, [2, 1, 1, 1, 2, 2]);
    assert_eq!(OrderKind::ALL.map(|(kind, _)| info.quorum.needed(kind)), [1, 2, 2, 1, 2, 2]);
}

#[test]
fn what_gathered_is_void_once_the_operators_have_changed() {
    let [one, two, three] = keys();
    let info = strict(&[&one, &two, &three], 2);
    let paused = done(&one.sign_store(&info, pause(), AT), &info).unwrap();
    let (waiting, _) = waits(&three.sign_store(&paused, StoreChange::Resume, AT), &paused);
    let late = two.sign_store(&waiting, StoreChange::Resume, AT);
    let (waiting, _) = waits(&one.sign_store(&waiting, operators(&[&one, &two]), AT), &waiting);
    assert_eq!(waiting.waiting.len(), 2, "several orders gather beside each other");
    let removed = done(&two.sign_store(&waiting, operators(&[&one, &two]), AT), &waiting).unwrap();
    assert_eq!((removed.operator_keys.len(), removed.waiting.len()), (2, 0));
    assert!(is_invalid(&late.carry_out(&removed, AT)), "the signature of a removed operator does not count");
    let (_, have) = waits(&two.sign_store(&removed, StoreChange::Resume, AT), &removed);
    assert_eq!(have, 1);
}

#[test]
fn other_orders_do_not_void_what_gathers_and_a_day_does() {
    let [one, two, three] = keys();
    let info = strict(&[&one, &two, &three], 2);
    let added = StoreChange::Quorum { rules: StoreQuorum { quorum: 3, ..StoreQuorum::default() } };
    let (waiting, _) = waits(&one.sign_store(&info, added.clone(), AT), &info);
    // An operator that may act alone does not keep the others from coming together.
    let paused = done(&three.sign_store(&waiting, pause(), AT), &waiting).unwrap();
    let second = two.sign_store(&paused, added.clone(), AT);
    let changed = done(&second, &paused).unwrap();
    assert_eq!((changed.quorum.quorum, changed.orders), (3, paused.orders + 1));
    let later = AT + WAITS;
    let fresh = two.sign_store(&paused, added, later);
    assert_ne!(fresh.order, second.order, "nobody signs an order that has expired");
    assert!(is_invalid(&second.carry_out(&paused, later)));
    assert!(paused.waiting[0].check(&paused, paused.orders + 1, later).is_err());
    assert!(paused.waiting[0].is_live(&paused, AT + WAITS.minus(Span::millis(1))));
}

/// Whoever recorded the signatures of an order that became void cannot have it carried out with them later.
#[test]
fn an_order_that_became_void_does_not_begin_again() {
    let [one, two, three] = keys();
    let info = strict(&[&one, &two, &three], 3);
    let paused = done(&one.sign_store(&info, pause(), AT), &info).unwrap();
    let first = one.sign_store(&paused, StoreChange::Resume, AT);
    let (waiting, _) = waits(&first, &paused);
    let second = two.sign_store(&waiting, StoreChange::Resume, AT);
    let (waiting, have) = waits(&second, &waiting);
    assert_eq!(have, 2);
    let later = AT + WAITS;
    for recorded in [&first, &second] {
        assert!(is_invalid(&recorded.carry_out(&waiting, later)), "not from the record that still has it");
    }
    // Another order begins, and the void one is taken out of the record.
    let add = operators(&[&one, &two, &three, &OperatorKey::from_seed([9; 32])]);
    let (since, _) = three.sign_store(&waiting, add, later).carry_out(&waiting, later).unwrap();
    assert_eq!(since.waiting.len(), 1);
    for recorded in [&first, &second] {
        assert!(is_invalid(&recorded.carry_out(&since, later)), "nor from one without it");
    }
    let (anew, _) = three.sign_store(&since, StoreChange::Resume, later).carry_out(&since, later).unwrap();
    assert!(anew.waiting.iter().all(|one| one.signed.len() == 1), "the same change is another order");
}

/// As after a restore: nobody knows which numbers were used.
#[test]
fn orders_up_to_the_floor_count_nowhere() {
    let [one, two] = keys();
    let founded = info(&[&one]);
    let recorded = one.sign_store(&founded, operators(&[&one, &two]), AT);
    let restored = StoreInfo { floor: 1 << 32, ..founded };
    assert!(is_invalid(&done(&recorded, &restored)));
    let next = done(&one.sign_store(&restored, pause(), AT), &restored).unwrap();
    assert_eq!((next.orders, next.last_order.as_ref().map(|last| last.number)), ((1 << 32) + 1, Some(2)));
    assert!(is_invalid(&done(&recorded, &next)));
}

#[test]
fn one_acts_alone_only_where_the_store_lets_it_and_for_a_reason() {
    let [one, two] = keys();
    let mut info = strict(&[&one, &two], 2);
    let alone = |info: &StoreInfo, why: &str| {
        one.sign_store_urgently(info, StoreChange::Resume, Some(why.to_string()), AT).carry_out(info, AT)
    };
    assert!(is_invalid(&alone(&info, "fire")));
    info.quorum.break_glass = true;
    assert!(is_invalid(&alone(&info, " ")));
    assert!(matches!(alone(&info, "fire"), Ok((_, OrderOutcome::Done))));
}

#[test]
fn a_record_that_others_wrote_gets_no_signature_for_another_place() {
    let [one, two] = keys();
    let info = strict(&[&one, &two], 2);
    let (waiting, _) = waits(&one.sign_store(&info, StoreChange::Resume, AT), &info);
    let next = waiting.orders + 1;
    let good = &waiting.waiting[0];
    assert_eq!(good.check(&waiting, next, AT), Ok(()));
    let mut bad = good.clone();
    bad.order.store = StoreId([9; 8]);
    assert!(is_wrong_key(&bad.check(&waiting, next, AT)));
    let mut bad = good.clone();
    bad.order.number = next + 1;
    assert!(is_wrong_key(&bad.check(&waiting, next, AT)));
    let mut bad = good.clone();
    bad.order.break_glass = Some("alone".to_string());
    assert!(is_wrong_key(&bad.check(&waiting, next, AT)));
}

#[test]
fn operators_have_names_that_can_be_told_apart() {
    let [one, two, other] = keys();
    let info = info(&[&one, &two]);
    let named = |names: &[(&OperatorKey, &str)]| StoreChange::Operators {
        after: vec![one.public(), two.public()],
        names: names.iter().map(|(key, name)| (key.public(), (*name).to_string())).collect(),
    };
    let after = |change| done(&one.sign_store(&info, change, AT), &info);
    let both = after(named(&[(&one, "Ada"), (&two, "Ben Ö.")])).unwrap();
    assert_eq!(both.operator_names.len(), 2);
    for bad in ["", " Ada", "A\u{202e}da", "A\nda", "A\u{200b}da", &"x".repeat(MAX_NAME_CHARS + 1)] {
        assert!(is_invalid(&after(named(&[(&one, bad)]))), "{bad:?}");
    }
    assert!(is_invalid(&after(named(&[(&one, "Ada"), (&two, "ADA")]))), "the same name");
    assert!(is_invalid(&after(named(&[(&other, "Ada")]))), "of nobody");
    // An operator that was removed keeps its name in the logs; a name can be taken away.
    let left = done(&one.sign_store(&both, operators(&[&one]), AT), &both).unwrap();
    let names: Vec<&str> = left.operator_names.values().map(String::as_str).collect();
    assert_eq!(names, ["Ben Ö."]);
}

#[test]
fn one_operator_does_not_fill_the_record() {
    let [one, two, other] = keys();
    let mut at = strict(&[&one, &two], 2);
    for seed in 10..10 + u8::try_from(MAX_OF_ONE).unwrap() {
        let key = OperatorKey::from_seed([seed; 32]);
        at = waits(&one.sign_store(&at, operators(&[&one, &two, &key]), AT), &at).0;
    }
    assert!(is_invalid(&one.sign_store(&at, StoreChange::Resume, AT).carry_out(&at, AT)));
    assert!(two.sign_store(&at, operators(&[&one, &two, &other]), AT).carry_out(&at, AT).is_ok());
}
