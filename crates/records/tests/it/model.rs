//! Planned execution against a model that looks at every record: whatever indexes there are, a statement finds the same.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::house::House;

/// A scalar as it is stored, and what it means.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    Other(u8),
    /// In tenths.
    Number(i32),
    /// Minutes from some time on.
    Time(i32),
    Uuid(u8),
}

const SCALARS: [(&str, Meaning); 22] = [
    ("null", Meaning::Other(0)),
    ("true", Meaning::Other(1)),
    ("false", Meaning::Other(2)),
    ("\"\"", Meaning::Other(3)),
    ("\"a\"", Meaning::Other(4)),
    ("\"1\"", Meaning::Other(5)),
    ("\"x y\"", Meaning::Other(6)),
    ("0", Meaning::Number(0)),
    ("-0.0", Meaning::Number(0)),
    ("1", Meaning::Number(10)),
    ("1.0", Meaning::Number(10)),
    ("10e-1", Meaning::Number(10)),
    ("1.5", Meaning::Number(15)),
    ("-7", Meaning::Number(-70)),
    ("20", Meaning::Number(200)),
    ("\"2020-01-01T00:00:00Z\"", Meaning::Time(0)),
    ("\"2020-01-01T02:00:00.000+02:00\"", Meaning::Time(0)),
    ("\"2019-12-31T18:30:00-05:30\"", Meaning::Time(0)),
    ("\"2020-01-01T23:59:00Z\"", Meaning::Time(1439)),
    ("\"2019-12-30T12:00:00Z\"", Meaning::Time(-2160)),
    ("\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\"", Meaning::Uuid(1)),
    ("\"6BA7B810-9DAD-11D1-80B4-00C04FD430C8\"", Meaning::Uuid(1)),
];
const ORDERED: [usize; 12] = [7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18, 19];

#[derive(Clone, Debug)]
enum Field {
    Absent,
    Scalar(usize),
    Array(Vec<usize>),
    Object(usize),
}

impl Field {
    fn text(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Scalar(at) => Some(SCALARS[*at].0.to_owned()),
            Self::Array(all) => {
                let all: Vec<&str> = all.iter().map(|at| SCALARS[*at].0).collect();
                Some(format!("[{}]", all.join(",")))
            }
            Self::Object(at) => Some(format!("{{\"x\":{}}}", SCALARS[*at].0)),
        }
    }
}

const FIELDS: [&str; 3] = ["a", "b", "c"];
const KINDS: [&str; 2] = ["One", "Two"];

#[derive(Clone, Debug)]
struct Record {
    kind: usize,
    fields: Vec<Field>,
}

impl Record {
    fn text(&self) -> String {
        let mut members = vec![format!("\"kind\":\"{}\"", KINDS[self.kind])];
        for (name, field) in FIELDS.iter().zip(&self.fields) {
            members.extend(field.text().map(|text| format!("\"{name}\":{text}")));
        }
        format!("{{{}}}", members.join(","))
    }

