//! Parses statements in friendly text: verbs in any case, each followed by its value, in any order.

use super::{
    Statement, Subject, Verb,
    calls::{Argument, CLAUSES, Call, Clauses, Encoding, Maker, clause},
    reader::Reader,
};
use crate::{error::StatementError, settings::Settings};

pub(super) fn statement(reader: &mut Reader<'_>, settings: &Settings) -> Result<Statement, StatementError> {
    let mut clauses = Clauses::default();
    loop {
        reader.space_and_commas();
        if reader.ends() {
            return clauses.statement(reader);
        }
        let at = reader.at;
        let Some(clause) = take_clause(reader) else {
            return Err(reader.expected(&format!("one of {}", CLAUSES.join(", "))));
        };
        clauses.note(reader, clause, at)?;
        read_clause(reader, settings, clause, &mut clauses)?;
    }
}

fn read_clause(
    reader: &mut Reader<'_>,
    settings: &Settings,
    clause: &'static str,
    clauses: &mut Clauses,
) -> Result<(), StatementError> {
    match clause {
        "EXPLAIN" => {
            clauses.explain = true;
            return Ok(());
        }
        "DELETE" => {
            clauses.verb = Some(Verb::Delete);
            return Ok(());
        }
        "WHERE" | "FILTER" => {
            let argument = argument(reader)?;
            let make = maker(reader, settings);
            match (clause, argument) {
                ("WHERE", Argument::Call(call)) => {
                    clauses.subject = Some(Subject::Matching(make.expression(call)?));
                }
                ("WHERE", Argument::Value(node)) => match make.reference(&node)? {
                    Some(reference) => clauses.subject = Some(Subject::Record(reference)),
                    None => return Err(reader.wrong_at(node.at, "expected a reference or an expression")),
                },
                (_, Argument::Call(call)) => clauses.filter = Some(make.expression(call)?),
                (_, Argument::Value(node)) => {
                    return Err(reader.wrong_at(node.at, "expected an expression, as in NOT(EQ(age 21))"));
                }
            }
            return Ok(());
        }
        _ => {}
    }
    let node = match clause {
        "INSERT" | "UPDATE" => reader.document()?,
        _ => reader.friendly()?,
    };
    let second = (clause == "PAGE")
        .then(|| {
            reader.space_and_commas();
            reader.friendly()
        })
        .transpose()?;
    let make = maker(reader, settings);
    match clause {
        "RID" => clauses.rid = Some(forebay_store::json::string(&make.text(&node, "RID")?)),
        "AT" => clauses.at = Some(make.at(&node)?),
        "SELECT" => clauses.verb = Some(Verb::Select(Some(make.template(&node)?))),
        "INSERT" => clauses.verb = Some(Verb::Insert(make.document(&node)?)),
        "UPDATE" => clauses.verb = Some(Verb::Update(make.document(&node)?)),
        "LIMIT" => clauses.limit = Some(make.count(&node, "LIMIT")?),
        "SORT" => clauses.sort = Some(make.sort(&node)?),
        "UNIQUE" => clauses.unique = Some(make.unique(&node)?),
        "PAGE" => clauses.page = second.map(|number| make.page(&node, &number)).transpose()?,
        _ => clauses.cursor = Some(make.cursor(&node)?),
    }
    Ok(())
}

fn maker<'r, 't>(reader: &'r Reader<'t>, settings: &'r Settings) -> Maker<'r, 't> {
    Maker {
        reader,
        settings,
        encoding: Encoding::Friendly,
    }
}

/// Consumes the verb of a clause; anything else is left in place.
fn take_clause(reader: &mut Reader<'_>) -> Option<&'static str> {
    let rest = &reader.text[reader.at..];
    let length = rest
        .find(|character: char| !character.is_ascii_alphabetic())
        .unwrap_or(rest.len());
    let clause = clause(&rest[..length])?;
    reader.at += length;
    Some(clause)
}

/// Parses a function call or a value.
fn argument(reader: &mut Reader<'_>) -> Result<Argument, StatementError> {
    reader.space_and_commas();
    let at = reader.at;
    let rest = &reader.text[at..];
    let length = rest
        .find(|character: char| !character.is_ascii_alphanumeric())
        .unwrap_or(rest.len());
    let name = &rest[..length];
    if name.is_empty() || !rest[length..].trim_start().starts_with('(') {
        return Ok(Argument::Value(reader.friendly()?));
    }
    reader.count_value()?;
    let name = name.to_owned();
    reader.at += length;
    reader.space();
    reader.take(b'(');
    let arguments = reader.nested(|reader| {
        let mut arguments = Vec::new();
        loop {
            reader.space_and_commas();
            if reader.take(b')') {
                return Ok(arguments);
            }
            if reader.ends() {
                return Err(reader.expected("`)`"));
            }
            arguments.push(argument(reader)?);
        }
    })?;
    Ok(Argument::Call(Call { at, name, arguments }))
}
