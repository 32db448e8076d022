//! Evaluation of decision tables.

use forebay_workflow::jdm::{Rows, Table, from_json, to_json};
use serde_json::{Value, json};

use super::host::{Host, alone, decision, evaluated_by, result};

/// Builds a table from columns, with the conclusions after `=>`, and rows; cells are separated by `|`.
fn table(hits: &str, columns: &str, rows: &[&str]) -> Value {
    let (inputs, outputs) = columns.split_once("=>").unwrap();
    let columns = |part: &str, letter: &str| -> Vec<Value> {
        let fields = part.split('|').map(str::trim).enumerate();
        fields
            .map(|(number, field)| json!({"id": format!("{letter}{number}"), "name": field, "field": field}))
            .collect()
    };
    let rules = rows.iter().enumerate().map(|(number, row)| {
        let (conditions, conclusions) = row.split_once("=>").unwrap();
        let mut rule = json!({"_id": format!("r{number}")});
        for (letter, part) in [("i", conditions), ("o", conclusions)] {
            for (number, cell) in part.split('|').enumerate() {
                rule[format!("{letter}{number}")] = cell.into();
            }
        }
        rule
    });
    json!({
        "hitPolicy": hits,
        "inputs": columns(inputs, "i"),
        "outputs": columns(outputs, "o"),
        "rules": rules.collect::<Vec<_>>(),
    })
}

fn decided(table: &Value, input: &Value) -> Value {
    let in_graph = result(&decision(&alone("decisionTableNode", table.clone())), input);
    let alone = Table::compile(&Rows::of(table).unwrap()).unwrap();
    let alone = to_json(&alone.decide(&from_json(input.clone()).unwrap(), false).value);
    // In a graph, a result that is neither an object nor a list is dropped.
    if alone.is_object() || alone.is_array() {
        assert_eq!(in_graph, alone);
    }
    alone
}

const FEES: [&str; 5] = [
    "'DE' | > 100 => 0 | 'free'",
    "'DE', 'AT' | [50..100] => total * 0.1 |",
    "'CH' | 10, > 20 and < 30 => 7 | 'swiss'",
    "| < 5 => 1 | 'small'",
    "not ('DE' == $) | => 25 | country",
];

#[test]
fn the_first_row_whose_cells_are_all_true_decides() {
    let fees = table("first", "country | total => fee.amount | fee.why", &FEES);
    for (country, total, right) in [
        ("DE", json!(101), json!({"fee": {"amount": 0, "why": "free"}})),
        ("DE", json!(100), json!({"fee": {"amount": 10}})),
        ("AT", json!(50), json!({"fee": {"amount": 5}})),
        ("AT", json!(49), json!({"fee": {"amount": 25, "why": "AT"}})),
        ("CH", json!(10), json!({"fee": {"amount": 7, "why": "swiss"}})),
        ("CH", json!(20), json!({"fee": {"amount": 25, "why": "CH"}})),
        ("DE", json!(4.99), json!({"fee": {"amount": 1, "why": "small"}})),
        ("DE", json!(5), Value::Null),
        ("FR", json!(null), json!({"fee": {"amount": 25, "why": "FR"}})),
        ("DE", json!("x"), Value::Null),
    ] {
        let input = json!({"country": country, "total": total});
        assert_eq!(decided(&fees, &input), right, "{input}");
    }
}

#[test]
fn all_rows_that_match_are_collected() {
    let fees = table("collect", "country | total => fee | why", &FEES);
    assert_eq!(
        decided(&fees, &json!({"country": "AT", "total": 3})),
        json!([{"fee": 1, "why": "small"}, {"fee": 25, "why": "AT"}])
    );
    assert_eq!(decided(&fees, &json!({"country": "DE", "total": 20})), json!([]));
}

