//! Operations on records by reference.

use std::time::Instant;

use forebay_records::{
    Action, Denial, Everything, List, NAMES, Permission, RecordsError, Reference, Settings, create,
    create_named, delete, facade::Records, find, kind_at, kinds, named, patch, replace,
};
use forebay_store::{Key, Options, Read, StoreError, Transaction, facade::Session};

use super::house::{House, NOW_MS, whole_page};

/// Allows writes to `Article` only.
struct Articles;

impl Permission for Articles {
    fn check(&self, kind: &str, _: Action) -> Result<(), Denial> {
        if kind == "Article" {
            Ok(())
        } else {
            Err(Denial::Nobody)
        }
    }
}

fn text(house: &House, reference: u64) -> Option<String> {
    let snapshot = house.store.snapshot().unwrap();
    let (_, key) = find(&snapshot, Reference(reference), house.now_ms.get()).unwrap()?;
    let document = snapshot.document(&key).unwrap()?;
    Some(String::from_utf8(document.into_owned()).unwrap())
}

#[test]
fn a_record_is_a_document_of_its_kinds_global() {
    let house = House::new();
    let reference = house.create(r#"{"title":"Sample","kind":"Article"}"#);
    assert_eq!(reference, 1);
    let snapshot = house.store.snapshot().unwrap();
    let key = Key::global("Article").unwrap().child("1").unwrap();
    assert_eq!(
        snapshot.document(&key).unwrap().as_deref(),
        Some(&br#"{"kind":"Article","title":"Sample"}"#[..])
    );
    assert_eq!(
        kind_at(&snapshot, Reference(1), NOW_MS).unwrap().as_deref(),
        Some("Article")
    );
    assert_eq!(kinds(&snapshot).unwrap(), ["Article"]);
}

#[test]
fn a_reference_stays_with_its_record_and_is_never_given_again() {
    let house = House::new();
    let one = house.create(r#"{"kind":"Article"}"#);
    let two = house.create(r#"{"kind":"Entry"}"#);
    let write = |reference, document: &str| {
        let replace = |transaction: &mut _| {
            replace(
                transaction,
                Reference(reference),
                document.as_bytes(),
                &house.settings,
                &Everything,
                NOW_MS,
            )
        };
        house.store.transact(replace).map(|written| written.kind)
    };
    assert_eq!(write(one, r#"{"kind":"Article","n":2}"#).unwrap(), "Article");
    assert_eq!(write(one, r#"{"kind":"Entry","n":3}"#).unwrap(), "Entry");
    assert_eq!(text(&house, one).unwrap(), r#"{"kind":"Entry","n":3}"#);
    let snapshot = house.store.snapshot().unwrap();
    let before = Key::global("Article").unwrap();
    assert!(
        !snapshot.defined(&before).unwrap().exists(),
        "the record has moved"
    );
    drop(snapshot);
    let removed: Result<_, RecordsError> = house
        .store
        .transact(|transaction| delete(transaction, Reference(two), &Everything, NOW_MS));
    assert_eq!(removed.unwrap().kind, "Entry");
    assert_eq!(text(&house, two), None);
    assert!(matches!(write(two, "{}"), Err(RecordsError::NoRecord { .. })));
    assert_eq!(house.create("{}"), two + 1);
}

#[test]
fn a_patch_can_move_a_record_to_another_kind() {
    let house = House::with(Settings {
        type_key: vec!["meta".to_owned(), "kind".to_owned()],
        ..Settings::default()
    });
    let reference = house.create(r#"{"meta":{"kind":"Article","by":"me"},"n":1}"#);
    let change = |text: &str| {
        let patch = |transaction: &mut _| {
            patch(
                transaction,
                Reference(reference),
                text.as_bytes(),
                &house.settings,
                &Everything,
                NOW_MS,
            )
        };
        house.store.transact(patch).map(|written| written.kind)
    };
    assert_eq!(change(r#"{"n":2,"m":{"a":null,"b":1}}"#).unwrap(), "Article");
    assert_eq!(change(r#"{"meta":{"kind":"Entry"},"m":null}"#).unwrap(), "Entry");
    assert_eq!(
        text(&house, reference).unwrap(),
        r#"{"meta":{"by":"me","kind":"Entry"},"n":2}"#
    );
    assert_eq!(
        change(r#"{"meta":null,"new":{"a":null,"b":[null]}}"#).unwrap(),
        "Record"
    );
    assert_eq!(text(&house, reference).unwrap(), r#"{"n":2,"new":{"b":[null]}}"#);
    assert!(matches!(change("[1]"), Err(RecordsError::NotAnObject { .. })));
}

#[test]
fn what_cannot_be_a_record_or_a_kind_is_refused() {
    let house = House::new();
    let refused = |document: &str| {
        let create = |transaction: &mut _| {
            create(
                transaction,
                document.as_bytes(),
                &house.settings,
                &Everything,
                NOW_MS,
            )
        };
        house.store.transact(create).unwrap_err()
    };
    assert!(matches!(refused("[1]"), RecordsError::NotAnObject { .. }));
    assert!(matches!(refused("7"), RecordsError::NotAnObject { .. }));
    assert!(matches!(
        refused(r#"{"kind":7}"#),
        RecordsError::KindNotText { .. }
    ));
    assert!(matches!(refused("{"), RecordsError::Store(StoreError::Json(_))));
    for kind in ["", "%Ref", "two words", "a/b", &"x".repeat(65)] {
        let error = refused(&format!(r#"{{"kind":"{kind}"}}"#));
        assert!(matches!(error, RecordsError::KindName { .. }), "{kind}: {error}");
    }
    assert_eq!(house.create("{}"), 1, "what was refused has taken no reference");
}

#[test]
fn a_record_moves_only_to_a_kind_that_its_writer_may_write() {
    let house = House::new();
    let reference = house.create(r#"{"kind":"Article"}"#);
    let moved: Result<_, RecordsError> = house.store.transact(|transaction| {
        replace(
            transaction,
            Reference(reference),
            br#"{"kind":"Secret"}"#,
            &house.settings,
            &Articles,
            NOW_MS,
        )
    });
    assert!(matches!(moved, Err(RecordsError::Denied { kind, .. }) if kind == "Secret"));
    let secret = house.create(r#"{"kind":"Secret"}"#);
    let removed: Result<_, RecordsError> = house
        .store
        .transact(|transaction| delete(transaction, Reference(secret), &Articles, NOW_MS));
    assert!(matches!(removed, Err(RecordsError::NoRecord { .. })));
}

#[test]
fn a_record_that_cannot_be_replaced_stays_as_it_was() {
    let house = House::new();
    house.index("by_n", "Entry", &["n"], true);
    let reference = house.create(r#"{"kind":"Article","n":1}"#);
    house.create(r#"{"kind":"Entry","n":1}"#);
    let moved: Result<_, RecordsError> = house.store.transact(|transaction| {
        replace(
            transaction,
            Reference(reference),
            br#"{"kind":"Entry","n":1}"#,
            &house.settings,
            &Everything,
            NOW_MS,
        )
    });
    assert!(matches!(
        moved,
        Err(RecordsError::Store(StoreError::NotUnique { .. }))
    ));
    let deep = format!(
        r#"{{"kind":"Entry","n":{}1{}}}"#,
        "[".repeat(199),
        "]".repeat(199)
    );
    house
        .store
        .transact(|transaction| -> Result<(), RecordsError> {
            let refused = replace(
                transaction,
                Reference(reference),
                deep.as_bytes(),
                &house.settings,
                &Everything,
                NOW_MS,
            );
            assert!(
                refused.is_err_and(|error| error.is_input()),
                "the transaction goes on"
            );
            Ok(())
        })
        .unwrap();
    assert_eq!(text(&house, reference).unwrap(), r#"{"kind":"Article","n":1}"#);
}

/// Puts a document where a record of a kind would be, as a program unaware of records does.
fn lay(house: &House, kind: &str, reference: u64, document: &str) {
    let key = Key::global(kind).unwrap().child(&reference.to_string()).unwrap();
    let put = |transaction: &mut forebay_store::Transaction| transaction.put(&key, document.as_bytes());
    house.store.transact(put).unwrap();
}

#[test]
fn what_was_not_made_as_a_record_takes_no_references_away() {
    let house = House::new();
    let entry = house.create(r#"{"kind":"Entry","n":1}"#);
    let article = house.create(r#"{"kind":"Article","n":2}"#);
    lay(&house, "Article", entry, r#"{"kind":"Article","n":3}"#);
    lay(&house, "Entry", article, r#"{"kind":"Entry","n":4}"#);
    let moved: Result<_, RecordsError> = house.store.transact(|transaction| {
        let document = br#"{"kind":"Entry","n":5}"#;
        replace(
            transaction,
            Reference(article),
            document,
            &house.settings,
            &Everything,
            NOW_MS,
        )
    });
    assert!(
        matches!(&moved, Err(RecordsError::ReferenceTaken { reference: Reference(2), kind }) if kind == "Entry"),
        "{moved:?}"
    );
    let moved: Result<_, RecordsError> = house.store.transact(|transaction| {
        patch(
            transaction,
            Reference(article),
            br#"{"kind":"Entry"}"#,
            &house.settings,
            &Everything,
            NOW_MS,
        )
    });
    assert!(
        matches!(moved, Err(RecordsError::ReferenceTaken { .. })),
        "{moved:?}"
    );
    let moved = house.try_tql(r#"WHERE EQ(n 3) UPDATE {"kind":"Entry","n":3}"#);
    assert!(
        matches!(moved, Err(RecordsError::ReferenceTaken { .. })),
        "{moved:?}"
    );
    // In another kind there is room for it, but it still has no reference there.
    assert_eq!(
        house.tql(r#"WHERE EQ(n 3) UPDATE {"kind":"Other","n":3}"#),
        r#"{"code":0,"updated":[1]}"#
    );
    assert_eq!(text(&house, entry).unwrap(), r#"{"kind":"Entry","n":1}"#);
    assert_eq!(house.tql("WHERE EQ(n 4) DELETE"), r#"{"code":0,"deleted":[2]}"#);
    assert_eq!(text(&house, article).unwrap(), r#"{"kind":"Article","n":2}"#);
    assert_eq!(
        house.tql("WHERE IN(n 3 4) SELECT n"),
        r#"{"code":0,"results":[3]}"#
    );
}

#[test]
fn a_new_record_replaces_nothing_that_lies_where_it_would() {
    let house = House::new();
    house.create(r#"{"kind":"Article"}"#);
    for reference in 2..5 {
        lay(&house, "Article", reference, r#"{"kind":"Article","laid":true}"#);
    }
    assert_eq!(house.create(r#"{"kind":"Entry"}"#), 2, "of another kind");
    assert_eq!(house.create(r#"{"kind":"Article"}"#), 5);
    assert_eq!(house.create(r#"{"kind":"Article"}"#), 6);
    assert_eq!(
        house.tql("WHERE EQ(laid true) SELECT $ref"),
        r#"{"code":0,"results":[2,3,4]}"#
    );
    lay(&house, "Article", 7, "{}");
    lay(&house, "Article", 999_999_999_999_999_999, "{}");
    let full = house.try_tql(r#"INSERT {"kind":"Article"}"#);
    assert!(
        matches!(full, Err(RecordsError::NoReferenceLeft { .. })),
        "{full:?}"
    );
    assert_eq!(house.create(r#"{"kind":"Entry"}"#), 7);
}

#[test]
fn lists_are_in_the_order_of_references_page_by_page() {
    let house = House::new();
    for n in 0..25 {
        house.create(&format!(
            r#"{{"kind":"{}","n":{n}}}"#,
            if n % 5 == 4 { "Other" } else { "Article" }
        ));
    }
    let snapshot = house.store.snapshot().unwrap();
    let page = |list: List| {
        let (mut out, mut in_steps) = (Vec::new(), Vec::new());
        let mut page = list.clone().begin(&snapshot, usize::MAX, NOW_MS).unwrap();
        let next = whole_page(list, &snapshot, NOW_MS, &mut out).unwrap();
        // A step whose time is over before it begins still examines one record.
        while page.step(&snapshot, Some(Instant::now()), &mut in_steps).unwrap() {}
        assert_eq!((&in_steps, page.next()), (&out, next));
        (String::from_utf8(out).unwrap(), next)
    };
    let list = List {
        kind: "Article".to_owned(),
        after: None,
        page: 0,
        size: 8,
        full: false,
    };
    assert_eq!(
        page(list.clone()),
        ("[1,2,3,4,6,7,8,9]".to_owned(), Some(Reference(9)))
    );
    assert_eq!(
        page(List {
            page: 2,
            ..list.clone()
        }),
        ("[21,22,23,24]".to_owned(), None)
    );
    let after = Some(Reference(9));
    assert_eq!(
        page(List {
            after,
            size: 2,
            ..list.clone()
        }),
        ("[11,12]".to_owned(), Some(Reference(12)))
    );
    let full = r#"[{"id":5,"data":{"kind":"Other","n":4}}]"#.to_owned();
    let other = List {
        kind: "Other".to_owned(),
        full: true,
        size: 1,
        ..list.clone()
    };
    assert_eq!(page(other), (full, Some(Reference(5))));
    let long = format!(r#"{{"kind":"Long","list":["{}",2]}}"#, "x".repeat(5000));
    house.create(&long);
    let snapshot = house.store.snapshot().unwrap();
    let list_of_long = List {
        kind: "Long".to_owned(),
        full: true,
        ..list.clone()
    };
    let mut out = Vec::new();
    let mut steps = list_of_long.begin(&snapshot, usize::MAX, NOW_MS).unwrap();
    while steps.step(&snapshot, Some(Instant::now()), &mut out).unwrap() {}
    assert_eq!(
        String::from_utf8(out).unwrap(),
        format!(r#"[{{"id":26,"data":{long}}}]"#)
    );
    assert_eq!(
        page(List {
            kind: "Nothing".to_owned(),
            ..list.clone()
        }),
        ("[]".to_owned(), None)
    );
    for (number, size, is_refused) in [
        (100_000, 1, false),
        (100_001, 1, true),
        (u64::MAX, u64::MAX, true),
    ] {
        let list = List {
            page: number,
            size,
            ..list.clone()
        };
        let outcome = whole_page(list, &snapshot, NOW_MS, &mut Vec::new());
        let refused = matches!(outcome, Err(RecordsError::PageMax { max: 100_000, .. }));
        assert_eq!(refused, is_refused, "{outcome:?}");
    }
}

#[test]
fn a_record_to_which_the_store_gave_another_type_key_is_where_it_was_until_it_is_written_as_a_record() {
    let house = House::new();
    let reference = house.create(r#"{"kind":"Article","n":1}"#);
    house.create(r#"{"kind":"Entry","n":2}"#);
    let key = Key::global("Article").unwrap().child("1").unwrap();
    let put = |transaction: &mut Transaction| transaction.put(&key, br#"{"kind":"Entry","n":1}"#);
    house.store.transact(put).unwrap();
    let answer = |results: &str| format!(r#"{{"code":0,"results":{results}}}"#);
    // It is stored among the articles but claims another kind, so queries for neither kind find it.
    assert_eq!(house.tql("WHERE EQ(kind 'Article') SELECT n"), answer("[]"));
    assert_eq!(house.tql("WHERE EQ(kind 'Entry') SELECT n"), answer("[2]"));
    assert_eq!(house.tql("WHERE EQ(n 1) SELECT kind"), answer(r#"["Entry"]"#));
    assert_eq!(house.tql("WHERE 1 SELECT [kind n]"), answer(r#"[["Entry",1]]"#));
    let snapshot = house.store.snapshot().unwrap();
    let kind = kind_at(&snapshot, Reference(reference), NOW_MS).unwrap();
    assert_eq!(kind.as_deref(), Some("Article"));
    assert_eq!(
        house.tql("WHERE EQ(n 1) AT n UPDATE 3"),
        answer("[]").replace("results", "updated")
    );
    assert_eq!(
        house.tql("WHERE 1 AT n UPDATE 3"),
        answer("[1]").replace("results", "updated")
    );
    assert_eq!(
        house.tql("WHERE EQ(kind 'Entry') SELECT n"),
        answer("[3,2]"),
        "it has moved to where it belongs"
    );
}

#[test]
fn a_name_goes_with_its_record_and_leaves_nothing_behind() {
    let house = House::new();
    let make = |transaction: &mut Transaction| {
        let (settings, document) = (&house.settings, br#"{"kind":"Article"}"#);
        create_named(transaction, "front", document, settings, &Everything, NOW_MS)
            .map(|written| written.reference)
    };
    let found = || named(&house.store.snapshot().unwrap(), "front", NOW_MS).unwrap();
    let names = || {
        house
            .store
            .snapshot()
            .unwrap()
            .defined(&Key::global(NAMES).unwrap())
            .unwrap()
    };
    assert_eq!((found(), names().exists()), (None, false));
    let one = house.store.transact(make).unwrap();
    assert_eq!(found(), Some(one));
    let key = Key::global("Article").unwrap().child("1").unwrap();
    house
        .store
        .transact(|transaction| transaction.kill(&key))
        .unwrap();
    assert_eq!(found(), None, "somebody else has removed the record");
    let two = house.store.transact(make).unwrap();
    assert_eq!(found(), Some(two));
    house
        .store
        .transact(|transaction| delete(transaction, two, &Everything, NOW_MS))
        .unwrap();
    assert_eq!((found(), names().exists()), (None, false));
}

#[test]
fn statements_and_lists_read_more_than_a_snapshot_or_transaction_keeps() {
    let options = Options {
        reader_bytes_max: 100_000,
        ..Options::default()
    };
    let house = House::of(Settings::default(), &options);
    let text = "x".repeat(1000);
    house
        .store
        .transact(|transaction| {
            for n in 0..300 {
                let document = format!(r#"{{"kind":"Note","n":{n},"text":"{text}"}}"#);
                create(
                    transaction,
                    document.as_bytes(),
                    &house.settings,
                    &Everything,
                    NOW_MS,
                )?;
            }
            Ok::<_, RecordsError>(())
        })
        .unwrap();
    let last = "WHERE EQ(kind 'Note') FILTER EQ(n 299) SELECT n";
    let answer = house.tql(last);
    assert!(
        answer.starts_with(r#"{"code":0,"results":["#) && answer.contains("299"),
        "{answer}"
    );
    let mut session = Session::open(house.store.path(), house.store.options()).unwrap();
    let records = Records::new(None).unwrap();
    assert_eq!(
        records.tql(&mut session, last.as_bytes()).unwrap(),
        answer.as_bytes()
    );
    let list = List {
        kind: "Note".into(),
        after: None,
        page: 29,
        size: 10,
        full: false,
    };
    let page = records.list(&mut session, &list).unwrap();
    assert_eq!(page, b"[291,292,293,294,295,296,297,298,299,300]");
    assert_eq!(
        house.tql("WHERE EQ(kind 'Note') FILTER GT(n 297) DELETE"),
        r#"{"code":0,"deleted":[299,300]}"#
    );
}
