//! CURSOR: whatever limit ends an answer early, all answers together have each row once.

use std::collections::BTreeSet;

use forebay_records::{
    Everything, Settings,
    tql::{Budget, Execution, Progress, Statement},
};
use proptest::prelude::*;

use super::house::House;

const KINDS: [&str; 4] = ["A", "B", "C", "D"];

/// Limits that end answers early.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    limit: u64,
    rows_max: u64,
    examined_max: u64,
    answer_bytes_max: usize,
    /// Records per step, and steps after which the deadline passes.
    step: u64,
    steps: u64,
}

fn bounds() -> impl Strategy<Value = Bounds> {
    (1..6_u64, 1..6_u64, 1..8_u64, 12..60_usize, 1..4_u64, 1..8_u64).prop_map(
        |(limit, rows_max, examined_max, answer_bytes_max, step, steps)| Bounds {
            limit,
            rows_max,
            examined_max,
            answer_bytes_max,
            step,
            steps,
        },
    )
}

/// One answer to a statement, cut off by a deadline if it takes too many steps.
fn answer(house: &House, statement: &str, bounds: Bounds) -> serde_json::Value {
    let settings = std::sync::Arc::new(Settings {
        rows_max: bounds.rows_max,
        examined_max: bounds.examined_max,
        answer_bytes_max: bounds.answer_bytes_max,
        ..Settings::default()
    });
    let budget = Budget {
        records: bounds.step,
        bytes: usize::MAX,
        until: None,
    };
    let statement = std::sync::Arc::new(Statement::read(statement.as_bytes(), &settings).unwrap());
    let snapshot = house.store.snapshot().unwrap();
    let now_ms = house.now_ms.get();
    let mut execution = Execution::new(&statement, &settings, &snapshot, &Everything, now_ms).unwrap();
    let (mut out, mut steps) = (Vec::new(), 0);
    while execution.step(&snapshot, budget, &mut out).unwrap() == Progress::More {
        steps += 1;
        if steps == bounds.steps && execution.cut("deadline", &mut out) {
            break;
        }
    }
    serde_json::from_slice(&out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150 / super::FEWER_CASES))]

    #[test]
    fn all_answers_together_are_the_whole_result(
        // Values of the records, by kind.
        kinds in proptest::collection::vec(proptest::collection::vec(0..4_u64, 0..7), KINDS.len()),
        indexed in proptest::collection::vec(any::<bool>(), KINDS.len()),
        condition in prop_oneof![
            Just("HAS(n)"), Just("EQ(n 1)"), Just("GT(n 1)"), Just("EQ(tags.* 2)"), Just("IN(tags.* 1 2)"),
            Just("GT(tags.* 0)"), Just("AND(IN(kind 'B' 'D') GTE(n 1))"), Just("HAS(nothing)"),
        ],
        bounds in bounds(),
    ) {
        let house = House::new();
        for (kind, _) in KINDS.iter().zip(&indexed).filter(|(_, indexed)| **indexed) {
            house.index(&format!("{kind}-n"), kind, &["n"], false);
            house.index(&format!("{kind}-tags"), kind, &["tags.*"], false);
        }
        for (kind, values) in KINDS.iter().zip(&kinds) {
            for n in values {
                let text = "x".repeat(*n as usize);
                house.create(&format!(r#"{{"kind":"{kind}","n":{n},"tags":[{n},2],"text":"{text}"}}"#));
            }
        }
        let references = |answer: &serde_json::Value| -> Vec<u64> {
            let rows = answer["results"].as_array().unwrap();
            rows.iter().map(|row| row[0].as_u64().unwrap()).collect()
        };
        let statement = format!("WHERE {condition} SELECT [$ref text]");
        let whole: serde_json::Value = serde_json::from_str(&house.tql(&statement)).unwrap();
        let whole: BTreeSet<u64> = references(&whole).into_iter().collect();
        let (mut cursor, mut paged, mut answers) = (String::new(), BTreeSet::new(), 0);
        loop {
            let paged_statement = format!("{statement} LIMIT {} CURSOR '{cursor}'", bounds.limit);
            let answer = answer(&house, &paged_statement, bounds);
            let rows = references(&answer);
            prop_assert!(rows.len() as u64 <= bounds.limit.min(bounds.rows_max));
            for reference in rows {
                prop_assert!(paged.insert(reference), "{}: {} twice", &paged_statement, reference);
            }
            let Some(next) = answer["cursor"].as_str() else {
                prop_assert_eq!(&answer["truncated"], &serde_json::Value::Null, "{}", &answer);
                break;
            };
            prop_assert!(cursor != next, "{}: {} gets no further", &paged_statement, &answer);
            next.clone_into(&mut cursor);
            answers += 1;
            prop_assert!(answers < 200, "it ends");
        }
        prop_assert_eq!(paged, whole, "{}", statement);
    }
}

#[test]
fn a_cursor_stands_with_nothing_that_needs_all_rows_at_once() {
    let house = House::new();
    for clause in ["SORT a", "UNIQUE a", "PAGE 1 0", "AT a"] {
        let refused = house.tql(&format!("SELECT a {clause} CURSOR ''"));
        assert!(refused.contains("makes no sense with CURSOR"), "{refused}");
    }
    house.create("{}");
    assert_eq!(house.tql("LIMIT 0 CURSOR ''"), r#"{"code":0,"results":[]}"#);
}

#[test]
fn a_cursor_is_hexadecimal_digits_and_nothing_else() {
    let house = House::new();
    house.create("{}");
    for cursor in ["52000+f", "520000+f", "5200+00f", "5g", "é0"] {
        let refused = house.tql(&format!("SELECT $ref CURSOR '{cursor}'"));
        assert!(
            refused.starts_with("CURSOR takes what an answer gave"),
            "{cursor}: {refused}"
        );
    }
}
