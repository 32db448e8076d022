//! `?where=`: picks the index that can answer a request's filters, and builds the query for it.

use std::ops::Bound;

use forebay_store::{
    Key, Read, Snapshot,
    index::{Definition, Place, Query, QueryWalk, field_text},
};

use super::filter::{Comparison, Filter};
use crate::{failure::Refusal, store::path};

/// Hint for requests that lack an index.
const MAKING: &str =
    "an index is made by [store.index] in the configuration or by `forebay store index define`";
/// Most indexes named in an error.
const NAMED_MAX: usize = 20;

/// A query of an index, starting after a place.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) index: String,
    query: Query,
    pub(super) place: Place,
}

impl Search {
    /// Picks the index: the named one, or the one with the fewest fields beyond those in the filters.
    pub(super) fn plan(
        snapshot: &Snapshot,
        key: &Key,
        filters: &[Filter],
        name: Option<&str>,
        reverse: bool,
        place: Place,
    ) -> Result<Self, Refusal> {
        let query = Criteria::of(filters)?;
        let mut indexes = snapshot.indexes()?;
        indexes.retain(|index| index.records == *key);
        indexes.sort_by(|a, b| (a.fields.len(), &a.name).cmp(&(b.fields.len(), &b.name)));
        let by_name = |index: &&Definition| name.is_none_or(|name| index.name == name);
        let mut fitting = indexes.iter().filter(by_name);
        let Some(index) = fitting.find(|index| query.fits(index)) else {
            return Err(Refusal::NoIndex {
                what: missing(key, filters, name, &indexes),
            });
        };
        Ok(Self {
            index: index.name.clone(),
            query: query.ask(index, reverse),
            place,
        })
    }

    /// Continues from the place, which moves into the walk.
    pub(super) fn walk<'s>(&mut self, snapshot: &'s Snapshot) -> Result<QueryWalk<'s>, Refusal> {
        let place = std::mem::take(&mut self.place);
        Ok(snapshot.query_behind(&self.index, &self.query, place)?)
    }
}

/// The filters' conditions, independent of any index.
struct Criteria<'c> {
    equal: Vec<&'c Filter>,
    /// Bounds of one field; at least one is set.
    range: Option<(Option<&'c Filter>, Option<&'c Filter>)>,
}

impl<'c> Criteria<'c> {
    fn of(filters: &'c [Filter]) -> Result<Self, Refusal> {
        let (mut equal, mut from, mut to): (Vec<&Filter>, _, _) = (Vec::new(), None, None);
        for filter in filters {
            let twice = |what: &str| Refusal::NoIndex {
                what: format!("{what} on `{}`", field_text(&filter.field)),
            };
            let bound = match filter.comparison {
                Comparison::Equal => {
                    if equal.iter().any(|other| other.field == filter.field) {
                        return Err(twice("there are two conditions with ="));
                    }
                    equal.push(filter);
                    continue;
                }
                Comparison::Greater | Comparison::GreaterOrEqual => &mut from,
                Comparison::Less | Comparison::LessOrEqual => &mut to,
            };
            if bound.replace(filter).is_some() {
                return Err(twice("there are two bounds on one side of a range, the second"));
            }
        }
        if let (Some(from), Some(to)) = (from, to) {
            let what = if from.field != to.field {
                "a range has both its bounds on one field; the other one is"
            } else if from.kind() != to.kind() {
                "the bounds of a range are of one kind, both numbers or both texts;"
            } else {
                return Ok(Self {
                    equal,
                    range: Some((Some(from), Some(to))),
                });
            };
            return Err(Refusal::NoIndex {
                what: format!("{what} on `{}`", field_text(&to.field)),
            });
        }
        Ok(Self {
            equal,
            range: (from.is_some() || to.is_some()).then_some((from, to)),
        })
    }

    fn ranged(&self) -> Option<&'c [String]> {
        let (from, to) = self.range?;
        from.or(to).map(|bound| &bound.field[..])
    }

    /// Whether the index's first fields are those compared with `=`, and the next one is the range's.
    fn fits(&self, index: &Definition) -> bool {
        let Some((first, others)) = index.fields.split_at_checked(self.equal.len()) else {
            return false;
        };
        let has = |field: &Vec<String>| self.equal.iter().any(|filter| filter.field == *field);
        let next = others.first().map(|field| &field[..]);
        first.iter().all(has) && self.ranged().is_none_or(|field| next == Some(field))
    }

    /// The query for an index that fits.
    fn ask(&self, index: &Definition, reverse: bool) -> Query {
        let value = |field: &Vec<String>| {
            let filter = self.equal.iter().find(|filter| filter.field == *field);
            filter.map(|filter| filter.value.clone())
        };
        let (mut from, mut to) = (Bound::Unbounded, Bound::Unbounded);
        if let Some((lower, upper)) = self.range
            && let Some(any) = lower.or(upper)
        {
            // `>= 30` selects numbers only, not every text, although texts sort after numbers.
            (from, to) = any.kind().bounds();
            if let Some(lower) = lower {
                from = bound(lower);
            }
            if let Some(upper) = upper {
                to = bound(upper);
            }
        }
        Query {
            equal: index
                .fields
                .iter()
                .take(self.equal.len())
                .filter_map(value)
                .collect(),
            from,
            to,
            reverse,
        }
    }
}

fn bound(filter: &Filter) -> Bound<Vec<u8>> {
    match filter.comparison {
        Comparison::Less | Comparison::Greater => Bound::Excluded(filter.value.clone()),
        _ => Bound::Included(filter.value.clone()),
    }
}

/// An error text that says which index is missing, and which exist.
fn missing(key: &Key, filters: &[Filter], name: Option<&str>, indexes: &[Definition]) -> String {
    let mut node = String::new();
    path::put_key(key, &mut node);
    let described = |index: &Definition| {
        let fields: Vec<String> = index.fields.iter().map(|field| field_text(field)).collect();
        format!("{} ({})", index.name, fields.join(", "))
    };
    let mut there: Vec<String> = indexes.iter().take(NAMED_MAX).map(described).collect();
    if indexes.len() > NAMED_MAX {
        there.push(format!("{} more", indexes.len() - NAMED_MAX));
    }
    let there = if there.is_empty() {
        format!("there is no index over {node}")
    } else {
        format!("the indexes over {node} are {}", there.join(", "))
    };
    let mut fields: Vec<String> = filters.iter().map(|filter| field_text(&filter.field)).collect();
    fields.dedup();
    let fields = fields.join(", ");
    match name {
        Some(name) if indexes.iter().all(|index| index.name != name) => {
            format!("there is no index `{name}` over this node: {there}; {MAKING}")
        }
        Some(name) => format!(
            "index `{name}` does not answer conditions on {fields}: they are = on an index's first fields and a range on the next; {there}"
        ),
        None => format!(
            "no index answers conditions on {fields}: they are = on an index's first fields and a range on the next; {there}; {MAKING}"
        ),
    }
}
