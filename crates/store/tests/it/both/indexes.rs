//! Indexes agree with the records after any change, and return the same as a scan of all records.

use std::ops::Bound;

use forebay_store::{
    Durability, Key, Options, Read, Store, StoreError, Transaction,
    index::{Definition, Place, Query, Step},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Home;

fn records() -> Key {
    Key::global("P").unwrap().child("data").unwrap()
}

fn definition(name: &str, fields: &[&[&str]], unique: bool) -> Definition {
    Definition {
        name: name.into(),
        records: records(),
        fields: fields
            .iter()
            .map(|field| field.iter().map(|step| (*step).to_owned()).collect())
            .collect(),
        unique,
    }
}

fn found(store: &impl Read, index: &str, query: &Query) -> Vec<String> {
    store
        .query(index, query)
        .unwrap()
        .map(|record| record.unwrap().text())
        .collect()
}

fn equal(values: &[Value]) -> Query {
    Query {
        equal: values
            .iter()
            .map(|value| value.to_string().into_bytes())
            .collect(),
        ..Query::default()
    }
}

fn people(store: &Store) {
    store
        .transact(|transaction| {
            transaction.define_index(&definition("name", &[&["last"], &["first"]], false))?;
            transaction.put(
                &records().child("1")?,
                br#"{"first":"Ada","last":"L","tags":["x","y"],"age":36}"#,
            )?;
            transaction.put(
                &records().child("2")?,
                br#"{"first":"Bob","last":"L","tags":["y"],"age":9}"#,
            )?;
            transaction.put(
                &records().child("10")?,
                br#"{"first":"Cid","last":"K","tags":[],"age":100.5}"#,
            )?;
            // Defined late, so that existing records have to be added.
            transaction.define_index(&definition("tag", &[&["tags", "*"]], false))?;
            transaction.define_index(&definition("age", &[&["age"]], true))
        })
        .unwrap();
}

#[test]
fn a_walk_goes_on_behind_any_place() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    people(&store);
    let snapshot = store.snapshot().unwrap();
    for reverse in [false, true] {
        for index in ["tag", "name", "age"] {
            let query = Query {
                reverse,
                ..Query::default()
            };
            let mut place = Place::default();
            let mut names = Vec::new();
            loop {
                // Continues from the serialised position alone, as a client sends it back.
                let mut walk = snapshot.query_behind(index, &query, place).unwrap();
                match walk.step().unwrap() {
                    Step::Record(record) => names.push(record.text()),
                    Step::Repeated => {}
                    Step::End => break,
                }
                place = Place::from_bytes(walk.place().bytes().unwrap()).unwrap();
            }
            assert_eq!(names, found(&snapshot, index, &query), "{index} {reverse}");
        }
    }
    assert!(Place::from_bytes(&[0; 1901]).is_none());
}

#[test]
fn records_are_found_by_their_values() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    people(&store);
    let mut snapshot = store.snapshot().unwrap();
    assert_eq!(found(&snapshot, "name", &equal(&[json!("L")])), ["1", "2"]);
    assert_eq!(
        found(&snapshot, "name", &equal(&[json!("L"), json!("Bob")])),
        ["2"]
    );
    assert_eq!(found(&snapshot, "name", &equal(&[json!("M")])), [""; 0]);
    assert_eq!(found(&snapshot, "tag", &equal(&[json!("y")])), ["1", "2"]);
    assert_eq!(found(&snapshot, "tag", &Query::default()), ["1", "2"]);
    assert_eq!(found(&snapshot, "age", &Query::default()), ["2", "1", "10"]);
    let ranged = |from: Bound<&str>, to: Bound<&str>, reverse| Query {
        equal: Vec::new(),
        from: from.map(|value| value.as_bytes().to_vec()),
        to: to.map(|value| value.as_bytes().to_vec()),
        reverse,
    };
    let (at, above) = (Bound::Included, Bound::Excluded);
    assert_eq!(
        found(&snapshot, "age", &ranged(at("9"), above("100.5"), false)),
        ["2", "1"]
    );
    assert_eq!(
        found(&snapshot, "age", &ranged(above("9.0"), at("100.50"), true)),
        ["10", "1"]
    );
    assert!(matches!(
        snapshot.query("age", &equal(&[json!(1), json!(2)])),
        Err(StoreError::Index { .. })
    ));
    assert!(matches!(
        snapshot.query("none", &Query::default()),
        Err(StoreError::Index { .. })
    ));
    assert_eq!(snapshot.verify_indexes().unwrap(), 3 + 3 + 3);
}

