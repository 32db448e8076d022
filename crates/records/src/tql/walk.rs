//! A plan, and a walk along it that can rest anywhere and go on with another reader of the same state.

use std::collections::HashSet;

use forebay_store::{
    Key, Read,
    index::{Place, Query, Step},
};

use crate::{RecordsError, list::references, reference::Reference};

/// Which records a statement looks at.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) kinds: Vec<KindPlan>,
}

/// The records of one kind.
#[derive(Debug)]
pub(super) struct KindPlan {
    pub(super) kind: String,
    pub(super) key: Key,
    pub(super) access: Access,
    /// Conditions that the way answers, by their places in the statement.
    pub(super) used: Vec<usize>,
}

/// The way to them.
#[derive(Debug)]
pub(super) enum Access {
    One(Reference),
    Scan,
    Lookups(Vec<Lookup>),
}

/// A question to an index.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) index: String,
    pub(super) query: Query,
}

impl Access {
    /// The index whose order the walk follows; empty when it is that of references.
    pub(super) fn index(&self) -> &str {
        match self {
            Self::One(_) | Self::Scan => "",
            Self::Lookups(lookups) => lookups.first().map_or("", |lookup| &lookup.index),
        }
    }
}

impl Plan {
    /// Whether indexes or a reference lead to the records.
    pub(super) fn is_indexed(&self) -> bool {
        self.kinds.iter().all(|kind| !matches!(kind.access, Access::Scan))
    }
}

/// How far a walk has come.
#[derive(Debug, Default)]
pub(super) struct Walk {
    kind: usize,
    lookup: usize,
    at: At,
    /// Records of this kind that have come, where several questions can lead to one.
    seen: HashSet<Reference>,
}

/// Where it is among the records of a question.
#[derive(Debug, Default)]
enum At {
    #[default]
    Begin,
    After(Reference),
    Place(Place),
}

impl Walk {
    /// A walk that goes on behind a place of a kind; see [`Walk::place`].
    pub(super) fn behind(plan: &Plan, kind: &str, index: &str, place: &[u8]) -> Option<Self> {
        let at = plan.kinds.partition_point(|other| other.kind.as_str() < kind);
        let mut walk = Self {
            kind: at,
            ..Self::default()
        };
        let Some(there) = plan.kinds.get(at).filter(|there| there.kind == kind) else {
            return Some(walk);
        };
        if there.access.index() != index {
            return None;
        }
        if place.is_empty() {
            return Some(walk);
        }
        walk.at = match &there.access {
            Access::Lookups(_) => At::Place(Place::from_bytes(place)?),
            Access::One(_) | Access::Scan => At::After(Reference(u64::from_be_bytes(place.try_into().ok()?))),
        };
        Some(walk)
    }

    /// The kind by its place in the plan, and the place in it that the walk has come to, empty at its beginning; `None` at the end of the
    /// plan. Where several questions lead to records of a kind there is no such place.
    pub(super) fn place(&self, plan: &Plan) -> Option<(usize, Vec<u8>)> {
        let there = plan.kinds.get(self.kind)?;
        let is_over = matches!(&there.access, Access::Lookups(lookups) if self.lookup == lookups.len());
        if is_over {
            plan.kinds.get(self.kind + 1)?;
            return Some((self.kind + 1, Vec::new()));
        }
        let place = match &self.at {
            At::Begin => Vec::new(),
            At::After(reference) => reference.0.to_be_bytes().to_vec(),
            At::Place(place) => place.bytes().unwrap_or_default().to_vec(),
        };
        Some((self.kind, place))
    }

    /// Finds up to `max` further records, all of one kind, whose place in the plan it says; `None` at the end. There may be none of them
    /// though it is not the end.
    pub(super) fn next(
        &mut self,
        plan: &Plan,
        read: &impl Read,
        max: usize,
        found: &mut Vec<Reference>,
    ) -> Result<Option<usize>, RecordsError> {
        found.clear();
        let Some(there) = plan.kinds.get(self.kind) else {
            return Ok(None);
        };
        let kind = self.kind;
        match &there.access {
            Access::One(reference) => {
                if matches!(self.at, At::Begin) {
                    found.push(*reference);
                    self.at = At::After(*reference);
                } else {
                    self.next_kind();
                }
            }
            Access::Scan => {
                let after = match self.at {
                    At::After(reference) => Some(reference),
                    At::Begin | At::Place(_) => None,
                };
                for reference in references(read, &there.key, after)?.take(max) {
                    found.push(reference?);
                }
                match found.last() {
                    Some(last) if found.len() == max => self.at = At::After(*last),
                    _ => self.next_kind(),
                }
            }
            Access::Lookups(lookups) => {
                let Some(lookup) = lookups.get(self.lookup) else {
                    self.next_kind();
                    return Ok(Some(kind));
                };
                let place = match std::mem::take(&mut self.at) {
                    At::Place(place) => place,
                    At::Begin | At::After(_) => Place::default(),
                };
                let mut walk = read.query_behind(&lookup.index, &lookup.query, place)?;
                let mut is_over = false;
                for _ in 0..max {
                    match walk.step()? {
                        Step::Record(record) => {
                            let reference = Reference::from_decimal(&record.text());
                            let is_new =
                                |reference: &Reference| lookups.len() == 1 || self.seen.insert(*reference);
                            found.extend(reference.filter(is_new));
                        }
                        Step::Repeated => {}
                        Step::End => {
                            is_over = true;
                            break;
                        }
                    }
                }
                if is_over {
                    self.lookup += 1;
                } else {
                    self.at = At::Place(walk.into_place());
                }
            }
        }
        Ok(Some(kind))
    }

    fn next_kind(&mut self) {
        *self = Self {
            kind: self.kind + 1,
            ..Self::default()
        };
    }
}
