//! Merge patches according to RFC 7396, and documents with a size limit.

use forebay_store::{Document, Durability, Key, Options, Read, Store, StoreError};

use super::Home;

fn store() -> (Home, Store) {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    (folder, store)
}

#[test]
fn a_patch_does_what_the_examples_of_rfc_7396_say() {
    let (_folder, store) = store();
    let examples = [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (
            r#"{"a":{"b":"c"}}"#,
            r#"{"a":{"b":"d","c":null}}"#,
            r#"{"a":{"b":"d"}}"#,
        ),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
        ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        // Members removed while others are added, the last member of an object, and nested objects.
        (r#"{"a":1}"#, r#"{"a":null,"b":2}"#, r#"{"b":2}"#),
        (
            r#"{"a":{"b":1},"c":2}"#,
            r#"{"a":{"b":null}}"#,
            r#"{"a":{},"c":2}"#,
        ),
        (r#"[{"a":1}]"#, r#"{"0":{"a":2}}"#, r#"{"0":{"a":2}}"#),
        (r#""scalar""#, r#"{"a":null}"#, "{}"),
    ];
    for (at, (before, patch, after)) in examples.into_iter().enumerate() {
        // Alone in its global, and as an element of an array, which must remain an array.
        for path in [vec![], vec!["0"]] {
            let root = Key::global(&format!("G{at}")).unwrap();
            let mut key = root.clone();
            for subscript in &path {
                key.push(subscript).unwrap();
            }
            let mut transaction = store.begin().unwrap();
            if !path.is_empty() {
                transaction.put(&root, b"[0]").unwrap();
            }
            transaction.put(&key, before.as_bytes()).unwrap();
            transaction.patch(&key, patch.as_bytes()).unwrap();
            let text = String::from_utf8(transaction.document(&root).unwrap().unwrap().to_vec()).unwrap();
            let expected = if path.is_empty() {
                after.to_owned()
            } else {
                format!("[{after}]")
            };
            assert_eq!(text, expected, "{before} patched with {patch}");
            transaction.commit(Durability::Relaxed).unwrap();
        }
    }
}

#[test]
fn a_patch_of_nothing_makes_what_it_has() {
    let (_folder, store) = store();
    let key = Key::global("G").unwrap().child("a").unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.patch(&key, br#"{"b":{"c":1,"d":null}}"#).unwrap();
    assert_eq!(
        transaction.document(&key).unwrap().unwrap(),
        &br#"{"b":{"c":1}}"#[..]
    );
}

#[test]
fn a_value_beside_members_outlives_every_patch_of_them() {
    let (_folder, store) = store();
    for (at, (children, patch, document)) in [
        (r#"{"a":1}"#, r#"{"a":null}"#, r#""x""#),
        (r#"{"a":1}"#, r#"{"a":null,"b":2}"#, r#"{"b":2}"#),
        (r#"{"a":1,"b":2}"#, r#"{"a":null}"#, r#"{"b":2}"#),
        ("[1]", r#"{"a":1}"#, r#"{"a":1}"#),
        (r#"{"a":1}"#, "[2]", "[2]"),
    ]
    .into_iter()
    .enumerate()
    {
        let key = Key::global("G").unwrap().child(&at.to_string()).unwrap();
        let mut transaction = store.begin().unwrap();
        transaction.put(&key, children.as_bytes()).unwrap();
        transaction.set(&key, br#""x""#).unwrap();
        transaction.patch(&key, patch.as_bytes()).unwrap();
        assert_eq!(transaction.get(&key).unwrap(), Some(&br#""x""#[..]), "{patch}");
        assert_eq!(
            transaction.document(&key).unwrap().unwrap(),
            document.as_bytes(),
            "{patch}"
        );
        transaction.commit(Durability::Relaxed).unwrap();
    }
}

#[test]
fn an_object_keeps_its_time_when_its_last_member_is_patched_away() {
    let (_folder, store) = store();
    let key = Key::global("G").unwrap().child("a").unwrap();
    let member = key.child("b").unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.put(&key, br#"{"b":1}"#).unwrap();
    let later = 1 << 50;
    assert!(transaction.expire(&key, Some(later)).unwrap());
    assert!(transaction.expire(&member, Some(later)).unwrap());
    transaction.patch(&key, br#"{"b":null}"#).unwrap();
    assert_eq!(transaction.document(&key).unwrap().unwrap(), &b"{}"[..]);
    assert_eq!(transaction.expires(&key).unwrap(), Some(later));
    assert_eq!(transaction.expires(&member).unwrap(), None);
}

#[test]
fn a_patch_that_is_refused_has_changed_nothing() {
    let (_folder, store) = store();
    let key = Key::global("G").unwrap();
    let mut transaction = store.begin().unwrap();
    transaction.put(&key, b"{\"a\":1}").unwrap();
    let long = "x".repeat(3000);
    let patch = format!("{{\"a\":2,\"b\":{{\"{long}\":1}}}}");
    assert!(matches!(
        transaction.patch(&key, patch.as_bytes()),
        Err(StoreError::Key(_))
    ));
    assert!(matches!(
        transaction.patch(&key, b"{\"a\":2,}"),
        Err(StoreError::Json(_))
    ));
    assert_eq!(transaction.document(&key).unwrap().unwrap(), &b"{\"a\":1}"[..]);
    transaction.commit(Durability::Relaxed).unwrap();
}

#[test]
fn a_document_is_not_put_together_beyond_its_bound() {
    let (_folder, store) = store();
    let key = Key::global("G").unwrap();
    let mut transaction = store.begin().unwrap();
    for index in 0..100 {
        let text = format!("\"{}\"", "x".repeat(1000));
        transaction
            .put(&key.child(&index.to_string()).unwrap(), text.as_bytes())
            .unwrap();
    }
    assert!(matches!(
        transaction.document_within(&key, 50_000),
        Err(StoreError::ValueTooLong { max: 50_000, .. })
    ));
    let whole = transaction.document(&key).unwrap().map(|text| text.to_vec());
    assert_eq!(
        transaction
            .document_within(&key, 200_000)
            .unwrap()
            .map(|text| text.to_vec()),
        whole
    );
    let child = key.child("7").unwrap();
    assert_eq!(
        transaction
            .document_within(&child, 50_000)
            .unwrap()
            .unwrap()
            .len(),
        1002
    );
    assert!(
        transaction
            .document_within(&key.child("x").unwrap(), 1)
            .unwrap()
            .is_none()
    );
}

#[test]
fn names_count_for_the_bound_of_a_document() {
    let (_folder, store) = store();
    let key = Key::global("G").unwrap();
    let mut transaction = store.begin().unwrap();
    // Names with long common prefixes, and characters that take six bytes each in JSON.
    for index in 0..100 {
        let name = format!("{}{index:03}", "\u{1}".repeat(900));
        transaction.put(&key.child(&name).unwrap(), b"1").unwrap();
    }
    let refused = transaction.document_within(&key, 100_000);
    let Err(StoreError::ValueTooLong { bytes, max: 100_000 }) = refused else {
        panic!("{refused:?}")
    };
    assert!(bytes < 110_000, "{bytes} bytes were put together");
    let whole = transaction.document(&key).unwrap().unwrap();
    assert!(whole.len() > 500_000);
    assert_eq!(
        transaction.document_within(&key, whole.len()).unwrap().unwrap(),
        whole
    );
    assert!(transaction.document_within(&key, whole.len() - 1).is_err());
    let in_parts = |bytes_max| {
        let document = transaction.document_walk(&key, usize::MAX, bytes_max).unwrap();
        let Some(Document::Nodes(mut walk)) = document else {
            panic!("{document:?}")
        };
        while walk.step(&transaction, 7, &mut Vec::new())? {}
        Ok::<_, StoreError>(())
    };
    assert!(in_parts(whole.len()).is_ok());
    assert!(in_parts(whole.len() - 1).is_err(), "all parts count");
}

#[test]
fn a_patch_takes_no_time_back() {
    let (_folder, store) = store();
    let node = Key::global("T").unwrap().child("a").unwrap();
    let inner = node.child("in").unwrap();
    for patch in [
        "{}",
        r#"{"in":{"x":null}}"#,
        r#"{"in":null,"y":null}"#,
        "5",
        r#"{"z":1}"#,
    ] {
        store
            .transact(|transaction| {
                transaction.put(&node, br#"{"in":{"x":1},"y":2}"#)?;
                transaction.expire(&node, Some(99_999_999_999_999))?;
                transaction.expire(&inner, Some(88_888_888_888_888))?;
                transaction.patch(&node, patch.as_bytes())
            })
            .unwrap();
        let snapshot = store.snapshot().unwrap();
        assert_eq!(
            snapshot.expires(&node).unwrap(),
            Some(99_999_999_999_999),
            "{patch}"
        );
        let is_there = snapshot.defined(&inner).unwrap().exists();
        let ends = snapshot.ends(&inner.child("x").unwrap()).unwrap();
        let expected = if is_there {
            88_888_888_888_888
        } else {
            99_999_999_999_999
        };
        assert_eq!(ends, Some(expected), "{patch}");
    }
}
