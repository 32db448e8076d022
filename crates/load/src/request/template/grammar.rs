//! Which placeholders there are, and how they are read.

use std::sync::Arc;

use super::{
    Piece, Place,
    pattern::{Fault, Pattern},
    value::Value,
};
use crate::request::{
    body::Bodies,
    csv::Csv,
    parts::{RequestError, check_path, check_text, push_path},
};

/// Longest text between `{{` and `}}`.
const PLACEHOLDER_BYTES_MAX: usize = 256;

/// Which placeholders there are.
#[derive(Clone)]
pub struct Grammar<'a> {
    /// `{{counter}}` and the like.
    pub braces: bool,
    /// `[<id>]`.
    pub id: bool,
    /// `${sequence}`.
    pub sequence: bool,
    /// Where `{{csv.column}}` comes from.
    pub csv: Option<Arc<Csv>>,
    /// Lines that are the bodies, in place of the request's own. What stands in them is no placeholder.
    pub bodies: Option<Bodies>,
    /// Where `{{env NAME}}` comes from.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Names that a scenario gives values to.
    pub(in crate::request) variables: &'a [String],
}

impl std::fmt::Debug for Grammar<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            braces,
            id,
            sequence,
            csv,
            bodies,
            env: _,
            variables,
        } = self;
        let columns = csv.as_ref().map(|csv| csv.columns());
        write!(
            f,
            "Grammar {{ braces: {braces}, id: {id}, sequence: {sequence}, columns: {columns:?}, bodies: {bodies:?}, variables: {variables:?} }}"
        )
    }
}

impl Grammar<'_> {
    /// No placeholders: everything is what it says.
    pub fn none() -> Self {
        Self {
            braces: false,
            id: false,
            sequence: false,
            csv: None,
            bodies: None,
            env: &|_| None,
            variables: &[],
        }
    }

    /// `{{...}}`, with the environment of this process.
    pub fn braces() -> Self {
        Self {
            braces: true,
            env: &|name| std::env::var(name).ok(),
            ..Self::none()
        }
    }

    fn accepted(&self) -> String {
        let mut accepted = "counter, counter FIRST, uuid, random LOW HIGH, float LOW HIGH, regex EXPRESSION, timestamp, timestamp ms, env NAME".to_owned();
        match &self.csv {
            Some(csv) => csv.columns().iter().for_each(|column| {
                accepted.push_str(", csv.");
                accepted.push_str(column);
            }),
            None => accepted.push_str(", and csv.COLUMN with a CSV file"),
        }
        for name in self.variables {
            accepted.push_str(", ");
            accepted.push_str(name);
        }
        accepted
    }
}

/// Why a text with placeholders makes no request.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum TemplateError {
    /// A placeholder that does not exist.
    #[error("{part}, byte {at}: `{{{{{text}}}}}` is not known; accepted are {accepted}")]
    Unknown {
        /// Which part of the request.
        part: String,
        /// Where in it, from 1.
        at: usize,
        /// What stands between the braces.
        text: String,
        /// What could.
        accepted: String,
    },
    /// Braces without an end.
    #[error(
        "{part}, byte {at}: `{{{{` is not followed by `}}}}` within {PLACEHOLDER_BYTES_MAX} bytes; write `\\{{{{` for the braces themselves"
    )]
    Open {
        /// Which part of the request.
        part: String,
        /// Where in it, from 1.
        at: usize,
    },
    /// A placeholder with the wrong words behind it.
    #[error("{part}, byte {at}: `{{{{{text}}}}}` {what}")]
    Argument {
        /// Which part of the request.
        part: String,
        /// Where in it, from 1.
        at: usize,
        /// What stands between the braces.
        text: String,
        /// What is wrong, and what is accepted.
        what: String,
    },
    /// The length cannot be known beforehand.
    #[error("the body has placeholders, so its length changes: leave out the header `{field}`")]
    Framed {
        /// Content-Length or Transfer-Encoding.
        field: String,
    },
    /// What is no placeholder is wrong.
    #[error(transparent)]
    Request(#[from] RequestError),
}

#[derive(Debug, Default)]
pub(super) struct Pieces(pub(super) Vec<Piece>);

impl Pieces {
    pub(super) fn push(&mut self, parts: &[&[u8]]) {
        if !matches!(self.0.last(), Some(Piece::Literal(_))) {
            self.0.push(Piece::Literal(Vec::new()));
        }
        if let Some(Piece::Literal(bytes)) = self.0.last_mut() {
            for part in parts {
                bytes.extend_from_slice(part);
            }
        }
    }

