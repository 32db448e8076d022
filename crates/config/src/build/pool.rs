//! `[pool.NAME]`

use std::collections::BTreeMap;
use std::path::PathBuf;

use forebay_runtimes::{find_python, is_executable};

use super::{Builder, route::none_such};
use crate::fields::Fields;
use crate::substitute::is_name;
use crate::{
    Compat, Interface, Link, Pool, Protocol, PythonApplication, PythonModule, Recycle, Retry, StoreMode,
    Worker, Workers, python, runtime,
};

/// Environment variables set by the worker protocol; PROTOCOL.md, section 1.
const PROTOCOL_VARIABLES: [&str; 22] = [
    "FOREBAY_PROTOCOL",
    "FOREBAY_LINK",
    "FOREBAY_POOL",
    "FOREBAY_WORKER",
    "FOREBAY_CONCURRENCY",
    "FOREBAY_MESSAGE_BYTES_MAX",
    "FOREBAY_HANDLER",
    "FOREBAY_START",
    "FOREBAY_LINK_FD",
    "FOREBAY_GENERATION",
    "FOREBAY_PARENT",
    "FOREBAY_PAGE_FD",
    "FOREBAY_BELL_FD",
    "FOREBAY_CALL_FD",
    "FOREBAY_SQL",
    "FOREBAY_SQL_DIRECT",
    "FOREBAY_RECORDS",
    "FOREBAY_STORE",
    "FOREBAY_STORE_MODE",
    "FOREBAY_STORE_DURABILITY",
    "FOREBAY_STORE_VALUE_BYTES_MAX",
    "FOREBAY_STORE_READER_AGE_MAX_MS",
];

/// Keys valid only for pools with a Python handler.
const PYTHON_KEYS: [&str; 4] = ["python", "interface", "mount", "encoded_slashes"];

