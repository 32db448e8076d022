//! `[sql.NAME]`, and `sql` of routes

use std::path::PathBuf;
use std::time::Duration;

use forebay_pg::{Driver, Isolation, ServerUrl, Settings, Sql};

use crate::build::Context;
use crate::fields::Fields;
use crate::key::{GIB, KIB};
use crate::section::{Entry, Unused, section, unless, words};
use crate::setting::{Text, parsed, text_settings};

section! {
    /// A database of PostgreSQL. NAME has 1 to 64 letters, digits, `-` and `_`.
    pub struct Database {
        /// The server, the database, and who connects: `postgres://user:password@host:5432/database`; what is not plain in a part is
        /// percent-encoded. Connections are encrypted and the server's certificate is verified (`?sslrootcert=FILE`: by the authorities in
        /// that file); `?sslmode=disable` has them plain.
        url: ServerUrl,
        /// `async`: each I/O thread has up to two connections, and sends statements on them without waiting for the answers before.
        /// `blocking`: each statement has a connection for itself, and a thread that waits; the statements of a `pipeline` share one, and
        /// are sent together as far as 16 KiB of them go.
        driver: Driver = "async",
        /// Handlers in pools connect to it themselves, with a client of their own, to `sql.NAME.url`; routes and scripts have the server's
        /// connections all the same.
        direct: bool = "false",
        /// Connections to the server, including those of streams and transactions. With `driver = "async"` it must be at least one more
        /// than the number of threads that run statements (I/O threads, and executors of scripts that may); the default is 16, or that
        /// number if it is higher.
        connections_max: usize as integer(1, 10_000) = "16" => "statements wait",
        /// Connections for statements that are made with the first of them, and kept however long they have nothing to do. Only `driver =
        /// "blocking"` has it.
        connections_min: usize as integer(0, 10_000) = "0",
        /// How old a connection becomes: it is replaced once it has nothing to do, some a tenth earlier, so that not all are at once. Those
        /// on which statements are pipelined stay as long as they work.
        connection_age_max: Duration as TIMEOUT = "30m",
        /// A connection unused for this long is closed, except those with pipelined statements.
        idle_timeout: Duration as TIMEOUT = "10m",
        /// The log tells of a stream or a transaction that has had its connection for so long: it may have been forgotten.
        leak_warning: Duration as TIMEOUT = "1m",
        /// Statements under way and waiting.
        in_flight_max: usize as integer(1, 1_000_000) = "1024" => "503",
        /// Largest result that is gathered in memory, as the server sends it. A route with `result = "rows"` whose statement only reads
        /// sends a larger one as its rows come.
        result_bytes_max: usize as size(KIB, GIB) = "16MiB" => "500",
        /// How long a statement waits for a connection.
        acquire_timeout: Duration as TIMEOUT = "2s" => "503",
        /// From the beginning of a connection until it can be used.
        connect_timeout: Duration as TIMEOUT = "5s" => "503",
        /// From the beginning of a statement to its last row.
        statement_timeout: Duration as TIMEOUT = "10s" => "504",
        /// Statements that take at least this long, including the wait for a connection, are logged, shortened and without parameters, at
        /// most ten lines a second. Off by default.
        slow_query: Option<Duration> as TIMEOUT,
    }
}

section! {
    /// Statements run by a route.
    #[check(SqlRoute::check)]
    #[unused(SqlRoute::unused)]
    pub struct SqlRoute {
        /// The NAME of a `[sql.NAME]`.
        source: String as name("sql"),
        /// The statement. `:name` is a parameter: of the path, else of the query, else a member of the JSON body. A route has this or
        /// `statements`.
        query: Option<SqlStatement>,
        /// Statements that are one transaction: all of them take effect, or none. The last one's result is the answer. What stood in the
        /// way of another transaction (SQLSTATE 40001, 40P01) is run again, four times at most.
        statements: Option<Vec<SqlStatement>> as at_least(1),
        /// The isolation level of transactions with several `statements`, as in the database's manual.
        isolation: Isolation = "read committed",
        /// Parameters that a request may leave out: they are null then. One that is missing and not listed here is answered with 400.
        optional: Vec<String> = "",
        /// `rows`: an array of objects. `row`: the first row as an object, `value`: its first value; 404 when there is none. `ndjson`: an
        /// object a line, `csv`: lines of RFC 4180 behind one with the columns' names, both sent as the rows come, however many there are.
        /// A statement that gives no rows is answered with 204; with 404 where `row` or `value` changes none.
        result: SqlResult = "rows",
    }
}

words! {
    /// The part of the last statement's result that is the response.
    pub enum SqlResult {
        /// An array of all rows.
        Rows = "rows",
        /// The first row; 404 without one.
        Row = "row",
        /// The first column of the first row.
        Value = "value",
        /// All rows as they arrive, one JSON value per line.
        Ndjson = "ndjson",
        /// All rows as they arrive, in the CSV format of RFC 4180 after a line of column names.
        Csv = "csv",
    }
}

words! {
    for Driver {
        Pipelined = "async",
        Blocking = "blocking",
    }
}