    pub(super) fn into_fixed(mut self) -> Result<Vec<u8>, Self> {
        match &mut self.0[..] {
            [] => Ok(Vec::new()),
            [Piece::Literal(bytes)] => Ok(std::mem::take(bytes)),
            _ => Err(self),
        }
    }

    /// Reads a part of a request.
    pub(super) fn read(
        &mut self,
        text: &[u8],
        place: Place,
        part: &str,
        grammar: &Grammar<'_>,
    ) -> Result<(), TemplateError> {
        let mut at = 0;
        let mut literal = 0;
        while let Some(found) = next_marker(&text[at..], grammar) {
            at += found;
            self.literal(&text[literal..at], place, part)?;
            let rest = &text[at..];
            let (piece, used) = if rest.starts_with(b"\\{{") {
                self.push(&[b"{{"]);
                (None, 3)
            } else if rest.starts_with(ID) {
                (Some(Value::Id), ID.len())
            } else if rest.starts_with(SEQUENCE) {
                (Some(Value::Counter { first: 1 }), SEQUENCE.len())
            } else {
                let open = || TemplateError::Open {
                    part: part.to_owned(),
                    at: at + 1,
                };
                let inside = &rest[2..rest.len().min(2 + PLACEHOLDER_BYTES_MAX)];
                let shown = |end| std::str::from_utf8(&inside[..end]).map_err(|_| open());
                let place = |text| Inside {
                    part,
                    at: at + 1,
                    text,
                    place,
                };
                let ends = || memchr::memmem::find(inside, b"}}");
                let (value, end) = match expression(inside) {
                    None => {
                        let end = ends().ok_or_else(open)?;
                        (self.value(&place(shown(end)?), grammar)?, end)
                    }
                    // Its braces are its own, so that it alone knows where it ends.
                    Some(start) => match Pattern::parse(&inside[start..]) {
                        Ok((pattern, length)) => (Some(Value::Pattern(pattern)), start + length),
                        Err(Fault::End) => return Err(open()),
                        Err(fault) => {
                            let end = ends().unwrap_or(inside.len());
                            return Err(place(shown(end)?).wrong(&fault.to_string()));
                        }
                    },
                };
                (value, end + 4)
            };
            if let Some(value) = piece {
                self.0.push(Piece::Value(value, place));
            }
            at += used;
            literal = at;
        }
        Ok(self.literal(&text[literal..], place, part)?)
    }

    /// Adds what stands between placeholders, if it may stand there.
    fn literal(&mut self, bytes: &[u8], place: Place, part: &str) -> Result<(), RequestError> {
        if bytes.is_empty() {
            return Ok(());
        }
        if place != Place::Body {
            let text = String::from_utf8_lossy(bytes);
            match place {
                Place::Path => check_path(&text)?,
                _ => check_text(part, &text)?,
            }
        }
        self.push(&[bytes]);
        Ok(())
    }

    /// What stands between braces. `None`: it has been added as it never changes.
    fn value(&mut self, inside: &Inside<'_>, grammar: &Grammar<'_>) -> Result<Option<Value>, TemplateError> {
        let words: Vec<_> = inside.text.split_whitespace().collect();
        let value = match words[..] {
            ["counter"] => Some(Value::Counter { first: 1 }),
            ["counter", first] => first.parse().ok().map(|first| Value::Counter { first }),
            ["uuid"] => Some(Value::Uuid),
            ["random", low, high] => random(low, high),
            ["float", low, high, ref digits @ ..] => float(low, high, digits),
            ["timestamp"] => Some(Value::Timestamp { per_second: 1 }),
            ["timestamp", "ms"] => Some(Value::Timestamp { per_second: 1000 }),
            ["env", name] => {
                let value = (grammar.env)(name)
                    .ok_or_else(|| inside.wrong(&format!("names the variable `{name}`, which is not set")))?;
                if inside.place == Place::Path {
                    let mut escaped = Vec::new();
                    push_path(value.as_bytes(), &mut escaped);
                    self.push(&[&escaped]);
                } else {
                    self.literal(value.as_bytes(), inside.place, inside.part)?;
                }
                return Ok(None);
            }
            [name] if needs(name).is_none() => Some(inside.named(name, grammar)?),
            _ => None,
        };
        value.map(Some).ok_or_else(|| {
            let first = words.first().copied().unwrap_or_default();
            needs(first).map_or_else(|| inside.unknown(grammar), |what| inside.wrong(what))
        })
    }
}

