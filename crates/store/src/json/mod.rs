//! JSON in canonical form, in which values are stored.
//!
//! Canonical form: object members in the collation order of subscripts, only the last of members with the same name, no
//! white space, and only the necessary escapes in strings. A number's text stays as it was written, so no digit is
//! lost.

mod read;
mod walk;

use std::borrow::Cow;

pub use walk::{Child, Children, children, container, find};
pub(crate) use walk::{skip, write_to_depth};

use crate::key::collate;

/// Deepest nesting of containers.
pub const DEPTH_MAX: usize = 200;

/// Why a text is not acceptable JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not JSON that can be kept: {reason} at byte {offset}")]
pub struct JsonError {
    /// Byte offset of the error, from 0.
    pub offset: usize,
    /// Description of the error.
    pub reason: &'static str,
}

/// A parsed JSON value. Scalars are canonical text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json<'a> {
    Scalar(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    /// In collation order, each name once.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Parses external or stored text. Stored text never exceeds the depth limit, because paths are limited.
    pub(crate) fn read(text: &'a [u8]) -> Result<Self, JsonError> {
        read::document(text, DEPTH_MAX)
    }

    pub(crate) fn string(content: &str) -> Self {
        let text = String::from_utf8(string(content)).expect("an escaped string is text");
        Self::Scalar(Cow::Owned(text))
    }

    /// An object with the given members, which must be in collation order.
    pub(crate) fn object<const N: usize>(members: [(&'static str, Self); N]) -> Self {
        Self::Object(members.map(|(name, member)| (Cow::Borrowed(name), member)).into())
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => position(members, name).ok().map(|at| &members[at].1),
            _ => None,
        }
    }

    /// The text of a scalar; `None` for a container.
    pub(crate) fn as_scalar(&self) -> Option<&str> {
        match self {
            Self::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The content of a string; `None` for other values.
    pub(crate) fn as_string(&self) -> Option<String> {
        let content = self.as_scalar()?.strip_prefix('"')?.strip_suffix('"')?;
        unescape(content).ok().map(Cow::into_owned)
    }

    /// Whether it has no children: a scalar, `{}` or `[]`.
    pub(crate) fn is_leaf(&self) -> bool {
        match self {
            Self::Scalar(_) => true,
            Self::Array(elements) => elements.is_empty(),
            Self::Object(members) => members.is_empty(),
        }
    }

    /// Appends the canonical text.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Scalar(text) => out.extend_from_slice(text.as_bytes()),
            Self::Array(elements) => {
                out.push(b'[');
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    element.write(out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (index, (name, member)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_string(name, out);
                    out.push(b':');
                    member.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// Whether the canonical text has at most that many bytes; stops as soon as it is longer.
    pub(crate) fn fits(&self, bytes_max: usize) -> bool {
        self.room_left(bytes_max).is_some()
    }

    /// Remaining room after the canonical text; `None` if it does not fit.
    fn room_left(&self, room: usize) -> Option<usize> {
        match self {
            Self::Scalar(text) => room.checked_sub(text.len()),
            // Brackets, and one comma fewer than elements.
            Self::Array(elements) => elements.iter().try_fold(
                room.checked_sub(1 + usize::from(elements.is_empty()))?,
                |room, element| element.room_left(room)?.checked_sub(1),
            ),
            Self::Object(members) => members.iter().try_fold(
                room.checked_sub(1 + usize::from(members.is_empty()))?,
                |room, (name, member)| {
                    let room = room.checked_sub(string(name).len() + 1)?;
                    member.room_left(room)?.checked_sub(1)
                },
            ),
        }
    }

    pub(crate) fn to_text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.write(&mut text);
        text
    }

    pub(crate) fn into_owned(self) -> Json<'static> {
        match self {
            Self::Scalar(text) => Json::Scalar(Cow::Owned(text.into_owned())),
            Self::Array(elements) => Json::Array(elements.into_iter().map(Json::into_owned).collect()),
            Self::Object(members) => {
                let owned = |(name, member): (Cow<'_, str>, Json<'_>)| {
                    (Cow::Owned(name.into_owned()), member.into_owned())
                };
                Json::Object(members.into_iter().map(owned).collect())
            }
        }
    }

    /// The child with the given subscript.
    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Array(elements) => elements.get(index_of(name)?),
            Self::Object(_) => self.member(name),
            Self::Scalar(_) => None,
        }
    }

    /// The subscripts of all children.
    pub(crate) fn child_names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let (elements, members): (usize, &[_]) = match self {
            Self::Scalar(_) => (0, &[]),
            Self::Array(elements) => (elements.len(), &[]),
            Self::Object(members) => (0, members),
        };
        let indexes = (0..elements).map(|index| Cow::Owned(index.to_string()));
        indexes.chain(members.iter().map(|(name, _)| Cow::Borrowed(&**name)))
    }

    /// Mutable [`Json::child`].
    pub(crate) fn child_mut(&mut self, name: &str) -> Option<&mut Self> {
        match self {
            Self::Scalar(_) => None,
            Self::Array(elements) => elements.get_mut(index_of(name)?),
            Self::Object(members) => {
                let at = position(members, name).ok()?;
                Some(&mut members[at].1)
            }
        }
    }
}

/// Index of a member, or where it would be inserted.
pub(crate) fn position(members: &[(Cow<'_, str>, Json<'_>)], name: &str) -> Result<usize, usize> {
    members.binary_search_by(|(other, _)| collate(other, name))
}

/// Canonical form of an external JSON text.
pub fn canonical(text: &[u8]) -> Result<Vec<u8>, JsonError> {
    Ok(Json::read(text)?.to_text())
}

/// Canonical JSON text of a string.
pub fn string(content: &str) -> Vec<u8> {
    let mut text = Vec::with_capacity(content.len() + 2);
    write_string(content, &mut text);
    text
}

/// Array index that a subscript stands for: `0`, `1`, `2`, ...
pub(crate) fn index_of(subscript: &str) -> Option<usize> {
    let plain = subscript == "0"
        || !subscript.starts_with('0') && subscript.bytes().all(|byte| byte.is_ascii_digit());
    if plain { subscript.parse().ok() } else { None }
}

/// Whether a byte needs no escape in a string.
pub(crate) fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// Appends a string with quotes and the necessary escapes.
pub(crate) fn write_string(content: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, content).expect("a string becomes JSON");
}

/// Content of a string, given its text between the quotes.
pub fn unescape(content: &str) -> Result<Cow<'_, str>, JsonError> {
    read::unescape(content, 0)
}

#[cfg(test)]
mod tests;
