//! Plans which records a statement examines: that of a reference, those that index lookups find, or all records of the
//! kinds involved.
//!
//! A plan covers every record that can match, and perhaps others: each is then tested against the whole statement.

use std::{collections::BTreeSet, ops::Bound};

use forebay_store::{
    Key, Read,
    index::{Definition, EACH, Query},
};

use super::{
    At, Comparison, Expression, Statement, Subject,
    walk::{Access, KindPlan, Lookup, Plan},
};
use crate::{
    RecordsError,
    kind::{check_kind, kinds},
    lookup::kind_at,
    operand::Operand,
    path::{Path, Step},
    permission::{Action, Permission},
    settings::Settings,
    write::{check, check_record},
};

/// Most index lookups for one kind; beyond that all of its records are scanned.
const LOOKUPS_MAX: usize = 1000;

/// Lower and upper bound of scalar values.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Conditions that must all hold for a record.
struct Conditions<'s> {
    all: Vec<&'s Expression>,
    /// Fields at which paths begin that do not begin at the record; `None` if they can begin anywhere.
    base: Option<Vec<String>>,
}

/// Access to records by indexes; of two, the one with the greater rank is better.
struct Choice {
    rank: (bool, usize, bool),
    lookups: Vec<Lookup>,
    /// Conditions that the lookups already guarantee, as far as whole records are concerned.
    used: Vec<usize>,
}

impl Plan {
    /// Plans a statement for a caller with these permissions. Kinds that it names must be readable; a statement that
    /// names none is about all readable kinds.
    pub(super) fn of(
        statement: &Statement,
        settings: &Settings,
        read: &impl Read,
        permission: &impl Permission,
        now_ms: u64,
    ) -> Result<Self, RecordsError> {
        let conditions = Conditions::of(statement);
        if let Subject::Record(reference) = statement.subject {
            let Some(kind) = kind_at(read, reference, now_ms)? else {
                return Ok(Self::default());
            };
            match check_record(permission, reference, &kind, Action::Read) {
                Err(RecordsError::NoRecord { .. }) => return Ok(Self::default()),
                outcome => outcome?,
            }
            return Ok(Self {
                kinds: vec![KindPlan {
                    key: Key::global(&kind)?,
                    kind,
                    access: Access::One(reference),
                    used: Vec::new(),
                }],
            });
        }
        let named = conditions
            .all
            .iter()
            .filter_map(|condition| conditions.kinds(condition, settings))
            .reduce(|one, other| one.intersection(&other).cloned().collect());
        let wanted: Vec<String> = match named {
            Some(named) => {
                for kind in &named {
                    check_kind(kind)?;
                    check(permission, kind, Action::Read)?;
                }
                named.into_iter().collect()
            }
            None => {
                let mut all = kinds(read)?;
                all.retain(|kind| check_kind(kind).is_ok() && permission.check(kind, Action::Read).is_ok());
                all
            }
        };
        let indexes = if wanted.is_empty() {
            Vec::new()
        } else {
            read.indexes()?
        };
        // A walk with a cursor must be resumable anywhere, which is impossible if it remembers the records it has
        // returned.
        let lookups_max = if statement.cursor.is_some() {
            1
        } else {
            LOOKUPS_MAX
        };
        let plan = |kind: String| {
            let key = Key::global(&kind)?;
            let of_kind: Vec<&Definition> = indexes.iter().filter(|index| index.records == key).collect();
            let (access, used) = match conditions.choose(&conditions.all, &of_kind, lookups_max) {
                Some(choice) => (Access::Lookups(choice.lookups), choice.used),
                None => (Access::Scan, Vec::new()),
            };
            Ok(KindPlan {
                kind,
                key,
                access,
                used,
            })
        };
        Ok(Self {
            kinds: wanted
                .into_iter()
                .map(plan)
                .collect::<Result<_, RecordsError>>()?,
        })
    }
}

/// Conditions that the access to a kind's records does not guarantee, for EXPLAIN.
pub(super) fn unanswered(statement: &Statement, settings: &Settings, plan: &KindPlan) -> Vec<String> {
    let conditions = Conditions::of(statement);
    let is_left = |(at, condition): &(usize, &&Expression)| {
        !plan.used.contains(at) && conditions.kinds(condition, settings).is_none()
    };
    let left = conditions.all.iter().enumerate().filter(is_left);
    left.map(|(_, condition)| condition.to_string()).collect()
}

