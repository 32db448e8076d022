//! Parts common to both encodings of a statement: expressions as function calls, paths, values, templates, clauses.

use std::{cell::Cell, collections::BTreeMap, ops::Bound};

use forebay_store::{StoreError, json};

use super::{
    At, Page, Sort, Statement, Subject, Verb,
    cursor::Cursor,
    expression::{Comparison, Expression, Pattern},
    reader::{Node, Reader, Value},
    template::Template,
};
use crate::{
    error::StatementError, number, operand::Operand, path::Path, reference::Reference, settings::Settings,
};

/// Longest REGEX pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 1000;
/// Most function calls in a statement: each may examine a whole record.
const FUNCTIONS_MAX: usize = 1000;
/// Most patterns in a statement: each may take much memory.
const PATTERNS_MAX: usize = 16;
/// Functions of expressions, as listed in error messages.
const FUNCTIONS: &str = "EQ, GT, GTE, LT, LTE, BETWEEN, IN, AND, OR, NOT, HAS or REGEX";
/// Largest number in a clause: the integers that a double represents exactly.
const COUNT_MAX: u64 = 1 << 53;

/// A function call with its arguments, in either encoding.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) at: usize,
    pub(super) name: String,
    pub(super) arguments: Vec<Argument>,
}

#[derive(Debug)]
pub(super) enum Argument {
    Value(Node),
    Call(Call),
}

impl Argument {
    fn at(&self) -> usize {
        match self {
            Self::Value(node) => node.at,
            Self::Call(call) => call.at,
        }
    }
}

/// Encoding of the statement. The two differ in the meaning of texts without quotes and in `"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Friendly,
}

/// Builds parts of statements from parsed values, and locates their errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker<'r, 't> {
    pub(super) reader: &'r Reader<'t>,
    pub(super) settings: &'r Settings,
    pub(super) encoding: Encoding,
}

impl Maker<'_, '_> {
    /// Increments a counter that has an upper limit.
    fn count_one(
        &self,
        count: &Cell<usize>,
        max: usize,
        at: usize,
        what: &str,
    ) -> Result<(), StatementError> {
        count.set(count.get() + 1);
        if count.get() > max {
            let message = format!("a statement has at most {max} {what}");
            return Err(self.reader.meaningless_at(at, message));
        }
        Ok(())
    }

    pub(super) fn expression(&self, call: Call) -> Result<Expression, StatementError> {
        let Call { at, name, arguments } = call;
        self.count_one(&self.reader.functions, FUNCTIONS_MAX, at, "functions")?;
        let upper = name.to_ascii_uppercase();
        let count = arguments.len();
        let needs = |fits: bool, what: &str| {
            let message = format!("{upper} has {what}, found {count}");
            if fits {
                Ok(())
            } else {
                Err(self.reader.wrong_at(at, message))
            }
        };
        let mut arguments = arguments.into_iter();
        let mut next = || arguments.next().expect("their number was checked");
        Ok(match upper.as_str() {
            "AND" | "OR" => {
                needs(count > 0, "at least one expression")?;
                let all: Result<Vec<_>, _> = arguments.map(|argument| self.inner(argument)).collect();
                if upper == "AND" {
                    Expression::And(all?)
                } else {
                    Expression::Or(all?)
                }
            }
            "NOT" => {
                needs(count == 1, "one expression")?;
                Expression::Not(Box::new(self.inner(next())?))
            }
            "HAS" => {
                needs(count == 1, "one argument: a path")?;
                Expression::Has(self.path(&next())?)
            }
            "REGEX" => {
                needs(count == 2, "two arguments: a path and a pattern")?;
                let path = self.path(&next())?;
                Expression::Matches(path, self.pattern(&next())?)
            }
            "EQ" => {
                needs(count == 2, "two arguments: a path and a value")?;
                let path = self.path(&next())?;
                Expression::Is(path, Comparison::One(vec![self.operand(&next())?]))
            }
            "IN" => {
                needs(count >= 2, "a path and at least one value")?;
                let path = self.path(&next())?;
                let values: Result<Vec<_>, _> = arguments.map(|argument| self.operand(&argument)).collect();
                Expression::Is(path, Comparison::One(values?))
            }
            "GT" | "GTE" | "LT" | "LTE" => {
                needs(count == 2, "two arguments: a path and a value")?;
                let path = self.path(&next())?;
                let bound = self.ordered(&next(), &upper)?;
                let (from, to) = match upper.as_str() {
                    "GT" => (Bound::Excluded(bound), Bound::Unbounded),
                    "GTE" => (Bound::Included(bound), Bound::Unbounded),
                    "LT" => (Bound::Unbounded, Bound::Excluded(bound)),
                    _ => (Bound::Unbounded, Bound::Included(bound)),
                };
                Expression::Is(path, Comparison::Between(from, to))
            }
            "BETWEEN" => {
                needs(
                    (3..=5).contains(&count),
                    "a path, two values and at most two times true or false",
                )?;
                let path = self.path(&next())?;
                let least = self.ordered(&next(), &upper)?;
                let second = next();
                let most = self.ordered(&second, &upper)?;
                if matches!(least, Operand::Time(..)) != matches!(most, Operand::Time(..)) {
                    let what = "BETWEEN compares with two numbers or with two times";
                    return Err(self.reader.meaningless_at(second.at(), what));
                }
                let mut included = [true, true];
                for (included, argument) in included.iter_mut().zip(arguments) {
                    *included = self.flag(&argument)?;
                }
                let bound = |operand, included| {
                    if included {
                        Bound::Included(operand)
                    } else {
                        Bound::Excluded(operand)
                    }
                };
                Expression::Is(
                    path,
                    Comparison::Between(bound(least, included[0]), bound(most, included[1])),
                )
            }
            _ => {
                let what = format!("expected {FUNCTIONS}, found {name:?}");
                return Err(self.reader.wrong_at(at, what));
            }
        })
    }

