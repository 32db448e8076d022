//! Limits that end an answer early, or reject a statement.

use std::sync::Arc;

use forebay_records::{
    Action, Denial, Everything, Permission, RecordsError, Reference, Settings, delete,
    tql::{Budget, Execution, Progress, Statement},
};

use forebay_store::{Key, Options, StoreError, Transaction};

use super::house::{House, NOW_MS, articles, results};

#[test]
fn bounds_cut_an_answer_off_and_say_so() {
    let house = House::with(Settings {
        rows_max: 3,
        ..Settings::default()
    });
    for n in 0..5 {
        house.create(&format!(r#"{{"n":{n}}}"#));
    }
    let cut = r#"{"code":0,"results":[0,1,2],"truncated":{"by":"rows_max","limit":3}}"#;
    assert_eq!(house.tql("SELECT n"), cut);
    assert_eq!(house.tql("SELECT n SORT n"), cut);
    assert_eq!(house.tql("SELECT n LIMIT 3"), r#"{"code":0,"results":[0,1,2]}"#);
    assert!(matches!(
        house.try_tql("WHERE HAS(n) DELETE"),
        Err(RecordsError::RowsMax { max: 3 })
    ));
    let house = House::with(Settings {
        examined_max: 3,
        ..Settings::default()
    });
    for n in 0..5 {
        house.create(&format!(r#"{{"n":{n}}}"#));
    }
    assert_eq!(
        house.tql("WHERE EQ(n 2) SELECT n"),
        r#"{"code":0,"results":[2],"truncated":{"by":"examined_max","limit":3}}"#
    );
    assert!(matches!(
        house.try_tql("SELECT n SORT n"),
        Err(RecordsError::ExaminedMax { max: 3 })
    ));
    assert!(matches!(
        house.try_tql("WHERE EQ(n 4) DELETE"),
        Err(RecordsError::ExaminedMax { max: 3 })
    ));
    let house = House::with(Settings {
        answer_bytes_max: 30,
        ..Settings::default()
    });
    for n in 0..5 {
        house.create(&format!(r#"{{"n":"number {n}"}}"#));
    }
    assert_eq!(
        house.tql("SELECT n"),
        r#"{"code":0,"results":["number 0","number 1"],"truncated":{"by":"answer_bytes_max","limit":30}}"#
    );
    assert!(matches!(
        house.try_tql("SELECT n SORT n"),
        Err(RecordsError::AnswerBytesMax { .. })
    ));
}

#[test]
fn a_row_takes_no_more_memory_than_an_answer_may() {
    let house = House::with(Settings {
        answer_bytes_max: 1 << 20,
        ..Settings::default()
    });
    house.create(&format!(r#"{{"text":"{}"}}"#, "x".repeat(100_000)));
    // In full, the row would have 1.5 GB.
    let row = vec!["\"$\""; 15_000].join(",");
    for sort in ["", r#","sort":"text""#] {
        let statement = format!(r#"{{"select":[{row}]{sort}}}"#);
        assert!(matches!(
            house.try_tql(&statement),
            Err(RecordsError::AnswerBytesMax { .. })
        ));
    }
}

#[test]
fn a_record_whose_parts_are_changed_grows_no_longer_than_a_record_may() {
    let house = House::new();
    house.create(&format!(r#"{{"list":[{}0],"list2":[0,0,0]}}"#, "0,".repeat(8999)));
    // In full, the record would have 9 GB.
    let update = format!(r#"WHERE 1 AT list.* UPDATE "{}""#, "x".repeat(1_000_000));
    let refused = house.try_tql(&update);
    assert!(
        matches!(refused, Err(RecordsError::Store(StoreError::ValueTooLong { max, .. })) if max == 64 << 20),
        "{refused:?}"
    );
    assert_eq!(
        results(&house, "WHERE 1 SELECT list2"),
        "[[0,0,0]]",
        "the store goes on"
    );
}

#[test]
fn a_record_that_is_put_together_is_no_longer_than_a_record_may_be() {
    let options = Options {
        value_bytes_max: 10_000,
        ..Options::default()
    };
    let house = House::of(Settings::default(), &options);
    house.create(r#"{"kind":"Long"}"#);
    // Each part is short enough, and the whole was never checked.
    for n in 0..20 {
        let key = Key::global("Long")
            .unwrap()
            .child("1")
            .unwrap()
            .child(&format!("m{n}"))
            .unwrap();
        let set = |transaction: &mut Transaction| {
            transaction.set(&key, format!("\"{}\"", "x".repeat(1000)).as_bytes())
        };
        house.store.transact(set).unwrap();
    }
    for statement in [
        "SELECT kind",
        "WHERE HAS(kind) AT m1 UPDATE 7",
        "WHERE HAS(kind) AT m1 DELETE",
        r#"WHERE EQ(kind 'Long') INSERT {"kind":"Long"}"#,
    ] {
        let refused = house.try_tql(statement);
        assert!(
            matches!(
                refused,
                Err(RecordsError::Store(StoreError::ValueTooLong { max: 10_000, .. }))
            ),
            "{statement}: {refused:?}"
        );
    }
}

#[test]
fn a_statement_looks_at_no_more_of_a_record_than_others_can_wait_for() {
    let house = House::new();
    let text = "a".repeat(50_000);
    house.create(&format!(
        r#"{{"n":1,"texts":[{}"{text}"]}}"#,
        format!("\"{text}\",").repeat(19)
    ));
    house.create(r#"{"n":2,"texts":["b"]}"#);
    let far = "EQ(z 1)".repeat(900);
    let far_row = vec!["\"z\""; 900].join(",");
    for (statement, expected) in [
        ("WHERE REGEX(texts.0 'b$') SELECT n", Some("[2]")),
        // Each text, or a pattern of that size, would be fast enough.
        ("WHERE REGEX(texts.* 'b$') SELECT n", None),
        (r"WHERE REGEX(texts.0 '\w{1,100}b') SELECT n", None),
        ("WHERE OR(EQ(n 1) REGEX(texts.* 'b$')) SELECT n", Some("[1,2]")),
        ("WHERE EQ(n 2) FILTER REGEX(texts.* 'b$') SELECT n", Some("[2]")),
        (&format!("WHERE AND(EQ(n 2) OR({far}))"), Some("[]")),
        (&format!("WHERE AND(EQ(n 1) OR({far}))"), None),
        (&format!(r#"{{"where":1,"select":[{far_row}]}}"#), None),
        ("WHERE REGEX(texts.* 'b$') DELETE", None),
        ("WHERE REGEX($root.texts.* 'b$') AT n UPDATE 5", None),
    ] {
        match (house.try_tql(statement), expected) {
            (Ok(answer), Some(results)) => {
                assert_eq!(
                    answer,
                    format!(r#"{{"code":0,"results":{results}}}"#),
                    "{statement}"
                );
            }
            (Err(RecordsError::WorkMax { max, reference }), None) => {
                assert_eq!((max, reference), (32 << 20, Reference(1)), "{statement}");
            }
            (outcome, _) => panic!("{statement}: {outcome:?}"),
        }
    }
}

#[test]
fn a_statement_that_changes_has_its_time_and_no_more() {
    let house = articles();
    let all = results(&house, "SELECT $");
    for statement in [
        r#"WHERE EQ(kind 'Article') UPDATE {"kind":"Article"}"#,
        r#"WHERE EQ(kind 'Article') UPDATE {"kind":"Article"} LIMIT 0"#,
        "WHERE EQ($root.kind 'Article') AT num DELETE",
        "WHERE EQ(num 7) INSERT {}",
        "WHERE HAS(num) DELETE",
    ] {
        // Whenever the time runs out, nothing has been changed; and there are about two reads of the clock per record.
        let refused = (1..).take_while(|looks| {
            house.looks.set(*looks);
            match house.try_tql(statement) {
                Err(RecordsError::ChangeTimeMax { max }) => {
                    assert_eq!(max, Settings::default().change_time_max);
                    assert_eq!(results(&house, "SELECT $"), all, "{statement}: after {looks}");
                    true
                }
                Err(RecordsError::AlreadyExists { .. }) => false,
                Ok(answer) => {
                    assert!(!answer.is_empty());
                    false
                }
                Err(error) => panic!("{statement}: {error}"),
            }
        });
        let refused = refused.count();
        let expected = if statement.contains("INSERT") {
            8..=9
        } else {
            20..=25
        };
        assert!(expected.contains(&refused), "{statement}: {refused}");
        house.looks.set(u64::MAX);
        house.tql("WHERE HAS(kind) DELETE");
        for n in 0..10 {
            house.create(&format!(
                r#"{{"kind":"Article","title":"Article-{n}","num":{n}}}"#
            ));
        }
    }
}

#[test]
fn parts_of_records_count_as_what_is_changed() {
    let house = House::with(Settings {
        rows_max: 4,
        ..Settings::default()
    });
    house.create(r#"{"list":[0,0,0]}"#);
    house.create(r#"{"list":[0,0]}"#);
    for change in ["UPDATE 1", "DELETE"] {
        let refused = house.try_tql(&format!("WHERE EQ($root.list.0 0) AT list.* {change}"));
        assert!(
            matches!(refused, Err(RecordsError::RowsMax { max: 4 })),
            "{refused:?}"
        );
    }
}

#[test]
fn a_statement_in_small_steps_answers_as_one_at_once() {
    let house = articles();
    let step = Budget {
        records: 1,
        bytes: 1,
        until: None,
    };
    for statement in [
        "SELECT num SORT -num",
        "SELECT num SORT -num LIMIT 3",
        "SELECT num SORT num LIMIT 0",
        "SELECT num SORT num PAGE 3 1",
        "SELECT num SORT -num UNIQUE kind",
        "WHERE GT(num 3) SELECT num",
        "SELECT num UNIQUE kind",
        "EXPLAIN WHERE HAS(num)",
    ] {
        let whole = house.tql(statement);
        assert_eq!(
            house
                .tql_as(statement, &forebay_records::Everything, step)
                .unwrap(),
            whole
        );
    }
}

#[test]
fn sorted_rows_come_in_steps_and_can_be_cut_off() {
    let house = articles();
    let step = Budget {
        records: 100,
        bytes: 1,
        until: None,
    };
    let statement = Arc::new(Statement::read(b"SELECT num SORT num", &house.settings).unwrap());
    let snapshot = house.store.snapshot().unwrap();
    let mut execution = Execution::new(&statement, &house.settings, &snapshot, &Everything, NOW_MS).unwrap();
    let mut out = Vec::new();
    for expected in ["[0", "[0,1", "[0,1,2"] {
        assert_eq!(execution.step(&snapshot, step, &mut out).unwrap(), Progress::More);
        let rows = format!("{{\"code\":0,\"results\":{expected}");
        assert_eq!(String::from_utf8_lossy(&out), rows);
    }
    assert!(execution.cut("deadline", &mut out));
    let cut = r#"{"code":0,"results":[0,1,2],"truncated":{"by":"deadline"}}"#;
    assert_eq!(String::from_utf8_lossy(&out), cut);
}

/// Allows reading `Article` and no writes; a token is required for `Locked`.
struct Reader;

impl Permission for Reader {
    fn check(&self, kind: &str, action: Action) -> Result<(), Denial> {
        match (kind, action) {
            ("Article", Action::Read) => Ok(()),
            ("Article", Action::Write) | ("Locked", _) => Err(Denial::TokenNeeded),
            _ => Err(Denial::Nobody),
        }
    }
}

#[test]
fn a_statement_sees_only_kinds_that_are_the_callers() {
    let house = articles();
    let secret = house.create(r#"{"kind":"Secret","num":3}"#);
    let ask = |statement: &str| house.tql_as(statement, &Reader, Budget::WHOLE);
    assert_eq!(
        ask("WHERE EQ(num 3) SELECT kind").unwrap(),
        r#"{"code":0,"results":["Article"]}"#
    );
    for statement in [
        "WHERE EQ(kind 'Secret')".to_owned(),
        "WHERE EQ(num 3) DELETE".to_owned(),
        r#"INSERT {"kind":"Article"}"#.to_owned(),
        r#"WHERE EQ(num 3) UPDATE {"kind":"Article"}"#.to_owned(),
    ] {
        assert!(
            matches!(ask(&statement), Err(RecordsError::Denied { .. })),
            "{statement}"
        );
    }
    assert_eq!(
        results(&house, "WHERE EQ(num 3) SELECT $ref"),
        format!("[4,{secret}]")
    );
}

#[test]
fn nobody_learns_of_which_kind_a_record_is_that_is_not_theirs() {
    let house = articles();
    let secret = house.create(r#"{"kind":"Secret","num":3}"#);
    let locked = house.create(r#"{"kind":"Locked","num":3}"#);
    let ask = |statement: String| match house.tql_as(&statement, &Reader, Budget::WHOLE) {
        Ok(answer) => answer,
        Err(error) => error.to_string(),
    };
    let none = r#"{"code":0,"results":[]}"#;
    assert_eq!(ask(format!("WHERE {secret}")), none);
    assert_eq!(
        ask(format!("EXPLAIN WHERE {secret}")),
        ask("EXPLAIN WHERE 99".to_owned())
    );
    assert_eq!(
        ask(format!("WHERE {secret} DELETE")),
        ask("WHERE 99 DELETE".to_owned())
    );
    assert_eq!(
        ask(format!("WHERE {secret} UPDATE {{}}")),
        format!("there is no record {secret}")
    );
    for statement in ["", " DELETE", " UPDATE {}"] {
        let answer = ask(format!("WHERE {locked}{statement}"));
        assert_eq!(
            answer,
            format!("a bearer token is needed to read record {locked}")
        );
    }
    let change = |reference: u64| {
        let delete =
            |transaction: &mut _| delete(transaction, Reference(reference), &Reader, NOW_MS).map(|_| ());
        house.store.transact(delete).unwrap_err().to_string()
    };
    assert_eq!(change(secret), format!("there is no record {secret}"));
    assert_eq!(
        change(locked),
        format!("a bearer token is needed to write record {locked}")
    );
    assert_eq!(
        change(1),
        "a bearer token is needed to write records of kind Article"
    );
}

#[test]
fn errors_say_where_and_what_is_accepted() {
    let house = House::new();
    for (statement, syntax, expected) in [
        (
            "WHERE EQ(num",
            true,
            "expected `)`, found the end (line 1, column 13)",
        ),
        ("SELEC x", true, "expected one of EXPLAIN, RID, WHERE"),
        (
            "WHERE EQ(num 3)\n  LIMIT x",
            true,
            "LIMIT takes a whole number from 0 to 9007199254740992, found x (line 2, column 9)",
        ),
        (
            "WHERE EQ(num)",
            true,
            "EQ has two arguments: a path and a value, found 1 (line 1, column 7)",
        ),
        ("WHERE EQS(num 3)", true, "expected EQ, GT"),
        ("WHERE EQ(num abc)", true, "expected a value: a number"),
        (
            "WHERE GT(num 'x')",
            false,
            "GT compares with a number or a time, found \"x\" (line 1, column 14)",
        ),
        (
            "WHERE BETWEEN(num 1 2017-01-05T15:04:33Z)",
            false,
            "two numbers or with two times (line 1, column 21)",
        ),
        ("WHERE REGEX(num '(')", false, "not a pattern"),
        (
            "SELECT x SELECT y",
            true,
            "SELECT stands there twice (line 1, column 10)",
        ),
        (
            "SELECT x DELETE",
            true,
            "one of SELECT, INSERT, UPDATE and DELETE",
        ),
        (
            "WHERE HAS(a) DELETE SORT a",
            false,
            "SORT makes no sense with DELETE (line 1, column 21)",
        ),
        ("SELECT $nothing", true, "expected $, $ref, $root, $rid or a path"),
        (
            "WHERE EQ(a..b 1)",
            true,
            "expected a name (an empty one is written `\"\"`) (line 1, column 12)",
        ),
        (
            r#"{"where":["EQ","num"]}"#,
            true,
            "EQ has two arguments: a path and a value, found 1 (line 1, column 10)",
        ),
        (
            r#"{"where":["EQ","num",{}]}"#,
            false,
            "a value is compared with, found an object (line 1, column 22)",
        ),
        (
            r#"{"were":1}"#,
            true,
            "\"were\" is no clause; expected one of explain, rid",
        ),
        (
            "{\"where\":1,}",
            true,
            "expected a name in `\"`, found '}' (line 1, column 12)",
        ),
        (
            r#"{"where":1} x"#,
            true,
            "expected the end of the statement, found 'x' (line 1, column 13)",
        ),
        (r#"{"insert":{"a":01}}"#, true, "expected a JSON value"),
        (r#"{"where":-1}"#, false, "expected a reference"),
        (r#"{"page":[1]}"#, true, "page is an array of a size and a number"),
        (
            r#"{"sort":"a.*"}"#,
            false,
            "SORT takes a path that leads to one value",
        ),
        (
            "INSERT {\"a\":'x'}",
            true,
            "expected a JSON value, found '\\'' (line 1, column 13)",
        ),
    ] {
        let error = house.try_tql(statement).unwrap_err();
        let RecordsError::Statement(found) = &error else {
            panic!("{statement}: {error}");
        };
        assert!(error.to_string().contains(expected), "{statement}: {error}");
        assert_eq!(found.syntax, syntax, "{statement}: {error}");
    }
    let deep = format!("WHERE {}EQ(a 1){}", "NOT(".repeat(200), ")".repeat(200));
    let long = format!("WHERE REGEX(a '{}')", "x".repeat(2000));
    let functions = format!("WHERE OR({})", "EQ(a 1)".repeat(1000));
    let patterns = format!("WHERE AND({})", "REGEX(a 'x')".repeat(17));
    let values = format!("WHERE IN(a {})", "1 ".repeat(20_000));
    let row = format!(r#"{{"select":[{}1]}}"#, "1,".repeat(20_000));
    for (statement, expected) in [
        (&deep, "more than 100 values within each other"),
        (&long, "a pattern of 2000 bytes is too long (at most 1000)"),
        (
            &functions,
            "a statement has at most 1000 functions (line 1, column",
        ),
        (&patterns, "a statement has at most 16 patterns (line 1, column"),
        (
            &values,
            "a statement has at most 20000 values beside its document",
        ),
        (&row, "a statement has at most 20000 values beside its document"),
    ] {
        let answer = house.tql(statement);
        assert!(answer.contains(expected), "{answer}");
    }
    let document = format!(r#"{{"insert":{{"list":[{}1]}}}}"#, "1,".repeat(30_000));
    assert_eq!(house.tql(&document), r#"{"code":0,"ref":1}"#);
    let document = document.replace(r#"{"insert":"#, "INSERT ");
    assert_eq!(
        house.tql(&document[..document.len() - 1]),
        r#"{"code":0,"ref":2}"#
    );
}