impl<'s> Conditions<'s> {
    fn of(statement: &'s Statement) -> Self {
        let mut all = Vec::new();
        if let Subject::Matching(expression) = &statement.subject {
            all.extend(expression.conjuncts());
        }
        if let Some(filter) = &statement.filter {
            all.extend(filter.conjuncts());
        }
        let base = match &statement.at {
            None => Some(Vec::new()),
            Some(At::Everywhere) => None,
            Some(At::Path(path)) => field(&path.steps),
        };
        Self { all, base }
    }

    /// The index field that a path corresponds to, seen from the record.
    fn field_of(&self, path: &Path) -> Option<Vec<String>> {
        let mut steps = if path.from_root {
            Vec::new()
        } else {
            self.base.clone()?
        };
        steps.extend(field(&path.steps)?);
        Some(steps)
    }

    /// Kinds of the records that can satisfy a condition; `None` for any.
    fn kinds(&self, condition: &Expression, settings: &Settings) -> Option<BTreeSet<String>> {
        match condition {
            Expression::Is(path, Comparison::One(operands)) => {
                (self.field_of(path)? == settings.type_key).then_some(())?;
                operands.iter().map(Operand::as_text).collect()
            }
            Expression::And(all) => {
                let known = all.iter().filter_map(|one| self.kinds(one, settings));
                known.reduce(|one, other| one.intersection(&other).cloned().collect())
            }
            Expression::Or(any) => {
                let all: Option<Vec<_>> = any.iter().map(|one| self.kinds(one, settings)).collect();
                Some(all?.into_iter().flatten().collect())
            }
            Expression::Not(_) | Expression::Has(_) | Expression::Matches(..) | Expression::Is(..) => None,
        }
    }

    /// Best access by indexes to all records that satisfy the conditions.
    fn choose(
        &self,
        conditions: &[&Expression],
        indexes: &[&Definition],
        lookups_max: usize,
    ) -> Option<Choice> {
        if lookups_max == 0 {
            return None;
        }
        let by_index = indexes
            .iter()
            .filter_map(|index| self.by_index(conditions, index, lookups_max));
        let by_or = conditions.iter().filter_map(|condition| {
            let Expression::Or(any) = condition else {
                return None;
            };
            let mut whole: Option<Choice> = None;
            for arm in any {
                // The arms share one limit, so that no more lookups are made than can be used.
                let made = whole.as_ref().map_or(0, |whole| whole.lookups.len());
                let arm = self.choose(&arm.conjuncts(), indexes, lookups_max - made)?;
                whole = Some(match whole {
                    None => arm,
                    Some(mut whole) => {
                        whole.rank = whole.rank.min(arm.rank);
                        whole.lookups.extend(arm.lookups);
                        whole
                    }
                });
            }
            // Each of the arms may leave conditions to check.
            Some(Choice {
                used: Vec::new(),
                ..whole?
            })
        });
        let better = |one: Choice, other: Choice| {
            let fewer = other.rank == one.rank && other.lookups.len() < one.lookups.len();
            if other.rank > one.rank || fewer {
                other
            } else {
                one
            }
        };
        by_index.chain(by_or).reduce(better)
    }