    fn inner(&self, argument: Argument) -> Result<Expression, StatementError> {
        match argument {
            Argument::Call(call) => self.expression(call),
            Argument::Value(node) => {
                let what = format!("expected an expression, found {}", node.value.name());
                Err(self.reader.wrong_at(node.at, what))
            }
        }
    }

    fn value<'a>(&self, argument: &'a Argument, what: &str) -> Result<&'a Node, StatementError> {
        match argument {
            Argument::Value(node) => Ok(node),
            Argument::Call(call) => {
                let message = format!("expected {what}, found an expression");
                Err(self.reader.wrong_at(call.at, message))
            }
        }
    }

    fn path(&self, argument: &Argument) -> Result<Path, StatementError> {
        self.path_of(self.value(argument, "a path")?)
    }

    pub(super) fn path_of(&self, node: &Node) -> Result<Path, StatementError> {
        let (text, quote) = match &node.value {
            Value::Text(text) | Value::Literal(text) => (text.as_str(), 1),
            Value::Word | Value::Plain if self.encoding == Encoding::Friendly => {
                (self.reader.source(node), 0)
            }
            other => {
                let what = format!("expected a path, found {}", other.name());
                return Err(self.reader.wrong_at(node.at, what));
            }
        };
        Path::read(text).map_err(|(at, what)| {
            self.reader
                .wrong_at(node.at + quote + at, format!("in a path: {what}"))
        })
    }

    /// A path that leads to a single value.
    fn single_path(&self, node: &Node, clause: &str) -> Result<Path, StatementError> {
        let path = self.path_of(node)?;
        if path.is_many() {
            let what = format!("{clause} takes a path that leads to one value, without `*`");
            return Err(self.reader.meaningless_at(node.at, what));
        }
        Ok(path)
    }

    fn operand(&self, argument: &Argument) -> Result<Operand, StatementError> {
        let node = self.value(argument, "a value")?;
        let detect = self.settings.detect;
        Ok(match &node.value {
            Value::Text(text) if self.encoding == Encoding::Json => match text.strip_prefix('\'') {
                Some(literal) => Operand::text(literal),
                None => Operand::detect(text, detect),
            },
            Value::Text(text) => Operand::detect(text, detect),
            Value::Literal(text) => Operand::text(text),
            Value::Plain => {
                let text = self.reader.source(node).as_bytes();
                if number::is_number(text) {
                    Operand::number(text, detect)
                } else {
                    Operand::Exact(text.to_vec())
                }
            }
            Value::Word => match Operand::detect(self.reader.source(node), detect) {
                typed @ (Operand::Time(..) | Operand::Uuid(..)) => typed,
                _ => {
                    let what =
                        "expected a value: a number, true, false, null, a time, a UUID, or a text in quotes";
                    return Err(self.reader.wrong_at(node.at, what));
                }
            },
            other => {
                let what = format!("a value is compared with, found {}", other.name());
                return Err(self.reader.meaningless_at(node.at, what));
            }
        })
    }

    fn ordered(&self, argument: &Argument, function: &str) -> Result<Operand, StatementError> {
        let operand = self.operand(argument)?;
        if operand.is_ordered() {
            return Ok(operand);
        }
        let what = format!("{function} compares with a number or a time, found {operand}");
        Err(self.reader.meaningless_at(argument.at(), what))
    }

    fn flag(&self, argument: &Argument) -> Result<bool, StatementError> {
        let node = self.value(argument, "true or false")?;
        match self.reader.source(node) {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.reader.wrong_at(node.at, "expected true or false")),
        }
    }

    fn pattern(&self, argument: &Argument) -> Result<Pattern, StatementError> {
        let node = self.value(argument, "a pattern")?;
        let pattern = match &node.value {
            Value::Text(text) | Value::Literal(text) => text.as_str(),
            other => {
                let what = format!("expected a pattern in quotes, found {}", other.name());
                return Err(self.reader.wrong_at(node.at, what));
            }
        };
        let pattern = match self.encoding {
            Encoding::Json => pattern.strip_prefix('\'').unwrap_or(pattern),
            Encoding::Friendly => pattern,
        };
        self.count_one(&self.reader.patterns, PATTERNS_MAX, node.at, "patterns")?;
        if pattern.len() > PATTERN_BYTES_MAX {
            let what = format!(
                "a pattern of {} bytes is too long (at most {PATTERN_BYTES_MAX})",
                pattern.len()
            );
            return Err(self.reader.meaningless_at(node.at, what));
        }
        Pattern::new(pattern, self.settings.detect).map_err(|error| {
            self.reader
                .meaningless_at(node.at, format!("not a pattern: {error}"))
        })
    }

    /// Template of a SELECT clause.
    pub(super) fn template(&self, node: &Node) -> Result<Template, StatementError> {
        let path = |text: &str, quote: usize| {
            Ok(match text.to_ascii_lowercase().as_str() {
                "$" => Template::Node,
                "$ref" => Template::Reference,
                "$root" => Template::Root,
                "$rid" => Template::Rid,
                _ => {
                    let path = Path::read(text).map_err(|(at, what)| {
                        self.reader
                            .wrong_at(node.at + quote + at, format!("in a path: {what}"))
                    })?;
                    let unknown = |name: &str| name.starts_with('$') && !text.starts_with('"');
                    if matches!(path.steps.first(), Some(crate::path::Step::Name(name)) if !path.from_root && unknown(name))
                    {
                        let what = format!("expected $, $ref, $root, $rid or a path, found {text:?}");
                        return Err(self.reader.wrong_at(node.at, what));
                    }
                    Template::Path(path)
                }
            })
        };
        Ok(match &node.value {
            Value::Plain => Template::Fixed(self.reader.source(node).as_bytes().to_vec()),
            Value::Literal(text) => Template::Fixed(json::string(text)),
            Value::Text(text) if self.encoding == Encoding::Friendly => Template::Fixed(json::string(text)),
            Value::Text(text) => match text.strip_prefix('\'') {
                Some(literal) => Template::Fixed(json::string(literal)),
                None => path(text, 1)?,
            },
            Value::Word => path(self.reader.source(node), 0)?,
            Value::Array(elements) => Template::Array(
                elements
                    .iter()
                    .map(|element| self.template(element))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(members) => Template::Object(
                members
                    .iter()
                    .map(|(name, member)| Ok((json::string(name), self.template(member)?)))
                    .collect::<Result<_, StatementError>>()?,
            ),
        })
    }

    /// A document as canonical JSON.
    pub(super) fn document(&self, node: &Node) -> Result<Vec<u8>, StatementError> {
        json::canonical(self.reader.source(node).as_bytes()).map_err(|error| {
            let at = node.at + error.offset;
            self.reader.wrong_at(at, StoreError::from(error).to_string())
        })
    }

    /// The reference in a WHERE clause, if it is one.
    pub(super) fn reference(&self, node: &Node) -> Result<Option<Reference>, StatementError> {
        let (text, is_number) = match &node.value {
            Value::Plain => (
                self.reader.source(node),
                number::is_number(self.reader.source(node).as_bytes()),
            ),
            Value::Text(text) | Value::Literal(text) => (text.as_str(), false),
            Value::Word => (self.reader.source(node), false),
            Value::Array(_) | Value::Object(_) => return Ok(None),
        };
        let found = match (self.encoding, is_number) {
            (Encoding::Json, true) => Reference::from_decimal(text),
            _ => Reference::from_text(text),
        };
        if found.is_none() {
            let what = "expected a reference: a whole number from 0 to 18446744073709551615, or 16 hexadecimal digits";
            let wrong = if is_number {
                self.reader.meaningless_at(node.at, what)
            } else {
                self.reader.wrong_at(node.at, format!("{what}, or an expression"))
            };
            return Err(wrong);
        }
        Ok(found)
    }

    pub(super) fn count(&self, node: &Node, clause: &str) -> Result<u64, StatementError> {
        let count = self
            .reader
            .source(node)
            .parse::<u64>()
            .ok()
            .filter(|count| *count <= COUNT_MAX);
        count.ok_or_else(|| {
            let what = format!(
                "{clause} takes a whole number from 0 to {COUNT_MAX}, found {}",
                self.shown(node)
            );
            self.reader.wrong_at(node.at, what)
        })
    }

    fn shown(&self, node: &Node) -> String {
        crate::error::beginning(self.reader.source(node).as_bytes())
    }

    pub(super) fn text(&self, node: &Node, clause: &str) -> Result<String, StatementError> {
        match &node.value {
            Value::Text(text) | Value::Literal(text) => Ok(text.clone()),
            other => {
                let what = format!("{clause} takes a text in quotes, found {}", other.name());
                Err(self.reader.wrong_at(node.at, what))
            }
        }
    }

    pub(super) fn at(&self, node: &Node) -> Result<At, StatementError> {
        let text = match &node.value {
            Value::Text(text) | Value::Literal(text) => text.as_str(),
            _ => self.reader.source(node),
        };
        if text == "**" {
            return Ok(At::Everywhere);
        }
        let path = self.path_of(node)?;
        if path.from_root {
            return Err(self.reader.meaningless_at(
                node.at,
                "the path of AT begins at the record as it is, without `$root`",
            ));
        }
        Ok(At::Path(path))
    }

    pub(super) fn sort(&self, node: &Node) -> Result<Sort, StatementError> {
        let text = match &node.value {
            Value::Text(text) | Value::Literal(text) => text.as_str(),
            _ => self.reader.source(node),
        };
        let Some(rest) = text.strip_prefix('-') else {
            return Ok(Sort {
                path: self.single_path(node, "SORT")?,
                reverse: false,
            });
        };
        let path = Path::read(rest).map_err(|(at, what)| {
            self.reader
                .wrong_at(node.at + 1 + at, format!("in a path: {what}"))
        })?;
        if path.is_many() {
            return Err(self
                .reader
                .meaningless_at(node.at, "SORT takes a path that leads to one value, without `*`"));
        }
        Ok(Sort { path, reverse: true })
    }

    pub(super) fn unique(&self, node: &Node) -> Result<Path, StatementError> {
        self.single_path(node, "UNIQUE")
    }

    pub(super) fn page(&self, size: &Node, number: &Node) -> Result<Page, StatementError> {
        Ok(Page {
            size: self.count(size, "the size of PAGE")?,
            number: self.count(number, "the number of PAGE")?,
        })
    }

    pub(super) fn cursor(&self, node: &Node) -> Result<Cursor, StatementError> {
        let text = self.text(node, "CURSOR")?;
        Cursor::read(&text).ok_or_else(|| {
            let what = "CURSOR takes what an answer gave as `cursor`, or an empty text to begin";
            self.reader.meaningless_at(node.at, what)
        })
    }
}

