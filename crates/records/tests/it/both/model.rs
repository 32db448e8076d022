//! Model of records and expressions: evaluates them by examining every record.

use proptest::prelude::*;

/// A scalar as it is stored, and its meaning.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    Other(u8),
    /// In tenths.
    Number(i32),
    /// Minutes since a fixed time.
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
pub(super) enum Item {
    Scalar(usize),
    /// With or without a member `x`.
    Object(Option<usize>),
}

impl Item {
    fn text(&self) -> String {
        match self {
            Self::Scalar(at) => SCALARS[*at].0.to_owned(),
            Self::Object(Some(at)) => format!("{{\"x\":{}}}", SCALARS[*at].0),
            Self::Object(None) => "{}".to_owned(),
        }
    }

    fn scalar(&self) -> Option<usize> {
        match self {
            Self::Scalar(at) => Some(*at),
            Self::Object(_) => None,
        }
    }

    fn member(&self) -> Option<usize> {
        match self {
            Self::Scalar(_) => None,
            Self::Object(member) => *member,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Field {
    Absent,
    One(Item),
    Array(Vec<Item>),
}

impl Field {
    fn text(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::One(item) => Some(item.text()),
            Self::Array(all) => {
                let all: Vec<String> = all.iter().map(Item::text).collect();
                Some(format!("[{}]", all.join(",")))
            }
        }
    }
}

const FIELDS: [&str; 3] = ["a", "b", "c"];
pub(super) const KINDS: [&str; 2] = ["One", "Two"];

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) kind: usize,
    pub(super) fields: Vec<Field>,
}

impl Record {
    pub(super) fn text(&self) -> String {
        let mut members = vec![format!("\"kind\":\"{}\"", KINDS[self.kind])];
        for (name, field) in FIELDS.iter().zip(&self.fields) {
            members.extend(field.text().map(|text| format!("\"{name}\":{text}")));
        }
        format!("{{{}}}", members.join(","))
    }

