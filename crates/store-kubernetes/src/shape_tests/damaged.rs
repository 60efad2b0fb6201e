//! What cannot be read.

use super::*;

fn error(lease: &Lease) -> StoreError {
    read(&name(), lease, &info(), "the Lease").unwrap_err()
}

#[test]
fn what_is_half_written_or_contradicts_itself_is_corrupt() {
    type Damage = fn(&mut Lease);
    let cases: [(Damage, &str); 11] = [
        (|lease| annotated(lease, RECORD, Some("{\"format\": 1, \"epo")), "not a record of Baton"),
        (|lease| annotated(lease, RECORD, Some("{\"format\": 99}")), "newer Baton"),
        (|lease| annotated(lease, RECORD, None), "baton.dev/record is missing"),
        (|lease| annotated(lease, BASE, None), "baton.dev/base is missing"),
        (|lease| annotated(lease, BASE, Some("x")), "no number"),
        (|lease| annotated(lease, HOLDER, None), "baton.dev/holder is missing"),
        (|lease| annotated(lease, TRANSITIONS, None), "baton.dev/transitions is missing"),
        (|lease| annotated(lease, RENEWED, None), "baton.dev/renewed is missing"),
        (|lease| annotated(lease, TRANSITIONS, Some("-1")), "no number"),
        (|lease| annotated(lease, BASE, Some("50")), "its base and transitions make 50"),
        (
            |lease| {
                spec(lease).holder_identity = Some("b_0101010101010101".into());
                annotated(lease, HOLDER, Some("b_0101010101010101"));
            },
            "by its record it is `agent-a_0101010101010101`",
        ),
    ];
    for (damage, why) in cases {
        let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
        damage(&mut lease);
        let error = error(&lease);
        assert_eq!(matches!(error, StoreError::Newer { .. }), why == "newer Baton", "{error:?}");
        assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert!(error.to_string().contains("the Lease"), "{error}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn a_damaged_record_is_corrupt_under_a_foreign_holder_too() {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    take(&mut lease, "host-1", 1_800_000_000);
    annotated(&mut lease, RECORD, Some("{"));
    assert!(matches!(error(&lease), StoreError::Corrupt { .. }));
}

#[test]
fn another_election_s_record_and_odd_resource_versions_are_refused() {
    let (mut lease, _) = put(None, &led(101), AgeStamp::Reset, 900);
    let other = ElectionName::new("other").unwrap();
    assert!(read(&other, &lease, &info(), "here").unwrap_err().to_string().contains("something else"));
    for odd in [None, Some("abc".to_string())] {
        lease.metadata.resource_version = odd;
        assert!(matches!(error(&lease), StoreError::Refused { .. }));
    }
}
