//! Importing an export restores the same store.

use forebay_store::{
    Durability, Key, KeyError, Options, Read, Snapshot, Store, StoreError, Subscript,
    index::Definition,
    transfer::{self, ExportOptions, Format, ImportOptions, Progress, TransferError},
    verify,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Home;

/// A write to nodes of a global.
#[derive(Clone, Debug)]
enum Write {
    Set(Vec<String>, Value),
    Put(Vec<String>, Value),
    Kill(Vec<String>),
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => (0..3).prop_map(|index: i32| index.to_string()),
        5 => Just("a".to_owned()),
        1 => Just("a\0\u{1}\"\n".to_owned()),
        1 => Just(String::new()),
        1 => Just("-.5".to_owned()),
        1 => Just(".25".to_owned()),
        1 => Just("100000000000000000000".to_owned()),
        1 => Just("007".to_owned()),
        1 => Just("é\\\u{AD}\u{85}ö".to_owned()),
    ]
}

fn path() -> impl Strategy<Value = Vec<String>> {
    let of = |length: std::ops::Range<usize>| proptest::collection::vec(name(), length);
    prop_oneof![1 => of(0..1), 8 => of(1..3), 2 => of(3..5)]
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-5..5).prop_map(Value::from),
        Just(json!(0.5)),
        Just(json!(-0.25)),
        Just(json!(-0.0)),
        Just(json!(1.0)),
        Just(json!(1e300)),
        Just(json!("5")),
        Just(json!("-.5")),
        Just(json!("0.5")),
        Just(json!("\0true")),
        Just(json!("\0[")),
        Just(json!("\0[]")),
        Just(json!("\0[5")),
        Just(json!("\0nothing")),
        Just(json!("")),
        "[xé\"\0\n]{0,30}".prop_map(Value::from),
    ]
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![4 => scalar(), 1 => Just(json!([])), 1 => Just(json!({}))];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn write() -> impl Strategy<Value = Write> {
    prop_oneof![
        3 => (path(), scalar()).prop_map(|(path, value)| Write::Set(path, value)),
        3 => (path(), document()).prop_map(|(path, value)| Write::Put(path, value)),
        1 => path().prop_map(Write::Kill),
    ]
}

