//! Rows of the table `world`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Kind, answers::Answers};
use crate::Postgres;

/// The requested number and the expected number of rows: the verifier's own cases, then those of the rules that it leaves out.
const CASES: [(&str, usize); 10] = [
    ("2", 2),
    ("0", 1),
    ("foo", 1),
    ("", 1),
    ("501", MOST),
    ("20", 20),
    ("-1", 1),
    ("1.5", 1),
    ("1e3", 1),
    ("99999999999999999999", MOST),
];
/// Largest number of rows in a response.
const MOST: usize = 500;
/// Most problems reported for one response.
const PROBLEMS_TOLD: usize = 5;
/// Percentage of rows that must have changed: an update may draw a row twice, or its old number.
const CHANGED_PERCENT: usize = 95;
/// Number of draws that must not all be the same row.
const DRAWS: usize = 10;

/// The numbers of both tables, from row 1 on: a server may use either spelling.
struct Tables([Vec<i32>; 2]);

impl Tables {
    fn of(postgres: &Postgres) -> Self {
        let mut admin = postgres.admin();
        Self(["world", "\"World\""].map(|table| {
            let numbers = format!("select array_agg(randomNumber order by id) from {table}");
            let numbers = admin.query_one(&numbers, &[]);
            numbers.expect("the table is there").get(0)
        }))
    }

    fn has(&self, id: i64, number: i64) -> bool {
        let row = usize::try_from(id - 1).expect("rows are numbered from 1 on");
        self.0
            .iter()
            .any(|table| table.get(row).is_some_and(|found| i64::from(*found) == number))
    }

    /// Number of rows that have changed, in the table with more changes.
    fn changed(&self, now: &Self) -> usize {
        let both = self.0.iter().zip(&now.0);
        let counts = both.map(|(old, new)| old.iter().zip(new).filter(|(old, new)| old != new).count());
        counts.max().unwrap_or(0)
    }
}

/// Parses a row: an object of two numbers.
fn world(row: &Value) -> Result<(i64, i64), String> {
    let object = row.as_object().ok_or_else(|| format!("not an object: {row}"))?;
    let keys: BTreeSet<&str> = object.keys().map(String::as_str).collect();
    if keys != BTreeSet::from(["id", "randomNumber"]) {
        return Err(format!("keys {keys:?} instead of id and randomNumber"));
    }
    let number = |key: &str| {
        let number = row[key].as_i64().filter(|number| (1..=10_000).contains(number));
        number.ok_or_else(|| format!("{key} is {} instead of an integer from 1 to 10000", row[key]))
    };
    Ok((number("id")?, number("randomNumber")?))
}

/// `/db`.
pub(super) fn one(answers: &mut Answers, postgres: &Postgres) {
    let target = Kind::Db.path();
    let tables = Tables::of(postgres);
    let mut drawn = BTreeSet::new();
    for _ in 0..DRAWS {
        let Some(row) = answers.ask_json(target) else {
            return;
        };
        match world(&row) {
            Ok((id, number)) if tables.has(id, number) => drawn.insert(id),
            Ok(_) => return answers.problem(target, format!("the database has no row {row}")),
            Err(text) => return answers.problem(target, text),
        };
    }
    if drawn.len() == 1 {
        answers.problem(target, format!("{DRAWS} times the row {drawn:?}"));
    }
}

/// `/queries`, `/queries2` and `/cached-queries`.
pub(super) fn many(answers: &mut Answers, postgres: &Postgres) {
    let tables = Tables::of(postgres);
    for (asked, count) in CASES {
        let target = format!("{}{asked}", answers.kind().path());
        let rows = rows(answers, &target, count);
        strangers(answers, &target, &rows, &tables);
    }
    without_a_number(answers);
}

/// `/updates`.
pub(super) fn updated(answers: &mut Answers, postgres: &Postgres) {
    for (asked, count) in CASES {
        let target = format!("{}{asked}", answers.kind().path());
        let before = Tables::of(postgres);
        let rows = rows(answers, &target, count);
        let now = Tables::of(postgres);
        if rows.len() != count {
            continue;
        }
        // A row that was drawn twice has either number.
        let mut last = BTreeMap::<i64, Vec<i64>>::new();
        for (id, number) in &rows {
            last.entry(*id).or_default().push(*number);
        }
        let missing = last
            .iter()
            .find(|(id, numbers)| !numbers.iter().any(|number| now.has(**id, *number)));
        if let Some((id, numbers)) = missing {
            let text = format!("answered {numbers:?} for the row {id}, which has another number");
            answers.problem(&target, text);
        }
        let changed = before.changed(&now);
        if count == MOST && changed * 100 <= MOST * CHANGED_PERCENT {
            answers.problem(&target, format!("{changed} rows changed instead of {MOST}"));
        }
        let numbers: BTreeSet<i64> = rows.iter().map(|(_, number)| *number).collect();
        if count >= DRAWS && numbers.len() == 1 {
            answers.problem(&target, "all rows have got the same number");
        }
    }
    without_a_number(answers);
}

/// Sends a request without a number.
fn without_a_number(answers: &mut Answers) {
    let path = answers.kind().path();
    let target = path.split_once('?').map_or(path, |(path, _)| path);
    rows(answers, target, 1);
}

/// Requests rows, of which there must be `count`; returns the valid ones.
fn rows(answers: &mut Answers, target: &str, count: usize) -> Vec<(i64, i64)> {
    let Some(body) = answers.ask_json(target) else {
        return Vec::new();
    };
    let Some(rows) = body.as_array() else {
        answers.problem(target, format!("not an array: {body}"));
        return Vec::new();
    };
    if rows.len() != count {
        answers.problem(target, format!("{} rows instead of {count}", rows.len()));
    }
    let (right, wrong): (Vec<_>, Vec<_>) = rows.iter().map(world).partition(Result::is_ok);
    for text in wrong.into_iter().filter_map(Result::err).take(PROBLEMS_TOLD) {
        answers.problem(target, text);
    }
    right.into_iter().flatten().collect()
}

/// Reports rows that the database does not have.
fn strangers(answers: &mut Answers, target: &str, rows: &[(i64, i64)], tables: &Tables) {
    let strangers = rows.iter().filter(|(id, number)| !tables.has(*id, *number));
    for (id, number) in strangers.take(PROBLEMS_TOLD) {
        let text = format!("the database has no row {id} with the number {number}");
        answers.problem(target, text);
    }
}