#[test]
fn a_value_that_may_come_once_comes_once() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    people(&store);
    let mut transaction = store.begin().unwrap();
    let twice = transaction.set(&records().child("2").unwrap().child("age").unwrap(), b"36.0");
    assert!(
        matches!(twice, Err(StoreError::NotUnique { ref record, .. }) if record == "1"),
        "{twice:?}"
    );
    assert!(matches!(
        transaction.commit(Durability::Relaxed),
        Err(StoreError::Broken)
    ));
    // Writing the same value to the same record again is no duplicate.
    store
        .transact(|transaction| {
            transaction.put(&records().child("1")?, br#"{"age":36}"#)?;
            transaction.kill(&records().child("2")?)?;
            transaction.put(&records().child("3")?, br#"{"age":9}"#)
        })
        .unwrap();
    let refused =
        store.transact(|transaction| transaction.define_index(&definition("tag", &[&["age"]], true)));
    assert!(matches!(refused, Err(StoreError::Index { .. })));
    assert_eq!(store.snapshot().unwrap().indexes().unwrap().len(), 3);
    assert!(
        store
            .transact(|transaction| transaction.drop_index("tag"))
            .unwrap()
    );
    assert!(
        !store
            .transact(|transaction| transaction.drop_index("tag"))
            .unwrap()
    );
    assert_eq!(store.snapshot().unwrap().indexes().unwrap().len(), 2);
}

#[test]
fn records_can_change_values_among_each_other() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let by_age = |age| found(&store.snapshot().unwrap(), "age", &equal(&[json!(age)]));
    store
        .transact(|transaction| {
            transaction.define_index(&definition("age", &[&["age"]], true))?;
            transaction.put(&records(), br#"{"1":{"age":1},"2":{"age":2},"3":{"age":3}}"#)
        })
        .unwrap();
    store
        .transact(|transaction| transaction.lay_over(&records(), br#"{"1":{"age":2},"2":{"age":1}}"#))
        .unwrap();
    assert_eq!(
        (by_age(1), by_age(2)),
        (vec!["2".to_owned()], vec!["1".to_owned()])
    );
    let taken =
        store.transact(|transaction| transaction.lay_over(&records(), br#"{"1":{"age":3},"2":{"age":2}}"#));
    assert!(matches!(taken, Err(StoreError::NotUnique { .. })), "{taken:?}");
    assert_eq!(store.snapshot().unwrap().verify_indexes().unwrap(), 3);
}

/// A damaged record reveals whether it is read: reading it is an error.
#[test]
fn a_change_looks_at_no_record_and_no_field_that_it_does_not_concern() {
    let folder = Home::new();
    // Every value is stored on its own.
    let options = Options {
        pack_bytes_max: 0,
        ..Options::default()
    };
    let parent = records().parent().unwrap();
    let store = Store::open(folder.path(), &options).unwrap();
    store
        .transact(|transaction| {
            transaction.define_index(&definition("name", &[&["last"], &["tags", "*"]], false))?;
            transaction.put(
                &records().child("1")?,
                br#"{"last":"damaged soon","tags":["x"],"age":1}"#,
            )?;
            transaction.put(
                &records().child("2")?,
                br#"{"last":"L","tags":["x"],"note":"this as well"}"#,
            )?;
            transaction.put(
                &Key::global("Q")?,
                br#"{"data":{"2":{"last":"M"},"3":{"last":"N","tags":["y"]}}}"#,
            )
        })
        .unwrap();
    drop(store);
    for wanted in [&b"\"damaged soon\""[..], b"\"this as well\""] {
        folder.damage(wanted);
    }
    let store = Store::open(folder.path(), &options).unwrap();
    store
        .transact(|transaction| {
            transaction.lay_over(&parent, br#"{"nextId":5}"#)?;
            transaction.lay_over(&records(), br#"{"2":{"tags":["z"]}}"#)?;
            transaction.merge(&parent, &Key::global("Q")?)?;
            transaction.set(&records().child("2")?.child("last")?, b"\"O\"")?;
            transaction.set(&records().child("1")?.child("age")?, b"2")
        })
        .unwrap();
    let snapshot = store.snapshot().unwrap();
    let found = |last, tag| found(&snapshot, "name", &equal(&[json!(last), json!(tag)]));
    assert_eq!(
        (found("O", "z"), found("N", "y")),
        (vec!["2".to_owned()], vec!["3".to_owned()])
    );
    assert_eq!(found("damaged soon", "x"), ["1"]);
    let damaged = store.transact(|transaction| transaction.kill(&records().child("1")?));
    assert!(matches!(damaged, Err(StoreError::Damaged { .. })), "{damaged:?}");
}

#[test]
fn a_value_that_begins_like_another_is_another() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    store
        .transact(|transaction| {
            transaction.define_index(&definition("x", &[&["x"]], true))?;
            for (record, value) in [("1", "a\\u0000b"), ("2", "a"), ("3", ""), ("4", "\\u0000")] {
                transaction.put(
                    &records().child(record)?,
                    format!("{{\"x\":\"{value}\"}}").as_bytes(),
                )?;
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
    let snapshot = store.snapshot().unwrap();
    assert_eq!(found(&snapshot, "x", &equal(&[json!("a")])), ["2"]);
    assert_eq!(found(&snapshot, "x", &Query::default()), ["3", "4", "2", "1"]);
}

#[test]
fn what_is_refused_changes_nothing_and_the_transaction_goes_on() {
    let folder = Home::new();
    let store = Store::open(folder.path(), &Options::default()).unwrap();
    let one = records().child("1").unwrap();
    let name = "n".repeat(1895);
    store
        .transact(|transaction| {
            transaction.define_index(&definition("a", &[&["a"]], false))?;
            transaction.put(&one, b"{\"a\":1}")?;
            let refused = transaction.lay_over(&one, format!("{{\"a\":2,\"{name}\":1}}").as_bytes());
            assert!(matches!(refused, Err(StoreError::Key(_))), "{refused:?}");
            transaction.put(
                &Key::global("Q")?.child("x")?,
                format!("{{\"a\":2,\"{}\":1}}", &name[..1800]).as_bytes(),
            )?;
            let deep = records().child(&"d".repeat(300))?;
            let refused = transaction.merge(&deep, &Key::global("Q")?.child("x")?);
            assert!(matches!(refused, Err(StoreError::Key(_))), "{refused:?}");
            transaction.set(&records().child("2")?.child("a")?, b"3")
        })
        .unwrap();
    let mut snapshot = store.snapshot().unwrap();
    snapshot.verify_indexes().unwrap();
    assert_eq!(
        *snapshot.document(&records()).unwrap().unwrap(),
        b"{\"1\":{\"a\":1},\"2\":{\"a\":3}}"[..]
    );
}

#[test]
fn definitions_are_read_as_they_are_written() {
    let first = definition("by \"x\"", &[&["a", "*"], &[]], true);
    assert_eq!(Definition::from_json(&first.to_json()).unwrap(), first);
    assert!(Definition::from_json(b"{}").is_err());
}

#[derive(Clone, Debug)]
enum Operation {
    Put(Vec<String>, Value),
    LayOver(Vec<String>, Value),
    Kill(Vec<String>),
    Merge(Vec<String>, Vec<String>),
    /// Merges a document into the records or a node above them.
    MergeAbove(Vec<String>, Value),
}

fn path() -> impl Strategy<Value = Vec<String>> {
    let name = prop_oneof![3 => (0..3).prop_map(|index: i32| index.to_string()), 2 => Just("a".to_owned()), 2 => Just("t".to_owned())];
    let below = proptest::collection::vec(name, 0..4);
    prop_oneof![
        8 => below.clone().prop_map(|below| [vec!["data".to_owned()], below].concat()),
        1 => below,
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        (0..3).prop_map(Value::from),
        "[xy]?".prop_map(Value::from),
        Just(Value::Null),
        Just(json!(true))
    ];
    let tags = proptest::collection::vec(scalar.clone(), 0..3).prop_map(Value::from);
    let record = (scalar.clone(), tags.clone()).prop_map(|(a, t)| json!({"a": a, "t": t}));
    prop_oneof![
        scalar,
        tags,
        record.clone(),
        (record.clone(), record).prop_map(|(one, other)| json!({"1": one, "2": other}))
    ]
}

/// The records or a node above them, with a document that names some records or none.
fn above() -> impl Strategy<Value = (Vec<String>, Value)> {
    prop_oneof![
        value().prop_map(|value| (vec!["data".to_owned()], value)),
        value().prop_map(|value| (Vec::new(), json!({"data": value, "next": 3}))),
        value().prop_map(|value| (Vec::new(), value)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (path(), value()).prop_map(|(path, value)| Operation::Put(path, value)),
        2 => (path(), value()).prop_map(|(path, value)| Operation::LayOver(path, value)),
        2 => path().prop_map(Operation::Kill),
        1 => (path(), path()).prop_map(|(to, from)| Operation::Merge(to, from)),
        1 => above().prop_map(|(path, value)| Operation::Put(path, value)),
        2 => above().prop_map(|(path, value)| Operation::LayOver(path, value)),
        2 => above().prop_map(|(path, value)| Operation::MergeAbove(path, value)),
    ]
}

impl Operation {
    fn on(&self, transaction: &mut Transaction) -> Result<(), StoreError> {
        let key = |path: &[String]| {
            path.iter()
                .try_fold(Key::global("P")?, |key, name| key.child(name))
        };
        match self {
            Self::Put(path, value) => transaction.put(&key(path)?, value.to_string().as_bytes()),
            Self::LayOver(path, value) => transaction.lay_over(&key(path)?, value.to_string().as_bytes()),
            Self::Kill(path) => transaction.kill(&key(path)?).map(|_| ()),
            Self::Merge(to, from) => transaction.merge(&key(to)?, &key(from)?),
            Self::MergeAbove(to, value) => {
                let from = Key::global("Q")?;
                transaction.put(&from, value.to_string().as_bytes())?;
                transaction.merge(&key(to)?, &from)
            }
        }
    }
}

/// Records with the scalar at a field, found by a scan of all records.
fn searched(store: &impl Read, field: &str, each: bool, wanted: &Value) -> Vec<String> {
    let all = store
        .children(&records(), forebay_store::Range::default())
        .unwrap();
    let matching = all.map(|record| record.unwrap().text()).filter(|record| {
        let document = store
            .document(&records().child(record).unwrap())
            .unwrap()
            .unwrap();
        let document: Value = serde_json::from_slice(&document).unwrap();
        match &document[field] {
            Value::Array(elements) if each => elements.contains(wanted),
            other => !each && other == wanted && document.get(field).is_some(),
        }
    });
    matching.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150 / Home::FEWER_CASES, ..ProptestConfig::default() })]

    #[test]
    fn indexes_agree_with_the_records_after_any_change(
        operations in proptest::collection::vec(operation(), 1..25),
        pack_bytes_max in prop_oneof![Just(0), Just(16), Just(2048)],
    ) {
        let folder = Home::new();
        let store = Store::open(folder.path(), &Options { pack_bytes_max, ..Options::default() }).unwrap();
        store.transact(|transaction| {
            transaction.define_index(&definition("a", &[&["a"]], false))?;
            transaction.define_index(&definition("t", &[&["t", "*"]], false))
        }).unwrap();
        let mut transaction = store.begin().unwrap();
        for operation in &operations {
            match operation.on(&mut transaction) {
                Ok(()) | Err(StoreError::Overlap { .. }) => {}
                Err(error) => panic!("{operation:?}: {error}"),
            }
            transaction.verify_indexes().unwrap();
            for wanted in [json!(0), json!(1), json!("x"), json!(""), json!(null), json!(true)] {
                for (index, each) in [("a", false), ("t", true)] {
                    let expected = searched(&transaction, index, each, &wanted);
                    prop_assert_eq!(found(&transaction, index, &equal(std::slice::from_ref(&wanted))), expected);
                }
            }
        }
    }
}