    /// The values at a path: scalars, and `None` for anything else that is there.
    fn at(&self, path: Path) -> Vec<Option<usize>> {
        match (path.way, &self.fields[path.field]) {
            (Way::Itself, Field::Scalar(at)) | (Way::Member, Field::Object(at)) => vec![Some(*at)],
            (Way::Itself, Field::Array(_) | Field::Object(_)) => vec![None],
            (Way::Each, Field::Array(all)) => all.iter().map(|at| Some(*at)).collect(),
            _ => Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Way {
    Itself,
    Each,
    Member,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    field: usize,
    way: Way,
}

impl Path {
    fn text(self) -> String {
        let name = FIELDS[self.field];
        match self.way {
            Way::Itself => name.to_owned(),
            Way::Each => format!("{name}.*"),
            Way::Member => format!("{name}.x"),
        }
    }
}

#[derive(Clone, Debug)]
enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    Has(Path),
    Kind(usize),
    One(Path, Vec<usize>),
    /// By a function: GT, GTE, LT, LTE.
    Ordered(Path, usize, usize),
    Between(Path, usize, usize, bool, bool),
}

impl Expression {
    fn text(&self) -> String {
        let all = |all: &[Self]| all.iter().map(Self::text).collect::<Vec<_>>().join(" ");
        match self {
            Self::And(each) => format!("AND({})", all(each)),
            Self::Or(each) => format!("OR({})", all(each)),
            Self::Not(one) => format!("NOT({})", one.text()),
            Self::Has(path) => format!("HAS({})", path.text()),
            Self::Kind(kind) => format!("EQ(kind '{}')", KINDS[*kind]),
            Self::One(path, values) => {
                let values: Vec<&str> = values.iter().map(|at| SCALARS[*at].0).collect();
                format!("IN({} {})", path.text(), values.join(" "))
            }
            Self::Ordered(path, function, value) => {
                format!(
                    "{}({} {})",
                    ["GT", "GTE", "LT", "LTE"][*function],
                    path.text(),
                    SCALARS[*value].0
                )
            }
            Self::Between(path, from, to, least, most) => {
                format!(
                    "BETWEEN({} {} {} {least} {most})",
                    path.text(),
                    SCALARS[*from].0,
                    SCALARS[*to].0
                )
            }
        }
    }

    fn holds(&self, record: &Record) -> bool {
        let some =
            |path: &Path, wanted: &dyn Fn(usize) -> bool| record.at(*path).into_iter().flatten().any(wanted);
        match self {
            Self::And(all) => all.iter().all(|one| one.holds(record)),
            Self::Or(any) => any.iter().any(|one| one.holds(record)),
            Self::Not(one) => !one.holds(record),
            Self::Has(path) => !record.at(*path).is_empty(),
            Self::Kind(kind) => record.kind == *kind,
            Self::One(path, values) => some(path, &|found| {
                values.iter().any(|value| SCALARS[*value].1 == SCALARS[found].1)
            }),
            Self::Ordered(path, function, value) => some(path, &|found| {
                compare(found, *value).is_some_and(|order| match function {
                    0 => order.is_gt(),
                    1 => order.is_ge(),
                    2 => order.is_lt(),
                    _ => order.is_le(),
                })
            }),
            Self::Between(path, from, to, least, most) => some(path, &|found| {
                let (Some(from), Some(to)) = (compare(found, *from), compare(found, *to)) else {
                    return false;
                };
                (from.is_gt() || *least && from.is_eq()) && (to.is_lt() || *most && to.is_eq())
            }),
        }
    }
}

fn compare(left: usize, right: usize) -> Option<std::cmp::Ordering> {
    match (SCALARS[left].1, SCALARS[right].1) {
        (Meaning::Number(left), Meaning::Number(right)) | (Meaning::Time(left), Meaning::Time(right)) => {
            Some(left.cmp(&right))
        }
        _ => None,
    }
}

fn is_time(at: usize) -> bool {
    matches!(SCALARS[at].1, Meaning::Time(_))
}

fn scalar() -> impl Strategy<Value = usize> {
    0..SCALARS.len()
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        1 => Just(Field::Absent),
        5 => scalar().prop_map(Field::Scalar),
        2 => proptest::collection::vec(scalar(), 0..4).prop_map(Field::Array),
        1 => scalar().prop_map(Field::Object),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    (0..KINDS.len(), proptest::collection::vec(field(), FIELDS.len()))
        .prop_map(|(kind, fields)| Record { kind, fields })
}

fn path() -> impl Strategy<Value = Path> {
    let way = prop_oneof![4 => Just(Way::Itself), 2 => Just(Way::Each), 1 => Just(Way::Member)];
    (0..FIELDS.len(), way).prop_map(|(field, way)| Path { field, way })
}

fn expression() -> impl Strategy<Value = Expression> {
    let ordered = || (0..ORDERED.len()).prop_map(|at| ORDERED[at]);
    let leaf = prop_oneof![
        1 => path().prop_map(Expression::Has),
        2 => (0..KINDS.len()).prop_map(Expression::Kind),
        4 => (path(), proptest::collection::vec(scalar(), 1..4)).prop_map(|(path, values)| Expression::One(path, values)),
        3 => (path(), 0..4_usize, ordered()).prop_map(|(path, function, value)| Expression::Ordered(path, function, value)),
        2 => (path(), ordered(), ordered(), any::<bool>(), any::<bool>())
            .prop_filter("both numbers or both times", |(_, from, to, ..)| is_time(*from) == is_time(*to))
            .prop_map(|(path, from, to, least, most)| Expression::Between(path, from, to, least, most)),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            4 => proptest::collection::vec(inner.clone(), 1..4).prop_map(Expression::And),
            2 => proptest::collection::vec(inner.clone(), 1..4).prop_map(Expression::Or),
            1 => inner.prop_map(|one| Expression::Not(Box::new(one))),
        ]
    })
}

