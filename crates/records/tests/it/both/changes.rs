//! Random queries and changes, compared with a model, for all combinations of indexes and any number of records that
//! have expired but are not removed yet.

use std::collections::{BTreeMap, BTreeSet};

use forebay_records::RecordsError;
use forebay_store::{Key, Read as _, Transaction, json};
use proptest::prelude::*;

use super::{
    house::{House, NOW_MS},
    model::{Expression, KINDS, Parts, Record, expression, index, parts, record, scalar, text_of},
};

#[derive(Clone, Debug)]
enum Action {
    Find(Expression),
    FindParts(Parts),
    Insert(Option<Expression>, Record),
    Update(Expression, Record, Option<usize>),
    UpdateParts(Parts, usize, Option<usize>),
    Delete(Expression, Option<usize>),
    DeleteParts(Parts),
    /// Makes a record, given by its position among the existing ones, expire after that many milliseconds.
    Expire(usize, u64),
    ExpireKind(usize, u64),
    Wait(u64),
    /// Removes expired nodes, as the store does within a second.
    Sweep,
}

fn action() -> impl Strategy<Value = Action> {
    let limit = || proptest::option::weighted(0.4, 0..6_usize);
    prop_oneof![
        4 => expression().prop_map(Action::Find),
        2 => parts().prop_map(Action::FindParts),
        3 => (proptest::option::weighted(0.3, expression()), record()).prop_map(|(unless, new)| Action::Insert(unless, new)),
        2 => (expression(), record(), limit()).prop_map(|(which, new, limit)| Action::Update(which, new, limit)),
        3 => (parts(), scalar(), limit()).prop_map(|(which, new, limit)| Action::UpdateParts(which, new, limit)),
        1 => (expression(), limit()).prop_map(|(which, limit)| Action::Delete(which, limit)),
        2 => parts().prop_map(Action::DeleteParts),
        3 => (any::<prop::sample::Index>(), 0..10_u64).prop_map(|(which, after)| Action::Expire(which.index(1000), after)),
        1 => (0..KINDS.len(), 0..10_u64).prop_map(|(kind, after)| Action::ExpireKind(kind, after)),
        3 => (1..5_u64).prop_map(Action::Wait),
        1 => Just(Action::Sweep),
    ]
}

/// Expected content of the store.
#[derive(Debug)]
struct Model {
    there: BTreeMap<u64, Record>,
    /// Expiry times of records and of whole kinds.
    ends: BTreeMap<u64, u64>,
    kinds_end: [Option<u64>; KINDS.len()],
    /// Records that have expired but are not removed, with their kinds: as long as there are any, the kind and its
    /// expiry time exist.
    left: BTreeMap<u64, usize>,
    last: u64,
    now_ms: u64,
}

