//! Expired records do not exist, even while the store has not removed them yet.

use forebay_records::{
    Everything, List, RecordsError, Reference, delete, find, find_of_kind, kind_at, patch, replace,
};
use forebay_store::Transaction;

use super::house::{House, NOW_MS, whole_page};

type Change<'c> = &'c dyn Fn(&mut Transaction) -> Result<forebay_records::Written, RecordsError>;

/// Records 1 to 6, of which 2 and 5 expire on their own, and 6 with its whole kind.
fn house() -> House {
    let house = House::new();
    house.index("by_n", "Article", &["n"], false);
    for n in 1..=5 {
        house.create(&format!(r#"{{"kind":"Article","n":{n},"list":[{n},0]}}"#));
    }
    house.create(r#"{"kind":"Short","n":6}"#);
    house.expire("Article", Some(2), NOW_MS + 100);
    house.expire("Article", Some(5), NOW_MS + 100);
    house.expire("Short", None, NOW_MS + 100);
    house
}

#[test]
fn statements_and_lists_find_a_record_until_its_time_has_come() {
    let house = house();
    for (now_ms, all, indexed, list) in [
        (NOW_MS + 99, "[1,2,3,4,5,6]", "[2,3,4,5]", "[1,2,3,4,5]"),
        (NOW_MS + 100, "[1,3,4]", "[3,4]", "[1,3,4]"),
    ] {
        house.now_ms.set(now_ms);
        let answer = |results: &str| format!(r#"{{"code":0,"results":{results}}}"#);
        assert_eq!(house.tql("SELECT $ref"), answer(all));
        assert_eq!(house.tql("SELECT $ref SORT n"), answer(all));
        assert_eq!(
            house.tql("WHERE AND(EQ(kind 'Article') GT(n 1)) SELECT $ref"),
            answer(indexed)
        );
        assert_eq!(house.tql("AT list.0 SELECT $ref"), answer(list));
        let by_reference = if all.contains('2') { "[2]" } else { "[]" };
        assert_eq!(house.tql("WHERE 2 SELECT n"), answer(by_reference));
        let snapshot = house.store.snapshot().unwrap();
        let page = |page: u64, full: bool| {
            let mut out = Vec::new();
            let list = List {
                kind: "Article".to_owned(),
                after: None,
                page,
                size: 100 - 97 * page,
                full,
            };
            whole_page(list, &snapshot, now_ms, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(page(0, false), list);
        assert_eq!(page(0, true).matches("data").count(), list.split(',').count());
        assert_eq!(page(1, false), if all.contains('2') { "[4,5]" } else { "[]" });
    }
}

#[test]
fn nothing_reaches_a_record_whose_time_has_come() {
    let house = house();
    house.now_ms.set(NOW_MS + 100);
    let now_ms = house.now_ms.get();
    let snapshot = house.store.snapshot().unwrap();
    for reference in [2, 5, 6].map(Reference) {
        assert_eq!(find(&snapshot, reference, now_ms).unwrap(), None);
        assert_eq!(kind_at(&snapshot, reference, now_ms).unwrap(), None);
        assert_eq!(
            find_of_kind(&snapshot, "Article", reference, usize::MAX, now_ms).unwrap(),
            None
        );
        let changes: [Change<'_>; 3] = [
            &|transaction| {
                let document = br#"{"kind":"Article"}"#;
                replace(
                    transaction,
                    reference,
                    document,
                    &house.settings,
                    &Everything,
                    now_ms,
                )
            },
            &|transaction| {
                patch(
                    transaction,
                    reference,
                    b"{}",
                    &house.settings,
                    &Everything,
                    now_ms,
                )
            },
            &|transaction| delete(transaction, reference, &Everything, now_ms),
        ];
        for change in changes {
            let refused = house.store.transact(change);
            assert!(
                matches!(refused, Err(RecordsError::NoRecord { .. })),
                "{refused:?}"
            );
        }
        let refused = house.try_tql(&format!("WHERE {reference} UPDATE {{}}"));
        assert!(
            matches!(refused, Err(RecordsError::NoRecord { .. })),
            "{refused:?}"
        );
        assert_eq!(
            house.tql(&format!("WHERE {reference} DELETE")),
            r#"{"code":0,"deleted":[]}"#
        );
    }
}

#[test]
fn what_has_ended_counts_for_no_statement_that_changes() {
    let house = house();
    house.now_ms.set(NOW_MS + 100);
    assert_eq!(
        house.tql(r#"WHERE HAS(n) UPDATE {"kind":"Article","n":0} LIMIT 3"#),
        r#"{"code":0,"updated":[1,3,4]}"#
    );
    assert_eq!(
        house.tql("WHERE EQ(kind 'Article') DELETE LIMIT 3"),
        r#"{"code":0,"deleted":[1,3,4]}"#
    );
    assert_eq!(
        house.tql(r#"WHERE EQ(n 5) INSERT {"kind":"Article","n":5}"#),
        r#"{"code":0,"ref":7}"#
    );
}

#[test]
fn a_record_may_move_to_where_another_one_has_ended() {
    let house = house();
    let key = forebay_store::Key::global("Other").unwrap().child("1").unwrap();
    let put = |transaction: &mut Transaction| transaction.put(&key, br#"{"kind":"Other"}"#);
    house.store.transact(put).unwrap();
    house.expire("Other", Some(1), NOW_MS + 100);
    let update = r#"WHERE 1 UPDATE {"kind":"Other","n":1}"#;
    assert!(matches!(
        house.try_tql(update),
        Err(RecordsError::ReferenceTaken { .. })
    ));
    house.now_ms.set(NOW_MS + 100);
    assert_eq!(house.tql(update), r#"{"code":0,"updated":[1]}"#);
    house.now_ms.set(NOW_MS + 200);
    assert_eq!(house.tql("WHERE 1 SELECT n"), r#"{"code":0,"results":[1]}"#);
}

#[test]
fn a_patch_that_names_the_kind_there_is_leaves_a_record_its_time() {
    let house = house();
    let patched = house.store.transact(|transaction| {
        let change = br#"{"kind":"Article","n":7}"#;
        patch(
            transaction,
            Reference(2),
            change,
            &house.settings,
            &Everything,
            NOW_MS,
        )
    });
    assert_eq!(patched.unwrap().kind, "Article");
    let there = |now_ms| {
        let snapshot = house.store.snapshot().unwrap();
        find(&snapshot, Reference(2), now_ms).unwrap().is_some()
    };
    assert!(there(NOW_MS + 99));
    assert!(!there(NOW_MS + 100));
}

#[test]
fn a_kind_that_has_ended_as_a_whole_begins_anew() {
    let house = house();
    house.now_ms.set(NOW_MS + 100);
    assert_eq!(house.create(r#"{"kind":"Short","n":7}"#), 7);
    let moved = r#"WHERE 1 UPDATE {"kind":"Short","n":8}"#;
    assert_eq!(house.tql(moved), r#"{"code":0,"updated":[1]}"#);
    house.now_ms.set(NOW_MS + 1000);
    let all = "WHERE EQ(kind 'Short') SELECT n";
    assert_eq!(house.tql(all), r#"{"code":0,"results":[8,7]}"#);
}

#[test]
fn a_record_of_which_a_part_is_changed_lasts_as_long_as_before() {
    for change in [
        "WHERE 2 AT list.0 UPDATE 9",
        "WHERE 2 AT list.* DELETE",
        "WHERE 2 AT kind UPDATE \"Other\"",
    ] {
        let house = house();
        assert!(house.tql(change).contains("[2]"), "{change}");
        let there = |now_ms| {
            let snapshot = house.store.snapshot().unwrap();
            find(&snapshot, Reference(2), now_ms).unwrap().is_some()
        };
        assert!(there(NOW_MS + 99), "{change}");
        assert!(!there(NOW_MS + 100), "{change}");
    }
    let house = house();
    house.tql(r#"WHERE 2 UPDATE {"kind":"Article"}"#);
    let snapshot = house.store.snapshot().unwrap();
    assert!(find(&snapshot, Reference(2), NOW_MS + 100).unwrap().is_some());
}