words! {
    for Isolation {
        ReadCommitted = "read committed",
        RepeatableRead = "repeatable read",
        Serializable = "serializable",
    }
}

// A URL may contain a password, so the errors do not repeat it.
parsed!("what is written there ": ServerUrl);

impl Database {
    /// `threads` is the number of threads that run statements on it.
    pub(crate) fn check(&mut self, threads: usize, fields: &Fields, context: &mut Context<'_>) {
        let needed = match self.driver {
            Driver::Blocking => 2,
            Driver::Pipelined => threads + 1,
        };
        if !fields.has("connections_max") {
            self.connections_max = self.connections_max.max(needed);
        } else if self.connections_max < needed {
            let why = match self.driver {
                Driver::Pipelined => format!(
                    "with driver = \"async\" each of the {threads} threads that run statements has one, and streams and transactions have one; with \"blocking\" threads share theirs"
                ),
                Driver::Blocking => {
                    "statements have one at any rate, and streams and transactions".to_owned()
                }
            };
            let message = format!(
                "found {}, expected at least {needed}: {why}",
                self.connections_max
            );
            context.note(fields.problem("connections_max", message));
        }
        if self.driver == Driver::Pipelined && self.connections_min > 0 {
            let message = "only driver = \"blocking\" has it: with \"async\" connections stay that were made";
            context.note(fields.problem("connections_min", message));
        } else if self.connections_min >= self.connections_max {
            let message = format!(
                "found {}, expected less than connections_max ({}): streams and transactions have one",
                self.connections_min, self.connections_max
            );
            context.note(fields.problem("connections_min", message));
        }
    }

    /// As the drivers take them.
    pub fn settings(&self) -> Settings {
        Settings {
            server: self.url.clone(),
            driver: self.driver,
            connections_max: self.connections_max,
            connections_min: self.connections_min,
            connection_age_max: self.connection_age_max,
            idle_timeout: self.idle_timeout,
            leak_warning: self.leak_warning,
            in_flight_max: self.in_flight_max,
            result_bytes_max: self.result_bytes_max,
            acquire_timeout: self.acquire_timeout,
            connect_timeout: self.connect_timeout,
            statement_timeout: self.statement_timeout,
            slow_query: self.slow_query,
        }
    }
}

impl SqlRoute {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        let (has_query, is_transaction) = (fields.has("query"), fields.has("statements"));
        if has_query == is_transaction {
            let found = if has_query { "both" } else { "none" };
            let message = format!(
                "found {found}; a route has `query`, which is one statement, or `statements`, which are a transaction"
            );
            return context.note(fields.problem("query", message));
        }
        if is_transaction && matches!(self.result, SqlResult::Ndjson | SqlResult::Csv) {
            let message = "a transaction is over before it is answered, so its rows are not sent as they come: \"rows\", \"row\" and \"value\" are accepted with `statements`";
            context.note(fields.problem("result", message));
        }
        if self.statements().len() != fields.texts("statements").len() + usize::from(has_query) {
            return;
        }
        for name in fields.texts("optional") {
            let has_it = |statement: &SqlStatement| statement.sql.names().contains(&name.text);
            if !self.statements().iter().any(has_it) {
                let message = format!("the statement has no parameter `:{}`", name.text);
                context.note(fields.problem_at(name.line, "optional", message));
            }
        }
    }

    fn unused(&self) -> Unused {
        let why = "only `statements` have it: a `query` sees one state of the database at any rate";
        unless(self.statements.is_some(), &["isolation"], why)
    }

    /// All of them, in order; at least one.
    pub fn statements(&self) -> &[SqlStatement] {
        match &self.query {
            Some(query) => std::slice::from_ref(query),
            None => self.statements.as_deref().unwrap_or_default(),
        }
    }

    /// The isolation level of the transaction around the statements; `None`: a single statement without one.
    pub fn transaction(&self) -> Option<Isolation> {
        self.statements.is_some().then_some(self.isolation)
    }
}

/// One statement.
#[derive(Debug, Clone)]
pub struct SqlStatement {
    /// The statement as written.
    pub query: String,
    /// The statement with numbered parameters in place of names.
    pub sql: Sql,
    /// The file that contains it.
    pub file: PathBuf,
    /// The line where it begins.
    pub line: usize,
}

impl PartialEq for SqlStatement {
    /// Ignores the position in the file.
    fn eq(&self, other: &Self) -> bool {
        self.query == other.query
    }
}

impl Eq for SqlStatement {}

impl Text for SqlStatement {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let sql = match Sql::parse(written) {
            Ok(sql) => sql,
            Err(error) => {
                entry.note(context, line, error.to_string());
                return None;
            }
        };
        // A lock would end with its transaction.
        let keyword = sql.session_keyword();
        if let Some(keyword) = keyword.filter(|&keyword| entry.key.name == "query" || keyword != "lock") {
            let message = format!("`{keyword}` affects the whole connection, which routes share");
            entry.note(context, line, message);
        }
        let (file, line) = context.places.at(line);
        Some(Self {
            query: written.to_owned(),
            sql,
            file: file.to_owned(),
            line,
        })
    }

    fn to_text(&self) -> String {
        self.query.clone()
    }
}
text_settings!(SqlStatement);