fn key(path: &[String]) -> Key {
    let mut key = Key::global("G").unwrap();
    for name in path {
        key.push(name).unwrap();
    }
    key
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

struct Opened {
    _folder: Home,
    store: Store,
}

fn empty(pack_bytes_max: usize) -> Opened {
    let folder = Home::new();
    let options = Options {
        pack_bytes_max,
        ..Options::default()
    };
    let store = Store::open(folder.path(), &options).unwrap();
    Opened {
        _folder: folder,
        store,
    }
}

fn written(pack_bytes_max: usize, writes: &[Write]) -> Opened {
    let opened = empty(pack_bytes_max);
    let mut transaction = opened.store.begin().unwrap();
    for write in writes {
        match write {
            Write::Set(path, value) => transaction.set(&key(path), value.to_string().as_bytes()),
            Write::Put(path, value) => transaction.put(&key(path), value.to_string().as_bytes()),
            Write::Kill(path) => transaction.kill(&key(path)).map(|_| ()),
        }
        .unwrap();
    }
    transaction.commit(Durability::Relaxed).unwrap();
    opened
}

fn exported(store: &Store, roots: &[Key], options: &ExportOptions) -> String {
    let mut out = Vec::new();
    let mut snapshot = store.snapshot().unwrap();
    let told = transfer::export(&mut snapshot, roots, options, &mut out, &mut |_| ()).unwrap();
    let text = text(&out);
    assert_eq!(
        (told.lines, told.bytes),
        (text.lines().count() as u64, text.len() as u64)
    );
    text
}

fn lines_of(document_bytes_max: usize) -> ExportOptions {
    ExportOptions {
        document_bytes_max,
        ..ExportOptions::default()
    }
}

fn zwr() -> ExportOptions {
    ExportOptions {
        format: Format::Zwr,
        ..ExportOptions::default()
    }
}

fn import(store: &Store, text: &str, options: &ImportOptions) -> Result<Progress, TransferError> {
    transfer::import(store, &mut text.as_bytes(), options, &mut |_| ())
}

/// Compares all reads of two subtrees.
fn compare(left: &Snapshot, right: &Snapshot, key: &Key) {
    assert_eq!(left.get(key).unwrap(), right.get(key).unwrap(), "value of {key}");
    assert_eq!(
        left.defined(key).unwrap(),
        right.defined(key).unwrap(),
        "defined {key}"
    );
    assert_eq!(
        left.is_array(key).unwrap(),
        right.is_array(key).unwrap(),
        "whether {key} is an array"
    );
    assert_eq!(
        left.document(key).unwrap(),
        right.document(key).unwrap(),
        "document of {key}"
    );
    let children = |of: &Snapshot| -> Vec<Subscript> {
        let walk = of.children(key, forebay_store::Range::default()).unwrap();
        walk.map(Result::unwrap).collect()
    };
    assert_eq!(children(left), children(right), "children of {key}");
    for child in children(left) {
        compare(left, right, &key.child(&child.text()).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60 / Home::FEWER_CASES, ..ProptestConfig::default() })]

    #[test]
    fn an_export_gives_the_same_store_and_does_not_tell_how_it_was_laid_out(
        writes in proptest::collection::vec(write(), 1..12),
        batch in 1_usize..4,
        pack_bytes_max in prop_oneof![Just(0_usize), Just(24), Just(1 << 20)],
    ) {
        let packed = written(1 << 20, &writes);
        let apart = written(0, &writes);
        let mixed = written(24, &writes);
        let before = packed.store.snapshot().unwrap();
        for options in [lines_of(0), lines_of(30), lines_of(2048), zwr()] {
            let export = exported(&packed.store, &[], &options);
            prop_assert_eq!(&exported(&apart.store, &[], &options), &export);
            prop_assert_eq!(&exported(&mixed.store, &[], &options), &export);

            let target = empty(pack_bytes_max);
            let bounded = ImportOptions { transaction_lines_max: batch, ..ImportOptions::default() };
            let told = import(&target.store, &export, &bounded).unwrap();
            prop_assert_eq!(told.lines, export.lines().count() as u64);
            prop_assert_eq!(told.committed_lines, told.lines);
            compare(&before, &target.store.snapshot().unwrap(), &key(&[]));
            // Importing the same lines twice has no further effect.
            import(&target.store, &export, &bounded).unwrap();
            compare(&before, &target.store.snapshot().unwrap(), &key(&[]));
        }
    }

    #[test]
    fn an_import_that_ended_early_goes_on_where_it_was(
        writes in proptest::collection::vec(write(), 1..12),
        batch in 1_usize..4,
        cut in any::<prop::sample::Index>(),
        replace in any::<bool>(),
    ) {
        let source = written(24, &writes);
        let export = exported(&source.store, &[], &lines_of(0));
        prop_assume!(!export.is_empty());
        let mut lines: Vec<&str> = export.lines().collect();
        let at = cut.index(lines.len());
        lines.insert(at, "{no line}");
        let target = empty(24);
        let options = ImportOptions { transaction_lines_max: batch, replace, ..ImportOptions::default() };
        let failed = import(&target.store, &lines.join("\n"), &options);
        let Err(TransferError::Line { line, committed, .. }) = failed else {
            panic!("{failed:?}");
        };
        prop_assert_eq!(line, at as u64 + 1);
        prop_assert!(committed < line);
        lines[at] = "";
        let rest = ImportOptions { from_line: committed + 1, ..options };
        import(&target.store, &lines.join("\n"), &rest).unwrap();
        compare(&source.store.snapshot().unwrap(), &target.store.snapshot().unwrap(), &key(&[]));
    }
}

