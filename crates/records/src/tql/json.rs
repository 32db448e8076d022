//! Parses statements in JSON: an object with a member for each clause.

use super::{
    Statement, Subject, Verb,
    calls::{Argument, CLAUSES, Call, Clauses, Encoding, Maker, clause},
    expression::Expression,
    reader::{Node, Reader, Value},
};
use crate::{error::StatementError, settings::Settings};

pub(super) fn statement(reader: &mut Reader<'_>, settings: &Settings) -> Result<Statement, StatementError> {
    reader.space();
    if reader.peek() != Some(b'{') {
        return Err(reader.expected("a statement in JSON, which is an object"));
    }
    let is_document = |name: &str| matches!(clause(name), Some("INSERT" | "UPDATE"));
    let members = reader.nested(|reader| reader.members(false, is_document))?;
    if !reader.ends() {
        return Err(reader.expected("the end of the statement"));
    }
    let make = Maker {
        reader,
        settings,
        encoding: Encoding::Json,
    };
    let mut clauses = Clauses::default();
    for (name, node) in members {
        let at = node.at;
        let Some(clause) = clause(&name) else {
            let names: Vec<String> = CLAUSES.iter().map(|clause| clause.to_ascii_lowercase()).collect();
            let what = format!("{name:?} is no clause; expected one of {}", names.join(", "));
            return Err(reader.wrong_at(at, what));
        };
        clauses.note(reader, clause, at)?;
        let is_null = reader.source(&node) == "null";
        match clause {
            "EXPLAIN" => match reader.source(&node) {
                "true" => clauses.explain = true,
                "false" => {}
                _ => return Err(reader.wrong_at(at, "explain is true or false")),
            },
            "RID" => {
                clauses.rid = (!is_null)
                    .then(|| make.text(&node, "rid"))
                    .transpose()?
                    .map(|rid| forebay_store::json::string(&rid));
            }
            "WHERE" | "FILTER" if is_null => {}
            "WHERE" => {
                clauses.subject = Some(match make.reference(&node)? {
                    Some(reference) => Subject::Record(reference),
                    None => Subject::Matching(expression(make, node)?),
                });
            }
            "FILTER" => clauses.filter = Some(expression(make, node)?),
            "AT" => clauses.at = Some(make.at(&node)?),
            "SELECT" => {
                let template = (!is_null).then(|| make.template(&node)).transpose()?;
                clauses.verb = Some(Verb::Select(template));
            }
            "INSERT" => clauses.verb = Some(Verb::Insert(make.document(&node)?)),
            "UPDATE" => clauses.verb = Some(Verb::Update(make.document(&node)?)),
            // Its value is ignored: the verb says everything.
            "DELETE" => clauses.verb = Some(Verb::Delete),
            "LIMIT" => clauses.limit = Some(make.count(&node, "limit")?),
            "SORT" => clauses.sort = Some(make.sort(&node)?),
            "UNIQUE" => clauses.unique = Some(make.unique(&node)?),
            "PAGE" => match &node.value {
                Value::Array(parts) if parts.len() == 2 => {
                    clauses.page = Some(make.page(&parts[0], &parts[1])?);
                }
                _ => {
                    return Err(
                        reader.wrong_at(at, "page is an array of a size and a number, which counts from 0")
                    );
                }
            },
            _ => clauses.cursor = Some(make.cursor(&node)?),
        }
    }
    clauses.statement(reader)
}

fn expression(make: Maker<'_, '_>, node: Node) -> Result<Expression, StatementError> {
    let at = node.at;
    match call(node) {
        Some(Argument::Call(call)) => make.expression(call),
        _ => {
            let what = "expected an expression: an array that begins with a function, as in [\"EQ\", \"name\", \"'Pete\"]";
            Err(make.reader.wrong_at(at, what))
        }
    }
}

/// An array whose first element is a text is a call; `None` for any other.
fn call(node: Node) -> Option<Argument> {
    let Value::Array(elements) = node.value else {
        return Some(Argument::Value(node));
    };
    let mut elements = elements.into_iter();
    let Value::Text(name) = elements.next()?.value else {
        return None;
    };
    let arguments: Option<Vec<_>> = elements.map(call).collect();
    Some(Argument::Call(Call {
        at: node.at,
        name,
        arguments: arguments?,
    }))
}