#[test]
fn columns_of_lists_have_the_values_of_all_rows_that_match() {
    let rows = [
        "> 1 => 'a' | 1",
        "> 2 => 'b' | 2",
        "> 3 => 'c' |",
        "> 3 => 'd' | nothing + 1",
    ];
    let tags = table("first", "n => first | all.numbers[]", &rows);
    assert_eq!(
        decided(&tags, &json!({"n": 4})),
        json!({"first": "a", "all": {"numbers": [1, 2]}})
    );
    assert_eq!(decided(&tags, &json!({"n": 0})), Value::Null);
}

#[test]
fn a_column_without_a_field_has_conditions_of_its_own() {
    let rules = table(
        "first",
        "a | => x",
        &["> 1 | b > $ => b", "| b == 7 => 'seven'", "| 7 => 'no'"],
    );
    for (a, b, right) in [
        (2, 3, json!({"x": 3})),
        (2, 2, Value::Null),
        (1, 7, json!({"x": "seven"})),
    ] {
        assert_eq!(decided(&rules, &json!({"a": a, "b": b})), right, "{a} {b}");
    }
}

#[test]
fn a_column_may_look_at_the_one_before_it_and_conclusions_at_the_last() {
    let rules = table(
        "first",
        "a | len($) => x",
        &["'abc', 'de' | 3 => $ + 1", "| 2 => 'two'"],
    );
    assert_eq!(decided(&rules, &json!({"a": "abc"})), json!({"x": 4}));
    assert_eq!(decided(&rules, &json!({"a": "de"})), json!({"x": "two"}));
    let rules = table("first", "a => x", &["> 1 => $ * 2", "=> $ * 3"]);
    assert_eq!(decided(&rules, &json!({"a": 4})), json!({"x": 8}));
    assert_eq!(decided(&rules, &json!({"a": 1})), json!({"x": 3}));
}

#[test]
fn a_row_whose_conclusion_has_no_value_does_not_match() {
    let rules = table("first", "a => x", &["> 1 => b + 1", "> 1 => 'other'"]);
    assert_eq!(decided(&rules, &json!({"a": 2, "b": 1})), json!({"x": 2}));
    assert_eq!(decided(&rules, &json!({"a": 2, "b": {}})), json!({"x": "other"}));
}

#[test]
fn a_column_whose_field_has_no_value_matches_empty_cells_only() {
    let rules = table("first", "a + 1 => x", &["null => 0", "2 => 1", "=> 2"]);
    assert_eq!(decided(&rules, &json!({"a": 1})), json!({"x": 1}));
    assert_eq!(decided(&rules, &json!({"a": {}})), json!({"x": 2}));
}

/// Simple cells are decided without running their expressions. Each cell appears twice, once with an addition that forces its expression to
/// run; both must agree.
#[test]
fn simple_cells_say_what_their_expressions_say() {
    let cells = [
        "'a'",
        "'a', 'b'",
        "1",
        "1.0",
        "1, 2, 3",
        "true",
        "> 1",
        ">= 1",
        "< 1.5",
        "<= 1",
        "[1..2]",
        "(1..2]",
        "[1..2)",
        "(1..2)",
        "> 0 and < 2",
        "== 1",
        "!= 1",
        "'2026-02-03'",
        "> 5, 'a'",
        "'a' or 1",
        "null",
        "-1",
    ];
    let values = [
        "'a'",
        "'b'",
        "'c'",
        "1",
        "2",
        "1.5",
        "0",
        "-1",
        "true",
        "false",
        "null",
        "[1]",
        "{a: 1}",
        "d('2026-02-03')",
        "'2026-02-03'",
    ];
    let rows: Vec<_> = cells.iter().map(|cell| format!("{cell} => 1")).collect();
    for (cell, row) in cells.iter().zip(&rows) {
        let simple = table("first", "value => x", &[row]);
        let hidden = table("first", "value => x", &[&format!("{cell} and (1 == 1) => 1")]);
        for value in values {
            let of = |table: &Value| {
                let mut table = table.clone();
                table["inputs"][0]["field"] = value.into();
                let table = Table::compile(&Rows::of(&table).unwrap()).unwrap();
                to_json(&table.decide(&from_json(json!({})).unwrap(), false).value)
            };
            assert_eq!(of(&simple), of(&hidden), "{cell} of {value}");
        }
    }
}