/// Fields of an index, `*` in one of them at most.
fn index() -> impl Strategy<Value = (usize, Vec<String>)> {
    (0..KINDS.len(), proptest::collection::vec(path(), 1..3)).prop_map(|(kind, paths)| {
        let mut fields: Vec<String> = Vec::new();
        for path in paths {
            let text = path.text();
            let many = |field: &String| field.contains('*');
            let another = many(&text) && fields.iter().any(many);
            if !another && !fields.contains(&text) {
                fields.push(text);
            }
        }
        (kind, fields)
    })
}

fn references(answer: &str, member: &str) -> Vec<u64> {
    let answer: serde_json::Value = serde_json::from_str(answer).unwrap();
    let found = answer[member].as_array().unwrap_or_else(|| panic!("{answer}"));
    found
        .iter()
        .map(|reference| reference.as_u64().unwrap())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn planned_statements_find_what_looking_at_everything_finds(
        records in proptest::collection::vec(record(), 0..30),
        indexes in proptest::collection::vec(index(), 0..5),
        expressions in proptest::collection::vec(expression(), 1..12),
    ) {
        let house = House::new();
        for (number, (kind, fields)) in indexes.iter().enumerate() {
            let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            house.index(&format!("i{number}"), KINDS[*kind], &fields, false);
        }
        let mut there: BTreeSet<u64> = records.iter().map(|record| house.create(&record.text())).collect();
        for (number, expression) in expressions.iter().enumerate() {
            let expected: BTreeSet<u64> = there
                .iter()
                .copied()
                .filter(|reference| expression.holds(&records[*reference as usize - 1]))
                .collect();
            let statement = format!("WHERE {} SELECT $ref", expression.text());
            let found = references(&house.tql(&statement), "results");
            let unique: BTreeSet<u64> = found.iter().copied().collect();
            prop_assert_eq!(unique.len(), found.len(), "{}: each once", &statement);
            prop_assert_eq!(&unique, &expected, "{}\n{}", &statement, house.tql(&format!("EXPLAIN {statement}")));
            // Page by page it is the same.
            let (mut cursor, mut paged) = (String::new(), BTreeSet::new());
            loop {
                let answer = house.tql(&format!("{statement} LIMIT 3 CURSOR '{cursor}'"));
                for reference in references(&answer, "results") {
                    prop_assert!(paged.insert(reference), "{}: each once", &statement);
                }
                let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
                match answer["cursor"].as_str() {
                    Some(next) => cursor = next.to_owned(),
                    None => break,
                }
            }
            prop_assert_eq!(&paged, &expected, "{} page by page", &statement);
            if number % 3 == 2 {
                let deleted = references(&house.tql(&format!("WHERE {} DELETE LIMIT 2", expression.text())), "deleted");
                prop_assert_eq!(deleted.len(), expected.len().min(2));
                for reference in deleted {
                    prop_assert!(expected.contains(&reference));
                    there.remove(&reference);
                }
            }
        }
    }
}
