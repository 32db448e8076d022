//! `[workflow]`, and its routes

use std::path::PathBuf;

use std::collections::BTreeMap;

use forebay_workflow::{ClientLimits, DurableRunLimits, Priority};

use super::{Builder, route::none_such, server::rotation};
use crate::fields::Fields;
use crate::substitute::is_name;
use crate::{Secret, Workflow, WorkflowApi, WorkflowClient, WorkflowRoute, WorkflowScene, WorkflowSource};
use forebay_router::Pattern;

impl Builder<'_> {
    /// Returns `None` after reporting a problem.
    pub(super) fn workflow(
        &mut self,
        fields: &Fields,
        has_store: bool,
        sources: &[&str],
        clients: &[(&str, Vec<&str>)],
    ) -> Option<Workflow> {
        let source = self.workflow_source(fields, has_store);
        let reach = fields.table("allow");
        let allow = self.allow(reach, has_store, sources);
        for (key, declared) in clients {
            for name in reach.texts(key) {
                if !declared.contains(&name.text.as_str()) {
                    let message = none_such(key, &name.text, declared);
                    self.note(reach.problem_at(name.line, key, message));
                }
            }
        }
        let programs = self.programs(reach);
        let named = |key: &str| reach.texts(key).iter().map(|name| name.text.clone()).collect();
        Some(Workflow {
            source: source?,
            is_as_rengine: fields.text("compat") == "rengine",
            timeout: fields.duration("timeout"),
            executors: match fields.integer("executors") as usize {
                0 => self.environment.cores,
                executors => executors,
            },
            engines_max: fields.integer("engines_max") as usize,
            accept_queue_max: fields.integer("accept_queue_max") as usize,
            queue_bytes_max: fields.integer("queue_bytes_max"),
            memory_max: fields.integer("memory_max"),
            output_max: fields.integer("output_max"),
            log_max: fields.integer("log_max"),
            logs: fields.opt_text("logs").map(|folder| self.resolve(fields, folder)),
            logs_rotate: rotation(fields.table("logs_rotate")),
            fetch_time_max: fields.duration("fetch_time_max"),
            fetch_bytes_max: fields.integer("fetch_bytes_max"),
            fetches_max: fields.integer("fetches_max") as u32,
            allow,
            redis: named("redis"),
            s3: named("s3"),
            mail: named("mail"),
            kafka: named("kafka"),
            pools: named("pool"),
            programs,
            process_output_max: fields.integer("process_output_max"),
            clients: self.workflow_clients(fields),
            scenes: workflow_scenes(fields),
            runs: self.kept_runs(fields.table("runs"), has_store, fields.opt_text("store")),
        })
    }

    /// Returns `None` if no durable runs are configured, or after reporting a problem.
    fn kept_runs(
        &mut self,
        runs: &Fields,
        has_store: bool,
        releases: Option<&str>,
    ) -> Option<DurableRunLimits> {
        let Some(global) = runs.opt_text("global") else {
            for key in ["kept", "open_max", "at_a_time"] {
                if runs.written(key) {
                    let message =
                        "it is for runs that are kept: `global` names the global of the store for them";
                    self.note(runs.problem(key, message));
                }
            }
            return None;
        };
        let wrong = if !has_store {
            Some("there is no store; a section `[store]` makes one".to_owned())
        } else if releases == Some(global) {
            Some(format!("{global:?} has the releases of the workflows (store)"))
        } else {
            let named = forebay_store::Key::global(global);
            named.err().map(|error| error.to_string())
        };
        if let Some(message) = wrong {
            self.note(runs.problem("global", message));
            return None;
        }
        Some(DurableRunLimits {
            global: global.to_owned(),
            kept: runs.duration("kept"),
            open_max: runs.integer("open_max") as usize,
            at_a_time: runs.integer("at_a_time") as usize,
        })
    }

    fn workflow_clients(&mut self, fields: &Fields) -> BTreeMap<String, WorkflowClient> {
        let mut clients = BTreeMap::new();
        for (id, client) in fields.table_map("clients") {
            if !client.written("secret") && !client.written("token") {
                let message = "it has no `secret` and no `token`: one of them names an environment variable";
                self.note(client.problem("secret", message));
            }
            if client.flag("releases") && !client.written("token") {
                let message = "it has no `token`, by which releases are read and changed";
                self.note(client.problem("releases", message));
            }
            let entry = WorkflowClient {
                secret: self.secret(client, "secret"),
                token: self.secret(client, "token"),
                releases: client.flag("releases"),
                limits: ClientLimits {
                    workflows: client
                        .texts("workflows")
                        .iter()
                        .map(|spot| spot.text.clone())
                        .collect(),
                    runs_max: client.opt_integer("runs_max").map(|runs| runs as usize),
                    runs_per_second: client.opt_integer("runs_per_second").map(|runs| runs as u32),
                    priority: priority(client),
                },
            };
            clients.insert(id.clone(), entry);
        }
        clients
    }

    /// The value of the environment variable named by a key.
    pub(super) fn secret(&mut self, fields: &Fields, name: &str) -> Option<Secret> {
        let variable = fields.opt_text(name)?;
        if is_name(variable) {
            return self.held_by(variable, fields, name);
        }
        let message = format!("found {variable:?}, expected the name of an environment variable");
        self.note(fields.problem(name, message));
        None
    }

    /// The programs listed in `allow.process`.
    fn programs(&mut self, allow: &Fields) -> Vec<PathBuf> {
        let mut programs = Vec::new();
        for program in allow.texts("process") {
            let path = PathBuf::from(&program.text);
            if path.is_absolute() && path.is_file() {
                programs.push(path);
            } else {
                let message = format!(
                    "found {:?}, expected the absolute path of a program that is there",
                    program.text
                );
                self.note(allow.problem_at(program.line, "process", message));
            }
        }
        programs
    }

    fn workflow_source(&mut self, fields: &Fields, has_store: bool) -> Option<WorkflowSource> {
        let Some(global) = fields.opt_text("store") else {
            let path = self.existing_folder(fields, "path")?;
            let watch = fields.flag("watch");
            return Some(WorkflowSource::Folder { path, watch });
        };
        for key in ["path", "watch"] {
            if fields.written(key) {
                let message =
                    format!("it is for workflows of a folder; these are in the store (store = {global:?})");
                self.note(fields.problem(key, message));
                return None;
            }
        }
        if !has_store {
            let message = "there is no store; a section `[store]` makes one";
            self.note(fields.problem("store", message));
            return None;
        }
        match forebay_store::Key::global(global) {
            Ok(_) => Some(WorkflowSource::Store {
                global: global.to_owned(),
            }),
            Err(error) => {
                self.note(fields.problem("store", error.to_string()));
                None
            }
        }
    }

    /// `has_releases`: the workflows are in the store. `has_publishers`: a client may change releases.
    pub(super) fn workflow_route(
        &mut self,
        fields: &Fields,
        has_releases: bool,
        has_publishers: bool,
    ) -> Option<WorkflowRoute> {
        let api = self.workflow_api(fields)?;
        let written = fields.table("workflow");
        let release = written.opt_integer("release");
        let is_about_releases = api == WorkflowApi::Releases;
        let key = if release.is_some() { "release" } else { "api" };
        let wrong = if (release.is_some() || is_about_releases) && !has_releases {
            Some("the workflows are those of a folder, which has no releases; `store` under [workflow] has")
        } else if release.is_some() && is_about_releases {
            Some("with `api = \"releases\"` the path names the release")
        } else if is_about_releases && !has_publishers {
            Some("no client may use it: `releases = true` and `token` under [workflow.clients.ID]")
        } else {
            None
        };
        if let Some(message) = wrong {
            self.note(written.problem(key, message));
        }
        Some(WorkflowRoute { api, release })
    }

    fn workflow_api(&mut self, fields: &Fields) -> Option<WorkflowApi> {
        let path = fields.text("path");
        let ends_with_rest = Pattern::parse(path).is_ok_and(|pattern| pattern.ends_with_rest());
        match fields.table("workflow").opt_text("api") {
            Some("named") if !ends_with_rest => {
                let message = format!(
                    "found {path:?}; a route with `workflow = {{ api = \"named\" }}` ends with `/*`, which names the workflow"
                );
                self.note(fields.problem("path", message));
                None
            }
            Some("releases") => {
                let is_named = Pattern::parse(path).is_ok_and(|pattern| pattern.segments().len() > 1);
                if !ends_with_rest || !is_named {
                    let message = format!(
                        "found {path:?}; a route with `workflow = {{ api = \"releases\" }}` is a name and `/*`, which names the release: \"/releases/*\""
                    );
                    self.note(fields.problem("path", message));
                }
                Some(WorkflowApi::Releases)
            }
            Some("rulescript") => Some(WorkflowApi::RuleScript),
            Some("custom") => Some(WorkflowApi::Custom),
            Some("scenes") => Some(WorkflowApi::Scenes),
            None if !ends_with_rest => Some(WorkflowApi::Scenes),
            _ => Some(WorkflowApi::Named),
        }
    }
}

fn workflow_scenes(fields: &Fields) -> BTreeMap<String, WorkflowScene> {
    let scene = |(name, scene): &(String, Fields)| {
        let entry = WorkflowScene {
            runs_max: scene.opt_integer("runs_max").map(|runs| runs as usize),
            queue_max: scene.integer("queue_max") as usize,
            timeout: scene.opt_duration("timeout"),
            priority: priority(scene),
        };
        (name.clone(), entry)
    };
    fields.table_map("scenes").iter().map(scene).collect()
}

fn priority(fields: &Fields) -> Priority {
    match fields.text("priority") {
        "high" => Priority::High,
        "low" => Priority::Low,
        _ => Priority::Normal,
    }
}