/// The clauses found so far, each at most once.
#[derive(Debug, Default)]
pub(super) struct Clauses {
    /// Offset of each clause, by name in upper case.
    found: BTreeMap<&'static str, usize>,
    pub(super) rid: Option<Vec<u8>>,
    pub(super) subject: Option<Subject>,
    pub(super) filter: Option<Expression>,
    pub(super) at: Option<At>,
    pub(super) verb: Option<Verb>,
    pub(super) limit: Option<u64>,
    pub(super) sort: Option<Sort>,
    pub(super) unique: Option<Path>,
    pub(super) page: Option<Page>,
    pub(super) cursor: Option<Cursor>,
    pub(super) explain: bool,
}

/// All clauses, in the order in which error messages list them.
pub(super) const CLAUSES: [&str; 14] = [
    "EXPLAIN", "RID", "WHERE", "FILTER", "AT", "SELECT", "INSERT", "UPDATE", "DELETE", "LIMIT", "SORT",
    "UNIQUE", "PAGE", "CURSOR",
];

/// The clause with that name, in any case.
pub(super) fn clause(name: &str) -> Option<&'static str> {
    CLAUSES
        .into_iter()
        .find(|clause| clause.eq_ignore_ascii_case(name))
}

impl Clauses {
    /// Records a clause; an error if it is repeated.
    pub(super) fn note(
        &mut self,
        reader: &Reader<'_>,
        clause: &'static str,
        at: usize,
    ) -> Result<(), StatementError> {
        const VERBS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];
        let same = |other: &&str| **other == *clause || VERBS.contains(other) && VERBS.contains(&clause);
        if let Some(other) = self.found.keys().find(|other| same(other)) {
            let what = if *other == clause {
                format!("{clause} stands there twice")
            } else {
                format!(
                    "a statement has one of SELECT, INSERT, UPDATE and DELETE, found {other} and {clause}"
                )
            };
            return Err(reader.wrong_at(at, what));
        }
        self.found.insert(clause, at);
        Ok(())
    }

    /// Builds the statement; an error if its clauses do not fit together.
    pub(super) fn statement(self, reader: &Reader<'_>) -> Result<Statement, StatementError> {
        let place = |clause: &str| self.found.get(clause).copied();
        let refuse = |clauses: &[&'static str], with: &str| match clauses
            .iter()
            .find_map(|clause| Some((*clause, place(clause)?)))
        {
            None => Ok(()),
            Some((clause, at)) => {
                Err(reader.meaningless_at(at, format!("{clause} makes no sense with {with}")))
            }
        };
        let verb = self.verb.unwrap_or(Verb::Select(None));
        let has_where = self.subject.is_some();
        let end = reader.text.len();
        match &verb {
            Verb::Select(_) => {}
            Verb::Insert(_) => refuse(&["AT", "LIMIT", "SORT", "UNIQUE", "PAGE", "CURSOR"], "INSERT")?,
            Verb::Update(_) => refuse(&["SORT", "UNIQUE", "PAGE", "CURSOR"], "UPDATE")?,
            Verb::Delete => refuse(&["SORT", "UNIQUE", "PAGE", "CURSOR"], "DELETE")?,
        }
        if !has_where && matches!(verb, Verb::Update(_) | Verb::Delete) {
            let at = place("UPDATE").or(place("DELETE")).unwrap_or(end);
            let what = "UPDATE and DELETE need WHERE, which says what they concern";
            return Err(reader.meaningless_at(at, what));
        }
        if matches!(verb, Verb::Update(_)) && self.limit == Some(0) {
            refuse(&["AT"], "UPDATE and LIMIT 0, which removes whole records")?;
        }
        if self.cursor.is_some() {
            refuse(&["SORT", "UNIQUE", "PAGE", "AT"], "CURSOR")?;
        }
        Ok(Statement {
            rid: self.rid,
            subject: self.subject.unwrap_or(Subject::All),
            filter: self.filter,
            at: self.at,
            verb,
            limit: self.limit,
            sort: self.sort,
            unique: self.unique,
            page: self.page,
            cursor: self.cursor,
            explain: self.explain,
        })
    }
}