impl Builder<'_> {
    /// Returns `None` after reporting a problem.
    pub(super) fn pool(
        &mut self,
        name: &str,
        fields: &Fields,
        has_store: bool,
        sources: &[&str],
    ) -> Option<Pool> {
        self.check_name(name, "pool", fields);
        let worker = self.worker(fields);
        let recycle = fields.table("recycle");
        let cwd = self.existing_folder(fields, "cwd");
        let pool = Pool {
            name: name.to_owned(),
            worker: worker?,
            workers: self.workers(fields.table("workers")),
            concurrency: fields.integer("concurrency") as u32,
            queue_max: fields.integer("queue_max") as usize,
            queue_bytes_max: fields.integer("queue_bytes_max"),
            queue_timeout: fields.duration("queue_timeout"),
            run_timeout: fields.duration("run_timeout"),
            kill_grace: fields.duration("kill_grace"),
            idle_retire: fields.duration("idle_retire"),
            recycle: Recycle {
                jobs: recycle.integer("jobs"),
                age: recycle.duration("age"),
                rss_bytes: recycle.integer("rss"),
            },
            retry: retry(fields.text("retry")),
            env: self.env(fields),
            env_pass: self.env_pass(fields),
            cwd: cwd?,
            store: self.store_mode(fields, has_store),
            protocol: self.protocol(fields),
            message_bytes_max: fields.integer("message_bytes_max"),
            sql: self.pool_sql(fields, sources),
        };
        Some(pool)
    }

    fn worker(&mut self, fields: &Fields) -> Option<Worker> {
        match (fields.written("handler"), fields.written("command")) {
            (true, false) if is_python(fields) => self.python(fields),
            (true, false) => self.handler(fields),
            (false, true) => self.command(fields),
            (both, _) => {
                let found = if both { "both" } else { "neither" };
                let message = format!("found {found}; a pool has either a `handler` or a `command`");
                self.note(fields.problem("handler", message));
                None
            }
        }
    }

    fn handler(&mut self, fields: &Fields) -> Option<Worker> {
        self.refuse(
            fields,
            &PYTHON_KEYS,
            "only a pool whose handler Python runs has it",
        );
        let start = self.existing_file(fields, "start");
        let handler = self.existing_file(fields, "handler")?;
        match runtime::choose(
            fields.text("runtime"),
            &handler,
            self.folder(fields),
            self.environment,
        ) {
            Ok((runtime, program)) => Some(Worker::Script {
                runtime,
                program,
                handler,
                start,
                runtime_flags: Vec::new(),
            }),
            Err(error) => {
                self.note(fields.problem("runtime", error.to_string()));
                None
            }
        }
    }

    fn python(&mut self, fields: &Fields) -> Option<Worker> {
        let start = self.existing_file(fields, "start");
        let mount = fields.opt_text("mount");
        if let Some(problem) = mount.and_then(python::mount_problem) {
            self.note(fields.problem("mount", problem));
        }
        let program = find_python(fields.opt_text("python"), self.folder(fields), self.environment)
            .map_err(|error| {
                let key = if fields.written("python") {
                    "python"
                } else {
                    "runtime"
                };
                self.note(fields.problem(key, error.to_string()));
            })
            .ok();
        let handler = python::Handler::read(fields.text("handler"));
        let module = self.python_module(fields, &handler)?;
        Some(Worker::Python {
            program: program?,
            application: PythonApplication {
                module,
                object: handler.object.map(str::to_owned),
                interface: interface(fields.text("interface")),
                mount: mount.map(str::to_owned),
                encoded_slashes: fields.text("encoded_slashes") == "decode",
            },
            start,
        })
    }

    fn python_module(&mut self, fields: &Fields, handler: &python::Handler<'_>) -> Option<PythonModule> {
        if handler.is_file() {
            let path = self.resolve(fields, handler.place);
            if path.is_file() {
                return Some(PythonModule::File(path));
            }
            self.note(fields.problem("handler", format!("there is no file `{}`", path.display())));
            return None;
        }
        if handler.is_module() {
            return Some(PythonModule::Named(handler.place.to_owned()));
        }
        let message = format!(
            "found {:?}, expected a file such as `app.py` or a module such as `package.module`, and after a colon, perhaps, \
             the object in it",
            fields.text("handler")
        );
        self.note(fields.problem("handler", message));
        None
    }

    /// Reports those of these keys that are set although they have no effect here.
    fn refuse(&mut self, fields: &Fields, names: &[&str], why: &str) {
        for name in names.iter().filter(|name| fields.written(name)) {
            self.note(fields.problem(name, why));
        }
    }

    fn command(&mut self, fields: &Fields) -> Option<Worker> {
        self.refuse(
            fields,
            &["runtime", "start"],
            "only a pool with a `handler` has it",
        );
        self.refuse(
            fields,
            &PYTHON_KEYS,
            "only a pool whose handler Python runs has it",
        );
        let mut command: Vec<String> = fields
            .texts("command")
            .iter()
            .map(|spot| spot.text.clone())
            .collect();
        let first = &command[0];
        let Some(program) = self.program(fields, first) else {
            self.note(fields.problem("command", format!("there is no program `{first}`")));
            return None;
        };
        if first.contains('/') && self.places.is_included(fields.line) {
            // The printed configuration is a single file, to whose folder relative paths would then refer.
            command[0] = program.to_string_lossy().into_owned();
        }
        Some(Worker::Command { program, command })
    }

    /// As in a shell, a word with a slash is a path, any other is the name of a program.
    fn program(&self, fields: &Fields, word: &str) -> Option<PathBuf> {
        if word.contains('/') {
            return Some(self.resolve(fields, word)).filter(|file| is_executable(file));
        }
        (self.environment.find_program)(word)
    }

    fn workers(&mut self, fields: &Fields) -> Workers {
        let min = fields.integer("min") as usize;
        let max = match fields.integer("max") as usize {
            0 => self.environment.cores.max(min),
            max => max,
        };
        if min > max {
            self.note(fields.problem("min", format!("found {min}, which is more than max ({max})")));
        }
        Workers { min, max }
    }

    fn env(&mut self, fields: &Fields) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        for (name, value) in fields.text_map("env") {
            self.check_variable(fields, value.line, &format!("env.{name}"), name);
            env.insert(name.clone(), value.text.clone());
        }
        env
    }

    fn env_pass(&mut self, fields: &Fields) -> Vec<String> {
        let names = fields.texts("env_pass");
        for name in names {
            self.check_variable(fields, name.line, "env_pass", &name.text);
        }
        names.iter().map(|name| name.text.clone()).collect()
    }

    fn protocol(&mut self, fields: &Fields) -> Protocol {
        let name = fields.text("protocol");
        if name != "wabur" && fields.written("compat") {
            let message = "only a pool with `protocol = \"wabur\"` has it".to_owned();
            self.note(fields.problem("compat", message));
        }
        if name == "framed" && fields.written("message_bytes_max") {
            let message =
                "only a pool whose protocol is \"jsonl\" or \"wabur\" has it: frames come in pieces"
                    .to_owned();
            self.note(fields.problem("message_bytes_max", message));
        }
        let link = fields.opt_text("link");
        if name != "framed" && link == Some("socket") {
            let message = format!("found \"socket\"; `protocol = \"{name}\"` is spoken on \"stdio\" only");
            self.note(fields.problem("link", message));
        }
        let is_python = fields.written("handler") && is_python(fields);
        if is_python && (name != "framed" || link == Some("stdio")) {
            let message = "a handler that Python runs has frames on a socket".to_owned();
            self.note(fields.problem(if name == "framed" { "link" } else { "protocol" }, message));
        }
        match name {
            "jsonl" => Protocol::Jsonl,
            "wabur" if fields.text("compat") == "wabur" => Protocol::Wabur(Compat::Wabur),
            "wabur" => Protocol::Wabur(Compat::None),
            _ if link == Some("stdio") => Protocol::Framed(Link::Stdio),
            _ => Protocol::Framed(Link::Socket),
        }
    }

    fn store_mode(&mut self, fields: &Fields, has_store: bool) -> StoreMode {
        let mode = match fields.opt_text("store") {
            Some("rw") => StoreMode::ReadWrite,
            Some("ro") => StoreMode::ReadOnly,
            None if has_store => StoreMode::ReadWrite,
            _ => StoreMode::None,
        };
        if mode != StoreMode::None && !has_store {
            self.note(fields.problem("store", "there is no store: the file has no [store]"));
        }
        mode
    }

    /// The databases its handlers may use.
    fn pool_sql(&mut self, fields: &Fields, sources: &[&str]) -> Vec<String> {
        let names = fields.texts("sql");
        if !names.is_empty() && fields.text("protocol") != "framed" {
            let message = "only a pool whose protocol is \"framed\" has it".to_owned();
            self.note(fields.problem("sql", message));
        }
        for name in names {
            if !sources.contains(&name.text.as_str()) {
                self.note(fields.problem_at(name.line, "sql", none_such("sql", &name.text, sources)));
            }
        }
        names.iter().map(|name| name.text.clone()).collect()
    }

    fn check_variable(&mut self, fields: &Fields, line: usize, key: &str, name: &str) {
        if !is_name(name) {
            let message = format!(
                "{name:?} is not a variable's name: expected letters, digits and `_`, no digit first"
            );
            self.note(fields.problem_at(line, key, message));
        } else if PROTOCOL_VARIABLES.contains(&name) {
            self.note(fields.problem_at(line, key, format!("the worker protocol sets {name} itself")));
        }
    }
}

/// Whether the handler is Python.
fn is_python(fields: &Fields) -> bool {
    match fields.text("runtime") {
        "python" => true,
        "auto" => python::Handler::read(fields.text("handler")).is_python(),
        _ => false,
    }
}

/// The reader has already checked the word.
fn interface(word: &str) -> Interface {
    match word {
        "forebay" => Interface::Forebay,
        "wsgi" => Interface::Wsgi,
        "asgi" => Interface::Asgi,
        _ => Interface::Auto,
    }
}

/// The reader has already checked the word.
pub(super) fn retry(word: &str) -> Retry {
    if word == "idempotent" {
        Retry::Idempotent
    } else {
        Retry::Never
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_protocol_names_the_variables_that_a_pool_cannot_set() {
        let protocol = include_str!("../../../../protocol/PROTOCOL.md");
        let rows = protocol.lines().filter(|line| line.starts_with("| `FOREBAY_"));
        let named: BTreeSet<&str> = rows
            .filter_map(|row| row.split('|').nth(1))
            .flat_map(|names| names.split('`').skip(1).step_by(2))
            .collect();
        assert_eq!(named, BTreeSet::from(PROTOCOL_VARIABLES));
    }
}
