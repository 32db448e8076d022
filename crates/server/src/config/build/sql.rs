//! `[sql.NAME]`, and `sql` of routes

use forebay_pg::{Driver, ServerUrl, Settings, Sql};

use super::{Builder, route::Behind, route::none_such};
use crate::config::fields::Fields;
use crate::config::{SqlResult, SqlRoute};

impl Builder<'_> {
    pub(super) fn source(&mut self, name: &str, fields: &Fields) -> Option<Settings> {
        self.check_name(name, "database", fields);
        let server: ServerUrl = match fields.text("url").parse() {
            Ok(server) => server,
            Err(error) => {
                // It may have a password, so it is not repeated.
                self.note(fields.problem("url", format!("what is written there {error}")));
                return None;
            }
        };
        let count = |key| usize::try_from(fields.integer(key)).unwrap_or(usize::MAX);
        Some(Settings {
            server,
            driver: match fields.text("driver") {
                "blocking" => Driver::Blocking,
                _ => Driver::Pipelined,
            },
            connections_max: count("connections_max"),
            in_flight_max: count("in_flight_max"),
            acquire_timeout: fields.duration("acquire_timeout"),
            connect_timeout: fields.duration("connect_timeout"),
            statement_timeout: fields.duration("statement_timeout"),
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
        let query = sql.text("query");
        let statement = Sql::parse(query)
            .map_err(|error| self.note(sql.problem("query", error.to_string())))
            .ok()?;
        let mut optional = Vec::new();
        for name in sql.texts("optional") {
            if !statement.names().contains(&name.text) {
                let message = format!("the statement has no parameter `:{}`", name.text);
                self.note(sql.problem_at(name.line, "optional", message));
            }
            optional.push(name.text.clone());
        }
        Some(SqlRoute {
            source: source.to_owned(),
            query: query.to_owned(),
            statement,
            optional,
            result: match sql.text("result") {
                "row" => SqlResult::Row,
                "value" => SqlResult::Value,
                _ => SqlResult::Rows,
            },
        })
    }
}