#[test]
fn lines_look_as_their_documentation_says() {
    let opened = empty(2048);
    let put = |path: &[&str], document: &str| {
        let mut key = Key::global("Person").unwrap();
        for name in path {
            key.push(name).unwrap();
        }
        opened
            .store
            .transact(|transaction| transaction.set(&key, document.as_bytes()))
            .unwrap();
    };
    put(&["data", "1"], r#"{"firstName":"Rob","x":0.5}"#);
    put(&["tags"], r#"["a",true]"#);
    put(&["tags"], r#""own""#);
    put(&["-.5", "01"], "null");
    assert_eq!(
        exported(&opened.store, &[], &lines_of(0)),
        r#"{"path":["Person","-.5","01"],"value":null}
{"path":["Person","data",1,"firstName"],"value":"Rob"}
{"path":["Person","data",1,"x"],"value":0.5}
{"path":["Person","tags"],"array":true,"value":"own"}
{"path":["Person","tags",0],"value":"a"}
{"path":["Person","tags",1],"value":true}
"#
    );
    assert_eq!(
        exported(&opened.store, &[], &lines_of(2048)),
        r#"{"path":["Person","-.5"],"document":{"01":null}}
{"path":["Person","data"],"document":{"1":{"firstName":"Rob","x":0.5}}}
{"path":["Person","tags"],"array":true,"value":"own"}
{"path":["Person","tags",0],"value":"a"}
{"path":["Person","tags",1],"value":true}
"#
    );
    assert_eq!(
        exported(&opened.store, &[], &zwr()),
        r#"Forebay store export UTF-8
01-JAN-1970  00:00:00 ZWR
^Person(-.5,"01")=$C(0)_"null"
^Person("data",1,"firstName")="Rob"
^Person("data",1,"x")=".5"
^Person("tags")=$C(0)_"[""own"""
^Person("tags",0)="a"
^Person("tags",1)=$C(0)_"true"
"#
    );
    let lossy = ExportOptions { lossy: true, ..zwr() };
    put(&["n"], "[1.50,1e3,\"5\",{},false]");
    let roots = ["n", "tags"].map(|name| Key::global("Person").unwrap().child(name).unwrap());
    assert_eq!(
        exported(&opened.store, &roots, &lossy)
            .lines()
            .skip(2)
            .collect::<Vec<_>>(),
        [
            r#"^Person("n",0)="1.5""#,
            r#"^Person("n",1)="1000""#,
            r#"^Person("n",2)="5""#,
            r#"^Person("n",3)="""#,
            r#"^Person("n",4)="0""#,
            r#"^Person("tags")="own""#,
            r#"^Person("tags",0)="a""#,
            r#"^Person("tags",1)="1""#,
        ]
    );
}

#[test]
fn a_line_that_cannot_be_is_named_and_nothing_of_its_transaction_is_there() {
    for (line, complaint) in [
        ("{}", "a value is missing at byte 1"),
        (
            r#"{"path":["G"]}"#,
            "one of `value`, `document`, `array` and `expires` is said",
        ),
        (r#"{"path":["G"],"value":[1]}"#, "`value` has children"),
        (r#"{"path":["G"],"value":1,"document":2}"#, "one of `value`"),
        (r#"{"path":["G"],"value":1,"value":2}"#, "a member is there twice"),
        (r#"{"path":["G"],"valeu":1}"#, "`valeu` is no member"),
        (
            r#"{"path":["G"],"value":nul}"#,
            "no JSON value begins like this at byte 22",
        ),
        (r#"{"path":["G",1.0],"value":1}"#, "not in its shortest form"),
        (r#"{"path":["G",null],"value":1}"#, "strings and numbers only"),
        (r#"{"path":[1],"value":1}"#, "the name of a global"),
        (r#"{"path":["a b"],"value":1}"#, "cannot contain ' '"),
        (r#"{"path":["G"],"value":1} x"#, "something after the object"),
        (r#"{"path":["G"],"array":false}"#, "`array` is `true`"),
        (r#"{"path":["G"],"value":"x"#, "a string has no end"),
        (r#"{"path":["G"],"value":[1"#, "an array or object has no end"),
        (r#"{"path":["G"],"value""#, "`:` is missing"),
        (r#"{"path":["G"],"value":"#, "a value is missing"),
        (r#"{"path":["G"],"expires":"x"}"#, "`expires` is a whole number"),
        (
            r#"{"path":["G","none"],"expires":5}"#,
            "there is no such node to end at a time",
        ),
        (
            r#"{"path":["G"],"expires":5,"value":1}"#,
            "a line with `expires` says nothing else",
        ),
        (r#"{"index":{"name":"x"}}"#, "a definition has `name`, `records`"),
        (
            r#"{"index":{},"path":["G"]}"#,
            "a line with `index` says nothing else",
        ),
    ] {
        let opened = empty(2048);
        let text = format!("{{\"path\":[\"G\",0.5],\"value\":1}}\n{line}\n");
        let error = import(&opened.store, &text, &ImportOptions::default()).unwrap_err();
        let said = error.to_string();
        assert!(
            said.starts_with("line 2: ") && said.contains(complaint),
            "{line}: {said}"
        );
        assert!(said.ends_with("the lines up to 0 are in the store"), "{said}");
        assert_eq!(
            opened.store.snapshot().unwrap().defined(&key(&[])).unwrap(),
            forebay_store::Defined::default()
        );
    }
    for (text, complaint) in [
        (
            "GT.M MUPIP EXTRACT\nx GO\n^A\n1\n",
            "line 2: this is neither NDJSON",
        ),
        (
            "x UTF-8\nx ZWR\n^A(1.0)=\"x\"\n",
            "line 3: a number that is not in its shortest form",
        ),
        ("x UTF-8\nx ZWR\n^A(1)=\"x\n", "line 3: a string has no end"),
        (
            "x UTF-8\nx ZWR\n^A(1)=$ZCH(255)\n",
            "line 3: it has bytes that are not UTF-8",
        ),
        ("x\nx ZWR\n^A(1)=$C(300)\n", "line 3: a byte is not above 255"),
        ("x\nx ZWR\n^A(1)=$X(3)\n", "line 3: `$C(` or `$ZCH(` is meant"),
        ("x\nx ZWR\nA(1)=3\n", "line 3: a node's name begins with `^`"),
        ("x\nx ZWR\n^A(1)=3x\n", "line 3: something after the end"),
    ] {
        let opened = empty(2048);
        let error = import(&opened.store, text, &ImportOptions::default())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(complaint), "{text}: {error}");
    }
}

#[test]
fn what_was_in_a_global_goes_only_when_it_is_to_be_replaced() {
    let lines = "{\"path\":[\"G\",\"a\"],\"value\":1}\n{\"path\":[\"H\"],\"value\":2}\n{\"path\":[\"G\",\"b\"],\"value\":3}\n";
    for (replace, expected) in [(false, r#"{"a":1,"b":3,"old":true}"#), (true, r#"{"a":1,"b":3}"#)] {
        let opened = empty(2048);
        opened
            .store
            .transact(|transaction| transaction.put(&key(&[]), b"{\"a\":0,\"old\":true}"))
            .unwrap();
        let options = ImportOptions {
            replace,
            transaction_lines_max: 1,
            ..ImportOptions::default()
        };
        import(&opened.store, lines, &options).unwrap();
        let snapshot = opened.store.snapshot().unwrap();
        assert_eq!(text(&snapshot.document(&key(&[])).unwrap().unwrap()), expected);
    }
}

#[test]
fn times_and_indexes_come_with_everything_else() {
    let opened = empty(2048);
    let (node, list) = (key(&["a".into()]), key(&["list".into()]));
    opened
        .store
        .transact(|transaction| {
            transaction.put(&key(&[]), b"{\"a\":{\"name\":\"Rob\"},\"list\":[1]}")?;
            transaction.set(&list, b"\"own\"")?;
            transaction.define_index(&Definition {
                name: "by_name".into(),
                records: key(&[]),
                fields: vec![vec!["name".into()]],
                unique: true,
            })?;
            transaction.expire(&node, Some(1_795_312_627_000))?;
            transaction.expire(&list, Some(1_795_312_628_000))
        })
        .unwrap();
    let export = exported(&opened.store, &[], &lines_of(0));
    assert!(
        export.ends_with(
            r#"{"path":["G","a"],"expires":1795312627000}
{"path":["G","list"],"expires":1795312628000}
{"index":{"fields":[["name"]],"name":"by_name","records":["G"],"unique":true}}
"#
        ),
        "{export}"
    );
    let target = empty(2048);
    for options in [
        ImportOptions::default(),
        ImportOptions::default(),
        ImportOptions {
            replace: true,
            transaction_lines_max: 1,
            ..ImportOptions::default()
        },
    ] {
        import(&target.store, &export, &options).unwrap();
        assert_eq!(exported(&target.store, &[], &lines_of(0)), export);
        assert_eq!(target.store.snapshot().unwrap().verify_indexes().unwrap(), 1);
    }
    assert_eq!(
        exported(&opened.store, &[list], &lines_of(0)).lines().last(),
        Some(r#"{"path":["G","list"],"expires":1795312628000}"#)
    );
    assert!(!exported(&opened.store, &[], &zwr()).contains("1795312627000"));
}

#[test]
fn a_document_as_deep_as_documents_can_be_and_a_long_array_come_through() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let long = format!("[{}0]", "\"some text\",".repeat(20_000));
    let opened = empty(2048);
    opened
        .store
        .transact(|transaction| {
            transaction.put(&Key::global("Deep")?, deep.as_bytes())?;
            transaction.put(&Key::global("Long")?, long.as_bytes())?;
            Ok::<_, StoreError>(())
        })
        .unwrap();
    for options in [lines_of(0), lines_of(2048), zwr()] {
        let export = exported(&opened.store, &[], &options);
        let target = empty(2048);
        import(&target.store, &export, &ImportOptions::default()).unwrap();
        let snapshot = target.store.snapshot().unwrap();
        for (name, document) in [("Deep", &deep), ("Long", &long)] {
            let found = snapshot.document(&Key::global(name).unwrap()).unwrap().unwrap();
            assert!(text(&found) == *document, "{name}");
        }
    }
}

#[test]
fn no_container_lies_so_deep_that_its_document_could_not_be_read_again() {
    let at = |depth| {
        let names = std::iter::repeat_n("0", depth);
        names.fold(Key::global("Deep").unwrap(), |key, name| key.child(name).unwrap())
    };
    for pack_bytes_max in [0, 2048] {
        let opened = empty(pack_bytes_max);
        let mut transaction = opened.store.begin().unwrap();
        for container in ["[]", "{}"] {
            for refused in [
                transaction.set(&at(200), container.as_bytes()),
                transaction.put(&at(199), format!("{{\"0\":{container}}}").as_bytes()),
                transaction.lay_over(&at(199), format!("[{container}]").as_bytes()),
                transaction.patch(&at(199), format!("{{\"0\":{container}}}").as_bytes()),
                transaction
                    .put(&Key::global("From").unwrap(), container.as_bytes())
                    .and_then(|()| transaction.merge(&at(200), &Key::global("From").unwrap())),
            ] {
                assert!(
                    matches!(refused, Err(StoreError::Key(KeyError::TooDeep))),
                    "{refused:?}"
                );
            }
        }
        transaction.put(&at(0), b"[[[]]]").unwrap();
        transaction.set(&at(199), b"[]").unwrap();
        transaction.set(&at(198).child("1").unwrap(), b"{}").unwrap();
        transaction.commit(Durability::Relaxed).unwrap();
        let report = verify::verify(&mut opened.store.snapshot().unwrap(), &mut |_| ()).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        for options in [lines_of(0), lines_of(2048), zwr()] {
            let export = exported(&opened.store, &[at(0)], &options);
            let target = empty(2048);
            import(&target.store, &export, &ImportOptions::default()).unwrap();
            compare(
                &opened.store.snapshot().unwrap(),
                &target.store.snapshot().unwrap(),
                &at(0),
            );
        }
    }
}

#[test]
fn a_global_without_a_name_in_m_is_refused() {
    let opened = empty(2048);
    opened
        .store
        .transact(|transaction| transaction.put(&Key::global("my-global")?, b"1"))
        .unwrap();
    let mut snapshot = opened.store.snapshot().unwrap();
    let error = transfer::export(&mut snapshot, &[], &zwr(), &mut Vec::new(), &mut |_| ()).unwrap_err();
    assert!(
        matches!(&error, TransferError::NotAnMName { name } if name == "my-global"),
        "{error}"
    );
}

#[test]
fn names_are_read_as_m_writes_them() {
    for text in ["^A", "^A(1,-.5,\"x\"\"y\")", "^%Z(\"007\",\"\")"] {
        assert_eq!(transfer::reference(text).unwrap().to_string(), text);
    }
    assert_eq!(
        transfer::reference("^A(\"a\"_$C(10,13)_\"b\",$char(233))").unwrap(),
        Key::global("A")
            .unwrap()
            .child("a\n\rb")
            .unwrap()
            .child("é")
            .unwrap()
    );
    for text in [
        "A", "^A(", "^A(1", "^A()", "^A(1)x", "^A(01)", "^A(abc)", "^", "^A(\"x)",
    ] {
        assert!(transfer::reference(text).is_err(), "{text}");
    }
}
