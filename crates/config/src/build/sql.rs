//! `[sql.NAME]`, and `sql` of routes

use forebay_pg::{Driver, Isolation, ServerUrl, Settings, Sql};

use super::{Builder, route::Behind, route::none_such};
use crate::fields::Fields;
use crate::{SqlResult, SqlRoute, SqlStatement};

impl Builder<'_> {
    /// `threads` is the number of threads that run statements on this database.
    pub(super) fn source(&mut self, name: &str, fields: &Fields, threads: usize) -> Option<Settings> {
        self.check_name(name, "database", fields);
        let server: ServerUrl = match fields.text("url").parse() {
            Ok(server) => server,
            Err(error) => {
                // The URL may contain a password, so the message does not repeat it.
                self.note(fields.problem("url", format!("what is written there {error}")));
                return None;
            }
        };
        let count = |key| usize::try_from(fields.integer(key)).unwrap_or(usize::MAX);
        let (driver, needed) = match fields.text("driver") {
            "blocking" => (Driver::Blocking, 2),
            _ => (Driver::Pipelined, threads + 1),
        };
        let mut connections_max = count("connections_max");
        if !fields.written("connections_max") {
            connections_max = connections_max.max(needed);
        } else if connections_max < needed {
            let why = match driver {
                Driver::Pipelined => format!(
                    "with driver = \"async\" each of the {threads} threads that run statements has one, and streams and transactions have one; with \"blocking\" threads share theirs"
                ),
                Driver::Blocking => {
                    "statements have one at any rate, and streams and transactions".to_owned()
                }
            };
            let message = format!("found {connections_max}, expected at least {needed}: {why}");
            self.note(fields.problem("connections_max", message));
        }
        let connections_min = count("connections_min");
        if driver == Driver::Pipelined && connections_min > 0 {
            let message = "only driver = \"blocking\" has it: with \"async\" connections stay that were made";
            self.note(fields.problem("connections_min", message));
        } else if connections_min >= connections_max {
            let message = format!(
                "found {connections_min}, expected less than connections_max ({connections_max}): streams and transactions have one"
            );
            self.note(fields.problem("connections_min", message));
        }
        Some(Settings {
            server,
            driver,
            connections_max,
            connections_min,
            connection_age_max: fields.duration("connection_age_max"),
            idle_timeout: fields.duration("idle_timeout"),
            leak_warning: fields.duration("leak_warning"),
            in_flight_max: count("in_flight_max"),
            result_bytes_max: count("result_bytes_max"),
            acquire_timeout: fields.duration("acquire_timeout"),
            connect_timeout: fields.duration("connect_timeout"),
            statement_timeout: fields.duration("statement_timeout"),
            slow_query: fields.opt_duration("slow_query"),
        })
    }

    pub(super) fn sql_route(&mut self, fields: &Fields, behind: &Behind<'_>) -> Option<SqlRoute> {
        if !fields.written("methods") {
            let message = "a route with `sql` says which methods it answers, such as [\"GET\"]: one that changes something is not for GET";
            self.note(fields.problem("sql", message));
        }
        let sql = fields.table("sql");
        let source = sql.text("source");
        if !behind.sources_declared.contains(&source) {
            self.note(sql.problem("source", none_such("sql", source, &behind.sources_declared)));
        }
        let statements = self.sql_statements(sql)?;
        let is_transaction = sql.written("statements");
        let result = match sql.text("result") {
            "row" => SqlResult::Row,
            "value" => SqlResult::Value,
            "ndjson" => SqlResult::Ndjson,
            "csv" => SqlResult::Csv,
            _ => SqlResult::Rows,
        };
        if is_transaction && matches!(result, SqlResult::Ndjson | SqlResult::Csv) {
            let message = "a transaction is over before it is answered, so its rows are not sent as they come: \"rows\", \"row\" and \"value\" are accepted with `statements`";
            self.note(sql.problem("result", message));
        }
        if !is_transaction && sql.written("isolation") {
            self.note(sql.problem(
                "isolation",
                "only `statements` have it: a `query` sees one state of the database at any rate",
            ));
        }
        let isolation = match sql.text("isolation") {
            "repeatable read" => Isolation::RepeatableRead,
            "serializable" => Isolation::Serializable,
            _ => Isolation::ReadCommitted,
        };
        let mut optional = Vec::new();
        for name in sql.texts("optional") {
            if !statements
                .iter()
                .any(|statement| statement.sql.names().contains(&name.text))
            {
                let message = format!("the statement has no parameter `:{}`", name.text);
                self.note(sql.problem_at(name.line, "optional", message));
            }
            optional.push(name.text.clone());
        }
        Some(SqlRoute {
            source: source.to_owned(),
            statements,
            transaction: is_transaction.then_some(isolation),
            optional,
            result,
        })
    }

    fn sql_statements(&mut self, fields: &Fields) -> Option<Vec<SqlStatement>> {
        let (key, written): (_, Vec<(&str, usize)>) = match (
            fields.opt_text("query"),
            fields.texts("statements"),
        ) {
            (Some(query), []) => ("query", vec![(query, fields.line_of("query"))]),
            (None, [_, ..]) => {
                let statements = fields.texts("statements").iter();
                (
                    "statements",
                    statements.map(|spot| (&*spot.text, spot.line)).collect(),
                )
            }
            (query, _) => {
                let found = if query.is_some() { "both" } else { "none" };
                let message = format!(
                    "found {found}; a route has `query`, which is one statement, or `statements`, which are a transaction"
                );
                self.note(fields.problem("query", message));
                return None;
            }
        };
        let mut statements = Vec::new();
        for &(query, line) in &written {
            let sql = match Sql::parse(query) {
                Ok(sql) => sql,
                Err(error) => {
                    self.note(fields.problem_at(line, key, error.to_string()));
                    continue;
                }
            };
            // A lock would end with its transaction.
            let keyword = sql.session_keyword();
            if let Some(keyword) = keyword.filter(|&keyword| key == "query" || keyword != "lock") {
                let message = format!("`{keyword}` affects the whole connection, which routes share");
                self.note(fields.problem_at(line, key, message));
            }
            let (file, line) = self.places.at(line);
            statements.push(SqlStatement {
                query: query.to_owned(),
                sql,
                file: file.to_owned(),
                line,
            });
        }
        (statements.len() == written.len()).then_some(statements)
    }
}
