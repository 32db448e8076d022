//! `[script.NAME]`

use std::path::{Path, PathBuf};

use forebay_script::FetchHost;

use super::{Builder, route::none_such};
use crate::fields::Fields;
use crate::{Script, ScriptAllow, ScriptPlacement};

impl Builder<'_> {
    /// Returns `None` after reporting a problem.
    pub(super) fn script(
        &mut self,
        name: &str,
        fields: &Fields,
        has_store: bool,
        sources: &[&str],
    ) -> Option<Script> {
        self.check_name(name, "script", fields);
        let handler = self.existing_file(fields, "handler");
        let allow = self.allow(fields.table("allow"), has_store, sources);
        let handler = handler?;
        let modules = match fields.opt_text("modules") {
            None => handler.parent().map(Path::to_path_buf).unwrap_or_default(),
            Some(written) => {
                let folder = self.resolve(fields, written);
                if !folder.is_dir() || !handler.starts_with(&folder) {
                    let message = format!(
                        "found {written:?}, expected a folder that has the handler in it, or below it"
                    );
                    self.note(fields.problem("modules", message));
                }
                folder
            }
        };
        Some(Script {
            name: name.to_owned(),
            handler,
            modules,
            on: match fields.text("on") {
                "io" => ScriptPlacement::Io,
                "executor" => ScriptPlacement::Executor,
                _ => ScriptPlacement::Auto,
            },
            io_input_max: fields.integer("io_input_max"),
            io_cpu_max: fields.duration("io_cpu_max"),
            cpu_max: fields.duration("cpu_max"),
            time_max: fields.duration("time_max"),
            memory_max: fields.integer("memory_max"),
            output_max: fields.integer("output_max"),
            in_flight_max: fields.integer("in_flight_max") as usize,
            queue_bytes_max: fields.integer("queue_bytes_max"),
            executors: match fields.integer("executors") as usize {
                0 => self.environment.cores,
                executors => executors,
            },
            engines_max: fields.integer("engines_max") as usize,
            isolated: fields.flag("isolated"),
            fetch_time_max: fields.duration("fetch_time_max"),
            fetch_bytes_max: fields.integer("fetch_bytes_max"),
            fetches_max: fields.integer("fetches_max") as u32,
            allow,
        })
    }

    /// The permissions of a script or of rules.
    pub(super) fn allow(&mut self, fields: &Fields, has_store: bool, sources: &[&str]) -> ScriptAllow {
        let store = fields.texts("store");
        if let (Some(first), false) = (store.first(), has_store) {
            let message = "there is no store: the file has no [store]".to_owned();
            self.note(fields.problem_at(first.line, "store", message));
        }
        for source in fields.texts("sql") {
            if !sources.contains(&source.text.as_str()) {
                let message = none_such("sql", &source.text, sources);
                self.note(fields.problem_at(source.line, "sql", message));
            }
        }
        ScriptAllow {
            store: store.iter().map(|global| global.text.clone()).collect(),
            fetch: self.fetch_hosts(fields),
            sql: fields.texts("sql").iter().map(|name| name.text.clone()).collect(),
            files: self.file_folders(fields),
        }
    }

    /// The hosts listed in `allow.fetch`.
    fn fetch_hosts(&mut self, allow: &Fields) -> Vec<FetchHost> {
        let mut hosts = Vec::new();
        for host in allow.texts("fetch") {
            match host.text.parse::<FetchHost>() {
                Ok(host) => hosts.push(host),
                Err(error) => self.note(allow.problem_at(host.line, "fetch", error.to_string())),
            }
        }
        hosts
    }

    /// The folders listed in `allow.files`.
    fn file_folders(&mut self, allow: &Fields) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        for folder in allow.texts("files") {
            let path = self.resolve(allow, &folder.text);
            if path.is_dir() {
                folders.push(path);
            } else {
                let message = format!("there is no folder `{}`", path.display());
                self.note(allow.problem_at(folder.line, "files", message));
            }
        }
        folders
    }
}
