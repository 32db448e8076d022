//! Statements on a database: the request supplies their parameters, and the response has the rows of the last one.

mod rows;
mod values;

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use forebay_pg::{Code, Failed, Isolation, PgError, Rows, Source, Sql, Step, Takes, json::Numbers};

use self::{
    rows::{Form, SqlStream},
    values::{Value, fill, named, wrong},
};
use super::{
    End, Request,
    pending::wait_for,
    store::{body, json},
};
use crate::{
    config::{SqlResult, SqlRoute},
    failure::{Refusal, SqlFailure},
    front::Client,
    reply::{Body, Reply},
};

/// Runs one statement or one transaction per request.
#[derive(Debug)]
pub(crate) struct SqlTarget {
    source: Source,
    statements: Vec<Statement>,
    /// Parameter names of all statements, each once.
    names: Vec<String>,
    transaction: Option<Isolation>,
    optional: Vec<String>,
    result: SqlResult,
    /// Parameter types of each statement, described by the database on first need.
    takes: Mutex<Option<Arc<[Vec<Takes>]>>>,
}

#[derive(Debug)]
struct Statement {
    sql: Sql,
    /// For each of its parameters, the index of the name in [`SqlTarget::names`].
    uses: Vec<usize>,
}

impl SqlTarget {
    pub(crate) fn new(source: Source, route: &SqlRoute) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut use_of = |name: &String| {
            names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            })
        };
        let statements = route.statements().iter().map(|statement| Statement {
            uses: statement.sql.names().iter().map(&mut use_of).collect(),
            sql: statement.sql.clone(),
        });
        Self {
            source,
            statements: statements.collect(),
            names,
            transaction: route.transaction(),
            optional: route.optional.clone(),
            result: route.result,
            takes: Mutex::default(),
        }
    }

    /// Answers a request.
    pub(crate) async fn answer(
        &self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        client.before_waiting().await?;
        let names = &self.names;
        let mut values = named(names, request)?;
        let text;
        if values.iter().any(Option::is_none) {
            text = body::read(request, client).await?;
            fill(&mut values, names, request, &text)?;
        }
        let values: Vec<Value<'_>> = names
            .iter()
            .zip(values)
            .map(|(name, value)| match value {
                Some(value) => Ok(value),
                None if self.optional.contains(name) => Ok(Value::Null),
                None => Err(wrong(name, "it is missing")),
            })
            .collect::<Result<_, _>>()?;
        let takes = if values.iter().any(Value::depends) {
            let takes = Box::pin(self.takes(request.deadline));
            Some(wait_for(takes, request.deadline, client).await??)
        } else {
            None
        };
        let texts: Vec<Vec<Option<Cow<'_, str>>>> = (0..self.statements.len())
            .map(|index| self.texts(index, &values, takes.as_deref()))
            .collect::<Result<_, _>>()?;
        let reply = self.run(&texts, request.deadline);
        let reply = wait_for(reply, request.deadline, client).await?;
        if reply.is_err() {
            // The table may have changed since the types were described.
            *self.takes.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Ok(reply?)
    }

    /// The parameters of one statement, as text.
    fn texts<'a>(
        &self,
        index: usize,
        values: &[Value<'a>],
        takes: Option<&[Vec<Takes>]>,
    ) -> Result<Vec<Option<Cow<'a, str>>>, Refusal> {
        let uses = self.statements[index].uses.iter().enumerate();
        uses.map(|(number, &at)| {
            let takes = takes.and_then(|takes| takes[index].get(number).copied());
            values[at].text(&self.names[at], takes)
        })
        .collect()
    }

    /// The parameter types of all statements, asked of the database once.
    async fn takes(&self, deadline: Instant) -> Result<Arc<[Vec<Takes>]>, Refusal> {
        let known = || self.takes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(takes) = &*known() {
            return Ok(Arc::clone(takes));
        }
        let mut takes = Vec::new();
        for (index, statement) in self.statements.iter().enumerate() {
            let described = self.source.describe(statement.sql.text(), deadline).await;
            takes.push(described.map_err(|error| self.refusal(Some(index), error))?);
        }
        let takes: Arc<[Vec<Takes>]> = takes.into();
        *known() = Some(Arc::clone(&takes));
        Ok(takes)
    }

    async fn run(
        &self,
        texts: &[Vec<Option<Cow<'_, str>>>],
        deadline: Instant,
    ) -> Result<Reply<'static>, Refusal> {
        let parameters = |index: usize| -> Vec<Option<&[u8]>> {
            let texts: &Vec<Option<Cow<'_, str>>> = &texts[index];
            texts
                .iter()
                .map(|text| text.as_deref().map(str::as_bytes))
                .collect()
        };
        if let Some(isolation) = self.transaction {
            let steps = self
                .statements
                .iter()
                .enumerate()
                .map(|(index, statement)| (statement.sql.text(), parameters(index)));
            let steps: Vec<Step<'_>> = steps.collect();
            let run = self
                .source
                .transact(&steps, isolation, deadline, |rows| self.is_found(rows));
            // Boxed, so that requests without a transaction do not carry this large future.
            let rows = Box::pin(run)
                .await
                .map_err(|Failed { step, error }| self.refusal(step, error))?;
            return self.reply(&rows);
        }
        let (sql, parameters) = (&self.statements[0].sql, parameters(0));
        let form = match self.result {
            SqlResult::Ndjson => Form::Ndjson,
            SqlResult::Csv => Form::Csv,
            SqlResult::Rows | SqlResult::Row | SqlResult::Value => {
                match self.source.query(sql.text(), &parameters, deadline).await {
                    Ok(rows) => return self.reply(&rows),
                    // A read-only statement can run again, this time streaming its rows.
                    Err(error)
                        if error.code() == Code::TooLarge
                            && self.result == SqlResult::Rows
                            && sql.only_reads() =>
                    {
                        Form::Array
                    }
                    Err(error) => return Err(self.refusal(Some(0), error)),
                }
            }
        };
        Box::pin(self.stream(form, &parameters, deadline))
            .await
            .map_err(|error| self.refusal(Some(0), error))
    }

    async fn stream(
        &self,
        form: Form,
        parameters: &[Option<&[u8]>],
        deadline: Instant,
    ) -> Result<Reply<'static>, PgError> {
        let text = self.statements[0].sql.text();
        let mut rows = self.source.stream(text, parameters, deadline).await?;
        if rows.columns().is_empty() {
            // A statement without rows takes effect when it is finished.
            while rows.next().await?.is_some() {}
            return Ok(Reply::new(204));
        }
        let mut reply = Reply::new(200);
        reply
            .headers
            .to_mut()
            .push_known("content-type", form.content_type());
        let stream = SqlStream::new(rows, self.source.clone(), form, deadline);
        reply.body = Body::Stream(Box::new(stream));
        Ok(reply)
    }

    /// Whether the result that the route answers with exists.
    fn is_found(&self, rows: &Rows) -> bool {
        match self.result {
            SqlResult::Row | SqlResult::Value if rows.columns.is_empty() => rows.affected > 0,
            SqlResult::Row | SqlResult::Value => !rows.rows.is_empty(),
            SqlResult::Rows | SqlResult::Ndjson | SqlResult::Csv => true,
        }
    }

    fn reply(&self, rows: &Rows) -> Result<Reply<'static>, Refusal> {
        if !self.is_found(rows) {
            return Err(Refusal::NoRow);
        }
        if rows.columns.is_empty() {
            return Ok(Reply::new(204));
        }
        let mut out = Vec::new();
        match (self.result, rows.rows.first()) {
            (SqlResult::Row, Some(row)) => row.write_object(&rows.columns, Numbers::Exact, &mut out),
            (SqlResult::Value, Some(row)) => rows.write_value(row, Numbers::Exact, &mut out),
            _ => rows.write_all(Numbers::Exact, &mut out),
        }
        Ok(json(200, out))
    }

    /// The error for the client: it names the parameter that the database knows only by number.
    fn refusal(&self, statement: Option<usize>, error: PgError) -> Refusal {
        let parameter = match &error {
            PgError::Server(error) => error.parameter.and_then(|number| number.checked_sub(1)),
            _ => None,
        };
        let names = statement.map(|index| self.statements[index].sql.names());
        let name = names.zip(parameter).and_then(|(names, index)| names.get(index));
        Refusal::Sql(SqlFailure::new(&self.source, name.map(String::as_str), error))
    }
}
