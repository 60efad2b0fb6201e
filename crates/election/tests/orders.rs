//! What operators sign keeps its bytes: an order that was signed by an earlier version fits.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use baton_election::operator::{Act, OperatorKey};
use baton_election::store_order::StoreChange;
use baton_election::tokens::TokenChange;
use baton_election::{Document, ElectionName, Epoch, StoreId, StoreInfo, TokenId, Tokens, WallTime};

#[test]
fn what_is_signed_keeps_its_bytes() {
    let key = OperatorKey::from_seed([7; 32]);
    let store = StoreId([1; 8]);
    let document = Document::new(ElectionName::new("e").unwrap(), store, Epoch(3), &[key.public()]);
    let info = StoreInfo {
        operator_keys: vec![key.public()],
        orders: 4,
        ..StoreInfo::new(store, WallTime::from_unix_millis(0))
    };
    let tokens = Tokens { orders: 5, ..Tokens::default() };
    let act = key.sign(&document, Act::Depose { force: false, reason: "r".to_string() });
    let keys = key.sign_store(
        &info,
        StoreChange::Operators { after: vec![key.public()], names: BTreeMap::new() },
        WallTime::default(),
    );
    let revoke =
        key.sign_tokens(&info, &tokens, TokenChange::Revoke { id: TokenId([2; 6]) }, WallTime::default());
    let [act, keys, revoke] =
        [serde_json::to_string(&act), serde_json::to_string(&keys), serde_json::to_string(&revoke)]
            .map(Result::unwrap);
    let by = r#""by":"ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c""#;
    let signed =
        |order: &str, signature: &str| format!(r#"{{"order":{order},{by},"signature":"{signature}"}}"#);
    let order = r#"{"store":"0101010101010101","election":"e","epoch":3,"number":1,"act":{"act":"depose","force":false,"reason":"r"}}"#;
    assert_eq!(
        act,
        signed(
            order,
            "73a43a97a3ae32e9adf2c2a54748dbab59b41357a58950edf6c6cbe3b1d5809826a5a07cbbc65723ffbeb7044928beffaf189bd4a59a17a78fa48de17ca32409"
        )
    );
    let order = r#"{"store":"0101010101010101","number":5,"change":{"change":"operators","after":["ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c"]}}"#;
    assert_eq!(
        keys,
        signed(
            order,
            "d980160ba6e30bbfb31019e2ae127cfc18acd33966f6e6f9de8dfafc6175ec7c98abfee07805048e4dc7a437465d9a6f360b2e890b6290a9d5e331ec52f75909"
        )
    );
    let order = r#"{"store":"0101010101010101","number":6,"change":{"change":"revoke","id":"020202020202"}}"#;
    assert_eq!(
        revoke,
        signed(
            order,
            "46e84b94635a7372a1eb6e10da08f547a2d3ff0af933f850c8f2037fb3136b19f073bc639e4272b7a7d7ac1016695d2a6f777f5416ecfb148dc5caa0a87ba90b"
        )
    );
}