#[test]
fn a_long_table_decides_as_if_each_row_were_looked_at() {
    let names = [
        "'a'",
        "'b'",
        "'a', 'c'",
        "1",
        "1, 2",
        "true",
        "",
        "> 1",
        "not ($ == 'a')",
        "d('2026-02-03')",
    ];
    let rows: Vec<_> = (0..400_usize)
        .map(|row| {
            let (one, other) = (names[row * 7 % 10], names[row * row % 10]);
            format!("{one} | {other} | > {} => {row}", row % 13)
        })
        .collect();
    let rows: Vec<_> = rows.iter().map(String::as_str).collect();
    let long = Table::compile(&Rows::of(&table("collect", "a | b | n => row", &rows)).unwrap()).unwrap();
    let single: Vec<_> = rows
        .iter()
        .map(|row| Table::compile(&Rows::of(&table("collect", "a | b | n => row", &[row])).unwrap()).unwrap())
        .collect();
    let values = [
        json!("a"),
        json!("b"),
        json!("c"),
        json!(1),
        json!(2),
        json!(true),
        json!(null),
        json!("2026-02-03"),
    ];
    let mut found = 0;
    for a in &values {
        for b in &values {
            let input = from_json(json!({"a": a, "b": b, "n": 6})).unwrap();
            let of = |table: &Table| match to_json(&table.decide(&input, false).value) {
                Value::Array(rows) => rows,
                other => panic!("{other}"),
            };
            let right: Vec<_> = single.iter().flat_map(of).collect();
            assert_eq!(of(&long), right, "{a} {b}");
            found += right.len();
        }
    }
    assert!(found > 500, "{found}");
}

#[test]
fn a_long_table_of_days_knows_a_day_however_it_is_written() {
    let rows: Vec<_> = (1..=12)
        .map(|month| format!("'2026-{month:02}-01' => {month}"))
        .collect();
    let rows: Vec<_> = rows.iter().map(String::as_str).collect();
    let months = table("first", "d(day) => month", &rows);
    assert_eq!(
        decided(&months, &json!({"day": "2026-03-01 00:00"})),
        json!({"month": 3})
    );
    assert_eq!(decided(&months, &json!({"day": "2026-03-02"})), Value::Null);
}

#[test]
fn the_trace_has_the_row_and_what_it_asked_about() {
    let fees = table(
        "first",
        "country | total => fee",
        &["'AT' | => 1", "'DE' | > 1 => 2"],
    );
    let decision = decision(&alone("decisionTableNode", fees));
    let evaluation = evaluated_by(
        &Host::default(),
        &decision,
        json!({"country": "DE", "total": 3}),
        true,
    );
    assert_eq!(
        evaluation.trace.unwrap()[1].trace,
        json!({
            "index": 1,
            "reference_map": {"country": "DE", "total": 3},
            "rule": {"_id": "r1", "country[i0]": "'DE'", "total[i1]": "> 1"},
        })
    );

    // In a loop, the trace has one entry for each item that matched a row.
    let mut fees = table("first", "country => fee", &["'AT' => 1", "'DE' => 2"]);
    fees["executionMode"] = "loop".into();
    fees["inputField"] = "list".into();
    let decision = super::host::decision(&alone("decisionTableNode", fees));
    let input = json!({"list": [{"country": "CH"}, {"country": "DE"}]});
    let evaluation = evaluated_by(&Host::default(), &decision, input, true);
    assert_eq!(evaluation.result.unwrap(), json!([null, {"fee": 2}]));
    let trace = evaluation.trace.unwrap()[1].trace.take();
    assert_eq!(
        (trace[0]["index"].as_u64(), trace.as_array().map(Vec::len)),
        (Some(1), Some(1))
    );
}
