//! Paged iteration: programs fetch a few items at a time, so an abandoned iteration pins nothing.

use std::ops::Bound;

use crate::{Key, Range, StoreError, Subscript, key::within, tree::read::Reader};

use super::{Session, SessionError, document, path};

/// A page ends with the item that takes it over this many bytes.
pub(super) const PAGE_BYTES_MAX: usize = 1 << 20;

/// Range of children; bounds are parts of [paths](super::path), empty for none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Children<'a> {
    /// Inclusive lower bound.
    pub from: &'a [u8],
    /// Exclusive lower bound.
    pub after: &'a [u8],
    /// Inclusive upper bound.
    pub to: &'a [u8],
    /// Exclusive upper bound.
    pub before: &'a [u8],
    /// Only strings that begin with this prefix; numbers never match.
    pub prefix: &'a [u8],
    /// Descending order.
    pub reverse: bool,
    /// Whether to return the content of each child as well.
    pub with_values: bool,
}

impl Session {
    /// Returns up to `limit` children: for each a four-byte little-endian length and the subscript's text; with values,
    /// also the length and JSON text of the child's content. A page may hold fewer than `limit` although more follow:
    /// see [`Session::more`].
    pub fn children(
        &mut self,
        path: &[u8],
        children: Children<'_>,
        limit: usize,
    ) -> Result<&[u8], SessionError> {
        let key = self.key(path)?;
        let range = range(children)?;
        self.read(|reader, out| {
            let mut scratch = Vec::new();
            for found in reader.children(&key, range.clone())?.take(limit) {
                if out.len() > PAGE_BYTES_MAX {
                    break;
                }
                let found = found?;
                item(found.text().as_bytes(), out);
                if children.with_values {
                    let mut child = key.clone();
                    child.push_encoded(&found)?;
                    scratch.clear();
                    match reader.get(&child)? {
                        Some(text) => item(text, out),
                        None => {
                            document(reader, &child, &mut scratch)?;
                            item(&scratch, out);
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(&self.out)
    }

    /// Whether the last page of children, values or records ended because it was long, so that more may follow. Valid
    /// right after that call.
    pub fn more(&self) -> bool {
        self.out.len() > PAGE_BYTES_MAX
    }

    /// Returns up to `limit` nodes with values of the subtree, depth first, after the node `after` inside it (empty for
    /// the first): for each the number of its subscripts below the root, the subscripts, and its value, all in the form
    /// of [`Session::children`]. A page may hold fewer than `limit` although more follow: see [`Session::more`]. An
    /// error if `after` is outside the subtree.
    pub fn values(&mut self, path: &[u8], after: &[u8], limit: usize) -> Result<&[u8], SessionError> {
        let root = self.key(path)?;
        let after = match after {
            [] => None,
            after => Some(self.key(after)?),
        };
        if after
            .as_ref()
            .is_some_and(|after| !within(after.as_bytes(), root.as_bytes()))
        {
            return Err(SessionError::Malformed);
        }
        self.read(|reader, out| {
            let mut left = limit;
            let Some(after) = after.clone() else {
                return leaves(reader, &root, &root, None, &mut left, out);
            };
            // The nodes after a node are those below it, then those below its following siblings, then those below its
            // parent's.
            leaves(reader, &root, &after, Some(&after), &mut left, out)?;
            let mut place = after;
            while place.len() > root.len() && left > 0 {
                let Some(parent) = place.parent() else { break };
                let last = Subscript::from_encoded(&place.as_bytes()[parent.len()..]);
                let younger = Range {
                    from: Bound::Excluded(last),
                    ..Range::default()
                };
                for sibling in reader.children(&parent, younger)? {
                    if left == 0 {
                        break;
                    }
                    let mut sibling_key = parent.clone();
                    sibling_key.push_encoded(&sibling?)?;
                    leaves(reader, &root, &sibling_key, None, &mut left, out)?;
                }
                place = parent;
            }
            Ok(())
        })?;
        Ok(&self.out)
    }

    /// Returns up to `limit` names of globals, from `from` on (exclusive if `after`), in the form of
    /// [`Session::children`].
    pub fn globals(&mut self, from: &[u8], after: bool, limit: usize) -> Result<&[u8], SessionError> {
        let from = if from.is_empty() { "" } else { path::text(from)? };
        self.read(|reader, out| {
            let mut taken = 0;
            for name in reader.globals(from)? {
                let name = name?;
                if after && name == from {
                    continue;
                }
                if taken == limit {
                    break;
                }
                taken += 1;
                item(name.as_bytes(), out);
            }
            Ok(())
        })?;
        Ok(&self.out)
    }
}

/// Appends the values of a subtree, except the own value of one node.
fn leaves(
    reader: &Reader<'_>,
    root: &Key,
    subtree: &Key,
    except: Option<&Key>,
    left: &mut usize,
    out: &mut Vec<u8>,
) -> Result<(), StoreError> {
    if *left == 0 {
        return Ok(());
    }
    for found in reader.values(subtree)? {
        let (key, text) = found?;
        if except == Some(&key) {
            continue;
        }
        let skip = root.subscripts().count();
        let count = key.subscripts().count() - skip;
        out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        for subscript in key.texts().skip(skip) {
            item(subscript.as_bytes(), out);
        }
        item(text, out);
        *left = if out.len() > PAGE_BYTES_MAX { 0 } else { *left - 1 };
        if *left == 0 {
            break;
        }
    }
    Ok(())
}

pub(super) fn item(bytes: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(bytes.len()).expect("nothing is longer than VALUE_BYTES_LIMIT");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn range(children: Children<'_>) -> Result<Range, SessionError> {
    let mut lower = Bound::Unbounded;
    let mut upper = Bound::Unbounded;
    if !children.prefix.is_empty() {
        let (least, greatest) = Subscript::around_prefix(path::text(children.prefix)?);
        lower = Bound::Included(least);
        upper = Bound::Excluded(greatest);
    }
    let included = |bytes| Ok::<_, SessionError>(path::subscript(bytes)?.map(Bound::Included));
    let excluded = |bytes| Ok::<_, SessionError>(path::subscript(bytes)?.map(Bound::Excluded));
    for bound in [included(children.from)?, excluded(children.after)?]
        .into_iter()
        .flatten()
    {
        lower = narrower(lower, bound, Subscript::gt);
    }
    for bound in [included(children.to)?, excluded(children.before)?]
        .into_iter()
        .flatten()
    {
        upper = narrower(upper, bound, Subscript::lt);
    }
    Ok(Range {
        from: lower,
        to: upper,
        reverse: children.reverse,
    })
}

/// The narrower of two bounds; `beyond` tells whether one subscript lies further inside than another.
fn narrower(
    one: Bound<Subscript>,
    other: Bound<Subscript>,
    beyond: fn(&Subscript, &Subscript) -> bool,
) -> Bound<Subscript> {
    let place = |bound: &Bound<Subscript>| match bound {
        Bound::Included(at) | Bound::Excluded(at) => Some(at.clone()),
        Bound::Unbounded => None,
    };
    match (place(&one), place(&other)) {
        (None, _) => other,
        (_, None) => one,
        (Some(left), Some(right)) if left == right => {
            if matches!(one, Bound::Excluded(_)) {
                one
            } else {
                other
            }
        }
        (Some(left), Some(right)) => {
            if beyond(&left, &right) {
                one
            } else {
                other
            }
        }
    }
}