/// What placeholders need behind their first word.
const NEEDS: [(&str, &str); 6] = [
    (
        "counter",
        "needs a whole number to begin with, such as {{counter 1000}}",
    ),
    (
        "random",
        "needs two whole numbers, the lower one first, such as {{random 1 100}}",
    ),
    (
        "float",
        "needs two numbers, the lower one first, and perhaps how many digits are to follow the point, such as {{float 0 1 3}}; at most \
         15 digits",
    ),
    (
        "timestamp",
        "is in seconds, or with `ms` in milliseconds: {{timestamp ms}}",
    ),
    ("regex", "needs an expression, such as {{regex [a-z]{8}}}"),
    ("env", "needs the name of one variable, such as {{env TOKEN}}"),
];

fn needs(first: &str) -> Option<&'static str> {
    let found = NEEDS.iter().find(|(word, _)| *word == first);
    found.map(|(_, what)| *what)
}

fn random(low: &str, high: &str) -> Option<Value> {
    let (low, high) = (low.parse::<i64>().ok()?, high.parse::<i64>().ok()?);
    (low <= high).then(|| Value::Random {
        low,
        span: high.wrapping_sub(low) as u64,
    })
}

fn float(low: &str, high: &str, digits: &[&str]) -> Option<Value> {
    let number = |word: &str| word.parse::<f64>().ok().filter(|number| number.is_finite());
    let (low, high) = (number(low)?, number(high)?);
    let digits = match digits {
        [] => FLOAT_DIGITS,
        [digits] => digits.parse().ok().filter(|digits| *digits <= FLOAT_DIGITS_MAX)?,
        _ => return None,
    };
    (low <= high && (high - low).is_finite()).then_some(Value::Float {
        low,
        span: high - low,
        digits,
    })
}

/// Digits behind the point when nothing says how many.
const FLOAT_DIGITS: usize = 6;
/// Most of them: more than this a double does not hold.
const FLOAT_DIGITS_MAX: usize = 15;
/// Where the expression begins, if that is what stands between the braces.
fn expression(inside: &[u8]) -> Option<usize> {
    let rest = inside.trim_ascii_start().strip_prefix(b"regex ")?;
    Some(inside.len() - rest.trim_ascii_start().len())
}

const ID: &[u8] = b"[<id>]";
const SEQUENCE: &[u8] = b"${sequence}";

/// Where the next placeholder begins. Of three braces in a row the first stands for itself, as in `{"a":{{{counter}}:1}}`.
fn next_marker(text: &[u8], grammar: &Grammar<'_>) -> Option<usize> {
    let is_marker = |at: &usize| {
        let rest = &text[*at..];
        match text[*at] {
            b'\\' | b'{' => {
                grammar.braces
                    && ((rest.starts_with(b"{{") && !rest.starts_with(b"{{{")) || rest.starts_with(b"\\{{"))
            }
            b'[' => grammar.id && rest.starts_with(ID),
            _ => grammar.sequence && rest.starts_with(SEQUENCE),
        }
    };
    let candidates = (0..text.len()).filter(|&at| matches!(text[at], b'\\' | b'{' | b'[' | b'$'));
    candidates.into_iter().find(is_marker)
}

/// A placeholder while it is read.
struct Inside<'a> {
    part: &'a str,
    at: usize,
    text: &'a str,
    place: Place,
}

impl Inside<'_> {
    fn wrong(&self, what: &str) -> TemplateError {
        TemplateError::Argument {
            part: self.part.to_owned(),
            at: self.at,
            text: self.text.to_owned(),
            what: what.to_owned(),
        }
    }

    fn unknown(&self, grammar: &Grammar<'_>) -> TemplateError {
        TemplateError::Unknown {
            part: self.part.to_owned(),
            at: self.at,
            text: self.text.to_owned(),
            accepted: grammar.accepted(),
        }
    }

    /// A value that a table or a scenario gives a name to.
    fn named(&self, name: &str, grammar: &Grammar<'_>) -> Result<Value, TemplateError> {
        if let Some(at) = grammar.variables.iter().position(|known| known == name) {
            return Ok(Value::Variable(at));
        }
        match (name.strip_prefix("csv."), &grammar.csv) {
            (Some(_), None) => Err(self.wrong("needs a CSV file")),
            (Some(name), Some(csv)) => {
                let column = csv.columns().iter().position(|column| column == name);
                let column = column.ok_or_else(|| self.unknown(grammar))?;
                self.check_column(csv, column)?;
                Ok(Value::Column(csv.clone(), column))
            }
            (None, _) => Err(self.unknown(grammar)),
        }
    }

    /// Whether all values of a column may stand here.
    fn check_column(&self, csv: &Csv, column: usize) -> Result<(), TemplateError> {
        let bad = |value: &[u8]| value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
        if self.place == Place::Field
            && let Some(row) = csv.column(column).position(bad)
        {
            return Err(self.wrong(&format!(
                "has a control character in row {}, which cannot stand in a header",
                row + 1
            )));
        }
        Ok(())
    }
}