    /// Access by one index. It has only records with a scalar in every field, so each field needs a condition that only
    /// scalars satisfy.
    fn by_index(&self, conditions: &[&Expression], index: &Definition, lookups_max: usize) -> Option<Choice> {
        let of_field = |field: &[String]| -> Vec<(usize, &Expression)> {
            let is_of = |path: &Path| self.field_of(path).is_some_and(|steps| steps == field);
            let all = conditions
                .iter()
                .enumerate()
                .filter(|(_, condition)| match condition {
                    Expression::Is(path, _) | Expression::Matches(path, _) => is_of(path),
                    _ => false,
                });
            all.map(|(at, condition)| (at, *condition)).collect()
        };
        let fields: Vec<_> = index.fields.iter().map(|field| of_field(field)).collect();
        if fields.iter().any(Vec::is_empty) {
            return None;
        }
        let mut equal: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
        let mut used = Vec::new();
        let mut depth = 0;
        for conditions in &fields {
            let Some((at, values)) = conditions
                .iter()
                .find_map(|(at, condition)| Some((*at, spellings(condition)?)))
            else {
                break;
            };
            if equal.len().saturating_mul(values.len()) > lookups_max {
                break;
            }
            let longer = |begun: &Vec<Vec<u8>>| -> Vec<Vec<Vec<u8>>> {
                let with = |value: &Vec<u8>| begun.iter().cloned().chain([value.clone()]).collect();
                values.iter().map(with).collect()
            };
            equal = equal.iter().flat_map(longer).collect();
            used.push(at);
            depth += 1;
        }
        let is_many = |depth: usize| index.fields[depth].iter().any(|step| step == EACH);
        let mut between = vec![(Bound::Unbounded, Bound::Unbounded)];
        if let Some(conditions) = fields.get(depth) {
            let ranges = conditions
                .iter()
                .filter_map(|(at, condition)| Some((*at, range(condition)?)));
            // Each condition may be met by another element, so only one of them can bound the walk.
            let ranges: Vec<_> = ranges.take(if is_many(depth) { 1 } else { usize::MAX }).collect();
            let bounds = bounds(
                ranges.iter().find_map(|(_, (from, _))| *from),
                ranges.iter().find_map(|(_, (_, to))| *to),
            );
            if equal.len().saturating_mul(bounds.len()) <= lookups_max {
                used.extend(ranges.iter().map(|(at, _)| *at));
                between = bounds;
            }
        }
        let ranged = between != [(Bound::Unbounded, Bound::Unbounded)];
        if depth == 0 && !ranged {
            return None;
        }
        let lookup = |equal: &Vec<Vec<u8>>, (from, to): &Bounds| Lookup {
            index: index.name.clone(),
            query: Query {
                equal: equal.clone(),
                from: from.clone(),
                to: to.clone(),
                reverse: false,
            },
        };
        let lookups = equal
            .iter()
            .flat_map(|equal| between.iter().map(move |bounds| lookup(equal, bounds)));
        Some(Choice {
            rank: (index.unique && depth == index.fields.len(), depth, ranged),
            lookups: lookups.collect(),
            used,
        })
    }
}

/// A path as an index field; `None` if it has a member called `*`.
fn field(steps: &[Step]) -> Option<Vec<String>> {
    let step = |step: &Step| match step {
        Step::Each => Some(EACH.to_owned()),
        Step::Name(name) if name == EACH => None,
        Step::Name(name) => Some(name.clone()),
    };
    steps.iter().map(step).collect()
}

/// All scalars that satisfy a condition, if they are finitely many.
fn spellings(condition: &Expression) -> Option<Vec<Vec<u8>>> {
    let Expression::Is(_, Comparison::One(operands)) = condition else {
        return None;
    };
    let each: Option<Vec<_>> = operands.iter().map(Operand::spellings).collect();
    let mut all: Vec<Vec<u8>> = each?.into_iter().flatten().collect();
    all.sort_unstable();
    all.dedup();
    Some(all)
}

/// Bounds within which all values lie that satisfy a condition.
fn range(condition: &Expression) -> Option<(Option<&Operand>, Option<&Operand>)> {
    let Expression::Is(_, comparison) = condition else {
        return None;
    };
    match comparison {
        Comparison::One(operands) => match &operands[..] {
            [one @ (Operand::Time(..) | Operand::Number(_, Some(_)))] => Some((Some(one), Some(one))),
            _ => None,
        },
        Comparison::Between(from, to) => {
            let operand = |bound| match bound {
                Bound::Included(operand) | Bound::Excluded(operand) => Some(operand),
                Bound::Unbounded => None,
            };
            Some((operand(from.as_ref()), operand(to.as_ref())))
        }
    }
}

/// Ranges of scalars that cover all values from `from` to `to`, in the order of indexes: null, false, true, numbers,
/// texts. A time can be a number as well as a text.
fn bounds(from: Option<&Operand>, to: Option<&Operand>) -> Vec<Bounds> {
    if from.or(to).is_none() {
        return vec![(Bound::Unbounded, Bound::Unbounded)];
    }
    // Without a bound, the range ends where the type of scalar does.
    let range = |bound: fn(&Operand, bool) -> Option<Vec<u8>>, start: Bound<&[u8]>, end: Bound<&[u8]>| {
        let one = |operand: Option<&Operand>, lower, otherwise: Bound<&[u8]>| match operand {
            None => Some(otherwise.map(<[u8]>::to_vec)),
            Some(operand) => bound(operand, lower).map(Bound::Included),
        };
        Some((one(from, true, start)?, one(to, false, end)?))
    };
    let (first_text, behind_9) = (Bound::Excluded(&b"\"\""[..]), Bound::Excluded(&b"\":\""[..]));
    let numbers = range(Operand::number_bound, Bound::Excluded(b"true"), first_text);
    let times = range(Operand::time_bound, Bound::Included(b"\"0\""), behind_9);
    numbers.into_iter().chain(times).collect()
}
