//! Statements of scripts on databases, as far as they are allowed.

use std::time::Instant;

use forebay_pg::{
    PgError, Rows, Source,
    json::{Numbers, write_string},
};
use futures_util::future::join_all;

use crate::options::Options;

/// Statements that a script waits for together. They are sent without waiting for each other.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) source: Source,
    pub(crate) statements: Vec<Statement>,
}

/// A statement, whose parameters are text; `None` is null.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) parameters: Vec<Option<String>>,
}

/// The database of a name, if a script may reach it, and else why not.
pub(crate) fn source<'o>(name: &str, options: &'o Options) -> Result<&'o Source, String> {
    let allowed = &options.allow.sql;
    allowed.get(name).ok_or_else(|| {
        let script = &options.name;
        if allowed.is_empty() {
            format!("script `{script}` may not reach database `{name}`: its `allow` names none in `sql`")
        } else {
            let names: Vec<_> = allowed.keys().map(String::as_str).collect();
            format!(
                "script `{script}` may not reach database `{name}`: its `allow` names {}",
                names.join(", ")
            )
        }
    })
}

impl Statements {
    /// Runs them; gives the outcome of each as JSON: `[{"rows":[...],"count":1},{"error":{...}}]`.
    pub(crate) async fn run(self) -> Vec<u8> {
        let Self { source, statements } = self;
        let deadline = Instant::now() + source.settings().statement_timeout;
        let run = |Statement { text, parameters }: Statement| {
            let source = &source;
            async move {
                let parameters: Vec<Option<&[u8]>> = parameters
                    .iter()
                    .map(|value| value.as_deref().map(str::as_bytes))
                    .collect();
                source.query(&text, &parameters, deadline).await
            }
        };
        let mut out = vec![b'['];
        for (index, outcome) in join_all(statements.into_iter().map(run)).await.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match outcome {
                Ok(rows) => write_rows(rows, &mut out),
                Err(error) => write_error(error, source.name(), &mut out),
            }
        }
        out.push(b']');
        out
    }
}

fn write_rows(rows: &Rows, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"rows\":");
    rows.write_all(Numbers::Doubles, out);
    out.extend_from_slice(b",\"count\":");
    out.extend_from_slice(itoa::Buffer::new().format(rows.affected).as_bytes());
    out.push(b'}');
}

/// Members as the SDK's `SqlError` has them.
fn write_error(error: &PgError, source: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":{\"message\":");
    match error {
        PgError::Server(error) => write_string(error.message.as_bytes(), out),
        error => write_string(format!("database `{source}`: {error}").as_bytes(), out),
    }
    let mut member = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            out.extend_from_slice(format!(",\"{name}\":").as_bytes());
            write_string(value.as_bytes(), out);
        }
    };
    member("code", Some(error.code().as_str()));
    if let PgError::Server(error) = error {
        member("detail", error.detail.as_deref());
        member("hint", error.hint.as_deref());
        member("constraint", error.constraint.as_deref());
        let position = error.position.map(|position| position.to_string());
        member("position", position.as_deref());
    }
    out.extend_from_slice(b"}}");
}
