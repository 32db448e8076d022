//! A statement on a database: its parameters are those of the request, its rows are the answer.

use std::{borrow::Cow, collections::BTreeMap};

use forebay_pg::{PgError, Rows, Source, Sql, json::Numbers};
use serde_json::value::RawValue;

use super::{
    End, Request,
    media_type::is_body,
    parameters::parameters,
    store::{body, json},
    waiting::wait_for,
};
use crate::{
    config::{SqlResult, SqlRoute},
    failure::{Refusal, SqlFailure},
    front::{RequestBody, Socket, Stream},
    reply::Reply,
};

/// Runs one statement for each request.
#[derive(Clone, Debug)]
pub(crate) struct SqlTarget {
    source: Source,
    statement: Sql,
    optional: Vec<String>,
    result: SqlResult,
}

/// A parameter's text; `None` is null.
type Value<'a> = Option<Cow<'a, str>>;

impl SqlTarget {
    pub(crate) fn new(source: Source, route: &SqlRoute) -> Self {
        Self {
            source,
            statement: route.statement.clone(),
            optional: route.optional.clone(),
            result: route.result,
        }
    }

    /// Answers a request.
    pub(crate) async fn answer<S: Stream>(
        &self,
        request: &Request<'_>,
        body: &mut RequestBody,
        socket: &mut Socket<S>,
    ) -> Result<Reply<'static>, End> {
        let names = self.statement.names();
        let mut values = named(names, request)?;
        let text;
        if values.iter().any(Option::is_none) {
            text = body::read(request, body, socket).await?;
            fill(&mut values, names, request, &text)?;
        }
        let values: Vec<Value<'_>> = names
            .iter()
            .zip(values)
            .map(|(name, value)| match value {
                Some(value) => Ok(value),
                None if self.optional.contains(name) => Ok(None),
                None => Err(wrong(name, "it is missing")),
            })
            .collect::<Result<_, _>>()?;
        let parameters: Vec<Option<&[u8]>> = values
            .iter()
            .map(|value| value.as_deref().map(str::as_bytes))
            .collect();
        let run = self
            .source
            .query(self.statement.text(), &parameters, request.deadline);
        let rows = wait_for(run, request.deadline, socket).await?;
        let rows = rows.map_err(|error| self.refusal(error))?;
        self.reply(&rows).map_err(End::from)
    }

    fn reply(&self, rows: &Rows) -> Result<Reply<'static>, Refusal> {
        if rows.columns.is_empty() {
            return if rows.affected == 0 && self.result != SqlResult::Rows {
                Err(Refusal::NoRow)
            } else {
                Ok(Reply::new(204))
            };
        }
        let mut out = Vec::new();
        match (self.result, rows.rows.first()) {
            (SqlResult::Rows, _) => rows.write_all(Numbers::Exact, &mut out),
            (_, None) => return Err(Refusal::NoRow),
            (SqlResult::Row, Some(row)) => rows.write_row(row, Numbers::Exact, &mut out),
            (SqlResult::Value, Some(row)) => rows.write_value(row, Numbers::Exact, &mut out),
        }
        Ok(json(200, out))
    }

    /// What the request is refused with: the server knows parameters by their numbers.
    fn refusal(&self, error: PgError) -> Refusal {
        let parameter = match &error {
            PgError::Server(error) => error.parameter,
            _ => None,
        };
        let name = parameter.and_then(|number| self.statement.names().get(number.checked_sub(1)?));
        Refusal::Sql(SqlFailure::new(
            self.source.name(),
            name.map(String::as_str),
            error,
        ))
    }
}

/// The parameters that the path has, else the query.
fn named<'a>(names: &[String], request: &'a Request<'_>) -> Result<Vec<Option<Value<'a>>>, Refusal> {
    let mut values: Vec<Option<Value<'a>>> = names
        .iter()
        .map(|name| {
            let found = request.params.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| Some(Cow::Borrowed(&**value)))
        })
        .collect();
    if values.iter().all(Option::is_some) {
        return Ok(values);
    }
    for parameter in parameters(request.head.query(), "") {
        let parameter = parameter?;
        let at = names.iter().position(|name| *name == parameter.name);
        if let Some(value) = at.map(|at| &mut values[at])
            && value.is_none()
        {
            *value = Some(Some(parameter.value));
        }
    }
    Ok(values)
}

/// Those that are still missing, from the members of a JSON object. Texts are taken as they are, null is null, and everything else is the text that JSON has for it.
fn fill<'a>(
    values: &mut [Option<Value<'a>>],
    names: &[String],
    request: &Request<'_>,
    text: &'a [u8],
) -> Result<(), Refusal> {
    if text.is_empty() {
        return Ok(());
    }
    if !is_body(request.head, "application/json") {
        return Err(Refusal::MediaType {
            accepted: "application/json",
        });
    }
    let members: BTreeMap<Cow<'_, str>, &'a RawValue> =
        serde_json::from_slice(text).map_err(|error| Refusal::ParameterBody {
            what: error.to_string(),
        })?;
    for (name, value) in names.iter().zip(values) {
        if value.is_some() {
            continue;
        }
        let Some(member) = members.get(name.as_str()) else {
            continue;
        };
        *value = Some(match member.get() {
            "null" => None,
            text if text.starts_with('"') => {
                let text: String =
                    serde_json::from_str(text).map_err(|error| wrong(name, &error.to_string()))?;
                Some(text.into())
            }
            text => Some(text.into()),
        });
    }
    Ok(())
}

fn wrong(name: &str, what: &str) -> Refusal {
    Refusal::Parameter {
        name: name.to_owned(),
        what: what.to_owned(),
    }
}