impl Model {
    /// Advances the time and drops records that have expired.
    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        let has_ended = |at: Option<u64>| at.is_some_and(|at| at <= self.now_ms);
        let (ends, kinds_end) = (&self.ends, &mut self.kinds_end);
        let ended = self.there.extract_if(.., |reference, record| {
            has_ended(ends.get(reference).copied()) || has_ended(kinds_end[record.kind])
        });
        self.left
            .extend(ended.map(|(reference, record)| (reference, record.kind)));
        for (kind, ends) in kinds_end
            .iter_mut()
            .enumerate()
            .filter(|(_, ends)| has_ended(**ends))
        {
            *ends = None;
            self.left.retain(|_, left| *left != kind);
        }
    }

    /// Kinds without records have no expiry time.
    fn settle(&mut self) {
        for (kind, ends) in self.kinds_end.iter_mut().enumerate() {
            let is_there = self.there.values().any(|record| record.kind == kind);
            if !is_there && !self.left.values().any(|left| *left == kind) {
                *ends = None;
            }
        }
    }

    fn matching(&self, expression: &Expression) -> BTreeSet<u64> {
        let matching = self.there.iter().filter(|(_, record)| expression.holds(record));
        matching.map(|(reference, _)| *reference).collect()
    }

    /// Number of matching parts of each record that has any.
    fn parts(&self, parts: &Parts) -> BTreeMap<u64, usize> {
        let counts = self
            .there
            .iter()
            .map(|(reference, record)| (*reference, parts.count(record)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    fn create(&mut self, record: &Record) -> u64 {
        self.last += 1;
        self.there.insert(self.last, record.clone());
        self.last
    }

    fn remove(&mut self, reference: u64) {
        self.there.remove(&reference);
        self.ends.remove(&reference);
    }
}

fn member(answer: &str, member: &str) -> serde_json::Value {
    let answer: serde_json::Value = serde_json::from_str(answer).unwrap_or_else(|_| panic!("{answer}"));
    answer[member].clone()
}

fn references(answer: &str, name: &str) -> Vec<u64> {
    let found = member(answer, name);
    let found = found.as_array().unwrap_or_else(|| panic!("{answer}"));
    found
        .iter()
        .map(|reference| reference.as_u64().unwrap())
        .collect()
}

fn limited(limit: Option<usize>) -> String {
    limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default()
}

/// All rows of a statement with a cursor, three at a time.
fn paged(house: &House, statement: &str) -> Vec<u64> {
    let (mut cursor, mut rows) = (String::new(), Vec::new());
    loop {
        let answer = house.tql(&format!("{statement} LIMIT 3 CURSOR '{cursor}'"));
        rows.extend(references(&answer, "results"));
        match member(&answer, "cursor").as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => return rows,
        }
    }
}

/// Removes expired nodes, as the store does, but by the time of the house.
fn sweep(house: &House, now_ms: u64) {
    let sweep = |transaction: &mut Transaction| {
        for kind in KINDS {
            let mut ended = vec![Key::global(kind)?];
            for reference in 0..200_u64 {
                ended.push(ended[0].child(&reference.to_string())?);
            }
            for key in ended {
                if transaction.expires(&key)?.is_some_and(|at| at <= now_ms) {
                    transaction.kill(&key)?;
                }
            }
        }
        Ok::<(), forebay_store::StoreError>(())
    };
    house.store.transact(sweep).unwrap();
}

fn act(house: &House, model: &mut Model, action: &Action) -> Result<(), TestCaseError> {
    match action {
        Action::Find(expression) => {
            let expected = model.matching(expression);
            let statement = format!("WHERE {} SELECT $ref", expression.text(""));
            let found = references(&house.tql(&statement), "results");
            let unique: BTreeSet<u64> = found.iter().copied().collect();
            prop_assert_eq!(unique.len(), found.len(), "{}: each once", &statement);
            prop_assert_eq!(
                &unique,
                &expected,
                "{}\n{}",
                &statement,
                house.tql(&format!("EXPLAIN {statement}"))
            );
            let paged = paged(house, &statement);
            let unique: BTreeSet<u64> = paged.iter().copied().collect();
            prop_assert_eq!(
                unique.len(),
                paged.len(),
                "{}: each once, page by page",
                &statement
            );
            prop_assert_eq!(&unique, &expected, "{} page by page", &statement);
        }
        Action::FindParts(parts) => {
            let statement = format!("{} SELECT $ref", parts.text());
            let mut found = BTreeMap::new();
            for reference in references(&house.tql(&statement), "results") {
                *found.entry(reference).or_insert(0) += 1;
            }
            prop_assert_eq!(
                &found,
                &model.parts(parts),
                "{}\n{}",
                &statement,
                house.tql(&format!("EXPLAIN {statement}"))
            );
        }
        Action::Insert(unless, record) => {
            let unless_text = unless
                .as_ref()
                .map(|unless| format!("WHERE {} ", unless.text("")));
            let statement = format!("{}INSERT {}", unless_text.unwrap_or_default(), record.text());
            let there = unless
                .as_ref()
                .map(|unless| model.matching(unless))
                .unwrap_or_default();
            match house.try_tql(&statement) {
                Err(RecordsError::AlreadyExists { reference }) => prop_assert!(there.contains(&reference.0)),
                answer => {
                    let made = member(&answer.unwrap(), "ref").as_u64();
                    prop_assert!(there.is_empty(), "{}", &statement);
                    prop_assert_eq!(made, Some(model.create(record)));
                }
            }
        }
        Action::Update(expression, record, limit) => {
            let statement = format!(
                "WHERE {} UPDATE {}{}",
                expression.text(""),
                record.text(),
                limited(*limit)
            );
            let matching = model.matching(expression);
            match (house.try_tql(&statement), limit) {
                (Err(RecordsError::LimitExceeded { .. }), Some(limit)) => {
                    prop_assert!(*limit > 0 && matching.len() > *limit, "{}", &statement);
                }
                (answer, Some(0)) => {
                    for reference in &matching {
                        model.remove(*reference);
                    }
                    model.settle();
                    let made = model.create(record);
                    prop_assert_eq!(references(&answer.unwrap(), "updated"), vec![made]);
                }
                (answer, _) => {
                    let updated: BTreeSet<u64> =
                        references(&answer.unwrap(), "updated").into_iter().collect();
                    prop_assert!(
                        limit.is_none_or(|limit| matching.len() <= limit),
                        "{}",
                        &statement
                    );
                    prop_assert_eq!(&updated, &matching, "{}", &statement);
                    for reference in matching {
                        model.ends.remove(&reference);
                        model.there.insert(reference, record.clone());
                    }
                }
            }
        }
        Action::UpdateParts(parts, new, limit) => {
            // Without records to update, it would insert one.
            let limit = limit.filter(|limit| *limit > 0);
            let statement = format!("{} UPDATE {}{}", parts.text(), text_of(*new), limited(limit));
            let matching = model.parts(parts);
            let count: usize = matching.values().sum();
            match house.try_tql(&statement) {
                Err(RecordsError::LimitExceeded { .. }) => {
                    prop_assert!(limit.is_some_and(|limit| count > limit), "{}", &statement);
                }
                answer => {
                    let updated: BTreeSet<u64> =
                        references(&answer.unwrap(), "updated").into_iter().collect();
                    prop_assert!(limit.is_none_or(|limit| count <= limit), "{}", &statement);
                    prop_assert_eq!(&updated, &matching.keys().copied().collect(), "{}", &statement);
                    for reference in updated {
                        parts.edit(model.there.get_mut(&reference).unwrap(), Some(*new));
                    }
                }
            }
        }
        Action::Delete(expression, limit) => {
            let statement = format!("WHERE {} DELETE{}", expression.text(""), limited(*limit));
            let matching = model.matching(expression);
            let deleted = references(&house.tql(&statement), "deleted");
            prop_assert_eq!(
                deleted.len(),
                limit.unwrap_or(usize::MAX).min(matching.len()),
                "{}",
                &statement
            );
            for reference in deleted {
                prop_assert!(matching.contains(&reference), "{}", &statement);
                model.remove(reference);
            }
        }
        Action::DeleteParts(parts) => {
            let statement = format!("{} DELETE", parts.text());
            let matching = model.parts(parts).into_keys().collect();
            let deleted: BTreeSet<u64> = references(&house.tql(&statement), "deleted")
                .into_iter()
                .collect();
            prop_assert_eq!(&deleted, &matching, "{}", &statement);
            for reference in deleted {
                parts.edit(model.there.get_mut(&reference).unwrap(), None);
            }
        }
        Action::Expire(place, after_ms) => {
            let Some((reference, record)) = model.there.iter().nth(place % model.there.len().max(1)) else {
                return Ok(());
            };
            let at_ms = model.now_ms + after_ms;
            house.expire(KINDS[record.kind], Some(*reference), at_ms);
            model.ends.insert(*reference, at_ms);
            model.wait(0);
        }
        Action::ExpireKind(kind, after_ms) => {
            if model.there.values().all(|record| record.kind != *kind) {
                return Ok(());
            }
            let at_ms = model.now_ms + after_ms;
            house.expire(KINDS[*kind], None, at_ms);
            model.kinds_end[*kind] = Some(at_ms);
            model.wait(0);
        }
        Action::Wait(ms) => {
            model.wait(*ms);
            house.now_ms.set(model.now_ms);
        }
        Action::Sweep => {
            sweep(house, model.now_ms);
            model.left.clear();
        }
    }
    model.settle();
    Ok(())
}

/// Checks that the records equal the model, one by one and together.
fn check(house: &House, model: &Model) -> Result<(), TestCaseError> {
    let expected: Vec<(u64, String)> = model
        .there
        .iter()
        .map(|(reference, record)| {
            let text = json::canonical(record.text().as_bytes()).unwrap();
            (*reference, String::from_utf8(text).unwrap())
        })
        .collect();
    for (reference, text) in &expected {
        let answer = house.tql(&format!("WHERE {reference} SELECT $"));
        prop_assert_eq!(answer, format!("{{\"code\":0,\"results\":[{}]}}", text));
    }
    let all: Vec<u64> = expected.iter().map(|(reference, _)| *reference).collect();
    prop_assert_eq!(
        references(&house.tql("SELECT $ref SORT nothing"), "results")
            .into_iter()
            .collect::<BTreeSet<_>>(),
        all.into_iter().collect()
    );
    let mut snapshot = house.store.snapshot().unwrap();
    snapshot.verify_indexes().unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200 / super::FEWER_CASES))]

    #[test]
    fn planned_statements_find_and_change_what_looking_at_everything_would(
        records in proptest::collection::vec(record(), 0..30),
        indexes in proptest::collection::vec(index(), 0..5),
        actions in proptest::collection::vec(action(), 1..24),
    ) {
        let house = House::new();
        for (number, (kind, fields)) in indexes.iter().enumerate() {
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            house.index(&format!("i{number}"), KINDS[*kind], &fields, false);
        }
        let mut model = Model {
            there: BTreeMap::new(),
            ends: BTreeMap::new(),
            kinds_end: [None; KINDS.len()],
            left: BTreeMap::new(),
            last: 0,
            now_ms: NOW_MS,
        };
        for record in &records {
            prop_assert_eq!(house.create(&record.text()), model.create(record));
        }
        for action in &actions {
            act(&house, &mut model, action)?;
        }
        check(&house, &model)?;
    }
}
