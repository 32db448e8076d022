//! Parses the values of statements, with their positions: JSON, and in friendly text slightly more than JSON.

use std::cell::Cell;

use forebay_store::json;

use crate::error::{Position, StatementError};

/// Deepest nesting of values; documents may be deeper.
const DEPTH_MAX: usize = 100;
/// Most values of a statement, not counting its document: each takes memory while the statement is parsed.
const VALUES_MAX: usize = 20_000;

/// Parser of a whole text.
#[derive(Debug)]
pub(super) struct Reader<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    depth: usize,
    /// Values parsed so far.
    values: usize,
    /// Whether values are kept, or skipped.
    keeps: bool,
    /// Functions and patterns built so far.
    pub(super) functions: Cell<usize>,
    pub(super) patterns: Cell<usize>,
}

/// A value with its start and end offset.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) end: usize,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    /// `null`, `true`, `false`, or a number, as text.
    Plain,
    Text(String),
    /// In single quotes, which in friendly text denote a plain text.
    Literal(String),
    /// In friendly text, characters without quotes.
    Word,
    Array(Vec<Node>),
    /// In text order.
    Object(Vec<(String, Node)>),
}

impl Value {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Plain => "a number, true, false or null",
            Self::Text(_) | Self::Literal(_) => "a text",
            Self::Word => "a word",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t [u8]) -> Result<Self, StatementError> {
        match std::str::from_utf8(text) {
            Ok(text) => Ok(Self {
                text,
                at: 0,
                depth: 0,
                values: 0,
                keeps: true,
                functions: Cell::default(),
                patterns: Cell::default(),
            }),
            Err(error) => {
                let valid = std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default();
                Err(StatementError {
                    position: Position::of(valid, valid.len()),
                    what: "expected UTF-8".to_owned(),
                    syntax: true,
                })
            }
        }
    }

    /// Error for a text that is not TQL, at an offset.
    pub(super) fn wrong_at(&self, at: usize, what: impl Into<String>) -> StatementError {
        StatementError {
            position: Position::of(self.text, at),
            what: what.into(),
            syntax: true,
        }
    }

    /// Error for well-formed but meaningless TQL, at an offset.
    pub(super) fn meaningless_at(&self, at: usize, what: impl Into<String>) -> StatementError {
        StatementError {
            syntax: false,
            ..self.wrong_at(at, what)
        }
    }

    /// Error for a text that does not continue as required.
    pub(super) fn expected(&self, what: &str) -> StatementError {
        let found = match self.text[self.at..].chars().next() {
            None => "the end".to_owned(),
            Some(found) => format!("{found:?}"),
        };
        self.wrong_at(self.at, format!("expected {what}, found {found}"))
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Skips space and commas, which separate in friendly text.
    pub(super) fn space_and_commas(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r' | b',')) {
            self.at += 1;
        }
    }

    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is = self.peek() == Some(byte);
        self.at += usize::from(is);
        is
    }

    /// Whether only space is left.
    pub(super) fn ends(&mut self) -> bool {
        self.space();
        self.at == self.text.len()
    }

    /// Parses a JSON document without keeping its values: only its position is recorded.
    pub(super) fn document(&mut self) -> Result<Node, StatementError> {
        self.keeps = false;
        let node = self.value(false);
        self.keeps = true;
        Ok(Node {
            value: Value::Plain,
            ..node?
        })
    }

    /// Counts a value against the limit.
    pub(super) fn count_value(&mut self) -> Result<(), StatementError> {
        self.values += usize::from(self.keeps);
        if self.values > VALUES_MAX {
            let what = format!("a statement has at most {VALUES_MAX} values beside its document");
            return Err(self.meaningless_at(self.at, what));
        }
        Ok(())
    }

    /// Parses a value in friendly text: commas are optional, and words need no quotes.
    pub(super) fn friendly(&mut self) -> Result<Node, StatementError> {
        self.value(true)
    }

    fn value(&mut self, friendly: bool) -> Result<Node, StatementError> {
        self.space();
        self.count_value()?;
        let at = self.at;
        let value = match self.peek() {
            Some(b'{') => self.nested(|reader| reader.members(friendly, |_| false).map(Value::Object))?,
            Some(b'[') => self.nested(|reader| reader.array(friendly))?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'\'') if friendly => Value::Literal(self.literal()?),
            _ if friendly => {
                self.word();
                match &self.text[at..self.at] {
                    "" => return Err(self.expected("a value")),
                    word if is_plain(word) => Value::Plain,
                    _ => Value::Word,
                }
            }
            _ => {
                self.at += self.text[at..]
                    .find(|character: char| !character.is_ascii_alphanumeric() && !"+-.".contains(character))
                    .unwrap_or(self.text.len() - at);
                if !is_plain(&self.text[at..self.at]) {
                    self.at = at;
                    return Err(self.expected("a JSON value"));
                }
                Value::Plain
            }
        };
        Ok(Node {
            at,
            end: self.at,
            value,
        })
    }

    /// Runs `read` one nesting level deeper.
    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, StatementError>,
    ) -> Result<T, StatementError> {
        if self.depth == DEPTH_MAX {
            return Err(self.wrong_at(self.at, format!("more than {DEPTH_MAX} values within each other")));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Skips the separator between two values; false at the end.
    fn between(&mut self, friendly: bool, first: bool, end: u8) -> Result<bool, StatementError> {
        if friendly {
            self.space_and_commas();
            return Ok(!self.take(end));
        }
        self.space();
        if self.take(end) {
            return Ok(false);
        }
        if !first && !self.take(b',') {
            return Err(self.expected(&format!("`,` or `{}`", char::from(end))));
        }
        self.space();
        Ok(true)
    }

    fn array(&mut self, friendly: bool) -> Result<Value, StatementError> {
        self.take(b'[');
        let (mut elements, mut first) = (Vec::new(), true);
        while self.between(friendly, std::mem::take(&mut first), b']')? {
            let element = self.value(friendly)?;
            if self.keeps {
                elements.push(element);
            }
        }
        Ok(Value::Array(elements))
    }

    /// Parses the members of an object; those for which `is_document` holds are taken as documents.
    pub(super) fn members(
        &mut self,
        friendly: bool,
        is_document: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, Node)>, StatementError> {
        self.take(b'{');
        let (mut members, mut first) = (Vec::new(), true);
        while self.between(friendly, std::mem::take(&mut first), b'}')? {
            if self.peek() != Some(b'"') {
                return Err(self.expected("a name in `\"`"));
            }
            let name = self.string()?;
            self.space();
            if !self.take(b':') {
                return Err(self.expected("`:`"));
            }
            let member = if is_document(&name) {
                self.document()?
            } else {
                self.value(friendly)?
            };
            if self.keeps {
                members.push((name, member));
            }
        }
        Ok(members)
    }

    /// Parses a JSON string.
    fn string(&mut self) -> Result<String, StatementError> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(self.wrong_at(start, "a text in `\"` does not end")),
                Some(b'"') => break,
                Some(b'\\') => self.at = (self.at + 2).min(self.text.len()),
                Some(0..0x20) => {
                    return Err(self.wrong_at(self.at, "a control character in a text is written `\\u0000`"));
                }
                Some(_) => self.at += 1,
            }
        }
        let content = self.text.get(start + 1..self.at).unwrap_or_default();
        let content =
            json::unescape(content).map_err(|error| self.wrong_at(start + 1 + error.offset, error.reason))?;
        self.at += 1;
        Ok(content.into_owned())
    }

    /// Parses a text in single quotes; a quote inside is doubled.
    fn literal(&mut self) -> Result<String, StatementError> {
        let start = self.at;
        let mut content = String::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find('\'') else {
                return Err(self.wrong_at(start, "a text in `'` does not end"));
            };
            content.push_str(&rest[..end]);
            self.at += end + 1;
            if !self.take(b'\'') {
                return Ok(content);
            }
            content.push('\'');
        }
    }

    /// Skips a word: a verb, a path, a number or a time. It may contain a name in `"` after a point, and colons between
    /// digits.
    pub(super) fn word(&mut self) {
        let start = self.at;
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'\'' => {
                    break;
                }
                b':' => {
                    let digit = |at: Option<&u8>| at.is_some_and(u8::is_ascii_digit);
                    if self.at == start || !digit(bytes.get(self.at - 1)) || !digit(bytes.get(self.at + 1)) {
                        break;
                    }
                    self.at += 1;
                }
                b'"' => {
                    if self.at == start || bytes[self.at - 1] != b'.' {
                        break;
                    }
                    let quote = self.at;
                    if self.string().is_err() {
                        self.at = quote;
                        break;
                    }
                }
                _ => self.at += 1,
            }
        }
    }

    /// Source text of a value.
    pub(super) fn source(&self, node: &Node) -> &'t str {
        &self.text[node.at..node.end]
    }
}

/// Whether a text is a JSON number, `null`, `true` or `false`.
pub(super) fn is_plain(text: &str) -> bool {
    if matches!(text, "null" | "true" | "false") {
        return true;
    }
    let digits = |text: &mut &[u8]| {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *text = &text[count..];
        count
    };
    let mut rest = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let zero = rest.first() == Some(&b'0');
    let whole = digits(&mut rest);
    if whole == 0 || zero && whole > 1 {
        return false;
    }
    if let Some(fraction) = rest.strip_prefix(b".") {
        rest = fraction;
        if digits(&mut rest) == 0 {
            return false;
        }
    }
    if let [b'e' | b'E', power @ ..] = rest {
        rest = power
            .strip_prefix(b"+")
            .or(power.strip_prefix(b"-"))
            .unwrap_or(power);
        if digits(&mut rest) == 0 {
            return false;
        }
    }
    rest.is_empty()
}