    /// The values at a path: scalars, and `None` for anything else there.
    fn at(&self, path: Path) -> Vec<Option<usize>> {
        match (path.way, &self.fields[path.field]) {
            (Way::Itself, Field::One(item)) => vec![item.scalar()],
            (Way::Itself, Field::Array(_)) => vec![None],
            (Way::Member, Field::One(item)) => item.member().into_iter().map(Some).collect(),
            (Way::Each, Field::Array(all)) => all.iter().map(Item::scalar).collect(),
            (Way::EachMember, Field::Array(all)) => all.iter().filter_map(Item::member).map(Some).collect(),
            _ => Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    Itself,
    Each,
    Member,
    EachMember,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) field: usize,
    pub(super) way: Way,
}

impl Path {
    pub(super) fn text(self) -> String {
        let name = FIELDS[self.field];
        match self.way {
            Way::Itself => name.to_owned(),
            Way::Each => format!("{name}.*"),
            Way::Member => format!("{name}.x"),
            Way::EachMember => format!("{name}.*.x"),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    Has(Path),
    Kind(usize),
    One(Path, Vec<usize>),
    /// One of the functions GT, GTE, LT, LTE.
    Ordered(Path, usize, usize),
    Between(Path, usize, usize, bool, bool),
}

impl Expression {
    /// In TQL, with a prefix for all paths.
    pub(super) fn text(&self, root: &str) -> String {
        let all = |all: &[Self]| all.iter().map(|one| one.text(root)).collect::<Vec<_>>().join(" ");
        let at = |path: &Path| format!("{root}{}", path.text());
        match self {
            Self::And(each) => format!("AND({})", all(each)),
            Self::Or(each) => format!("OR({})", all(each)),
            Self::Not(one) => format!("NOT({})", one.text(root)),
            Self::Has(path) => format!("HAS({})", at(path)),
            Self::Kind(kind) => format!("EQ({root}kind '{}')", KINDS[*kind]),
            Self::One(path, values) => {
                let values: Vec<&str> = values.iter().map(|at| SCALARS[*at].0).collect();
                format!("IN({} {})", at(path), values.join(" "))
            }
            Self::Ordered(path, function, value) => {
                format!(
                    "{}({} {})",
                    ["GT", "GTE", "LT", "LTE"][*function],
                    at(path),
                    SCALARS[*value].0
                )
            }
            Self::Between(path, from, to, least, most) => {
                format!(
                    "BETWEEN({} {} {} {least} {most})",
                    at(path),
                    SCALARS[*from].0,
                    SCALARS[*to].0
                )
            }
        }
    }

    pub(super) fn holds(&self, record: &Record) -> bool {
        let some =
            |path: &Path, wanted: &dyn Fn(usize) -> bool| record.at(*path).into_iter().flatten().any(wanted);
        match self {
            Self::And(all) => all.iter().all(|one| one.holds(record)),
            Self::Or(any) => any.iter().any(|one| one.holds(record)),
            Self::Not(one) => !one.holds(record),
            Self::Has(path) => !record.at(*path).is_empty(),
            Self::Kind(kind) => record.kind == *kind,
            Self::One(path, values) => some(path, &|found| is_one(found, values)),
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

/// The parts of records that a statement is about: those at a path that satisfy a condition, of records that satisfy
/// another.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    at: Path,
    of: Expression,
    /// Condition on the member `x` of a part: its accepted values; if empty, it must only exist.
    with: Option<Vec<usize>>,
}

impl Parts {
    /// In TQL.
    pub(super) fn text(&self) -> String {
        let of = self.of.text("$root.");
        let both = match &self.with {
            None => of,
            Some(values) if values.is_empty() => format!("AND(HAS(x) {of})"),
            Some(values) => {
                let values: Vec<&str> = values.iter().map(|at| SCALARS[*at].0).collect();
                format!("AND({of} IN(x {}))", values.join(" "))
            }
        };
        format!("WHERE {both} AT {}", self.at.text())
    }

    fn holds(&self, part: Option<&Item>) -> bool {
        let Some(values) = &self.with else { return true };
        part.and_then(Item::member)
            .is_some_and(|found| values.is_empty() || is_one(found, values))
    }

    /// Number of these parts in a record.
    pub(super) fn count(&self, record: &Record) -> usize {
        if !self.of.holds(record) {
            return 0;
        }
        match (self.at.way, &record.fields[self.at.field]) {
            (Way::Itself, Field::One(item)) => usize::from(self.holds(Some(item))),
            (Way::Itself, Field::Array(_)) => usize::from(self.holds(None)),
            (Way::Each, Field::Array(all)) => all.iter().filter(|item| self.holds(Some(item))).count(),
            (Way::Member, Field::One(item)) if self.holds(None) => usize::from(item.member().is_some()),
            (Way::EachMember, Field::Array(all)) if self.holds(None) => {
                all.iter().filter_map(Item::member).count()
            }
            _ => 0,
        }
    }

    /// Replaces the parts with a scalar, or removes them.
    pub(super) fn edit(&self, record: &mut Record, scalar: Option<usize>) {
        let is_member = |item: &Item| item.member().is_some();
        match (self.at.way, &mut record.fields[self.at.field]) {
            (Way::Itself, field) => *field = scalar.map_or(Field::Absent, |at| Field::One(Item::Scalar(at))),
            (Way::Each, Field::Array(all)) => match scalar {
                None => all.retain(|item| !self.holds(Some(item))),
                Some(at) => {
                    let wanted = all.iter_mut().filter(|item| self.holds(Some(item)));
                    for item in wanted {
                        *item = Item::Scalar(at);
                    }
                }
            },
            (Way::Member, Field::One(item)) => *item = Item::Object(scalar),
            (Way::EachMember, Field::Array(all)) => {
                let members = all.iter_mut().filter(|item| is_member(item));
                for item in members {
                    *item = Item::Object(scalar);
                }
            }
            (Way::Each | Way::EachMember | Way::Member, _) => unreachable!("such a record has no such parts"),
        }
    }
}

pub(super) fn parts() -> impl Strategy<Value = Parts> {
    let with = proptest::option::weighted(0.4, proptest::collection::vec(scalar(), 0..6));
    (path(), expression(), with).prop_map(|(at, of, with)| Parts { at, of, with })
}

/// A scalar as it is stored.
pub(super) fn text_of(scalar: usize) -> &'static str {
    SCALARS[scalar].0
}

fn is_one(found: usize, values: &[usize]) -> bool {
    values.iter().any(|value| SCALARS[*value].1 == SCALARS[found].1)
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

pub(super) fn scalar() -> impl Strategy<Value = usize> {
    0..SCALARS.len()
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        4 => scalar().prop_map(Item::Scalar),
        1 => scalar().prop_map(|at| Item::Object(Some(at))),
    ]
}

fn field() -> impl Strategy<Value = Field> {
    prop_oneof![
        1 => Just(Field::Absent),
        6 => item().prop_map(Field::One),
        2 => proptest::collection::vec(item(), 0..4).prop_map(Field::Array),
    ]
}

pub(super) fn record() -> impl Strategy<Value = Record> {
    (0..KINDS.len(), proptest::collection::vec(field(), FIELDS.len()))
        .prop_map(|(kind, fields)| Record { kind, fields })
}

pub(super) fn path() -> impl Strategy<Value = Path> {
    let way = prop_oneof![4 => Just(Way::Itself), 2 => Just(Way::Each), 1 => Just(Way::Member), 1 => Just(Way::EachMember)];
    (0..FIELDS.len(), way).prop_map(|(field, way)| Path { field, way })
}

pub(super) fn expression() -> impl Strategy<Value = Expression> {
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

/// Fields of an index, with at most one `*` in them.
pub(super) fn index() -> impl Strategy<Value = (usize, Vec<String>)> {
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
