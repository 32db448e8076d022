//! Plans, and walks along them, which can stop anywhere and continue with another reader of the same state.

use std::collections::HashSet;

use forebay_store::{
    Key, Read,
    index::{Place, Query, Step},
};

use crate::{RecordsError, list::references, reference::Reference};

/// The records that a statement examines.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) kinds: Vec<KindPlan>,
}

/// Access to the records of one kind.
#[derive(Debug)]
pub(super) struct KindPlan {
    pub(super) kind: String,
    pub(super) key: Key,
    pub(super) access: Access,
    /// Conditions that the access guarantees, by their position in the statement.
    pub(super) used: Vec<usize>,
}

/// How the records of a kind are found.
#[derive(Debug)]
pub(super) enum Access {
    One(Reference),
    Scan,
    Lookups(Vec<Lookup>),
}

/// A query on an index.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) index: String,
    pub(super) query: Query,
}

impl Access {
    /// Name of the index whose order the walk follows; empty for the order of references.
    pub(super) fn index(&self) -> &str {
        match self {
            Self::One(_) | Self::Scan => "",
            Self::Lookups(lookups) => lookups.first().map_or("", |lookup| &lookup.index),
        }
    }
}

impl Plan {
    /// Whether all records are found by indexes or a reference.
    pub(super) fn is_indexed(&self) -> bool {
        self.kinds.iter().all(|kind| !matches!(kind.access, Access::Scan))
    }
}

/// Progress of a walk.
#[derive(Debug, Default)]
pub(super) struct Walk {
    kind: usize,
    lookup: usize,
    at: At,
    /// Records of this kind already returned, if several lookups can find the same one.
    seen: HashSet<Reference>,
}

/// Position among the records of a lookup.
#[derive(Debug, Default)]
enum At {
    #[default]
    Begin,
    After(Reference),
    Place(Place),
}

impl Walk {
    /// A walk that continues after a position in a kind; see [`Walk::place`].
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

    /// The current position: index of the kind in the plan, and the position inside the kind, empty at its beginning;
    /// `None` at the end of the plan. There is no such position if several lookups find records of a kind.
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

    /// Finds up to `max` further records, all of the kind whose index in the plan is returned; `None` at the end. May
    /// find none before the end.
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
                let mut references = references(read, &there.key, after)?;
                loop {
                    let Some(reference) = references.next().transpose()? else {
                        self.next_kind();
                        break;
                    };
                    found.push(reference);
                    if found.len() == max || read.has_read_much() {
                        self.at = At::After(reference);
                        break;
                    }
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
