//! Behaviour of each clause and function, in both encodings.

use forebay_records::{Detect, RecordsError, Settings, TimeFormat, TimeNumber};

use super::house::{House, articles, results};

#[test]
fn every_function_selects_the_same_in_both_encodings() {
    let house = articles();
    for (json, friendly, expected) in [
        (r#"["EQ","num",3]"#, "EQ(num 3)", "[3]"),
        (r#"["EQ","title","Article-4"]"#, "EQ(title, 'Article-4')", "[4]"),
        (r#"["EQ","title","'Article-4"]"#, "eq(title \"Article-4\")", "[4]"),
        (r#"["LT","num",3]"#, "LT(num 3)", "[0,1,2]"),
        (r#"["LTE","num",2]"#, "LTE(num 2)", "[0,1,2]"),
        (r#"["GT","num",7]"#, "GT(num 7)", "[8,9]"),
        (r#"["GTE","num",7]"#, "GTE(num 7)", "[7,8,9]"),
        (r#"["GTE","num",7.5]"#, "GTE(num 7.5)", "[8,9]"),
        (r#"["BETWEEN","num",5,7]"#, "BETWEEN(num 5 7)", "[5,6,7]"),
        (
            r#"["BETWEEN","num",5,7,false,false]"#,
            "BETWEEN(num 5 7 false false)",
            "[6]",
        ),
        (
            r#"["BETWEEN","num",5,7,false,true]"#,
            "BETWEEN(num 5 7 false true)",
            "[6,7]",
        ),
        (
            r#"["BETWEEN","num",5,7,true,false]"#,
            "BETWEEN(num, 5, 7, true, false)",
            "[5,6]",
        ),
        (
            r#"["BETWEEN","num",5,7,false]"#,
            "BETWEEN(num 5 7 false)",
            "[6,7]",
        ),
        (r#"["IN","num",1,3,5,7]"#, "IN(num 1 3 5 7)", "[1,3,5,7]"),
        (
            r#"["OR",["LT","num",2],["GT","num",7]]"#,
            "OR(LT(num 2) GT(num 7))",
            "[0,1,8,9]",
        ),
        (
            r#"["not",["BETWEEN","num",2,7]]"#,
            "NOT(BETWEEN(num 2 7))",
            "[0,1,8,9]",
        ),
        (
            r#"["regex","title","A.*-[3,4,5]"]"#,
            "REGEX(title \"A.*-[3,4,5]\")",
            "[3,4,5]",
        ),
        (
            r#"["and",["LT","num",5],["or",["eq","num",0],["GT","num",2]]]"#,
            "AND(LT(num 5), OR(EQ(num 0), GT(num 2)))",
            "[0,3,4]",
        ),
        (r#"["has","nothing"]"#, "HAS(nothing)", "[]"),
        (
            r#"["and",["has","num"],["lt","num",1]]"#,
            "AND(HAS(num) LT(num 1))",
            "[0]",
        ),
    ] {
        let json_where = format!(r#"{{"where":{json},"select":"num"}}"#);
        assert_eq!(results(&house, &json_where), expected, "{json}");
        let json_filter = format!(r#"{{"where":["EQ","kind","Article"],"filter":{json},"select":"num"}}"#);
        assert_eq!(results(&house, &json_filter), expected, "{json}");
        assert_eq!(
            results(&house, &format!("WHERE {friendly} SELECT num")),
            expected,
            "{friendly}"
        );
        assert_eq!(
            results(&house, &format!("select num where {friendly}")),
            expected,
            "{friendly}"
        );
    }
}

#[test]
fn values_compare_by_type() {
    let house = House::new();
    for (n, value) in [
        "1",
        "1.0",
        "10e-1",
        "\"1\"",
        "true",
        "null",
        "[1]",
        "{\"x\":1}",
        "\"2017-01-05T15:04:33Z\"",
        "\"2017-01-05T17:04:33.0+02:00\"",
        "\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\"",
        "\"6BA7B810-9DAD-11D1-80B4-00C04FD430C8\"",
        "\"http://opo.technology\"",
        "12345678901234567890.1",
        "12345678901234567890.2",
    ]
    .iter()
    .enumerate()
    {
        house.create(&format!(r#"{{"n":{n},"v":{value}}}"#));
    }
    for (expression, expected) in [
        ("EQ(v 1)", "[0,1,2]"),
        ("EQ(v '1')", "[3]"),
        ("EQ(v true)", "[4]"),
        ("EQ(v null)", "[5]"),
        ("EQ(v.0 1)", "[6]"),
        ("EQ(v.* 1)", "[6]"),
        ("EQ(v.x 1)", "[7]"),
        ("EQ(v 2017-01-05T15:04:33Z)", "[8,9]"),
        ("EQ(v '2017-01-05T15:04:33Z')", "[8]"),
        ("GT(v 2017-01-05T15:04:32.999999999Z)", "[8,9]"),
        ("LT(v 2017-01-05T16:04:33+01:00)", "[]"),
        ("EQ(v \"6ba7b810-9dad-11d1-80b4-00c04fd430c8\")", "[10,11]"),
        ("EQ(v '6ba7b810-9dad-11d1-80b4-00c04fd430c8')", "[10]"),
        ("EQ(v 'http://opo.technology')", "[12]"),
        ("GT(v 12345678901234567890.1)", "[14]"),
        ("LTE(v 1)", "[0,1,2]"),
        ("REGEX(v '^2017')", "[]"),
        ("REGEX(v '^(6ba|http)')", "[10,12]"),
        ("NOT(HAS(v.x))", "[0,1,2,3,4,5,6,8,9,10,11,12,13,14]"),
    ] {
        assert_eq!(
            results(&house, &format!("WHERE {expression} SELECT n")),
            expected,
            "{expression}"
        );
    }
    let plain = House::with(Settings {
        detect: Detect {
            time: false,
            uuid: false,
            time_number: None,
        },
        ..Settings::default()
    });
    plain.create(r#"{"v":"2017-01-05T15:04:33Z","u":"6BA7B810-9DAD-11D1-80B4-00C04FD430C8"}"#);
    let none = r#"{"code":0,"results":[]}"#;
    assert_eq!(plain.tql("WHERE EQ(v \"2017-01-05T16:04:33+01:00\")"), none);
    assert_eq!(
        plain.tql("WHERE EQ(u \"6ba7b810-9dad-11d1-80b4-00c04fd430c8\")"),
        none
    );
}

#[test]
fn texts_that_are_not_taken_for_times_are_matched_and_sorted_as_texts() {
    // By moment the first is the later one, by text the second.
    let times = ["2017-01-05T00:00:00-05:00", "2017-01-05T01:00:00Z"];
    for (time, matched, sorted) in [
        (
            true,
            "[]",
            r#"["2017-01-05T01:00:00Z","2017-01-05T00:00:00-05:00","2016"]"#,
        ),
        (
            false,
            "[1,2]",
            r#"["2016","2017-01-05T00:00:00-05:00","2017-01-05T01:00:00Z"]"#,
        ),
    ] {
        let detect = Detect {
            time,
            uuid: true,
            time_number: None,
        };
        let house = House::with(Settings {
            detect,
            ..Settings::default()
        });
        for at in times {
            house.create(&format!(r#"{{"at":"{at}"}}"#));
        }
        assert_eq!(results(&house, "WHERE REGEX(at '^2017') SELECT $ref"), matched);
        house.create(r#"{"at":"2016"}"#);
        assert_eq!(results(&house, "SELECT at SORT at"), sorted);
    }
}

#[test]
fn numbers_are_times_where_the_settings_say_so() {
    let values = [
        "1483628673.5",
        "1483628674",
        r#""2017-01-05T15:04:33.5Z""#,
        r#""2017-01-05T16:04:34+01:00""#,
        "1.483628674e9",
        "1400000000",
        "1399999999.999",
        "1600000000",
        "1600000000.1",
        "7",
        "-1483628674",
        "1483628674.0000000000",
    ];
    let time_number = |decimals| {
        Some(TimeNumber {
            min: 1_400_000_000,
            max: 1_600_000_000,
            decimals,
        })
    };
    let both = "WHERE EQ(v 2017-01-05T15:04:34Z)";
    for (detected, statement, expected) in [
        (time_number(0), both, "[1,3]"),
        (None, both, "[3]"),
        (time_number(1), both, "[3]"),
        (time_number(1), "WHERE LT(v 2017-01-05T15:04:34Z)", "[0,2]"),
        (time_number(0), "WHERE EQ(v 1483628674)", "[1,3,4,11]"),
        (None, "WHERE EQ(v 1483628674)", "[1,4,11]"),
        (time_number(0), "WHERE IN(v 1483628673.5 7)", "[0,2,9]"),
        (time_number(0), "WHERE LTE(v 2017-01-05T15:04:33.5Z)", "[0,2,5]"),
        (time_number(0), "WHERE GT(v 2017-01-05T15:04:33.5Z)", "[1,3,7]"),
        (time_number(0), "WHERE GTE(v 1600000000)", "[7,8]"),
        (
            time_number(0),
            "WHERE BETWEEN(v 2014-01-01T00:00:00Z 2021-01-01T00:00:00Z)",
            "[0,1,2,3,5,7]",
        ),
        (time_number(0), "WHERE BETWEEN(v 7 1483628673.5)", "[0,5,6,9]"),
    ] {
        for indexed in [false, true] {
            let detect = Detect {
                time_number: detected,
                ..Settings::default().detect
            };
            let house = House::with(Settings {
                detect,
                ..Settings::default()
            });
            if indexed {
                house.index("by_v", "Record", &["v"], false);
            }
            for (n, value) in values.iter().enumerate() {
                house.create(&format!(r#"{{"n":{n},"v":{value}}}"#));
            }
            let rows = results(&house, &format!("{statement} SELECT n SORT n"));
            assert_eq!(rows, expected, "{statement} {detected:?}");
            let by_index = house.tql(&format!("EXPLAIN {statement}")).contains("by_v");
            assert_eq!(
                by_index,
                indexed && !(detected.is_some() && statement.contains("IN(v"))
            );
            let paged = house.tql(&format!("{statement} SELECT n LIMIT 100 CURSOR ''"));
            assert_eq!(
                paged.matches(',').count(),
                1 + expected.matches(',').count(),
                "{paged}"
            );
        }
    }
    let house = House::with(Settings {
        detect: Detect {
            time_number: time_number(0),
            ..Settings::default().detect
        },
        time_format: TimeFormat::Xsd(None),
        ..Settings::default()
    });
    for value in ["1483628674", "7", r#""2017-01-05T15:04:33.5Z""#, "\"a\""] {
        house.create(&format!(r#"{{"v":{value}}}"#));
    }
    let sorted = r#"[7,"2017-01-05T15:04:33.5Z","2017-01-05T15:04:34Z","a"]"#;
    assert_eq!(results(&house, "SELECT v SORT v"), sorted);
}

#[test]
fn a_template_may_have_any_shape() {
    let house = House::new();
    house.create(r#"{"kind":"Article","title":"A","at":{"x":[1,2,{"y":3}]}}"#);
    for (template, expected) in [
        (
            r#"{"select":"$"}"#,
            r#"{"at":{"x":[1,2,{"y":3}]},"kind":"Article","title":"A"}"#,
        ),
        (r#"{"select":"$ref"}"#, "1"),
        (r#"{"select":{"Z":"$REF","A":"title"}}"#, r#"{"Z":1,"A":"A"}"#),
        (
            r#"{"select":["title","'title",1,null,true,{}]}"#,
            r#"["A","title",1,null,true,{}]"#,
        ),
        (
            r#"{"select":{"a":{"b":["at.x.2.y","at.x.*","nothing"]}}}"#,
            r#"{"a":{"b":[3,[1,2,{"y":3}],null]}}"#,
        ),
        (r#"{"rid":"q1","select":{"r":"$rid"}}"#, r#"{"r":"q1"}"#),
        (
            r#"{"select":null}"#,
            r#"{"id":1,"data":{"at":{"x":[1,2,{"y":3}]},"kind":"Article","title":"A"}}"#,
        ),
        (
            "{}",
            r#"{"id":1,"data":{"at":{"x":[1,2,{"y":3}]},"kind":"Article","title":"A"}}"#,
        ),
        (
            r#"SELECT { "primaryName": title, "id": $ref, "source": "sample" "other": ['x' $root.title] }"#,
            r#"{"primaryName":"A","id":1,"source":"sample","other":["x","A"]}"#,
        ),
    ] {
        let answer = house.tql(template);
        assert!(
            answer.starts_with(&format!("{{\"code\":0,\"results\":[{expected}]")),
            "{template}: {answer}"
        );
    }
}

#[test]
fn where_takes_a_reference_in_decimal_or_hexadecimal() {
    let house = articles();
    for reference in ["11", "WHERE"] {
        assert!(
            house.try_tql(&format!("WHERE {reference}x")).is_err(),
            "{reference}"
        );
    }
    for statement in [
        r#"{"where":10,"select":"num"}"#,
        r#"{"where":"10","select":"num"}"#,
        r#"{"where":"000000000000000a","select":"num"}"#,
        "WHERE 10 SELECT num",
        "WHERE 000000000000000a SELECT num",
        "WHERE 0xa SELECT num",
    ] {
        assert_eq!(results(&house, statement), "[9]", "{statement}");
    }
    assert_eq!(results(&house, "WHERE 99"), "[]");
    assert_eq!(
        results(&house, "WHERE 10 FILTER EQ(kind 'Article') SELECT num"),
        "[9]"
    );
    assert_eq!(
        results(&house, "WHERE 10 FILTER EQ(kind 'Entry') SELECT num"),
        "[]"
    );
    let error = house.try_tql(r#"{"where":18446744073709551616}"#).unwrap_err();
    assert!(
        matches!(&error, RecordsError::Statement(error) if !error.syntax),
        "{error}"
    );
}

#[test]
fn results_are_sorted_limited_unique_and_paged() {
    let house = House::new();
    for (n, group) in [(3, "b"), (1, "a"), (2, "b"), (9, "a"), (7, "c")] {
        house.create(&format!(r#"{{"n":{n},"group":"{group}"}}"#));
    }
    house.create(r#"{"group":"c"}"#);
    for (statement, expected) in [
        ("SELECT n SORT n", "[null,1,2,3,7,9]"),
        ("SELECT n SORT -n", "[9,7,3,2,1,null]"),
        ("SELECT n SORT -n LIMIT 2", "[9,7]"),
        ("SELECT n SORT n LIMIT 0", "[]"),
        ("SELECT group SORT group UNIQUE group", r#"["a","b","c"]"#),
        ("SELECT n UNIQUE group", "[3,1,7]"),
        ("SELECT n SORT -n UNIQUE group", "[9,7,3]"),
        ("SELECT n SORT n PAGE 2 1", "[2,3]"),
        ("SELECT n SORT n PAGE 4 1", "[7,9]"),
        ("SELECT n SORT n PAGE 4 9", "[]"),
        ("SELECT $ref PAGE 4 1", "[5,6]"),
        ("SELECT $ref LIMIT 1 PAGE 4 1", "[5]"),
        (r#"{"select":"n","sort":"-n","page":[2,0]}"#, "[9,7]"),
        (r#"{"select":"n","unique":"group","limit":2}"#, "[3,1]"),
        (
            r#"{"select":"n","where":["HAS","n"],"sort":"group"}"#,
            "[1,9,3,2,7]",
        ),
    ] {
        assert_eq!(results(&house, statement), expected, "{statement}");
    }
    // Numbers are equal if their values are.
    for price in ["1", "1.0", "10e-1", "\"1\"", "1.5", "-1", "-1.00"] {
        house.create(&format!(r#"{{"kind":"Offer","price":{price}}}"#));
    }
    let offers = "WHERE EQ(kind 'Offer') SELECT price UNIQUE price";
    assert_eq!(results(&house, offers), r#"[1,"1",1.5,-1]"#);
    let sorted = format!("{offers} SORT -price");
    assert_eq!(results(&house, &sorted), r#"["1",1.5,1,-1]"#);
}

#[test]
fn a_cursor_goes_on_where_the_answer_before_has_ended() {
    let house = articles();
    house.index("by_num", "Article", &["num"], false);
    house.create(r#"{"kind":"Other","num":3}"#);
    for (condition, expected) in [
        ("HAS(num)", vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("AND(EQ(kind 'Article') GT(num 3))", vec![5, 6, 7, 8, 9, 10]),
    ] {
        let (mut cursor, mut found) = (String::new(), Vec::new());
        loop {
            let statement = format!("WHERE {condition} SELECT $ref LIMIT 3 CURSOR \"{cursor}\"");
            let answer: serde_json::Value = serde_json::from_str(&house.tql(&statement)).unwrap();
            let page = answer["results"].as_array().unwrap();
            found.extend(page.iter().map(|reference| reference.as_u64().unwrap()));
            match answer["cursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(found, expected, "{condition}");
    }
    // A position in an index is no position for a scan of all records.
    let answer: serde_json::Value =
        serde_json::from_str(&house.tql("WHERE AND(EQ(kind 'Article') GT(num 3)) LIMIT 1 CURSOR ''"))
            .unwrap();
    let cursor = answer["cursor"].as_str().unwrap();
    let other = house.try_tql(&format!("WHERE EQ(kind 'Article') LIMIT 1 CURSOR '{cursor}'"));
    assert!(matches!(other, Err(RecordsError::Cursor)));
    assert!(house.try_tql("CURSOR 'zz'").is_err());
}

#[test]
fn insert_makes_a_record_unless_something_matches() {
    let house = House::new();
    assert_eq!(
        house.tql(r#"{"insert":{"kind":"Article","title":"X"}}"#),
        r#"{"code":0,"ref":1}"#
    );
    let again = r#"{"rid":"7","where":["AND",["EQ","kind","'Article"],["EQ","title","'X"]],"insert":{"kind":"Article","title":"X"}}"#;
    let error = house.try_tql(again).unwrap_err();
    assert_eq!(error.code(), 17);
    assert!(matches!(error, RecordsError::AlreadyExists { .. }), "{error}");
    assert_eq!(
        house.tql(&again.replace("'X", "'Y")),
        r#"{"code":0,"ref":2,"rid":"7"}"#
    );
    assert_eq!(
        house.tql(r#"insert { "name": "Pete", "age": 63 }"#),
        r#"{"code":0,"ref":3}"#
    );
    assert_eq!(
        results(&house, "WHERE EQ(name 'Pete')"),
        r#"[{"id":3,"data":{"age":63,"name":"Pete"}}]"#
    );
}

#[test]
fn update_replaces_and_limit_says_how_many_at_most() {
    let house = articles();
    let update = r#"UPDATE {"kind":"Article","num":100}"#;
    assert_eq!(
        house.tql(&format!("WHERE LT(num 2) {update}")),
        r#"{"code":0,"updated":[1,2]}"#
    );
    assert_eq!(
        house.tql(&format!("RID 'r' WHERE 3 {update}")),
        r#"{"code":0,"updated":[3],"rid":"r"}"#
    );
    assert_eq!(
        house.tql(&format!("WHERE EQ(num 77) {update}")),
        r#"{"code":0,"updated":[]}"#
    );
    let missing = house.try_tql(&format!("WHERE 99 {update}")).unwrap_err();
    assert_eq!(missing.code(), 166);
    let many = house.try_tql(&format!("WHERE EQ(num 100) {update} LIMIT 2"));
    assert!(matches!(many, Err(RecordsError::LimitExceeded { limit: 2 })));
    assert_eq!(
        house.tql(&format!("WHERE EQ(num 100) {update} LIMIT 3")),
        r#"{"code":0,"updated":[1,2,3]}"#
    );
    let instead = r#"WHERE EQ(num 100) UPDATE {"kind":"Article","num":-1} LIMIT 0"#;
    assert_eq!(house.tql(instead), r#"{"code":0,"updated":[11]}"#);
    assert_eq!(results(&house, "SELECT num SORT num"), "[-1,3,4,5,6,7,8,9]");
    assert!(house.try_tql(update).is_err(), "an update says what it concerns");
}

#[test]
fn delete_removes_what_matches() {
    let house = articles();
    assert_eq!(
        house.tql(r#"{"where":["GT","num",7],"delete":null}"#),
        r#"{"code":0,"deleted":[9,10]}"#
    );
    assert_eq!(house.tql("WHERE 1 DELETE"), r#"{"code":0,"deleted":[1]}"#);
    assert_eq!(house.tql("WHERE 1 DELETE"), r#"{"code":0,"deleted":[]}"#);
    assert_eq!(
        house.tql("WHERE HAS(num) DELETE LIMIT 2"),
        r#"{"code":0,"deleted":[2,3]}"#
    );
    assert_eq!(
        house.tql("WHERE EQ(kind 'Article') DELETE"),
        r#"{"code":0,"deleted":[4,5,6,7,8]}"#
    );
    assert_eq!(results(&house, "SELECT $ref"), "[]");
    assert!(house.try_tql("DELETE").is_err());
}

#[test]
fn at_has_a_statement_be_about_parts_of_records() {
    let house = House::new();
    house.create(r#"{"kind":"Order","lines":[{"n":1,"sku":"a"},{"n":5,"sku":"b"}],"to":{"city":"Rome"}}"#);
    house.create(r#"{"kind":"Order","lines":[{"n":7,"sku":"a"}],"to":{"city":"Oslo"}}"#);
    let select = "{\"r\":$ref \"n\":n \"city\":$root.to.city}";
    assert_eq!(
        results(&house, &format!("WHERE GT(n 4) AT lines.* SELECT {select}")),
        r#"[{"r":1,"n":5,"city":"Rome"},{"r":2,"n":7,"city":"Oslo"}]"#
    );
    assert_eq!(
        results(&house, "WHERE EQ(sku 'a') AT lines.* SELECT n SORT -n"),
        "[7,1]"
    );
    assert_eq!(
        results(&house, "WHERE HAS(city) AT ** SELECT $"),
        r#"[{"city":"Rome"},{"city":"Oslo"}]"#
    );
    assert_eq!(
        house.tql(r#"WHERE EQ(sku 'a') AT lines.* UPDATE {"sku":"c"} LIMIT 1"#),
        "more than 1 match, and LIMIT 1 allows no more to be updated; nothing was done"
    );
    assert_eq!(
        house.tql(r#"WHERE EQ(sku 'a') AT lines.* UPDATE {"sku":"c"}"#),
        r#"{"code":0,"updated":[1,2]}"#
    );
    assert_eq!(
        house.tql("WHERE EQ(sku 'b') AT lines.* DELETE"),
        r#"{"code":0,"deleted":[1]}"#
    );
    assert_eq!(
        house.tql(r#"{"where":2,"at":"to.city","update":"Bergen"}"#),
        r#"{"code":0,"updated":[2]}"#
    );
    assert_eq!(
        results(&house, "SELECT $ SORT to.city"),
        r#"[{"kind":"Order","lines":[{"sku":"c"}],"to":{"city":"Bergen"}},{"kind":"Order","lines":[{"sku":"c"}],"to":{"city":"Rome"}}]"#
    );
    let kind = house.try_tql(r#"{"where":2,"at":"kind","update":7}"#);
    assert!(matches!(kind, Err(RecordsError::KindNotText { .. })));
}

#[test]
fn times_are_written_as_the_settings_say() {
    let record = r#"{"at":"2017-01-05T15:04:33.123456789Z","list":["2017-01-05T15:04:33Z","no time"],"n":1}"#;
    for (format, zone_minutes, expected) in [
        (
            "UNIX3",
            0,
            r#"{"at":1483628673.123,"list":[1483628673.000,"no time"],"n":1}"#,
        ),
        (
            "XSD0",
            60,
            r#"{"at":"2017-01-05T16:04:33+01:00","list":["2017-01-05T16:04:33+01:00","no time"],"n":1}"#,
        ),
        ("stored", 60, record),
    ] {
        let house = House::with(Settings {
            time_format: TimeFormat::from_name(format).unwrap(),
            zone_minutes,
            ..Settings::default()
        });
        house.create(record);
        assert_eq!(results(&house, "SELECT $"), format!("[{expected}]"), "{format}");
    }
}
